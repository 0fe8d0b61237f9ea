//! The meaning of open-channel commands (Open-Channel SSD 2.0), on the [direct path](crate::direct).
//!
//! ```text
//!  read    address ─► place by arithmetic ─► unwritten? zeros, or 287h ─► runs that one sense brings
//!  write   addresses ─► rules (all or none) ─► one program per superpage ─► 2F0h / 2F1h where the media fail
//!  reset   address ─► state allows it? ─► erase ─► free, or offline
//!  copy    sources read into the controller (or moved inside the die) ─► as write
//! ```
//! Writes are acknowledged when they are programmed, so a flush has nothing to do. Copies are in `chunks/copy.rs`.

mod copy;

use crate::back::operations;
use crate::back::scheduler::{FlashOp, OpKind, Owner, Token};
use crate::config::{self, Feedback};
use crate::direct;
use crate::direct::chunk_refresh::Refresh;
use crate::direct::{DirectPath, Taken, address, bits};
use crate::front::commands::{Place, Route, Slice};
use crate::shared::Shared;
use pellucid_flash::{
    ChunkInfo, ChunkOp, ChunkReason, ChunkScope, Command, Lba, Lpn, Nanos, Opcode, Ppa, Stage, Status, Vector,
};
use pellucid_ftl::{ChunkPlan, ChunkReset, Chunks, Management};

/// The longest scalar command, in sectors: what NVMe's 16-bit length can say.
const SCALAR_SECTORS_MAX: u32 = 1 << 16;

/// An open-channel namespace.
#[derive(Clone, Debug)]
pub(crate) struct ChunkNamespace {
    pub(super) number: u16,
    pub chunks: Chunks,
    pub feedback: Feedback,
    pub(super) refresh: Refresh,
    plans: Vec<ChunkPlan>,
}

/// Purpose of a flash operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// This slice of a command.
    Slice(u32),
    /// The chunk that is being written anew.
    Refresh,
}

impl Purpose {
    fn of(token: Token) -> Purpose {
        match token.parts() {
            (0, slice) => Purpose::Slice(slice),
            _ => Purpose::Refresh,
        }
    }
}

impl DirectPath for ChunkNamespace {
    /// The firmware has looked at a slice.
    fn slice_known(&mut self, shared: &mut Shared, slice: u32) {
        shared.slices[slice].book(Stage::Firmware, shared.now);
        match shared.slices[slice].route {
            Route::Read | Route::CopyRead => self.issue(shared, slice, OpKind::Read),
            Route::Erase => self.issue(shared, slice, OpKind::Erase),
            Route::CopyProgram => {
                let moved = shared.works[shared.slices[slice].work].command.data.is_empty();
                self.issue(shared, slice, if moved { OpKind::Copyback } else { OpKind::Program });
            }
            Route::Program | Route::Tell => self.ask_dma(shared, slice),
            Route::Page | Route::Stage => unreachable!("of another kind of namespace"),
        }
    }

    /// A slice's data have crossed the host link.
    fn dma_done(&mut self, shared: &mut Shared, slice: u32) {
        match shared.slices[slice].route {
            Route::Program => self.issue(shared, slice, OpKind::Program),
            _ => shared.slice_done(slice, Status::Success),
        }
    }
}

impl ChunkNamespace {
    pub fn new(number: u16, chunks: Chunks, feedback: Feedback) -> ChunkNamespace {
        ChunkNamespace { number, chunks, feedback, refresh: Refresh::default(), plans: Vec::new() }
    }

    fn owner(&self, purpose: Purpose) -> Owner {
        let token = match purpose {
            Purpose::Slice(slice) => Token::new(0, slice),
            Purpose::Refresh => Token::new(1, 0),
        };
        Owner { namespace: self.number, token }
    }

    /// The owner of the operations of a refresh.
    pub(super) fn refreshing(&self) -> Owner {
        self.owner(Purpose::Refresh)
    }

