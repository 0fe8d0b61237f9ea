//! Damaged blocks: with a failed program, or with units that could not be read.
//!
//! Invariant: a block is listed once at most on either list, and on none once it is empty or a victim.

use pellucid_flash::BlockId;
use std::collections::BTreeMap;

/// A victim that gave nothing is left out for 1, 2, 4 and so on occasions, at most for 2 to this power: reads that always fail do not keep GC
/// busy with each write of a host, and flash that recovers is found again.
const FRUITLESS_MAX: u32 = 10;

/// A block with units that could not be read when it was a victim.
#[derive(Clone, Copy, Debug)]
struct Unread {
    /// Value of `round` from which on the units are read once more.
    again: u64,
    /// Choices as victim, one after the other, that moved none of its units.
    fruitless: u32,
}

/// Damaged blocks that are closed.
#[derive(Clone, Debug, Default)]
pub(super) struct Damage {
    /// Blocks with a failed program.
    failed: Vec<BlockId>,
    unread: BTreeMap<BlockId, Unread>,
    /// Rises with every occasion to read such units once more.
    round: u64,
}

impl Damage {
    /// A program in a block has failed.
    pub fn fail(&mut self, block: BlockId) {
        if !self.failed.contains(&block) {
            self.failed.push(block);
        }
    }

    /// Units of a block could not be read; `fruitless`: choices as victim, one after the other, that moved none of them.
    pub fn cannot_read(&mut self, block: BlockId, fruitless: u32) {
        let again = self.round + (1 << fruitless.min(FRUITLESS_MAX));
        self.unread.insert(block, Unread { again, fruitless });
    }

    /// Choices of a block as victim, one after the other, that moved none of its units.
    pub fn fruitless(&self, block: BlockId) -> u32 {
        self.unread.get(&block).map_or(0, |unread| unread.fruitless)
    }

    /// Allows units that could not be read to be tried once more.
    pub fn read_again(&mut self) {
        self.round += 1;
    }

    /// Returns whether the units of a block can be read, or there was an occasion to try again.
    pub fn may_read(&self, block: BlockId) -> bool {
        self.unread.get(&block).is_none_or(|unread| unread.again <= self.round)
    }

    /// A block is empty, or a victim.
    pub fn forget(&mut self, block: BlockId) {
        self.failed.retain(|&failed| failed != block);
        self.unread.remove(&block);
    }

    /// Blocks with a failed program, the oldest first.
    pub fn failed(&self) -> impl Iterator<Item = BlockId> {
        self.failed.iter().copied()
    }

    /// Blocks with units that could not be read.
    pub fn unread(&self) -> impl Iterator<Item = BlockId> {
        self.unread.keys().copied()
    }

    /// Words of memory held.
    pub fn words(&self) -> usize {
        self.failed.len() + 5 * self.unread.len()
    }
}
