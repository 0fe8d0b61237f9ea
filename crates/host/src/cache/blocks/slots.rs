//! Block backend: the assignment of blocks to slots of the flash.
//!
//! ```text
//!  sectors   [ head ][ records of all slots ][ - ][ slot 0 | slot 1 | ... ][ - ][ copy of the head ]
//!  slots     [ set 0: 512 slots ][ set 1 ] ...      a block lies in the set of its window of 512 blocks
//! ```
//! Slots begin at a multiple of their size, so a drive with mapping units of a block's size stores each block
//! in one unit: it is never half written, and never needs a read before a write. A slot takes four bytes of
//! key and one of flags in host memory; a lookup compares the keys of a set. A clock finds the victim in a
//! set.
//!
//! Invariants: a slot keeps its key, and is not used for another block, while a record on the flash may call
//! it dirty (`RECORDED`) or its record is being rewritten (`CLEARING`). So no two records name one block, and
//! a record never names data of another block.

use crate::cache::config::{CacheConfig, CacheError, Replacement};
use std::collections::BTreeSet;

/// Sectors of the head.
const HEAD_SECTORS: u64 = 8;
/// Sectors of the copy of the head, at the end of the drive.
const COPY_SECTORS: u64 = 1;
/// Bytes of a record: key and state.
pub(in crate::cache) const RECORD_BYTES: usize = 5;
/// Bytes before the records of a sector.
pub(in crate::cache) const RECORDS_HEADER: usize = 32;
/// Minimum number of blocks in a cache.
const BLOCKS_MIN: u64 = 16;

const VACANT: u32 = u32::MAX;

const STATE: u8 = 0b11;
const CLEAN: u8 = 1;
const DIRTY: u8 = 2;
/// The block was used since the clock hand passed.
const USED: u8 = 1 << 2;
/// The slot is listed for a record.
const LISTED: u8 = 1 << 3;
/// The media hold data of this block from after it became dirty, so a record may name it. Older data would
/// bring back data that a bypass or a trim replaced on the backing store.
const SAFE: u8 = 1 << 4;
/// A record on the flash may call the slot dirty.
const RECORDED: u8 = 1 << 5;
/// A record that no longer calls the slot dirty is being written.
const CLEARING: u8 = 1 << 6;
/// The data were on the flash before the flush under way.
const FLUSHING: u8 = 1 << 7;

/// Layout of records and slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cache) struct Layout {
    /// Sectors in a block.
    pub block_sectors: u64,
    pub set_blocks: u32,
    pub sets: u32,
    /// Records in a sector.
    pub per_sector: u32,
    pub record_sectors: u32,
    /// First sector of the first slot.
    pub first_slot: u64,
}

impl Layout {
    pub fn new(config: &CacheConfig, sectors: u64) -> Result<Layout, CacheError> {
        let sector_bytes = u64::from(config.sector_bytes);
        let block_sectors = u64::from(config.block_bytes) / sector_bytes;
        let per_sector = (config.sector_bytes as usize - RECORDS_HEADER) / RECORD_BYTES;
        let room = sectors.saturating_sub(HEAD_SECTORS);
        let first_slot =
            |blocks: u64| (HEAD_SECTORS + blocks.div_ceil(per_sector as u64)).next_multiple_of(block_sectors);
        let fits = |blocks: u64| first_slot(blocks) + blocks * block_sectors + COPY_SECTORS <= sectors;
        let mut blocks = room / block_sectors;
        while blocks > 0 && !fits(blocks) {
            blocks -= (blocks / (8 * per_sector as u64 * block_sectors)).max(1);
        }
        if blocks < BLOCKS_MIN {
            let least = first_slot(BLOCKS_MIN) + BLOCKS_MIN * block_sectors + COPY_SECTORS;
            return Err(CacheError::TooSmall { sectors, least, blocks: BLOCKS_MIN });
        }
        let set_blocks = u64::from(config.set_blocks).min(blocks);
        let sets = (blocks / set_blocks).min(u64::from(u32::MAX / config.set_blocks)) as u32;
        let set_blocks = set_blocks as u32;
        let record_sectors = (sets * set_blocks).div_ceil(per_sector as u32);
        let first_slot = first_slot((sets * set_blocks).into());
        Ok(Layout {
            block_sectors,
            set_blocks,
            sets,
            per_sector: per_sector as u32,
            record_sectors,
            first_slot,
        })
    }

