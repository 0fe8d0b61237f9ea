//! Writes that fail: a program that must be repeated, old content that cannot be read, a drive without space.

use super::core::Core;
use super::tenancy::Tenancy;
use super::{behind, flush, metadata, programs, read, starved, tenancy, trim, write};
use crate::front::commands::Work;
use crate::shared::Shared;
use pellucid_flash::{StageTimes, Status};
use pellucid_ftl::Located;

/// Handles the failed program of an entry. If the entry is still the page's newest version, it is programmed again;
/// otherwise the newer entry takes over its waiters.
pub(super) fn program_again(core: &mut Core, shared: &mut Shared, entry: u32, stages: &StageTimes) {
    let (list, now) = (core.buffer[entry].waiters().for_program(), shared.now);
    list.for_each(&mut shared.slices, |slice| slice.add_stages(stages, now));
    if core.buffer[entry].is_listed() {
        core.buffer[entry].try_again();
        write::pack(core, shared, entry);
        return;
    }
    let dirty = core.buffer[entry].take_dirty();
    core.buffer[entry].users_mut().hold();
    let (lpn, written_at) = (core.buffer[entry].lpn(), core.buffer[entry].written_at());
    let newer = core.buffer.find(lpn).filter(|&newer| tenancy::takes_over(core, shared, newer, entry));
    if newer.is_none() && core.buffer[entry].is_flushing() {
        // The flush in progress waited for these data; now it waits for the trim that made the page absent. (The trim found a newer
        // entry, for which the flush did not wait.)
        flush::flush_waits_for_trims(core);
    }
    match newer {
        Some(newer) => {
            // It began as a copy of this one, so it carries these sectors, or newer ones; or after a trim of the
            // page, and a fill brings zeros for those that it lacks.
            core.buffer.busy(newer);
            read::bring(core, shared, newer);
            core.buffer.hold_for_write(newer);
            if core.buffer[newer].follows() == entry {
                let lacks = core.buffer[entry].sectors().valid() & !core.buffer[newer].sectors().valid();
                core.buffer.copy_sectors(entry, newer, lacks);
                if lacks != 0 {
                    let state = core.buffer[entry].admitted().is_dirty();
                    core.buffer[newer].admitted_mut().set_dirty(state);
                }
            }
            let mut waiting = core.buffer[entry].waiters_mut().take_for_program();
            let held = &mut core.buffer[newer];
            held.take_over(dirty, written_at);
            while let Some(slice) = waiting.pop(&mut shared.slices) {
                held.waiters_mut().await_program(&mut shared.slices, slice);
            }
            core.buffer.pass_flush(entry, newer);
            write::dispatch(core, shared, newer);
        }
        // Trimmed, but a power cut may still bring back what is older than the data that a command waits for.
        None if core.tenancy() == Tenancy::Admitted => {
            programs::acknowledge(core, shared, entry, None, Status::WriteFault)
        }
        None if !core.buffer[entry].waiters().for_program().is_empty()
            && !matches!(core.side.translation.peek(lpn), Located::At(_)) =>
        {
            core.buffer.list(entry);
            core.buffer[entry].try_again();
            trim::zero_awaited(core, shared, entry);
            return read::release(core, shared, entry);
        }
        // The newer one is on the media, or no command waits.
        None => programs::acknowledge(core, shared, entry, None, Status::Success),
    }
    flush::flushed(core, entry);
    tenancy::unpin(core, entry);
    read::release(core, shared, entry);
}

/// The old content of an entry that must be written cannot be read, so its new sectors cannot be stored either.
pub(super) fn lose(core: &mut Core, shared: &mut Shared, entry: u32) {
    debug_assert!(core.tenancy() == Tenancy::Every, "admitted pages are written whole");
    core.buffer.busy(entry);
    let waiting = core.buffer[entry].waiters().for_program();
    let mut told = 0;
    waiting.for_each(&mut shared.slices, |slice| told |= slice.mask());
    let record = &mut core.buffer[entry];
    // Sectors for which no write waits were acknowledged.
    let acknowledged = record.sectors().dirty() & !told != 0 && !record.is_dropped();
    record.lose();
    if acknowledged {
        core.flushes.note_loss(record.written_at());
    }
    programs::acknowledge(core, shared, entry, None, Status::WriteFault);
    flush::flush_failed(core, entry);
}

/// As [`give_up_writing`], if commands of the namespace wait.
pub(super) fn give_up_if_stuck(core: &mut Core, shared: &mut Shared) {
    let number = core.side.number();
    if shared.works.iter().any(|work: &Work| work.fetched && work.command.namespace == number) {
        give_up_writing(core, shared);
        // Reads that go on now may have to be looked up.
        metadata::write_map(&mut core.side, shared);
    }
}

/// Makes the namespace read-only when commands wait but no progress is possible: no space is left, and none can be reclaimed. Data in
/// the buffer stay there and can be read.
fn give_up_writing(core: &mut Core, shared: &mut Shared) {
    core.side.end_writing();
    core.queue.give_up_space();
    for queue in core.queue.queues() {
        // These only: slices that get an entry below may pack others.
        for entry in core.queue.take_all(queue) {
            core.queue.end_leaving();
            let record = &mut core.buffer[entry];
            record.give_up();
            record.users_mut().hold();
            programs::acknowledge(core, shared, entry, None, Status::WriteFault);
            flush::flush_failed(core, entry);
            if !core.buffer[entry].is_listed() {
                tenancy::unpin(core, entry);
            }
            read::release(core, shared, entry);
        }
    }
    // Reads go on one after the other, whatever the buffer cannot get rid of; writes are refused in their turn.
    if !core.starved.is_line_empty() && !starved::make_vacancy(core, shared) {
        core.buffer.grow();
    }
    starved::feed_starved(core, shared);
    flush::fail_flushes(core, shared);
    core.behind.wake_all();
    behind::let_behind_go_on(core, shared);
}
