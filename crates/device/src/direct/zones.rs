//! The meaning of zoned commands (NVMe Zoned Namespaces 1.1), on the [direct path](crate::direct) and the
//! [buffer of stripes](crate::direct::zone_buffer).
//!
//! ```text
//!  write    rules, write pointer moves ─► slices by stripe ─► slot (or wait) ─► DMA ─► acknowledged (write-back)
//!  append       │                                              │ stripe full ─► program ─► acknowledged (write-through, FUA)
//!               └ refused: nothing has changed                 └ FUA, flush of a part ─► staging log ─► acknowledged
//!  read     in the buffer? copied from there; else runs that one sense brings; behind the write pointer zeros
//!  reset    zone quiet ─► tombstone if the log knows it ─► erase what holds stripe 0 ─► erase the rest ─► empty
//!  finish   zone quiet ─► rest of the stripe padded, marked as the last ─► full
//! ```
//! A zone is *quiet* when none of its data are between acceptance and the media, the stripe being filled apart.

use crate::back::scheduler::{FlashOp, OpKind, Owner, Token};
use crate::direct::Taken;
use crate::direct::zone_buffer::{Slot, ZoneNamespace};
use crate::firmware::Task;
use crate::front::commands::{Place, Route, Slice};
use crate::shared::Shared;
use pellucid_flash::slab::{List, NIL};
use pellucid_flash::{Cause, Command, Lpn, Nanos, Opcode, Ppa, Stage, Status, ZoneState};
use pellucid_ftl::LOG;
use pellucid_media::Outcome;

/// What a flash operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// This slice of a command: a read, or the erase of a block of a zone.
    Slice(u32),
    /// The stripe in this slot of the buffer, on its way to its zone.
    Stage(u32),
    /// One on its way to the staging log.
    Log(u32),
    /// A block of the staging log that is erased.
    LogErase,
}

impl Purpose {
    fn of(token: Token) -> Purpose {
        match token.parts() {
            (0, slice) => Purpose::Slice(slice),
            (1, slot) => Purpose::Stage(slot),
            (2, slot) => Purpose::Log(slot),
            _ => Purpose::LogErase,
        }
    }

    fn token(self) -> Token {
        match self {
            Purpose::Slice(slice) => Token::new(0, slice),
            Purpose::Stage(slot) => Token::new(1, slot),
            Purpose::Log(slot) => Token::new(2, slot),
            Purpose::LogErase => Token::new(3, 0),
        }
    }
}

impl ZoneNamespace {
    /// The firmware has taken a command.
    pub fn start(&mut self, shared: &mut Shared, work: u32) {
        // Held open until all parts are started.
        shared.works[work].slices_left = 1;
        self.start_zone(shared, work);
        shared.part_done(work);
    }

    /// Makes a slice and lets it start. `number`: the zone concerned.
    pub(super) fn direct_slice(
        &mut self,
        shared: &mut Shared,
        work: u32,
        route: Route,
        place: (Place, u32),
        data: (u32, u32),
        number: u32,
    ) {
        let slice = shared.direct_slice(work, route, place, data, number);
        if shared.grants(Task::Slice(slice)) {
            self.slice_known(shared, slice);
        }
    }

    fn ask_dma(&mut self, shared: &mut Shared, slice: u32) {
        if shared.grants(Task::Dma(slice)) {
            self.start_dma(shared, slice);
        }
    }

    /// The firmware has looked at a slice.
    pub fn slice_known(&mut self, shared: &mut Shared, slice: u32) {
        shared.slices[slice].book(Stage::Firmware, shared.now);
        let owner = Owner { namespace: self.number, token: Purpose::Slice(slice).token() };
        match shared.slices[slice].route {
            Route::Read => shared.issue_direct(owner, slice, OpKind::Read),
            Route::Erase => shared.issue_direct(owner, slice, OpKind::Erase),
            Route::Tell => self.ask_dma(shared, slice),
            Route::Stage => self.stage(shared, slice, false),
            Route::Page | Route::Program | Route::CopyRead | Route::CopyProgram => {
                unreachable!("of another kind of namespace")
            }
        }
    }

    pub fn start_dma(&mut self, shared: &mut Shared, slice: u32) {
        if shared.start_dma(slice) {
            self.dma_done(shared, slice);
        }
    }

