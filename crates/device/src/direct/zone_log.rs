//! The staging log of a zoned namespace, and flushes: how sectors short of a superpage become safe.
//!
//! ```text
//!  flush ─► each slot with sectors that are not safe ─► log program ─► settled ─┬─► all: flush done
//!           each slot that is being programmed ─────────► its end ──────────────┘
//!  full log block ─► the next one takes what is still needed of the older ─► the oldest is erased, in order
//! ```
//! Invariants: a slot has at most one log program under way; blocks are erased in the order in which they were written; a flush
//! ends well only if nothing that was acknowledged before it has been lost since the flush before.

use super::zones::Purpose;
use crate::back::operations;
use crate::direct;
use crate::direct::zone_buffer::Slot;
use crate::direct::zone_buffer::ZoneNamespace;
use crate::shared::Shared;
use pellucid_flash::slab::NIL;
use pellucid_flash::{BlockId, Cause, Status};

impl ZoneNamespace {
    /// Logs the sectors of a slot that are here, but only once the superpages in front of it are on the media, so that the log keeps their
    /// order.
    pub(crate) fn log(&mut self, shared: &mut Shared, slot: u32) {
        let units_per_block = shared.layout.units_per_block;
        let zone = self.slots[slot].zone;
        let busy = self.runs[zone as usize].programs > 0 && self.slots[slot].is_data();
        if busy || self.slots[slot].logging.is_some() {
            self.slots[slot].wants_log = true;
            return;
        }
        self.slots[slot].wants_log = false;
        let Some((first, fresh)) = self.zones.log_place(self.slots[slot].stranded) else {
            return self.lose_log(shared, slot);
        };
        let record = &mut self.slots[slot];
        record.logging = Some(0);
        record.with_log = record.acknowledge.take();
        self.runs[zone as usize].logs += 1;
        if fresh {
            self.log.push_back(BlockId(first.0 / units_per_block));
        }
        self.issue_stage(shared, Purpose::Log(slot), first, Cause::Journal);
        if fresh {
            self.move_log(shared);
        }
    }

    /// A new block of the log was begun: what older ones hold, and is still needed, goes there too.
    fn move_log(&mut self, shared: &mut Shared) {
        let newest = *self.log.back().expect("just begun");
        let moves = |slot: &Slot| {
            let waits = slot.verdict.is_some() && slot.wants_log;
            let elsewhere = waits || (slot.logged > 0 && slot.logged_in != newest);
            slot.live && elsewhere && !slot.programming && !slot.doomed
        };
        let mut slots: Vec<u32> = self.live().filter(|&s| moves(&self.slots[s])).collect();
        slots.sort_by_key(|&s| (self.slots[s].zone, self.slots[s].superpage));
        for slot in slots {
            // A slot that finds no space may take others with it.
            if moves(&self.slots[slot]) {
                self.log(shared, slot);
            }
        }
        self.reap_log(shared);
    }

    /// Superpages of a zone are on the media: what waited for that may be logged.
    pub(crate) fn log_waiting(&mut self, shared: &mut Shared, zone: u32) {
        let run = &self.runs[zone as usize];
        if run.stranded == 0 {
            if run.tail != NIL && self.slots[run.tail].wants_log {
                let tail = run.tail;
                self.log(shared, tail);
            }
            return;
        }
        let wants = |slot: &Slot| slot.live && slot.zone == zone && slot.wants_log;
        let mut slots: Vec<u32> = self.live().filter(|&s| wants(&self.slots[s])).collect();
        slots.sort_by_key(|&s| self.slots[s].superpage);
        for slot in slots {
            if wants(&self.slots[slot]) {
                self.log(shared, slot);
            }
        }
    }

