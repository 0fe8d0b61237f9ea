//! The meaning of zoned commands (NVMe Zoned Namespaces 1.1), on the [direct path](crate::direct_path) and the
//! [buffer of stripes](crate::zone_stage).
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

use crate::device::Device;
use crate::firmware::Task;
use crate::scheduler::{Client, FlashOp, OpKind};
use crate::spaces::Space;
use crate::work::{Route, Slice};
use crate::write_path::add_stages;
use crate::zone_stage::{Slot, ZoneSpace};
use pellucid_flash::slab::{List, NIL};
use pellucid_flash::{Cause, Command, Lba, Lpn, Nanos, Opcode, Ppa, Stage, Status, ZoneState};
use pellucid_ftl::LOG;
use pellucid_media::Outcome;

impl Device {
    pub(crate) fn zone_space(&mut self, namespace: u16) -> &mut ZoneSpace {
        match &mut self.spaces[usize::from(namespace)] {
            Space::Zones(space) => space,
            _ => unreachable!("the command is for a zoned namespace"),
        }
    }

    /// Whether the fields of a command are right; its zone is looked at when it is fetched.
    pub(crate) fn refuse_zone(&self, space: &ZoneSpace, command: &Command) -> Option<Status> {
        let bytes = command.sectors as usize * self.image_bytes;
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
        let found = space.zones.zone_of(command.lba);
        let inside = match (command.opcode, found) {
            (Opcode::Flush, _) => true,
            (_, None) => false,
            (Opcode::Report, Some((zone, _))) => {
                u64::from(zone) + u64::from(command.sectors) <= u64::from(space.zones.geometry().zones)
            }
            _ => command.lba.0 + u64::from(command.sectors) <= space.zones.sectors(),
        };
        (!inside).then_some(Status::LbaOutOfRange)
    }

    /// A zoned command has been taken.
    pub(crate) fn start_zone(&mut self, work: u32) {
        match self.works[work].command.opcode {
            Opcode::Read => self.zone_read(work),
            Opcode::Write | Opcode::Append => self.zone_write(work),
            Opcode::Zone(action) => self.zone_action(work, action),
            Opcode::Report => self.zone_report(work),
            Opcode::Flush => self.zone_flush(work),
            _ => unreachable!("refused at submission"),
        }
    }

    fn zone_write(&mut self, work: u32) {
        let Command { opcode, namespace, lba, sectors, .. } = self.works[work].command;
        let space = self.zone_space(namespace);
        let (zone, first) = match space.zones.accept(lba, sectors, opcode == Opcode::Append) {
            Ok(at) => at,
            Err(status) => return self.merge_status(work, status, 0),
        };
        let start = space.zones.info(zone).start.0;
        let stripe = space.zones.stripe_sectors();
        let mut done = 0;
        while done < sectors {
            let at = first + done;
            let here = (stripe - at % stripe).min(sectors - done);
            self.zone_space(namespace).runs[zone as usize].inbound += 1;
            self.direct_slice(work, Route::Stage, (Ppa(at / stripe), at % stripe), (done, here), zone);
            done += here;
        }
        if opcode == Opcode::Append {
            self.works[work].result = start + u64::from(first);
        }
    }

    /// A slice gets its slot, or waits for one; `in_turn`: it has waited.
    pub(crate) fn stage(&mut self, slice: u32, in_turn: bool) {
        let (namespace, zone, stripe, first) = {
            let s = &self.slices[slice];
            (self.works[s.work].command.namespace, s.lpn.0, s.entry, s.first)
        };
        let space = self.zone_space(namespace);
        if (!in_turn && !space.starved.is_empty()) || (first == 0 && space.is_full()) {
            let mut starved = space.starved;
            match in_turn {
                true => starved.push_front(&mut self.slices, slice),
                false => starved.push_back(&mut self.slices, slice),
            }
            self.zone_space(namespace).starved = starved;
            return;
        }
        if first == 0 {
            let slot = space.take(zone, stripe);
            space.runs[zone as usize].tail = slot;
        }
        let slot = space.runs[zone as usize].tail;
        debug_assert_eq!((space.slots[slot].zone, space.slots[slot].stripe), (zone, stripe));
        self.zone_space(namespace).slots[slot].coming += self.slices[slice].sectors;
        self.slices[slice].entry = slot;
        self.slices[slice].book(Stage::Buffer, self.now);
        self.ask(Task::Dma(slice));
    }