    /// A slice's data have crossed the host link.
    pub fn dma_done(&mut self, shared: &mut Shared, slice: u32) {
        match shared.slices[slice].route {
            Route::Stage => self.staged(shared, slice),
            _ => shared.slice_done(slice, Status::Success),
        }
    }

    /// The array starts on an operation: the media change. For how long.
    pub fn begins(&mut self, shared: &mut Shared, op: u32) -> Nanos {
        let FlashOp { kind, ppa, owner, .. } = shared.scheduler.ops[op];
        match Purpose::of(owner.token) {
            _ if kind == OpKind::Read => shared.begin_read(op),
            Purpose::Stage(slot) => self.stage_begins(shared, slot, ppa),
            Purpose::Log(slot) => self.log_begins(shared, slot, ppa),
            Purpose::Slice(_) | Purpose::LogErase => shared.begin_erase(ppa),
        }
    }

    /// A program or an erase has ended.
    pub fn ended(&mut self, shared: &mut Shared, op: u32) {
        match Purpose::of(shared.scheduler.ops[op].owner.token) {
            Purpose::Stage(slot) => self.stage_ended(shared, op, slot),
            Purpose::Log(slot) => self.log_ended(shared, op, slot),
            Purpose::LogErase => self.log_erased(shared, op),
            Purpose::Slice(slice) => {
                let FlashOp { cause, ppa, .. } = shared.scheduler.ops[op];
                let ok = shared.end_erase(self.number, shared.layout.block_of(ppa), cause);
                shared.let_go(op);
                let stages = shared.scheduler.ops[op].stages;
                shared.slices[slice].add_stages(&stages, shared.now);
                self.zone_block_erased(shared, slice, ppa, ok);
                shared.slice_done(slice, Status::Success);
            }
        }
    }

    /// The data of a read are in the controller.
    pub fn arrived(&mut self, shared: &mut Shared, op: u32) {
        let FlashOp { ppa, attempts, owner, .. } = shared.scheduler.ops[op];
        let Purpose::Slice(slice) = Purpose::of(owner.token) else {
            unreachable!("a read that serves a program")
        };
        let Slice { work, number: zone, place, .. } = shared.slices[slice];
        let Taken { corrected, worst, mut failed, erased, rotten, .. } = shared.take_in(slice, ppa, attempts);
        // A zone should have data where a read found none: their program was given up, and not because of a reset.
        if erased != 0 && self.zones.holds(zone, ppa) {
            failed |= erased;
        }
        if failed != 0 && shared.tries_again(ppa, attempts) {
            return shared.retry(op, ppa);
        }
        shared.end_direct_read(op, slice, corrected, failed != 0);
        // Near to being lost, or beyond: the zone should be reset, and its host says when.
        let near = shared.config.scheduler.refresh_above.is_some_and(|most| worst > most);
        if (near || rotten)
            && let Some(block) = self.zones.distrust(zone, place.units(), rotten)
        {
            shared.retire_block(block);
        }
        if failed != 0 {
            shared.merge_status(work, Status::UnrecoveredRead, 0);
            shared.slice_done(slice, Status::Success);
        } else {
            self.ask_dma(shared, slice);
        }
    }

    /// Whether the fields of a command are right; its zone is looked at when it is fetched.
    pub fn refuse(&self, shared: &Shared, command: &Command) -> Option<Status> {
        if !shared.host.has_queue(command.queue) {
            return Some(Status::InvalidField);
        }
        let bytes = command.sectors as usize * shared.image_bytes;
        let ok = match command.opcode {
            Opcode::Read => command.sectors >= 1 && (command.data.is_empty() || command.data.len() == bytes),
            Opcode::Write | Opcode::Append => command.sectors >= 1 && command.data.len() == bytes,
            Opcode::Report => command.sectors >= 1,
            Opcode::Zone(_) => command.sectors == 0,
            Opcode::Flush => true,
            _ => return Some(Status::InvalidOpcode),
        };
        if !ok || command.vector.is_some() {
            return Some(Status::InvalidField);
        }
        let found = self.zones.zone_of(command.lba);
        let inside = match (command.opcode, found) {
            (Opcode::Flush, _) => true,
            (_, None) => false,
            (Opcode::Report, Some((zone, _))) => {
                u64::from(zone) + u64::from(command.sectors) <= u64::from(self.zones.geometry().zones)
            }
            _ => command.lba.0 + u64::from(command.sectors) <= self.zones.sectors(),
        };
        (!inside).then_some(Status::LbaOutOfRange)
    }

