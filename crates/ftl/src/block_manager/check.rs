//! Invariants of the block manager.

use super::{BlockManager, BlockState, NIL};
use pellucid_flash::{BlockId, DieId};

impl BlockManager {
    /// Walks the lists and panics where they disagree with the blocks.
    pub fn check(&self) {
        self.pool.check();
        self.cache_pool.check();
        for block in (0..self.layout.blocks).map(BlockId) {
            let pool = if self.is_cache(block) { &self.cache_pool } else { &self.pool };
            let state = self.state(block);
            assert_eq!(pool.is_free(block), state == BlockState::Free, "block {} is {state:?}", block.0);
            assert_eq!(pool.is_bad(block), state == BlockState::Bad, "block {} is {state:?}", block.0);
        }
        let count = |state| self.hot.iter().filter(|b| b.state == state).count();
        for (_, open) in self.all_open() {
            assert_eq!(self.state(open.block), BlockState::Open, "block {} takes data", open.block.0);
        }
        for die in (0..self.layout.dies).map(DieId) {
            let cached = || self.of_die(die).filter(|&b| self.state(b) == BlockState::Cached);
            assert!(
                cached().all(|b| self.is_cache(b)),
                "a block outside the SLC cache of die {} is cached",
                die.0
            );
            let empty = cached().filter(|&b| self.valid(b) == 0).count();
            assert_eq!(
                self.cached(die),
                (cached().count() as u32, empty as u32),
                "cached blocks of die {}",
                die.0
            );
        }
        assert_eq!(count(BlockState::Bad), self.bad as usize, "bad blocks");
        for (die, &empty) in self.empty.iter().enumerate() {
            let blocks = self.of_die(DieId(die as u32));
            let found = blocks.filter(|&b| self.state(b) == BlockState::Closed && self.valid(b) == 0).count();
            assert_eq!(empty as usize, found, "empty closed blocks of die {die}");
            let giving = self.of_die(DieId(die as u32)).filter(|&b| self.gives(b)).count();
            assert_eq!(self.giving[die] as usize, giving, "closed blocks of die {die} that give space");
        }
        assert_eq!(self.empty_total, self.empty.iter().sum::<u32>(), "empty closed blocks");
        if self.keep_buckets {
            let mut listed = 0;
            for (bucket, &head) in self.buckets.iter().enumerate() {
                let (mut at, mut before) = (head, NIL);
                while at != NIL {
                    let hot = &self.hot[at as usize];
                    assert_eq!(hot.state, BlockState::Closed, "block {at} in a bucket");
                    assert_eq!(
                        hot.valid as usize,
                        bucket % (self.layout.units_per_block as usize + 1),
                        "bucket of block {at}"
                    );
                    assert_eq!(hot.previous, before, "links of block {at}");
                    listed += 1;
                    (before, at) = (at, hot.next);
                }
            }
            assert_eq!(listed, count(BlockState::Closed), "closed blocks in buckets");
        }
    }
}