    /// A slot became vacant: those who wait go on in their order.
    pub(crate) fn feed_stage(&mut self, namespace: u16) {
        loop {
            let space = self.zone_space(namespace);
            if space.starved.is_empty() || space.is_full() {
                return;
            }
            let mut starved = space.starved;
            let slice = starved.pop(&mut self.slices).expect("not empty");
            self.zone_space(namespace).starved = starved;
            self.stage(slice, true);
        }
    }

    /// The data of a slice are in the controller.
    pub(crate) fn staged(&mut self, slice: u32) {
        let (work, slot, zone, first, sectors, data_at) = {
            let s = &self.slices[slice];
            (s.work, s.entry, s.lpn.0, s.first, s.sectors, s.data_at)
        };
        let Command { namespace, fua, .. } = self.works[work].command;
        let image = self.image_bytes;
        let Space::Zones(space) = &mut self.spaces[usize::from(namespace)] else { unreachable!() };
        let data = &self.works[work].command.data[data_at as usize * image..][..sectors as usize * image];
        space.images_mut(slot)[first as usize * image..][..sectors as usize * image].copy_from_slice(data);
        let stripe = space.zones.stripe_sectors();
        let record = &mut space.slots[slot];
        record.arrived += sectors;
        record.coming -= sectors;
        let full = record.arrived == stripe;
        space.runs[zone as usize].inbound -= 1;
        let through = fua || self.config.buffer.write == crate::config::WritePolicy::WriteThrough;
        // Protected, the buffer is as good as the media.
        if space.protected {
            let number = record.stripe;
            let status =
                if space.keep(slot, &mut self.media) { space.kept(zone, number) } else { Status::WriteFault };
            self.slice_done(slice, status);
        } else if through {
            // It may come to wait with the slot of a stripe in front of its own.
            self.slices[slice].entry = record.stripe;
            let mut list = record.acknowledge;
            list.push_back(&mut self.slices, slice);
            self.zone_space(namespace).slots[slot].acknowledge = list;
        } else {
            self.slice_done(slice, Status::Success);
        }
        if full {
            let run = &mut self.zone_space(namespace).runs[zone as usize];
            // The next stripe may have a slot already.
            run.tail = if run.tail == slot { NIL } else { run.tail };
            self.program_stage(namespace, slot);
        } else if !self.zone_space(namespace).slots[slot].acknowledge.is_empty() {
            self.log(namespace, slot);
        }
        self.zone_quiet(namespace, zone);
    }

    /// Plans the program of a slot.
    pub(crate) fn program_stage(&mut self, namespace: u16, slot: u32) {
        let space = self.zone_space(namespace);
        let (zone, stripe) = (space.slots[slot].zone, space.slots[slot].stripe);
        if !std::mem::replace(&mut space.slots[slot].programming, true) {
            space.runs[zone as usize].programs += 1;
        }
        match space.zones.place(zone, stripe) {
            Some(first) => self.issue_stage(Client::Stage { namespace, slot }, first, Cause::Host),
            None => self.lose_stage(namespace, slot),
        }
    }

    pub(crate) fn issue_stage(&mut self, client: Client, first: Ppa, cause: Cause) {
        let die = self.layout.die_of(first).0;
        let kind = if matches!(client, Client::LogErase { .. }) { OpKind::Erase } else { OpKind::Program };
        let op = FlashOp::new(kind, cause, client, die, first, self.layout.units_per_stripe, self.now);
        let op = self.scheduler.ops.insert(op);
        self.ask(Task::Issue(op));
    }

    /// The array starts on a slot's stripe, unless its block has failed since it was planned.
    pub(crate) fn stage_begins(&mut self, namespace: u16, slot: u32, first: Ppa) -> Nanos {
        let arrived = self.zone_space(namespace).slots[slot].arrived;
        self.slot_begins(namespace, slot, first, None, arrived)
    }

    pub(crate) fn log_begins(&mut self, namespace: u16, slot: u32, first: Ppa) -> Nanos {
        let record = &mut self.zone_space(namespace).slots[slot];
        let sectors = record.arrived;
        record.logging = Some(sectors);
        self.slot_begins(namespace, slot, first, Some(LOG), sectors)
    }

    fn slot_begins(
        &mut self,
        namespace: u16,
        slot: u32,
        first: Ppa,
        lpn: Option<Lpn>,
        sectors: u32,
    ) -> Nanos {
        let Space::Zones(space) = &mut self.spaces[usize::from(namespace)] else { unreachable!() };
        if space.zones.is_condemned(self.layout.block_of(first)) {
            space.slots[slot].skipped = true;
            return Nanos::ZERO;
        }
        let sequence = space.zones.next_sequence();
        self.media
            .program_begin(first, sequence)
            .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
        let (lpn, mark) = (lpn.unwrap_or(Lpn(space.slots[slot].zone)), space.mark(slot, sectors));
        space.put(slot, lpn, mark, first, &mut self.media, &self.layout);
        self.media.program_ns(first)
    }