    pub fn slots(&self) -> u32 {
        self.sets * self.set_blocks
    }

    /// Returns the largest number of blocks that keys can distinguish.
    pub fn blocks_max(&self) -> u64 {
        (u64::from(VACANT) / u64::from(self.set_blocks)) * u64::from(self.set_blocks) * u64::from(self.sets)
    }

    /// Returns the first sector of a slot.
    #[inline]
    pub fn slot_lba(&self, slot: u32) -> u64 {
        self.first_slot + u64::from(slot) * self.block_sectors
    }

    /// Returns the drive sector of a record sector.
    pub fn record_lba(&self, sector: u32) -> u64 {
        HEAD_SECTORS + u64::from(sector)
    }

    pub fn record_sector_of(&self, slot: u32) -> u32 {
        slot / self.per_sector
    }

    /// Returns the slots whose records a sector holds.
    pub fn slots_of(&self, sector: u32) -> std::ops::Range<u32> {
        let first = sector * self.per_sector;
        first..(first + self.per_sector).min(self.slots())
    }

    /// Returns the layout as words, for the head. In older caches, whose slots followed the records directly,
    /// the last word was the number of record sectors. It is always smaller than the first slot of the same
    /// sets, so such a cache is refused.
    pub fn words(&self) -> [u32; 5] {
        [self.block_sectors as u32, self.set_blocks, self.sets, self.per_sector, self.first_slot as u32]
    }
}

/// Slots of a cache.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    layout: Layout,
    replacement: Replacement,
    keys: Vec<u32>,
    flags: Vec<u8>,
    /// Clock hand of each set.
    hands: Vec<u32>,
    /// Number of slots whose block is cached.
    cached: u64,
    /// Number of evicted blocks.
    evictions: u64,
    /// Slots to record as dirty once their data are on the media.
    fresh: Vec<u32>,
    /// Slots of the flush under way; after it, those to record as dirty.
    flushing: Vec<u32>,
    /// Slots to record as no longer dirty.
    stale: Vec<u32>,
    /// Record sectors where the flash may hold records of this cache.
    written: Vec<bool>,
    /// Record sectors that cannot be read; the dirty blocks in them are unknown.
    unreadable: BTreeSet<u32>,
}

impl Slots {
    pub fn new(layout: Layout, replacement: Replacement) -> Slots {
        let slots = layout.slots() as usize;
        Slots {
            keys: vec![VACANT; slots],
            flags: vec![0; slots],
            hands: vec![0; layout.sets as usize],
            cached: 0,
            evictions: 0,
            fresh: Vec::new(),
            flushing: Vec::new(),
            stale: Vec::new(),
            written: vec![false; layout.record_sectors as usize],
            unreadable: BTreeSet::new(),
            layout,
            replacement,
        }
    }

    /// Returns the slots whose records a sector holds.
    pub fn slots_of(&self, sector: u32) -> std::ops::Range<u32> {
        self.layout.slots_of(sector)
    }

    pub fn cached(&self) -> u64 {
        self.cached
    }

    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Returns the set and the key of a block.
    #[inline]
    fn place(&self, block: u64) -> (u32, u32) {
        let (set_blocks, sets) = (u64::from(self.layout.set_blocks), u64::from(self.layout.sets));
        let (window, low) = (block / set_blocks, block % set_blocks);
        ((window % sets) as u32, (window / sets * set_blocks + low) as u32)
    }

    /// Returns the block of a slot that has a key.
    fn block_at(&self, slot: u32) -> u64 {
        let (set_blocks, key) = (self.layout.set_blocks, self.keys[slot as usize]);
        let (lap, low) = (key / set_blocks, key % set_blocks);
        let set = slot / set_blocks;
        (u64::from(lap) * u64::from(self.layout.sets) + u64::from(set)) * u64::from(set_blocks)
            + u64::from(low)
    }

    /// Returns the slot with the key of a block, whether or not the block is cached.
    #[inline]
    fn keyed(&self, block: u64) -> Option<u32> {
        let (set, key) = self.place(block);
        let first = (set * self.layout.set_blocks) as usize;
        let keys = &self.keys[first..first + self.layout.set_blocks as usize];
        find(keys, key).map(|at| (first + at) as u32)
    }

