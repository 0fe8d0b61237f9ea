//! The write path.
//!
//! ```text
//!  slice ─► entry ─► DMA from host ─► dirty ──(write-back)──► acknowledged
//!                                        │ wanted: write-through, FUA, flush, room needed, too much dirty
//!                                        ▼
//!             all sectors here? no ─► fill (read-modify-write) ─► packed ─► superpage full, or padded ─► planned
//!                                                                     ─► program ─► acknowledged (write-through)
//! ```
//! Units are gathered until a superpage is full. A partial superpage is padded only when a command waits for it and nothing that
//! could fill it is on its way: [`crate::block::write_waits`]. Writes that fail: [`crate::block::write_failures`].

use super::behind::Behind;
use super::buffer::{Content, Phase};
use super::map_reads::Then;
use super::packer::SuperpagePacker;
use super::superpages::SuperpageUnit;
use super::{BlockNamespace, Purpose};
use crate::back::scheduler::{FlashOp, OpKind};
use crate::config::WritePolicy;
use crate::front::commands::{Place, Route, Slice};
use crate::shared::Shared;
use pellucid_flash::slab::NIL;
use pellucid_flash::{Cause, Lpn, Nanos, Opcode, Ppa, Stage, StageTimes, Status, copy_images};
use pellucid_ftl::{Full, Located, Move, Operation, Plan, ProgramId, Soon};
use pellucid_media::Outcome;

/// State that the write path keeps between steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writes {
    /// Entries that wait for a superpage.
    pub packer: SuperpagePacker,
    /// Write slices between fetch and arrival of their data.
    pub inbound: u32,
    /// Entries that are wanted and are being filled.
    pub filling: u32,
    /// Slices that are acknowledged only when programmed.
    pub awaited: u32,
    /// Entries packed or in a program.
    pub(super) leaving: u32,
    /// Total write slices whose data have arrived.
    pub arrived: u64,
    /// Writes that wait until what they overwrite is on its way to the media.
    pub behind: Behind,
    /// No die could take data at the last try.
    pub stalled: bool,
    /// Stages of programs that made entries clean while slices waited for entries, not yet shared out among these. Where an
    /// entry goes to the slice that has waited longest, not to the one that it was written out for, their times do not match one
    /// by one.
    pub cleaning: StageTimes,
    pub lpns: Vec<Lpn>,
    ended: Vec<SuperpageUnit>,
    pub scratch: Vec<u8>,
}

impl Writes {
    /// Makes the state for a drive with this many placement handles and superpages of this many units.
    pub fn new(handles: u16, units_per_superpage: u32) -> Writes {
        Writes { packer: SuperpagePacker::of_host(handles, units_per_superpage), ..Writes::default() }
    }

    /// Returns whether superpages may fill by themselves, or could not be planned.
    #[inline]
    pub fn more_comes(&self) -> bool {
        self.inbound > 0 || self.filling > 0 || self.waits_for_space() || self.packer.is_all_stalled()
    }

    /// Returns whether superpages could not be planned. Superpages of log blocks do not count: each of them waits for itself.
    #[inline]
    pub fn waits_for_space(&self) -> bool {
        self.stalled && !self.packer.is_of_logs()
    }

    /// Entries in programs.
    pub fn programming(&self) -> u32 {
        self.leaving - self.packer.waiting() as u32
    }
}

impl BlockNamespace {
    /// Cuts sectors of a command into slices, one for each mapping unit, and starts them.
    #[inline]
    pub(crate) fn cut(&mut self, shared: &mut Shared, work: u32, lba: u64, sectors: u32, zero: bool) {
        let per_unit = shared.layout.sectors_per_unit;
        let record = &mut shared.works[work];
        let (mut unit, mut first) = shared.layout.unit_of(lba);
        let count = if first + sectors <= per_unit { 1 } else { shared.layout.units_of(first + sectors) };
        record.slices_left += count;
        record.dmas_left += count;
        let write = record.command.opcode != Opcode::Read;
        let through = write && (record.command.fua || self.config.buffer.write == WritePolicy::WriteThrough);
        let (stages, start) = (record.stages, record.command.lba.0);
        self.writes.inbound += if write { count } else { 0 };
        let mut done = 0;
        while done < sectors {
            let here = (per_unit - first).min(sectors - done);
            let slice = shared.slices.insert_with(|| Slice {
                work,
                lpn: Lpn(unit),
                number: 0,
                first,
                sectors: here,
                data_at: (lba - start) as u32 + done,
                zero,
                unbegun: false,
                through,
                moved: false,
                primary: false,
                delivered: false,
                route: Route::Page,
                place: Place::None,
                mark: shared.now,
                stages,
                next: NIL,
            });
            done += here;
            (unit, first) = (unit + 1, 0);
            self.ask_slice(shared, slice);
        }
    }

