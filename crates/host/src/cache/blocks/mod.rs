//! Blocks: where the newest data of each block of the backing store are.
//!
//! | map | a block is in it while |
//! |---|---|
//! | slots (block drive) | the flash has data of it |
//! | dirty | only the flash has its newest data |
//! | lost | it is dirty, and the flash could not read it |
//! | given up | its lost data were given up, and nothing was written to the flash since; kept over restarts |
//! | doubtful | it is dirty, and the flash may hold a clean copy all the same |
//! | unflushed | the backing store has newer data of it than its last flush |
//!
//! Invariants: a block of a block drive is dirty here if and only if its slot is; doubtful and lost blocks are dirty; only a
//! solid-state cache has doubtful blocks. The slots are written from here alone, so that the maps cannot
//! differ.

mod block_map;
mod slots;

use super::CacheConfig;
use super::shape::{Backend, CacheShape};
use block_map::BlockMap;
use pellucid_flash::SimTime;
use pellucid_flash::slab::NIL;
use slots::Slots;
pub(super) use slots::{Layout, RECORD_BYTES, RECORDS_HEADER};
use std::collections::BTreeSet;
use std::ops::Range;

/// Most lost blocks that are kept to be told.
const UNTOLD_MAX: usize = 1024;

/// State of every block.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    /// Slots of a block drive; a solid-state cache has none.
    slots: Option<Slots>,
    /// Number of blocks that can be cached.
    blocks: u64,
    dirty: BlockMap,
    /// Dirty blocks of which the flash may hold a clean copy, because the command that would have settled this failed but may have
    /// taken effect. The backing store has all their promised data.
    doubtful: BlockMap,
    /// Dirty blocks that the flash could not read when it was last asked for them alone.
    lost: BlockMap,
    /// Lost blocks that nobody was told of yet.
    untold: Vec<u64>,
    /// Blocks that were given up, whatever the flash may call them: it may have failed to record that.
    given_up: BTreeSet<u64>,
    /// Blocks that an earlier life has named as lost; they are lost again if they are found dirty.
    named: BTreeSet<u64>,
    /// Blocks that were written to the backing store since its last flush began, and before; kept for rule 5.
    unflushed: [BlockMap; 2],
}

impl Blocks {
    pub fn new(shape: &CacheShape) -> Blocks {
        let CacheConfig { replacement, .. } = shape.config;
        let slots = match &shape.backend {
            Backend::Block(layout) => Some(Slots::new(layout.clone(), replacement)),
            Backend::Ssc(_) => None,
        };
        let map = || BlockMap::new(shape.blocks);
        Blocks {
            slots,
            blocks: shape.blocks,
            dirty: map(),
            doubtful: map(),
            lost: map(),
            untold: Vec::new(),
            given_up: BTreeSet::new(),
            named: BTreeSet::new(),
            unflushed: [map(), map()],
        }
    }

    // ---- questions

    #[inline]
    pub fn is_dirty(&self, block: u64) -> bool {
        self.dirty.contains(block)
    }

    /// Returns the number of dirty blocks.
    #[inline]
    pub fn dirty_count(&self) -> u64 {
        self.dirty.count()
    }

    /// Reports whether any of the `count` blocks from `from` on is dirty.
    pub fn any_dirty(&self, from: u64, count: u64) -> bool {
        self.dirty.any(from, count)
    }

    /// Reports whether block `from` is dirty, and how many of the `count` blocks from it on agree.
    pub fn dirty_run(&self, from: u64, count: u64) -> (bool, u64) {
        self.dirty.run(from, count)
    }

    /// Returns the first dirty block from `from` on.
    pub fn next_dirty(&self, from: u64) -> Option<u64> {
        self.dirty.next(from)
    }

    /// Returns the blocks of the least recently changed region with dirty blocks, and the time of its change.
    pub fn oldest_dirty(&self) -> Option<(Range<u64>, SimTime)> {
        self.dirty.oldest()
    }

    /// Returns the number of lost blocks.
    pub fn lost_count(&self) -> u64 {
        self.lost.count()
    }