    /// A zoned command has been taken.
    pub(crate) fn start_zone(&mut self, shared: &mut Shared, work: u32) {
        match shared.works[work].command.opcode {
            Opcode::Read => self.zone_read(shared, work),
            Opcode::Write | Opcode::Append => self.zone_write(shared, work),
            Opcode::Zone(action) => self.zone_action(shared, work, action),
            Opcode::Report => self.zone_report(shared, work),
            Opcode::Flush => self.zone_flush(shared, work),
            _ => unreachable!("refused at submission"),
        }
    }

    fn zone_write(&mut self, shared: &mut Shared, work: u32) {
        let Command { opcode, lba, sectors, .. } = shared.works[work].command;
        let (zone, first) = match self.zones.accept(lba, sectors, opcode == Opcode::Append) {
            Ok(at) => at,
            Err(status) => return shared.merge_status(work, status, 0),
        };
        let start = self.zones.info(zone).start.0;
        let stripe = self.zones.stripe_sectors();
        let mut done = 0;
        while done < sectors {
            let at = first + done;
            let here = (stripe - at % stripe).min(sectors - done);
            self.runs[zone as usize].inbound += 1;
            self.direct_slice(
                shared,
                work,
                Route::Stage,
                (Place::Stripe(at / stripe), at % stripe),
                (done, here),
                zone,
            );
            done += here;
        }
        if opcode == Opcode::Append {
            shared.works[work].result = start + u64::from(first);
        }
    }

    /// A slice gets its slot, or waits for one; `in_turn`: it has waited.
    pub(crate) fn stage(&mut self, shared: &mut Shared, slice: u32, in_turn: bool) {
        let (zone, stripe, first) = {
            let s = &shared.slices[slice];
            (s.number, s.place.stripe(), s.first)
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
            let slot = self.take(zone, stripe);
            self.runs[zone as usize].tail = slot;
        }
        let slot = self.runs[zone as usize].tail;
        debug_assert_eq!((self.slots[slot].zone, self.slots[slot].stripe), (zone, stripe));
        self.slots[slot].coming += shared.slices[slice].sectors;
        shared.slices[slice].place = Place::Slot(slot);
        shared.slices[slice].book(Stage::Buffer, shared.now);
        self.ask_dma(shared, slice);
    }

