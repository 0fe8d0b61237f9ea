//! Closed blocks of each die by valid count, for a policy that asks for the fewest: lists that run through the blocks.
//!
//! Invariant: a block is in exactly one list if and only if it is closed, and then in that of its valid count.

use super::{Hot, NIL};
use pellucid_flash::{BlockId, DieId, Layout};

/// Lists of closed blocks.
#[derive(Clone, Debug)]
pub(super) struct ByValid {
    /// Heads of the lists, by die and valid count.
    heads: Vec<u32>,
    /// Valid counts of a die.
    counts: usize,
    /// No list of the die below this count has a block.
    lowest: Vec<u32>,
    /// The policy asks for them.
    kept: bool,
}

impl ByValid {
    /// Creates empty lists, if they are `kept`.
    pub fn new(layout: &Layout, kept: bool) -> ByValid {
        let (dies, counts) = (layout.dies as usize, layout.units_per_block as usize + 1);
        ByValid {
            heads: vec![NIL; if kept { dies * counts } else { 0 }],
            counts,
            lowest: vec![counts as u32; dies],
            kept,
        }
    }

    /// Returns whether there are lists.
    #[inline]
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// Heads of the lists, with their valid counts.
    pub fn lists(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..).zip(&self.heads).map(|(at, &head)| (at % self.counts as u32, head))
    }

    /// Adds a closed block of `die`.
    #[inline]
    pub fn link(&mut self, hot: &mut [Hot], die: usize, block: u32) {
        if !self.kept {
            return;
        }
        let valid = hot[block as usize].valid;
        let next = std::mem::replace(&mut self.heads[die * self.counts + valid as usize], block);
        hot[block as usize].previous = NIL;
        hot[block as usize].next = next;
        if next != NIL {
            hot[next as usize].previous = block;
        }
        self.lowest[die] = self.lowest[die].min(valid);
    }

    /// Removes a closed block of `die`.
    #[inline]
    pub fn unlink(&mut self, hot: &mut [Hot], die: usize, block: u32) {
        if !self.kept {
            return;
        }
        let Hot { valid, previous, next, .. } = hot[block as usize];
        if previous == NIL {
            self.heads[die * self.counts + valid as usize] = next;
        } else {
            hot[previous as usize].next = next;
        }
        if next != NIL {
            hot[next as usize].previous = previous;
        }
    }

    /// The closed block of `die` with the fewest valid units. Amortised O(1): the cursor rises only past empty lists.
    pub fn fewest(&mut self, die: DieId) -> Option<BlockId> {
        debug_assert!(self.kept);
        let base = die.0 as usize * self.counts;
        let lowest = &mut self.lowest[die.0 as usize];
        while (*lowest as usize) < self.counts {
            let head = self.heads[base + *lowest as usize];
            if head != NIL {
                return Some(BlockId(head));
            }
            *lowest += 1;
        }
        None
    }

    /// Finds, among the closed blocks of `die` that satisfy `may`, the lowest-numbered one with the fewest valid units.
    pub fn fewest_where(&self, hot: &[Hot], die: DieId, may: impl Fn(BlockId) -> bool) -> Option<BlockId> {
        debug_assert!(self.kept);
        let base = die.0 as usize * self.counts;
        let heads = &self.heads[base..base + self.counts];
        let lists = &heads[(self.lowest[die.0 as usize] as usize).min(heads.len())..];
        lists.iter().find_map(|&head| {
            let next = |at: u32| (at != NIL).then_some(at);
            let list = std::iter::successors(next(head), |&at| next(hot[at as usize].next));
            list.map(BlockId).filter(|&block| may(block)).min()
        })
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> u64 {
        self.heads.len() as u64 * 4
    }
}
