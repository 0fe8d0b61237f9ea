//! Block backend: which block lies in which slot of the flash.
//!
//! ```text
//!  sectors   [ head ][ records of all slots ][ - ][ slot 0 | slot 1 | ... ]
//!  slots     [ set 0: 512 slots ][ set 1 ] ...      a block lies in the set of its window of 512 blocks
//! ```
//! Slots begin at a multiple of their size, so that a drive that maps units of a block's size has each block in one unit: it is never half
//! written, and never read to be written. A slot has four bytes of key and one of flags here, nothing else; a lookup compares the keys of a set. The victim in a set is found by
//! a clock.
//!
//! Invariants: a slot that a record on the flash may call dirty (`RECORDED`), or whose record is being rewritten (`CLEARING`), keeps its
//! key and is not used for another block. So no two records name one block, and a record never names data of another block.

use super::config::{CacheConfig, CacheError, Replacement};

/// Sectors of the head.
const HEAD_SECTORS: u64 = 8;
/// Bytes of a record: key and state.
pub(super) const RECORD_BYTES: usize = 5;
/// Bytes before the records of a sector.
pub(super) const RECORDS_HEADER: usize = 32;
/// A cache has at least so many blocks.
const BLOCKS_MIN: u64 = 16;

const VACANT: u32 = u32::MAX;

const STATE: u8 = 0b11;
const CLEAN: u8 = 1;
const DIRTY: u8 = 2;
/// Used since the clock's hand passed.
const USED: u8 = 1 << 2;
/// Its record is to be written.
const LISTED: u8 = 1 << 3;
/// The media surely hold data of this block from since it became dirty: a record may name it. Older data would bring back what a bypass or
/// a trim replaced on the backing store.
const SAFE: u8 = 1 << 4;
/// A record on the flash may say that it is dirty.
const RECORDED: u8 = 1 << 5;
/// A record that says so no more is being written.
const CLEARING: u8 = 1 << 6;
/// Its data were on the flash before a flush that is under way.
const FLUSHING: u8 = 1 << 7;

/// Where records and slots lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Sectors of a block.
    pub block_sectors: u64,
    pub set_blocks: u32,
    pub sets: u32,
    /// Records of a sector.
    pub per_sector: u32,
    pub record_sectors: u32,
    /// Where the first slot lies.
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
        let fits = |blocks: u64| first_slot(blocks) + blocks * block_sectors <= sectors;
        let mut blocks = room / block_sectors;
        while blocks > 0 && !fits(blocks) {
            blocks -= (blocks / (8 * per_sector as u64 * block_sectors)).max(1);
        }
        if blocks < BLOCKS_MIN {
            let least = first_slot(BLOCKS_MIN) + BLOCKS_MIN * block_sectors;
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

    /// First sector of a slot.
    #[inline]
    pub fn slot_lba(&self, slot: u32) -> u64 {
        self.first_slot + u64::from(slot) * self.block_sectors
    }

    /// The sector of the drive that holds records.
    pub fn record_lba(&self, sector: u32) -> u64 {
        HEAD_SECTORS + u64::from(sector)
    }

    pub fn record_sector_of(&self, slot: u32) -> u32 {
        slot / self.per_sector
    }

    /// Slots whose records a sector holds.
    pub fn slots_of(&self, sector: u32) -> std::ops::Range<u32> {
        let first = sector * self.per_sector;
        first..(first + self.per_sector).min(self.slots())
    }

    /// What of it the head keeps. The last word was the number of record sectors while slots followed them at once: always smaller than
    /// where slots of the same sets begin, so such a cache is refused.
    pub fn words(&self) -> [u32; 5] {
        [self.block_sectors as u32, self.set_blocks, self.sets, self.per_sector, self.first_slot as u32]
    }
}