    /// As [`BlockNamespace::place`], for a write.
    pub(super) fn place_write(&mut self, shared: &mut Shared, slice: u32, in_turn: bool) {
        let record = &shared.slices[slice];
        let (lpn, mask) = (record.lpn, record.mask());
        if self.read_only {
            return self.refuse_accepted(shared, slice);
        }
        let found = self.buffer.find(lpn);
        let awaited = |entry: u32| self.buffer[entry].is_awaited(mask);
        let apart = self.config.buffer.fifo;
        let joins_not = |entry: u32| {
            apart && self.buffer.is_of_write(entry) && self.buffer[entry].phase != Phase::Programming
        };
        if found.is_some_and(|entry| awaited(entry) || joins_not(entry)) || self.writes.behind.holds(lpn) {
            self.fall_behind(shared, slice);
            if let Some(entry) = found.filter(|_| apart) {
                self.hurry(shared, entry);
            }
            return;
        }
        let entry = match found {
            Some(entry) if self.buffer[entry].phase != Phase::Programming => {
                if !self.buffer.takes_write(entry) {
                    return self.starve(shared, slice, true);
                }
                entry
            }
            // A new entry: for a page that is not here, or beside one whose data are being programmed.
            _ => {
                let waits = !in_turn && !self.is_line_empty(true);
                if waits || self.buffer.writes_are_full() || !self.make_vacancy() {
                    return self.starve(shared, slice, true);
                }
                self.take_beside(lpn, found.is_some())
            }
        };
        self.buffer.busy(entry);
        self.book_placed(shared, slice, entry, in_turn);
        if self.buffer[entry].phase == Phase::Packed {
            self.unpack(entry);
        }
        self.buffer.hold_for_write(entry);
        shared.counts(self.number).buffer_write_hits += u64::from(found.is_some());
        self.buffer[entry].users += 1;
        self.ask_dma(shared, slice);
    }

    /// Takes a vacant entry for a page. `was_found`: the page had one whose data are being programmed.
    fn take_beside(&mut self, lpn: Lpn, was_found: bool) -> u32 {
        // Making room may have moved the page's old entry out.
        let old = if was_found { self.buffer.find(lpn) } else { None };
        if let Some(old) = old {
            self.buffer.unlist(old);
        }
        let entry = self.buffer.take(lpn).expect("a vacancy was made");
        match old {
            // Missing sectors are read behind the program.
            Some(old) if self.config.buffer.fifo => self.buffer[entry].follows = old,
            Some(old) => {
                self.buffer.copy(old, entry);
                self.buffer[entry].valid = self.buffer[old].valid;
            }
            None => {}
        }
        entry
    }

    /// A write that was accepted before the drive knew that it can store no more is refused.
    #[cold]
    fn refuse_accepted(&mut self, shared: &mut Shared, slice: u32) {
        self.writes.inbound -= 1;
        let record = &mut shared.slices[slice];
        record.book(Stage::Buffer, shared.now);
        if self.is_cache() {
            let (lpn, dirty) = (record.lpn, shared.works[record.work].command.opcode == Opcode::WriteDirty);
            self.give_up_unit(lpn, dirty);
        }
        shared.slice_done(slice, Status::ReadOnly);
    }

    /// Puts the data of a write slice into the buffer.
    #[inline]
    pub(crate) fn store(&mut self, shared: &mut Shared, slice: u32) {
        let s = &shared.slices[slice];
        let (entry, mask, work) = (s.place.entry(), s.mask(), s.work);
        let (command, submitted) = (&shared.works[s.work].command, shared.works[s.work].submitted);
        let images = self.buffer.images_mut(entry, s.first, s.sectors);
        if s.zero {
            images.fill(0);
        } else {
            let start = s.data_at as usize * shared.image_bytes;
            copy_images(images, &command.data[start..start + images.len()]);
        }
        let handle = match command.opcode {
            // A trim of part of a page does not say where the rest belongs.
            Opcode::Trim if self.buffer[entry].dirty != 0 => self.buffer[entry].handle,
            Opcode::Trim => self.translation.owner(self.buffer[entry].lpn),
            _ => command.handle,
        };
        let dirty = command.opcode == Opcode::WriteDirty;
        let record = &mut self.buffer[entry];
        record.valid |= mask;
        record.dirty |= mask;
        record.blank &= !mask;
        record.written_at = record.written_at.max(submitted);
        record.content = Content::Data;
        record.handle = handle;
        let place = self.stored_at(self.buffer[entry].lpn);
        shared.tap_stored(place, work);
        if self.is_cache() {
            self.stored_cached(entry, dirty);
        }
    }

