//! Pool of erase units: which are free, how worn each is, which are retired. Page maps, log blocks, chunks and zones all use it.
//!
//! ```text
//!   free ── take ──► used ── give (erased) ──► free          any ── retire ──► bad
//!                      └── mark_failed ──► used until it is retired
//! ```
//! The taker of an erase unit manages its content. Invariant: a block is in its die's free list if and only if it is free; a free list is
//! in the order in which its blocks became free, the oldest last.

use pellucid_flash::{BlockId, DieId, Divisor, Layout};
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    Used,
    /// Used and failed: it holds data, and is retired instead of erased.
    Failed,
    Bad,
}

/// Order in which the free blocks of a die are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeOrder {
    /// The block that has been free longest: no wear levelling.
    Oldest,
    /// The least worn; among equals the one that has been free longest.
    LeastWorn,
    /// The least worn; among equals the lowest number.
    LeastWornLowest,
}

/// Pool of erase units: the same range of blocks in every die.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Blocks of every die, by their number in the die.
    blocks: Range<u32>,
    blocks_per_die: Divisor,
    order: TakeOrder,
    erases: Vec<u32>,
    uses: Vec<Use>,
    free: Vec<Vec<u32>>,
    free_total: u32,
}

impl Pool {
    /// Creates a pool of `blocks` of every die, all used; mounting tells which are free. The least worn is taken first.
    pub fn new(layout: &Layout, blocks: Range<u32>) -> Pool {
        let count = (blocks.len() as u32 * layout.dies) as usize;
        Pool {
            blocks_per_die: layout.split.blocks_per_die,
            blocks,
            order: TakeOrder::LeastWornLowest,
            erases: vec![0; count],
            uses: vec![Use::Used; count],
            free: vec![Vec::new(); layout.dies as usize],
            free_total: 0,
        }
    }

    /// Creates a pool with all of `blocks` free; among equally worn blocks it takes the lowest first.
    pub(crate) fn all_free(layout: &Layout, blocks: Range<u32>, order: TakeOrder) -> Pool {
        let mut pool = Pool { order, ..Pool::new(layout, blocks.clone()) };
        pool.uses.fill(Use::Free);
        pool.free_total = pool.uses.len() as u32;
        for (die, free) in (0..).zip(&mut pool.free) {
            free.extend(blocks.clone().rev().map(|block| die * layout.blocks_per_die + block));
        }
        pool
    }

    fn index(&self, block: BlockId) -> usize {
        let (die, block) = self.blocks_per_die.div_rem(block.0);
        debug_assert!(
            self.blocks.contains(&block),
            "block {block} of die {die} belongs to another namespace"
        );
        (die * self.blocks.len() as u32 + block - self.blocks.start) as usize
    }

    fn die(&self, block: BlockId) -> usize {
        self.blocks_per_die.quotient(block.0) as usize
    }

    /// Block `number` of the pool's blocks in `die`.
    pub fn block(&self, die: DieId, number: u32) -> BlockId {
        BlockId(die.0 * self.blocks_per_die.get() + self.blocks.start + number)
    }

    /// Every block of `die`.
    pub fn of_die(&self, die: DieId) -> impl Iterator<Item = BlockId> + use<> {
        let first = die.0 * self.blocks_per_die.get();
        self.blocks.clone().map(move |block| BlockId(first + block))
    }

    /// Every block, die by die.
    pub fn all(&self) -> impl Iterator<Item = BlockId> + use<> {
        let dies: Vec<_> = (0..self.free.len() as u32).map(|die| self.of_die(DieId(die))).collect();
        dies.into_iter().flatten()
    }

    /// Takes a free block of `die` in the pool's order.
    pub fn take(&mut self, die: DieId) -> Option<BlockId> {
        let free = &self.free[die.0 as usize];
        let wear = |at: usize| self.erases(BlockId(free[at]));
        let at = match self.order {
            TakeOrder::Oldest => free.len().checked_sub(1),
            TakeOrder::LeastWorn => (0..free.len()).rev().min_by_key(|&at| wear(at)),
            TakeOrder::LeastWornLowest => (0..free.len()).min_by_key(|&at| (wear(at), free[at])),
        };
        Some(self.take_at(die, at?))
    }

