//! Counts of nameless translation.
//!
//! Invariant: counts only grow.

use super::NamelessCounters;

/// Counts since the state was made, or restored.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    counts: NamelessCounters,
}

impl Tally {
    /// Counts so far.
    pub fn counts(&self) -> NamelessCounters {
        self.counts
    }

    /// A victim was chosen.
    pub fn victim(&mut self) {
        self.counts.victims += 1;
    }

    /// A unit was copied.
    pub fn copied(&mut self) {
        self.counts.copied += 1;
    }

    /// The host is told of a move.
    pub fn moved(&mut self) {
        self.counts.moves += 1;
    }

    /// A block was erased.
    pub fn erased(&mut self) {
        self.counts.erases += 1;
    }

    /// A start did not find units.
    pub fn lost(&mut self, units: usize) {
        self.counts.lost += units as u64;
    }
}
