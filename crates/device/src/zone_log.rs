//! The staging log of a zoned namespace, and flushes: how sectors short of a stripe become safe.
//!
//! ```text
//!  flush ─► each slot with sectors that are not safe ─► log program ─► settled ─┬─► all: flush done
//!           each slot that is being programmed ─────────► its end ──────────────┘
//!  full log block ─► the next one takes what is still needed of the older ─► the oldest is erased, in order
//! ```
//! Invariants: a slot has at most one log program under way; blocks are erased in the order in which they were written; a flush
//! ends well only if nothing that was acknowledged before it has been lost since the flush before.

use crate::device::Device;
use crate::scheduler::Client;
use crate::spaces::Space;
use crate::zone_stage::Slot;
use pellucid_flash::slab::NIL;
use pellucid_flash::{BlockId, Cause, Status};

impl Device {
    /// Logs what is here of a slot; not before the stripes in front of it are on the media, so that the log's order is theirs.
    pub(crate) fn log(&mut self, namespace: u16, slot: u32) {
        let units_per_block = self.layout.units_per_block;
        let space = self.zone_space(namespace);
        let zone = space.slots[slot].zone;
        let busy = space.runs[zone as usize].programs > 0 && space.slots[slot].is_data();
        if busy || space.slots[slot].logging.is_some() {
            space.slots[slot].wants_log = true;
            return;
        }
        space.slots[slot].wants_log = false;
        let Some((first, fresh)) = space.zones.log_place(space.slots[slot].stranded) else {
            return self.lose_log(namespace, slot);
        };
        let record = &mut space.slots[slot];
        record.logging = Some(0);
        record.with_log = record.acknowledge.take();
        space.runs[zone as usize].logs += 1;
        if fresh {
            space.log.push_back(BlockId(first.0 / units_per_block));
        }
        self.issue_stage(Client::Log { namespace, slot }, first, Cause::Journal);
        if fresh {
            self.move_log(namespace);
        }
    }

    /// A new block of the log was begun: what older ones hold, and is still needed, goes there too.
    fn move_log(&mut self, namespace: u16) {
        let space = self.zone_space(namespace);
        let newest = *space.log.back().expect("just begun");
        let moves = |slot: &Slot| {
            let waits = slot.verdict.is_some() && slot.wants_log;
            let elsewhere = waits || (slot.logged > 0 && slot.logged_in != newest);
            slot.live && elsewhere && !slot.programming && !slot.doomed
        };
        let mut slots: Vec<u32> = space.live().filter(|&s| moves(&space.slots[s])).collect();
        slots.sort_by_key(|&s| (space.slots[s].zone, space.slots[s].stripe));
        for slot in slots {
            // One that finds no room may take others with it.
            if moves(&self.zone_space(namespace).slots[slot]) {
                self.log(namespace, slot);
            }
        }
        self.reap_log(namespace);
    }

    /// Stripes of a zone are on the media: what waited for that may be logged.
    pub(crate) fn log_waiting(&mut self, namespace: u16, zone: u32) {
        let space = self.zone_space(namespace);
        let run = &space.runs[zone as usize];
        if run.stranded == 0 {
            if run.tail != NIL && space.slots[run.tail].wants_log {
                let tail = run.tail;
                self.log(namespace, tail);
            }
            return;
        }
        let wants = |slot: &Slot| slot.live && slot.zone == zone && slot.wants_log;
        let mut slots: Vec<u32> = space.live().filter(|&s| wants(&space.slots[s])).collect();
        slots.sort_by_key(|&s| space.slots[s].stripe);
        for slot in slots {
            if wants(&self.zone_space(namespace).slots[slot]) {
                self.log(namespace, slot);
            }
        }
    }

