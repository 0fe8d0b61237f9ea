//! The read path, and that of everything that needs a unit from the media.
//!
//! ```text
//!  slice ─► entry listed? ── all sectors here ─────────────────────────────► DMA to host ─► done
//!              │ no: take a vacant entry (or wait for one)                       ▲
//!              └─► fill: never written ─► zeros ──────────────────────────────┤
//!                        else flash read ─► failed? again, elsewhere if moved ───┘
//! ```
//! A page whose data GC moves is read where it lies still: its new place may be programmed long after. (With
//! `order = "fifo"` nothing goes ahead of that program, and the new place is read.)
//!
//! One sense brings all units of a command that lie in the page, of all planes that work together: as long as it has not begun, the next
//! units of the command join it. Their data cross the channel with it; from then on each goes its own way, and is read again alone.
//!
//! Slices that come while a fill is under way join it. A fill brings only the sectors that the entry does not have, so a
//! write that arrives meanwhile is not undone.

use super::buffer::{Content, Phase};
use super::map_reads::Then;
use super::{BlockNamespace, Purpose};
use crate::back::scheduler::{FlashOp, OpKind};
use crate::config::DieOrder;
use crate::front::commands::{Place, Slice};
use crate::shared::Shared;
use pellucid_flash::slab::NIL;
use pellucid_flash::{Cause, Opcode, Ppa, Stage, Status};
use pellucid_ftl::Located;
use pellucid_media::ReadResult;

impl BlockNamespace {
    /// Finds or makes the entry for a slice and lets it go on; `in_turn`: it has waited for an entry and may take one.
    #[inline]
    pub(crate) fn place(&mut self, shared: &mut Shared, slice: u32, in_turn: bool) {
        let record = &shared.slices[slice];
        match shared.works[record.work].command.opcode {
            Opcode::Read => self.place_read(shared, slice, in_turn),
            _ => self.place_write(shared, slice, in_turn),
        }
    }

    /// As [`BlockNamespace::place`], for a read.
    fn place_read(&mut self, shared: &mut Shared, slice: u32, in_turn: bool) {
        let lpn = shared.slices[slice].lpn;
        let entry = match self.buffer.find(lpn) {
            Some(entry) => {
                self.buffer.busy(entry);
                entry
            }
            None if (!in_turn && !self.is_line_empty(false)) || !self.make_vacancy() => {
                return self.starve(shared, slice, false);
            }
            None => self.buffer.take(lpn).expect("a vacancy was made"),
        };
        self.book_placed(shared, slice, entry, in_turn && !self.waits_apart(false));
        let record = &mut shared.slices[slice];
        let held = &mut self.buffer[entry];
        if held.has(record.mask()) {
            shared.counts(self.number).buffer_read_hits += 1;
            return self.serve(shared, slice, entry);
        }
        record.primary = !held.is_filling();
        let (starts, work) = (record.primary, record.work);
        held.waiting.push_back(&mut shared.slices, slice);
        if starts {
            self.start_fill(shared, entry, Cause::Host, work);
        }
    }

    /// The slice has its entry; `waited`: it waited for programs until now.
    #[inline]
    pub(super) fn book_placed(&mut self, shared: &mut Shared, slice: u32, entry: u32, waited: bool) {
        let record = &mut shared.slices[slice];
        record.place = Place::Entry(entry);
        match waited {
            true => record.book_from(&mut self.writes.cleaning, shared.now),
            false => record.book(Stage::Buffer, shared.now),
        }
    }

    /// The data of a read slice are in its entry, or pass through it: they go to the host.
    #[inline]
    fn serve(&mut self, shared: &mut Shared, slice: u32, entry: u32) {
        let held = &mut self.buffer[entry];
        (held.users, held.readers) = (held.users + 1, held.readers + 1);
        self.ask_dma(shared, slice);
    }

    /// Brings the sectors that `entry` lacks. `work`: the command that reads them, if it is one.
    #[inline]
    pub(crate) fn start_fill(&mut self, shared: &mut Shared, entry: u32, cause: Cause, work: u32) {
        let held = &mut self.buffer[entry];
        held.phase = Phase::Filling { completing: cause == Cause::ReadModifyWrite };
        held.content = if held.content == Content::Hollow { Content::Data } else { held.content };
        let located = self.translation.lookup(held.lpn);
        self.fill_from(shared, entry, located, cause, work);
    }