    /// Ends the operation of a slot; whether its stripe is on the media, and the stages of the operation.
    pub(crate) fn slot_ended(
        &mut self,
        op: u32,
        namespace: u16,
        slot: u32,
        cause: Cause,
    ) -> (bool, pellucid_flash::StageTimes) {
        let (first, stages) = (self.scheduler.ops[op].ppa, self.scheduler.ops[op].stages);
        let Space::Zones(space) = &mut self.spaces[usize::from(namespace)] else { unreachable!() };
        let skipped = std::mem::take(&mut space.slots[slot].skipped);
        let ok = !skipped && self.media.program_end(first) == Outcome::Ok;
        if !skipped {
            let data = if space.slots[slot].is_data() { space.slots[slot].arrived } else { 0 };
            let stripe = space.zones.stripe_sectors();
            self.counters.media_operations += 1;
            self.counters.programs[cause as usize] += 1;
            self.counters.programmed_sectors[cause as usize] += u64::from(data);
            self.counters.programmed_sectors[Cause::Padding as usize] += u64::from(stripe - data);
            self.placement.beside.programmed_sectors += u64::from(stripe);
            self.counters.program_failures += u64::from(!ok);
            if !ok {
                self.retire_block(self.layout.block_of(first));
            }
        }
        self.let_go(op);
        (ok, stages)
    }

    /// The program of a slot has ended.
    pub(crate) fn stage_ended(&mut self, op: u32, namespace: u16, slot: u32) {
        let block = self.layout.block_of(self.scheduler.ops[op].ppa);
        let (ok, stages) = self.slot_ended(op, namespace, slot, Cause::Host);
        let space = self.zone_space(namespace);
        let (zone, stripe) = (space.slots[slot].zone, space.slots[slot].stripe);
        if !ok {
            space.zones.program_failed(zone, stripe, block);
            return self.program_stage(namespace, slot);
        }
        space.runs[zone as usize].programs -= 1;
        space.slots[slot].programming = false;
        let finish = space.slots[slot].finish;
        match self.zone_space(namespace).programmed_before(zone, stripe) {
            // Written for good is what would come back: not before all that is in front of it.
            Some(earlier) => {
                let list = self.zone_space(namespace).slots[slot].acknowledge.take();
                self.hand_on(namespace, list, earlier);
            }
            None => self.acknowledge_stage(namespace, slot, Some(&stages), Status::Success),
        }
        if finish {
            self.zone_space(namespace).zones.finish_end(zone);
            self.end_action(namespace, zone, Status::Success);
        }
        let awaited = self.end_flushing(namespace, slot);
        self.retire_slot(namespace, slot);
        if awaited {
            self.flush_part(namespace);
        }
        self.log_waiting(namespace, zone);
        self.zone_quiet(namespace, zone);
    }

    /// What waited for another slot waits for this one, in front of it, from now on: for the log program that is under way, if that takes
    /// all there is.
    pub(crate) fn hand_on(&mut self, namespace: u16, mut list: List, to: u32) {
        let record = &self.zone_space(namespace).slots[to];
        let logged = record.stranded && record.logging.is_some_and(|n| n == 0 || n == record.arrived);
        let mut waiting = if logged { record.with_log } else { record.acknowledge };
        while let Some(slice) = list.pop(&mut self.slices) {
            waiting.push_back(&mut self.slices, slice);
        }
        let record = &mut self.zone_space(namespace).slots[to];
        *(if logged { &mut record.with_log } else { &mut record.acknowledge }) = waiting;
    }

    /// Completes the slices that wait for a slot's program.
    pub(crate) fn acknowledge_stage(
        &mut self,
        namespace: u16,
        slot: u32,
        stages: Option<&pellucid_flash::StageTimes>,
        status: Status,
    ) {
        let list = self.zone_space(namespace).slots[slot].acknowledge.take();
        self.acknowledge_list(namespace, list, stages, status);
    }

