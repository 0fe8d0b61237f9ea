//! Writes and appends of zones: from the rules to the slot of a superpage, its program, and the writes that are acknowledged with it.

use crate::back::operations;
use crate::back::scheduler::{FlashOp, OpKind, Owner};
use crate::direct::DirectPath;
use crate::direct::zone_buffer::{Slot, ZoneNamespace};
use crate::direct::zones::Purpose;
use crate::front::commands::{Place, Route, Slice};
use crate::probes;
use crate::shared::Shared;
use crate::timeline::Stored;
use pellucid_flash::slab::{List, NIL};
use pellucid_flash::{Cause, Command, Lpn, Nanos, Opcode, Ppa, Stage, Status, ZoneOp};
use pellucid_ftl::LOG;
use pellucid_media::Outcome;

impl ZoneNamespace {
    pub(super) fn zone_write(&mut self, shared: &mut Shared, work: u32) {
        let Command { opcode, lba, sectors, .. } = shared.works[work].command;
        let (zone, first) = match self.zones.accept(lba, sectors, opcode == Opcode::Zone(ZoneOp::Append)) {
            Ok(at) => at,
            Err(status) => return shared.works[work].merge_status(status, 0),
        };
        let start = self.zones.info(zone).start.0;
        let superpage = self.zones.superpage_sectors();
        let mut done = 0;
        while done < sectors {
            let at = first + done;
            let here = (superpage - at % superpage).min(sectors - done);
            self.runs[zone as usize].inbound += 1;
            self.direct_slice(
                shared,
                work,
                Route::Stage,
                (Place::Superpage(at / superpage), at % superpage),
                (done, here),
                zone,
            );
            done += here;
        }
        if opcode == Opcode::Zone(ZoneOp::Append) {
            shared.works[work].result = start + u64::from(first);
        }
    }

    /// A slice gets its slot, or waits for one; `in_turn`: it has waited.
    pub(crate) fn stage(&mut self, shared: &mut Shared, slice: u32, in_turn: bool) {
        let (zone, superpage, first) = {
            let s = &shared.slices[slice];
            (s.number, s.place.superpage(), s.first)
        };
        if (!in_turn && !self.starved.is_empty()) || (first == 0 && self.is_full()) {
            let mut starved = self.starved;
            match in_turn {
                true => starved.push_front(&mut shared.slices, slice),
                false => starved.push_back(&mut shared.slices, slice),
            }
            self.starved = starved;
            return;
        }
        if first == 0 {
            let slot = self.take(zone, superpage);
            self.runs[zone as usize].tail = slot;
        }
        let slot = self.runs[zone as usize].tail;
        debug_assert_eq!((self.slots[slot].zone, self.slots[slot].superpage), (zone, superpage));
        self.slots[slot].coming += shared.slices[slice].sectors;
        let record = &mut shared.slices[slice];
        record.place = Place::Slot(slot);
        record.stages.stall(shared.now - record.mark);
        record.book(Stage::Buffer, shared.now);
        self.ask_dma(shared, slice);
    }

    /// A slot became vacant: waiting writes go on in their order.
    pub(crate) fn feed_stage(&mut self, shared: &mut Shared) {
        loop {
            if self.starved.is_empty() || self.is_full() {
                return;
            }
            let mut starved = self.starved;
            let slice = starved.pop(&mut shared.slices).expect("not empty");
            self.starved = starved;
            self.stage(shared, slice, true);
        }
    }

