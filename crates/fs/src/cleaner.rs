//! The cleaner: the segment that it empties, and the blocks that are still to be moved.
//!
//! A victim's headers name the owners of its blocks; the tree tells which of these are live. A live block is read and made dirty: the
//! next commit writes it elsewhere, and the next checkpoint frees the segment. Blocks whose write failed are moved in the same way
//! (*rescued*).
//!
//! Invariant: a victim is read on only while no block is to be moved.

use crate::batch::Owner;
use crate::types::Time;
use pellucid_flash::{Nanos, Pauses, SimTime};
use std::collections::VecDeque;

/// The segment that is being emptied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    pub segment: u32,
    /// When it was chosen.
    since: Time,
    /// Where its next header is.
    pub next: u32,
    /// Number of blocks from there on that were searched for a copy without finding one.
    pub ahead: u32,
}

/// The cleaner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cleaner {
    victim: Option<Victim>,
    moving: VecDeque<(u64, Owner)>,
    /// Blocks whose write failed are among these.
    rescues: bool,
    /// Segments cleaned since the last checkpoint: what lived in them is dirty.
    cleaned: Vec<u32>,
    /// Blocks that an operation waits for, beside what is dirty already.
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

    /// Segments cleaned, by the time from their choice until nothing in them was needed but by the checkpoint.
    pub fn pauses(&self) -> Pauses {
        self.pauses
    }

    /// An operation needs this many blocks of the log: the cleaner does not rest before they are there.
    pub fn ask(&mut self, blocks: u64) {
        self.asked = blocks;
    }

    /// Blocks that an operation waits for, beside what is dirty already.
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

    /// The next block was moved, or stays where it is.
    pub fn block_done(&mut self) {
        self.moving.pop_front();
    }

    /// Has blocks moved whose write failed.
    pub fn rescue(&mut self, blocks: impl Iterator<Item = (u64, Owner)>) {
        self.moving.extend(blocks);
        self.rescues = true;
    }

    /// Returns whether blocks without an address are still to be moved.
    pub fn is_rescuing(&self) -> bool {
        self.rescues
    }

    /// All blocks were moved. Returns whether some were rescued.
    pub fn end_rescue(&mut self) -> bool {
        std::mem::take(&mut self.rescues)
    }

    // ---- victims

    pub fn victim(&self) -> Option<Victim> {
        self.victim
    }

    /// Begins to empty a segment.
    pub fn choose(&mut self, segment: u32, now: Time) {
        self.victim = Some(Victim { segment, since: now, next: 0, ahead: 0 });
    }

    /// The header of the victim is not there yet; in `ahead` blocks from it on there is no copy of it.
    pub fn wait_for_header(&mut self, ahead: u32) {
        if let Some(victim) = &mut self.victim {
            victim.ahead = ahead;
        }
    }

    /// Takes the blocks of a header of the victim; the next header is at `next`.
    pub fn take_batch(&mut self, blocks: impl Iterator<Item = (u64, Owner)>, next: u32) {
        self.moving.extend(blocks);
        if let Some(victim) = &mut self.victim {
            (victim.next, victim.ahead) = (next, 0);
        }
    }

    /// All live blocks of the victim are dirty.
    pub fn victim_done(&mut self, now: Time) {
        if let Some(victim) = self.victim.take() {
            self.cleaned.push(victim.segment);
            self.count += 1;
            self.pauses.record(Nanos(now.since(victim.since)), SimTime(now.0.max(0) as u64));
        }
    }

    /// Gives up the victim: the owners of its blocks are unknown.
    pub fn give_up(&mut self) {
        self.victim = None;
    }

    /// Segments cleaned since the last checkpoint.
    pub fn cleaned(&self) -> &[u32] {
        &self.cleaned
    }

    /// A checkpoint is built that frees what was cleaned.
    pub fn checkpoint_is_built(&mut self) {
        self.cleaned.clear();
    }
}