    /// Returns the first run of lost blocks from `from` on.
    pub fn next_lost(&self, from: u64) -> Option<Range<u64>> {
        let first = self.lost.next(from)?;
        Some(first..first + self.lost.run(first, self.blocks - first).1)
    }

    /// Reports whether one of these blocks is lost.
    #[inline]
    pub fn any_lost(&self, blocks: Range<u64>) -> bool {
        self.lost.count() > 0 && self.lost.any(blocks.start, blocks.end - blocks.start)
    }

    /// Reports whether the data that the flash may have of a block were given up.
    pub fn is_given_up(&self, block: u64) -> bool {
        self.given_up.contains(&block)
    }

    /// Returns the first doubtful block from `from` on.
    pub fn next_doubtful(&self, from: u64) -> Option<u64> {
        self.doubtful.next(from)
    }

    /// Reports whether the flash may get a copy of data read from the backing store.
    pub fn may_fill(&self, block: u64) -> bool {
        !self.is_dirty(block) && !self.unflushed.iter().any(|map| map.contains(block))
    }

    /// Returns the slot of a cached block; no block of a solid-state cache has one.
    #[inline]
    pub fn find(&self, block: u64) -> Option<u32> {
        self.slots.as_ref()?.find(block)
    }

    /// Returns the slot of a cached block, and marks it used.
    #[inline]
    pub fn touch(&mut self, block: u64) -> Option<u32> {
        self.slots.as_mut()?.touch(block)
    }

    /// Returns the slot to write a block to; `None` if its set has none that is not `taken`. A solid-state cache places blocks itself
    /// ([`NIL`]).
    pub fn take(&mut self, block: u64, taken: impl Fn(u64) -> bool) -> Option<u32> {
        match &mut self.slots {
            Some(slots) => slots.take(block, taken),
            None => Some(NIL),
        }
    }

    /// Returns the number of record sectors that the start could not read.
    #[inline]
    pub fn unreadable(&self) -> u64 {
        self.slots.as_ref().map_or(0, Slots::unreadable)
    }

    /// Reports whether one of these blocks may have newer data on the flash, under an unreadable record.
    pub fn may_be_lost(&self, mut blocks: Range<u64>) -> bool {
        let Some(slots) = &self.slots else { return false };
        slots.unreadable() > 0 && blocks.any(|block| slots.is_doubtful(block))
    }

    /// Returns the numbers of cached and of evicted blocks of a block drive.
    pub fn cached(&self) -> Option<[u64; 2]> {
        self.slots.as_ref().map(|slots| [slots.cached(), slots.evictions()])
    }

    pub fn memory_bytes(&self) -> u64 {
        let maps = self.unflushed.iter().chain([&self.dirty, &self.doubtful, &self.lost]);
        self.slots.as_ref().map_or(0, Slots::memory_bytes) + maps.map(BlockMap::memory_bytes).sum::<u64>()
    }

    // ---- changes

    /// Notes that the flash gets new data of these blocks: what it has of them counts again, whatever becomes of the write.
    #[inline]
    pub fn rewritten(&mut self, blocks: Range<u64>) {
        if !self.given_up.is_empty() || !self.named.is_empty() {
            self.given_up.retain(|block| !blocks.contains(block));
            self.named.retain(|block| !blocks.contains(block));
        }
    }

    /// Notes that the flash has the newest data of these blocks, in slots from `slot` on; `safe` if they are on the media.
    /// Returns the number of blocks that were not dirty before.
    pub fn dirtied(&mut self, now: SimTime, blocks: Range<u64>, slot: u32, safe: bool) -> u64 {
        if let Some(slots) = &mut self.slots {
            (slot..).zip(blocks.clone()).for_each(|(slot, _)| slots.set_dirty(slot, safe));
        }
        let mut new = 0;
        for block in blocks {
            new += u64::from(self.dirty.insert(now, block));
            self.doubtful.remove(block);
            self.found(block);
        }
        new
    }