    /// The firmware has taken a command.
    pub fn start(&mut self, shared: &mut Shared, work: u32) {
        // Held open until all parts are started.
        shared.works[work].slices_left = 1;
        self.start_chunk(shared, work);
        direct::part_done(shared, work);
    }

    fn issue(&mut self, shared: &mut Shared, slice: u32, kind: OpKind) {
        direct::issue_direct(shared, self.owner(Purpose::Slice(slice)), slice, kind);
    }

    /// The array starts on an operation: the media change. For how long.
    pub fn begins(&mut self, shared: &mut Shared, op: u32) -> Nanos {
        let FlashOp { kind, ppa, owner, .. } = shared.scheduler.ops[op];
        match Purpose::of(owner.token) {
            _ if kind == OpKind::Read => operations::begin_read(shared, op),
            _ if kind == OpKind::Erase => operations::begin_erase(shared, ppa),
            Purpose::Refresh => self.refresh_begins(shared),
            Purpose::Slice(slice) => match self.begin_chunk_program(shared, slice, ppa) {
                Some(time) => time,
                None => {
                    // Never begun: there is no end to ask the media for.
                    shared.slices[slice].unbegun = true;
                    Nanos::ZERO
                }
            },
        }
    }

    /// The data of a read are in the controller.
    pub fn arrived(&mut self, shared: &mut Shared, op: u32) {
        match Purpose::of(shared.scheduler.ops[op].owner.token) {
            Purpose::Slice(slice) => self.read_arrived(shared, op, slice),
            Purpose::Refresh => self.refresh_arrived(shared, op),
        }
    }

    /// A program or an erase has ended.
    pub fn ended(&mut self, shared: &mut Shared, op: u32) {
        match Purpose::of(shared.scheduler.ops[op].owner.token) {
            Purpose::Slice(slice) => self.slice_ended(shared, op, slice),
            Purpose::Refresh => self.refresh_ended(shared, op),
        }
    }

    fn slice_ended(&mut self, shared: &mut Shared, op: u32, slice: u32) {
        let FlashOp { kind, cause, ppa, .. } = shared.scheduler.ops[op];
        let ok = match kind {
            OpKind::Erase => operations::end_erase(shared, self.number, shared.layout.block_of(ppa), cause),
            _ if shared.slices[slice].unbegun => false,
            _ => {
                let ok = operations::end_full_superpage(shared, self.number, ppa, cause);
                shared.counts(self.number).copybacks += u64::from(ok && kind == OpKind::Copyback);
                ok
            }
        };
        operations::let_go(shared, op);
        let stages = shared.scheduler.ops[op].stages;
        shared.slices[slice].add_stages(&stages, shared.now);
        match kind {
            OpKind::Erase => self.chunk_erased(shared, slice, ppa, ok),
            _ => self.chunk_programmed(shared, slice, ok),
        }
        shared.slice_done(slice, Status::Success);
    }

    fn read_arrived(&mut self, shared: &mut Shared, op: u32, slice: u32) {
        let FlashOp { ppa, attempts, .. } = shared.scheduler.ops[op];
        if let Some(place) = self.moved_to(shared, slice) {
            shared.slices[slice].place = Place::Units(place);
            return operations::retry(shared, op, place);
        }
        let Taken { corrected, most, worst, failed, rotten, .. } =
            direct::take_in(shared, slice, ppa, attempts);
        if failed != 0 && operations::tries_again(shared, ppa, attempts) {
            return operations::retry(shared, op, ppa);
        }
        direct::end_direct_read(shared, op, slice, corrected, failed != 0);
        if worst > 0 || rotten {
            let Slice { work, data_at, .. } = shared.slices[slice];
            let lba = address(&shared.works[work].command, data_at);
            let number = self.chunks.number(lba).expect("it was read");
            self.look_after(shared, number, worst, rotten);
        }
        let status = self.judge_read(shared, slice, failed, most, attempts);
        if shared.slices[slice].route == Route::CopyRead {
            return self.copy_read_done(shared, slice);
        }
        if status == Status::UnrecoveredRead {
            shared.slice_done(slice, Status::Success);
        } else {
            self.ask_dma(shared, slice);
        }
    }