/// The slots of a cache.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    pub layout: Layout,
    replacement: Replacement,
    keys: Vec<u32>,
    flags: Vec<u8>,
    /// Of each set: where its clock stands.
    hands: Vec<u32>,
    /// Slots whose block is cached.
    cached: u64,
    /// Blocks that made room for another.
    pub evictions: u64,
    /// Slots to be recorded as dirty, once their data are on the media.
    pub fresh: Vec<u32>,
    /// Slots to be recorded as not dirty any more.
    pub stale: Vec<u32>,
    /// Of each sector of records: the flash may hold records of this cache there.
    written: Vec<bool>,
    /// Sectors of records that cannot be read: no more is known of what they called dirty.
    unreadable: Vec<u32>,
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
            stale: Vec::new(),
            written: vec![false; layout.record_sectors as usize],
            unreadable: Vec::new(),
            layout,
            replacement,
        }
    }

    pub fn cached(&self) -> u64 {
        self.cached
    }

    /// Set and key of a block.
    #[inline]
    fn place(&self, block: u64) -> (u32, u32) {
        let (set_blocks, sets) = (u64::from(self.layout.set_blocks), u64::from(self.layout.sets));
        let (window, low) = (block / set_blocks, block % set_blocks);
        ((window % sets) as u32, (window / sets * set_blocks + low) as u32)
    }

    /// The block of a slot that has a key.
    fn block_at(&self, slot: u32) -> u64 {
        let (set_blocks, key) = (self.layout.set_blocks, self.keys[slot as usize]);
        let (lap, low) = (key / set_blocks, key % set_blocks);
        let set = slot / set_blocks;
        (u64::from(lap) * u64::from(self.layout.sets) + u64::from(set)) * u64::from(set_blocks)
            + u64::from(low)
    }

    /// The largest number of blocks that keys can tell apart.
    pub fn blocks_max(layout: &Layout) -> u64 {
        (u64::from(VACANT) / u64::from(layout.set_blocks))
            * u64::from(layout.set_blocks)
            * u64::from(layout.sets)
    }

    /// The slot that has the key of a block, whether the block is cached or not.
    #[inline]
    fn keyed(&self, block: u64) -> Option<u32> {
        let (set, key) = self.place(block);
        let first = (set * self.layout.set_blocks) as usize;
        let keys = &self.keys[first..first + self.layout.set_blocks as usize];
        find(keys, key).map(|at| (first + at) as u32)
    }

    /// The slot of a cached block.
    #[inline]
    pub fn find(&self, block: u64) -> Option<u32> {
        self.keyed(block).filter(|&slot| self.flags[slot as usize] & STATE != 0)
    }

    /// The slot of a cached block that is used now.
    #[inline]
    pub fn touch(&mut self, block: u64) -> Option<u32> {
        let slot = self.find(block)?;
        self.flags[slot as usize] |= USED;
        Some(slot)
    }

    /// The slot that data of a block are to be written to: its own, or one of a clean block that is not `taken`. `None`: its set has
    /// none now. The block counts as not cached until [`Slots::set_clean`] or [`Slots::set_dirty`], unless it is dirty.
    pub fn take(&mut self, block: u64, taken: impl Fn(u64) -> bool) -> Option<u32> {
        if let Some(slot) = self.keyed(block) {
            if self.flags[slot as usize] & STATE == CLEAN {
                self.set_state(slot, 0);
            }
            return Some(slot);
        }
        let (set, key) = self.place(block);
        let (first, size) = (set * self.layout.set_blocks, self.layout.set_blocks);
        // Twice round: the first time it may find nothing but blocks that were used.
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
            // What is listed stays so until it is looked at.
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

    /// Its data are on the flash and on the backing store. The clock passes it once before it goes.
    pub fn set_clean(&mut self, slot: u32) {
        self.set_state(slot, CLEAN);
        self.flags[slot as usize] |= USED;
    }

    /// Its data are on the flash alone; `safe`: they are on its media.
    pub fn set_dirty(&mut self, slot: u32, safe: bool) {
        self.set_state(slot, DIRTY);
        let flags = &mut self.flags[slot as usize];
        *flags |= USED;
        if safe {
            // The caller has the record written.
            *flags |= SAFE;
        } else if *flags & (SAFE | LISTED) == 0 {
            *flags |= LISTED;
            self.fresh.push(slot);
        }
    }

    /// Its data are on the backing store as well.
    pub fn cleaned(&mut self, block: u64) {
        if let Some(slot) = self.find(block) {
            self.set_state(slot, CLEAN);
            self.outdate(slot);
        }
    }

    /// The same where no record can be written: that on the flash calls it dirty still.
    pub fn written_back(&mut self, block: u64) {
        if let Some(slot) = self.find(block) {
            self.set_state(slot, CLEAN);
        }
    }

    /// A block is not cached any more.
    pub fn forget(&mut self, block: u64) {
        if let Some(slot) = self.keyed(block) {
            self.set_state(slot, 0);
            self.outdate(slot);
            self.vacate(slot);
        }
    }

    fn outdate(&mut self, slot: u32) {
        self.flags[slot as usize] &= !(SAFE | FLUSHING);
        if self.flags[slot as usize] & RECORDED != 0 {
            self.stale.push(slot);
        }
    }

    fn vacate(&mut self, slot: u32) {
        if self.flags[slot as usize] & (STATE | RECORDED | CLEARING) == 0 {
            self.keys[slot as usize] = VACANT;
            self.flags[slot as usize] &= LISTED;
        }
    }

    /// A flush begins: what is listed now goes into `slots`, which is empty.
    pub fn begin_flush(&mut self, slots: &mut Vec<u32>) {
        std::mem::swap(&mut self.fresh, slots);
        slots.iter().for_each(|&slot| {
            let flags = &mut self.flags[slot as usize];
            *flags = *flags & !LISTED | FLUSHING;
        });
    }

    /// It has ended. What is on the media now, is dirty still, and was not used for another block meanwhile, stays in `slots` to be
    /// recorded; after a flush that failed it is listed again.
    pub fn end_flush(&mut self, slots: &mut Vec<u32>, done: bool) {
        slots.retain(|&slot| {
            let flags = &mut self.flags[slot as usize];
            let counts = *flags & FLUSHING != 0 && *flags & STATE == DIRTY;
            *flags &= !FLUSHING;
            if counts && done {
                *flags |= SAFE;
            } else if counts && *flags & LISTED == 0 {
                *flags |= LISTED;
                self.fresh.push(slot);
            }
            counts && done
        });
    }

    /// Whether a slot is dirty, and no record calls it so.
    pub fn is_unrecorded(&self, slot: u32) -> bool {
        let flags = self.flags[slot as usize];
        flags & STATE == DIRTY && flags & RECORDED == 0
    }

    /// The flash has, or gets, records in this sector.
    pub fn is_written(&mut self, sector: u32) {
        self.written[sector as usize] = true;
    }

    /// The sectors of records from `from` on that a stop has to write, `most` of them: what says nothing, there and here, is left alone.
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

    /// What is to be recorded of a slot, key and state; from now on the flash may say so.
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

    /// The record of a slot has been written, or has not.
    pub fn recorded(&mut self, slot: u32, written: bool) {
        let flags = &mut self.flags[slot as usize];
        if *flags & CLEARING == 0 {
            return;
        }
        *flags &= !CLEARING;
        // A request may be writing to it: its key stays until another block needs the slot.
        if !written {
            *flags |= RECORDED;
            self.stale.push(slot);
        }
    }

    /// Takes a slot over from a record; `is_dirty`, or clean. Returns its block; `None`: the record contradicts another.
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

    /// A sector of records cannot be read.
    pub fn doubt(&mut self, sector: u32) {
        self.unreadable.push(sector);
    }

    /// How many sectors of records could not be read.
    pub fn unreadable(&self) -> u64 {
        self.unreadable.len() as u64
    }

    /// Whether a block may be dirty in a slot whose record could not be read.
    pub fn is_doubtful(&self, block: u64) -> bool {
        let (set, _) = self.place(block);
        let of_set = set * self.layout.set_blocks..(set + 1) * self.layout.set_blocks;
        let meets = |&sector: &u32| {
            let slots = self.layout.slots_of(sector);
            slots.start < of_set.end && of_set.start < slots.end
        };
        self.unreadable.iter().any(meets) && self.find(block).is_none()
    }

    /// Whether a record says that its slot is dirty.
    pub fn says_dirty(state: u8) -> bool {
        state == DIRTY
    }

    /// A byte for each sector of records is not counted.
    pub fn memory_bytes(&self) -> u64 {
        let lists = self.fresh.capacity() + self.stale.capacity() + self.hands.capacity();
        (self.keys.capacity() * 4 + self.flags.capacity() + lists * 4) as u64
    }

    /// Panics where an invariant is broken; `dirty`: whether a block is dirty.
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

/// Where a key stands, in a way that compares many at once.
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
                    assert!(records <= layout.slot_lba(0) && end <= sectors, "{sectors} sectors");
                    assert!(layout.slot_lba(0) < records + layout.block_sectors, "{sectors} sectors");
                    // Of an older cache that had its slots right behind the records.
                    assert_ne!(layout.words()[4], layout.record_sectors);
                }
            }
        }
    }
}
