//! Chunks: which are free, which are erased, and which block is merged to free some.
//!
//! ```text
//!   a block needs a chunk ─► more than RESERVE free? ─ yes ─► the LUN with most of them
//!                               └─ no ─► it waits; GC merges a block ─► its older pieces are garbage ─► erased ─► free ─► asked again
//! ```
//! The reserve is for blocks whose top piece has failed, so that their buffers can be written and merges can go on.

use super::{BlockMap, Garbage, Logical, Purpose};
use crate::policy::Gc;
use pellucid_flash::{BlockId, ChunkOp, Command, DieId, Opcode, SimTime, Status};

/// Free chunks that writes of the application leave alone.
pub(super) const RESERVE: u32 = 2;

impl BlockMap {
    /// Takes a free chunk: of a LUN that is written to least now, and of those of the one with most free. Of equals, LUNs have their turn
    /// channel by channel: blocks that are written one behind the other are read on different channels.
    pub(super) fn take_chunk(&mut self, for_application: bool) -> Option<u32> {
        if for_application && self.pool.free_total() <= RESERVE {
            return None;
        }
        let luns = self.erasing.len() as u32;
        let channels = self.space.geometry().channel_count;
        self.turn = (self.turn + 1) % luns;
        let free = |lun: DieId| self.pool.free_count(lun);
        let by_channel = |at: u32| DieId(at % channels * (luns / channels) + at / channels);
        let in_turn = (0..luns).map(|at| by_channel((at + self.turn) % luns)).filter(|&lun| free(lun) > 0);
        // Of equals the first.
        let best = in_turn.min_by_key(|&lun| (self.writing[lun.0 as usize], u32::MAX - free(lun)))?;
        self.pool.take(best).map(|block| block.0)
    }

    /// A block waits for a free chunk.
    pub(super) fn starve(&mut self, logical: u32) {
        if !std::mem::replace(&mut self.logical[logical as usize].starved, true) {
            self.starved.push_back(logical);
        }
        self.make_space();
    }

    /// Merges a block, unless chunks will become free by themselves.
    pub(super) fn make_space(&mut self) {
        if self.merging.is_some() || !self.garbage.is_empty() || self.erasing.contains(&true) {
            return;
        }
        let Some(victim) = self.victim() else { return };
        self.merging = Some((victim, self.now));
        self.logical[victim as usize].merging = true;
        self.counters.merges += 1;
        self.go_on(victim);
    }

    fn victim(&self) -> Option<u32> {
        // A merge needs a top piece that it can go on with, or a chunk for another.
        let chunk_is_free = self.pool.free_total() > 0;
        let can_go_on =
            |block: &Logical| !block.lame && !block.stuck && (block.pieces[0].open || chunk_is_free);
        let several = |block: &Logical| block.pieces.len() > 1;
        let mergeable = (0..).zip(&self.logical).filter(|(_, block)| several(block) && can_go_on(block));
        let blocks = mergeable.map(|(number, block)| {
            let (top, last) = (block.pieces[0], block.pieces[block.pieces.len() - 1]);
            // A top piece that takes no more is copied, too.
            let copies = last.ends - if top.open { top.ends } else { 0 };
            let freed = (block.pieces.len() - 1) as u64 * u64::from(self.length());
            (number, top, copies, freed, block.touched)
        });
        let victim = match self.gc {
            Gc::Greedy => blocks.min_by_key(|&(number, _, copies, ..)| (copies, number)),
            Gc::Fifo => blocks.min_by_key(|&(_, top, ..)| top.sequence),
            Gc::Lru => blocks.min_by_key(|&(number, .., touched)| (touched, number)),
            Gc::CostBenefit => blocks.max_by_key(|&(number, _, copies, freed, touched)| {
                let age = u128::from(self.clock - touched + 1);
                // Whole numbers keep it exact and repeatable.
                (((age * u128::from(freed)) << 16) / u128::from(copies + 1), u32::MAX - number)
            }),
        };
        victim.map(|(number, ..)| number)
    }

    /// A piece is not needed any more.
    pub(super) fn discard(&mut self, chunk: u32, logical: u32, sequence: u64, trimmed: bool) {
        self.garbage.push(Garbage { chunk, logical, sequence, trimmed });
    }

    /// Erases what can be erased: one chunk at a time in each LUN, of a block the oldest first, so that a crash in between never lets an
    /// older piece take the place of a newer one.
    pub(super) fn erase_garbage(&mut self) {
        let mut at = 0;
        while at < self.garbage.len() {
            let garbage = self.garbage[at];
            let lun = self.lun_of(garbage.chunk);
            let older =
                |other: &Garbage| other.logical == garbage.logical && other.sequence < garbage.sequence;
            let waits = self.erasing[lun]
                || self.chunks[garbage.chunk as usize].readers > 0
                || self.garbage.iter().chain(&self.spoiled).any(older)
                || self.erased_now().any(|other| older(&other));
            if waits {
                at += 1;
                continue;
            }
            self.garbage.remove(at);
            self.erasing[lun] = true;
            let command =
                Command::new(0, Opcode::Chunk(ChunkOp::Reset), self.lba(garbage.chunk, 0), 0, Vec::new());
            self.send(Purpose::Erase(garbage), command);
        }
    }

    /// An erase has ended.
    pub(super) fn erased(&mut self, garbage: Garbage, status: Status) {
        let (lun, block) = (self.lun_of(garbage.chunk), BlockId(garbage.chunk));
        self.erasing[lun] = false;
        self.counters.erases += 1;
        match status {
            Status::Success => {
                self.pool.set_erases(block, self.pool.erases(block) + 1);
                self.pool.give(block);
            }
            // Nothing was written to it.
            Status::ChunkInvalidReset => self.pool.give(block),
            Status::ChunkOffline => self.pool.retire(block),
            _ => self.spoiled.push(garbage),
        }
        for request in std::mem::take(&mut self.chunks[garbage.chunk as usize].awaited) {
            self.part_done(request, None);
        }
        self.erase_garbage();
        self.feed();
    }

    /// Blocks that wait for a chunk try again.
    pub(super) fn feed(&mut self) {
        for logical in std::mem::take(&mut self.starved) {
            self.logical[logical as usize].starved = false;
            self.go_on(logical);
        }
    }

    /// Chunks whose erase has failed, which wait for [`BlockMap::try_again`].
    pub fn resting_chunks(&self) -> u64 {
        self.spoiled.len() as u64
    }

    /// Tries again what was given up after failures: erases, and blocks that could not be written.
    pub fn try_again(&mut self, now: SimTime) {
        self.now = now;
        (self.read_only, self.failures_in_a_row) = (false, 0);
        self.garbage.append(&mut self.spoiled);
        for logical in 0..self.logical.len() as u32 {
            if std::mem::take(&mut self.logical[logical as usize].stuck) {
                self.go_on(logical);
            }
        }
        self.erase_garbage();
        self.feed();
    }

    /// Nothing is under way and a command waits for a chunk: there will be none. What is in a buffer stays there and can be read.
    pub(super) fn give_up_if_stuck(&mut self) {
        if self.starved.is_empty() || self.ops.in_use() > 0 {
            return;
        }
        self.make_space();
        if self.ops.in_use() > 0 {
            return;
        }
        self.read_only = true;
        for logical in std::mem::take(&mut self.starved) {
            let block = &mut self.logical[logical as usize];
            (block.starved, block.stuck) = (false, true);
            self.fail_changes(logical);
        }
    }
}