    /// Returns the current address of the first unit of a read, if its chunk has been rewritten
    /// meanwhile.
    fn moved_to(&self, shared: &Shared, slice: u32) -> Option<Ppa> {
        if self.chunks.management() == Management::Host {
            return None;
        }
        let Slice { work, data_at, place: before, .. } = shared.slices[slice];
        let (place, _) = self.chunks.locate(address(&shared.works[work].command, data_at))?;
        (place != before.units()).then_some(place)
    }

    /// Returns why a command's fields are refused, if they are; its addresses are checked when it is fetched.
    pub fn refuse(&self, shared: &Shared, command: &Command) -> Option<Status> {
        if !shared.host.has_queue(command.queue) {
            return Some(Status::InvalidField);
        }
        let sectors = command.sectors as usize;
        let lengths = |v: &Vector| (v.addresses.len(), v.destinations.len(), v.metadata.len());
        let (addresses, destinations, metadata) = command.vector.as_deref().map_or((0, 0, 0), lengths);
        let listed = addresses > 0;
        let metadata_fits = |bytes| metadata == 0 || metadata == bytes;
        let ok = match command.opcode {
            Opcode::Read | Opcode::Write => {
                let length_fits = match listed {
                    true => sectors == addresses && sectors <= Vector::ADDRESSES_MAX,
                    false => sectors >= 1 && command.sectors <= SCALAR_SECTORS_MAX,
                };
                let wanted = command.opcode == Opcode::Write || !command.data.is_empty();
                length_fits
                    && destinations == 0
                    && (!wanted || command.data.len() == sectors * shared.image_bytes)
                    && metadata_fits(sectors * Vector::METADATA_BYTES)
            }
            Opcode::Chunk(ChunkOp::Copy) => {
                listed
                    && sectors == addresses
                    && sectors == destinations
                    && sectors <= Vector::ADDRESSES_MAX
                    && metadata == 0
                    && command.data.is_empty()
            }
            Opcode::Chunk(ChunkOp::Reset) => {
                let chunks = addresses.max(1);
                chunks <= Vector::ADDRESSES_MAX
                    && (sectors == 0 || (listed && sectors == chunks))
                    && metadata_fits(chunks * ChunkInfo::BYTES)
            }
            Opcode::Report => {
                let Some(first) = self.chunks.number(command.lba) else {
                    return Some(Status::LbaOutOfRange);
                };
                if u64::from(first) + u64::from(command.sectors) > u64::from(self.chunks.count()) {
                    return Some(Status::LbaOutOfRange);
                }
                sectors >= 1
            }
            Opcode::Flush => true,
            Opcode::Trim
            | Opcode::WriteZeroes
            | Opcode::Zone(_)
            | Opcode::NextUnit
            | Opcode::Cache(_)
            | Opcode::Nameless(_) => {
                return Some(Status::InvalidOpcode);
            }
        };
        if !ok {
            return Some(Status::InvalidField);
        }
        let end = command.lba.0.checked_add(command.sectors.into());
        (!listed && end.is_none()).then_some(Status::LbaOutOfRange)
    }

    /// An open-channel command has been taken.
    pub(crate) fn start_chunk(&mut self, shared: &mut Shared, work: u32) {
        match shared.works[work].command.opcode {
            Opcode::Read => self.chunk_read(shared, work, Route::Read),
            Opcode::Write => self.chunk_write(shared, work, Route::Program),
            Opcode::Chunk(ChunkOp::Copy) => self.chunk_copy(shared, work),
            Opcode::Chunk(ChunkOp::Reset) => self.chunk_reset(shared, work),
            Opcode::Report => self.chunk_report(shared, work),
            Opcode::Flush => {}
            _ => unreachable!("refused at submission"),
        }
    }

    /// A rule is broken: nothing is done, for no address.
    fn refuse_all(&mut self, shared: &mut Shared, work: u32, status: Status) {
        let record = &mut shared.works[work];
        record.merge_status(status, bits(0, record.command.sectors));
    }

