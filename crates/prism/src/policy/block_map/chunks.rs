//! Chunks of a range: free ones, readers, and those to be erased.
//!
//! ```text
//!   free ─► take ─► piece of a block ─► discard ─► garbage ─► begin_erases ─► erased ─► free, bad, or spoiled ─ try_again ─► garbage
//! ```
//! Invariants: a chunk is exactly one of: free, bad, a piece of one block, garbage, being erased, spoiled; a LUN has at most one erase in flight; a
//! chunk is erased when nothing reads it, and after all older ones of its block, so that a crash in between never lets an older piece replace a newer
//! one.

use crate::Space;
use pellucid_flash::{BlockId, DieId, Status};
use pellucid_ftl::Pool;
use std::ops::Range;

/// Free chunks that the application's writes must leave.
pub(super) const RESERVE: u32 = 2;

/// Use of a chunk.
#[derive(Clone, Debug, Default)]
struct Chunk {
    readers: u32,
    /// Flushes that wait for its erase.
    awaited: Vec<u32>,
}

/// A chunk to be erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Garbage {
    pub chunk: u32,
    pub logical: u32,
    pub sequence: u64,
    /// True if the block was trimmed: flushes wait for the erase.
    pub trimmed: bool,
}

impl Garbage {
    fn is_older_than(&self, other: &Garbage) -> bool {
        self.logical == other.logical && self.sequence < other.sequence
    }
}

/// Chunks of a range.
#[derive(Clone, Debug)]
pub(super) struct Chunks {
    chunks_per_lun: u32,
    channels: u32,
    /// The chunks: those of the range's rows, in every LUN.
    pool: Pool,
    chunks: Vec<Chunk>,
    garbage: Vec<Garbage>,
    /// Chunks whose erase has failed.
    spoiled: Vec<Garbage>,
    /// The erase in flight in each LUN.
    erasing: Vec<Option<Garbage>>,
    /// Writes in flight in each LUN.
    writing: Vec<u32>,
    /// The LUN whose turn it is.
    turn: u32,
}

impl Chunks {
    /// Creates the chunks of these rows, none free yet.
    pub fn new(space: &Space, rows: Range<u32>) -> Chunks {
        let geometry = space.geometry();
        let luns = geometry.luns() as usize;
        Chunks {
            chunks_per_lun: space.chunks.chunks,
            channels: geometry.channel_count,
            pool: Pool::new(&geometry.layout(), rows),
            chunks: vec![Chunk::default(); geometry.blocks() as usize],
            garbage: Vec::new(),
            spoiled: Vec::new(),
            erasing: vec![None; luns],
            writing: vec![0; luns],
            turn: 0,
        }
    }

    fn lun_of(&self, chunk: u32) -> usize {
        (chunk / self.chunks_per_lun) as usize
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        (self.chunks.len() * size_of::<Chunk>()) as u64 + self.pool.memory_bytes()
    }

    /// Checks the invariants, given the chunks of all pieces, and panics if one is broken.
    pub fn check(&self, pieces: Vec<u32>) {
        self.pool.check();
        let mut held = pieces;
        held.extend(self.garbage.iter().chain(&self.spoiled).map(|garbage| garbage.chunk));
        held.extend(self.erasing.iter().flatten().map(|garbage| garbage.chunk));
        held.sort_unstable();
        assert!(held.windows(2).all(|pair| pair[0] != pair[1]), "a chunk has two places: {held:?}");
        for block in self.pool.all() {
            let free = self.pool.is_free(block) || self.pool.is_bad(block);
            assert_eq!(free, held.binary_search(&block.0).is_err(), "chunk {}", block.0);
        }
    }

    /// Adds a chunk that the drive reports as free.
    pub fn add_free(&mut self, chunk: u32) {
        self.pool.give(BlockId(chunk));
    }

    /// Adds a chunk that the drive reports as bad.
    pub fn add_bad(&mut self, chunk: u32) {
        self.pool.retire(BlockId(chunk));
    }

    /// Number of free chunks.
    pub fn free(&self) -> u32 {
        self.pool.free_total()
    }

    /// Chunks that are not bad.
    pub fn good(&self) -> u32 {
        self.pool.all().filter(|&block| !self.pool.is_bad(block)).count() as u32
    }