    /// The log program of a slot has ended.
    pub(crate) fn log_ended(&mut self, shared: &mut Shared, op: u32, slot: u32) {
        let block = shared.layout.block_of(shared.scheduler.ops[op].ppa);
        let (ok, stages) = self.slot_ended(shared, op, slot, Cause::Journal);
        let zone = self.slots[slot].zone;
        self.runs[zone as usize].logs -= 1;
        let sectors = self.slots[slot].logging.take().expect("a log program is under way");
        if !ok {
            self.zones.log_failed(block);
            let mut waiting = self.slots[slot].acknowledge.take();
            let mut first = self.slots[slot].with_log.take();
            while let Some(slice) = waiting.pop(&mut shared.slices) {
                first.push_back(&mut shared.slices, slice);
            }
            self.slots[slot].acknowledge = first;
        } else {
            if !self.slots[slot].tombstone {
                self.note_logged(slot, sectors, block);
            }
            let record = &mut self.slots[slot];
            let (list, superpage, data) = (record.with_log.take(), record.superpage, record.is_data());
            match self.programmed_before(zone, superpage).filter(|_| data) {
                // Superpages that only the log has may arrive out of order; a later one counts when the earlier ones do.
                Some(earlier) => self.hand_on(shared, list, earlier),
                None => self.acknowledge_list(shared, list, Some(&stages), Status::Success),
            }
        }
        let record = &self.slots[slot];
        if ok && sectors == record.arrived {
            self.end_offline(shared, slot);
        }
        let record = &self.slots[slot];
        let done = record.finish && !record.programming;
        if record.tombstone && ok {
            self.vacate(slot, &mut shared.media);
            self.erase_zone(shared, zone);
        } else if done {
            self.retire_slot(shared, slot);
        } else if !record.programming {
            let again = !ok || record.wants_log || !record.acknowledge.is_empty();
            if ok {
                self.settle_flush(shared, slot, sectors);
            }
            if again {
                self.log(shared, slot);
            }
        }
        self.reap_log(shared);
        self.feed_stage(shared);
        self.zone_quiet(shared, zone);
    }

    /// Handles a slot for which the log has no space, or whose content is useless there.
    pub(crate) fn lose_log(&mut self, shared: &mut Shared, slot: u32) {
        let zone = self.slots[slot].zone;
        if self.slots[slot].verdict.is_some() {
            return self.lose_verdict(shared, slot);
        }
        // A stranded slot keeps its data in the log.
        if self.slots[slot].stranded && self.slots[slot].logged == 0 {
            return self.drop_stage(shared, slot);
        }
        if self.slots[slot].stranded {
            // Nothing else will make it whole, so a power cut takes what is behind it.
            let run = &mut self.runs[zone as usize];
            run.hole = run.hole.min(self.slots[slot].superpage);
        }
        self.acknowledge_stage(shared, slot, None, Status::WriteFault);
        let awaited = self.fail_flush(shared, slot);
        if self.slots[slot].tombstone {
            self.vacate(slot, &mut shared.media);
            self.spare_doomed(shared, zone);
            self.fail_zone(shared, zone);
            self.end_action(shared, zone, Status::WriteFault);
        }
        if awaited {
            self.flush_part(shared);
        }
    }

    /// Erases the oldest blocks of the log that are not needed, one after the other.
    pub(crate) fn reap_log(&mut self, shared: &mut Shared) {
        loop {
            // On another die a younger block, with the tombstone of what an older one holds, would perhaps be erased before it.
            if self.log.len() < 2 || self.log_erasing {
                return;
            }
            let oldest = self.log[0];
            let needed = self.live().any(|s| {
                let slot = &self.slots[s];
                slot.logging.is_some() || (slot.logged > 0 && slot.logged_in == oldest)
            });
            if needed {
                return;
            }
            self.log.pop_front();
            self.log_first += 1;
            if self.zones.is_failed(oldest) {
                self.zones.erased(oldest, false, 0);
                shared.media.invalidate(oldest);
                continue;
            }
            self.log_erasing = true;
            let first = shared.layout.ppa(oldest, 0);
            self.issue_stage(shared, Purpose::LogErase, first, Cause::Journal);
        }
    }