    /// Cuts the addresses into runs that one sense brings. What cannot be read is zeros.
    fn chunk_read(&mut self, shared: &mut Shared, work: u32, route: Route) {
        let sectors = shared.works[work].command.sectors;
        let (per_unit, sense) = (shared.layout.sectors_per_unit, shared.sense);
        let mut unwritten = 0;
        let place = |(ppa, sector): (Ppa, u32)| u64::from(ppa.0) * u64::from(per_unit) + u64::from(sector);
        let mut at = 0;
        let mut found = self.chunk_locate(shared, work, at);
        while at < sectors {
            let Some((ppa, first)) = found else {
                self.give_zeros(shared, work, at);
                (at, unwritten) = (at + 1, unwritten + 1);
                found = self.chunk_locate(shared, work, at);
                continue;
            };
            let start = place((ppa, first));
            let group = sense.quotient(ppa.0);
            let mut count = 1;
            // The first one that does not join begins the next run.
            loop {
                found = self.chunk_locate(shared, work, at + count);
                let joins = found.is_some_and(|next| {
                    place(next) == start + u64::from(count) && sense.quotient(next.0.0) == group
                });
                if !joins {
                    break;
                }
                count += 1;
            }
            self.direct_slice(shared, work, route, (Place::Units(ppa), first), (at, count), 0);
            shared.media.array().prefetch_sectors(ppa, first, count);
            at += count;
        }
        if unwritten > 0 && route == Route::Read {
            self.direct_slice(shared, work, Route::Tell, (Place::None, 0), (0, unwritten), 0);
        }
    }

    /// Location of the `i`-th address of a command; `None`: it cannot be read, or the command has fewer
    /// addresses.
    fn chunk_locate(&self, shared: &Shared, work: u32, i: u32) -> Option<(Ppa, u32)> {
        let command = &shared.works[work].command;
        if i >= command.sectors {
            return None;
        }
        self.chunks.locate(address(command, i))
    }

    /// The predefined data of a sector that cannot be read.
    fn give_zeros(&mut self, shared: &mut Shared, work: u32, i: u32) {
        let (image, spare) = (shared.image_bytes, Vector::METADATA_BYTES);
        let command = &mut shared.works[work].command;
        let at = i as usize;
        if !command.data.is_empty() {
            command.data[at * image..(at + 1) * image].fill(0);
        }
        if let Some(vector) = &mut command.vector
            && !vector.metadata.is_empty()
        {
            vector.metadata[at * spare..(at + 1) * spare].fill(0);
        }
        if self.feedback.unwritten_is_error {
            shared.works[work].merge_status(Status::Unwritten, bits(i, 1));
        }
    }

    /// `Route::Program`: of the host's data; `Route::CopyProgram`: of what a copy has read, to its destinations.
    fn chunk_write(&mut self, shared: &mut Shared, work: u32, route: Route) {
        let mut plans = std::mem::take(&mut self.plans);
        let command = &shared.works[work].command;
        let target = |i: u32| match (route, &command.vector) {
            (Route::CopyProgram, Some(vector)) => vector.destinations[i as usize],
            _ => address(command, i),
        };
        let superpage = self.chunks.geometry().write_min_sectors;
        match self.chunks.reserve(command.sectors, target, &mut plans) {
            Ok(()) => {
                for (number, plan) in (0..).zip(&plans) {
                    self.direct_slice(
                        shared,
                        work,
                        route,
                        (Place::Units(plan.first), 0),
                        (number * superpage, superpage),
                        plan.chunk,
                    );
                }
            }
            Err(status) => self.refuse_all(shared, work, status),
        }
        self.plans = plans;
    }