    /// Takes a free chunk from the LUN with the fewest current writes and, among these, with the most free chunks. Ties rotate over LUNs
    /// channel by channel, so that consecutively written blocks are read on different channels.
    pub fn take(&mut self, for_application: bool) -> Option<u32> {
        if for_application && self.free() <= RESERVE {
            return None;
        }
        let luns = self.erasing.len() as u32;
        let channels = self.channels;
        self.turn = (self.turn + 1) % luns;
        let free = |lun: DieId| self.pool.free_count(lun);
        let by_channel = |at: u32| DieId(at % channels * (luns / channels) + at / channels);
        let in_turn = (0..luns).map(|at| by_channel((at + self.turn) % luns)).filter(|&lun| free(lun) > 0);
        // Of equals, the first.
        let best = in_turn.min_by_key(|&lun| (self.writing[lun.0 as usize], u32::MAX - free(lun)))?;
        self.pool.take(best).map(|block| block.0)
    }

    /// Notes the start of a read of a chunk.
    pub fn begin_read(&mut self, chunk: u32) {
        self.chunks[chunk as usize].readers += 1;
    }

    /// Notes the end of a read of a chunk.
    pub fn end_read(&mut self, chunk: u32) {
        self.chunks[chunk as usize].readers -= 1;
    }

    /// Notes the start of a write to a chunk.
    pub fn begin_write(&mut self, chunk: u32) {
        let lun = self.lun_of(chunk);
        self.writing[lun] += 1;
    }

    /// Notes the end of a write to a chunk.
    pub fn end_write(&mut self, chunk: u32) {
        let lun = self.lun_of(chunk);
        self.writing[lun] -= 1;
    }

    /// Takes back a chunk that is no longer needed.
    pub fn discard(&mut self, garbage: Garbage) {
        self.garbage.push(garbage);
    }

    /// Reports whether chunks will become free by themselves.
    pub fn frees_itself(&self) -> bool {
        !self.garbage.is_empty() || self.erasing.iter().any(Option::is_some)
    }

    /// Starts all erases that may start, and returns them.
    pub fn begin_erases(&mut self) -> Vec<Garbage> {
        let (mut at, mut begun) = (0, Vec::new());
        while at < self.garbage.len() {
            let garbage = self.garbage[at];
            let lun = self.lun_of(garbage.chunk);
            let older = |other: &Garbage| other.is_older_than(&garbage);
            let waits = self.erasing[lun].is_some()
                || self.chunks[garbage.chunk as usize].readers > 0
                || self.garbage.iter().chain(&self.spoiled).any(older)
                || self.erasing.iter().flatten().any(older);
            if waits {
                at += 1;
                continue;
            }
            self.garbage.remove(at);
            self.erasing[lun] = Some(garbage);
            begun.push(garbage);
        }
        begun
    }

    /// Handles the end of an erase; returns the flushes that waited for it.
    pub fn erased(&mut self, garbage: Garbage, status: Status) -> Vec<u32> {
        let (lun, block) = (self.lun_of(garbage.chunk), BlockId(garbage.chunk));
        let ended = self.erasing[lun].take();
        assert_eq!(ended, Some(garbage), "an erase that was begun");
        match status {
            Status::Success => {
                self.pool.set_erases(block, self.pool.erases(block) + 1);
                self.pool.give(block);
            }
            // The chunk was not written.
            Status::ChunkInvalidReset => self.pool.give(block),
            Status::ChunkOffline => self.pool.retire(block),
            _ => self.spoiled.push(garbage),
        }
        std::mem::take(&mut self.chunks[garbage.chunk as usize].awaited)
    }

    /// Makes a flush wait for the erases of trimmed blocks; returns their number.
    pub fn await_trims(&mut self, flush: u32) -> u32 {
        let to_come = self.garbage.iter().chain(self.erasing.iter().flatten());
        let mut count = 0;
        for garbage in to_come.filter(|garbage| garbage.trimmed) {
            self.chunks[garbage.chunk as usize].awaited.push(flush);
            count += 1;
        }
        count
    }

    /// Number of chunks whose erase has failed, which wait for a retry.
    pub fn resting(&self) -> u64 {
        self.spoiled.len() as u64
    }

    /// Retries failed erases.
    pub fn try_again(&mut self) {
        self.garbage.append(&mut self.spoiled);
    }
}
