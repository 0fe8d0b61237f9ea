//! The way of commands that address the media: of open-channel and zoned namespaces.
//!
//! ```text
//!  read     slice ─► flash read ─► failed? again ─► DMA to host ─► done
//!  program  slice ─► DMA from host ─► flash program ─► done            (buffer and page map have no part in this)
//!  erase    slice ─► flash erase ─► done
//!  copy     slices ─► flash reads ─► all here ─► slices ─► flash programs ─► done
//! ```
//! A slice is what one flash operation serves: sectors that one sense brings, a superpage, or an erase unit. The data stay in the
//! command's own buffer. Which addresses are right, and what an end means, is decided by whose namespace it is:
//! [`crate::direct::chunks`], [`crate::direct::zones`]. [`crate::direct::nameless`] gives commands to chunks of its own.
//!
//! Invariants: the programs of an erase unit reach their die in the order of their addresses, because the host link and the
//! firmware serve first come, first served, and so does a die but for reads; an erase is planned only when no program of its
//! unit is under way.

pub(crate) mod chunk_refresh;
pub(crate) mod chunks;
pub(crate) mod nameless;
mod zone_actions;
pub(crate) mod zone_buffer;
mod zone_log;
mod zone_read;
pub(crate) mod zone_save;
mod zone_write;
mod zones;

use crate::back::scheduler::{FlashOp, OpKind, Owner};
use crate::firmware::{Chore, Task};
use crate::front::commands::{Place, Route, Slice};
use crate::front::host_interface::Direction;
use crate::shared::Shared;
use pellucid_flash::slab::NIL;
use pellucid_flash::{Cause, Command, Lba, Lpn, Opcode, Ppa, Stage, Status, Vector};
use pellucid_media::ReadResult;

/// Result of a read.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// Corrected bits in all.
    corrected: u32,
    /// Most corrected bits in one mapping unit.
    most: u32,
    /// Most corrected bits in one codeword.
    worst: u32,
    /// Sectors that could not be read, as bits of the command's addresses; the last stands for all beyond.
    failed: u64,
    /// Erased sectors, as bits like those of `failed`.
    erased: u64,
    /// True if some failed sectors were programmed well, so that neither a failed program nor a power cut explains the failure.
    rotten: bool,
}

/// The `i`-th address of a command.
#[inline]
pub(crate) fn address(command: &Command, i: u32) -> Lba {
    match &command.vector {
        Some(vector) if !vector.addresses.is_empty() => vector.addresses[i as usize],
        _ => Lba(command.lba.0 + u64::from(i)),
    }
}

/// Bits `first..first + count` of a completion's error bitmap, which has 64.
pub(crate) fn bits(first: u32, count: u32) -> u64 {
    let below = |n: u32| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    below(first + count) & !below(first)
}

/// Slice handling of a namespace on this path.
pub(crate) trait DirectPath {
    /// The firmware has looked at a slice.
    fn slice_known(&mut self, shared: &mut Shared, slice: u32);

    /// A slice's data have crossed the host link.
    fn dma_done(&mut self, shared: &mut Shared, slice: u32);

    /// Makes a slice and lets it start. `number`: the chunk or zone concerned.
    fn direct_slice(
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
        shared.charge(Chore::Depend, 1);
        if shared.grants(Task::Dma(slice)) {
            self.start_dma(shared, slice);
        }
    }

    /// The firmware has the data of a slice moved.
    fn start_dma(&mut self, shared: &mut Shared, slice: u32) {
        if shared.start_dma(slice) {
            self.dma_done(shared, slice);
        }
    }
}

impl Shared {
    /// A part of a command that is no slice is done. The last part completes the command.
    pub(crate) fn part_done(&mut self, work: u32) {
        let record = &mut self.works[work];
        record.slices_left -= 1;
        if record.slices_left == 0 {
            record.stages.add(Stage::Media, self.now - record.mark);
            record.mark = self.now;
            self.ask_complete(work);
        }
    }

    /// The worst status of a command's parts is its own. `failed`: bits of the addresses concerned.
    pub(crate) fn merge_status(&mut self, work: u32, status: Status, failed: u64) {
        let record = &mut self.works[work];
        let worse = match record.status {
            Status::Success => true,
            Status::HighEcc => status != Status::Success,
            _ => false,
        };
        if worse {
            record.status = status;
        }
        let listed = record.command.vector.as_ref().is_some_and(|v| !v.addresses.is_empty());
        if status != Status::Success && listed {
            record.result |= failed;
        }
    }

