//! Closed blocks: how many valid units each holds, which of them give space, and lists of them by valid count.

use super::{BlockManager, BlockState, Hot, NIL};
use pellucid_flash::{BlockId, DieId};

impl BlockManager {
    /// Returns whether emptying `block` takes fewer superpages than it frees.
    pub fn frees_space(&self, block: BlockId) -> bool {
        let (data, pages) = self.giving_units;
        self.valid(block) <= if self.is_meta(block) { pages } else { data }
    }

    /// Returns whether a policy may choose `block`.
    pub fn may_be_victim(&self, block: BlockId) -> bool {
        let hot = &self.hot[block.0 as usize];
        hot.state == BlockState::Closed && !hot.failed
    }

    pub(super) fn gives(&self, block: BlockId) -> bool {
        self.may_be_victim(block) && self.frees_space(block)
    }

    /// Closed blocks of `die` that free space when they are emptied. If there are none, no policy can free space.
    #[inline]
    pub fn giving(&self, die: DieId) -> u32 {
        self.giving[die.0 as usize]
    }

    pub(super) fn count_giving(&mut self, block: BlockId, change: impl FnOnce(&mut BlockManager)) {
        let before = self.gives(block);
        change(self);
        let (after, die) = (self.gives(block), self.die(block.0));
        self.giving[die] = self.giving[die] + u32::from(after) - u32::from(before);
    }

    #[inline]
    pub fn add_valid(&mut self, block: BlockId, units: u32) {
        // Only blocks that take data gain valid units, and those are in no bucket.
        self.hot[block.0 as usize].valid += units;
    }

    #[inline]
    pub fn remove_valid(&mut self, block: BlockId) {
        let closed = self.hot[block.0 as usize].state == BlockState::Closed;
        if closed && self.keep_buckets {
            self.unlink(block.0);
            self.hot[block.0 as usize].valid -= 1;
            self.link(block.0);
        } else {
            self.hot[block.0 as usize].valid -= 1;
        }
        let valid = self.hot[block.0 as usize].valid;
        let (data, pages) = self.giving_units;
        if closed && (valid == 0 || valid == data || valid == pages) {
            self.passed_mark(block, valid);
        } else if valid == 0 && self.hot[block.0 as usize].state == BlockState::Cached {
            let die = self.die(block.0);
            self.cached[die].empty += 1;
        }
    }

    /// Counts a closed block as empty, or as freeing space, once its valid units are few enough.
    #[cold]
    fn passed_mark(&mut self, block: BlockId, valid: u32) {
        let die = self.die(block.0);
        self.empty[die] += u32::from(valid == 0);
        self.empty_total += u32::from(valid == 0);
        let (data, pages) = self.giving_units;
        let mark = if self.is_meta(block) { pages } else { data };
        self.giving[die] += u32::from(valid == mark && !self.failed(block));
    }

    /// Returns whether any die is dead, or has a closed block that holds nothing valid.
    #[inline]
    pub fn has_dead_or_empty(&self) -> bool {
        self.empty_total > 0 || self.live_dies < self.layout.dies
    }

    /// Closed blocks of `die` that hold nothing valid.
    #[inline]
    pub fn empty_closed(&self, die: DieId) -> u32 {
        self.empty[die.0 as usize]
    }

    /// The closed block of `die` with the fewest valid units. Amortised O(1): the cursor rises only past empty buckets.
    pub fn fewest_valid(&mut self, die: DieId) -> Option<BlockId> {
        debug_assert!(self.keep_buckets);
        let base = die.0 as usize * (self.layout.units_per_block as usize + 1);
        let lowest = &mut self.lowest[die.0 as usize];
        while *lowest <= self.layout.units_per_block {
            let head = self.buckets[base + *lowest as usize];
            if head != NIL {
                return Some(BlockId(head));
            }
            *lowest += 1;
        }
        None
    }

    /// Finds, among the closed blocks of `die` that satisfy `may`, the lowest-numbered one with the fewest valid units.
    pub fn fewest_valid_where(&self, die: DieId, may: impl Fn(BlockId) -> bool) -> Option<BlockId> {
        debug_assert!(self.keep_buckets);
        let base = die.0 as usize * (self.layout.units_per_block as usize + 1);
        let buckets = &self.buckets[base..base + self.layout.units_per_block as usize + 1];
        let lists = &buckets[(self.lowest[die.0 as usize] as usize).min(buckets.len())..];
        lists.iter().find_map(|&head| {
            let next = |at: u32| (at != NIL).then_some(at);
            let list = std::iter::successors(next(head), |&at| next(self.hot[at as usize].next));
            list.map(BlockId).filter(|&block| may(block)).min()
        })
    }

    /// Makes a closed block the victim.
    pub fn choose(&mut self, block: BlockId) {
        debug_assert!(self.is_settled(block));
        self.leave_closed(block.0);
        self.count_giving(block, |blocks| blocks.hot[block.0 as usize].state = BlockState::Victim);
    }

    /// Makes a victim with valid units, which could not be moved, a closed block again.
    pub fn put_back(&mut self, block: BlockId) {
        debug_assert!(self.state(block) == BlockState::Victim && self.valid(block) > 0);
        self.count_giving(block, |blocks| blocks.hot[block.0 as usize].state = BlockState::Closed);
        self.link(block.0);
    }

    /// Returns whether `block` is full, and its programs have ended.
    pub fn is_settled(&self, block: BlockId) -> bool {
        matches!(self.state(block), BlockState::Closed | BlockState::Cached)
    }

    /// Removes a block from the closed ones.
    pub(super) fn leave_closed(&mut self, block: u32) {
        let die = self.die(block);
        let empty = u32::from(self.hot[block as usize].valid == 0);
        if self.hot[block as usize].state == BlockState::Cached {
            self.cached[die].blocks -= 1;
            self.cached[die].empty -= empty;
        } else {
            self.unlink(block);
            self.empty[die] -= empty;
            self.empty_total -= empty;
        }
    }

    pub(super) fn link(&mut self, block: u32) {
        if !self.keep_buckets {
            return;
        }
        let die = self.die(block);
        let valid = self.hot[block as usize].valid;
        let head = &mut self.buckets[die * (self.layout.units_per_block as usize + 1) + valid as usize];
        let next = std::mem::replace(head, block);
        self.hot[block as usize].previous = NIL;
        self.hot[block as usize].next = next;
        if next != NIL {
            self.hot[next as usize].previous = block;
        }
        self.lowest[die] = self.lowest[die].min(valid);
    }

    fn unlink(&mut self, block: u32) {
        if !self.keep_buckets {
            return;
        }
        let Hot { valid, previous, next, .. } = self.hot[block as usize];
        if previous == NIL {
            let die = self.die(block);
            self.buckets[die * (self.layout.units_per_block as usize + 1) + valid as usize] = next;
        } else {
            self.hot[previous as usize].next = next;
        }
        if next != NIL {
            self.hot[next as usize].previous = previous;
        }
    }
}
