//! Media below the chunks of class c are the drive's own to look after: what is about to become unreadable is written anew
//! in the background, and what could not be read is not trusted again. (A host of class a is told, and does it itself.)
//!
//! ```text
//!  a read had to mend more than `refresh_above` ─► waiting
//!    ─► stripe read ─► programmed elsewhere ─► the next one ... ─► the chunk lies there now ─► old block erased ─► notice
//!             │              └─ failed: block retired ─┐
//!             └─ unreadable, or a reset waits ─────────┴─► given up ─► copy erased ─► the reset
//! ```
//! One chunk at a time, one operation after the other, so that hosts feel it little. Reads that were on their way when a chunk
//! moved are repeated at its new place (`direct_path.rs`).
//!
//! Invariant: at most one of original and copy survives a reset, because the reset waits until the other one is erased.

use crate::device::Device;
use crate::firmware::Task;
use crate::scheduler::{Client, FlashOp, OpKind};
use crate::spaces::{ChunkSpace, Space};
use pellucid_flash::{Cause, ChunkReason, ChunkScope, Lpn, Nanos, Ppa, Stage};
use pellucid_ftl::ChunkMove;
use pellucid_media::ReadResult;
use std::collections::VecDeque;

/// Chunks that are written anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refresh {
    /// Namespace and number.
    waiting: VecDeque<(u16, u32)>,
    job: Option<Job>,
}

#[derive(Clone, Debug)]
struct Job {
    namespace: u16,
    moved: ChunkMove,
    /// The stripe that is being copied.
    stripe: u32,
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
    /// Content of the stripe, and the host's bytes in its spare area.
    images: Vec<u8>,
    metadata: Vec<u8>,
    /// Resets that wait: command, and which of its addresses.
    resets: Vec<(u32, u32)>,
}

impl Device {
    fn chunk_space_of(&mut self, namespace: u16) -> &mut ChunkSpace {
        match &mut self.spaces[usize::from(namespace)] {
            Space::Chunks(space) => space,
            _ => unreachable!("only open-channel namespaces are refreshed"),
        }
    }

    /// A read of chunk `number` found its data near to being lost, or beyond (`lost`).
    pub(crate) fn look_after(&mut self, namespace: u16, number: u32, worst_chunk_bits: u32, lost: bool) {
        if lost {
            return self.distrust(namespace, number);
        }
        let due = self.config.scheduler.refresh_above.is_some_and(|threshold| worst_chunk_bits > threshold);
        let known = |(n, moved): (u16, u32)| (n, moved) == (namespace, number);
        let refresh = &self.direct.refresh;
        let running = refresh.job.as_ref().is_some_and(|job| known((job.namespace, job.moved.chunk)));
        if due && !running && !refresh.waiting.iter().copied().any(known) {
            self.direct.refresh.waiting.push_back((namespace, number));
            self.refresh_next();
        }
    }

    /// What a chunk holds could not be read: its block serves until its reset.
    fn distrust(&mut self, namespace: u16, number: u32) {
        if let Some(block) = self.chunk_space_of(namespace).chunks.distrust(number) {
            self.retire_block(block);
        }
    }

    /// Begins with the next chunk that waits, if none is being written.
    fn refresh_next(&mut self) {
        while self.direct.refresh.job.is_none() {
            let Some((namespace, number)) = self.direct.refresh.waiting.pop_front() else { return };
            if !self.is_whole(namespace, number) {
                continue;
            }
            let Some(moved) = self.chunk_space_of(namespace).chunks.refresh_begin(number) else { continue };
            let units = self.layout.units_per_stripe as usize;
            let sectors = units * self.layout.sectors_per_unit as usize;
            self.direct.refresh.job = Some(Job {
                namespace,
                moved,
                stripe: 0,
                reads: 0,
                given_up: false,
                lost: false,
                retired: false,
                copied: false,
                images: vec![0; sectors * self.image_bytes],
                metadata: vec![0; sectors * self.media.metadata_bytes()],
                resets: Vec::new(),
            });
            self.refresh_stripe();
        }
    }