    /// The log program of a slot has ended.
    pub(crate) fn log_ended(&mut self, op: u32, namespace: u16, slot: u32) {
        let block = self.layout.block_of(self.scheduler.ops[op].ppa);
        let (ok, stages) = self.slot_ended(op, namespace, slot, Cause::Journal);
        let space = self.zone_space(namespace);
        let zone = space.slots[slot].zone;
        space.runs[zone as usize].logs -= 1;
        let sectors = space.slots[slot].logging.take().expect("a log program is under way");
        if !ok {
            space.zones.log_failed(block);
            let mut waiting = space.slots[slot].acknowledge.take();
            let mut first = space.slots[slot].with_log.take();
            while let Some(slice) = waiting.pop(&mut self.slices) {
                first.push_back(&mut self.slices, slice);
            }
            self.zone_space(namespace).slots[slot].acknowledge = first;
        } else {
            if !space.slots[slot].tombstone {
                space.note_logged(slot, sectors, block);
            }
            let record = &mut space.slots[slot];
            let (list, stripe, data) = (record.with_log.take(), record.stripe, record.is_data());
            match space.programmed_before(zone, stripe).filter(|_| data) {
                // Of stripes that only the log has, a later one may be there first; it counts when those in front of it do.
                Some(earlier) => self.hand_on(namespace, list, earlier),
                None => self.acknowledge_list(namespace, list, Some(&stages), Status::Success),
            }
        }
        let space = self.zone_space(namespace);
        let record = &space.slots[slot];
        if ok && sectors == record.arrived {
            self.end_offline(namespace, slot);
        }
        let space = self.zone_space(namespace);
        let record = &space.slots[slot];
        let done = record.finish && !record.programming;
        if record.tombstone && ok {
            self.vacate(namespace, slot);
            self.erase_zone(namespace, zone);
        } else if done {
            self.retire_slot(namespace, slot);
        } else if !record.programming {
            let again = !ok || record.wants_log || !record.acknowledge.is_empty();
            if ok {
                self.settle_flush(namespace, slot, sectors);
            }
            if again {
                self.log(namespace, slot);
            }
        }
        self.reap_log(namespace);
        self.feed_stage(namespace);
        self.zone_quiet(namespace, zone);
    }

    /// The log has no room for a slot, or what it holds makes no sense there any more.
    pub(crate) fn lose_log(&mut self, namespace: u16, slot: u32) {
        let space = self.zone_space(namespace);
        let zone = space.slots[slot].zone;
        if space.slots[slot].verdict.is_some() {
            return self.lose_verdict(namespace, slot);
        }
        // What the log has of a stranded one it keeps.
        if space.slots[slot].stranded && space.slots[slot].logged == 0 {
            return self.drop_stage(namespace, slot);
        }
        if space.slots[slot].stranded {
            // Nothing else will make it whole, so a power cut takes what is behind it.
            let run = &mut space.runs[zone as usize];
            run.hole = run.hole.min(space.slots[slot].stripe);
        }
        self.acknowledge_stage(namespace, slot, None, Status::WriteFault);
        let awaited = self.fail_flush(namespace, slot);
        let space = self.zone_space(namespace);
        if space.slots[slot].tombstone {
            self.vacate(namespace, slot);
            self.spare_doomed(namespace, zone);
            self.fail_zone(namespace, zone);
            self.end_action(namespace, zone, Status::WriteFault);
        }
        if awaited {
            self.flush_part(namespace);
        }
    }

    /// Erases the oldest blocks of the log that nobody needs, one after the other.
    pub(crate) fn reap_log(&mut self, namespace: u16) {
        loop {
            let space = self.zone_space(namespace);
            // On another die a younger block, with the tombstone of what an older one holds, would perhaps be erased before it.
            if space.log.len() < 2 || space.log_erasing {
                return;
            }
            let oldest = space.log[0];
            let needed = space.live().any(|s| {
                let slot = &space.slots[s];
                slot.logging.is_some() || (slot.logged > 0 && slot.logged_in == oldest)
            });
            if needed {
                return;
            }
            space.log.pop_front();
            space.log_first += 1;
            if space.zones.is_condemned(oldest) {
                space.zones.erased(oldest, false, 0);
                self.media.void(oldest);
                continue;
            }
            space.log_erasing = true;
            let first = self.layout.ppa(oldest, 0);
            self.issue_stage(Client::LogErase { namespace }, first, Cause::Journal);
        }
    }