    /// As [`BlockNamespace::start_fill`], for a page that lies there.
    #[inline]
    pub(super) fn fill_from(
        &mut self,
        shared: &mut Shared,
        entry: u32,
        located: Located,
        cause: Cause,
        work: u32,
    ) {
        let newest = match located {
            Located::At(ppa) => ppa,
            Located::Zero if self.is_cache() => return self.miss(shared, entry, None),
            Located::Zero => return self.fill_zeros(shared, entry, None),
            Located::Lost => return self.end_fill(shared, entry, Status::UnrecoveredRead, None),
            Located::NeedsMap(page) => return self.await_map(shared, entry, page, Then::Fill(cause, work)),
        };
        let hurries = cause == Cause::Host && shared.config.scheduler.order == DieOrder::ReadFirst;
        let ppa = match hurries {
            true => Some(self.translation.readable(newest)).filter(|ppa| ppa.is_some()).unwrap_or(newest),
            false => newest,
        };
        shared.media.prefetch(ppa);
        if shared.sense.get() > 1 && work != NIL && self.joins(shared, entry, work, ppa) {
            return;
        }
        let die = shared.layout.die_of(ppa).0;
        let (owner, now) = (self.owner(Purpose::Fill(entry)), shared.now);
        let ops = &mut shared.scheduler.ops;
        let op = ops.insert_with(|| FlashOp::new(OpKind::Read, cause, owner, die, ppa, 1, now));
        ops[op].epoch = self.discards.read_begins();
        if self.config.buffer.fifo && cause == Cause::ReadModifyWrite {
            ops[op].sectors = (shared.full & !self.buffer[entry].valid).count_ones();
        }
        self.gathering = (op, work);
        shared.ask_issue(op);
    }

    /// Returns whether the sense that the command waits for anyhow also brings the unit at `ppa`; `entry` is then filled by it.
    fn joins(&mut self, shared: &mut Shared, entry: u32, work: u32, ppa: Ppa) -> bool {
        let (op, command) = self.gathering;
        if op == NIL || command != work {
            return false;
        }
        let (record, sense) = (&mut shared.scheduler.ops[op], shared.sense);
        let Purpose::Fill(head) = Purpose::of(record.owner.token) else { return false };
        if sense.quotient(record.ppa.0) != sense.quotient(ppa.0) {
            return false;
        }
        record.units += 1;
        let beside = std::mem::replace(&mut self.buffer[head].beside, entry);
        (self.buffer[entry].beside, self.buffer[entry].source) = (beside, ppa);
        true
    }

    /// The data that one sense brought are here: each unit but the first has an operation of its own from now on.
    pub(super) fn part_fills(&mut self, shared: &mut Shared, op: u32, head: u32) {
        shared.scheduler.ops[op].units = 1;
        let mut at = std::mem::replace(&mut self.buffer[head].beside, NIL);
        while at != NIL {
            let entry = at;
            at = std::mem::replace(&mut self.buffer[entry].beside, NIL);
            let (owner, ppa) = (self.owner(Purpose::Fill(entry)), self.buffer[entry].source);
            let mut part = shared.scheduler.ops[op].part_for(owner, ppa);
            part.epoch = self.discards.read_begins();
            let part = shared.scheduler.ops.insert(part);
            shared.tap_part(op, part);
            self.fill_arrived(shared, part, entry);
        }
    }