    /// What waited ends with `status`, or with a fault where a stripe in front of its own is lost.
    pub(crate) fn acknowledge_list(
        &mut self,
        namespace: u16,
        mut list: List,
        stages: Option<&pellucid_flash::StageTimes>,
        status: Status,
    ) {
        while let Some(slice) = list.pop(&mut self.slices) {
            match stages {
                Some(stages) => add_stages(&mut self.slices[slice], stages, self.now),
                None => self.slices[slice].book(Stage::Buffer, self.now),
            }
            let Slice { work, lpn: zone, entry: stripe, .. } = self.slices[slice];
            let kept = self.zone_space(namespace).kept(zone.0, stripe);
            self.merge_status(work, status, 0);
            self.merge_status(work, kept, 0);
            self.slice_done(slice, Status::Success);
        }
    }

    /// A slot is done with.
    pub(crate) fn vacate(&mut self, namespace: u16, slot: u32) {
        let Space::Zones(space) = &mut self.spaces[usize::from(namespace)] else { unreachable!() };
        space.vacate(slot, &mut self.media);
    }

    /// A slot whose stripe is on the media is given back, if its log program has ended too.
    pub(crate) fn retire_slot(&mut self, namespace: u16, slot: u32) {
        let space = self.zone_space(namespace);
        let record = &mut space.slots[slot];
        record.wants_log = false;
        if record.logging.is_some() {
            // Nothing will be asked of it but the end of that program.
            record.finish = true;
            return;
        }
        self.vacate(namespace, slot);
        self.reap_log(namespace);
        self.feed_stage(namespace);
    }

    /// First sectors of the zones of a namespace whose descriptor has changed without a command, since the last call: those that became
    /// read-only or offline, and those that should be reset.
    pub fn take_changed_zones(&mut self, namespace: u16) -> Vec<Lba> {
        let Some(Space::Zones(space)) = self.spaces.get_mut(usize::from(namespace)) else {
            return Vec::new();
        };
        let sectors = space.zones.geometry().zone_sectors;
        space.zones.take_changed().into_iter().map(|zone| Lba(u64::from(zone) * sectors)).collect()
    }

    /// The media let a zone down, of which the log keeps a record.
    pub(crate) fn fail_zone(&mut self, namespace: u16, zone: u32) {
        let space = self.zone_space(namespace);
        space.zones.fail(zone);
        let state = space.zones.state(zone);
        if let Some(slot) = space.pronounce(zone, state) {
            self.log(namespace, slot);
        }
    }

    /// No block is left for a slot's stripe: the zone is read-only from now on, and the stripe stays in the log.
    fn lose_stage(&mut self, namespace: u16, slot: u32) {
        let space = self.zone_space(namespace);
        let (zone, arrived) = (space.slots[slot].zone, space.slots[slot].arrived);
        space.runs[zone as usize].programs -= 1;
        let record = &mut space.slots[slot];
        (record.programming, record.finish) = (false, false);
        // What a flush waited for as a program, it waits for as a log entry now; for one that holds nothing it waits no longer.
        let awaited = record.flushing != 0;
        record.flushing = if awaited { arrived } else { 0 };
        let run = &mut space.runs[zone as usize];
        run.tail = if run.tail == slot { NIL } else { run.tail };
        let action = run.action;
        self.fail_zone(namespace, zone);
        let space = self.zone_space(namespace);
        // What the log has of it may have been promised.
        let keeps = arrived > 0 && (space.slots[slot].logged > 0 || space.log_may_keep_more());
        if action != NIL {
            self.end_action(namespace, zone, Status::WriteFault);
        }
        if keeps {
            self.zone_space(namespace).strand(slot);
            self.log(namespace, slot);
            // It is not one of those any more that will become vacant.
            self.feed_stage(namespace);
        } else {
            self.drop_stage(namespace, slot);
        }
        if awaited && arrived == 0 {
            self.flush_part(namespace);
        }
        self.log_waiting(namespace, zone);
        self.zone_quiet(namespace, zone);
    }

    /// Neither its zone nor the log has room for what a slot holds.
    pub(crate) fn drop_stage(&mut self, namespace: u16, slot: u32) {
        let silent = self.acknowledged_in(namespace, slot);
        self.acknowledge_stage(namespace, slot, None, Status::WriteFault);
        let awaited = self.fail_flush(namespace, slot);
        let space = self.zone_space(namespace);
        space.flush.lost |= silent && !awaited;
        let Slot { zone, stripe, .. } = space.slots[slot];
        let run = &mut space.runs[zone as usize];
        run.hole = run.hole.min(stripe);
        if std::mem::take(&mut space.slots[slot].stranded) {
            space.runs[space.slots[slot].zone as usize].stranded -= 1;
        }
        self.retire_slot(namespace, slot);
        if awaited {
            self.flush_part(namespace);
        }
        self.lose_waiting(namespace, zone);
    }