    /// A slot became vacant: those who wait go on in their order.
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
        let Command { fua, .. } = shared.works[work].command;
        let image = shared.image_bytes;
        let data = &shared.works[work].command.data[data_at as usize * image..][..sectors as usize * image];
        self.images_mut(slot)[first as usize * image..][..sectors as usize * image].copy_from_slice(data);
        let stripe = self.zones.stripe_sectors();
        let record = &mut self.slots[slot];
        record.arrived += sectors;
        record.coming -= sectors;
        let full = record.arrived == stripe;
        self.runs[zone as usize].inbound -= 1;
        let through = fua || shared.config.buffer.write == crate::config::WritePolicy::WriteThrough;
        // Protected, the buffer is as good as the media.
        if self.protected {
            let number = record.stripe;
            let status =
                if self.keep(slot, &mut shared.media) { self.kept(zone, number) } else { Status::WriteFault };
            shared.slice_done(slice, status);
        } else if through {
            // It may come to wait with the slot of a stripe in front of its own.
            shared.slices[slice].place = Place::Stripe(record.stripe);
            let mut list = record.acknowledge;
            list.push_back(&mut shared.slices, slice);
            self.slots[slot].acknowledge = list;
        } else {
            shared.slice_done(slice, Status::Success);
        }
        if full {
            let run = &mut self.runs[zone as usize];
            // The next stripe may have a slot already.
            run.tail = if run.tail == slot { NIL } else { run.tail };
            self.program_stage(shared, slot);
        } else if !self.slots[slot].acknowledge.is_empty() {
            self.log(shared, slot);
        }
        self.zone_quiet(shared, zone);
    }

    /// Plans the program of a slot.
    pub(crate) fn program_stage(&mut self, shared: &mut Shared, slot: u32) {
        let (zone, stripe) = (self.slots[slot].zone, self.slots[slot].stripe);
        if !std::mem::replace(&mut self.slots[slot].programming, true) {
            self.runs[zone as usize].programs += 1;
        }
        match self.zones.place(zone, stripe) {
            Some(first) => self.issue_stage(shared, Purpose::Stage(slot), first, Cause::Host),
            None => self.lose_stage(shared, slot),
        }
    }

    pub(super) fn issue_stage(&mut self, shared: &mut Shared, purpose: Purpose, first: Ppa, cause: Cause) {
        let die = shared.layout.die_of(first).0;
        let kind = if purpose == Purpose::LogErase { OpKind::Erase } else { OpKind::Program };
        let owner = Owner { namespace: self.number, token: purpose.token() };
        let op = FlashOp::new(kind, cause, owner, die, first, shared.layout.units_per_stripe, shared.now);
        let op = shared.scheduler.ops.insert(op);
        shared.ask_issue(op);
    }

    /// The array starts on a slot's stripe, unless its block has failed since it was planned.
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
        if self.zones.is_condemned(shared.layout.block_of(first)) {
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

    /// Ends the operation of a slot; whether its stripe is on the media, and the stages of the operation.
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
            let stripe = self.zones.stripe_sectors();
            shared.counts(self.number).media_operations += 1;
            shared.counts(self.number).programs[cause as usize] += 1;
            shared.counts(self.number).programmed_sectors[cause as usize] += u64::from(data);
            shared.counts(self.number).programmed_sectors[Cause::Padding as usize] +=
                u64::from(stripe - data);
            shared.counts(self.number).program_failures += u64::from(!ok);
            if !ok {
                shared.retire_block(shared.layout.block_of(first));
            }
        }
        shared.let_go(op);
        (ok, stages)
    }

    /// The program of a slot has ended.
    pub(crate) fn stage_ended(&mut self, shared: &mut Shared, op: u32, slot: u32) {
        let block = shared.layout.block_of(shared.scheduler.ops[op].ppa);
        let (ok, stages) = self.slot_ended(shared, op, slot, Cause::Host);
        let (zone, stripe) = (self.slots[slot].zone, self.slots[slot].stripe);
        if !ok {
            self.zones.program_failed(zone, stripe, block);
            return self.program_stage(shared, slot);
        }
        self.runs[zone as usize].programs -= 1;
        self.slots[slot].programming = false;
        let finish = self.slots[slot].finish;
        match self.programmed_before(zone, stripe) {
            // Written for good is what would come back: not before all that is in front of it.
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

    /// What waited for another slot waits for this one, in front of it, from now on: for the log program that is under way, if that takes
    /// all there is.
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

    /// What waited ends with `status`, or with a fault where a stripe in front of its own is lost.
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
            let kept = self.kept(zone, place.stripe());
            shared.merge_status(work, status, 0);
            shared.merge_status(work, kept, 0);
            shared.slice_done(slice, Status::Success);
        }
    }

    /// A slot whose stripe is on the media is given back, if its log program has ended too.
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

    /// No block is left for a slot's stripe: the zone is read-only from now on, and the stripe stays in the log.
    fn lose_stage(&mut self, shared: &mut Shared, slot: u32) {
        let (zone, arrived) = (self.slots[slot].zone, self.slots[slot].arrived);
        self.runs[zone as usize].programs -= 1;
        let record = &mut self.slots[slot];
        (record.programming, record.finish) = (false, false);
        // What a flush waited for as a program, it waits for as a log entry now; for one that holds nothing it waits no longer.
        let awaited = record.flushing != 0;
        record.flushing = if awaited { arrived } else { 0 };
        let run = &mut self.runs[zone as usize];
        run.tail = if run.tail == slot { NIL } else { run.tail };
        let action = run.action;
        self.fail_zone(shared, zone);
        // What the log has of it may have been promised.
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

    /// Neither its zone nor the log has room for what a slot holds.
    pub(crate) fn drop_stage(&mut self, shared: &mut Shared, slot: u32) {
        let silent = self.acknowledged_in(shared, slot);
        self.acknowledge_stage(shared, slot, None, Status::WriteFault);
        let awaited = self.fail_flush(shared, slot);
        self.flush.lost |= silent && !awaited;
        let Slot { zone, stripe, .. } = self.slots[slot];
        let run = &mut self.runs[zone as usize];
        run.hole = run.hole.min(stripe);
        if std::mem::take(&mut self.slots[slot].stranded) {
            self.runs[self.slots[slot].zone as usize].stranded -= 1;
        }
        self.retire_slot(shared, slot);
        if awaited {
            self.flush_part(shared);
        }
        self.lose_waiting(shared, zone);
    }

    /// A stripe of a zone is lost: what waited behind it to be logged would come back without what stands in front of it.
    fn lose_waiting(&mut self, shared: &mut Shared, zone: u32) {
        let tail = self.runs[zone as usize].tail;
        if tail != NIL && std::mem::take(&mut self.slots[tail].wants_log) {
            self.lose_log(shared, tail);
        }
    }

    /// Whether a slot holds sectors whose writes have been acknowledged.
    fn acknowledged_in(&mut self, shared: &mut Shared, slot: u32) -> bool {
        let (arrived, waiting) = (self.slots[slot].arrived, self.slots[slot].acknowledge);
        let mut told = 0;
        waiting.for_each(&mut shared.slices, |slice| told += slice.sectors);
        arrived > told
    }

    // ---- reads and reports

    fn zone_read(&mut self, shared: &mut Shared, work: u32) {
        let Command { lba, sectors, .. } = shared.works[work].command;
        let (zone, offset) = self.zones.zone_of(lba).expect("checked at submission");
        if offset + u64::from(sectors) > self.zones.geometry().zone_sectors {
            return shared.merge_status(work, Status::ZoneBoundary, 0);
        }
        if self.zones.state(zone) == ZoneState::Offline {
            return shared.merge_status(work, Status::ZoneOffline, 0);
        }
        let written = u64::from(self.zones.data_sectors(zone));
        let stripe = u64::from(self.zones.stripe_sectors());
        let (mut done, mut told) = (0, 0);
        while done < sectors {
            let at = offset + u64::from(done);
            if at >= written {
                // Nothing behind the write pointer.
                self.zone_give(shared, work, done, sectors - done, None);
                told += sectors - done;
                break;
            }
            let (number, first) = ((at / stripe) as u32, (at % stripe) as u32);
            let here = (stripe - at % stripe).min(written - at).min(u64::from(sectors - done)) as u32;
            if let Some(slot) = self.find(zone, number) {
                self.zone_give(shared, work, done, here, Some((slot, first)));
                if self.slots[slot].lost {
                    shared.merge_status(work, Status::UnrecoveredRead, 0);
                }
                shared.counts(self.number).buffer_read_hits += 1;
                told += here;
            } else {
                self.zone_sense(shared, work, zone, number, first, (done, here));
            }
            done += here;
        }
        if told > 0 {
            self.direct_slice(shared, work, Route::Tell, (Place::None, 0), (0, told), zone);
        }
    }

    /// Gives `sectors` from the buffer, or zeros.
    fn zone_give(&mut self, shared: &mut Shared, work: u32, at: u32, sectors: u32, from: Option<(u32, u32)>) {
        let image = shared.image_bytes;
        let Command { data, .. } = &mut shared.works[work].command;
        if data.is_empty() {
            return;
        }
        let out = &mut data[at as usize * image..][..sectors as usize * image];
        match from {
            Some((slot, first)) => {
                out.copy_from_slice(&self.images(slot)[first as usize * image..][..out.len()])
            }
            None => out.fill(0),
        }
    }

    /// Reads sectors of one stripe from the media, a run for every sense.
    fn zone_sense(
        &mut self,
        shared: &mut Shared,
        work: u32,
        zone: u32,
        stripe: u32,
        first: u32,
        (at, sectors): (u32, u32),
    ) {
        let Some(start) = self.zones.locate(zone, stripe) else {
            self.zone_give(shared, work, at, sectors, None);
            return shared.merge_status(work, Status::UnrecoveredRead, 0);
        };
        let per_unit = shared.layout.sectors_per_unit;
        let group = shared.sense.get() * per_unit;
        let mut done = 0;
        while done < sectors {
            let sector = first + done;
            let here = (group - sector % group).min(sectors - done);
            let unit = Ppa(start.0 + sector / per_unit);
            self.direct_slice(
                shared,
                work,
                Route::Read,
                (Place::Units(unit), sector % per_unit),
                (at + done, here),
                zone,
            );
            done += here;
        }
    }

    fn zone_report(&mut self, shared: &mut Shared, work: u32) {
        let Command { lba, sectors, .. } = shared.works[work].command;
        let mut data = std::mem::take(&mut shared.works[work].command.data);
        data.clear();
        let zones = &self.zones;
        let (first, _) = zones.zone_of(lba).expect("checked at submission");
        (first..first + sectors).for_each(|zone| zones.info(zone).encode(&mut data));
        shared.works[work].command.data = data;
        self.direct_slice(shared, work, Route::Tell, (Place::None, 0), (0, 0), 0);
    }
}