    /// A block of the log is erased.
    pub(crate) fn log_erased(&mut self, op: u32, namespace: u16) {
        let block = self.layout.block_of(self.scheduler.ops[op].ppa);
        let ok = self.end_direct_erase(block, Cause::Journal);
        self.let_go(op);
        let erases = self.media.erase_count(block);
        let space = self.zone_space(namespace);
        space.log_erasing = false;
        space.zones.erased(block, ok, erases);
        self.reap_log(namespace);
    }

    pub(crate) fn zone_flush(&mut self, work: u32) {
        let namespace = self.works[work].command.namespace;
        let space = self.zone_space(namespace);
        if space.protected {
            if std::mem::take(&mut space.flush.lost) {
                self.merge_status(work, Status::WriteFault, 0);
            }
            return;
        }
        space.flush.waiting.push_back(work);
        self.works[work].slices_left += 1;
        self.next_zone_flush(namespace);
    }

    fn next_zone_flush(&mut self, namespace: u16) {
        let space = self.zone_space(namespace);
        if space.flush.running != NIL {
            return;
        }
        let Some(work) = space.flush.waiting.pop_front() else { return };
        space.flush.running = work;
        if std::mem::take(&mut space.flush.lost) {
            self.merge_status(work, Status::WriteFault, 0);
        }
        let space = self.zone_space(namespace);
        // Held until every slot has been asked.
        space.flush.left = 1;
        let slots: Vec<u32> = space.live().collect();
        for slot in slots {
            let space = self.zone_space(namespace);
            let record = &mut space.slots[slot];
            if !record.live {
                // One in front of it found no room in the log and took it with it.
                continue;
            }
            if record.programming {
                record.flushing = u32::MAX;
                space.flush.left += 1;
            } else if record.is_data() && !record.finish && record.logged < record.arrived {
                record.flushing = record.arrived;
                space.flush.left += 1;
                // One that a reset is about to forget is safe when it is forgotten.
                if !record.doomed {
                    self.log(namespace, slot);
                }
            }
        }
        self.flush_part(namespace);
    }

    /// So many sectors of a slot are safe.
    fn settle_flush(&mut self, namespace: u16, slot: u32, sectors: u32) {
        let record = &self.zone_space(namespace).slots[slot];
        if record.flushing == 0 || sectors < record.flushing {
            return;
        }
        self.end_flushing(namespace, slot);
        self.flush_part(namespace);
    }

    /// A slot is as safe as it gets. Gives whether a flush waited for that; it is told so ([`Device::flush_part`]) when the slot
    /// is out of its way.
    pub(crate) fn end_flushing(&mut self, namespace: u16, slot: u32) -> bool {
        let space = self.zone_space(namespace);
        let record = &mut space.slots[slot];
        let awaited = std::mem::take(&mut record.flushing) != 0;
        let (zone, stripe) = (record.zone, record.stripe);
        if awaited && space.kept(zone, stripe) != Status::Success {
            let work = space.flush.running;
            self.merge_status(work, Status::WriteFault, 0);
        }
        awaited
    }

    /// What a slot holds cannot be made safe: the flush that waits for it fails. Gives whether one does; it is told so
    /// ([`Device::flush_part`]) when the slot is out of its way.
    pub(crate) fn fail_flush(&mut self, namespace: u16, slot: u32) -> bool {
        let space = self.zone_space(namespace);
        let awaited = std::mem::take(&mut space.slots[slot].flushing) != 0;
        if awaited {
            let work = space.flush.running;
            self.merge_status(work, Status::WriteFault, 0);
        }
        awaited
    }

    pub(crate) fn flush_part(&mut self, namespace: u16) {
        let space = self.zone_space(namespace);
        space.flush.left -= 1;
        if space.flush.left == 0 {
            let work = std::mem::replace(&mut space.flush.running, NIL);
            self.part_done(work);
            self.next_zone_flush(namespace);
        }
    }

    /// The power fails: buffers that are protected are written to their logs.
    pub(crate) fn save_protected(&mut self) {
        for space in &mut self.spaces {
            if let Space::Zones(space) = space
                && space.protected
            {
                space.save(&mut self.media, &self.layout);
            }
        }
    }
}
