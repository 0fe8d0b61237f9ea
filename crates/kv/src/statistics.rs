//! Counters of the cache.

use pellucid_flash::{Figure, Pauses, SimTime};

/// Counters of a cache; all except the gauges at the end only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvStatistics {
    /// Gets answered.
    pub gets: u64,
    /// Gets that hit.
    pub hits: u64,
    /// Hits served from a write buffer.
    pub hits_in_memory: u64,
    /// Misses: the key is absent.
    pub misses_absent: u64,
    /// Misses: the item had expired.
    pub misses_expired: u64,
    /// Misses: the flash returned no data, or the item's checksum was wrong.
    pub misses_damaged: u64,
    /// Misses: another key with the same hash was there.
    pub misses_collided: u64,
    /// Stores that stored something.
    pub sets: u64,
    /// Stores refused by their condition.
    pub sets_refused: u64,
    /// Items removed by deletes, and by refused sets that remove the item they were to replace.
    pub deletes: u64,
    /// Touches that found an item.
    pub touches: u64,
    /// Increments and decrements that found a number.
    pub arithmetic: u64,
    /// Calls of flush_all.
    pub flushes: u64,
    /// Bytes of keys and values stored by clients.
    pub set_bytes: u64,
    /// Valid items dropped to make space.
    pub evicted: u64,
    /// Items dropped because they had expired.
    pub expired: u64,
    /// Items lost to failed flash.
    pub lost: u64,
    /// Slots reclaimed: of obsolete, evicted and rewritten items.
    pub reclaimed: u64,
    /// Items of victims that were rewritten.
    pub copied: u64,
    /// Their bytes, headers included.
    pub copied_bytes: u64,
    /// Evicted slabs, by the time from choice to release.
    pub pauses: Pauses,
    /// Slabs evicted.
    pub slabs_evicted: u64,
    /// Slabs written.
    pub slabs_written: u64,
    /// Bytes written to the drive.
    pub flash_written_bytes: u64,
    /// Bytes read from the drive.
    pub flash_read_bytes: u64,
    /// Blocks erased by the cache, or by the library on its behalf.
    pub erases: u64,
    /// Writes and erases that failed.
    pub failures: u64,
    /// Blocks retired for good: the drive reports them as bad.
    pub retired_blocks: u64,
    /// Parts of the flash that failed and rest: LUNs, channels, blocks that could not be erased. They are retried.
    pub resting_parts: u64,
    /// True if stores are accepted now.
    pub takes_stores: bool,
    /// Stores that had to wait for a write buffer.
    pub waits: u64,
    /// Current number of items.
    pub items: u64,
    /// Current bytes of the slots of valid items.
    pub item_bytes: u64,
    /// Current memory of the index.
    pub index_bytes: u64,
    /// Current number of slabs with items.
    pub slabs: u64,
    /// Bytes of a slab.
    pub slab_bytes: u64,
    /// Slabs of flash in all.
    pub slabs_total: u64,
    /// Slabs that can be written at once.
    pub slabs_free: u64,
    /// Low and high watermark, where eviction starts and stops.
    pub watermarks: [u64; 2],
}

/// Counters of one slab class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStatistics {
    /// Bytes of a slot.
    pub slot_bytes: u32,
    /// Slots of a slab.
    pub slots_per_slab: u32,
    /// Current number of items.
    pub items: u64,
    /// Current number of slabs.
    pub slabs: u64,
    /// Hits.
    pub hits: u64,
    /// Stores.
    pub sets: u64,
    /// Valid items dropped to make space.
    pub evicted: u64,
}

/// Counters that only grow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    counted: KvStatistics,
}

impl Counters {
    /// Increments a counter.
    #[inline]
    pub fn count(&mut self, counter: impl FnOnce(&mut KvStatistics) -> &mut u64) {
        self.add(counter, 1);
    }

    /// Increases a counter.
    #[inline]
    pub fn add(&mut self, counter: impl FnOnce(&mut KvStatistics) -> &mut u64, some: u64) {
        *counter(&mut self.counted) += some;
    }

    /// Records the eviction of a slab from `since` to `now`.
    pub fn pause(&mut self, since: SimTime, now: SimTime) {
        self.counted.pauses.record(now.since(since), now);
    }

    /// The counters, without gauges.
    pub fn get(&self) -> &KvStatistics {
        &self.counted
    }
}