    /// Whether every stripe of a chunk was programmed well; a copy could not say of one that it was not.
    fn is_whole(&mut self, namespace: u16, number: u32) -> bool {
        let chunks = &self.chunk_space_of(namespace).chunks;
        let Some((first, _)) = chunks.locate(chunks.info(number).start) else { return false };
        let stripes = 0..self.layout.stripes_per_block;
        stripes
            .map(|stripe| first.0 + stripe * self.layout.units_per_stripe)
            .all(|unit| self.media.is_programmed(Ppa(unit)))
    }

    fn refresh_job(&mut self) -> &mut Job {
        self.direct.refresh.job.as_mut().expect("an operation of a refresh")
    }

    /// Where the stripe that is being copied begins, in the original and in the copy.
    fn refresh_places(&mut self) -> (Ppa, Ppa) {
        let Job { moved, stripe, .. } = *self.refresh_job();
        let unit = stripe * self.layout.units_per_stripe;
        (self.layout.ppa(moved.from, unit), self.layout.ppa(moved.to, unit))
    }

    fn issue_refresh(&mut self, kind: OpKind, ppa: Ppa, units: u32) {
        let die = self.layout.die_of(ppa).0;
        let op = FlashOp::new(kind, Cause::Refresh, Client::Refresh, die, ppa, units, self.now);
        let op = self.scheduler.ops.insert(op);
        self.ask(Task::Issue(op));
    }

    /// Reads the next stripe, or ends.
    fn refresh_stripe(&mut self) {
        let stripes = self.layout.stripes_per_block;
        let job = self.refresh_job();
        if job.given_up || job.stripe == stripes {
            return self.refresh_turn();
        }
        let (from, _) = self.refresh_places();
        let sense = self.direct.sense.get();
        let reads = self.layout.units_per_stripe / sense;
        self.refresh_job().reads = reads;
        for read in 0..reads {
            self.issue_refresh(OpKind::Read, Ppa(from.0 + read * sense), sense);
        }
    }

    /// A part of a stripe is in the controller.
    pub(crate) fn refresh_arrived(&mut self, op: u32) {
        let (ppa, attempts, units) = {
            let record = &self.scheduler.ops[op];
            (record.ppa, record.attempts, record.units)
        };
        let (from, to) = self.refresh_places();
        let mut job = self.direct.refresh.job.take().expect("an operation of a refresh");
        let (unit_bytes, spare_bytes) = {
            let units = self.layout.units_per_stripe as usize;
            (job.images.len() / units, job.metadata.len() / units)
        };
        let mut lost = false;
        for unit in ppa.0..ppa.0 + units {
            let at = (unit - from.0) as usize;
            let images = &mut job.images[at * unit_bytes..(at + 1) * unit_bytes];
            match self.media.read(Ppa(unit), 0, images, attempts) {
                ReadResult::Ok { corrected_bits, .. } => self.corrected(corrected_bits, attempts),
                ReadResult::Uncorrectable | ReadResult::Erased => lost = true,
            }
            let spare = &mut job.metadata[at * spare_bytes..(at + 1) * spare_bytes];
            lost |= !self.media.metadata(Ppa(unit), 0, spare);
        }
        let again = lost && self.tries_again(ppa, attempts);
        if !again {
            self.counters.uncorrectable_reads += u64::from(lost);
            job.given_up |= lost;
            job.reads -= 1;
        }
        job.lost |= lost && !again;
        let (given_up, reads) = (job.given_up, job.reads);
        self.direct.refresh.job = Some(job);
        if again {
            return self.retry(op, ppa);
        }
        self.tap_operation(op);
        self.scheduler.ops.release(op);
        if reads > 0 {
            return;
        }
        match given_up {
            true => self.refresh_turn(),
            false => self.issue_refresh(OpKind::Program, to, self.layout.units_per_stripe),
        }
    }

