//! Closed blocks: how many valid units each holds, which of them give space, and lists of them by valid count.

use super::{BlockManager, BlockState};
use pellucid_flash::{BlockId, DieId};

impl BlockManager {
    /// Returns whether emptying `block` takes fewer superpages than it frees.
    pub fn frees_space(&self, block: BlockId) -> bool {
        self.worth.frees_space(self.valid(block), self.record(block).is_meta())
    }

    /// Returns whether a policy may choose `block`.
    pub fn may_be_victim(&self, block: BlockId) -> bool {
        let hot = &self.hot[block.0 as usize];
        hot.state == BlockState::Closed && !hot.failed
    }

    #[inline]
    pub fn add_valid(&mut self, block: BlockId, units: u32) {
        // Only blocks that take data gain valid units, and those are in no bucket.
        self.hot[block.0 as usize].valid += units;
    }

    #[inline]
    pub fn remove_valid(&mut self, block: BlockId) {
        let closed = self.hot[block.0 as usize].state == BlockState::Closed;
        if closed && self.by_valid.is_kept() {
            let die = die_at(self, block.0);
            self.by_valid.unlink(&mut self.hot, die, block.0);
            self.hot[block.0 as usize].valid -= 1;
            self.by_valid.link(&mut self.hot, die, block.0);
        } else {
            self.hot[block.0 as usize].valid -= 1;
        }
        let valid = self.hot[block.0 as usize].valid;
        if closed && self.worth.is_mark(valid) {
            let kind = (self.record(block).is_meta(), self.failed(block));
            self.worth.pass_mark(die_at(self, block.0), valid, kind);
        } else if valid == 0 && self.hot[block.0 as usize].state == BlockState::Cached {
            self.slc.emptied(die_at(self, block.0));
        }
    }

    /// Returns whether any die is dead, or has a closed block that holds nothing valid.
    #[inline]
    pub fn has_dead_or_empty(&self) -> bool {
        self.worth.any_empty() || self.live_dies < self.layout.dies
    }

    /// The closed block of `die` with the fewest valid units, where the policy asks for it.
    pub fn fewest_valid(&mut self, die: DieId) -> Option<BlockId> {
        self.by_valid.fewest(die)
    }

    /// Finds, among the closed blocks of `die` that satisfy `may`, the lowest-numbered one with the fewest valid units.
    pub fn fewest_valid_where(&self, die: DieId, may: impl Fn(BlockId) -> bool) -> Option<BlockId> {
        self.by_valid.fewest_where(&self.hot, die, may)
    }

    /// Makes a closed block the victim.
    pub fn choose(&mut self, block: BlockId) {
        debug_assert!(self.is_settled(block));
        leave_closed(self, block.0);
        count_giving(self, block, |blocks| blocks.hot[block.0 as usize].state = BlockState::Victim);
    }

    /// Makes a victim with valid units, which could not be moved, a closed block again.
    pub fn put_back(&mut self, block: BlockId) {
        debug_assert!(self.state(block) == BlockState::Victim && self.valid(block) > 0);
        count_giving(self, block, |blocks| blocks.hot[block.0 as usize].state = BlockState::Closed);
        let die = die_at(self, block.0);
        self.by_valid.link(&mut self.hot, die, block.0);
    }

    /// Returns whether `block` is full, and its programs have ended.
    pub fn is_settled(&self, block: BlockId) -> bool {
        matches!(self.state(block), BlockState::Closed | BlockState::Cached)
    }
}

/// Place of a block's die in counts by die.
#[inline]
pub(super) fn die_at(blocks: &BlockManager, block: u32) -> usize {
    blocks.layout.split.blocks_per_die.quotient(block) as usize
}

/// Returns whether a policy may choose `block`, and that frees space.
pub(super) fn gives(blocks: &BlockManager, block: BlockId) -> bool {
    blocks.may_be_victim(block) && blocks.frees_space(block)
}

/// Makes a change by which a block may give space, or give none.
pub(super) fn count_giving(
    blocks: &mut BlockManager,
    block: BlockId,
    change: impl FnOnce(&mut BlockManager),
) {
    let before = gives(blocks, block);
    change(blocks);
    let (after, die) = (gives(blocks, block), die_at(blocks, block.0));
    blocks.worth.change_giving(die, before, after);
}

/// Removes a block from the closed ones.
pub(super) fn leave_closed(blocks: &mut BlockManager, block: u32) {
    let die = die_at(blocks, block);
    let empty = blocks.hot[block as usize].valid == 0;
    if blocks.hot[block as usize].state == BlockState::Cached {
        blocks.slc.left(die, empty);
    } else {
        blocks.by_valid.unlink(&mut blocks.hot, die, block);
        blocks.worth.remove_empty(die, empty);
    }
}

/// Closes a full block once all its programs have ended.
#[inline]
pub(super) fn close_if_settled(blocks: &mut BlockManager, block: BlockId, sequence: u64) {
    let hot = &mut blocks.hot[block.0 as usize];
    if hot.state == BlockState::Full && hot.in_flight == 0 {
        hot.state = BlockState::Closed;
        blocks.records[block.0 as usize].close(sequence);
        let empty = blocks.hot[block.0 as usize].valid == 0;
        let die = die_at(blocks, block.0);
        if blocks.slc.has(block) {
            blocks.hot[block.0 as usize].state = BlockState::Cached;
            return blocks.slc.filled(die, empty);
        }
        blocks.worth.add_empty(die, empty);
        blocks.worth.change_giving(die, false, gives(blocks, block));
        blocks.by_valid.link(&mut blocks.hot, die, block.0);
    }
}