    /// The firmware knows that the data of a write slice are in the buffer.
    #[inline]
    pub(crate) fn write_arrived(&mut self, shared: &mut Shared, slice: u32) {
        self.writes.inbound -= 1;
        self.writes.arrived += 1;
        let record = &shared.slices[slice];
        let entry = record.place.entry();
        if record.through {
            let held = &mut self.buffer[entry];
            held.wanted = true;
            held.acknowledge.push_back(&mut shared.slices, slice);
            self.writes.awaited += 1;
        } else {
            shared.slice_done(slice, Status::Success);
        }
        self.release(shared, entry);
        if self.config.buffer.write == WritePolicy::WriteBack {
            self.dispatch_above(shared, self.config.buffer.dirty_high);
        }
        self.pad_overdue(shared);
    }

    /// Decides the next step of an entry after work on it has ended.
    #[inline]
    pub(crate) fn settle(&mut self, shared: &mut Shared, entry: u32) {
        let record = &self.buffer[entry];
        let leaves = record.dirty != 0 && record.wanted;
        if record.is_occupied() || (record.users > 0 && !leaves) {
            return;
        }
        if leaves {
            return self.dispatch(shared, entry);
        }
        // A clean entry goes to the slices that wait for one: kept as the most recently used, it would let all older ones be written first.
        let stays = record.dirty != 0 || (self.config.buffer.retain && self.starved.is_empty());
        let stays = stays && record.listed;
        // Trimmed before it left: no program lets writes go on that wait behind it.
        self.writes.behind.wake(record.lpn);
        match stays {
            true => self.buffer.idle(entry),
            false => self.buffer.vacate(entry),
        }
        self.feed_starved(shared);
    }

    /// Sends an entry to the media as soon as nothing else is done with it.
    pub(crate) fn dispatch(&mut self, shared: &mut Shared, entry: u32) {
        self.buffer.busy(entry);
        let record = &mut self.buffer[entry];
        record.wanted = true;
        if record.is_occupied() {
            return;
        }
        if record.valid != shared.full {
            self.writes.filling += 1;
            self.start_fill(shared, entry, Cause::ReadModifyWrite, NIL);
            return;
        }
        self.pack(shared, entry);
    }

    /// Write-back: dispatches the least recently used dirty entries until no more than a share of the buffer is dirty.
    fn dispatch_above(&mut self, shared: &mut Shared, share: f64) {
        let limit = (share * f64::from(self.buffer.write_limit())) as u32;
        while self.buffer.dirty_idle() > limit {
            let Some(entry) = self.buffer.oldest_dirty() else { return };
            self.dispatch(shared, entry);
        }
    }

    #[inline]
    pub(super) fn pack(&mut self, shared: &mut Shared, entry: u32) {
        // The overwritten unit becomes invalid, so its address must be known.
        match self.translation.lookup(self.buffer[entry].lpn) {
            Located::NeedsMap(page) => self.await_map(shared, entry, page, Then::Leave),
            _ => self.pack_known(shared, entry),
        }
    }

    /// As [`BlockNamespace::pack`], when what it overwrites is known.
    #[inline]
    pub(super) fn pack_known(&mut self, shared: &mut Shared, entry: u32) {
        self.buffer[entry].phase = Phase::Packed;
        self.buffer[entry].packed_at = self.writes.arrived;
        self.writes.leaving += 1;
        let record = &self.buffer[entry];
        let stream = self.translation.stream(record.lpn, record.handle);
        let queue = self.writes.packer.pack(stream, entry);
        self.program_packed(shared, queue, false);
    }

    /// New data come for an entry that waits for a superpage: it goes back in line when they are here.
    pub(crate) fn unpack(&mut self, entry: u32) {
        self.writes.packer.unpack(entry);
        self.buffer[entry].phase = Phase::Resting;
        self.writes.leaving -= 1;
    }

