//! Zone management: open, close, finish and reset, one action at a time in a zone.
//!
//! ```text
//!  action ─► zone quiet? ── no: waits until its programs, reads and log have ended ──┐
//!              │ yes                                                               ◄─┘
//!              ├─ finish: what is there of the last stripe is padded and programmed ─► full
//!              ├─ offline (read-only zones): verdict logged ─► offline; no room in the log: refused
//!              └─ reset: tombstone, if the log knows the zone ─► its units erased, stripe 0 first ─► empty
//! ```
//! Invariant: until stripe 0 is erased a reset has not happened.

use crate::device::Device;
use crate::work::Route;
use pellucid_flash::slab::NIL;
use pellucid_flash::{BlockId, Command, Opcode, Ppa, Stage, Status, ZoneAction, ZoneState};
use pellucid_ftl::ZoneWork;

impl Device {
    pub(crate) fn zone_action(&mut self, work: u32, action: ZoneAction) {
        let Command { namespace, lba, .. } = self.works[work].command;
        let space = self.zone_space(namespace);
        let count = space.zones.geometry().zones;
        if action as u8 & 0x80 == 0 {
            let (zone, offset) = space.zones.zone_of(lba).expect("checked at submission");
            if offset != 0 {
                return self.merge_status(work, Status::InvalidField, 0);
            }
            return self.act_on_zone(work, zone, action);
        }
        if action == ZoneAction::OpenAll && !space.zones.may_open_all() {
            return self.merge_status(work, Status::TooManyOpenZones, 0);
        }
        // What one zone's action does to another must not concern the others.
        let zones = &self.zone_space(namespace).zones;
        let concerned: Vec<_> =
            (0..count).filter_map(|zone| Some((zone, zones.concerned(zone, action)?))).collect();
        for (zone, action) in concerned {
            self.act_on_zone(work, zone, action);
        }
    }

    fn act_on_zone(&mut self, work: u32, zone: u32, action: ZoneAction) {
        let namespace = self.works[work].command.namespace;
        match self.zone_space(namespace).zones.act(zone, action) {
            Err(status) => self.merge_status(work, status, 0),
            // One that was let down while it was empty, and the log has not been told yet.
            Ok(ZoneWork::Done)
                if action == ZoneAction::Offline && !self.zone_space(namespace).is_recorded(zone) =>
            {
                self.merge_status(work, Status::WriteFault, 0);
            }
            Ok(ZoneWork::Done) => {}
            Ok(ZoneWork::Offline) => self.take_offline(work, zone),
            Ok(ZoneWork::Reset | ZoneWork::Finish) => {
                let run = &mut self.zone_space(namespace).runs[zone as usize];
                (run.action, run.acting) = (work, false);
                self.works[work].slices_left += 1;
                self.zone_quiet(namespace, zone);
            }
        }
    }

    /// A read-only zone goes out of use when the log says so.
    fn take_offline(&mut self, work: u32, zone: u32) {
        let namespace = self.works[work].command.namespace;
        let space = self.zone_space(namespace);
        let Some(slot) = space.pronounce(zone, ZoneState::Offline) else {
            space.zones.offline_refused(zone);
            return self.merge_status(work, Status::WriteFault, 0);
        };
        (space.runs[zone as usize].action, space.runs[zone as usize].acting) = (work, true);
        self.works[work].slices_left += 1;
        self.log(namespace, slot);
    }

    /// The log has no room for what a slot says of its zone. A zone that was to be offline remains read-only.
    pub(crate) fn lose_verdict(&mut self, namespace: u16, slot: u32) {
        let space = self.zone_space(namespace);
        let zone = space.slots[slot].zone;
        if space.slots[slot].verdict == Some(ZoneState::Offline)
            && space.zones.state(zone) == ZoneState::ReadOnly
        {
            space.zones.offline_refused(zone);
            space.pronounce(zone, ZoneState::ReadOnly);
            self.end_action(namespace, zone, Status::WriteFault);
        }
        // With the next log block; until then it holds as long as the power does.
        let record = &mut self.zone_space(namespace).slots[slot];
        record.wants_log = record.logged < record.arrived;
    }

    /// The log has what a slot says of its zone.
    pub(crate) fn end_offline(&mut self, namespace: u16, slot: u32) {
        let space = self.zone_space(namespace);
        let (zone, verdict) = (space.slots[slot].zone, space.slots[slot].verdict);
        if verdict == Some(ZoneState::Offline) && space.zones.state(zone) == ZoneState::ReadOnly {
            space.zones.offline_end(zone);
            self.end_action(namespace, zone, Status::Success);
        }
    }

