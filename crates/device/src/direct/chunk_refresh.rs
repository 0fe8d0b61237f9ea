//! With chunks of class c, the drive itself maintains the media below them: it rewrites data about to become unreadable in the
//! background, and does not trust unreadable blocks again. (A host of class a is notified and does this itself.)
//!
//! ```text
//!  a read corrected more than `refresh_above` bits ─► waiting
//!    ─► superpage read ─► programmed elsewhere ─► the next one ... ─► the chunk lies there now ─► old block erased ─► notice
//!             │              └─ failed: block retired ─┐
//!             └─ unreadable, or a reset waits ─────────┴─► given up ─► copy erased ─► the reset
//! ```
//! One chunk at a time, one operation after the other, so that hosts feel it little. Reads that were on their way when a chunk
//! moved are repeated at its new place (`chunks.rs`).
//!
//! Invariant: at most one of original and copy survives a reset, because the reset waits until the other one is erased.

use crate::back::operations;
use crate::back::scheduler::{FlashOp, OpKind};
use crate::direct;
use crate::direct::chunks::ChunkNamespace;
use crate::probes;
use crate::shared::Shared;
use pellucid_flash::{Cause, ChunkReason, ChunkScope, Lpn, Nanos, Ppa, Stage};
use pellucid_ftl::ChunkMove;
use pellucid_media::ReadResult;
use std::collections::VecDeque;

/// Chunks that are written anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refresh {
    /// Their numbers.
    waiting: VecDeque<u32>,
    job: Option<Job>,
}

#[derive(Clone, Debug)]
struct Job {
    moved: ChunkMove,
    /// The superpage that is being copied.
    superpage: u32,
    /// Reads of it under way.
    reads: u32,
    /// It is not worth while any more.
    given_up: bool,
    /// Some of the original cannot be read.
    lost: bool,
    /// The copy's block is retired already.
    retired: bool,
    /// The copy stands for the original.
    copied: bool,
    /// Content of the superpage, and the host's bytes in its spare area.
    images: Vec<u8>,
    metadata: Vec<u8>,
    /// Resets that wait: command, and which of its addresses.
    resets: Vec<(u32, u32)>,
}

impl ChunkNamespace {
    /// A read of chunk `number` found its data near to being lost, or beyond (`lost`).
    pub(crate) fn look_after(&mut self, shared: &mut Shared, number: u32, worst_chunk_bits: u32, lost: bool) {
        if lost {
            return self.distrust(shared, number);
        }
        let due = shared.config.scheduler.refresh_above.is_some_and(|threshold| worst_chunk_bits > threshold);
        let refresh = &self.refresh;
        let running = refresh.job.as_ref().is_some_and(|job| job.moved.chunk == number);
        if due && !running && !refresh.waiting.contains(&number) {
            self.refresh.waiting.push_back(number);
            self.refresh_next(shared);
        }
    }

    /// Retires the block of a chunk whose data could not be read; it serves until the chunk's reset.
    fn distrust(&mut self, shared: &mut Shared, number: u32) {
        if let Some(block) = self.chunks.distrust(number) {
            operations::retire_block(shared, block);
        }
    }

    /// Begins with the next chunk that waits, if none is being written.
    fn refresh_next(&mut self, shared: &mut Shared) {
        while self.refresh.job.is_none() {
            let Some(number) = self.refresh.waiting.pop_front() else { return };
            if !self.is_whole(shared, number) {
                continue;
            }
            let Some(moved) = self.chunks.refresh_begin(number) else { continue };
            let units = shared.layout.units_per_superpage as usize;
            let sectors = units * shared.layout.sectors_per_unit as usize;
            self.refresh.job = Some(Job {
                moved,
                superpage: 0,
                reads: 0,
                given_up: false,
                lost: false,
                retired: false,
                copied: false,
                images: vec![0; sectors * shared.image_bytes],
                metadata: vec![0; sectors * shared.media.array().metadata_bytes()],
                resets: Vec::new(),
            });
            self.refresh_superpage(shared);
        }
    }