    /// A block of the log is erased.
    pub(crate) fn log_erased(&mut self, shared: &mut Shared, op: u32) {
        let block = shared.layout.block_of(shared.scheduler.ops[op].ppa);
        let ok = operations::end_erase(shared, self.number, block, Cause::Journal);
        operations::let_go(shared, op);
        let erases = shared.media.erase_count(block);
        self.log_erasing = false;
        self.zones.erased(block, ok, erases);
        self.reap_log(shared);
    }

    pub(crate) fn zone_flush(&mut self, shared: &mut Shared, work: u32) {
        if self.protected {
            let promise = shared.works[work].promise();
            if self.flush.losses.concern(promise) {
                self.flush.losses.flush_fails(promise);
                shared.works[work].merge_status(Status::WriteFault, 0);
            }
            return;
        }
        self.flush.waiting.push_back(work);
        shared.works[work].slices_left += 1;
        self.next_zone_flush(shared);
    }

    fn next_zone_flush(&mut self, shared: &mut Shared) {
        if self.flush.running != NIL {
            return;
        }
        let Some(work) = self.flush.waiting.pop_front() else { return };
        self.flush.running = work;
        if self.flush.losses.concern(shared.works[work].promise()) {
            shared.works[work].merge_status(Status::WriteFault, 0);
        }
        // Held until every slot has been asked.
        self.flush.left = 1;
        let slots: Vec<u32> = self.live().collect();
        for slot in slots {
            let record = &mut self.slots[slot];
            if !record.live {
                // A slot in front of it found no space in the log and took it with it.
                continue;
            }
            if record.programming {
                record.flushing = u32::MAX;
                self.flush.left += 1;
            } else if record.is_data() && !record.finish && record.logged < record.arrived {
                record.flushing = record.arrived;
                self.flush.left += 1;
                // One that a reset is about to forget is safe when it is forgotten.
                if !record.doomed {
                    self.log(shared, slot);
                }
            }
        }
        self.flush_part(shared);
    }

    /// This many sectors of a slot are safe.
    fn settle_flush(&mut self, shared: &mut Shared, slot: u32, sectors: u32) {
        let record = &self.slots[slot];
        if record.flushing == 0 || sectors < record.flushing {
            return;
        }
        self.end_flushing(shared, slot);
        self.flush_part(shared);
    }

    /// A slot is as safe as it gets. Gives whether a flush waited for that; it is told so ([`Device::flush_part`]) when the slot
    /// is out of its way.
    pub(crate) fn end_flushing(&mut self, shared: &mut Shared, slot: u32) -> bool {
        let record = &mut self.slots[slot];
        let awaited = std::mem::take(&mut record.flushing) != 0;
        let (zone, superpage) = (record.zone, record.superpage);
        if awaited && self.kept(zone, superpage) != Status::Success {
            let work = self.flush.running;
            shared.works[work].merge_status(Status::WriteFault, 0);
        }
        awaited
    }

    /// Fails the flush that waits for a slot whose data cannot be made safe. Returns whether one waits; it learns of it
    /// ([`Device::flush_part`]) when the slot is out of its way.
    pub(crate) fn fail_flush(&mut self, shared: &mut Shared, slot: u32) -> bool {
        let awaited = std::mem::take(&mut self.slots[slot].flushing) != 0;
        if awaited {
            let work = self.flush.running;
            shared.works[work].merge_status(Status::WriteFault, 0);
        }
        awaited
    }

    pub(crate) fn flush_part(&mut self, shared: &mut Shared) {
        self.flush.left -= 1;
        if self.flush.left == 0 {
            let work = std::mem::replace(&mut self.flush.running, NIL);
            if shared.works[work].status != Status::Success {
                self.flush.losses.flush_fails(shared.works[work].promise());
            }
            direct::part_done(shared, work);
            self.next_zone_flush(shared);
        }
    }
}