    /// Returns the slot of a cached block.
    #[inline]
    pub fn find(&self, block: u64) -> Option<u32> {
        self.keyed(block).filter(|&slot| self.flags[slot as usize] & STATE != 0)
    }

    /// Returns the slot of a cached block, and marks it used.
    #[inline]
    pub fn touch(&mut self, block: u64) -> Option<u32> {
        let slot = self.find(block)?;
        self.flags[slot as usize] |= USED;
        Some(slot)
    }

    /// Returns the slot to write a block to: its own, or one whose clean block is not `taken`; `None` if the
    /// set has none now. The block counts as not cached until [`Slots::set_clean`] or [`Slots::set_dirty`],
    /// unless it is dirty.
    pub fn take(&mut self, block: u64, taken: impl Fn(u64) -> bool) -> Option<u32> {
        if let Some(slot) = self.keyed(block) {
            if self.flags[slot as usize] & STATE == CLEAN {
                self.set_state(slot, 0);
            }
            return Some(slot);
        }
        let (set, key) = self.place(block);
        let (first, size) = (set * self.layout.set_blocks, self.layout.set_blocks);
        // The hand goes round twice: on the first round, every block may be marked used.
        for _ in 0..2 * size {
            let hand = self.hands[set as usize];
            self.hands[set as usize] = if hand + 1 == size { 0 } else { hand + 1 };
            let slot = first + hand;
            let flags = self.flags[slot as usize];
            if flags & (RECORDED | CLEARING) != 0 || flags & STATE == DIRTY {
                continue;
            }
            if flags & USED != 0 && self.replacement == Replacement::Clock {
                self.flags[slot as usize] &= !USED;
                continue;
            }
            if self.keys[slot as usize] != VACANT && taken(self.block_at(slot)) {
                continue;
            }
            self.evictions += u64::from(flags & STATE == CLEAN);
            self.set_state(slot, 0);
            // A listed slot stays listed until the list is processed.
            self.flags[slot as usize] &= LISTED;
            self.keys[slot as usize] = key;
            return Some(slot);
        }
        None
    }

    fn set_state(&mut self, slot: u32, state: u8) {
        let flags = &mut self.flags[slot as usize];
        let (was, is) = (*flags & STATE != 0, state != 0);
        *flags = *flags & !STATE | state;
        self.cached = self.cached + u64::from(is) - u64::from(was);
    }

    /// Marks a slot clean: its data are on the flash and on the backing store. The clock passes it once
    /// before it is evicted.
    pub fn set_clean(&mut self, slot: u32) {
        self.set_state(slot, CLEAN);
        self.flags[slot as usize] |= USED;
    }

    /// Marks a slot dirty: its data are on the flash alone; `safe` if they are on the media.
    pub fn set_dirty(&mut self, slot: u32, safe: bool) {
        self.set_state(slot, DIRTY);
        let flags = &mut self.flags[slot as usize];
        *flags |= USED;
        if safe {
            // The caller writes the record.
            *flags |= SAFE;
        } else if *flags & (SAFE | LISTED) == 0 {
            *flags |= LISTED;
            self.fresh.push(slot);
        }
    }

    /// Marks a block clean: its data are on the backing store as well. Returns whether it was dirty.
    pub fn cleaned(&mut self, block: u64) -> bool {
        let Some(slot) = self.find(block) else { return false };
        let was_dirty = self.flags[slot as usize] & STATE == DIRTY;
        self.set_state(slot, CLEAN);
        self.outdate(slot);
        was_dirty
    }

    /// Marks a block clean if no record can be written; the record on the flash still calls it dirty. Returns whether it was
    /// dirty.
    pub fn written_back(&mut self, block: u64) -> bool {
        let Some(slot) = self.find(block) else { return false };
        let was_dirty = self.flags[slot as usize] & STATE == DIRTY;
        self.set_state(slot, CLEAN);
        was_dirty
    }

    /// Removes a block from the cache. Returns whether it was dirty. Its slot keeps the key until another block needs the slot: other
    /// requests may still be reading the slot, and only the lock on the key's block keeps it from being written with data of another.
    pub fn forget(&mut self, block: u64) -> bool {
        let Some(slot) = self.keyed(block) else { return false };
        let was_dirty = self.flags[slot as usize] & STATE == DIRTY;
        self.set_state(slot, 0);
        self.outdate(slot);
        was_dirty
    }