    /// Notes a block of a solid-state cache that is dirty there, or may be. Returns whether it was not dirty before.
    pub fn found_dirty(&mut self, now: SimTime, block: u64) -> bool {
        assert!(self.slots.is_none(), "a block drive has its dirty blocks in slots");
        self.name_again(now, block);
        self.dirty.insert(now, block)
    }

    /// Forgets which blocks of a solid-state cache are dirty, before it is asked again.
    pub fn forget_dirty(&mut self) {
        assert!(self.slots.is_none() && self.doubtful.count() == 0, "only a start forgets");
        self.dirty.clear();
        self.lost.clear();
    }

    /// Notes a dirty block that the flash cannot read.
    pub fn lose(&mut self, now: SimTime, block: u64) {
        if self.dirty.contains(block) && self.lost.insert(now, block) && self.untold.len() < UNTOLD_MAX {
            self.untold.push(block);
        }
    }

    /// Notes a block that is not lost any more.
    #[inline]
    fn found(&mut self, block: u64) {
        if self.lost.count() > 0 {
            self.lost.remove(block);
        }
    }

    /// Notes that the flash has read these blocks.
    #[inline]
    pub fn was_read(&mut self, blocks: Range<u64>) {
        if self.lost.count() > 0 {
            blocks.for_each(|block| self.found(block));
        }
    }

    /// A block that an earlier life has named as lost is so still; nobody is told again.
    fn name_again(&mut self, now: SimTime, block: u64) {
        if self.named.remove(&block) {
            self.lost.insert(now, block);
        }
    }

