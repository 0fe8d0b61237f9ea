//! The meaning of open-channel commands (Open-Channel SSD 2.0), on the [direct path](crate::direct_path).
//!
//! ```text
//!  read    address ─► place by arithmetic ─► unwritten? zeros, or 287h ─► runs that one sense brings
//!  write   addresses ─► rules (all or none) ─► one program per stripe ─► 2F0h / 2F1h where the media fail
//!  reset   address ─► state allows it? ─► erase ─► free, or offline
//!  copy    sources read into the controller (or moved inside the die) ─► as write
//! ```
//! Writes are acknowledged when they are programmed, so a flush has nothing to do.

use crate::device::Device;
use crate::direct_path::{address, bits};
use crate::spaces::{ChunkSpace, Space};
use crate::work::Route;
use pellucid_flash::{
    ChunkInfo, ChunkNotice, ChunkReason, ChunkScope, Command, Lba, Lpn, Nanos, Opcode, Ppa, Status, Vector,
};
use pellucid_ftl::{ChunkReset, Management};

/// The longest scalar command, in sectors: what NVMe's 16-bit length can say.
const SCALAR_SECTORS_MAX: u32 = 1 << 16;

impl Device {
    pub(crate) fn chunk_space(&mut self, work: u32) -> &mut ChunkSpace {
        match &mut self.spaces[usize::from(self.works[work].command.namespace)] {
            Space::Chunks(space) => space,
            _ => unreachable!("the command is for an open-channel namespace"),
        }
    }