    /// The data of a slice are in the controller.
    pub(crate) fn staged(&mut self, shared: &mut Shared, slice: u32) {
        let (work, slot, zone, first, sectors, data_at) = {
            let s = &shared.slices[slice];
            (s.work, s.place.slot(), s.number, s.first, s.sectors, s.data_at)
        };
        let (fua, submitted) = (shared.works[work].command.fua, shared.works[work].submitted);
        let image = shared.image_bytes;
        let data = &shared.works[work].command.data[data_at as usize * image..][..sectors as usize * image];
        self.images_mut(slot)[first as usize * image..][..sectors as usize * image].copy_from_slice(data);
        probes::tap_stored(shared, self.stored_at(slot), work);
        let superpage = self.zones.superpage_sectors();
        let record = &mut self.slots[slot];
        record.arrived += sectors;
        record.written_at = record.written_at.max(submitted);
        record.coming -= sectors;
        let full = record.arrived == superpage;
        self.runs[zone as usize].inbound -= 1;
        let through = fua || shared.config.buffer.write == crate::config::WritePolicy::WriteThrough;
        // Protected, the buffer is as good as the media.
        if self.protected {
            let number = record.superpage;
            let status =
                if self.keep(slot, &mut shared.media) { self.kept(zone, number) } else { Status::WriteFault };
            shared.slice_done(slice, status);
        } else if through {
            // It may come to wait with the slot of a superpage in front of its own.
            shared.slices[slice].place = Place::Superpage(record.superpage);
            let mut list = record.acknowledge;
            list.push_back(&mut shared.slices, slice);
            self.slots[slot].acknowledge = list;
        } else {
            shared.slice_done(slice, Status::Success);
        }
        if full {
            let run = &mut self.runs[zone as usize];
            // The next superpage may have a slot already.
            run.tail = if run.tail == slot { NIL } else { run.tail };
            self.program_stage(shared, slot);
        } else if !self.slots[slot].acknowledge.is_empty() {
            self.log(shared, slot);
        }
        self.zone_quiet(shared, zone);
    }

    /// Where the data of a slot wait to be programmed, for those who observe the drive.
    fn stored_at(&self, slot: u32) -> Stored {
        (self.number, slot.into())
    }

    /// Plans the program of a slot.
    pub(crate) fn program_stage(&mut self, shared: &mut Shared, slot: u32) {
        let (zone, superpage) = (self.slots[slot].zone, self.slots[slot].superpage);
        if !std::mem::replace(&mut self.slots[slot].programming, true) {
            self.runs[zone as usize].programs += 1;
        }
        match self.zones.place(zone, superpage) {
            Some(first) => self.issue_stage(shared, Purpose::Stage(slot), first, Cause::Host),
            None => {
                probes::tap_trimmed(shared, self.stored_at(slot));
                self.lose_stage(shared, slot);
            }
        }
    }

    pub(super) fn issue_stage(&mut self, shared: &mut Shared, purpose: Purpose, first: Ppa, cause: Cause) {
        let die = shared.layout.die_of(first).0;
        let kind = if purpose == Purpose::LogErase { OpKind::Erase } else { OpKind::Program };
        let owner = Owner { namespace: self.number, token: purpose.token() };
        let op = FlashOp::new(kind, cause, owner, die, first, shared.layout.units_per_superpage, shared.now);
        let op = shared.scheduler.ops.insert(op);
        if probes::is_observed(shared)
            && let Purpose::Stage(slot) | Purpose::Log(slot) = purpose
        {
            // What was logged goes to its own place later.
            probes::tap_programs(shared, op, self.stored_at(slot), purpose == Purpose::Log(slot));
        }
        shared.ask_issue(op);
    }

    /// The array starts on a slot's superpage, unless its block has failed since it was planned.
    pub(crate) fn stage_begins(&mut self, shared: &mut Shared, slot: u32, first: Ppa) -> Nanos {
        let arrived = self.slots[slot].arrived;
        self.slot_begins(shared, slot, first, None, arrived)
    }

    pub(crate) fn log_begins(&mut self, shared: &mut Shared, slot: u32, first: Ppa) -> Nanos {
        let record = &mut self.slots[slot];
        let sectors = record.arrived;
        record.logging = Some(sectors);
        self.slot_begins(shared, slot, first, Some(LOG), sectors)
    }

    fn slot_begins(
        &mut self,
        shared: &mut Shared,
        slot: u32,
        first: Ppa,
        lpn: Option<Lpn>,
        sectors: u32,
    ) -> Nanos {
        if self.zones.is_failed(shared.layout.block_of(first)) {
            self.slots[slot].skipped = true;
            return Nanos::ZERO;
        }
        let sequence = self.zones.next_sequence();
        shared
            .media
            .program_begin(first, sequence)
            .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
        let (lpn, mark) = (lpn.unwrap_or(Lpn(self.slots[slot].zone)), self.mark(slot, sectors));
        self.put(slot, lpn, mark, first, &mut shared.media, &shared.layout);
        shared.media.program_ns(first)
    }