    /// The array starts on a superpage; `None`: it must not.
    pub(crate) fn begin_chunk_program(
        &mut self,
        shared: &mut Shared,
        slice: u32,
        first: Ppa,
    ) -> Option<Nanos> {
        let (work, number, data_at) = {
            let s = &shared.slices[slice];
            (s.work, Lpn(s.number), s.data_at)
        };
        let sequence = self.chunks.program_begins(number.0)?;
        shared
            .media
            .program_begin(first, sequence)
            .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
        let mut time = shared.media.program_ns(first);
        let per_unit = shared.layout.sectors_per_unit;
        let mut sensed = None;
        for unit in 0..shared.layout.units_per_superpage {
            let (ppa, at) = (Ppa(first.0 + unit), data_at + unit * per_unit);
            if shared.works[work].command.data.is_empty() {
                time += self.move_unit(shared, work, at, (ppa, number), &mut sensed);
                continue;
            }
            let command = &shared.works[work].command;
            let slots = at as usize..(at + per_unit) as usize;
            let images = &command.data[slots.start * shared.image_bytes..slots.end * shared.image_bytes];
            let metadata = command.vector.as_ref().map_or(&[][..], |v| &v.metadata);
            let spare = Vector::METADATA_BYTES;
            let given = metadata.get(slots.start * spare..slots.end * spare).unwrap_or(&[]);
            shared.media.put_unit_with(ppa, number, images, given);
        }
        Some(time)
    }

    /// Copyback of one unit: address `at` of the command, and those behind it, to a place, under a number. `sensed`: the sense whose data the
    /// die holds, which may have brought this unit, too. Returns the time of the sense that it needs.
    fn move_unit(
        &mut self,
        shared: &mut Shared,
        work: u32,
        at: u32,
        (to, number): (Ppa, Lpn),
        sensed: &mut Option<u32>,
    ) -> Nanos {
        match self.chunk_locate(shared, work, at) {
            Some((from, _)) => {
                let group = Some(shared.sense.quotient(from.0));
                let holds = std::mem::replace(sensed, group) == group;
                shared.media.copy_unit(from, to);
                if holds { Nanos::ZERO } else { shared.media.read_ns(from) }
            }
            // Reset since it was addressed.
            None => {
                let zeros = vec![0; shared.layout.sectors_per_unit as usize * shared.image_bytes];
                shared.media.put_unit(to, number, &zeros);
                shared.media.put_metadata(to, &[]);
                Nanos::ZERO
            }
        }
    }

    /// A superpage is on the media, or is not.
    pub(crate) fn chunk_programmed(&mut self, shared: &mut Shared, slice: u32, ok: bool) {
        let (work, number, data_at, sectors) = {
            let s = &shared.slices[slice];
            (s.work, s.number, s.data_at, s.sectors)
        };
        let (status, retire) = self.chunks.written(number, ok);
        if let Some(block) = retire {
            operations::retire_block(shared, block);
        }
        if status != Status::Success {
            shared.works[work].merge_status(status, bits(data_at, sectors));
        }
    }

    fn chunk_reset(&mut self, shared: &mut Shared, work: u32) {
        let count = shared.works[work].command.vector.as_ref().map_or(1, |v| v.addresses.len().max(1));
        (0..count as u32).for_each(|i| self.reset_chunk(shared, work, i));
    }

    /// Resets the chunk at address `i` of a command.
    pub(crate) fn reset_chunk(&mut self, shared: &mut Shared, work: u32, i: u32) {
        let lba = address(&shared.works[work].command, i);
        match self.chunks.reset_begin(lba) {
            Ok(ChunkReset::Erase { chunk, block }) => {
                let first = shared.layout.ppa(block, 0);
                self.direct_slice(shared, work, Route::Erase, (Place::Units(first), 0), (i, 0), chunk);
            }
            Ok(ChunkReset::Retired { block, status }) => {
                shared.media.invalidate(block);
                shared.works[work].merge_status(status, bits(i, 1));
                self.describe_reset(shared, work, i);
            }
            Ok(ChunkReset::Later) => self.reset_after_refresh(shared, work, i),
            Err(status) => {
                shared.works[work].merge_status(status, bits(i, 1));
                self.describe_reset(shared, work, i);
            }
        }
    }

