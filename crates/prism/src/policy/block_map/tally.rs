//! Counts of the writer, of failed reads, and of GC.
//!
//! Invariant: counts only grow.

use pellucid_flash::{Pauses, SimTime};

/// Counts since the start, in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub programmed: u64,
    pub copied: u64,
    pub erases: u64,
    pub merges: u64,
    pub pauses: Pauses,
    pub write_failures: u64,
    pub lost_reads: u64,
}

/// Counts of a range.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    counts: Counters,
}

impl Tally {
    /// Counts so far.
    pub fn counts(&self) -> Counters {
        self.counts
    }

    /// Counts a failed read.
    pub fn lost_read(&mut self) {
        self.counts.lost_reads += 1;
    }

    /// Counts written sectors; `copied`: by a copy.
    pub fn programmed(&mut self, sectors: u32, copied: bool) {
        self.counts.programmed += u64::from(sectors);
        self.counts.copied += if copied { u64::from(sectors) } else { 0 };
    }

    /// Counts a failed write.
    pub fn write_failure(&mut self) {
        self.counts.write_failures += 1;
    }

    /// Counts an erase.
    pub fn erase(&mut self) {
        self.counts.erases += 1;
    }

    /// Counts the start of a merge.
    pub fn merge(&mut self) {
        self.counts.merges += 1;
    }

    /// Records a merge from `since` to `now`.
    pub fn pause(&mut self, since: SimTime, now: SimTime) {
        self.counts.pauses.record(now.since(since), now);
    }
}
