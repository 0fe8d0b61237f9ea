//! External policies: a program that uses the library can make choices in place of [`crate::Victim`], [`crate::Placement`] and
//! [`crate::Eviction`].
//!
//! ```text
//!  FtlConfig::policies (prototypes) ── fork ─► the policies of one translation ── fork ─► those of its clone
//!                                              choose(candidates) ─┬─ a candidate ─► done
//!                                                                  └─ None ─► the choice of the enum in FtlConfig
//! ```
//! A policy is state of the drive: it is forked with it, and a drive that mounts after a power cut begins with the prototype. Translation
//! offers what is allowed and nothing else, so no policy can break it. A victim that has to wait for space is kept until it has it.
//! Built-in policies stay enums with a `match`: they pay a comparison for each victim and each superpage of new data.

use pellucid_flash::{BlockId, DieId, Lpn};
use std::fmt;
use std::sync::Arc;

/// A closed block that GC may empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VictimCandidate {
    /// The block.
    pub block: BlockId,
    /// Its valid mapping units; GC has to copy them.
    pub valid: u32,
    /// Mapping units that a block has.
    pub units: u32,
    /// Pages of a cache that the block holds, dirty or clean. Without a cache: `valid`.
    pub cached: u32,
    /// Times that it was erased.
    pub erases: u32,
    /// Time at which it was closed, in programs of translation.
    pub closed_at: u64,
    /// Time at which one of its units last became invalid, counted in programs of the translation; equal to
    /// `closed_at` if none has.
    pub touched_at: u64,
    /// The block holds translation pages.
    pub holds_map: bool,
}

/// A die that can take the next superpage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DieCandidate {
    /// The die.
    pub die: DieId,
    /// Its channel.
    pub channel: u32,
    /// Its way on the channel.
    pub way: u32,
    /// Its free blocks.
    pub free_blocks: u32,
}

/// A choice of victims: of blocks that GC empties, or that a cache gives up.
pub trait VictimPolicy: fmt::Debug + Send + Sync {
    /// The name in reports. Policies of equal names make equal choices.
    fn name(&self) -> &str;

    /// Chooses one of `candidates`, blocks of one die in ascending order and at least one. `now`: programs of translation so far. `None`:
    /// no choice, and the built-in policy chooses.
    fn choose(&mut self, candidates: &[VictimCandidate], now: u64) -> Option<usize>;

    /// A copy that shares nothing with this policy that a choice changes.
    fn fork(&self) -> Box<dyn VictimPolicy>;
}

/// A choice of dies for new data.
pub trait PlacementPolicy: fmt::Debug + Send + Sync {
    /// The name in reports. Policies of equal names make equal choices.
    fn name(&self) -> &str;

    /// Chooses one of `candidates`, at least one, for a superpage that begins with `page`. `now`: programs of translation so far. `None`: no
    /// choice, and the built-in placement chooses.
    fn choose(&mut self, candidates: &[DieCandidate], page: Lpn, now: u64) -> Option<usize>;

    /// A copy that shares nothing with this policy that a choice changes.
    fn fork(&self) -> Box<dyn PlacementPolicy>;
}

/// Policies from outside, as a configuration has them. Two are equal if their policies have the same names.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    /// Chooses what GC empties.
    pub victim: Option<Arc<dyn VictimPolicy>>,
    /// Chooses the die of new data.
    pub placement: Option<Arc<dyn PlacementPolicy>>,
    /// Chooses the block that a cache evicts.
    pub eviction: Option<Arc<dyn VictimPolicy>>,
}

impl Policies {
    fn names(&self) -> [Option<&str>; 3] {
        [
            self.victim.as_ref().map(|policy| policy.name()),
            self.placement.as_ref().map(|policy| policy.name()),
            self.eviction.as_ref().map(|policy| policy.name()),
        ]
    }
}

impl PartialEq for Policies {
    fn eq(&self, other: &Policies) -> bool {
        self.names() == other.names()
    }
}

/// A policy at work.
#[derive(Debug)]
pub(crate) struct Forked<P: ?Sized>(Box<P>);

impl Forked<dyn VictimPolicy> {
    /// A policy of this prototype.
    pub fn of(prototype: &Option<Arc<dyn VictimPolicy>>) -> Option<Forked<dyn VictimPolicy>> {
        prototype.as_ref().map(|policy| Forked(policy.fork()))
    }

    /// The choice among `candidates`.
    ///
    /// # Panics
    /// The policy chose none of them.
    pub fn choose(&mut self, candidates: &[VictimCandidate], now: u64) -> Option<BlockId> {
        let chosen = self.0.choose(candidates, now)?;
        assert!(chosen < candidates.len(), "{}: {chosen} of {} candidates", self.0.name(), candidates.len());
        Some(candidates[chosen].block)
    }
}

impl Clone for Forked<dyn VictimPolicy> {
    fn clone(&self) -> Self {
        Forked(self.0.fork())
    }
}

impl Forked<dyn PlacementPolicy> {
    /// A policy of this prototype.
    pub fn of(prototype: &Option<Arc<dyn PlacementPolicy>>) -> Option<Forked<dyn PlacementPolicy>> {
        prototype.as_ref().map(|policy| Forked(policy.fork()))
    }

    /// The choice among `candidates`.
    ///
    /// # Panics
    /// The policy chose none of them.
    pub fn choose(&mut self, candidates: &[DieCandidate], page: Lpn, now: u64) -> Option<usize> {
        let chosen = self.0.choose(candidates, page, now)?;
        assert!(chosen < candidates.len(), "{}: {chosen} of {} candidates", self.0.name(), candidates.len());
        Some(chosen)
    }
}

impl Clone for Forked<dyn PlacementPolicy> {
    fn clone(&self) -> Self {
        Forked(self.0.fork())
    }
}
