//! Core of a cache: the objects that every path of a request uses, and the effects that paths have on the objects
//! that none of them knows.

use super::blocks::Blocks;
use super::ends::Ends;
use super::requests::Requests;
use super::shape::CacheShape;
use std::collections::VecDeque;

/// Effect of a path on the cleaner or the commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The flash was written.
    FlashChanged,
    /// The backing store was written.
    BackingChanged,
    /// Blocks became dirty.
    Dirtied,
    /// A write found no space; holds the number of dirty blocks at that time.
    Full(u64),
    /// Blocks became clean whose records call them dirty.
    RecordsWanted,
}

/// Next step of an operation whose parts have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The operation has sent more parts, or was closed.
    Nothing,
    /// The operation waits for a commit.
    Commit,
    /// The records of the operation's blocks are written.
    Records,
}

/// Objects that the paths use. Each has private fields and keeps its own invariants.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub shape: CacheShape,
    pub requests: Requests,
    pub blocks: Blocks,
    pub ends: Ends,
    /// Effects that were not yet passed on.
    effects: VecDeque<Effect>,
}

impl Core {
    pub fn new(shape: CacheShape) -> Core {
        Core {
            requests: Requests::new(&shape.config, shape.image_bytes),
            blocks: Blocks::new(&shape),
            ends: Ends::default(),
            effects: VecDeque::new(),
            shape,
        }
    }

    #[inline]
    pub fn emit(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// Returns the next effect, in the order in which they were emitted.
    #[inline]
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }
}