    /// Ends the operation of a slot; whether its superpage is on the media, and the stages of the operation.
    pub(crate) fn slot_ended(
        &mut self,
        shared: &mut Shared,
        op: u32,
        slot: u32,
        cause: Cause,
    ) -> (bool, pellucid_flash::StageTimes) {
        let (first, stages) = (shared.scheduler.ops[op].ppa, shared.scheduler.ops[op].stages);
        let skipped = std::mem::take(&mut self.slots[slot].skipped);
        let ok = !skipped && shared.media.program_end(first) == Outcome::Ok;
        if !skipped {
            let data = if self.slots[slot].is_data() { self.slots[slot].arrived } else { 0 };
            let superpage = self.zones.superpage_sectors();
            shared.counts(self.number).media_operations += 1;
            shared.counts(self.number).programs[cause as usize] += 1;
            shared.counts(self.number).programmed_sectors[cause as usize] += u64::from(data);
            shared.counts(self.number).programmed_sectors[Cause::Padding as usize] +=
                u64::from(superpage - data);
            shared.counts(self.number).program_failures += u64::from(!ok);
            if !ok {
                operations::retire_block(shared, shared.layout.block_of(first));
            }
        }
        operations::let_go(shared, op);
        (ok, stages)
    }

    /// The program of a slot has ended.
    pub(crate) fn stage_ended(&mut self, shared: &mut Shared, op: u32, slot: u32) {
        let block = shared.layout.block_of(shared.scheduler.ops[op].ppa);
        let (ok, stages) = self.slot_ended(shared, op, slot, Cause::Host);
        let (zone, superpage) = (self.slots[slot].zone, self.slots[slot].superpage);
        if !ok {
            self.zones.program_failed(zone, superpage, block);
            return self.program_stage(shared, slot);
        }
        self.runs[zone as usize].programs -= 1;
        self.slots[slot].programming = false;
        let finish = self.slots[slot].finish;
        match self.programmed_before(zone, superpage) {
            // Once programmed it would come back after a power cut: not before everything in front of it.
            Some(earlier) => {
                let list = self.slots[slot].acknowledge.take();
                self.hand_on(shared, list, earlier);
            }
            None => self.acknowledge_stage(shared, slot, Some(&stages), Status::Success),
        }
        if finish {
            self.zones.finish_end(zone);
            self.end_action(shared, zone, Status::Success);
        }
        let awaited = self.end_flushing(shared, slot);
        self.retire_slot(shared, slot);
        if awaited {
            self.flush_part(shared);
        }
        self.log_waiting(shared, zone);
        self.zone_quiet(shared, zone);
    }

    /// Hands the slices of `list`, which waited for a later slot, on to the slot `to`: to its log program under way, if that covers all of
    /// its sectors.
    pub(crate) fn hand_on(&mut self, shared: &mut Shared, mut list: List, to: u32) {
        let record = &self.slots[to];
        let logged = record.stranded && record.logging.is_some_and(|n| n == 0 || n == record.arrived);
        let mut waiting = if logged { record.with_log } else { record.acknowledge };
        while let Some(slice) = list.pop(&mut shared.slices) {
            waiting.push_back(&mut shared.slices, slice);
        }
        let record = &mut self.slots[to];
        *(if logged { &mut record.with_log } else { &mut record.acknowledge }) = waiting;
    }

    /// Completes the slices that wait for a slot's program.
    pub(crate) fn acknowledge_stage(
        &mut self,
        shared: &mut Shared,
        slot: u32,
        stages: Option<&pellucid_flash::StageTimes>,
        status: Status,
    ) {
        let list = self.slots[slot].acknowledge.take();
        self.acknowledge_list(shared, list, stages, status);
    }

    /// Ends waiting slices with `status`, or with a fault if a superpage before their own is lost.
    pub(crate) fn acknowledge_list(
        &mut self,
        shared: &mut Shared,
        mut list: List,
        stages: Option<&pellucid_flash::StageTimes>,
        status: Status,
    ) {
        while let Some(slice) = list.pop(&mut shared.slices) {
            match stages {
                Some(stages) => shared.slices[slice].add_stages(stages, shared.now),
                None => shared.slices[slice].book(Stage::Buffer, shared.now),
            }
            let Slice { work, number: zone, place, .. } = shared.slices[slice];
            let kept = self.kept(zone, place.superpage());
            shared.works[work].merge_status(status, 0);
            shared.works[work].merge_status(kept, 0);
            shared.slice_done(slice, Status::Success);
        }
    }

