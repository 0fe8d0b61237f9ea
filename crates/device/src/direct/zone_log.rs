//! The staging log of a zoned namespace, and flushes: how sectors short of a superpage become safe.
//!
//! ```text
//!  flush ─► each slot with sectors that are not safe ─► log program ─► settled ─┬─► all: flush done
//!           each slot that is being programmed ─────────► its end ──────────────┘
//!  full log block ─► the next one takes what is still needed of the older ─► the oldest is erased, in order
//! ```
//! Invariants: a slot has at most one log program under way; blocks are erased in the order in which they were written; a flush
//! ends well only if nothing that was acknowledged before it has been lost since the flush before.

use super::zone_actions;
use super::zone_write;
use crate::back::operations;
use crate::direct;
use crate::direct::zone_buffer::Purpose;
use crate::direct::zone_buffer::Slot;
use crate::direct::zone_buffer::ZoneNamespace;
use crate::shared::Shared;
use pellucid_flash::slab::NIL;
use pellucid_flash::{BlockId, Cause, Status};

/// Logs the sectors of a slot that are here, but only once the superpages in front of it are on the media, so that the log keeps their
/// order.
pub(super) fn log(zoned: &mut ZoneNamespace, shared: &mut Shared, slot: u32) {
    let units_per_block = shared.layout.units_per_block;
    let zone = zoned.stage[slot].zone;
    let busy = zoned.runs[zone as usize].programs > 0 && zoned.stage[slot].is_data();
    if busy || zoned.stage[slot].logging.is_some() {
        zoned.stage[slot].wants_log = true;
        return;
    }
    zoned.stage[slot].wants_log = false;
    let Some((first, fresh)) = zoned.zones.log_place(zoned.stage[slot].stranded) else {
        return lose_log(zoned, shared, slot);
    };
    let record = &mut zoned.stage[slot];
    record.logging = Some(0);
    record.with_log = record.acknowledge.take();
    zoned.runs[zone as usize].logs += 1;
    if fresh {
        zoned.log.begin(BlockId(first.0 / units_per_block));
    }
    zone_write::issue_stage(zoned, shared, Purpose::Log(slot), first, Cause::Journal);
    if fresh {
        move_log(zoned, shared);
    }
}

/// A new block of the log was begun: what older ones hold, and is still needed, goes there too.
fn move_log(zoned: &mut ZoneNamespace, shared: &mut Shared) {
    let newest = zoned.log.newest().expect("just begun");
    let moves = |slot: &Slot| {
        let waits = slot.verdict.is_some() && slot.wants_log;
        let elsewhere = waits || (slot.logged > 0 && slot.logged_in != newest);
        slot.live && elsewhere && !slot.programming && !slot.doomed
    };
    for slot in zoned.stage.in_order(moves) {
        // A slot that finds no space may take others with it.
        if moves(&zoned.stage[slot]) {
            log(zoned, shared, slot);
        }
    }
    reap_log(zoned, shared);
}

/// Superpages of a zone are on the media: what waited for that may be logged.
pub(super) fn log_waiting(zoned: &mut ZoneNamespace, shared: &mut Shared, zone: u32) {
    let run = &zoned.runs[zone as usize];
    if run.stranded == 0 {
        if run.tail != NIL && zoned.stage[run.tail].wants_log {
            let tail = run.tail;
            log(zoned, shared, tail);
        }
        return;
    }
    let wants = |slot: &Slot| slot.live && slot.zone == zone && slot.wants_log;
    for slot in zoned.stage.in_order(wants) {
        if wants(&zoned.stage[slot]) {
            log(zoned, shared, slot);
        }
    }
}