    /// Whether the fields of a command are right; its addresses are looked at when it is fetched.
    pub(crate) fn refuse_chunk(&self, space: &ChunkSpace, command: &Command) -> Option<Status> {
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
                    && (!wanted || command.data.len() == sectors * self.image_bytes)
                    && metadata_fits(sectors * Vector::METADATA_BYTES)
            }
            Opcode::Copy => {
                listed
                    && sectors == addresses
                    && sectors == destinations
                    && sectors <= Vector::ADDRESSES_MAX
                    && metadata == 0
                    && command.data.is_empty()
            }
            Opcode::Reset => {
                let chunks = addresses.max(1);
                chunks <= Vector::ADDRESSES_MAX
                    && (sectors == 0 || (listed && sectors == chunks))
                    && metadata_fits(chunks * ChunkInfo::BYTES)
            }
            Opcode::Report => {
                let Some(first) = space.chunks.number(command.lba) else {
                    return Some(Status::LbaOutOfRange);
                };
                if u64::from(first) + u64::from(command.sectors) > u64::from(space.chunks.count()) {
                    return Some(Status::LbaOutOfRange);
                }
                sectors >= 1
            }
            Opcode::Flush => true,
            Opcode::Trim | Opcode::WriteZeroes | Opcode::Append | Opcode::Zone(_) | Opcode::NextUnit => {
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
    pub(crate) fn start_chunk(&mut self, work: u32) {
        match self.works[work].command.opcode {
            Opcode::Read => self.chunk_read(work, Route::Read),
            Opcode::Write => self.chunk_write(work, Route::Program),
            Opcode::Copy => self.chunk_copy(work),
            Opcode::Reset => self.chunk_reset(work),
            Opcode::Report => self.chunk_report(work),
            Opcode::Flush => {}
            _ => unreachable!("refused at submission"),
        }
    }

    /// A rule is broken: nothing is done, for no address.
    fn refuse_all(&mut self, work: u32, status: Status) {
        self.merge_status(work, status, bits(0, self.works[work].command.sectors));
    }

    /// Cuts the addresses into runs that one sense brings. What cannot be read is zeros.
    fn chunk_read(&mut self, work: u32, route: Route) {
        let sectors = self.works[work].command.sectors;
        let (per_unit, sense) = (self.layout.sectors_per_unit, self.direct.sense);
        let mut unwritten = 0;
        let place = |(ppa, sector): (Ppa, u32)| u64::from(ppa.0) * u64::from(per_unit) + u64::from(sector);
        let mut at = 0;
        let mut found = self.chunk_locate(work, at);
        while at < sectors {
            let Some((ppa, first)) = found else {
                self.give_zeros(work, at);
                (at, unwritten) = (at + 1, unwritten + 1);
                found = self.chunk_locate(work, at);
                continue;
            };
            let start = place((ppa, first));
            let group = sense.quotient(ppa.0);
            let mut count = 1;
            // The first one that does not join begins the next run.
            loop {
                found = self.chunk_locate(work, at + count);
                let joins = found.is_some_and(|next| {
                    place(next) == start + u64::from(count) && sense.quotient(next.0.0) == group
                });
                if !joins {
                    break;
                }
                count += 1;
            }
            self.direct_slice(work, route, (ppa, first), (at, count), 0);
            at += count;
        }
        if unwritten > 0 && route == Route::Read {
            self.direct_slice(work, Route::Tell, (Ppa(0), 0), (0, unwritten), 0);
        }
    }

    /// Where the `i`-th address of a command lies; `None`: it cannot be read, or the command has fewer.
    fn chunk_locate(&self, work: u32, i: u32) -> Option<(Ppa, u32)> {
        let command = &self.works[work].command;
        if i >= command.sectors {
            return None;
        }
        match &self.spaces[usize::from(command.namespace)] {
            Space::Chunks(space) => space.chunks.locate(address(command, i)),
            _ => unreachable!("the command is for an open-channel namespace"),
        }
    }

    /// The predefined data of a sector that cannot be read.
    fn give_zeros(&mut self, work: u32, i: u32) {
        let (image, spare) = (self.image_bytes, Vector::METADATA_BYTES);
        let command = &mut self.works[work].command;
        let at = i as usize;
        if !command.data.is_empty() {
            command.data[at * image..(at + 1) * image].fill(0);
        }
        if let Some(vector) = &mut command.vector
            && !vector.metadata.is_empty()
        {
            vector.metadata[at * spare..(at + 1) * spare].fill(0);
        }
        if self.chunk_space(work).feedback.unwritten_is_error {
            self.merge_status(work, Status::Unwritten, bits(i, 1));
        }
    }

    /// `Route::Program`: of the host's data; `Route::CopyProgram`: of what a copy has read, to its destinations.
    fn chunk_write(&mut self, work: u32, route: Route) {
        let mut plans = std::mem::take(&mut self.direct.chunk_plans);
        let command = &self.works[work].command;
        let Space::Chunks(space) = &mut self.spaces[usize::from(command.namespace)] else {
            unreachable!("the command is for an open-channel namespace");
        };
        let target = |i: u32| match (route, &command.vector) {
            (Route::CopyProgram, Some(vector)) => vector.destinations[i as usize],
            _ => address(command, i),
        };
        let stripe = space.chunks.geometry().write_min_sectors;
        match space.chunks.reserve(command.sectors, target, &mut plans) {
            Ok(()) => {
                for (number, plan) in (0..).zip(&plans) {
                    self.direct_slice(work, route, (plan.first, 0), (number * stripe, stripe), plan.chunk);
                }
            }
            Err(status) => self.refuse_all(work, status),
        }
        self.direct.chunk_plans = plans;
    }

    /// The array starts on a stripe; `None`: it must not.
    pub(crate) fn begin_chunk_program(&mut self, slice: u32, first: Ppa) -> Option<Nanos> {
        let (work, number, data_at) = {
            let s = &self.slices[slice];
            (s.work, s.lpn, s.data_at)
        };
        let sequence = self.chunk_space(work).chunks.program_begins(number.0)?;
        self.media
            .program_begin(first, sequence)
            .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
        let mut time = self.media.program_ns(first);
        let per_unit = self.layout.sectors_per_unit;
        for unit in 0..self.layout.units_per_stripe {
            let (ppa, at) = (Ppa(first.0 + unit), data_at + unit * per_unit);
            if self.works[work].command.data.is_empty() {
                time += self.move_unit(work, at, ppa, number);
                continue;
            }
            let command = &self.works[work].command;
            let slots = at as usize..(at + per_unit) as usize;
            let images = &command.data[slots.start * self.image_bytes..slots.end * self.image_bytes];
            let metadata = command.vector.as_ref().map_or(&[][..], |v| &v.metadata);
            let spare = Vector::METADATA_BYTES;
            let given = metadata.get(slots.start * spare..slots.end * spare).unwrap_or(&[]);
            self.media.put_unit_with(ppa, number, images, given);
        }
        Some(time)
    }

    /// Copyback of one unit: address `at` of the command, and those behind it, to `to`.
    fn move_unit(&mut self, work: u32, at: u32, to: Ppa, number: Lpn) -> Nanos {
        match self.chunk_locate(work, at) {
            Some((from, _)) => {
                let time = self.media.read_ns(from);
                self.media.copy_unit(from, to);
                time
            }
            // Reset since it was addressed.
            None => {
                let zeros = vec![0; self.layout.sectors_per_unit as usize * self.image_bytes];
                self.media.put_unit(to, number, &zeros);
                self.media.put_metadata(to, &[]);
                Nanos::ZERO
            }
        }
    }

    /// A stripe is on the media, or is not.
    pub(crate) fn chunk_programmed(&mut self, slice: u32, ok: bool) {
        let (work, number, data_at, sectors) = {
            let s = &self.slices[slice];
            (s.work, s.lpn.0, s.data_at, s.sectors)
        };
        let (status, retire) = self.chunk_space(work).chunks.written(number, ok);
        if let Some(block) = retire {
            self.retire_block(block);
        }
        if status != Status::Success {
            self.merge_status(work, status, bits(data_at, sectors));
        }
    }

    fn chunk_reset(&mut self, work: u32) {
        let count = self.works[work].command.vector.as_ref().map_or(1, |v| v.addresses.len().max(1));
        (0..count as u32).for_each(|i| self.reset_chunk(work, i));
    }

    /// Resets the chunk at address `i` of a command.
    pub(crate) fn reset_chunk(&mut self, work: u32, i: u32) {
        let lba = address(&self.works[work].command, i);
        match self.chunk_space(work).chunks.reset_begin(lba) {
            Ok(ChunkReset::Erase { chunk, block }) => {
                let first = self.layout.ppa(block, 0);
                self.direct_slice(work, Route::Erase, (first, 0), (i, 0), chunk);
            }
            Ok(ChunkReset::Retired { block, status }) => {
                self.media.void(block);
                self.merge_status(work, status, bits(i, 1));
                self.describe_reset(work, i);
            }
            Ok(ChunkReset::Later) => self.reset_after_refresh(work, i),
            Err(status) => {
                self.merge_status(work, status, bits(i, 1));
                self.describe_reset(work, i);
            }
        }
    }

    /// A chunk's erase has ended.
    pub(crate) fn chunk_erased(&mut self, slice: u32, first: Ppa, ok: bool) {
        let (work, number, i) = {
            let s = &self.slices[slice];
            (s.work, s.lpn.0, s.data_at)
        };
        let erases = self.media.erase_count(self.layout.block_of(first));
        let space = self.chunk_space(work);
        let status = space.chunks.reset_end(number, ok, erases);
        let gap = space.feedback.wear_gap;
        if gap > 0 {
            let (least, most) = space.chunks.wear_range(number);
            // Told by the chunk that widens the gap.
            if most - least >= gap && erases == most {
                let lba = space.chunks.info(number).start;
                self.notify(self.works[work].command.namespace, lba, 1, ChunkReason::Wear, ChunkScope::Chunk);
            }
        }
        self.merge_status(work, status, bits(i, 1));
        self.describe_reset(work, i);
    }

    /// Fills in what the host wants to know of a chunk after its reset.
    fn describe_reset(&mut self, work: u32, i: u32) {
        let lba = address(&self.works[work].command, i);
        let chunks = &self.chunk_space(work).chunks;
        let Some(info) = chunks.number(lba).map(|number| chunks.info(number)) else { return };
        if let Some(vector) = &mut self.works[work].command.vector
            && !vector.metadata.is_empty()
        {
            let mut descriptor = Vec::with_capacity(ChunkInfo::BYTES);
            info.encode(&mut descriptor);
            vector.metadata[i as usize * ChunkInfo::BYTES..][..ChunkInfo::BYTES].copy_from_slice(&descriptor);
        }
    }

    fn chunk_report(&mut self, work: u32) {
        let (first, count) = (self.works[work].command.lba, self.works[work].command.sectors);
        let mut data = std::mem::take(&mut self.works[work].command.data);
        data.clear();
        let chunks = &self.chunk_space(work).chunks;
        let first = chunks.number(first).expect("checked at submission");
        (first..first + count).for_each(|number| chunks.info(number).encode(&mut data));
        self.works[work].command.data = data;
        self.direct_slice(work, Route::Tell, (Ppa(0), 0), (0, 0), 0);
    }

    fn chunk_copy(&mut self, work: u32) {
        let sectors = self.works[work].command.sectors;
        let dulbe = self.chunk_space(work).feedback.unwritten_is_error;
        if dulbe && (0..sectors).any(|i| self.chunk_locate(work, i).is_none()) {
            return self.refuse_all(work, Status::Unwritten);
        }
        if self.moves_inside_dies(work) {
            return self.chunk_write(work, Route::CopyProgram);
        }
        let bytes = sectors as usize;
        let command = &mut self.works[work].command;
        command.data.resize(bytes * self.image_bytes, 0);
        if let Some(vector) = &mut command.vector {
            vector.metadata.resize(bytes * Vector::METADATA_BYTES, 0);
        }
        let held = self.works[work].slices_left;
        self.chunk_read(work, Route::CopyRead);
        // All of it zeros: there is nothing to wait for.
        if self.works[work].slices_left == held && !self.works[work].copied {
            self.program_copied(work);
        }
    }

    /// Whether every unit of a copy stays whole and in its die, so that the array can move it without a transfer.
    fn moves_inside_dies(&mut self, work: u32) -> bool {
        let per_unit = self.layout.sectors_per_unit;
        let space = self.chunk_space(work);
        // A moved unit keeps its spare area, by which a shared drive finds its chunks again.
        if !space.feedback.copyback || space.chunks.management() != Management::Host {
            return false;
        }
        let geometry = *space.chunks.geometry();
        let command = &self.works[work].command;
        let Some(vector) = &command.vector else { return false };
        let unit_of = |lba: Lba| geometry.address(lba).map(|a| (a.group, a.unit));
        (0..command.sectors).step_by(per_unit as usize).all(|i| {
            let Some((from, 0)) = self.chunk_locate(work, i) else { return false };
            let whole = (1..per_unit)
                .all(|k| i + k < command.sectors && self.chunk_locate(work, i + k) == Some((from, k)));
            whole && unit_of(vector.addresses[i as usize]) == unit_of(vector.destinations[i as usize])
        })
    }

    /// A part of a copy is in the controller. When all of it is, the destinations are written.
    pub(crate) fn copy_read_done(&mut self, slice: u32) {
        let (work, stages) = (self.slices[slice].work, self.slices[slice].stages);
        self.slices.release(slice);
        let record = &mut self.works[work];
        record.slices_left -= 1;
        if record.slices_left == 0 {
            (record.stages, record.mark) = (stages, self.now);
            record.slices_left = 1;
            self.program_copied(work);
            self.works[work].slices_left -= 1;
            if self.works[work].slices_left == 0 {
                self.ask(crate::firmware::Task::Complete(work));
            }
        }
    }

    fn program_copied(&mut self, work: u32) {
        self.works[work].copied = true;
        if matches!(self.works[work].status, Status::Success | Status::HighEcc) {
            self.chunk_write(work, Route::CopyProgram);
        } else {
            self.works[work].result = bits(0, self.works[work].command.sectors);
        }
    }

    /// What a read tells about the health of its data: the status of its addresses, and a notice.
    pub(crate) fn judge_read(&mut self, slice: u32, failed: u64, corrected: u32, attempts: u32) -> Status {
        let (work, at, sectors) = {
            let s = &self.slices[slice];
            (s.work, s.data_at, s.sectors)
        };
        let command = &self.works[work].command;
        let (lba, namespace) = (address(command, at), command.namespace);
        if failed != 0 {
            self.merge_status(work, Status::UnrecoveredRead, failed);
            self.notify(namespace, lba, sectors, ChunkReason::Unrecoverable, ChunkScope::Sectors);
            return Status::UnrecoveredRead;
        }
        let feedback = self.chunk_space(work).feedback;
        let very = attempts > 1 || corrected >= feedback.very_high_ecc_bits;
        if !very && attempts == 0 && corrected < feedback.high_ecc_bits {
            return Status::Success;
        }
        let reason = if very { ChunkReason::ErrorsHigh } else { ChunkReason::ErrorsMedium };
        self.notify(namespace, lba, sectors, reason, ChunkScope::Sectors);
        if feedback.high_ecc || (very && feedback.very_high_ecc) {
            self.merge_status(work, Status::HighEcc, bits(at, sectors));
        }
        Status::Success
    }

    /// Tells the hosts of a namespace.
    pub(crate) fn notify(
        &mut self,
        namespace: u16,
        lba: Lba,
        sectors: u32,
        reason: ChunkReason,
        scope: ChunkScope,
    ) {
        self.direct.notice_count += 1;
        let notice = ChunkNotice { count: self.direct.notice_count, lba, sectors, reason, scope };
        if self.direct.notices.len() == NOTICES_MAX {
            self.direct.notices.pop_front();
        }
        self.direct.notices.push_back((namespace, notice));
    }
}

/// Notices that wait for the host; when there are more, the oldest are lost, as the gap in their numbers shows.
const NOTICES_MAX: usize = 4096;