    /// A stripe of a zone is lost: what waited behind it to be logged would come back without what stands in front of it.
    fn lose_waiting(&mut self, namespace: u16, zone: u32) {
        let space = self.zone_space(namespace);
        let tail = space.runs[zone as usize].tail;
        if tail != NIL && std::mem::take(&mut space.slots[tail].wants_log) {
            self.lose_log(namespace, tail);
        }
    }

    /// Whether a slot holds sectors whose writes have been acknowledged.
    fn acknowledged_in(&mut self, namespace: u16, slot: u32) -> bool {
        let space = self.zone_space(namespace);
        let (arrived, waiting) = (space.slots[slot].arrived, space.slots[slot].acknowledge);
        let mut told = 0;
        waiting.for_each(&mut self.slices, |slice| told += slice.sectors);
        arrived > told
    }

    // ---- reads and reports

    fn zone_read(&mut self, work: u32) {
        let Command { namespace, lba, sectors, .. } = self.works[work].command;
        let space = self.zone_space(namespace);
        let (zone, offset) = space.zones.zone_of(lba).expect("checked at submission");
        if offset + u64::from(sectors) > space.zones.geometry().zone_sectors {
            return self.merge_status(work, Status::ZoneBoundary, 0);
        }
        if space.zones.state(zone) == ZoneState::Offline {
            return self.merge_status(work, Status::ZoneOffline, 0);
        }
        let written = u64::from(space.zones.data_sectors(zone));
        let stripe = u64::from(space.zones.stripe_sectors());
        let (mut done, mut told) = (0, 0);
        while done < sectors {
            let at = offset + u64::from(done);
            if at >= written {
                // Nothing behind the write pointer.
                self.zone_give(work, done, sectors - done, None);
                told += sectors - done;
                break;
            }
            let (number, first) = ((at / stripe) as u32, (at % stripe) as u32);
            let here = (stripe - at % stripe).min(written - at).min(u64::from(sectors - done)) as u32;
            if let Some(slot) = self.zone_space(namespace).find(zone, number) {
                self.zone_give(work, done, here, Some((slot, first)));
                if self.zone_space(namespace).slots[slot].lost {
                    self.merge_status(work, Status::UnrecoveredRead, 0);
                }
                self.counters.buffer_read_hits += 1;
                told += here;
            } else {
                self.zone_sense(work, zone, number, first, (done, here));
            }
            done += here;
        }
        if told > 0 {
            self.direct_slice(work, Route::Tell, (Ppa(0), 0), (0, told), zone);
        }
    }

    /// Gives `sectors` from the buffer, or zeros.
    fn zone_give(&mut self, work: u32, at: u32, sectors: u32, from: Option<(u32, u32)>) {
        let image = self.image_bytes;
        let Command { namespace, data, .. } = &mut self.works[work].command;
        if data.is_empty() {
            return;
        }
        let Space::Zones(space) = &self.spaces[usize::from(*namespace)] else { unreachable!() };
        let out = &mut data[at as usize * image..][..sectors as usize * image];
        match from {
            Some((slot, first)) => {
                out.copy_from_slice(&space.images(slot)[first as usize * image..][..out.len()])
            }
            None => out.fill(0),
        }
    }

    /// Reads sectors of one stripe from the media, a run for every sense.
    fn zone_sense(&mut self, work: u32, zone: u32, stripe: u32, first: u32, (at, sectors): (u32, u32)) {
        let namespace = self.works[work].command.namespace;
        let Some(start) = self.zone_space(namespace).zones.locate(zone, stripe) else {
            self.zone_give(work, at, sectors, None);
            return self.merge_status(work, Status::UnrecoveredRead, 0);
        };
        let per_unit = self.layout.sectors_per_unit;
        let group = self.direct.sense.get() * per_unit;
        let mut done = 0;
        while done < sectors {
            let sector = first + done;
            let here = (group - sector % group).min(sectors - done);
            let unit = Ppa(start.0 + sector / per_unit);
            self.direct_slice(work, Route::Read, (unit, sector % per_unit), (at + done, here), zone);
            done += here;
        }
    }

    fn zone_report(&mut self, work: u32) {
        let Command { namespace, lba, sectors, .. } = self.works[work].command;
        let mut data = std::mem::take(&mut self.works[work].command.data);
        data.clear();
        let zones = &self.zone_space(namespace).zones;
        let (first, _) = zones.zone_of(lba).expect("checked at submission");
        (first..first + sectors).for_each(|zone| zones.info(zone).encode(&mut data));
        self.works[work].command.data = data;
        self.direct_slice(work, Route::Tell, (Ppa(0), 0), (0, 0), 0);
    }
}