    /// Takes the blocks that were lost since the last call.
    pub fn take_untold(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.untold)
    }

    /// Gives up a lost block: the data of the backing store count again, whatever a later start finds on the flash.
    pub fn give_up(&mut self, block: u64) {
        assert!(self.lost.contains(block), "block {block} is not lost");
        self.trimmed(block);
        self.given_up.insert(block);
    }

    /// Notes that the flash may hold a clean copy of a dirty block.
    pub fn doubt(&mut self, now: SimTime, block: u64) {
        assert!(self.slots.is_none() && self.dirty.contains(block), "block {block} cannot be doubtful");
        self.doubtful.insert(now, block);
    }

    /// Notes that both drives have a block durably. Returns whether it was dirty.
    pub fn cleaned(&mut self, block: u64) -> bool {
        self.doubtful.remove(block);
        self.found(block);
        let was_dirty = self.dirty.remove(block);
        if let Some(slots) = &mut self.slots {
            assert_eq!(slots.cleaned(block), was_dirty, "block {block} is dirty, and its slot is not");
        }
        was_dirty
    }

    /// Notes that the backing store has a block durably, although the flash cannot record it. Returns whether it was dirty.
    pub fn written_back(&mut self, block: u64) -> bool {
        self.found(block);
        let was_dirty = self.dirty.remove(block);
        if let Some(slots) = &mut self.slots {
            assert_eq!(slots.written_back(block), was_dirty, "block {block} is dirty, and its slot is not");
        }
        was_dirty
    }

    /// Notes that a block was trimmed: the flash has no data of it.
    pub fn trimmed(&mut self, block: u64) {
        self.doubtful.remove(block);
        self.found(block);
        let was_dirty = self.dirty.remove(block);
        if let Some(slots) = &mut self.slots {
            assert_eq!(slots.forget(block), was_dirty, "block {block} is dirty, and its slot is not");
        }
    }

    /// Drops the clean copies of these blocks from a block drive; a solid-state cache is told to evict them.
    pub fn drop_clean(&mut self, blocks: Range<u64>) {
        let Some(slots) = &mut self.slots else { return };
        for block in blocks {
            assert!(!slots.forget(block), "the only copy of block {block} is dropped");
        }
    }

    /// Notes a copy of blocks that the backing store has, in slots from `slot` on; `done`: its write succeeded.
    pub fn filled(&mut self, blocks: Range<u64>, slot: u32, done: bool) {
        let Some(slots) = &mut self.slots else { return };
        for (slot, block) in (slot..).zip(blocks) {
            assert!(!self.dirty.contains(block), "block {block} is filled with older data");
            match done {
                true => slots.set_clean(slot),
                false => assert!(!slots.forget(block), "the slot of block {block} is dirty"),
            }
        }
    }

    // ---- flushes of the backing store

    /// Notes that the backing store has newer data of these blocks, which its last flush may not cover.
    pub fn newer_below(&mut self, now: SimTime, blocks: Range<u64>) {
        blocks.for_each(|block| {
            self.unflushed[0].insert(now, block);
        });
    }

    /// Begins a flush of the backing store, which covers all that it has now.
    pub fn begin_flush_below(&mut self, now: SimTime) {
        let [since, before] = &mut self.unflushed;
        before.add_all(now, since);
        since.clear();
    }

    /// Ends a successful flush of the backing store.
    pub fn flushed_below(&mut self) {
        self.unflushed[1].clear();
    }

    /// Takes over the knowledge of the previous life `before` about the backing store, and about the blocks that the flash
    /// cannot read.
    pub fn inherit(&mut self, before: &mut Blocks) {
        std::mem::swap(&mut self.unflushed, &mut before.unflushed);
        self.given_up = std::mem::take(&mut before.given_up);
        self.named = std::mem::take(&mut before.named);
        let mut from = 0;
        while let Some(block) = before.lost.next(from) {
            self.named.insert(block);
            from = block + 1;
        }
        self.untold = std::mem::take(&mut before.untold);
    }

    // ---- records of a block drive

    /// Begins a flush of the flash.
    pub fn begin_flush(&mut self) {
        if let Some(slots) = &mut self.slots {
            slots.begin_flush();
        }
    }

    /// Ends a flush of the flash, and adds the record sectors to write now to `sectors`, with repetitions.
    pub fn end_flush(&mut self, done: bool, sectors: &mut Vec<u32>) {
        if let Some(slots) = &mut self.slots {
            slots.end_flush(done);
            sectors.extend(slots.take_outdated());
        }
    }

    /// Reports whether a slot is dirty and no record calls it so.
    pub fn is_unrecorded(&self, slot: u32) -> bool {
        self.slots().is_unrecorded(slot)
    }

    /// Returns the key and state to record for each slot of a record sector; the flash may have these records from now on.
    pub fn record(&mut self, sector: u32) -> impl Iterator<Item = (u32, u8)> {
        let slots = self.slots.as_mut().expect(NO_SLOTS);
        slots.is_written(sector);
        slots.slots_of(sector).map(move |slot| slots.record(slot))
    }

    /// Notes the result of a write of a record sector.
    pub fn recorded(&mut self, sector: u32, written: bool) {
        let slots = self.slots.as_mut().expect(NO_SLOTS);
        slots.slots_of(sector).for_each(|slot| slots.recorded(slot, written));
    }

    /// Returns the next record sectors from `from` on that a stop has to write, at most `most`.
    pub fn next_to_record(&self, from: u32, most: u32) -> Range<u32> {
        self.slots().next_to_record(from, most)
    }

    /// Loads a record of sector `sector`: its index there, key and state. Clean records count only if `clean_counts`.
    pub fn load(
        &mut self,
        now: SimTime,
        sector: u32,
        (at, key, state): (u32, u32, u8),
        clean_counts: bool,
    ) -> Loaded {
        let slots = self.slots.as_mut().expect(NO_SLOTS);
        slots.is_written(sector);
        let of_sector = slots.slots_of(sector);
        let slot = of_sector.start + at;
        if slot >= of_sector.end || !(Slots::says_dirty(state) || clean_counts) {
            return Loaded::Ignored;
        }
        match slots.load(slot, key, state, self.blocks) {
            // The record could not be written when the block was given up; the next commit writes it.
            Some((block, true)) if self.given_up.contains(&block) => {
                assert!(slots.forget(block), "a dirty record was loaded");
                Loaded::Ignored
            }
            Some((block, true)) if self.dirty.insert(now, block) => {
                self.name_again(now, block);
                Loaded::Dirty
            }
            Some((_, false)) => Loaded::Clean,
            _ => Loaded::Contradiction,
        }
    }

    /// Notes a record sector that cannot be read.
    pub fn lose_records(&mut self, sector: u32) {
        self.slots.as_mut().expect(NO_SLOTS).doubt(sector);
    }

    fn slots(&self) -> &Slots {
        self.slots.as_ref().expect(NO_SLOTS)
    }

    // ---- checks

    /// Checks the invariants; panics if one is broken.
    pub fn check(&self) {
        if let Some(slots) = &self.slots {
            slots.check(|block| self.dirty.contains(block));
            assert_eq!(self.doubtful.count(), 0, "a block drive knows what it holds");
        }
        let mut from = 0;
        while let Some(block) = self.doubtful.next(from) {
            assert!(self.dirty.contains(block), "block {block} is doubtful and not dirty");
            from = block + 1;
        }
        from = 0;
        while let Some(block) = self.lost.next(from) {
            assert!(self.dirty.contains(block), "block {block} is lost and not dirty");
            from = block + 1;
        }
    }
}

