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

use crate::direct;
use crate::direct::DirectPath;
use crate::direct::zone_buffer::ZoneNamespace;
use crate::front::commands::{Place, Route};
use crate::shared::Shared;
use pellucid_flash::slab::NIL;
use pellucid_flash::{BlockId, Command, Opcode, Ppa, Stage, Status, ZoneAction, ZoneOp, ZoneState};
use pellucid_ftl::ZoneWork;

impl ZoneNamespace {
    pub(crate) fn zone_action(&mut self, shared: &mut Shared, work: u32, action: ZoneAction) {
        let Command { lba, .. } = shared.works[work].command;
        let count = self.zones.geometry().zones;
        if action as u8 & 0x80 == 0 {
            let (zone, offset) = self.zones.zone_of(lba).expect("checked at submission");
            if offset != 0 {
                return shared.works[work].merge_status(Status::InvalidField, 0);
            }
            return self.act_on_zone(shared, work, zone, action);
        }
        if action == ZoneAction::OpenAll && !self.zones.may_open_all() {
            return shared.works[work].merge_status(Status::TooManyOpenZones, 0);
        }
        // Collected first: the effects of one zone's action on another must not change which zones are concerned.
        let zones = &self.zones;
        let concerned: Vec<_> =
            (0..count).filter_map(|zone| Some((zone, zones.concerned(zone, action)?))).collect();
        for (zone, action) in concerned {
            self.act_on_zone(shared, work, zone, action);
        }
    }

    fn act_on_zone(&mut self, shared: &mut Shared, work: u32, zone: u32, action: ZoneAction) {
        match self.zones.act(zone, action) {
            Err(status) => shared.works[work].merge_status(status, 0),
            // One that was let down while it was empty, and the log has not been told yet.
            Ok(ZoneWork::Done) if action == ZoneAction::Offline && !self.is_recorded(zone) => {
                shared.works[work].merge_status(Status::WriteFault, 0);
            }
            Ok(ZoneWork::Done) => {}
            Ok(ZoneWork::Offline) => self.take_offline(shared, work, zone),
            Ok(ZoneWork::Reset | ZoneWork::Finish) => {
                let run = &mut self.runs[zone as usize];
                (run.action, run.acting) = (work, false);
                shared.works[work].slices_left += 1;
                self.zone_quiet(shared, zone);
            }
        }
    }

    /// A read-only zone goes out of use when the log says so.
    fn take_offline(&mut self, shared: &mut Shared, work: u32, zone: u32) {
        let Some(slot) = self.pronounce(zone, ZoneState::Offline) else {
            self.zones.offline_refused(zone);
            return shared.works[work].merge_status(Status::WriteFault, 0);
        };
        (self.runs[zone as usize].action, self.runs[zone as usize].acting) = (work, true);
        shared.works[work].slices_left += 1;
        self.log(shared, slot);
    }

    /// Handles a verdict for which the log has no space. A zone that was to be offline remains read-only.
    pub(crate) fn lose_verdict(&mut self, shared: &mut Shared, slot: u32) {
        let zone = self.slots[slot].zone;
        if self.slots[slot].verdict == Some(ZoneState::Offline)
            && self.zones.state(zone) == ZoneState::ReadOnly
        {
            self.zones.offline_refused(zone);
            self.pronounce(zone, ZoneState::ReadOnly);
            self.end_action(shared, zone, Status::WriteFault);
        }
        // With the next log block; until then it holds as long as the power does.
        let record = &mut self.slots[slot];
        record.wants_log = record.logged < record.arrived;
    }

    /// The log has what a slot says of its zone.
    pub(crate) fn end_offline(&mut self, shared: &mut Shared, slot: u32) {
        let (zone, verdict) = (self.slots[slot].zone, self.slots[slot].verdict);
        if verdict == Some(ZoneState::Offline) && self.zones.state(zone) == ZoneState::ReadOnly {
            self.zones.offline_end(zone);
            self.end_action(shared, zone, Status::Success);
        }
    }

