//! The cached mapping table of a drive that keeps its map in flash (DFTL: Gupta, Kim, Urgaonkar, ASPLOS 2009).
//!
//! The map is stored on the media in translation pages. Memory holds a few individual entries (LPN and PPN), and the address of every
//! translation page. This module tracks which entries are in memory and which of these are newer than on the media. It stores no addresses:
//! the mapping table does.
//!
//! ```text
//!  use ── hit ──► protected (most recently used first)          write of a host ──► cached, dirty
//!   │ miss          │ overflow ▼       ▲ hit                    move by GC ── cached ──► dirty
//!   └─ load ──────► probationary ──► evicted: clean: dropped       └ not cached ──► pending
//!                                             dirty: pending, its translation page is due
//! ```
//! An update is *dirty* while its entry is cached and *pending* when it is not: it then waits beside the table for its translation page.
//! A write of a translation page carries all updates of its entries, dirty and pending (the paper's batched updates), so it is due for an
//! eviction, and once for each victim of GC for all pages with entries that moved while they were not cached (its lazy copying).
//!
//! Replacement is segmented LRU, as in the paper. The paper does not give the share of the protected segment; here it is one half.
//!
//! Invariants: an entry is in exactly one of the two segments; no entry is both dirty and pending; a translation page counts its cached
//! and its pending entries and links its dirty ones; the protected segment holds at most half of the entries.

use crate::MapPage;
use pellucid_flash::slab::NIL;
use pellucid_flash::{DieId, Lpn};
use std::ops::Range;

/// Bytes of memory for a cached entry: logical and physical page number, 4 bytes each, as in the paper.
pub const MAP_ENTRY_BYTES: u64 = 8;

/// Which of the two LRU lists an entry is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    Probationary = 0,
    Protected = 1,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    lpn: Lpn,
    segment: Segment,
    dirty: bool,
    newer: u32,
    older: u32,
    /// Other dirty entries of its translation page.
    next_dirty: u32,
    previous_dirty: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    cached: u32,
    pending: u32,
    first_dirty: u32,
}

/// Set of entries in memory, and of those that are newer than on the media.
#[derive(Clone, Debug)]
pub struct CachedTable {
    entries: u32,
    entries_per_page: u32,
    capacity: u32,
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    /// Open addressing: slots by logical page.
    index: Vec<u32>,
    mask: u32,
    lists: [Ends; 2],
    pages: Vec<Page>,
    pending: Vec<u64>,
    /// Translation pages with pending entries that left victims of each die, since its last victim was emptied. Some may have been
    /// written meanwhile.
    moved: Vec<Vec<MapPage>>,
}

impl CachedTable {
    /// Creates an empty table of `capacity` entries (at least 2) for a map of `entries`, and GC in `dies` dies.
    pub fn new(entries: u32, entries_per_page: u32, capacity: u32, dies: u32) -> CachedTable {
        let capacity = capacity.clamp(2, entries.max(2));
        let index = (2 * capacity).next_power_of_two().max(16);
        let none = Ends { newest: NIL, oldest: NIL, count: 0 };
        let page = Page { cached: 0, pending: 0, first_dirty: NIL };
        CachedTable {
            entries,
            entries_per_page,
            capacity,
            slots: Vec::new(),
            vacant: Vec::new(),
            index: vec![NIL; index as usize],
            mask: index - 1,
            lists: [none; 2],
            pages: vec![page; entries.div_ceil(entries_per_page) as usize],
            pending: vec![0; (entries as usize).div_ceil(64)],
            moved: vec![Vec::new(); dies as usize],
        }
    }

    /// Caches the first entries of the map, as many as fit: a drive that was just made or mounted knows its map.
    pub fn fill(&mut self) {
        debug_assert!(self.slots.is_empty());
        (0..self.capacity.min(self.entries)).for_each(|lpn| _ = self.load(Lpn(lpn)));
    }

    /// The translation page of `lpn`.
    #[inline]
    pub fn page_of(&self, lpn: Lpn) -> MapPage {
        MapPage(lpn.0 / self.entries_per_page)
    }