/// The log program of a slot has ended.
pub(super) fn log_ended(zoned: &mut ZoneNamespace, shared: &mut Shared, op: u32, slot: u32) {
    let block = shared.layout.block_of(shared.scheduler.ops[op].ppa);
    let (ok, stages) = zone_write::slot_ended(zoned, shared, op, slot, Cause::Journal);
    let zone = zoned.stage[slot].zone;
    zoned.runs[zone as usize].logs -= 1;
    let sectors = zoned.stage[slot].logging.take().expect("a log program is under way");
    if !ok {
        zoned.zones.log_failed(block);
    }
    let leaving = zoned.stage[slot].leaving;
    if !ok && !leaving {
        let mut waiting = zoned.stage[slot].acknowledge.take();
        let mut first = zoned.stage[slot].with_log.take();
        while let Some(slice) = waiting.pop(&mut shared.slices) {
            first.push_back(&mut shared.slices, slice);
        }
        zoned.stage[slot].acknowledge = first;
    } else {
        if ok && !zoned.stage[slot].tombstone {
            zoned.note_logged(slot, sectors, block);
        }
        let record = &mut zoned.stage[slot];
        let (list, superpage, data) = (record.with_log.take(), record.superpage, record.is_data());
        match zoned.programmed_before(zone, superpage).filter(|_| data) {
            // Superpages that only the log has may arrive out of order; a later one counts when the earlier ones do.
            Some(earlier) => zone_write::hand_on(zoned, shared, list, earlier),
            None => zone_write::acknowledge_list(zoned, shared, list, Some(&stages), Status::Success),
        }
    }
    let record = &zoned.stage[slot];
    if ok && sectors == record.arrived {
        zone_actions::end_offline(zoned, shared, slot);
    }
    let record = &zoned.stage[slot];
    if record.tombstone && ok {
        zoned.vacate(slot, &mut shared.media);
        zone_actions::erase_zone(zoned, shared, zone);
    } else if leaving {
        zone_write::retire_slot(zoned, shared, slot);
    } else if !record.programming {
        let again = !ok || record.wants_log || !record.acknowledge.is_empty();
        if ok {
            settle_flush(zoned, shared, slot, sectors);
        }
        if again {
            log(zoned, shared, slot);
        }
    }
    reap_log(zoned, shared);
    zone_write::feed_stage(zoned, shared);
    zone_actions::zone_quiet(zoned, shared, zone);
}

/// Handles a slot for which the log has no space, or whose content is useless there.
pub(super) fn lose_log(zoned: &mut ZoneNamespace, shared: &mut Shared, slot: u32) {
    let zone = zoned.stage[slot].zone;
    if zoned.stage[slot].verdict.is_some() {
        return zone_actions::lose_verdict(zoned, shared, slot);
    }
    // A stranded slot keeps its data in the log.
    if zoned.stage[slot].stranded && zoned.stage[slot].logged == 0 {
        return zone_write::drop_stage(zoned, shared, slot);
    }
    if zoned.stage[slot].stranded {
        // Nothing else will make it whole, so a power cut takes what is behind it.
        let run = &mut zoned.runs[zone as usize];
        run.hole = run.hole.min(zoned.stage[slot].superpage);
    }
    zone_write::acknowledge_stage(zoned, shared, slot, None, Status::WriteFault);
    let awaited = fail_flush(zoned, shared, slot);
    if zoned.stage[slot].tombstone {
        zoned.vacate(slot, &mut shared.media);
        zone_actions::spare_doomed(zoned, shared, zone);
        zone_write::fail_zone(zoned, shared, zone);
        zone_actions::end_action(zoned, shared, zone, Status::WriteFault);
    }
    if awaited {
        flush_part(zoned, shared);
    }
}

/// Erases the oldest blocks of the log that are not needed, one after the other.
pub(super) fn reap_log(zoned: &mut ZoneNamespace, shared: &mut Shared) {
    loop {
        let Some(oldest) = zoned.log.next_to_erase() else { return };
        let needed = zoned.stage.live().any(|s| {
            let slot = &zoned.stage[s];
            slot.logging.is_some() || (slot.logged > 0 && slot.logged_in == oldest)
        });
        if needed {
            return;
        }
        zoned.log.let_oldest_go();
        if zoned.zones.is_failed(oldest) {
            zoned.zones.erased(oldest, false, 0);
            shared.media.invalidate(oldest);
            continue;
        }
        zoned.log.begin_erase();
        let first = shared.layout.ppa(oldest, 0);
        zone_write::issue_stage(zoned, shared, Purpose::LogErase, first, Cause::Journal);
    }
}