    fn outdate(&mut self, slot: u32) {
        self.flags[slot as usize] &= !(SAFE | FLUSHING);
        if self.flags[slot as usize] & RECORDED != 0 {
            self.stale.push(slot);
        }
    }

    /// Begins a flush: it takes the listed slots.
    pub fn begin_flush(&mut self) {
        assert!(self.flushing.is_empty(), "the slots of the last flush are recorded");
        std::mem::swap(&mut self.fresh, &mut self.flushing);
        for &slot in &self.flushing {
            let flags = &mut self.flags[slot as usize];
            *flags &= !LISTED;
            // A slot may have been listed for an earlier block; the write of its present one is under way, and this flush may miss it.
            *flags |= if *flags & STATE == DIRTY { FLUSHING } else { 0 };
        }
    }

    /// Ends a flush. Its slots are recorded if their data are now on the media, they are still dirty, and they were
    /// not reused for another block. After a failed flush they are listed again.
    pub fn end_flush(&mut self, done: bool) {
        let Slots { flushing, fresh, flags, .. } = self;
        flushing.retain(|&slot| {
            let flags = &mut flags[slot as usize];
            let counts = *flags & FLUSHING != 0 && *flags & STATE == DIRTY;
            *flags &= !FLUSHING;
            if counts && done {
                *flags |= SAFE;
            } else if counts && *flags & LISTED == 0 {
                *flags |= LISTED;
                fresh.push(slot);
            }
            counts && done
        });
    }

    /// Returns the record sectors of the slots to record, with repetitions; they leave the lists.
    pub fn take_outdated(&mut self) -> impl Iterator<Item = u32> {
        let layout = &self.layout;
        let slots = self.flushing.drain(..).chain(self.stale.drain(..));
        slots.map(|slot| layout.record_sector_of(slot))
    }

    /// Reports whether a slot is dirty and no record calls it so.
    pub fn is_unrecorded(&self, slot: u32) -> bool {
        let flags = self.flags[slot as usize];
        flags & STATE == DIRTY && flags & RECORDED == 0
    }

    /// Notes that the flash has, or gets, records in this sector.
    pub fn is_written(&mut self, sector: u32) {
        self.written[sector as usize] = true;
    }

    /// Returns the next record sectors from `from` on that a stop has to write, at most `most`. Sectors
    /// without content, both there and here, are skipped.
    pub fn next_to_record(&self, from: u32, most: u32) -> std::ops::Range<u32> {
        let says_something = |&sector: &u32| {
            let slots = self.layout.slots_of(sector);
            let flags = &self.flags[slots.start as usize..slots.end as usize];
            self.written[sector as usize] || flags.iter().any(|flags| flags & STATE != 0)
        };
        let all = self.layout.record_sectors;
        let first = (from..all).find(says_something).unwrap_or(all);
        let count = (first..all.min(first + most)).take_while(says_something).count() as u32;
        first..first + count
    }

    /// Returns the key and state to record for a slot; the flash may have this record from now on.
    pub fn record(&mut self, slot: u32) -> (u32, u8) {
        let flags = &mut self.flags[slot as usize];
        let state = *flags & STATE;
        let says_dirty = state == DIRTY && *flags & SAFE != 0;
        if says_dirty {
            *flags |= RECORDED;
        } else if *flags & RECORDED != 0 {
            *flags = *flags & !RECORDED | CLEARING;
        }
        match (says_dirty, state) {
            (true, _) => (self.keys[slot as usize], DIRTY),
            (false, CLEAN) => (self.keys[slot as usize], CLEAN),
            _ => (VACANT, 0),
        }
    }

    /// Notes the result of a write of a slot's record.
    pub fn recorded(&mut self, slot: u32, written: bool) {
        let flags = &mut self.flags[slot as usize];
        if *flags & CLEARING == 0 {
            return;
        }
        *flags &= !CLEARING;
        // A request may be writing to the slot, so its key stays until another block needs the slot.
        if !written {
            *flags |= RECORDED;
            self.stale.push(slot);
        }
    }