    /// Begins the action that waits for a zone, if the zone is quiet.
    pub(crate) fn zone_quiet(&mut self, namespace: u16, zone: u32) {
        let space = self.zone_space(namespace);
        let run = &mut space.runs[zone as usize];
        let quiet = run.inbound == 0 && run.programs == 0 && run.logs == 0;
        if run.action == NIL || run.acting || !quiet {
            return;
        }
        run.acting = true;
        let (tail, work) = (std::mem::replace(&mut run.tail, NIL), run.action);
        let all_or_one = self.works[work].command.opcode;
        let finish = matches!(all_or_one, Opcode::Zone(ZoneAction::Finish | ZoneAction::FinishAll));
        let space = self.zone_space(namespace);
        if finish {
            let pointer = (space.zones.info(zone).write_pointer.0 - space.zones.info(zone).start.0) as u32;
            let slot = match tail {
                NIL => space.take(zone, pointer / space.zones.stripe_sectors()),
                tail => tail,
            };
            space.slots[slot].finish = true;
            return self.program_stage(namespace, slot);
        }
        if tail != NIL {
            // Until stripe 0 is erased the reset has not happened: a protected buffer must not have forgotten this, and a flush
            // has not made it safe.
            let space = self.zone_space(namespace);
            space.slots[tail].doomed = true;
            space.runs[zone as usize].doomed = tail;
        }
        let space = self.zone_space(namespace);
        if space.needs_tombstone(zone) {
            let slot = space.take(zone, 0);
            space.slots[slot].tombstone = true;
            self.log(namespace, slot);
        } else {
            self.erase_zone(namespace, zone);
        }
        self.feed_stage(namespace);
    }

    /// Erases the block with stripe 0 of a zone that is being reset, and the others when that is done.
    pub(crate) fn erase_zone(&mut self, namespace: u16, zone: u32) {
        let space = self.zone_space(namespace);
        space.runs[zone as usize].logged_last = 0;
        let first = self.erase_next(namespace, zone);
        if !first {
            self.end_reset(namespace, zone);
        }
    }

    /// Starts the erase of the next block; `false`: there is none.
    fn erase_next(&mut self, namespace: u16, zone: u32) -> bool {
        loop {
            let space = self.zone_space(namespace);
            let Some(block) = space.zones.reset_next(zone) else { return false };
            if space.zones.is_condemned(block) {
                space.zones.erased(block, false, 0);
                self.media.void(block);
                continue;
            }
            space.runs[zone as usize].erases += 1;
            let work = space.runs[zone as usize].action;
            let first = self.layout.ppa(block, 0);
            // What the zone was waited for.
            let record = &mut self.works[work];
            record.stages.add(Stage::Media, self.now - record.mark);
            record.mark = self.now;
            self.direct_slice(work, Route::Erase, (first, 0), (0, 0), zone);
            return true;
        }
    }

    /// A block of a zone that is being reset is erased.
    pub(crate) fn zone_block_erased(&mut self, slice: u32, first: Ppa, ok: bool) {
        let (work, zone) = (self.slices[slice].work, self.slices[slice].lpn.0);
        let namespace = self.works[work].command.namespace;
        let block: BlockId = self.layout.block_of(first);
        let erases = self.media.erase_count(block);
        self.forget_doomed(namespace, zone);
        let space = self.zone_space(namespace);
        space.zones.erased(block, ok, erases);
        space.runs[zone as usize].erases -= 1;
        while self.erase_next(namespace, zone) {}
        if self.zone_space(namespace).runs[zone as usize].erases == 0 {
            self.end_reset(namespace, zone);
        }
    }

    pub(crate) fn forget_doomed(&mut self, namespace: u16, zone: u32) {
        let space = self.zone_space(namespace);
        let slot = std::mem::replace(&mut space.runs[zone as usize].doomed, NIL);
        if slot != NIL {
            let awaited = std::mem::take(&mut space.slots[slot].flushing) != 0;
            self.vacate(namespace, slot);
            self.reap_log(namespace);
            self.feed_stage(namespace);
            if awaited {
                // Nobody can miss what is forgotten.
                self.flush_part(namespace);
            }
        }
    }

    /// A reset could not begin: what it was to forget stays, for reads and for the flush that waits for it.
    pub(crate) fn spare_doomed(&mut self, namespace: u16, zone: u32) {
        let space = self.zone_space(namespace);
        let slot = std::mem::replace(&mut space.runs[zone as usize].doomed, NIL);
        if slot != NIL {
            space.slots[slot].doomed = false;
            space.runs[zone as usize].tail = slot;
            if space.slots[slot].flushing != 0 {
                self.log(namespace, slot);
            }
        }
    }

    fn end_reset(&mut self, namespace: u16, zone: u32) {
        self.forget_doomed(namespace, zone);
        let space = self.zone_space(namespace);
        if space.runs[zone as usize].action == NIL {
            return;
        }
        space.zones.reset_end(zone);
        self.end_action(namespace, zone, Status::Success);
    }

    pub(crate) fn end_action(&mut self, namespace: u16, zone: u32, status: Status) {
        let run = &mut self.zone_space(namespace).runs[zone as usize];
        let work = std::mem::replace(&mut run.action, NIL);
        run.acting = false;
        if work != NIL {
            self.merge_status(work, status, 0);
            self.part_done(work);
        }
    }
}