    #[inline]
    pub(super) fn fill_arrived(&mut self, shared: &mut Shared, op: u32, entry: u32) {
        let FlashOp { ppa, attempts, .. } = shared.scheduler.ops[op];
        let Located::At(now_at) = self.translation.peek(self.buffer[entry].lpn) else {
            return match self.translation.peek(self.buffer[entry].lpn) {
                // The program that followed what was lost has failed.
                Located::Lost => self.end_fill(shared, entry, Status::UnrecoveredRead, Some(op)),
                _ if self.is_cache() => self.miss(shared, entry, Some(op)),
                // Trimmed while the read was under way.
                _ => self.fill_zeros(shared, entry, Some(op)),
            };
        };
        if now_at != ppa && self.names_another(shared, ppa, entry) {
            // It moved while the data were being decoded, and its old place serves another page by now.
            return shared.retry(op, now_at);
        }
        let passes = self.passes_through(entry);
        let result = match self.buffer[entry].valid {
            0 if passes => self.read_through(shared, ppa, entry, attempts),
            0 => {
                let sectors = shared.layout.sectors_per_unit;
                shared.media.read(ppa, 0, self.buffer.images_mut(entry, 0, sectors), attempts)
            }
            valid => {
                let mut scratch = std::mem::take(&mut self.writes.scratch);
                scratch.resize(shared.layout.sectors_per_unit as usize * shared.image_bytes, 0);
                let result = shared.media.read(ppa, 0, &mut scratch, attempts);
                if matches!(result, ReadResult::Ok { .. }) {
                    for sector in (0..shared.layout.sectors_per_unit).filter(|s| valid >> s & 1 == 0) {
                        let at = sector as usize * shared.image_bytes;
                        self.buffer
                            .images_mut(entry, sector, 1)
                            .copy_from_slice(&scratch[at..at + shared.image_bytes]);
                    }
                }
                self.writes.scratch = scratch;
                result
            }
        };
        // A read that failed has delivered nothing.
        let held = &mut self.buffer[entry];
        if passes && matches!(result, ReadResult::Ok { .. }) {
            held.content = Content::Hollow;
        }
        match result {
            ReadResult::Ok { corrected_bits, worst_chunk_bits } => {
                if !passes {
                    held.valid = shared.full;
                }
                shared.corrected(self.number, corrected_bits, attempts);
                self.end_fill(shared, entry, Status::Success, Some(op));
                if worst_chunk_bits > 0 {
                    self.refresh_if_due(shared, ppa, worst_chunk_bits);
                }
            }
            ReadResult::Uncorrectable if shared.tries_again(ppa, attempts) => shared.retry(op, now_at),
            // A copy was on its way elsewhere.
            ReadResult::Uncorrectable if now_at != ppa => shared.retry(op, now_at),
            ReadResult::Uncorrectable if self.drop_unreadable(self.buffer[entry].lpn) => {
                shared.counts(self.number).uncorrectable_reads += 1;
                self.miss(shared, entry, Some(op));
                self.unreadable(shared, ppa);
            }
            ReadResult::Uncorrectable => {
                shared.counts(self.number).uncorrectable_reads += 1;
                self.end_fill(shared, entry, Status::UnrecoveredRead, Some(op));
                self.unreadable(shared, ppa);
            }
            ReadResult::Erased if now_at != ppa => shared.retry(op, now_at),
            ReadResult::Erased => panic!("the map points to erased unit {}", ppa.0),
        }
    }

    /// Returns whether the content of a fill bypasses the buffer: the entry is given back after it, so the data go straight to the waiting
    /// hosts.
    #[inline]
    fn passes_through(&self, entry: u32) -> bool {
        let record = &self.buffer[entry];
        !self.config.buffer.retain && record.valid == 0 && !record.wanted
    }

    /// Reads a unit into the memory of the hosts that wait for it; without a copy in the buffer.
    fn read_through(&mut self, shared: &mut Shared, ppa: Ppa, entry: u32, attempts: u32) -> ReadResult {
        let (waiting, works) = (self.buffer[entry].waiting, &mut shared.works);
        let (media, image_bytes) = (&mut shared.media, shared.image_bytes);
        let mut result = None;
        waiting.for_each(&mut shared.slices, |slice| {
            let data = &mut works[slice.work].command.data;
            let start = slice.data_at as usize * image_bytes;
            let out = match data.is_empty() {
                true => &mut [][..],
                false => &mut data[start..start + slice.sectors as usize * image_bytes],
            };
            // The chances of a read that fails are drawn once: it is one read.
            match result {
                None => result = Some(media.read(ppa, slice.first, out, attempts)),
                Some(ReadResult::Ok { .. }) if !media.read_more(ppa, slice.first, out) => {
                    result = Some(ReadResult::Uncorrectable);
                }
                Some(_) => {}
            }
            slice.delivered = matches!(result, Some(ReadResult::Ok { .. }));
        });
        result.unwrap_or_else(|| media.read(ppa, 0, &mut [], attempts))
    }

    /// Fills with zeros what a never-written or trimmed page lacks.
    fn fill_zeros(&mut self, shared: &mut Shared, entry: u32, op: Option<u32>) {
        let valid = self.buffer[entry].valid;
        for sector in (0..shared.layout.sectors_per_unit).filter(|s| valid >> s & 1 == 0) {
            self.buffer.images_mut(entry, sector, 1).fill(0);
        }
        let held = &mut self.buffer[entry];
        // With sectors that were written, the page is on its way to a place.
        held.content = if valid == 0 { Content::Unmapped } else { Content::Data };
        held.blank = shared.full & !valid;
        held.valid = shared.full;
        self.end_fill(shared, entry, Status::Success, op);
    }

    /// Returns whether the unit at `ppa` is not known to hold the page of `entry`.
    #[inline]
    fn names_another(&self, shared: &Shared, ppa: Ppa, entry: u32) -> bool {
        let spare = shared.media.spare(ppa);
        spare.is_none_or(|spare| self.translation.named(spare.lpn) != self.buffer[entry].lpn)
    }

