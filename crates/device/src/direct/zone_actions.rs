//! Zone management: open, close, finish and reset, one action at a time in a zone.
//!
//! ```text
//!  action ─► zone quiet? ── no: waits until its programs, reads and log have ended ──┐
//!              │ yes                                                               ◄─┘
//!              ├─ finish: what is there of the last superpage is padded and programmed ─► full
//!              ├─ offline (read-only zones): verdict logged ─► offline; no room in the log: refused
//!              └─ reset: tombstone, if the log knows the zone ─► its units erased, superpage 0 first ─► empty
//! ```
//! Invariant: until superpage 0 is erased a reset has not happened.

use super::zone_log;
use super::zone_write;
use crate::direct;
use crate::direct::DirectPath;
use crate::direct::zone_buffer::ZoneNamespace;
use crate::front::commands::{Place, Route};
use crate::shared::Shared;
use pellucid_flash::slab::NIL;
use pellucid_flash::{BlockId, Command, Opcode, Ppa, Stage, Status, ZoneAction, ZoneOp, ZoneState};
use pellucid_ftl::ZoneWork;

pub(super) fn zone_action(zoned: &mut ZoneNamespace, shared: &mut Shared, work: u32, action: ZoneAction) {
    let Command { lba, .. } = shared.works[work].command;
    let count = zoned.zones.geometry().zones;
    if action as u8 & 0x80 == 0 {
        let (zone, offset) = zoned.zones.zone_of(lba).expect("checked at submission");
        if offset != 0 {
            return shared.works[work].merge_status(Status::InvalidField, 0);
        }
        return act_on_zone(zoned, shared, work, zone, action);
    }
    if action == ZoneAction::OpenAll && !zoned.zones.may_open_all() {
        return shared.works[work].merge_status(Status::TooManyOpenZones, 0);
    }
    // Collected first: the effects of one zone's action on another must not change which zones are concerned.
    let zones = &zoned.zones;
    let concerned: Vec<_> =
        (0..count).filter_map(|zone| Some((zone, zones.concerned(zone, action)?))).collect();
    for (zone, action) in concerned {
        act_on_zone(zoned, shared, work, zone, action);
    }
}

fn act_on_zone(zoned: &mut ZoneNamespace, shared: &mut Shared, work: u32, zone: u32, action: ZoneAction) {
    match zoned.zones.act(zone, action) {
        Err(status) => shared.works[work].merge_status(status, 0),
        // One that was let down while it was empty, and the log has not been told yet.
        Ok(ZoneWork::Done) if action == ZoneAction::Offline && !zoned.is_recorded(zone) => {
            shared.works[work].merge_status(Status::WriteFault, 0);
        }
        Ok(ZoneWork::Done) => {}
        Ok(ZoneWork::Offline) => take_offline(zoned, shared, work, zone),
        Ok(ZoneWork::Reset | ZoneWork::Finish) => {
            let run = &mut zoned.runs[zone as usize];
            (run.action, run.acting) = (work, false);
            shared.works[work].slices_left += 1;
            zone_quiet(zoned, shared, zone);
        }
    }
}

/// A read-only zone goes out of use when the log says so.
fn take_offline(zoned: &mut ZoneNamespace, shared: &mut Shared, work: u32, zone: u32) {
    let Some(slot) = zoned.pronounce(zone, ZoneState::Offline) else {
        zoned.zones.offline_refused(zone);
        return shared.works[work].merge_status(Status::WriteFault, 0);
    };
    (zoned.runs[zone as usize].action, zoned.runs[zone as usize].acting) = (work, true);
    shared.works[work].slices_left += 1;
    zone_log::log(zoned, shared, slot);
}

/// Handles a verdict for which the log has no space. A zone that was to be offline remains read-only.
pub(super) fn lose_verdict(zoned: &mut ZoneNamespace, shared: &mut Shared, slot: u32) {
    let zone = zoned.stage[slot].zone;
    if zoned.stage[slot].verdict == Some(ZoneState::Offline) && zoned.zones.state(zone) == ZoneState::ReadOnly
    {
        zoned.zones.offline_refused(zone);
        zoned.pronounce(zone, ZoneState::ReadOnly);
        end_action(zoned, shared, zone, Status::WriteFault);
    }
    // With the next log block; until then it holds as long as the power does.
    let record = &mut zoned.stage[slot];
    record.wants_log = record.logged < record.arrived;
}

/// The log has what a slot says of its zone.
pub(super) fn end_offline(zoned: &mut ZoneNamespace, shared: &mut Shared, slot: u32) {
    let (zone, verdict) = (zoned.stage[slot].zone, zoned.stage[slot].verdict);
    if verdict == Some(ZoneState::Offline) && zoned.zones.state(zone) == ZoneState::ReadOnly {
        zoned.zones.offline_end(zone);
        end_action(zoned, shared, zone, Status::Success);
    }
}