    /// Returns whether every superpage of a chunk was programmed well. A copy would hide that one was not.
    fn is_whole(&mut self, shared: &mut Shared, number: u32) -> bool {
        let chunks = &self.chunks;
        let Some((first, _)) = chunks.locate(chunks.info(number).start) else { return false };
        let superpages = 0..shared.layout.superpages_per_block;
        superpages
            .map(|superpage| first.0 + superpage * shared.layout.units_per_superpage)
            .all(|unit| shared.media.array().is_programmed(Ppa(unit)))
    }

    fn refresh_job(&mut self) -> &mut Job {
        self.refresh.job.as_mut().expect("an operation of a refresh")
    }

    /// Where the superpage that is being copied begins, in the original and in the copy.
    fn refresh_places(&mut self, shared: &mut Shared) -> (Ppa, Ppa) {
        let Job { moved, superpage, .. } = *self.refresh_job();
        let unit = superpage * shared.layout.units_per_superpage;
        (shared.layout.ppa(moved.from, unit), shared.layout.ppa(moved.to, unit))
    }

    fn issue_refresh(&mut self, shared: &mut Shared, kind: OpKind, ppa: Ppa, units: u32) {
        let die = shared.layout.die_of(ppa).0;
        let op = FlashOp::new(kind, Cause::Refresh, self.refreshing(), die, ppa, units, shared.now);
        let op = shared.scheduler.ops.insert(op);
        shared.ask_issue(op);
    }

    /// Reads the next superpage, or ends.
    fn refresh_superpage(&mut self, shared: &mut Shared) {
        let superpages = shared.layout.superpages_per_block;
        let job = self.refresh_job();
        if job.given_up || job.superpage == superpages {
            return self.refresh_turn(shared);
        }
        let (from, _) = self.refresh_places(shared);
        let sense = shared.sense.get();
        let reads = shared.layout.units_per_superpage / sense;
        self.refresh_job().reads = reads;
        for read in 0..reads {
            self.issue_refresh(shared, OpKind::Read, Ppa(from.0 + read * sense), sense);
        }
    }

    /// A part of a superpage is in the controller.
    pub(crate) fn refresh_arrived(&mut self, shared: &mut Shared, op: u32) {
        let (ppa, attempts, units) = {
            let record = &shared.scheduler.ops[op];
            (record.ppa, record.attempts, record.units)
        };
        let (from, to) = self.refresh_places(shared);
        let mut job = self.refresh.job.take().expect("an operation of a refresh");
        let (unit_bytes, spare_bytes) = {
            let units = shared.layout.units_per_superpage as usize;
            (job.images.len() / units, job.metadata.len() / units)
        };
        let mut lost = false;
        for unit in ppa.0..ppa.0 + units {
            let at = (unit - from.0) as usize;
            let images = &mut job.images[at * unit_bytes..(at + 1) * unit_bytes];
            match shared.media.read(Ppa(unit), 0, images, attempts) {
                ReadResult::Ok { corrected_bits, .. } => {
                    shared.counts(self.number).corrected_bits += u64::from(corrected_bits);
                }
                ReadResult::Uncorrectable | ReadResult::Erased => lost = true,
            }
            let spare = &mut job.metadata[at * spare_bytes..(at + 1) * spare_bytes];
            lost |= !shared.media.array().metadata(Ppa(unit), 0, spare);
        }
        let again = lost && operations::tries_again(shared, ppa, attempts);
        if !again {
            // One read, however many units it brings.
            let counters = shared.counts(self.number);
            counters.uncorrectable_reads += u64::from(lost);
            counters.corrected_reads += u64::from(!lost && attempts > 0);
            job.given_up |= lost;
            job.reads -= 1;
        }
        job.lost |= lost && !again;
        let (given_up, reads) = (job.given_up, job.reads);
        self.refresh.job = Some(job);
        if again {
            return operations::retry(shared, op, ppa);
        }
        probes::observe_operation(shared, op);
        shared.scheduler.ops.release(op);
        if reads > 0 {
            return;
        }
        match given_up {
            true => self.refresh_turn(shared),
            false => self.issue_refresh(shared, OpKind::Program, to, shared.layout.units_per_superpage),
        }
    }

