//! The report on translations: cached mapping table, merges of log blocks, SLC cache.
//!
//! The translation counts over the measured time; this module names the counts.

use pellucid_flash::MapReason;
use pellucid_ftl::{MergeCounters, MergeKind};
use serde::Serialize;

/// Figures of the cached mapping table of a map in flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MapCache {
    /// Capacity in entries.
    pub entries: u64,
    /// Entries looked up for reads and writes.
    pub lookups: u64,
    /// Share of `lookups` that hit; absent without look-ups.
    pub hit_ratio: Option<f64>,
    /// Translation pages read because an entry was not cached.
    pub lookup_reads: u64,
    /// Translation pages read to be merged with newer entries, by why they were written.
    pub merge_reads: MapPages,
    /// Translation pages programmed.
    pub writes: MapPages,
}

/// Translation pages by why they were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MapPages {
    /// For a dirty entry evicted from the table.
    pub eviction: u64,
    /// For GC, which moved pages whose entries were not cached, or the translation page itself.
    pub gc: u64,
    /// For a flush or a checkpoint.
    pub flush: u64,
}

impl MapPages {
    /// Takes counts by [`MapReason`].
    pub fn new(counts: &[u64; MapReason::COUNT]) -> MapPages {
        let of = |reason: MapReason| counts[reason as usize];
        MapPages { eviction: of(MapReason::Eviction), gc: of(MapReason::Gc), flush: of(MapReason::Flush) }
    }

    /// Returns the counts with their names.
    pub fn named(&self) -> [(&'static str, u64); 3] {
        [("eviction", self.eviction), ("GC", self.gc), ("flush", self.flush)]
    }
}

/// Merges of log blocks with data blocks, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Merges {
    /// Switch merges: a log block became the data block.
    pub switch: MergesOfKind,
    /// Partial merges: the missing pages were appended to a log block, which then became the data block.
    pub partial: MergesOfKind,
    /// Full merges: everything was copied to a free block.
    pub full: MergesOfKind,
}

/// Merges of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MergesOfKind {
    /// Merges completed.
    pub merges: u64,
    /// Units copied.
    pub copied_units: u64,
    /// Units programmed empty, because superpages are programmed in order.
    pub padded_units: u64,
    /// Blocks released and erased.
    pub erases: u64,
}

impl Merges {
    /// Takes counts by [`MergeKind`].
    pub fn new(counts: &[MergeCounters; MergeKind::COUNT]) -> Merges {
        let of = |kind: MergeKind| {
            let MergeCounters { merges, copied_units, padded_units, erases } = counts[kind as usize];
            MergesOfKind { merges, copied_units, padded_units, erases }
        };
        Merges { switch: of(MergeKind::Switch), partial: of(MergeKind::Partial), full: of(MergeKind::Full) }
    }

    /// Returns the kinds with their names.
    pub fn named(&self) -> [(&'static str, MergesOfKind); MergeKind::COUNT] {
        [("switch", self.switch), ("partial", self.partial), ("full", self.full)]
    }
}

/// Traffic through the SLC cache, and past it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SlcCache {
    /// Host bytes programmed in the cache first.
    pub host_bytes: u64,
    /// Host bytes programmed past the cache because it was full.
    pub direct_bytes: u64,
    /// Bytes moved from the cache to blocks in their native mode.
    pub folded_bytes: u64,
    /// Cache blocks emptied and erased.
    pub folded_blocks: u64,
    /// Blocks of the cache.
    pub blocks: u64,
    /// Cache blocks in use at the end.
    pub used_blocks: u64,
}
