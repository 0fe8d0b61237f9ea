//! Blocks without live units: they wait for a checkpoint, and for their erase.
//!
//! ```text
//!   push ─► emptied ─► cover (a checkpoint begins) ─► saved ─► covered ─► take_next
//! ```
//! Invariant: `covering` is the number of emptied blocks that the checkpoint under way covers; they are the first ones.

use pellucid_flash::BlockId;
use std::collections::VecDeque;

/// Blocks without live units.
#[derive(Clone, Debug, Default)]
pub(super) struct EmptyBlocks {
    emptied: VecDeque<BlockId>,
    covering: usize,
    /// Blocks that may be erased.
    covered: VecDeque<BlockId>,
}

impl EmptyBlocks {
    /// Adds a block, which waits for a checkpoint.
    pub fn push(&mut self, block: BlockId) {
        self.emptied.push_back(block);
    }

    /// A checkpoint without the blocks so far begins.
    pub fn cover(&mut self) {
        self.covering = self.emptied.len();
    }

    /// The checkpoint is on the media.
    pub fn saved(&mut self) {
        let covering = std::mem::take(&mut self.covering);
        self.covered.extend(self.emptied.drain(..covering));
    }

    /// The checkpoint could not be written.
    pub fn not_saved(&mut self) {
        self.covering = 0;
    }

    /// Lets all blocks be erased.
    pub fn release_all(&mut self) {
        self.covered.append(&mut self.emptied);
        self.covering = 0;
    }

    /// Returns whether a checkpoint would let blocks be erased that have to wait now.
    pub fn waits_for_checkpoint(&self) -> bool {
        self.covering == 0 && self.covered.is_empty() && !self.emptied.is_empty()
    }

    /// Takes the next block to be erased.
    pub fn take_next(&mut self) -> Option<BlockId> {
        self.covered.pop_front()
    }

    /// Puts a block back that is to be erased later.
    pub fn erase_later(&mut self, block: BlockId) {
        self.covered.push_back(block);
    }

    /// Number of blocks.
    pub fn count(&self) -> usize {
        self.emptied.len() + self.covered.len()
    }

    /// The blocks.
    pub fn iter(&self) -> impl Iterator<Item = BlockId> {
        self.emptied.iter().chain(&self.covered).copied()
    }
}