    /// The logical pages of a translation page.
    pub fn lpns_of(&self, page: MapPage) -> Range<u32> {
        let first = page.0 * self.entries_per_page;
        first..(first + self.entries_per_page).min(self.entries)
    }

    /// Entries that fit.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Returns whether the entry of `lpn` is in memory, without using it.
    #[inline]
    pub fn is_cached(&self, lpn: Lpn) -> bool {
        self.find(lpn).is_some()
    }

    /// Returns whether the media may have another address for `lpn` than the drive: its update is dirty or pending.
    pub fn is_updated(&self, lpn: Lpn) -> bool {
        self.is_pending(lpn) || self.find(lpn).is_some_and(|slot| self.slots[slot as usize].dirty)
    }

    /// Returns whether every entry of `page` is in memory, so that it can be written without being read.
    pub fn is_wholly_cached(&self, page: MapPage) -> bool {
        self.pages[page.0 as usize].cached as usize == self.lpns_of(page).len()
    }

    /// Returns whether a write of `page` would carry an update.
    pub fn has_updates(&self, page: MapPage) -> bool {
        let page = &self.pages[page.0 as usize];
        page.pending > 0 || page.first_dirty != NIL
    }

    /// Uses the entry of `lpn`; `false`: it is not in memory.
    #[inline]
    pub fn hit(&mut self, lpn: Lpn) -> bool {
        let Some(slot) = self.find(lpn) else { return false };
        self.promote(slot);
        true
    }

    /// Loads the entry of `lpn`, which is not in memory. Returns the translation page that is due because a dirty entry had to leave.
    pub fn load(&mut self, lpn: Lpn) -> Option<MapPage> {
        debug_assert!(!self.is_cached(lpn));
        let due = self.make_vacancy();
        let slot = self.insert(lpn);
        if self.take_pending(lpn) {
            self.set_dirty(slot);
        }
        due
    }

    /// Records that a host write of `lpn` is on the media: its entry is in memory, and dirty. Returns the translation page that is due,
    /// as [`CachedTable::load`].
    pub fn written(&mut self, lpn: Lpn) -> Option<MapPage> {
        let due = if self.is_cached(lpn) { None } else { self.load(lpn) };
        let slot = self.find(lpn).expect("loaded above");
        self.set_dirty(slot);
        due
    }

    /// Records that GC has moved `lpn` out of a victim of `die`.
    pub fn moved(&mut self, lpn: Lpn, die: DieId) {
        if !self.changed(lpn) {
            let page = self.page_of(lpn);
            let moved = &mut self.moved[die.0 as usize];
            if !moved.contains(&page) {
                moved.push(page);
            }
        }
    }

    /// Records that the address of `lpn` has changed (to none, after a trim); returns whether its entry is in memory.
    pub fn changed(&mut self, lpn: Lpn) -> bool {
        match self.find(lpn) {
            Some(slot) => {
                self.set_dirty(slot);
                true
            }
            None => {
                self.set_pending(lpn);
                false
            }
        }
    }

    /// Returns, after a victim of `die` has been emptied, the next translation page that is due for it; `None`: all were returned.
    pub fn next_due(&mut self, die: DieId) -> Option<MapPage> {
        loop {
            let page = self.moved[die.0 as usize].pop()?;
            if self.pages[page.0 as usize].pending > 0 {
                return Some(page);
            }
        }
    }

    /// Records that the content of `page` has been taken for its program, with all its updates.
    pub fn imaged(&mut self, page: MapPage) {
        let mut slot = std::mem::replace(&mut self.pages[page.0 as usize].first_dirty, NIL);
        while slot != NIL {
            let entry = &mut self.slots[slot as usize];
            entry.dirty = false;
            slot = entry.next_dirty;
        }
        if std::mem::take(&mut self.pages[page.0 as usize].pending) > 0 {
            for lpn in self.lpns_of(page) {
                self.pending[lpn as usize / 64] &= !(1 << (lpn % 64));
            }
        }
    }