    /// The fill has ended: slices that wait for it go on, or fail.
    #[inline]
    pub(super) fn end_fill(&mut self, shared: &mut Shared, entry: u32, status: Status, op: Option<u32>) {
        let held = &mut self.buffer[entry];
        if std::mem::replace(&mut held.phase, Phase::Resting) == (Phase::Filling { completing: true }) {
            self.writes.filling -= 1;
        }
        // Held, so that nothing that follows from a slice gives the entry away before the end.
        held.users += 1;
        let mut waiting = held.waiting.take();
        if let Some(op) = op {
            shared.tap_operation(op);
            if shared.is_observed() {
                let completes = shared.scheduler.ops[op].cause == Cause::ReadModifyWrite;
                let place = completes.then(|| self.stored_at(self.buffer[entry].lpn));
                shared.tap_served(op, waiting, place);
            }
            self.discards.read_ended(shared.scheduler.ops[op].epoch);
        }
        while let Some(slice) = waiting.pop(&mut shared.slices) {
            let record = &mut shared.slices[slice];
            match op {
                // One that joined a sense later than it was asked for has waited for less.
                Some(op) if record.primary => record.add_operation(&shared.scheduler.ops[op], shared.now),
                _ => record.book(Stage::Buffer, shared.now),
            }
            let mask = record.mask();
            let held = &self.buffer[entry];
            if held.content == Content::Hollow || held.has(mask) {
                match shared.moves_at_once(slice) {
                    true => self.delivered(shared, slice),
                    false => self.serve(shared, slice, entry),
                }
            } else {
                if status == Status::Absent {
                    shared.note_absent(slice);
                }
                shared.slice_done(slice, status);
            }
        }
        if let Some(op) = op {
            shared.scheduler.ops.release(op);
        }
        // A write that brought all of the page meanwhile needs nothing of what could not be read.
        if status != Status::Success {
            let held = &self.buffer[entry];
            if held.wanted && !held.has(shared.full) {
                self.lose(shared, entry);
            }
        }
        self.release(shared, entry);
    }

    /// One user less.
    #[inline]
    pub(crate) fn release(&mut self, shared: &mut Shared, entry: u32) {
        self.buffer[entry].users -= 1;
        self.settle(shared, entry);
    }

    /// The data of a slice are where they belong, from now on, if they were not before: in the buffer or with the host. A controller that
    /// completes by itself does so behind this, so what a completion tells of its data is counted here.
    #[inline]
    pub(crate) fn move_data(&mut self, shared: &mut Shared, slice: u32) {
        let record = &mut shared.slices[slice];
        if std::mem::replace(&mut record.moved, true) {
            return;
        }
        let work = &mut shared.works[record.work];
        if work.command.opcode != Opcode::Read {
            return self.store(shared, slice);
        }
        let unmapped = self.buffer[record.place.entry()].content == Content::Unmapped;
        work.unmapped += if unmapped { record.sectors } else { 0 };
        let data = &mut work.command.data;
        if !data.is_empty() && !record.delivered {
            let start = record.data_at as usize * shared.image_bytes;
            let images = self.buffer.images(record.place.entry(), record.first, record.sectors);
            // A trim may have come while the link worked, and a write since: old, new and zeros are right answers then.
            data[start..start + images.len()].copy_from_slice(images);
        }
    }

    /// The host has, or has given, the data of a slice.
    #[inline]
    pub fn dma_done(&mut self, shared: &mut Shared, slice: u32) {
        let record = &shared.slices[slice];
        let (work, entry) = (record.work, record.place.entry());
        self.move_data(shared, slice);
        if shared.works[work].command.opcode != Opcode::Read {
            return self.write_arrived(shared, slice);
        }
        shared.slice_done(slice, Status::Success);
        self.buffer[entry].readers -= 1;
        self.release(shared, entry);
    }

    /// The host has the data of a read slice, which took no time.
    #[inline]
    fn delivered(&mut self, shared: &mut Shared, slice: u32) {
        self.move_data(shared, slice);
        shared.slice_done(slice, Status::Success);
    }

    /// The controller has moved the data of a slice; with the last one of its command it completes that by itself.
    pub fn link_done(&mut self, shared: &mut Shared, slice: u32) {
        let Slice { work, through, stages, .. } = shared.slices[slice];
        if through {
            return;
        }
        self.move_data(shared, slice);
        let record = &mut shared.works[work];
        record.dmas_left -= 1;
        if record.dmas_left == 0 && record.status == Status::Success {
            record.stages = stages;
            shared.complete(work);
            shared.unretired += 1;
        }
    }
}
