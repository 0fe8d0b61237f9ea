//! Blocks of the SLC cache: the first ones of each die, in a pool of their own.
//!
//! Invariant: for each die, `Full::blocks` counts the blocks in state `Cached`, and `Full::empty` those of them
//! without valid units.

use crate::pool::{Pool, TakeOrder};
use pellucid_flash::{BlockId, DieId, Divisor, Layout};

/// Full blocks of the SLC cache in a die.
#[derive(Clone, Copy, Debug, Default)]
struct Full {
    blocks: u32,
    /// Blocks without valid units.
    empty: u32,
}

/// Blocks of the SLC cache.
#[derive(Clone, Debug)]
pub(crate) struct SlcBlocks {
    /// Free blocks and wear.
    pool: Pool,
    /// Blocks of each die that are the SLC cache.
    per_die: u32,
    blocks_per_die: Divisor,
    full: Vec<Full>,
}

impl SlcBlocks {
    /// Creates a cache of `per_die` blocks in each die, all free and unworn.
    pub(super) fn new(layout: &Layout, per_die: u32) -> SlcBlocks {
        SlcBlocks {
            pool: Pool::all_free(layout, 0..per_die, TakeOrder::Oldest),
            per_die,
            blocks_per_die: layout.split.blocks_per_die,
            full: vec![Full::default(); if per_die > 0 { layout.dies as usize } else { 0 }],
        }
    }

    /// Returns whether `block` belongs to the SLC cache.
    #[inline]
    pub fn has(&self, block: BlockId) -> bool {
        self.per_die > 0 && self.blocks_per_die.remainder(block.0) < self.per_die
    }

    /// Free blocks, in all dies.
    #[inline]
    pub fn free(&self) -> u32 {
        self.pool.free_total()
    }

    /// Free blocks of `die`.
    pub fn free_in(&self, die: DieId) -> u32 {
        self.pool.free_count(die)
    }

    /// Full blocks of `die`, and how many of them hold nothing valid.
    #[inline]
    pub fn full(&self, die: DieId) -> (u32, u32) {
        self.full.get(die.0 as usize).map_or((0, 0), |full| (full.blocks, full.empty))
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// A block of `die` is full from now on.
    pub(super) fn filled(&mut self, die: usize, is_empty: bool) {
        self.full[die].blocks += 1;
        self.full[die].empty += u32::from(is_empty);
    }

    /// A full block of `die` holds nothing valid from now on.
    pub(super) fn emptied(&mut self, die: usize) {
        self.full[die].empty += 1;
    }

    /// A full block of `die` is being emptied, or retired, from now on.
    pub(super) fn left(&mut self, die: usize, is_empty: bool) {
        self.full[die].blocks -= 1;
        self.full[die].empty -= u32::from(is_empty);
    }
}
