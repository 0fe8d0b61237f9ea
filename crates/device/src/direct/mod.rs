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
//! Invariants: the programs of an erase unit reach their die in address order, because the host link and the firmware serve first
//! come, first served, and so does a die except for reads; an erase is planned only when no program of its unit is in flight.

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
use crate::probes;
use crate::shared::Shared;
use pellucid_flash::slab::NIL;
use pellucid_flash::{Cause, Command, Lba, Lpn, Ppa, Stage, Vector};
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
        let slice = direct_slice(shared, work, route, place, data, number);
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

/// A part of a command that is no slice is done. The last part completes the command.
pub(crate) fn part_done(shared: &mut Shared, work: u32) {
    let record = &mut shared.works[work];
    record.slices_left -= 1;
    if record.slices_left == 0 {
        record.stages.add(Stage::Media, shared.now - record.mark);
        record.mark = shared.now;
        shared.ask_complete(work);
    }
}

/// Makes a slice. `number`: the chunk or zone concerned.
fn direct_slice(
    shared: &mut Shared,
    work: u32,
    route: Route,
    (place, first): (Place, u32),
    (data_at, sectors): (u32, u32),
    number: u32,
) -> u32 {
    let record = &mut shared.works[work];
    record.slices_left += 1;
    // Commands of a nameless namespace to its chunks do not cross the host link.
    let (stages, zero) = (record.stages, record.inner.is_some());
    shared.slices.insert(Slice {
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
        mark: shared.now,
        stages,
        next: NIL,
    })
}

/// Issues the flash operation that serves a slice.
fn issue_direct(shared: &mut Shared, owner: Owner, slice: u32, kind: OpKind) {
    let record = &shared.slices[slice];
    let ppa = record.place.units();
    let copies = matches!(record.route, Route::CopyRead | Route::CopyProgram);
    // A copy that a host asks for is its GC.
    let cause = if copies { Cause::Gc } else { Cause::Host };
    let cause = shared.works[record.work].inner.unwrap_or(cause);
    let units = shared.layout.units_of(record.first + record.sectors);
    let die = shared.layout.die_of(ppa).0;
    let op = FlashOp::new(kind, cause, owner, die, ppa, units, shared.now);
    let op = shared.scheduler.ops.insert(op);
    if probes::is_observed(shared) {
        probes::observe_serves(shared, op, shared.slices[slice].work);
    }
    shared.ask_issue(op);
}

/// The read of a slice has ended.
fn end_direct_read(shared: &mut Shared, op: u32, slice: u32, corrected: u32, failed: bool) {
    let FlashOp { owner, attempts, .. } = shared.scheduler.ops[op];
    probes::observe_operation(shared, op);
    shared.slices[slice].add_stages(&shared.scheduler.ops[op].stages, shared.now);
    shared.scheduler.ops.release(op);
    let counters = shared.counts(owner.namespace);
    counters.uncorrectable_reads += u64::from(failed);
    counters.corrected_reads += u64::from(!failed && attempts > 0);
    counters.corrected_bits += u64::from(corrected);
}

/// Moves what the media give for a read to the command's buffers.
fn take_in(shared: &mut Shared, slice: u32, ppa: Ppa, attempts: u32) -> Taken {
    let Slice { work, first, sectors, data_at, .. } = shared.slices[slice];
    let (image, spare) = (shared.image_bytes, Vector::METADATA_BYTES);
    let command = &mut shared.works[work].command;
    let metadata = command.vector.as_mut().map(|v| &mut v.metadata).filter(|m| !m.is_empty());
    let (mut metadata, mut taken) = (metadata, Taken::default());
    let (mut unit, mut sector, mut done) = (ppa, first, 0);
    while done < sectors {
        let here = (shared.layout.sectors_per_unit - sector).min(sectors - done);
        let at = (data_at + done) as usize;
        let out = match command.data.is_empty() {
            true => &mut [][..],
            false => &mut command.data[at * image..(at + here as usize) * image],
        };
        match shared.media.read(unit, sector, out, attempts) {
            ReadResult::Ok { corrected_bits, worst_chunk_bits } => {
                taken.corrected += corrected_bits;
                taken.most = taken.most.max(corrected_bits);
                taken.worst = taken.worst.max(worst_chunk_bits);
            }
            ReadResult::Uncorrectable => {
                taken.failed |= bits((at as u32).min(63), here);
                taken.rotten |= shared.media.array().is_programmed(unit);
            }
            ReadResult::Erased => taken.erased |= bits((at as u32).min(63), here),
        }
        if let Some(metadata) = &mut metadata {
            let out = &mut metadata[at * spare..(at + here as usize) * spare];
            if !shared.media.array().metadata(unit, sector, out) {
                taken.failed |= bits((at as u32).min(63), here);
            }
        }
        (unit, sector, done) = (Ppa(unit.0 + 1), 0, done + here);
    }
    taken
}