    /// A slot whose superpage is on the media is given back, if its log program has ended too.
    pub(crate) fn retire_slot(&mut self, shared: &mut Shared, slot: u32) {
        let record = &mut self.slots[slot];
        record.wants_log = false;
        if record.logging.is_some() {
            // Nothing will be asked of it but the end of that program.
            record.finish = true;
            return;
        }
        self.vacate(slot, &mut shared.media);
        self.reap_log(shared);
        self.feed_stage(shared);
    }

    /// The media let a zone down, of which the log keeps a record.
    pub(crate) fn fail_zone(&mut self, shared: &mut Shared, zone: u32) {
        self.zones.fail(zone);
        let state = self.zones.state(zone);
        if let Some(slot) = self.pronounce(zone, state) {
            self.log(shared, slot);
        }
    }

    /// No block is left for a slot's superpage: the zone is read-only from now on, and the superpage stays in the log.
    fn lose_stage(&mut self, shared: &mut Shared, slot: u32) {
        let (zone, arrived) = (self.slots[slot].zone, self.slots[slot].arrived);
        self.runs[zone as usize].programs -= 1;
        let record = &mut self.slots[slot];
        (record.programming, record.finish) = (false, false);
        // A flush that waited for the program now waits for the log entry; it no longer waits for an empty slot.
        let awaited = record.flushing != 0;
        record.flushing = record.flushing.min(arrived);
        let run = &mut self.runs[zone as usize];
        run.tail = if run.tail == slot { NIL } else { run.tail };
        let action = run.action;
        self.fail_zone(shared, zone);
        // Data in the log may have been promised.
        let keeps = arrived > 0 && (self.slots[slot].logged > 0 || self.log_may_keep_more());
        if action != NIL {
            self.end_action(shared, zone, Status::WriteFault);
        }
        if keeps {
            self.strand(slot);
            self.log(shared, slot);
            // It is not one of those any more that will become vacant.
            self.feed_stage(shared);
        } else {
            self.drop_stage(shared, slot);
        }
        if awaited && arrived == 0 {
            self.flush_part(shared);
        }
        self.log_waiting(shared, zone);
        self.zone_quiet(shared, zone);
    }

    /// Drops a slot for which neither its zone nor the log has space.
    pub(crate) fn drop_stage(&mut self, shared: &mut Shared, slot: u32) {
        let silent = self.acknowledged_in(shared, slot);
        self.acknowledge_stage(shared, slot, None, Status::WriteFault);
        let awaited = self.fail_flush(shared, slot);
        if silent {
            self.flush.losses.note(self.slots[slot].written_at);
        }
        let Slot { zone, superpage, .. } = self.slots[slot];
        let run = &mut self.runs[zone as usize];
        run.hole = run.hole.min(superpage);
        if std::mem::take(&mut self.slots[slot].stranded) {
            self.runs[self.slots[slot].zone as usize].stranded -= 1;
        }
        self.retire_slot(shared, slot);
        if awaited {
            self.flush_part(shared);
        }
        self.lose_waiting(shared, zone);
    }

    /// Fails the log writes that wait behind a lost superpage of a zone: they would come back without the data before them.
    fn lose_waiting(&mut self, shared: &mut Shared, zone: u32) {
        let tail = self.runs[zone as usize].tail;
        if tail != NIL && std::mem::take(&mut self.slots[tail].wants_log) {
            self.lose_log(shared, tail);
        }
    }

    /// Returns whether a slot holds sectors whose writes have been acknowledged.
    fn acknowledged_in(&mut self, shared: &mut Shared, slot: u32) -> bool {
        let (arrived, waiting) = (self.slots[slot].arrived, self.slots[slot].acknowledge);
        let mut told = 0;
        waiting.for_each(&mut shared.slices, |slice| told += slice.sectors);
        arrived > told
    }
}
