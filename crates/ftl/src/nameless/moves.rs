//! Moves of named units that the host has not acknowledged, and those that it has not been told of.
//!
//! Invariants: a block is *held* while it has an old copy of such a move, so that it is not erased; it is *fresh* while it has a new copy, so
//! that it is moved no further.

use pellucid_flash::{BlockId, Layout, Ppa};
use std::collections::{BTreeMap, VecDeque};

/// Most moves that may await acknowledgement at the same time.
const MOVES_MAX: u32 = 4096;

/// Moves of named units.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves {
    /// Moves that are not acknowledged: old place, new place.
    moved: BTreeMap<u32, u32>,
    /// Units of these moves, by block: old copies in `held`, new ones in `fresh`.
    held: BTreeMap<u32, u32>,
    fresh: BTreeMap<u32, u32>,
    /// Moves that are to be reported.
    notices: VecDeque<(Ppa, Ppa)>,
}

impl Moves {
    /// Most moves that may await acknowledgement on this layout.
    pub fn most(layout: &Layout) -> u64 {
        let block = layout.units_per_block;
        MOVES_MAX.min(4 * block).max(block).into()
    }

    /// Begins a move that the host has to acknowledge.
    pub fn begin(&mut self, layout: &Layout, old: Ppa, new: Ppa) {
        let known = self.moved.insert(old.0, new.0);
        assert_eq!(known, None, "a unit is moved once");
        *self.held.entry(layout.block_of(old).0).or_default() += 1;
        *self.fresh.entry(layout.block_of(new).0).or_default() += 1;
    }

    /// Ends a move: returns the block of the old copy.
    pub fn end(&mut self, layout: &Layout, old: Ppa) -> BlockId {
        let new = self.moved.remove(&old.0).expect("a move");
        let (held, fresh) = (layout.block_of(old), layout.block_of(Ppa(new)));
        for (counts, block) in [(&mut self.held, held), (&mut self.fresh, fresh)] {
            let count = counts.get_mut(&block.0).expect("a count of the move's block");
            *count -= 1;
            if *count == 0 {
                counts.remove(&block.0);
            }
        }
        held
    }

    /// The new place of the unit that was at `old`.
    pub fn target(&self, old: Ppa) -> Option<Ppa> {
        self.moved.get(&old.0).copied().map(Ppa)
    }

    /// Old address of the unit at `new`, which is in `block`.
    pub fn origin(&self, block: BlockId, new: Ppa) -> Option<Ppa> {
        let fresh = self.is_fresh(block);
        self.moved.iter().find(|&(_, &at)| fresh && at == new.0).map(|(&old, _)| Ppa(old))
    }

    /// Returns whether a block has old copies.
    pub fn is_held(&self, block: BlockId) -> bool {
        self.held.contains_key(&block.0)
    }

    /// Returns whether a block has new copies.
    pub fn is_fresh(&self, block: BlockId) -> bool {
        self.fresh.contains_key(&block.0)
    }

    /// Blocks with old copies.
    pub fn held_blocks(&self) -> usize {
        self.held.len()
    }

    /// Number of moves.
    pub fn count(&self) -> usize {
        self.moved.len()
    }

    /// The moves: old place and new one.
    pub fn iter(&self) -> impl Iterator<Item = (Ppa, Ppa)> {
        self.moved.iter().map(|(&old, &new)| (Ppa(old), Ppa(new)))
    }

    /// Queues a move to be reported.
    pub fn tell(&mut self, old: Ppa, new: Ppa) {
        self.notices.push_back((old, new));
    }

    /// Takes the next move to be reported.
    pub fn next_notice(&mut self) -> Option<(Ppa, Ppa)> {
        self.notices.pop_front()
    }

    /// Returns whether moves are to be reported.
    pub fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        let pairs = self.moved.len() + self.held.len() + self.fresh.len() + self.notices.len();
        (pairs * 8) as u64
    }

    /// Panics where the counts by block are wrong.
    pub fn check(&self, layout: &Layout) {
        let (mut held, mut fresh) = (BTreeMap::new(), BTreeMap::new());
        for (old, new) in self.iter() {
            *held.entry(layout.block_of(old).0).or_insert(0) += 1;
            *fresh.entry(layout.block_of(new).0).or_insert(0) += 1;
        }
        assert_eq!((&held, &fresh), (&self.held, &self.fresh), "moves by block");
    }
}