    /// Takes the most worn free block of `die`; among equals the one that has been free longest.
    pub fn take_most_worn(&mut self, die: DieId) -> Option<BlockId> {
        let free = &self.free[die.0 as usize];
        let at = (0..free.len()).max_by_key(|&at| (self.erases(BlockId(free[at])), at))?;
        Some(self.take_at(die, at))
    }

    fn take_at(&mut self, die: DieId, at: usize) -> BlockId {
        let block = BlockId(self.free[die.0 as usize].remove(at));
        self.free_total -= 1;
        let index = self.index(block);
        self.uses[index] = Use::Used;
        block
    }

    /// Takes this block, which is free.
    pub fn take_this(&mut self, block: BlockId) {
        let index = self.index(block);
        assert_eq!(self.uses[index], Use::Free, "block {} is not free", block.0);
        self.unlist(block);
        self.uses[index] = Use::Used;
    }

    fn unlist(&mut self, block: BlockId) {
        let die = self.die(block);
        self.free[die].retain(|&b| b != block.0);
        self.free_total -= 1;
    }

    /// Gives back a block that is erased.
    pub fn give(&mut self, block: BlockId) {
        let index = self.index(block);
        assert_eq!(self.uses[index], Use::Used, "block {} given back, but not taken", block.0);
        self.uses[index] = Use::Free;
        let die = self.die(block);
        self.free[die].insert(0, block.0);
        self.free_total += 1;
    }

    /// Retires a block.
    pub fn retire(&mut self, block: BlockId) {
        let index = self.index(block);
        if self.uses[index] == Use::Free {
            self.unlist(block);
        }
        self.uses[index] = Use::Bad;
    }

    /// Marks a used block as failed: it takes no more data, and is retired when its data are not needed any more.
    pub fn mark_failed(&mut self, block: BlockId) {
        let index = self.index(block);
        assert!(matches!(self.uses[index], Use::Used | Use::Failed), "block {} is not in use", block.0);
        self.uses[index] = Use::Failed;
    }

    /// Returns whether [`Pool::mark_failed`] was called for the block.
    pub fn is_failed(&self, block: BlockId) -> bool {
        self.uses[self.index(block)] == Use::Failed
    }

    /// Complete erases of a block.
    pub fn erases(&self, block: BlockId) -> u32 {
        self.erases[self.index(block)]
    }

    /// Sets the number of complete erases.
    pub fn set_erases(&mut self, block: BlockId, erases: u32) {
        let index = self.index(block);
        self.erases[index] = erases;
    }

    /// Returns whether a block is free.
    pub fn is_free(&self, block: BlockId) -> bool {
        self.uses[self.index(block)] == Use::Free
    }

    /// Returns whether a block is retired.
    pub fn is_bad(&self, block: BlockId) -> bool {
        self.uses[self.index(block)] == Use::Bad
    }

    /// Free blocks of a die.
    #[inline]
    pub fn free_count(&self, die: DieId) -> u32 {
        self.free[die.0 as usize].len() as u32
    }

    /// Free blocks of all dies.
    #[inline]
    pub fn free_total(&self) -> u32 {
        self.free_total
    }

    /// Bytes of memory that a drive needs for its blocks; every one of them may be free. Space that an allocator happens to give does not count:
    /// a copy of a drive reports the same.
    pub fn memory_bytes(&self) -> u64 {
        let lists = self.uses.len() * 4 + self.free.len() * size_of::<Vec<u32>>();
        (self.erases.len() * 4 + self.uses.len() + lists) as u64
    }

    /// Walks the free lists and panics where they disagree with the uses.
    pub fn check(&self) {
        let listed: usize = self.free.iter().map(Vec::len).sum();
        assert_eq!(listed, self.uses.iter().filter(|&&u| u == Use::Free).count(), "free blocks");
        assert_eq!(listed, self.free_total as usize, "free blocks of all dies");
        for (die, free) in self.free.iter().enumerate() {
            for &block in free {
                assert!(self.is_free(BlockId(block)), "block {block} is in a free list");
                assert_eq!(self.die(BlockId(block)), die, "block {block} is in the free list of die {die}");
            }
        }
    }
}
