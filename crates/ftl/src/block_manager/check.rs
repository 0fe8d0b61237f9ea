//! Invariants of the block manager.

use super::{BlockManager, BlockState, NIL};
use pellucid_flash::{BlockId, DieId};

/// Walks the lists and panics where they disagree with the blocks.
pub(super) fn check(blocks: &BlockManager) {
    blocks.pool.check();
    blocks.cache_pool.check();
    for block in (0..blocks.layout.blocks).map(BlockId) {
        let pool = if blocks.is_cache(block) { &blocks.cache_pool } else { &blocks.pool };
        let state = blocks.state(block);
        assert_eq!(pool.is_free(block), state == BlockState::Free, "block {} is {state:?}", block.0);
        assert_eq!(pool.is_bad(block), state == BlockState::Bad, "block {} is {state:?}", block.0);
    }
    let count = |state| blocks.hot.iter().filter(|b| b.state == state).count();
    for (_, open) in blocks.all_open() {
        assert_eq!(blocks.state(open.block), BlockState::Open, "block {} takes data", open.block.0);
    }
    for die in (0..blocks.layout.dies).map(DieId) {
        let cached = || blocks.of_die(die).filter(|&b| blocks.state(b) == BlockState::Cached);
        assert!(
            cached().all(|b| blocks.is_cache(b)),
            "a block outside the SLC cache of die {} is cached",
            die.0
        );
        let empty = cached().filter(|&b| blocks.valid(b) == 0).count();
        assert_eq!(
            blocks.cached(die),
            (cached().count() as u32, empty as u32),
            "cached blocks of die {}",
            die.0
        );
    }
    assert_eq!(count(BlockState::Bad), blocks.bad as usize, "bad blocks");
    for (die, &empty) in blocks.empty.iter().enumerate() {
        let of_die = blocks.of_die(DieId(die as u32));
        let found = of_die.filter(|&b| blocks.state(b) == BlockState::Closed && blocks.valid(b) == 0).count();
        assert_eq!(empty as usize, found, "empty closed blocks of die {die}");
        let giving = blocks.of_die(DieId(die as u32)).filter(|&b| blocks.gives(b)).count();
        assert_eq!(blocks.giving[die] as usize, giving, "closed blocks of die {die} that give space");
    }
    assert_eq!(blocks.empty_total, blocks.empty.iter().sum::<u32>(), "empty closed blocks");
    if blocks.keep_buckets {
        let mut listed = 0;
        for (bucket, &head) in blocks.buckets.iter().enumerate() {
            let (mut at, mut before) = (head, NIL);
            while at != NIL {
                let hot = &blocks.hot[at as usize];
                assert_eq!(hot.state, BlockState::Closed, "block {at} in a bucket");
                assert_eq!(
                    hot.valid as usize,
                    bucket % (blocks.layout.units_per_block as usize + 1),
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
