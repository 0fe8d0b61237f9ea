//! Erase units that may stand for anything in their die: free ones wait here, and the least worn is taken first.
//!
//! ```text
//!   free ── take ──► used ── give (erased) ──► free          any ── retire ──► bad
//!                      └── condemn ──► used until it is retired
//! ```
//! What an erase unit holds is its taker's business. Invariant: a block is in its die's free list if and only if it is free.

use pellucid_flash::{BlockId, DieId, Layout};
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    Used,
    /// Used, holds data, and is retired instead of erased.
    Condemned,
    Bad,
}

/// The erase units of one namespace.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Blocks of every die, by their number in the die.
    blocks: Range<u32>,
    blocks_per_die: u32,
    erases: Vec<u32>,
    uses: Vec<Use>,
    free: Vec<Vec<u32>>,
}

impl Pool {
    /// Blocks `blocks` of every die, all used; mounting says which are free.
    pub fn new(layout: &Layout, blocks: Range<u32>) -> Pool {
        let count = (blocks.len() as u32 * layout.dies) as usize;
        Pool {
            blocks_per_die: layout.blocks_per_die,
            blocks,
            erases: vec![0; count],
            uses: vec![Use::Used; count],
            free: vec![Vec::new(); layout.dies as usize],
        }
    }

    fn index(&self, block: BlockId) -> usize {
        let (die, block) = (block.0 / self.blocks_per_die, block.0 % self.blocks_per_die);
        debug_assert!(
            self.blocks.contains(&block),
            "block {block} of die {die} belongs to another namespace"
        );
        (die * self.blocks.len() as u32 + block - self.blocks.start) as usize
    }

    /// Block `number` of those that the pool has in `die`.
    pub fn block(&self, die: DieId, number: u32) -> BlockId {
        BlockId(die.0 * self.blocks_per_die + self.blocks.start + number)
    }

    /// Every block, die by die.
    pub fn all(&self) -> impl Iterator<Item = BlockId> + use<> {
        let (per_die, blocks) = (self.blocks_per_die, self.blocks.clone());
        (0..self.free.len() as u32)
            .flat_map(move |die| blocks.clone().map(move |block| BlockId(die * per_die + block)))
    }

    /// Takes the least worn free block of `die`; of equals the lowest.
    pub fn take(&mut self, die: DieId) -> Option<BlockId> {
        let least = (0..self.free[die.0 as usize].len()).min_by_key(|&at| {
            let block = self.free[die.0 as usize][at];
            (self.erases[self.index(BlockId(block))], block)
        })?;
        let block = BlockId(self.free[die.0 as usize].swap_remove(least));
        let index = self.index(block);
        self.uses[index] = Use::Used;
        Some(block)
    }

    /// Gives back a block that is erased.
    pub fn give(&mut self, block: BlockId) {
        let index = self.index(block);
        assert_eq!(self.uses[index], Use::Used, "block {} given back, but not taken", block.0);
        self.uses[index] = Use::Free;
        self.free[(block.0 / self.blocks_per_die) as usize].push(block.0);
    }

    /// Takes a block out of use for good.
    pub fn retire(&mut self, block: BlockId) {
        let index = self.index(block);
        self.uses[index] = Use::Bad;
        self.free[(block.0 / self.blocks_per_die) as usize].retain(|&b| b != block.0);
    }

    /// A used block takes no more data, and is retired when what it holds is not needed any more.
    pub fn condemn(&mut self, block: BlockId) {
        let index = self.index(block);
        assert!(matches!(self.uses[index], Use::Used | Use::Condemned), "block {} is not in use", block.0);
        self.uses[index] = Use::Condemned;
    }

    /// Whether [`Pool::condemn`] was told so.
    pub fn is_condemned(&self, block: BlockId) -> bool {
        self.uses[self.index(block)] == Use::Condemned
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

    /// Free blocks of a die.
    pub fn free_count(&self, die: DieId) -> u32 {
        self.free[die.0 as usize].len() as u32
    }

    /// Free blocks of all dies.
    pub fn free_total(&self) -> u32 {
        self.free.iter().map(|list| list.len() as u32).sum()
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        let lists: usize = self.free.iter().map(|list| list.capacity() * 4 + size_of::<Vec<u32>>()).sum();
        (self.erases.len() * 4 + self.uses.len() + lists) as u64
    }

    /// Walks the free lists and panics where they disagree with the uses.
    pub fn check(&self) {
        let listed: usize = self.free.iter().map(Vec::len).sum();
        assert_eq!(listed, self.uses.iter().filter(|&&u| u == Use::Free).count(), "free blocks");
        for &block in self.free.iter().flatten() {
            assert_eq!(self.uses[self.index(BlockId(block))], Use::Free, "block {block} is in a free list");
        }
    }
}