    /// Loads a slot from a record. Returns its block, and whether it is dirty; `None` if the record
    /// contradicts another.
    pub fn load(&mut self, slot: u32, key: u32, state: u8, blocks: u64) -> Option<(u64, bool)> {
        self.keys[slot as usize] = key;
        let block = self.block_at(slot);
        let is_dirty = state == DIRTY;
        if block >= blocks || self.keyed(block) != Some(slot) || !(is_dirty || state == CLEAN) {
            return None;
        }
        self.set_state(slot, state);
        self.flags[slot as usize] |= if is_dirty { SAFE | RECORDED } else { 0 };
        Some((block, is_dirty))
    }

    /// Notes a record sector that cannot be read.
    pub fn doubt(&mut self, sector: u32) {
        self.unreadable.insert(sector);
    }

    /// Returns the number of record sectors that could not be read.
    pub fn unreadable(&self) -> u64 {
        self.unreadable.len() as u64
    }

    /// Reports whether a block may be dirty in a slot whose record could not be read.
    pub fn is_doubtful(&self, block: u64) -> bool {
        let (set, _) = self.place(block);
        let first = self.layout.record_sector_of(set * self.layout.set_blocks);
        let last = self.layout.record_sector_of((set + 1) * self.layout.set_blocks - 1);
        self.unreadable.range(first..=last).next().is_some() && self.find(block).is_none()
    }

    /// Reports whether a record calls its slot dirty.
    pub fn says_dirty(state: u8) -> bool {
        state == DIRTY
    }

    /// Returns the bytes of host memory, without the byte for each record sector.
    pub fn memory_bytes(&self) -> u64 {
        let lists = self.fresh.capacity() + self.stale.capacity() + self.hands.capacity();
        (self.keys.capacity() * 4 + self.flags.capacity() + lists * 4) as u64
    }

    /// Checks the invariants; panics if one is broken. `dirty` reports whether a block is dirty.
    pub fn check(&self, dirty: impl Fn(u64) -> bool) {
        let (mut cached, mut dirties) = (0, 0u64);
        for slot in 0..self.layout.slots() {
            let (key, flags) = (self.keys[slot as usize], self.flags[slot as usize]);
            if key == VACANT {
                assert_eq!(flags & (STATE | RECORDED | CLEARING), 0, "slot {slot} has no block");
                continue;
            }
            let block = self.block_at(slot);
            assert_eq!(self.keyed(block), Some(slot), "block {block} lies in one slot");
            assert_eq!(flags & STATE == DIRTY, dirty(block), "block {block} of slot {slot}");
            cached += u64::from(flags & STATE != 0);
            dirties += u64::from(flags & STATE == DIRTY);
            let is_known = flags & (LISTED | FLUSHING | SAFE) != 0 || flags & STATE != DIRTY;
            assert!(is_known, "slot {slot} is dirty, and nothing will say so");
        }
        assert_eq!(cached, self.cached, "{dirties} of them dirty");
    }
}

/// Returns the index of a key; it compares many keys at once.
#[inline]
fn find(keys: &[u32], key: u32) -> Option<usize> {
    const LANES: usize = 32;
    let mut chunks = keys.chunks_exact(LANES);
    let mut at = 0;
    for chunk in chunks.by_ref() {
        let hit = chunk.iter().fold(false, |hit, &other| hit | (other == key));
        if hit {
            return chunk.iter().position(|&other| other == key).map(|lane| at + lane);
        }
        at += LANES;
    }
    chunks.remainder().iter().position(|&other| other == key).map(|lane| at + lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_never_lies_across_two_units_of_its_size() {
        for sector_bytes in [512, 4096] {
            for block_bytes in [4096, 16_384] {
                let config =
                    CacheConfig { sector_bytes, block_bytes, set_blocks: 64, ..CacheConfig::default() };
                for sectors in (600..40_000).step_by(37) {
                    let Ok(layout) = Layout::new(&config, sectors) else { continue };
                    let records = HEAD_SECTORS + u64::from(layout.record_sectors);
                    let end = layout.slot_lba(layout.slots());
                    assert_eq!(layout.slot_lba(1) % layout.block_sectors, 0, "{sectors} sectors");
                    assert!(records <= layout.slot_lba(0) && end < sectors, "{sectors} sectors");
                    assert!(layout.slot_lba(0) < records + layout.block_sectors, "{sectors} sectors");
                    // An older cache had its slots directly after the records.
                    assert_ne!(layout.words()[4], layout.record_sectors);
                }
            }
        }
    }
}
