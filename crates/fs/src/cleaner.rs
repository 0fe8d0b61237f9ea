//! The cleaner: its current victim, and the blocks still to be moved.
//!
//! A victim's headers name the owners of its blocks; the tree tells which of these are live. A live block is read and made dirty: the next commit
//! writes it elsewhere, and the next checkpoint frees the segment. Blocks whose write failed are moved the same way (*rescued*).
//!
//! Invariant: no further header of a victim is read while blocks are to be moved.

use crate::batch::Owner;
use crate::types::Time;
use pellucid_flash::{Nanos, Pauses, SimTime};
use std::collections::VecDeque;

/// The segment being cleaned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    pub segment: u32,
    /// Time of the choice.
    since: Time,
    /// Position of the next header.
    pub next: u32,
    /// Number of blocks from there on that were searched for a copy without finding one.
    pub ahead: u32,
}

/// The cleaner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cleaner {
    victim: Option<Victim>,
    moving: VecDeque<(u64, Owner)>,
    /// True if these include blocks whose write failed.
    rescues: bool,
    /// Segments cleaned since the last checkpoint; their live blocks are dirty.
    cleaned: Vec<u32>,
    /// Blocks that an operation waits for, beyond those already dirty.
    asked: u64,
    /// Segments cleaned since the mount, and the time that each took.
    count: u64,
    pauses: Pauses,
}

impl Cleaner {
    /// Segments cleaned since the mount.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Segments cleaned, by the time from choice until only a checkpoint is needed to free them.
    pub fn pauses(&self) -> Pauses {
        self.pauses
    }

    /// Requests this many blocks of the log for an operation; the cleaner works until they are available.
    pub fn ask(&mut self, blocks: u64) {
        self.asked = blocks;
    }

    /// Blocks that an operation waits for, beyond those already dirty.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    pub fn is_at_rest(&self) -> bool {
        self.moving.is_empty() && self.victim.is_none()
    }

    /// Abandons a victim; blocks without an address are still moved.
    pub fn stop(&mut self) {
        self.victim = None;
        if !self.rescues {
            self.moving.clear();
        }
    }

    // ---- blocks to move

    /// The next block to move: its address, and its owner.
    pub fn next_block(&self) -> Option<(u64, Owner)> {
        self.moving.front().copied()
    }

    /// Ends the next block: it was moved, or stays.
    pub fn block_done(&mut self) {
        self.moving.pop_front();
    }

    /// Queues blocks whose write failed.
    pub fn rescue(&mut self, blocks: impl Iterator<Item = (u64, Owner)>) {
        self.moving.extend(blocks);
        self.rescues = true;
    }

    /// Returns whether blocks without an address are still to be moved.
    pub fn is_rescuing(&self) -> bool {
        self.rescues
    }

    /// Notes that all blocks were moved. Returns whether some were rescued.
    pub fn end_rescue(&mut self) -> bool {
        std::mem::take(&mut self.rescues)
    }

    // ---- victims

    pub fn victim(&self) -> Option<Victim> {
        self.victim
    }

    /// Chooses a victim.
    pub fn choose(&mut self, segment: u32, now: Time) {
        self.victim = Some(Victim { segment, since: now, next: 0, ahead: 0 });
    }

    /// Notes that the victim's header is still to be read; its copy is not within `ahead` blocks.
    pub fn wait_for_header(&mut self, ahead: u32) {
        if let Some(victim) = &mut self.victim {
            victim.ahead = ahead;
        }
    }

    /// Takes the blocks of a victim's header; the next header is at `next`.
    pub fn take_batch(&mut self, blocks: impl Iterator<Item = (u64, Owner)>, next: u32) {
        self.moving.extend(blocks);
        if let Some(victim) = &mut self.victim {
            (victim.next, victim.ahead) = (next, 0);
        }
    }

    /// Ends the victim: all its live blocks are dirty.
    pub fn victim_done(&mut self, now: Time) {
        if let Some(victim) = self.victim.take() {
            self.cleaned.push(victim.segment);
            self.count += 1;
            self.pauses.record(Nanos(now.since(victim.since)), SimTime(now.0.max(0) as u64));
        }
    }

    /// Gives up the victim, because the owners of its blocks are unknown.
    pub fn give_up(&mut self) {
        self.victim = None;
    }

    /// Segments cleaned since the last checkpoint.
    pub fn cleaned(&self) -> &[u32] {
        &self.cleaned
    }

    /// Notes that a checkpoint was built that frees the cleaned segments.
    pub fn checkpoint_is_built(&mut self) {
        self.cleaned.clear();
    }
}
