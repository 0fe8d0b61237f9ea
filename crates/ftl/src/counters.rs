//! Counters of translation; added and subtracted: over namespaces, and over a time.

use crate::{MapCounters, MergeCounters, MergeKind};
use pellucid_flash::{Cause, Pauses};

/// Counters of translation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FtlCounters {
    /// Victims chosen, by cause; blocks of the SLC cache that are folded are victims, too.
    pub victims: [u64; Cause::COUNT],
    /// Valid units in all victims but folded blocks when they were chosen.
    pub victim_valid_units: u64,
    /// Units of data that GC copied elsewhere; of a cache, dirty ones.
    pub copied_units: u64,
    /// Clean units of a cache that were dropped to make space.
    pub evicted_units: u64,
    /// Blocks retired after the factory.
    pub grown_bad: u64,
    /// Victims that were chosen by their few valid units, against the policy: the die had lost its GC reserve.
    pub emergency_victims: u64,
    /// Blocks that were refreshed (data rewritten before they became unreadable) and erased.
    pub refreshed: u64,
    /// Host units that went to the SLC cache, if there is one; `direct_units`: those that bypassed it.
    pub cached_units: u64,
    /// See `cached_units`.
    pub direct_units: u64,
    /// Merges of log-block translation, by kind.
    pub merges: [MergeCounters; MergeKind::COUNT],
    /// The cached mapping table, where there is one.
    pub map: MapCounters,
    /// Victims that have ended, folds of the SLC cache not among them, by the time from their choice to their end.
    pub pauses: Pauses,
}

impl FtlCounters {
    /// Victims of GC: all but the blocks of the SLC cache that were folded, as in [`FtlCounters::victim_valid_units`].
    pub fn gc_victims(&self) -> u64 {
        self.victims.iter().sum::<u64>() - self.victims[Cause::Fold as usize]
    }

    /// Counts since `before`.
    pub fn since(mut self, before: &FtlCounters) -> FtlCounters {
        self.each(before, |own, before| own - before);
        self.pauses = self.pauses.since(&before.pauses);
        self
    }

    /// Adds the counters of another namespace.
    pub fn add(&mut self, other: &FtlCounters) {
        self.each(other, |own, other| own + other);
        self.pauses.add(&other.pauses);
    }

    fn each(&mut self, other: &FtlCounters, f: impl Fn(u64, u64) -> u64 + Copy) {
        let FtlCounters {
            victims,
            victim_valid_units,
            copied_units,
            evicted_units,
            grown_bad,
            emergency_victims,
            refreshed,
            cached_units,
            direct_units,
            merges,
            map,
            pauses: _,
        } = other;
        lists(&mut self.victims, victims, f);
        for (own, other) in [
            (&mut self.victim_valid_units, victim_valid_units),
            (&mut self.copied_units, copied_units),
            (&mut self.evicted_units, evicted_units),
            (&mut self.grown_bad, grown_bad),
            (&mut self.emergency_victims, emergency_victims),
            (&mut self.refreshed, refreshed),
            (&mut self.cached_units, cached_units),
            (&mut self.direct_units, direct_units),
        ] {
            *own = f(*own, *other);
        }
        self.merges.iter_mut().zip(merges).for_each(|(own, other)| own.each(other, f));
        self.map.each(map, f);
    }
}

impl MergeCounters {
    fn each(&mut self, other: &MergeCounters, f: impl Fn(u64, u64) -> u64) {
        let MergeCounters { merges, copied_units, padded_units, erases } = other;
        *self = MergeCounters {
            merges: f(self.merges, *merges),
            copied_units: f(self.copied_units, *copied_units),
            padded_units: f(self.padded_units, *padded_units),
            erases: f(self.erases, *erases),
        };
    }
}

impl MapCounters {
    fn each(&mut self, other: &MapCounters, f: impl Fn(u64, u64) -> u64 + Copy) {
        let MapCounters { lookups, hits, reads, writes } = other;
        (self.lookups, self.hits) = (f(self.lookups, *lookups), f(self.hits, *hits));
        lists(&mut self.reads, reads, f);
        lists(&mut self.writes, writes, f);
    }
}

fn lists(own: &mut [u64], other: &[u64], f: impl Fn(u64, u64) -> u64) {
    own.iter_mut().zip(other).for_each(|(own, &other)| *own = f(*own, other));
}