    /// Plans full superpages of a queue of the packer (and the rest, if `pad`).
    pub(crate) fn program_packed(&mut self, shared: &mut Shared, queue: usize, pad: bool) {
        if self.writes.packer.is_stalled(queue) {
            return;
        }
        while self.writes.packer.has_superpage(queue) || (pad && !self.writes.packer.is_empty(queue)) {
            let Writes { lpns, packer, .. } = &mut self.writes;
            lpns.clear();
            for entry in packer.next_superpage(queue) {
                let record = &self.buffer[entry];
                lpns.push(if record.dropped { Lpn::NONE } else { record.lpn });
            }
            let count = lpns.len();
            let plan = match self.translation.place(packer.stream(queue), None, lpns) {
                Ok(plan) => plan,
                Err(Full { die }) => {
                    self.writes.stalled = true;
                    self.writes.packer.stall(queue);
                    // A drive that was just switched on may have to collect before it can take anything.
                    return match die {
                        Some(die) => self.pump(shared, die),
                        None => self.pump_all(shared),
                    };
                }
            };
            self.superpages.enter(&plan, count as u32);
            for i in 0..count {
                let entry = self.writes.packer.take(queue).expect("counted");
                self.enter_program(shared, &plan, i, entry);
            }
            self.issue_program(shared, &plan, count as u32, Cause::Host);
            if self.translation.checkpoint() {
                self.write_map(shared);
            }
        }
    }

    #[inline]
    fn enter_program(&mut self, shared: &mut Shared, plan: &Plan, position: usize, entry: u32) {
        self.superpages.set(plan.id, position, SuperpageUnit::Entry(entry));
        self.writes.behind.wake(self.buffer[entry].lpn);
        let record = &mut self.buffer[entry];
        record.phase = Phase::Programming;
        let sectors = shared.layout.sectors_per_unit;
        let fresh = if record.dropped { 0 } else { record.dirty.count_ones() };
        let new = if record.again { Cause::Retirement } else { Cause::Host };
        let rest = if record.dropped { Cause::Padding } else { Cause::ReadModifyWrite };
        let programmed = &mut shared.counts(self.number).programmed_sectors;
        programmed[new as usize] += u64::from(fresh);
        programmed[rest as usize] += u64::from(sectors - fresh);
        // Slices that wait for the acknowledgement have waited for the superpage until now.
        let (list, now) = (record.acknowledge, shared.now);
        list.for_each(&mut shared.slices, |slice| slice.book(Stage::Buffer, now));
    }

    /// Queues the flash operation of a planned program.
    #[inline]
    pub(crate) fn issue_program(&mut self, shared: &mut Shared, plan: &Plan, count: u32, cause: Cause) {
        let padding = (shared.layout.units_per_superpage - count) * shared.layout.sectors_per_unit;
        let counters = shared.counts(self.number);
        counters.programmed_sectors[Cause::Padding as usize] += u64::from(padding);
        counters.programs[cause as usize] += 1;
        let first_unit = self.superpages.units(plan.id)[0];
        let kind = match first_unit {
            SuperpageUnit::Copyback { .. } => OpKind::Copyback,
            _ => OpKind::Program,
        };
        let owner = self.owner(Purpose::Program(plan.id));
        let now = shared.now;
        let ops = &mut shared.scheduler.ops;
        let op = ops.insert_with(|| FlashOp::new(kind, cause, owner, plan.die.0, plan.first, count, now));
        if let SuperpageUnit::Entry(entry) = first_unit
            && self.config.buffer.fifo
            && shared.layout.units_per_superpage == 1
        {
            ops[op].sectors = shared.layout.sectors_per_unit - self.buffer[entry].blank.count_ones();
        }
        if shared.is_observed() {
            self.tell_programmed(shared, op, plan.id);
        }
        shared.ask_issue(op);
        // Room was used, so GC may be due. GC pumps by itself.
        if matches!(cause, Cause::Host | Cause::Journal | Cause::Map) {
            self.pump(shared, plan.die);
        }
    }

    /// Tells who observes the drive which data an operation programs.
    #[cold]
    fn tell_programmed(&self, shared: &mut Shared, op: u32, id: ProgramId) {
        for &unit in self.superpages.units(id) {
            if let SuperpageUnit::Entry(entry) = unit {
                shared.tap_programs(op, self.stored_at(self.buffer[entry].lpn), false);
            }
        }
    }