/// Begins the action that waits for a zone, if the zone is quiet.
pub(super) fn zone_quiet(zoned: &mut ZoneNamespace, shared: &mut Shared, zone: u32) {
    let run = &mut zoned.runs[zone as usize];
    let quiet = run.inbound == 0 && run.programs == 0 && run.logs == 0;
    if run.action == NIL || run.acting || !quiet {
        return;
    }
    run.acting = true;
    let (tail, work) = (std::mem::replace(&mut run.tail, NIL), run.action);
    let all_or_one = shared.works[work].command.opcode;
    let finish =
        matches!(all_or_one, Opcode::Zone(ZoneOp::Change(ZoneAction::Finish | ZoneAction::FinishAll)));
    if finish {
        let pointer = (zoned.zones.info(zone).write_pointer.0 - zoned.zones.info(zone).start.0) as u32;
        let slot = match tail {
            NIL => zoned.take(zone, pointer / zoned.zones.superpage_sectors()),
            tail => tail,
        };
        zoned.stage[slot].finish = true;
        return zone_write::program_stage(zoned, shared, slot);
    }
    if tail != NIL {
        // Until superpage 0 is erased the reset has not happened: a protected buffer must not have forgotten this, and a flush
        // has not made it safe.
        zoned.stage[tail].doomed = true;
        zoned.runs[zone as usize].doomed = tail;
    }
    if zoned.needs_tombstone(zone) {
        let slot = zoned.take(zone, 0);
        zoned.stage[slot].tombstone = true;
        zone_log::log(zoned, shared, slot);
    } else {
        erase_zone(zoned, shared, zone);
    }
    zone_write::feed_stage(zoned, shared);
}

/// Erases the block with superpage 0 of a zone that is being reset, and the others when that is done.
pub(super) fn erase_zone(zoned: &mut ZoneNamespace, shared: &mut Shared, zone: u32) {
    zoned.runs[zone as usize].logged_last = 0;
    let first = erase_next(zoned, shared, zone);
    if !first {
        end_reset(zoned, shared, zone);
    }
}

/// Starts the erase of the next block; `false`: there is none.
fn erase_next(zoned: &mut ZoneNamespace, shared: &mut Shared, zone: u32) -> bool {
    loop {
        let Some(block) = zoned.zones.reset_next(zone) else { return false };
        if zoned.zones.is_failed(block) {
            zoned.zones.erased(block, false, 0);
            shared.media.invalidate(block);
            continue;
        }
        zoned.runs[zone as usize].erases += 1;
        let work = zoned.runs[zone as usize].action;
        let first = shared.layout.ppa(block, 0);
        // Time until the zone was ready.
        let record = &mut shared.works[work];
        record.stages.add(Stage::Media, shared.now - record.mark);
        record.mark = shared.now;
        zoned.direct_slice(shared, work, Route::Erase, (Place::Units(first), 0), (0, 0), zone);
        return true;
    }
}

/// A block of a zone that is being reset is erased.
pub(super) fn zone_block_erased(
    zoned: &mut ZoneNamespace,
    shared: &mut Shared,
    slice: u32,
    first: Ppa,
    ok: bool,
) {
    let zone = shared.slices[slice].number;
    let block: BlockId = shared.layout.block_of(first);
    let erases = shared.media.array().erase_count(block);
    forget_doomed(zoned, shared, zone);
    // The next erases begin with what the command has waited for so far.
    let (work, stages) = (shared.slices[slice].work, shared.slices[slice].stages);
    (shared.works[work].stages, shared.works[work].mark) = (stages, shared.now);
    zoned.zones.erased(block, ok, erases);
    zoned.runs[zone as usize].erases -= 1;
    while erase_next(zoned, shared, zone) {}
    if zoned.runs[zone as usize].erases == 0 {
        end_reset(zoned, shared, zone);
    }
}

pub(super) fn forget_doomed(zoned: &mut ZoneNamespace, shared: &mut Shared, zone: u32) {
    let slot = std::mem::replace(&mut zoned.runs[zone as usize].doomed, NIL);
    if slot != NIL {
        let awaited = std::mem::take(&mut zoned.stage[slot].flushing) != 0;
        zoned.vacate(slot, &mut shared.media);
        zone_log::reap_log(zoned, shared);
        zone_write::feed_stage(zoned, shared);
        if awaited {
            // No read can miss what is discarded.
            zone_log::flush_part(zoned, shared);
        }
    }
}

/// A reset could not begin: what it was to forget stays, for reads and for the flush that waits for it.
pub(super) fn spare_doomed(zoned: &mut ZoneNamespace, shared: &mut Shared, zone: u32) {
    let slot = std::mem::replace(&mut zoned.runs[zone as usize].doomed, NIL);
    if slot != NIL {
        zoned.stage[slot].doomed = false;
        zoned.runs[zone as usize].tail = slot;
        if zoned.stage[slot].flushing != 0 {
            zone_log::log(zoned, shared, slot);
        }
    }
}

fn end_reset(zoned: &mut ZoneNamespace, shared: &mut Shared, zone: u32) {
    forget_doomed(zoned, shared, zone);
    if zoned.runs[zone as usize].action == NIL {
        return;
    }
    zoned.zones.reset_end(zone);
    end_action(zoned, shared, zone, Status::Success);
}

pub(super) fn end_action(zoned: &mut ZoneNamespace, shared: &mut Shared, zone: u32, status: Status) {
    let run = &mut zoned.runs[zone as usize];
    let work = std::mem::replace(&mut run.action, NIL);
    run.acting = false;
    if work != NIL {
        shared.works[work].merge_status(status, 0);
        direct::part_done(shared, work);
    }
}
