//! Pool of erase units: tracks free and retired units and the wear of each. Page maps, log blocks, chunks and zones all use it.
//!
//! ```text
//!   free ── take ──► used ── give (erased) ──► free          any ── retire ──► bad
//!                      └── mark_failed ──► used until it is retired
//! ```
//! The taker of an erase unit manages its content. Invariant: a block is among the free ones of its die if and only if it is free, and stands
//! there with its erases. These are sorted, so that taking one costs little however many there are.

use pellucid_flash::{BlockId, DieId, Divisor, Layout};
use std::collections::BTreeSet;
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

/// Free block, ordered as the pool takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Free {
    /// Complete erases, if they matter.
    wear: u32,
    /// Since when it is free, if that matters: how many blocks of its die had been given back before.
    since: u64,
    block: u32,
}

/// Free blocks of a die.
#[derive(Clone, Debug, Default)]
struct FreeList {
    blocks: BTreeSet<Free>,
    given: u64,
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
    free: Vec<FreeList>,
    /// Since when each block is free, where it is.
    since: Vec<u64>,
    free_total: u32,
}

impl Pool {
    /// Bytes of [`Pool::memory_bytes`] for each block.
    pub(crate) const BLOCK_BYTES: usize = 2 * size_of::<u32>() + size_of::<Use>();

    /// Creates a pool of `blocks` of every die, all used; mounting tells which are free. The least worn is taken first.
    pub fn new(layout: &Layout, blocks: Range<u32>) -> Pool {
        let count = (blocks.len() as u32 * layout.dies) as usize;
        Pool {
            blocks_per_die: layout.split.blocks_per_die,
            blocks,
            order: TakeOrder::LeastWornLowest,
            erases: vec![0; count],
            uses: vec![Use::Used; count],
            free: vec![FreeList::default(); layout.dies as usize],
            since: vec![0; count],
            free_total: 0,
        }
    }

    /// Creates a pool with all of `blocks` free; among equally worn blocks it takes the lowest first.
    pub(crate) fn all_free(layout: &Layout, blocks: Range<u32>, order: TakeOrder) -> Pool {
        let mut pool = Pool { order, ..Pool::new(layout, blocks) };
        pool.uses.fill(Use::Free);
        for die in 0..layout.dies {
            pool.fill_die(DieId(die));
        }
        pool
    }

    /// All blocks of a die are free, and were given back in the order of their numbers. Their entries are in order, so the set of them is
    /// built at once; a drive may have half a million blocks.
    fn fill_die(&mut self, die: DieId) {
        let number = self.blocks.len();
        let first = die.0 as usize * number;
        for (since, at) in (1..).zip(first..first + number) {
            self.since[at] = since;
        }
        let blocks = self.of_die(die).map(|block| self.entry(block)).collect();
        self.free[die.0 as usize] = FreeList { blocks, given: number as u64 };
        self.free_total += number as u32;
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

    /// A free block as the free ones of its die have it.
    fn entry(&self, block: BlockId) -> Free {
        let index = self.index(block);
        let (wear, since) = (self.erases[index], self.since[index]);
        match self.order {
            TakeOrder::Oldest => Free { wear: 0, since, block: block.0 },
            TakeOrder::LeastWorn => Free { wear, since, block: block.0 },
            TakeOrder::LeastWornLowest => Free { wear, since: 0, block: block.0 },
        }
    }

    /// Takes a free block of `die` in the pool's order.
    pub fn take(&mut self, die: DieId) -> Option<BlockId> {
        let block = BlockId(self.free[die.0 as usize].blocks.first()?.block);
        self.take_this(block);
        Some(block)
    }

    /// Takes the most worn free block of `die`; among equals the one that has been free longest.
    pub fn take_most_worn(&mut self, die: DieId) -> Option<BlockId> {
        let free = &self.free[die.0 as usize].blocks;
        let block = match self.order {
            TakeOrder::LeastWorn => {
                let wear = free.last()?.wear;
                free.range(Free { wear, since: 0, block: 0 }..).next()?.block
            }
            // These are sorted by something else.
            TakeOrder::Oldest | TakeOrder::LeastWornLowest => {
                let index = |free: &Free| self.index(BlockId(free.block));
                let key =
                    |free: &&Free| (self.erases[index(free)], std::cmp::Reverse(self.since[index(free)]));
                free.iter().max_by_key(key)?.block
            }
        };
        self.take_this(BlockId(block));
        Some(BlockId(block))
    }

    /// Takes the given free block.
    pub fn take_this(&mut self, block: BlockId) {
        let index = self.index(block);
        assert_eq!(self.uses[index], Use::Free, "block {} is not free", block.0);
        self.unlist(block);
        self.uses[index] = Use::Used;
    }

    fn unlist(&mut self, block: BlockId) {
        let (die, entry) = (self.die(block), self.entry(block));
        let was_there = self.free[die].blocks.remove(&entry);
        assert!(was_there, "block {} is free and not among the free ones", block.0);
        self.free_total -= 1;
    }

    fn list(&mut self, block: BlockId) {
        let (die, entry) = (self.die(block), self.entry(block));
        self.free[die].blocks.insert(entry);
        self.free_total += 1;
    }

    /// Gives back a block that is erased.
    pub fn give(&mut self, block: BlockId) {
        let index = self.index(block);
        assert_eq!(self.uses[index], Use::Used, "block {} given back, but not taken", block.0);
        self.uses[index] = Use::Free;
        let die = self.die(block);
        self.free[die].given += 1;
        self.since[index] = self.free[die].given;
        self.list(block);
    }

    /// Retires a block.
    pub fn retire(&mut self, block: BlockId) {
        let index = self.index(block);
        if self.uses[index] == Use::Free {
            self.unlist(block);
        }
        self.uses[index] = Use::Bad;
    }

    /// Marks a used block as failed: it accepts no more data, and is retired when its data are no longer needed.
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
        if self.erases[index] == erases {
            return;
        }
        let is_free = self.uses[index] == Use::Free;
        if is_free {
            self.unlist(block);
        }
        self.erases[index] = erases;
        if is_free {
            self.list(block);
        }
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
        self.free[die.0 as usize].blocks.len() as u32
    }