    /// A chunk's erase has ended.
    pub(crate) fn chunk_erased(&mut self, shared: &mut Shared, slice: u32, first: Ppa, ok: bool) {
        let (work, number, i) = {
            let s = &shared.slices[slice];
            (s.work, s.number, s.data_at)
        };
        let erases = shared.media.array().erase_count(shared.layout.block_of(first));
        let status = self.chunks.reset_end(number, ok, erases);
        let gap = self.feedback.wear_gap;
        if gap > 0 {
            let (least, most) = self.chunks.wear_range(number);
            // Told by the chunk that widens the gap.
            if most - least >= gap && erases == most {
                let lba = self.chunks.info(number).start;
                self.notify(shared, lba, 1, ChunkReason::Wear, ChunkScope::Chunk);
            }
        }
        shared.works[work].merge_status(status, bits(i, 1));
        self.describe_reset(shared, work, i);
    }

    /// Fills in what the host wants to know of a chunk after its reset.
    fn describe_reset(&mut self, shared: &mut Shared, work: u32, i: u32) {
        let lba = address(&shared.works[work].command, i);
        let chunks = &self.chunks;
        let Some(info) = chunks.number(lba).map(|number| chunks.info(number)) else { return };
        if let Some(vector) = &mut shared.works[work].command.vector
            && !vector.metadata.is_empty()
        {
            let mut descriptor = Vec::with_capacity(ChunkInfo::BYTES);
            info.encode(&mut descriptor);
            vector.metadata[i as usize * ChunkInfo::BYTES..][..ChunkInfo::BYTES].copy_from_slice(&descriptor);
        }
    }

    fn chunk_report(&mut self, shared: &mut Shared, work: u32) {
        let (first, count) = (shared.works[work].command.lba, shared.works[work].command.sectors);
        let mut data = std::mem::take(&mut shared.works[work].command.data);
        data.clear();
        let chunks = &self.chunks;
        let first = chunks.number(first).expect("checked at submission");
        (first..first + count).for_each(|number| chunks.info(number).encode(&mut data));
        shared.works[work].command.data = data;
        self.direct_slice(shared, work, Route::Tell, (Place::None, 0), (0, 0), 0);
    }

    /// Reports the health of the data that a read returned: the status of its addresses, and a notice.
    pub(crate) fn judge_read(
        &mut self,
        shared: &mut Shared,
        slice: u32,
        failed: u64,
        corrected: u32,
        attempts: u32,
    ) -> Status {
        let (work, at, sectors) = {
            let s = &shared.slices[slice];
            (s.work, s.data_at, s.sectors)
        };
        let command = &shared.works[work].command;
        let lba = address(command, at);
        if failed != 0 {
            shared.works[work].merge_status(Status::UnrecoveredRead, failed);
            self.notify(shared, lba, sectors, ChunkReason::Unrecoverable, ChunkScope::Sectors);
            return Status::UnrecoveredRead;
        }
        let feedback = self.feedback;
        let very = attempts > 1 || corrected >= feedback.very_high_ecc_bits;
        if !very && attempts == 0 && corrected < feedback.high_ecc_bits {
            return Status::Success;
        }
        let reason = if very { ChunkReason::ErrorsHigh } else { ChunkReason::ErrorsMedium };
        self.notify(shared, lba, sectors, reason, ChunkScope::Sectors);
        if feedback.high_ecc || (very && feedback.very_high_ecc) {
            shared.works[work].merge_status(Status::HighEcc, bits(at, sectors));
        }
        Status::Success
    }

    /// Notifies the hosts of the namespace. Internal chunks of a nameless namespace have no hosts.
    pub(super) fn notify(
        &self,
        shared: &mut Shared,
        lba: Lba,
        sectors: u32,
        reason: ChunkReason,
        scope: ChunkScope,
    ) {
        let described = shared.config.namespaces.get(usize::from(self.number));
        if matches!(described, Some(config::Namespace::OpenChannel { .. })) {
            shared.notices.tell(self.number, lba, sectors, reason, scope);
        }
    }
}
