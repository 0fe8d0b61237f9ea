//! What the cache counts.

/// Counters of a cache; all but the gauges at the end only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvStatistics {
    /// Gets answered.
    pub gets: u64,
    /// Of these, hits.
    pub hits: u64,
    /// Of the hits, those served from a write buffer.
    pub hits_in_memory: u64,
    /// Misses: the index has no such key.
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
    /// Deletes that found an item.
    pub deletes: u64,
    /// Touches that found an item.
    pub touches: u64,
    /// Increments and decrements that found a number.
    pub arithmetic: u64,
    /// Calls of flush_all.
    pub flushes: u64,
    /// Bytes of keys and values stored by clients.
    pub set_bytes: u64,
    /// Valid items dropped to make room.
    pub evicted: u64,
    /// Items dropped because they had expired.
    pub expired: u64,
    /// Items lost to flash that failed.
    pub lost: u64,
    /// Obsolete items whose space was reclaimed.
    pub reclaimed: u64,
    /// Items of victims that were written again.
    pub copied: u64,
    /// Their bytes, headers included.
    pub copied_bytes: u64,
    /// Slabs evicted.
    pub slabs_evicted: u64,
    /// Slabs written.
    pub slabs_written: u64,
    /// Bytes written to the drive.
    pub flash_written_bytes: u64,
    /// Bytes read from the drive.
    pub flash_read_bytes: u64,
    /// Blocks erased by the cache or, for it, by the library.
    pub erases: u64,
    /// Writes and erases that failed.
    pub failures: u64,
    /// Blocks out of use.
    pub retired_blocks: u64,
    /// Stores that had to wait for a write buffer.
    pub waits: u64,
    /// Items now.
    pub items: u64,
    /// Bytes of valid items now, headers included.
    pub item_bytes: u64,
    /// Memory of the index now.
    pub index_bytes: u64,
    /// Slabs that hold items now.
    pub slabs: u64,
    /// Slabs of flash in all.
    pub slabs_total: u64,
    /// Slabs that can be written at once.
    pub slabs_free: u64,
    /// Low and high watermark: eviction begins and ends there.
    pub watermarks: [u64; 2],
}

/// Counters of one slab class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStatistics {
    /// Bytes of a slot.
    pub slot_bytes: u32,
    /// Slots of a slab.
    pub slots_per_slab: u32,
    /// Items now.
    pub items: u64,
    /// Slabs now.
    pub slabs: u64,
    /// Hits.
    pub hits: u64,
    /// Stores.
    pub sets: u64,
    /// Valid items dropped to make room.
    pub evicted: u64,
}