/// Names all counters; `more` are the engine's.
pub(crate) fn figures(s: &KvStatistics, more: Vec<Figure>) -> Vec<Figure> {
    let mut list = counters(s);
    list.extend(flash_state(s));
    list.push(Figure::count("kv_waits", "Stores that waited for a write buffer.", s.waits));
    list.extend(content(s));
    list.extend(s.pauses.figures([
        "kv_gc_pauses",
        "kv_gc_pause_sum_ns",
        "kv_gc_pause_p50_ns",
        "kv_gc_pause_p99_ns",
        "kv_gc_pause_max_ns",
    ]));
    list.extend(more);
    list
}

/// Events that were counted.
fn counters(s: &KvStatistics) -> Vec<Figure> {
    let count = Figure::count;
    vec![
        count("kv_gets", "Gets answered.", s.gets),
        count("kv_hits", "Gets that found an item.", s.hits),
        count("kv_hits_in_memory", "Hits served from a write buffer.", s.hits_in_memory),
        count("kv_misses_absent", "Gets of keys that the index does not have.", s.misses_absent),
        count("kv_misses_expired", "Gets of items that had expired.", s.misses_expired),
        count(
            "kv_misses_damaged",
            "Gets of items that flash did not return as they were written.",
            s.misses_damaged,
        ),
        count("kv_misses_collided", "Gets of keys whose hash is another key's.", s.misses_collided),
        count("kv_sets", "Stores that stored something.", s.sets),
        count("kv_sets_refused", "Stores whose condition did not hold.", s.sets_refused),
        count("kv_deletes", "Items removed by deletes, and by refused sets.", s.deletes),
        count("kv_touches", "Touches that found an item.", s.touches),
        count("kv_arithmetic", "Increments and decrements that found a number.", s.arithmetic),
        count("kv_flushes", "Calls of flush_all.", s.flushes),
        Figure::bytes("kv_set_bytes", "Bytes of keys and values stored.", s.set_bytes),
        count("kv_evicted", "Valid items dropped to make room.", s.evicted),
        count("kv_expired", "Items dropped because they had expired.", s.expired),
        count("kv_lost", "Items lost to flash that failed.", s.lost),
        count("kv_reclaimed_slots", "Slots reclaimed.", s.reclaimed),
        count("kv_copied", "Items of victims that were written again.", s.copied),
        Figure::bytes("kv_copied_bytes", "Bytes of these items.", s.copied_bytes),
        count("kv_slabs_evicted", "Slabs evicted.", s.slabs_evicted),
        count("kv_slabs_written", "Slabs written to flash.", s.slabs_written),
        Figure::bytes("kv_flash_written_bytes", "Bytes written to the drive.", s.flash_written_bytes),
        Figure::bytes("kv_flash_read_bytes", "Bytes read from the drive.", s.flash_read_bytes),
        count("kv_erases", "Blocks erased by the cache or, for it, by the library.", s.erases),
        count("kv_failures", "Writes and erases of flash that failed.", s.failures),
    ]
}

/// Gauges of the flash: blocks out of use, and whether stores are accepted.
fn flash_state(s: &KvStatistics) -> Vec<Figure> {
    let count = Figure::count;
    vec![
        count("kv_retired_blocks", "Blocks out of use for good.", s.retired_blocks).gauge(),
        count(
            "kv_resting_parts",
            "Parts of the flash that failed and are tried again later.",
            s.resting_parts,
        )
        .gauge(),
        count(
            "kv_takes_stores",
            "1 while stores are taken, 0 while the flash takes no writes.",
            s.takes_stores.into(),
        )
        .gauge(),
    ]
}

/// Gauges of the content: items, index, slabs, and the limits of eviction.
fn content(s: &KvStatistics) -> Vec<Figure> {
    let count = Figure::count;
    vec![
        count("kv_items", "Items now.", s.items).gauge(),
        Figure::bytes("kv_item_bytes", "Bytes of the slots of these items.", s.item_bytes).gauge(),
        Figure::bytes("kv_index_bytes", "Memory of the index.", s.index_bytes).gauge(),
        count(
            "kv_index_bytes_per_item",
            "Memory of the index for each item.",
            s.index_bytes / s.items.max(1),
        )
        .gauge(),
        count("kv_slabs", "Slabs that hold items.", s.slabs).gauge(),
        count("kv_slabs_total", "Slabs of flash.", s.slabs_total).gauge(),
        count("kv_slabs_free", "Slabs of flash that can be written.", s.slabs_free).gauge(),
        count("kv_low_watermark", "Free slabs below which eviction does not wait.", s.watermarks[0]).gauge(),
        count("kv_high_watermark", "Free slabs up to which obsolete slabs are reclaimed.", s.watermarks[1])
            .gauge(),
    ]
}
