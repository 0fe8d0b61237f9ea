//! The report on translations: cached mapping table, merges of log blocks, SLC cache.
//!
//! Counts are of the measured time, and arise in the translation; here they only get names.

use pellucid_flash::MapReason;
use pellucid_ftl::{MergeCounters, MergeKind};
use serde::Serialize;

/// Figures of the cached mapping table of a map in flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MapCache {
    /// Entries that fit.
    pub entries: u64,
    /// Entries that were looked up for reads and writes.
    pub lookups: u64,
    /// Share of `lookups` that hit; absent without look-ups.
    pub hit_ratio: Option<f64>,
    /// Translation pages read because an entry was not cached.
    pub lookup_reads: u64,
    /// Translation pages read to be merged with what is newer, by why they were written.
    pub merge_reads: MapPages,
    /// Translation pages programmed.
    pub writes: MapPages,
}

/// Translation pages by why they were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MapPages {
    /// A dirty entry left the table.
    pub eviction: u64,
    /// GC moved pages whose entries were not cached, or the translation page itself.
    pub gc: u64,
    /// A flush or a checkpoint.
    pub flush: u64,
}

impl MapPages {
    /// Converts counts by [`MapReason`].
    pub fn new(counts: &[u64; MapReason::COUNT]) -> MapPages {
        let of = |reason: MapReason| counts[reason as usize];
        MapPages { eviction: of(MapReason::Eviction), gc: of(MapReason::Gc), flush: of(MapReason::Flush) }
    }

    /// The counts with their names.
    pub fn named(&self) -> [(&'static str, u64); 3] {
        [("eviction", self.eviction), ("GC", self.gc), ("flush", self.flush)]
    }
}

/// Merges of log blocks with data blocks, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Merges {
    /// A log block became the data block.
    pub switch: MergesOfKind,
    /// Partial merges: the missing pages were appended to a log block, which then became the data
    /// block.
    pub partial: MergesOfKind,
    /// Everything was copied to a free block.
    pub full: MergesOfKind,
}

/// Merges of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MergesOfKind {
    /// Merges that have ended.
    pub merges: u64,
    /// Units copied.
    pub copied_units: u64,
    /// Units that were programmed empty, as superpages are programmed in order.
    pub padded_units: u64,
    /// Blocks given up and erased.
    pub erases: u64,
}

impl Merges {
    /// Converts counts by [`MergeKind`].
    pub fn new(counts: &[MergeCounters; MergeKind::COUNT]) -> Merges {
        let of = |kind: MergeKind| {
            let MergeCounters { merges, copied_units, padded_units, erases } = counts[kind as usize];
            MergesOfKind { merges, copied_units, padded_units, erases }
        };
        Merges { switch: of(MergeKind::Switch), partial: of(MergeKind::Partial), full: of(MergeKind::Full) }
    }

    /// The kinds with their names.
    pub fn named(&self) -> [(&'static str, MergesOfKind); MergeKind::COUNT] {
        [("switch", self.switch), ("partial", self.partial), ("full", self.full)]
    }
}

/// Traffic through the SLC cache, and past it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SlcCache {
    /// Host bytes programmed in the cache first.
    pub host_bytes: u64,
    /// Host bytes programmed elsewhere at once, because the cache was full.
    pub direct_bytes: u64,
    /// Bytes moved from the cache to blocks of all bits.
    pub folded_bytes: u64,
    /// Blocks of the cache that were emptied and erased.
    pub folded_blocks: u64,
    /// Blocks of the cache.
    pub blocks: u64,
    /// Blocks that were not free at the end.
    pub used_blocks: u64,
}