    /// Begins the action that waits for a zone, if the zone is quiet.
    pub(crate) fn zone_quiet(&mut self, shared: &mut Shared, zone: u32) {
        let run = &mut self.runs[zone as usize];
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
            let pointer = (self.zones.info(zone).write_pointer.0 - self.zones.info(zone).start.0) as u32;
            let slot = match tail {
                NIL => self.take(zone, pointer / self.zones.superpage_sectors()),
                tail => tail,
            };
            self.slots[slot].finish = true;
            return self.program_stage(shared, slot);
        }
        if tail != NIL {
            // Until superpage 0 is erased the reset has not happened: a protected buffer must not have forgotten this, and a flush
            // has not made it safe.
            self.slots[tail].doomed = true;
            self.runs[zone as usize].doomed = tail;
        }
        if self.needs_tombstone(zone) {
            let slot = self.take(zone, 0);
            self.slots[slot].tombstone = true;
            self.log(shared, slot);
        } else {
            self.erase_zone(shared, zone);
        }
        self.feed_stage(shared);
    }

    /// Erases the block with superpage 0 of a zone that is being reset, and the others when that is done.
    pub(crate) fn erase_zone(&mut self, shared: &mut Shared, zone: u32) {
        self.runs[zone as usize].logged_last = 0;
        let first = self.erase_next(shared, zone);
        if !first {
            self.end_reset(shared, zone);
        }
    }

    /// Starts the erase of the next block; `false`: there is none.
    fn erase_next(&mut self, shared: &mut Shared, zone: u32) -> bool {
        loop {
            let Some(block) = self.zones.reset_next(zone) else { return false };
            if self.zones.is_failed(block) {
                self.zones.erased(block, false, 0);
                shared.media.invalidate(block);
                continue;
            }
            self.runs[zone as usize].erases += 1;
            let work = self.runs[zone as usize].action;
            let first = shared.layout.ppa(block, 0);
            // Time until the zone was ready.
            let record = &mut shared.works[work];
            record.stages.add(Stage::Media, shared.now - record.mark);
            record.mark = shared.now;
            self.direct_slice(shared, work, Route::Erase, (Place::Units(first), 0), (0, 0), zone);
            return true;
        }
    }

    /// A block of a zone that is being reset is erased.
    pub(crate) fn zone_block_erased(&mut self, shared: &mut Shared, slice: u32, first: Ppa, ok: bool) {
        let zone = shared.slices[slice].number;
        let block: BlockId = shared.layout.block_of(first);
        let erases = shared.media.erase_count(block);
        self.forget_doomed(shared, zone);
        self.zones.erased(block, ok, erases);
        self.runs[zone as usize].erases -= 1;
        while self.erase_next(shared, zone) {}
        if self.runs[zone as usize].erases == 0 {
            self.end_reset(shared, zone);
        }
    }

    pub(crate) fn forget_doomed(&mut self, shared: &mut Shared, zone: u32) {
        let slot = std::mem::replace(&mut self.runs[zone as usize].doomed, NIL);
        if slot != NIL {
            let awaited = std::mem::take(&mut self.slots[slot].flushing) != 0;
            self.vacate(slot, &mut shared.media);
            self.reap_log(shared);
            self.feed_stage(shared);
            if awaited {
                // No read can miss what is discarded.
                self.flush_part(shared);
            }
        }
    }

    /// A reset could not begin: what it was to forget stays, for reads and for the flush that waits for it.
    pub(crate) fn spare_doomed(&mut self, shared: &mut Shared, zone: u32) {
        let slot = std::mem::replace(&mut self.runs[zone as usize].doomed, NIL);
        if slot != NIL {
            self.slots[slot].doomed = false;
            self.runs[zone as usize].tail = slot;
            if self.slots[slot].flushing != 0 {
                self.log(shared, slot);
            }
        }
    }

    fn end_reset(&mut self, shared: &mut Shared, zone: u32) {
        self.forget_doomed(shared, zone);
        if self.runs[zone as usize].action == NIL {
            return;
        }
        self.zones.reset_end(zone);
        self.end_action(shared, zone, Status::Success);
    }

    pub(crate) fn end_action(&mut self, shared: &mut Shared, zone: u32, status: Status) {
        let run = &mut self.runs[zone as usize];
        let work = std::mem::replace(&mut run.action, NIL);
        run.acting = false;
        if work != NIL {
            shared.works[work].merge_status(status, 0);
            direct::part_done(shared, work);
        }
    }
}
