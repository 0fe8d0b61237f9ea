//! Counters of translation added and subtracted: over namespaces, and over a time.

use crate::{FtlCounters, MapCounters, MergeCounters};

impl FtlCounters {
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