const NO_SLOTS: &str = "only a block drive has slots";

/// Content of a record at a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loaded {
    Ignored,
    Clean,
    Dirty,
    Contradiction,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::build;
    use pellucid_flash::Interface;

    /// Blocks of a cache on a block drive.
    fn blocks() -> Blocks {
        let drive = |sectors| Some(Interface::Block { sectors, handles: 1 });
        let shape = build::shape(&CacheConfig::default(), drive(1024), drive(8192), 4096);
        Blocks::new(&shape.expect("a sound cache"))
    }

    /// Makes a block dirty.
    fn dirty(blocks: &mut Blocks, block: u64) {
        let slot = blocks.take(block, |_| false).expect("an empty set");
        assert_eq!(blocks.dirtied(SimTime::ZERO, block..block + 1, slot, false), 1);
        assert_eq!(blocks.dirtied(SimTime::ZERO, block..block + 1, slot, false), 0, "it is dirty already");
    }

    #[test]
    fn the_maps_agree_with_the_slots() {
        let mut blocks = blocks();
        for block in [7, 4000] {
            dirty(&mut blocks, block);
            blocks.check();
            assert!(blocks.is_dirty(block) && !blocks.may_fill(block) && blocks.find(block).is_some());
        }
        assert!(blocks.cleaned(7) && !blocks.cleaned(7), "it becomes clean once");
        assert!(blocks.may_fill(7) && blocks.find(7).is_some(), "a clean block stays");
        blocks.drop_clean(7..8);
        blocks.trimmed(4000);
        blocks.check();
        assert_eq!((blocks.dirty_count(), blocks.cached()), (0, Some([0, 0])));
    }

    #[test]
    fn newer_data_below_keep_out_fills_until_a_flush_covers_them() {
        let mut blocks = blocks();
        blocks.newer_below(SimTime::ZERO, 3..5);
        blocks.begin_flush_below(SimTime::ZERO);
        blocks.newer_below(SimTime::ZERO, 4..6);
        assert!([3, 4, 5].iter().all(|&block| !blocks.may_fill(block)));
        blocks.flushed_below();
        assert!(blocks.may_fill(3) && !blocks.may_fill(4) && !blocks.may_fill(5));
    }

    #[test]
    #[should_panic(expected = "the only copy of block 9 is dropped")]
    fn a_dirty_block_is_not_dropped_as_a_clean_one() {
        let mut blocks = blocks();
        dirty(&mut blocks, 9);
        blocks.drop_clean(9..10);
    }

    #[test]
    #[should_panic(expected = "block 9 cannot be doubtful")]
    fn a_block_drive_knows_what_is_clean() {
        let mut blocks = blocks();
        dirty(&mut blocks, 9);
        blocks.doubt(SimTime::ZERO, 9);
    }
}
