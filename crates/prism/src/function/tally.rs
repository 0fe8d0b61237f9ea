//! Counts of the function level.
//!
//! Invariant: counts only grow.

use super::FunctionCounters;

/// Counts since the start; they survive a restart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    counts: FunctionCounters,
}

impl Tally {
    /// Counts so far.
    pub fn counts(&self) -> FunctionCounters {
        self.counts
    }

    /// Counts sectors read by the application.
    pub fn read(&mut self, sectors: u64) {
        self.counts.read_sectors += sectors;
    }

    /// Counts sectors written by the application.
    pub fn written(&mut self, sectors: u32) {
        self.counts.written_sectors += u64::from(sectors);
    }

    /// Counts a failed write.
    pub fn write_failure(&mut self) {
        self.counts.write_failures += 1;
    }

    /// Counts an erase.
    pub fn erase(&mut self) {
        self.counts.erases += 1;
    }

    /// Counts a retired block.
    pub fn retired(&mut self) {
        self.counts.retired += 1;
    }

    /// Counts sectors written by wear levelling.
    pub fn levelled(&mut self, sectors: u32) {
        self.counts.levelled_sectors += u64::from(sectors);
    }

    /// Counts a swap of wear levelling.
    pub fn swap(&mut self) {
        self.counts.swaps += 1;
    }
}
