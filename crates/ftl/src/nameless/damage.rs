//! Damaged blocks: with a failed program, or with units that could not be read.
//!
//! Invariant: a block is listed once at most on either list, and on none once it is empty or a victim.

use pellucid_flash::BlockId;
use std::collections::BTreeMap;

/// Damaged blocks that are closed.
#[derive(Clone, Debug, Default)]
pub(super) struct Damage {
    /// Blocks with a failed program.
    failed: Vec<BlockId>,
    /// Blocks with units that could not be read when the block was a victim; the value of `round` at that time.
    unread: BTreeMap<BlockId, u64>,
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

    /// Units of a block could not be read.
    pub fn cannot_read(&mut self, block: BlockId) {
        self.unread.insert(block, self.round);
    }

    /// Allows units that could not be read to be tried once more.
    pub fn read_again(&mut self) {
        self.round += 1;
    }

    /// Returns whether the units of a block can be read, or there was an occasion to try again.
    pub fn may_read(&self, block: BlockId) -> bool {
        self.unread.get(&block).is_none_or(|&round| round < self.round)
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
        self.failed.len() + 3 * self.unread.len()
    }
}