/// A block of the log is erased.
pub(super) fn log_erased(zoned: &mut ZoneNamespace, shared: &mut Shared, op: u32) {
    let block = shared.layout.block_of(shared.scheduler.ops[op].ppa);
    let ok = operations::end_erase(shared, zoned.number, block, Cause::Journal);
    operations::let_go(shared, op);
    let erases = shared.media.array().erase_count(block);
    zoned.log.end_erase();
    zoned.zones.erased(block, ok, erases);
    reap_log(zoned, shared);
}

pub(super) fn zone_flush(zoned: &mut ZoneNamespace, shared: &mut Shared, work: u32) {
    if zoned.protected {
        let promise = shared.works[work].promise();
        if zoned.flush.losses().concern(promise) {
            zoned.flush.losses().flush_fails(promise);
            shared.works[work].merge_status(Status::WriteFault, 0);
        }
        return;
    }
    zoned.flush.wait(work);
    shared.works[work].slices_left += 1;
    next_zone_flush(zoned, shared);
}

fn next_zone_flush(zoned: &mut ZoneNamespace, shared: &mut Shared) {
    let Some(work) = zoned.flush.begin() else { return };
    if zoned.flush.losses().concern(shared.works[work].promise()) {
        shared.works[work].merge_status(Status::WriteFault, 0);
    }
    let slots: Vec<u32> = zoned.stage.live().collect();
    for slot in slots {
        let record = &mut zoned.stage[slot];
        if !record.live {
            // A slot in front of it found no space in the log and took it with it.
            continue;
        }
        if record.programming {
            record.flushing = u32::MAX;
            zoned.flush.await_slot();
        } else if record.is_data() && !record.leaving && record.logged < record.arrived {
            record.flushing = record.arrived;
            zoned.flush.await_slot();
            // One that a reset is about to forget is safe when it is forgotten.
            if !record.doomed {
                log(zoned, shared, slot);
            }
        }
    }
    flush_part(zoned, shared);
}

/// This many sectors of a slot are safe.
fn settle_flush(zoned: &mut ZoneNamespace, shared: &mut Shared, slot: u32, sectors: u32) {
    let record = &zoned.stage[slot];
    if record.flushing == 0 || sectors < record.flushing {
        return;
    }
    end_flushing(zoned, shared, slot);
    flush_part(zoned, shared);
}

/// A slot is as safe as it gets. Gives whether a flush waited for that; it is told so ([`flush_part`]) when the slot
/// is out of its way.
pub(super) fn end_flushing(zoned: &mut ZoneNamespace, shared: &mut Shared, slot: u32) -> bool {
    let record = &mut zoned.stage[slot];
    let awaited = std::mem::take(&mut record.flushing) != 0;
    let (zone, superpage) = (record.zone, record.superpage);
    if awaited && zoned.kept(zone, superpage) != Status::Success {
        let work = zoned.flush.running();
        shared.works[work].merge_status(Status::WriteFault, 0);
    }
    awaited
}

/// Fails the flush that waits for a slot whose data cannot be made safe. Returns whether one waits; it learns of it
/// ([`flush_part`]) when the slot is out of its way.
pub(super) fn fail_flush(zoned: &mut ZoneNamespace, shared: &mut Shared, slot: u32) -> bool {
    let awaited = std::mem::take(&mut zoned.stage[slot].flushing) != 0;
    if awaited {
        let work = zoned.flush.running();
        shared.works[work].merge_status(Status::WriteFault, 0);
    }
    awaited
}

pub(super) fn flush_part(zoned: &mut ZoneNamespace, shared: &mut Shared) {
    if let Some(work) = zoned.flush.end_part() {
        if shared.works[work].status != Status::Success {
            zoned.flush.losses().flush_fails(shared.works[work].promise());
        }
        direct::part_done(shared, work);
        next_zone_flush(zoned, shared);
    }
}