    #[inline]
    pub(super) fn begin_program(&mut self, shared: &mut Shared, id: ProgramId, first: Ppa) -> Nanos {
        self.translation.prefetch(Soon::End(id));
        let sequence = self.superpages.sequence(id);
        shared
            .media
            .program_begin(first, sequence)
            .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
        let sectors = shared.layout.sectors_per_unit;
        let units = self.superpages.units(id);
        let mut time = shared.media.program_of_units_ns(first, units.len() as u32);
        for (i, &unit) in (0..).zip(units) {
            let ppa = Ppa(first.0 + i);
            match unit {
                SuperpageUnit::Hole => {}
                SuperpageUnit::Entry(entry) if self.buffer[entry].dropped => {}
                SuperpageUnit::Entry(entry) => {
                    let mark =
                        self.translation.mark(self.buffer[entry].lpn, self.buffer[entry].is_state_dirty);
                    shared.media.put_unit(ppa, mark, self.buffer.images(entry, 0, sectors));
                    self.bring_waiting_near(shared, entry);
                }
                SuperpageUnit::Moved(r) => {
                    let (lpn, images) = self.gc.content(r);
                    // GC of a cache copies dirty units only.
                    shared.media.put_unit(ppa, self.translation.mark(lpn, true), images);
                }
                SuperpageUnit::Metadata => {
                    let (mark, content) = self.translation.metadata(id, i);
                    shared.media.put_translation_page(ppa, mark, content);
                }
                SuperpageUnit::Copyback { from, .. } => {
                    // One sense brings all of them.
                    time += if i == 0 { shared.media.read_ns(from) } else { Nanos::ZERO };
                    shared.media.copy_unit(from, ppa);
                }
            }
        }
        time
    }

    /// Prefetches the command that waits for the entry whose program begins. It was last read before the operation waited for its
    /// die, and is needed as soon as the program ends.
    #[inline]
    fn bring_waiting_near(&self, shared: &Shared, entry: u32) {
        if let Some(slice) = self.buffer[entry].acknowledge.first() {
            prefetch_index::prefetch_index(shared.works.records(), shared.slices[slice].work as usize);
        }
    }

    pub(super) fn program_done(&mut self, shared: &mut Shared, op: u32, id: ProgramId) {
        let (first, stages, copyback) = {
            let record = &shared.scheduler.ops[op];
            (record.ppa, record.stages, record.kind == OpKind::Copyback)
        };
        let ok = shared.media.program_end(first) == Outcome::Ok;
        let counters = shared.counts(self.number);
        counters.media_operations += 1;
        counters.program_failures += u64::from(!ok);
        counters.copybacks += u64::from(copyback && ok);
        shared.let_go(op);
        let die = shared.layout.die_of(first);
        // The calls below may plan the next program under the same number.
        let units = self.superpages.units(id);
        self.writes.ended.clear();
        self.writes.ended.extend_from_slice(units);
        let count = units.len();
        self.translation.set_now(shared.now);
        self.translation.ended(Operation::Program(id), ok);
        self.forget_outdated(shared);
        for at in 0..count {
            match self.writes.ended[at] {
                SuperpageUnit::Entry(entry) => self.entry_programmed(shared, entry, ok, &stages),
                SuperpageUnit::Moved(r) => self.copy_programmed(shared, r, ok, die),
                SuperpageUnit::Metadata => self.write_map(shared),
                SuperpageUnit::Hole => {}
                SuperpageUnit::Copyback { from, lpn, to } => {
                    let again = Move { from, cause: Cause::Retirement, to, inside: false };
                    self.copyback_done(shared, die, again, lpn, ok);
                }
            }
        }
        if !ok && self.is_worn_out() {
            self.read_only = true;
        }
        self.erase_emptied(shared);
        // Before GC goes on, so that they take turns.
        self.let_in(shared);
        self.pump(shared, die);
        self.continue_flush(shared);
    }

    #[inline]
    fn entry_programmed(&mut self, shared: &mut Shared, entry: u32, ok: bool, stages: &StageTimes) {
        self.buffer[entry].phase = Phase::Resting;
        self.writes.leaving -= 1;
        if !ok && !self.buffer[entry].dropped {
            return self.program_again(shared, entry, stages);
        }
        let record = &mut self.buffer[entry];
        (record.dirty, record.wanted, record.again) = (0, false, false);
        record.users += 1;
        self.acknowledge(shared, entry, Some(stages), Status::Success);
        self.flushed(entry);
        self.unpin(entry);
        if self.starved.is_line_empty() {
            self.writes.cleaning = StageTimes::default();
        } else if !self.let_evictor_lead(shared, entry, stages) {
            self.writes.cleaning.add_all(stages);
        }
        self.release(shared, entry);
    }

    /// Completes the slices that waited for the entry's program.
    #[inline]
    pub(crate) fn acknowledge(
        &mut self,
        shared: &mut Shared,
        entry: u32,
        stages: Option<&StageTimes>,
        status: Status,
    ) {
        let mut list = self.buffer[entry].acknowledge.take();
        if !list.is_empty() {
            self.writes.behind.wake(self.buffer[entry].lpn);
        }
        while let Some(slice) = list.pop(&mut shared.slices) {
            let record = &mut shared.slices[slice];
            match stages {
                Some(stages) => record.add_stages(stages, shared.now),
                None => record.book(Stage::Buffer, shared.now),
            }
            self.writes.awaited -= 1;
            shared.slice_done(slice, status);
        }
    }
}