    /// The array starts on a program or an erase.
    pub(crate) fn refresh_begins(&mut self, shared: &mut Shared) -> Nanos {
        const BROKEN: &str = "our own translation broke a rule";
        let (from, to) = self.refresh_places(shared);
        let sequence = shared.media.array().spare(from).expect("it was read").sequence;
        shared.media.program_begin(to, sequence).unwrap_or_else(|e| panic!("{BROKEN}: {e}"));
        let job = self.refresh.job.as_ref().expect("an operation of a refresh");
        let units = shared.layout.units_per_superpage as usize;
        let (unit_bytes, spare_bytes) = (job.images.len() / units, job.metadata.len() / units);
        for at in 0..units {
            let unit = Ppa(to.0 + at as u32);
            shared.media.put_unit(unit, Lpn(job.moved.chunk), &job.images[at * unit_bytes..][..unit_bytes]);
            shared.media.put_metadata(unit, &job.metadata[at * spare_bytes..][..spare_bytes]);
        }
        shared.media.program_ns(to)
    }

    /// A program or an erase has ended, and the firmware knows.
    pub(crate) fn refresh_ended(&mut self, shared: &mut Shared, op: u32) {
        let (kind, ppa) = (shared.scheduler.ops[op].kind, shared.scheduler.ops[op].ppa);
        let block = shared.layout.block_of(ppa);
        let ok = match kind {
            OpKind::Erase => operations::end_erase(shared, self.number, block, Cause::Refresh),
            _ => operations::end_full_superpage(shared, self.number, ppa, Cause::Refresh),
        };
        operations::let_go(shared, op);
        if kind == OpKind::Erase {
            return self.refresh_done(shared, ok);
        }
        let job = self.refresh_job();
        job.superpage += 1;
        if !ok {
            (job.given_up, job.retired) = (true, true);
            operations::retire_block(shared, block);
            shared.media.invalidate(block);
        }
        self.refresh_superpage(shared);
    }

    /// All is copied, or the copy is given up: one of the two blocks is left over.
    fn refresh_turn(&mut self, shared: &mut Shared) {
        let Job { moved, given_up, retired, .. } = *self.refresh_job();
        self.refresh_job().copied = !given_up;
        let block = self.chunks.refresh_end(moved, !given_up);
        if retired {
            return self.refresh_done(shared, false);
        }
        self.issue_refresh(shared, OpKind::Erase, shared.layout.ppa(block, 0), 0);
    }

    /// The block that was left over is erased, or is lost.
    fn refresh_done(&mut self, shared: &mut Shared, erased: bool) {
        let job = self.refresh.job.take().expect("an operation of a refresh");
        let ChunkMove { chunk, from, to } = job.moved;
        let block = if job.copied { from } else { to };
        let erases = shared.media.array().erase_count(block);
        let chunks = &mut self.chunks;
        chunks.refresh_erased(chunk, block, erased, erases);
        let lba = chunks.info(chunk).start;
        if job.copied {
            self.notify(shared, lba, 1, ChunkReason::Refreshed, ChunkScope::Chunk);
        }
        if job.lost {
            self.distrust(shared, chunk);
        }
        for (work, i) in job.resets {
            let record = &mut shared.works[work];
            record.stages.add(Stage::WaitWay, shared.now - record.mark);
            record.mark = shared.now;
            self.reset_chunk(shared, work, i);
            direct::part_done(shared, work);
        }
        self.refresh_next(shared);
    }

    /// A reset finds its chunk being written anew: it waits until one of the two blocks is erased.
    pub(crate) fn reset_after_refresh(&mut self, shared: &mut Shared, work: u32, i: u32) {
        shared.works[work].slices_left += 1;
        let job = self.refresh_job();
        job.given_up = true;
        job.resets.push((work, i));
    }
}
