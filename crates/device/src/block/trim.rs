//! Trim, and writing of zeros: whole units are unmapped, partial ones are overwritten with zeros.
//!
//! A page that a command waits for is never unmapped under it: its entry is programmed, as data or as zeros.

use super::buffer::Phase;
use super::core::Core;
use super::{discards, erases, flush, programs, read, write};
use crate::firmware::Chore;
use crate::probes;
use crate::shared::Shared;
use pellucid_flash::Lpn;
use pellucid_ftl::Located;

/// Trim, or write zeros: whole units are unmapped, partial ones are overwritten with zeros.
pub(super) fn start_trim(core: &mut Core, shared: &mut Shared, work: u32) {
    let (lba, sectors) = (shared.works[work].command.lba.0, u64::from(shared.works[work].command.sectors));
    let per_unit = u64::from(shared.layout.sectors_per_unit);
    let (first, end) = (lba.div_ceil(per_unit), (lba + sectors) / per_unit);
    // Held open until all parts are started.
    shared.works[work].slices_left = 1;
    if first > end {
        // Inside one unit.
        zero_part(core, shared, work, lba, sectors);
    } else {
        zero_part(core, shared, work, lba, first * per_unit - lba);
        charge_trim(core, shared, first as u32, end as u32);
        for unit in first..end {
            trim_unit(core, shared, Lpn(unit as u32));
        }
        zero_part(core, shared, work, end * per_unit, lba + sectors - end * per_unit);
    }
    erases::erase_emptied(&mut core.side, shared);
    discards::forget_outdated(&mut core.side, shared);
    shared.works[work].slices_left -= 1;
    if shared.works[work].slices_left == 0 {
        shared.works[work].mark = shared.now;
        shared.ask_complete(work);
    }
}

/// The firmware looks for whole units in the buffer and invalidates their copies.
fn charge_trim(core: &Core, shared: &mut Shared, first: u32, end: u32) {
    if first == end {
        return;
    }
    shared.charge(Chore::Lookup, end - first);
    if shared.firmware.is_priced(Chore::Invalidate) {
        let stored = (first..end).filter(|&unit| core.side.locate(Lpn(unit)).is_some()).count();
        programs::charge_overwritten(shared, stored as u32);
    }
}

fn zero_part(core: &mut Core, shared: &mut Shared, work: u32, lba: u64, sectors: u64) {
    if sectors == 0 {
        return;
    }
    let lpn = Lpn((lba / u64::from(shared.layout.sectors_per_unit)) as u32);
    // Never-written data are zero already.
    if core.side.translation.peek(lpn) != Located::Zero || core.buffer.find(lpn).is_some() {
        write::cut(core, shared, work, lba, sectors as u32, true);
    }
}

fn trim_unit(core: &mut Core, shared: &mut Shared, lpn: Lpn) {
    let found = core.buffer.find(lpn);
    let awaited = found.is_some_and(|entry| core.buffer[entry].is_flushing());
    if let Some(entry) = found {
        core.buffer.busy(entry);
        if core.buffer[entry].phase() == Phase::Programming {
            // Programmed nevertheless: commands that wait for it were promised that it, or the trim, survives a power cut.
            core.buffer.unlist(entry);
        } else if !core.buffer[entry].waiters().for_program().is_empty() {
            // A command waits until its data are on the media. They are followed there by zeros.
            return zero_awaited(core, shared, entry);
        } else if core.buffer[entry].phase() == Phase::Packed {
            core.buffer.unlist(entry);
            core.buffer[entry].drop_data();
            flush::flushed(core, entry);
        } else {
            zero(core, shared, entry);
            let record = &mut core.buffer[entry];
            record.unmap();
            record.users_mut().hold();
            flush::flushed(core, entry);
            read::release(core, shared, entry);
        }
    }
    core.side.translation.trim(lpn);
    probes::observe_trimmed(shared, core.side.stored_at(lpn));
    core.behind.wake(lpn);
    if awaited {
        // The trim stands for the data that the flush in progress waited for: without either, an older version could come back.
        flush::flush_waits_for_trims(core);
    }
}

/// A page that a forced write waits for is overwritten with zeros instead of being unmapped.
pub(super) fn zero_awaited(core: &mut Core, shared: &mut Shared, entry: u32) {
    zero(core, shared, entry);
    core.buffer.hold_for_write(entry);
    let record = &mut core.buffer[entry];
    record.rewrite();
    record.users_mut().hold();
    read::release(core, shared, entry);
}

fn zero(core: &mut Core, shared: &mut Shared, entry: u32) {
    core.buffer.images_mut(entry, 0, shared.layout.sectors_per_unit).fill(0);
    core.buffer[entry].fill(shared.full);
}
