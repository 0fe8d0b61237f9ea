//! Counts of the function level.
//!
//! Invariant: counts only grow.

use super::FunctionCounters;

/// Counts since the start, which a restart does not end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    counts: FunctionCounters,
}

impl Tally {
    /// Counts so far.
    pub fn counts(&self) -> FunctionCounters {
        self.counts
    }

    /// The application has read sectors.
    pub fn read(&mut self, sectors: u64) {
        self.counts.read_sectors += sectors;
    }

    /// The application has written sectors.
    pub fn written(&mut self, sectors: u32) {
        self.counts.written_sectors += u64::from(sectors);
    }

    /// A write has failed.
    pub fn write_failure(&mut self) {
        self.counts.write_failures += 1;
    }

    /// A block was erased.
    pub fn erase(&mut self) {
        self.counts.erases += 1;
    }

    /// A block went out of use.
    pub fn retired(&mut self) {
        self.counts.retired += 1;
    }

    /// Wear levelling has written sectors.
    pub fn levelled(&mut self, sectors: u32) {
        self.counts.levelled_sectors += u64::from(sectors);
    }

    /// Wear levelling has swapped a pair of blocks.
    pub fn swap(&mut self) {
        self.counts.swaps += 1;
    }
}
