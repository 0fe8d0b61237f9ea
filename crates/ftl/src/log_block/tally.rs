//! Counts of log-block translation, and news for its caller.

use super::merge::MergeKind;
use crate::FtlCounters;
use pellucid_flash::{BlockId, Cause, SimTime};

/// Trims, counters, pauses, and news for the caller. Invariants: a block is collected once at most until it is free or retired; trims to
/// be saved are no more than trims.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Trims and losses so far.
    trims: u64,
    /// Number of the last trim or loss to be written to the media.
    save_to: u64,
    /// There may be metadata to be programmed.
    map_jobs: bool,
    /// Space may have come for host writes.
    released: bool,
    counters: FtlCounters,
    /// The caller's time.
    now: SimTime,
    /// Blocks whose data are to leave them, or have left, until they are erased or retired; each since when.
    collecting: Vec<(BlockId, SimTime)>,
}

impl Tally {
    /// Trims and losses so far.
    pub fn trims(&self) -> u64 {
        self.trims
    }

    /// Counts a trim or a loss; returns its number.
    pub fn count_trim(&mut self) -> u64 {
        self.trims += 1;
        self.trims
    }

    /// Number of the last trim or loss to be written to the media.
    pub fn save_to(&self) -> u64 {
        self.save_to
    }

    /// Wants everything up to this trim on the media.
    pub fn want_saved(&mut self, trim: u64) {
        self.save_to = self.save_to.max(trim);
        self.map_jobs = true;
    }

    /// Returns whether there may be metadata to be programmed.
    #[inline]
    pub fn has_map_jobs(&self) -> bool {
        self.map_jobs
    }

    /// Sets whether there may be metadata to be programmed.
    pub fn set_map_jobs(&mut self, may_be: bool) {
        self.map_jobs = may_be;
    }

    /// Records that space may have come for host writes.
    pub fn release(&mut self) {
        self.released = true;
    }

    /// Returns whether space may have come, since the last call, for host writes that were turned away.
    #[inline]
    pub fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.released)
    }

    /// Sets the caller's time.
    #[inline]
    pub fn set_now(&mut self, now: SimTime) {
        self.now = now;
    }

    /// Records that the data of a block are to leave it, if that is new.
    pub fn collects(&mut self, block: BlockId) {
        if !self.collecting.iter().any(|&(other, _)| other == block) {
            self.collecting.push((block, self.now));
        }
    }

    /// Records that a block is free or retired: its pause has ended, if it had one.
    pub fn collected(&mut self, block: BlockId) {
        if let Some(at) = self.collecting.iter().position(|&(other, _)| other == block) {
            let (_, since) = self.collecting.swap_remove(at);
            self.counters.pauses.record(self.now.since(since), self.now);
        }
    }

    /// Records that the data of a block stay there.
    pub fn stays(&mut self, block: BlockId) {
        self.collecting.retain(|&(other, _)| other != block);
    }

    /// Decisions so far.
    pub fn counters(&self) -> &FtlCounters {
        &self.counters
    }

    /// Sets the counters: to zero, or to what translation had counted before a power cut.
    pub fn set_counters(&mut self, counters: FtlCounters) {
        self.counters = counters;
    }

    /// Counts a block that has failed in use.
    pub fn count_grown_bad(&mut self) {
        self.counters.grown_bad += 1;
    }

    /// Counts a victim of wear levelling.
    pub fn count_levelled(&mut self) {
        self.counters.victims[Cause::WearLevel as usize] += 1;
    }

    /// Counts the erase of a block that was given up for `cause`, by a merge of this kind.
    pub fn count_erase(&mut self, cause: Cause, merge: Option<MergeKind>) {
        if let Some(kind) = merge {
            self.counters.merges[kind as usize].erases += 1;
        }
        self.counters.refreshed += u64::from(cause == Cause::Refresh);
    }

    /// Counts clean units of a cache that were dropped to make space.
    pub fn count_evicted(&mut self, units: u64) {
        self.counters.evicted_units += units;
    }

    /// Counts a superpage of a merge.
    pub fn count_copied(&mut self, kind: MergeKind, copied: u64, padded: u64) {
        let counters = &mut self.counters.merges[kind as usize];
        counters.copied_units += copied;
        counters.padded_units += padded;
        self.counters.copied_units += copied;
    }

    /// Counts a merge that has ended.
    pub fn count_merge(&mut self, kind: MergeKind) {
        self.counters.merges[kind as usize].merges += 1;
    }
}