    /// Makes a slice. `number`: the chunk or zone concerned.
    fn direct_slice(
        &mut self,
        work: u32,
        route: Route,
        (place, first): (Place, u32),
        (data_at, sectors): (u32, u32),
        number: u32,
    ) -> u32 {
        let record = &mut self.works[work];
        record.slices_left += 1;
        // Commands of a nameless namespace to its chunks do not cross the host link.
        let (stages, zero) = (record.stages, record.inner.is_some());
        self.slices.insert(Slice {
            work,
            lpn: Lpn::NONE,
            number,
            first,
            sectors,
            data_at,
            zero,
            unbegun: false,
            through: true,
            moved: false,
            primary: true,
            delivered: false,
            route,
            place,
            mark: self.now,
            stages,
            next: NIL,
        })
    }

    /// Issues the flash operation that serves a slice.
    fn issue_direct(&mut self, owner: Owner, slice: u32, kind: OpKind) {
        let record = &self.slices[slice];
        let ppa = record.place.units();
        let copies = matches!(record.route, Route::CopyRead | Route::CopyProgram);
        // A copy that a host asks for is its GC.
        let cause = if copies { Cause::Gc } else { Cause::Host };
        let cause = self.works[record.work].inner.unwrap_or(cause);
        let units = self.layout.units_of(record.first + record.sectors);
        let die = self.layout.die_of(ppa).0;
        let op = FlashOp::new(kind, cause, owner, die, ppa, units, self.now);
        let op = self.scheduler.ops.insert(op);
        if self.is_observed() {
            self.tap_serves(op, self.slices[slice].work);
        }
        self.ask_issue(op);
    }

    /// The read of a slice has ended.
    fn end_direct_read(&mut self, op: u32, slice: u32, corrected: u32, failed: bool) {
        let FlashOp { owner, attempts, .. } = self.scheduler.ops[op];
        self.tap_operation(op);
        self.slices[slice].add_stages(&self.scheduler.ops[op].stages, self.now);
        self.scheduler.ops.release(op);
        let counters = self.counts(owner.namespace);
        counters.uncorrectable_reads += u64::from(failed);
        counters.corrected_reads += u64::from(!failed && attempts > 0);
        counters.corrected_bits += u64::from(corrected);
    }

    /// Bytes and way of a slice over the host link.
    pub(crate) fn direct_transfer(&self, slice: u32) -> (u64, Direction) {
        let record = &self.slices[slice];
        let command = &self.works[record.work].command;
        if command.opcode == Opcode::Report {
            return (command.data.len() as u64, Direction::Tx);
        }
        let metadata = command.vector.as_ref().is_some_and(|v| !v.metadata.is_empty());
        let beside = if metadata { Vector::METADATA_BYTES as u64 } else { 0 };
        let bytes = u64::from(record.sectors) * (u64::from(self.layout.sector_bytes) + beside);
        let inward = matches!(record.route, Route::Program | Route::Stage);
        (bytes, if inward { Direction::Rx } else { Direction::Tx })
    }

    /// Moves what the media give for a read to the command's buffers.
    fn take_in(&mut self, slice: u32, ppa: Ppa, attempts: u32) -> Taken {
        let Slice { work, first, sectors, data_at, .. } = self.slices[slice];
        let (image, spare) = (self.image_bytes, Vector::METADATA_BYTES);
        let command = &mut self.works[work].command;
        let metadata = command.vector.as_mut().map(|v| &mut v.metadata).filter(|m| !m.is_empty());
        let (mut metadata, mut taken) = (metadata, Taken::default());
        let (mut unit, mut sector, mut done) = (ppa, first, 0);
        while done < sectors {
            let here = (self.layout.sectors_per_unit - sector).min(sectors - done);
            let at = (data_at + done) as usize;
            let out = match command.data.is_empty() {
                true => &mut [][..],
                false => &mut command.data[at * image..(at + here as usize) * image],
            };
            match self.media.read(unit, sector, out, attempts) {
                ReadResult::Ok { corrected_bits, worst_chunk_bits } => {
                    taken.corrected += corrected_bits;
                    taken.most = taken.most.max(corrected_bits);
                    taken.worst = taken.worst.max(worst_chunk_bits);
                }
                ReadResult::Uncorrectable => {
                    taken.failed |= bits((at as u32).min(63), here);
                    taken.rotten |= self.media.is_programmed(unit);
                }
                ReadResult::Erased => taken.erased |= bits((at as u32).min(63), here),
            }
            if let Some(metadata) = &mut metadata {
                let out = &mut metadata[at * spare..(at + here as usize) * spare];
                if !self.media.metadata(unit, sector, out) {
                    taken.failed |= bits((at as u32).min(63), here);
                }
            }
            (unit, sector, done) = (Ppa(unit.0 + 1), 0, done + here);
        }
        taken
    }
}
