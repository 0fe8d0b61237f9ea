//! Closed blocks that are worth emptying: counts of each die.
//!
//! Invariants: `empty` counts the closed blocks without valid units; `giving` those that a policy may choose and that free more superpages than
//! their valid units take elsewhere.

use pellucid_flash::{DieId, Layout};

/// Counts of closed blocks that are worth emptying.
#[derive(Clone, Debug)]
pub(crate) struct Worth {
    /// Closed blocks without valid units, per die and in all.
    empty: Vec<u32>,
    empty_total: u32,
    /// Closed blocks, per die, that free space.
    giving: Vec<u32>,
    /// Most valid units with which a block still frees a superpage: of data, and of translation pages, each of which may take a superpage
    /// of its own.
    units: (u32, u32),
}

impl Worth {
    /// Creates the counts of a drive without closed blocks, whose blocks of data have `lists` superpages that take none.
    pub(super) fn new(layout: &Layout, lists: u32) -> Worth {
        let dies = layout.dies as usize;
        Worth {
            empty: vec![0; dies],
            empty_total: 0,
            giving: vec![0; dies],
            units: (
                layout.units_per_block - (1 + lists) * layout.units_per_superpage,
                layout.superpages_per_block.saturating_sub(1),
            ),
        }
    }

    /// Closed blocks of `die` that hold nothing valid.
    #[inline]
    pub fn empty(&self, die: DieId) -> u32 {
        self.empty[die.0 as usize]
    }

    /// Returns whether any die has a closed block that holds nothing valid.
    #[inline]
    pub fn any_empty(&self) -> bool {
        self.empty_total > 0
    }

    /// Closed blocks of `die` that free space when they are emptied. If there are none, no policy can free space.
    #[inline]
    pub fn giving(&self, die: DieId) -> u32 {
        self.giving[die.0 as usize]
    }

    /// Returns whether emptying a block with this many valid units, of translation pages (`meta`) or data, takes fewer superpages than it
    /// frees.
    #[inline]
    pub(super) fn frees_space(&self, valid: u32, meta: bool) -> bool {
        let (data, pages) = self.units;
        valid <= if meta { pages } else { data }
    }

    /// Returns whether a closed block that has come down to `valid` units may count otherwise than before.
    #[inline]
    pub(super) fn is_mark(&self, valid: u32) -> bool {
        let (data, pages) = self.units;
        valid == 0 || valid == data || valid == pages
    }

    /// Counts a closed block of `die` as empty, or as freeing space, once its valid units are few enough.
    #[cold]
    pub(super) fn pass_mark(&mut self, die: usize, valid: u32, (meta, failed): (bool, bool)) {
        self.add_empty(die, valid == 0);
        let (data, pages) = self.units;
        let mark = if meta { pages } else { data };
        self.giving[die] += u32::from(valid == mark && !failed);
    }

    /// A block of `die` is closed from now on, `empty` or not.
    pub(super) fn add_empty(&mut self, die: usize, empty: bool) {
        self.empty[die] += u32::from(empty);
        self.empty_total += u32::from(empty);
    }

    /// A block of `die` that was closed, `empty` or not, is so no more.
    pub(super) fn remove_empty(&mut self, die: usize, empty: bool) {
        self.empty[die] -= u32::from(empty);
        self.empty_total -= u32::from(empty);
    }

    /// A block of `die` gave space if `before`, and does so if `after`.
    pub(super) fn change_giving(&mut self, die: usize, before: bool, after: bool) {
        self.giving[die] = self.giving[die] + u32::from(after) - u32::from(before);
    }

    /// Panics unless the total is the sum.
    pub(super) fn check(&self) {
        assert_eq!(self.empty_total, self.empty.iter().sum::<u32>(), "empty closed blocks");
    }
}