    /// Free blocks of all dies.
    #[inline]
    pub fn free_total(&self) -> u32 {
        self.free_total
    }

    /// Bytes of memory that a drive needs for its blocks: for each, its number in the free list, its erases and its use. The search tree
    /// used here takes more host memory, which does not count for the drive.
    pub fn memory_bytes(&self) -> u64 {
        (self.uses.len() * Pool::BLOCK_BYTES + self.free.len() * size_of::<Vec<u32>>()) as u64
    }

    /// Walks the free blocks and panics where they disagree with the uses.
    pub fn check(&self) {
        let listed: usize = self.free.iter().map(|free| free.blocks.len()).sum();
        assert_eq!(listed, self.uses.iter().filter(|&&u| u == Use::Free).count(), "free blocks");
        assert_eq!(listed, self.free_total as usize, "free blocks of all dies");
        for (die, free) in self.free.iter().enumerate() {
            for entry in &free.blocks {
                let block = BlockId(entry.block);
                assert!(self.is_free(block), "block {} is listed as free", block.0);
                assert_eq!(self.die(block), die, "block {} is among the free ones of die {die}", block.0);
                assert_eq!(self.entry(block), *entry, "block {} stands with other erases", block.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Geometry;

    #[test]
    fn a_pool_of_free_blocks_takes_them_as_if_each_had_been_given() {
        let geometry = Geometry {
            channels: 2,
            ways: 1,
            dies: 1,
            planes: 1,
            blocks: 40,
            pages: 4,
            page_bytes: 4096,
            spare_bytes: 0,
            sector_bytes: 4096,
            unit_bytes: 4096,
            multi_plane: false,
            one_shot_pages: 1,
        };
        let layout = geometry.layout().expect("a geometry");
        for order in [TakeOrder::Oldest, TakeOrder::LeastWorn, TakeOrder::LeastWornLowest] {
            let mut pool = Pool::all_free(&layout, 3..40, order);
            let mut given = Pool { order, ..Pool::new(&layout, 3..40) };
            given.all().for_each(|block| given.give(block));
            pool.check();
            for step in 0..200u32 {
                let die = DieId(step % 2);
                let block = if step % 5 == 0 { pool.take_most_worn(die) } else { pool.take(die) };
                let same = if step % 5 == 0 { given.take_most_worn(die) } else { given.take(die) };
                assert_eq!(block, same, "{order:?}, step {step}");
                if let Some(block) = block.filter(|_| step % 3 > 0) {
                    let erases = pool.erases(block) + step % 4;
                    for pool in [&mut pool, &mut given] {
                        pool.set_erases(block, erases);
                        pool.give(block);
                    }
                }
                pool.check();
            }
            assert_eq!(pool.free_total(), given.free_total());
        }
    }
}