    /// The array starts on a program or an erase.
    pub(crate) fn refresh_begins(&mut self, kind: OpKind, ppa: Ppa) -> Nanos {
        const BROKEN: &str = "our own translation broke a rule";
        if kind == OpKind::Erase {
            let block = self.layout.block_of(ppa);
            self.media.erase_begin(block).unwrap_or_else(|e| panic!("{BROKEN}: {e}"));
            return self.media.erase_ns(block);
        }
        let (from, to) = self.refresh_places();
        let sequence = self.media.spare(from).expect("it was read").sequence;
        self.media.program_begin(to, sequence).unwrap_or_else(|e| panic!("{BROKEN}: {e}"));
        let job = self.direct.refresh.job.as_ref().expect("an operation of a refresh");
        let units = self.layout.units_per_stripe as usize;
        let (unit_bytes, spare_bytes) = (job.images.len() / units, job.metadata.len() / units);
        for at in 0..units {
            let unit = Ppa(to.0 + at as u32);
            self.media.put_unit(unit, Lpn(job.moved.chunk), &job.images[at * unit_bytes..][..unit_bytes]);
            self.media.put_metadata(unit, &job.metadata[at * spare_bytes..][..spare_bytes]);
        }
        self.media.program_ns(to)
    }

    /// A program or an erase has ended, and the firmware knows.
    pub(crate) fn refresh_ended(&mut self, op: u32) {
        let (kind, ppa) = (self.scheduler.ops[op].kind, self.scheduler.ops[op].ppa);
        let block = self.layout.block_of(ppa);
        let ok = match kind {
            OpKind::Erase => self.end_direct_erase(block, Cause::Refresh),
            _ => self.end_full_stripe(ppa, Cause::Refresh),
        };
        self.let_go(op);
        if kind == OpKind::Erase {
            return self.refresh_done(ok);
        }
        let job = self.refresh_job();
        job.stripe += 1;
        if !ok {
            (job.given_up, job.retired) = (true, true);
            self.retire_block(block);
            self.media.void(block);
        }
        self.refresh_stripe();
    }

    /// All is copied, or the copy is given up: one of the two blocks is left over.
    fn refresh_turn(&mut self) {
        let Job { namespace, moved, given_up, retired, .. } = *self.refresh_job();
        self.refresh_job().copied = !given_up;
        let block = self.chunk_space_of(namespace).chunks.refresh_end(moved, !given_up);
        if retired {
            return self.refresh_done(false);
        }
        self.issue_refresh(OpKind::Erase, self.layout.ppa(block, 0), 0);
    }

    /// The block that was left over is erased, or is lost.
    fn refresh_done(&mut self, erased: bool) {
        let job = self.direct.refresh.job.take().expect("an operation of a refresh");
        let ChunkMove { chunk, from, to } = job.moved;
        let block = if job.copied { from } else { to };
        let erases = self.media.erase_count(block);
        let chunks = &mut self.chunk_space_of(job.namespace).chunks;
        chunks.refresh_erased(chunk, block, erased, erases);
        let lba = chunks.info(chunk).start;
        if job.copied {
            self.notify(job.namespace, lba, 1, ChunkReason::Refreshed, ChunkScope::Chunk);
        }
        if job.lost {
            self.distrust(job.namespace, chunk);
        }
        for (work, i) in job.resets {
            let record = &mut self.works[work];
            record.stages.add(Stage::WaitWay, self.now - record.mark);
            record.mark = self.now;
            self.reset_chunk(work, i);
            self.part_done(work);
        }
        self.refresh_next();
    }

    /// A reset finds its chunk being written anew: it waits until one of the two blocks is erased.
    pub(crate) fn reset_after_refresh(&mut self, work: u32, i: u32) {
        self.works[work].slices_left += 1;
        let job = self.refresh_job();
        job.given_up = true;
        job.resets.push((work, i));
    }
}