    /// Bytes that a drive needs for the cached entries alone.
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.capacity) * MAP_ENTRY_BYTES
    }

    fn is_pending(&self, lpn: Lpn) -> bool {
        self.pending[lpn.0 as usize / 64] >> (lpn.0 % 64) & 1 == 1
    }

    fn set_pending(&mut self, lpn: Lpn) {
        if !self.is_pending(lpn) {
            self.pending[lpn.0 as usize / 64] |= 1 << (lpn.0 % 64);
            let page = self.page_of(lpn);
            self.pages[page.0 as usize].pending += 1;
        }
    }

    fn take_pending(&mut self, lpn: Lpn) -> bool {
        let pending = self.is_pending(lpn);
        if pending {
            self.pending[lpn.0 as usize / 64] &= !(1 << (lpn.0 % 64));
            let page = self.page_of(lpn);
            self.pages[page.0 as usize].pending -= 1;
        }
        pending
    }

    fn set_dirty(&mut self, slot: u32) {
        let Slot { lpn, dirty, .. } = self.slots[slot as usize];
        if dirty {
            return;
        }
        let page = self.page_of(lpn);
        let first = std::mem::replace(&mut self.pages[page.0 as usize].first_dirty, slot);
        if first != NIL {
            self.slots[first as usize].previous_dirty = slot;
        }
        let entry = &mut self.slots[slot as usize];
        (entry.dirty, entry.next_dirty, entry.previous_dirty) = (true, first, NIL);
    }

    fn set_clean(&mut self, slot: u32) {
        let Slot { lpn, next_dirty, previous_dirty, .. } = self.slots[slot as usize];
        match previous_dirty {
            NIL => self.pages[(lpn.0 / self.entries_per_page) as usize].first_dirty = next_dirty,
            previous => self.slots[previous as usize].next_dirty = next_dirty,
        }
        if next_dirty != NIL {
            self.slots[next_dirty as usize].previous_dirty = previous_dirty;
        }
        self.slots[slot as usize].dirty = false;
    }

    /// Evicts an entry if the table is full. A dirty one becomes pending, and its translation page is due.
    fn make_vacancy(&mut self) -> Option<MapPage> {
        if self.lists[0].count + self.lists[1].count < self.capacity {
            return None;
        }
        let oldest = |list: &Ends| Some(list.oldest).filter(|&slot| slot != NIL);
        let slot =
            oldest(&self.lists[0]).or_else(|| oldest(&self.lists[1])).expect("a full table has entries");
        let Slot { lpn, dirty, .. } = self.slots[slot as usize];
        if dirty {
            self.set_clean(slot);
            self.set_pending(lpn);
        }
        self.unlink(slot);
        self.unlist(slot);
        let page = self.page_of(lpn);
        self.pages[page.0 as usize].cached -= 1;
        self.vacant.push(slot);
        dirty.then_some(page)
    }

    fn insert(&mut self, lpn: Lpn) -> u32 {
        let segment = Segment::Probationary;
        let (dirty, newer, older, next_dirty, previous_dirty) = (false, NIL, NIL, NIL, NIL);
        let entry = Slot { lpn, segment, dirty, newer, older, next_dirty, previous_dirty };
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                self.slots.len() as u32 - 1
            }
        };
        self.list(slot);
        self.link(slot, Segment::Probationary);
        let page = self.page_of(lpn);
        self.pages[page.0 as usize].cached += 1;
        slot
    }

    /// Makes a used entry the newest protected one. Excess entries become the newest probationary ones.
    fn promote(&mut self, slot: u32) {
        self.unlink(slot);
        self.link(slot, Segment::Protected);
        if self.lists[Segment::Protected as usize].count > self.capacity / 2 {
            let demoted = self.lists[Segment::Protected as usize].oldest;
            self.unlink(demoted);
            self.link(demoted, Segment::Probationary);
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { segment, newer, older, .. } = self.slots[slot as usize];
        let list = &mut self.lists[segment as usize];
        list.count -= 1;
        match newer {
            NIL => list.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        let list = &mut self.lists[segment as usize];
        match older {
            NIL => list.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }

    fn link(&mut self, slot: u32, segment: Segment) {
        let list = &mut self.lists[segment as usize];
        list.count += 1;
        let next = std::mem::replace(&mut list.newest, slot);
        if next == NIL {
            list.oldest = slot;
        } else {
            self.slots[next as usize].newer = slot;
        }
        let entry = &mut self.slots[slot as usize];
        (entry.segment, entry.newer, entry.older) = (segment, NIL, next);
    }

    #[inline]
    fn home(&self, lpn: Lpn) -> u32 {
        lpn.0.wrapping_mul(0x9e37_79b1) >> 8 & self.mask
    }

    #[inline]
    fn find(&self, lpn: Lpn) -> Option<u32> {
        let mut at = self.home(lpn);
        loop {
            let slot = self.index[at as usize];
            if slot == NIL {
                return None;
            }
            if self.slots[slot as usize].lpn == lpn {
                return Some(slot);
            }
            at = (at + 1) & self.mask;
        }
    }

    fn list(&mut self, slot: u32) {
        let mut at = self.home(self.slots[slot as usize].lpn);
        while self.index[at as usize] != NIL {
            at = (at + 1) & self.mask;
        }
        self.index[at as usize] = slot;
    }

    fn unlist(&mut self, slot: u32) {
        let mut hole = self.home(self.slots[slot as usize].lpn);
        while self.index[hole as usize] != slot {
            hole = (hole + 1) & self.mask;
        }
        // Close the gap, so that no probe sequence is cut.
        let mut at = (hole + 1) & self.mask;
        while self.index[at as usize] != NIL {
            let home = self.home(self.slots[self.index[at as usize] as usize].lpn);
            if (at.wrapping_sub(home) & self.mask) >= (at.wrapping_sub(hole) & self.mask) {
                self.index[hole as usize] = self.index[at as usize];
                hole = at;
            }
            at = (at + 1) & self.mask;
        }
        self.index[hole as usize] = NIL;
    }

    /// Walks every invariant and panics, naming it, where one is broken.
    pub fn check(&self) {
        let mut cached = vec![0; self.pages.len()];
        for (segment, list) in [Segment::Probationary, Segment::Protected].into_iter().zip(&self.lists) {
            let (mut slot, mut newer, mut count) = (list.newest, NIL, 0);
            while slot != NIL {
                let entry = &self.slots[slot as usize];
                assert!(entry.segment == segment && entry.newer == newer, "{entry:?} in list {segment:?}");
                assert_eq!(self.find(entry.lpn), Some(slot), "cached {:?} is found", entry.lpn);
                assert!(!(entry.dirty && self.is_pending(entry.lpn)), "{:?} is dirty and pending", entry.lpn);
                cached[self.page_of(entry.lpn).0 as usize] += 1;
                (newer, slot, count) = (slot, entry.older, count + 1);
            }
            assert_eq!((list.oldest, list.count), (newer, count), "end of list {segment:?}");
        }
        assert!(self.lists[1].count <= self.capacity / 2, "protected entries");
        assert!(self.lists[0].count + self.lists[1].count <= self.capacity, "cached entries");
        for (page, state) in (0..).map(MapPage).zip(&self.pages) {
            assert_eq!(state.cached, cached[page.0 as usize], "cached entries of {page:?}");
            let pending = self.lpns_of(page).filter(|&lpn| self.is_pending(Lpn(lpn))).count();
            assert_eq!(state.pending as usize, pending, "pending entries of {page:?}");
            let (mut slot, mut linked) = (state.first_dirty, 0);
            while slot != NIL {
                let entry = &self.slots[slot as usize];
                assert!(entry.dirty && self.page_of(entry.lpn) == page, "{entry:?} among dirty of {page:?}");
                (slot, linked) = (entry.next_dirty, linked + 1);
            }
            let dirty = self.lpns_of(page).filter_map(|lpn| self.find(Lpn(lpn)));
            let dirty = dirty.filter(|&slot| self.slots[slot as usize].dirty).count();
            assert_eq!(linked, dirty, "dirty entries of {page:?}");
        }
    }
}

#[cfg(test)]
mod tests;
