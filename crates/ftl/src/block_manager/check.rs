//! Invariants of the block manager.

use super::closed::gives;
use super::{BlockManager, BlockState, NIL};
use pellucid_flash::{BlockId, DieId};

/// Walks the lists and panics where they disagree with the blocks.
pub(super) fn check(blocks: &BlockManager) {
    blocks.pool.check();
    blocks.slc.pool().check();
    for block in (0..blocks.layout.blocks).map(BlockId) {
        let pool = if blocks.slc.has(block) { blocks.slc.pool() } else { &blocks.pool };
        let state = blocks.state(block);
        assert_eq!(pool.is_free(block), state == BlockState::Free, "block {} is {state:?}", block.0);
        assert_eq!(pool.is_bad(block), state == BlockState::Bad, "block {} is {state:?}", block.0);
    }
    let count = |state| blocks.hot.iter().filter(|b| b.state == state).count();
    for (_, open) in blocks.open.all() {
        assert_eq!(blocks.state(open.block), BlockState::Open, "block {} takes data", open.block.0);
    }
    for die in (0..blocks.layout.dies).map(DieId) {
        let cached = || blocks.of_die(die).filter(|&b| blocks.state(b) == BlockState::Cached);
        assert!(
            cached().all(|b| blocks.slc.has(b)),
            "a block outside the SLC cache of die {} is cached",
            die.0
        );
        let empty = cached().filter(|&b| blocks.valid(b) == 0).count();
        assert_eq!(
            blocks.slc.full(die),
            (cached().count() as u32, empty as u32),
            "cached blocks of die {}",
            die.0
        );
    }
    assert_eq!(count(BlockState::Bad), blocks.bad as usize, "bad blocks");
    for die in (0..blocks.layout.dies).map(DieId) {
        let of_die = blocks.of_die(die);
        let found = of_die.filter(|&b| blocks.state(b) == BlockState::Closed && blocks.valid(b) == 0).count();
        assert_eq!(blocks.worth.empty(die) as usize, found, "empty closed blocks of die {}", die.0);
        let giving = blocks.of_die(die).filter(|&b| gives(blocks, b)).count();
        assert_eq!(
            blocks.worth.giving(die) as usize,
            giving,
            "closed blocks of die {} that give space",
            die.0
        );
    }
    blocks.worth.check();
    if blocks.by_valid.is_kept() {
        let mut listed = 0;
        for (valid, head) in blocks.by_valid.lists() {
            let (mut at, mut before) = (head, NIL);
            while at != NIL {
                let hot = &blocks.hot[at as usize];
                assert_eq!(hot.state, BlockState::Closed, "block {at} in a bucket");
                assert_eq!(hot.valid, valid, "bucket of block {at}");
                assert_eq!(hot.previous, before, "links of block {at}");
                listed += 1;
                (before, at) = (at, hot.next);
            }
        }
        assert_eq!(listed, count(BlockState::Closed), "closed blocks in buckets");
    }
}
