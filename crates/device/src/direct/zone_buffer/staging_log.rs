//! Blocks of the staging log of a zoned namespace.
//!
//! Invariants: blocks are numbered from 1 in the order in which they were begun, and leave in that order; one is erased at a time.

use pellucid_flash::BlockId;
use std::collections::VecDeque;

/// The blocks, the oldest first.
#[derive(Clone, Debug)]
pub(crate) struct StagingLog {
    blocks: VecDeque<BlockId>,
    /// Number of the first of them.
    first: u64,
    /// Flag: the block before the first is being erased. Until the erase ends, the contents of the block
    /// can reappear.
    erasing: bool,
}

impl StagingLog {
    /// The log of these blocks.
    pub fn of(blocks: &[BlockId]) -> StagingLog {
        StagingLog { blocks: blocks.iter().copied().collect(), first: 1, erasing: false }
    }

    /// A block is begun.
    pub fn begin(&mut self, block: BlockId) {
        self.blocks.push_back(block);
    }

    /// The block begun last.
    pub fn newest(&self) -> Option<BlockId> {
        self.blocks.back().copied()
    }

    /// Returns the number of a block; 0 for one that is not of the log.
    pub fn number_of(&self, block: BlockId) -> u64 {
        self.blocks.iter().position(|&own| own == block).map_or(0, |at| self.first + at as u64)
    }

    /// Returns whether the content of the block with this number may reappear after a power cut; 0 is no
    /// block.
    pub fn may_hold(&self, number: u64) -> bool {
        number != 0 && number >= self.first - u64::from(self.erasing)
    }

    /// The block that may be erased next, if nothing in it is needed. On another die a younger block, with the tombstone of what an older
    /// one holds, would perhaps be erased before it, so there is none while an erase is under way; the newest block stays.
    pub fn next_to_erase(&self) -> Option<BlockId> {
        let may_go = self.blocks.len() >= 2 && !self.erasing;
        if may_go { self.blocks.front().copied() } else { None }
    }

    /// The oldest block leaves the log.
    pub fn let_oldest_go(&mut self) {
        self.blocks.pop_front().expect("the log has a block");
        self.first += 1;
    }

    /// The erase of the block that has left begins.
    pub fn begin_erase(&mut self) {
        assert!(!std::mem::replace(&mut self.erasing, true), "one block of the log is erased at a time");
    }

    /// The erase has ended.
    pub fn end_erase(&mut self) {
        assert!(std::mem::take(&mut self.erasing), "an erase of the log ended that none began");
    }
}
