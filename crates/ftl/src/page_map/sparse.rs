//! The page map of a cache: admission and eviction of pages.
//!
//! To blocks and GC only dirty units are valid: GC copies those, and a block that holds none is emptied. Before it is erased its clean
//! units leave the table (silent eviction).
//!
//! ```text
//!  admit ─► (evicts a clean page of a full region) ─► pinned ─► stored: clean or dirty ─► place ─► program_ended ─► unpin
//!  emptied block ─► Reclaim::Evict ─► evicted: its clean pages are absent ─► translation pages that do not know? ─► Reclaim::Erase
//! ```
//! Old versions cannot come back: a translation page reflects every program below its watermark. A mount takes nothing older than that
//! from spare areas, and ignores the page's entries for a block that was erased since. So a copy may be dropped with its block as soon as
//! the watermark of its page has passed it; otherwise the page is written first, as for a trim.

use super::PageMap;
use crate::Durability;
use crate::block_manager::BlockState;
use crate::page_map::Settled;
use crate::sparse::SparseTable;
use crate::translation::{Outdated, Reclaim};
use pellucid_flash::{BlockId, CacheState, Lpn, Ppa};

/// In the spare area, and in translation pages: the page is dirty.
const DIRTY: u32 = 1 << 31;

/// A copy that a mount has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub lpn: Lpn,
    pub sequence: u64,
    pub ppa: Ppa,
    pub dirty: bool,
}

/// Pages of a cache, as reports show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cached {
    /// Most pages that the cache holds, all of them dirty.
    pub pages: u32,
    /// Pages that are clean.
    pub clean: u32,
    /// Pages that are dirty.
    pub dirty: u32,
    /// Bytes of memory for the table.
    pub table_bytes: u64,
}

impl PageMap {
    /// Content of the cache; `None`: this map is no cache.
    pub fn cached(&self) -> Option<Cached> {
        self.table.sparse().map(|sparse| Cached {
            pages: self.held,
            clean: sparse.clean(),
            dirty: sparse.dirty(),
            table_bytes: self.table.memory_bytes(),
        })
    }

    /// The state of a page; its data may be in the buffer.
    pub fn state_of(&self, lpn: Lpn) -> CacheState {
        self.table.sparse().map_or(CacheState::Absent, |sparse| sparse.state(lpn))
    }

    /// The first dirty page at or behind `from`.
    pub fn next_dirty(&self, from: Lpn) -> Option<Lpn> {
        self.table.sparse()?.next_dirty(from)
    }

    /// Admits a write of `lpn`: it has a slot until [`PageMap::unpin`]. `false`: evictions could make no space, or only after a
    /// translation page is written, which is then wanted.
    pub fn admit(&mut self, lpn: Lpn, dirty: bool) -> bool {
        let Some(sparse) = self.table.sparse() else { return false };
        let promised = sparse.dirty() + self.promised;
        if dirty && sparse.state(lpn) != CacheState::Dirty && promised >= self.held {
            return false;
        }
        if dirty && !sparse.takes_mark(lpn) {
            self.make_room_for_marks(lpn);
            return false;
        }
        while let Some(sparse) = self.table.sparse_mut()
            && !sparse.pin(lpn)
        {
            let Some(clean) = sparse.evictable(lpn) else { return false };
            self.drop_clean(clean);
        }
        self.promised += u32::from(dirty);
        if dirty && let Some(sparse) = self.table.sparse_mut() {
            sparse.mark(lpn);
        }
        true
    }

    /// Makes space for marks in the region of `lpn`, in which a mount could find as many dirty pages as it has slots. Some clean pages
    /// are evicted, and the region's translation page is wanted, which records them and earlier departures.
    fn make_room_for_marks(&mut self, lpn: Lpn) {
        let region = self.page_of(lpn);
        for _ in 0..(self.pages.entries / 16).max(1) {
            let Some(clean) = self.table.sparse().and_then(|sparse| sparse.evictable(lpn)) else { break };
            self.drop_clean(clean);
        }
        let departed = |sparse: &SparseTable| sparse.marks().is_some_and(|marks| marks.any_departed(region));
        if self.table.sparse().is_some_and(departed) {
            self.pages.dirty(region, self.sequence);
            self.want_trimmed();
        }
    }

    /// Sets the number of the next program.
    #[inline]
    pub(crate) fn set_sequence(&mut self, sequence: u64) {
        self.sequence = sequence;
        if let Some(marks) = self.table.sparse_mut().and_then(SparseTable::marks_mut) {
            marks.set_sequence(sequence);
        }
    }

    /// Records that the program of the translation page of a region has ended.
    pub(super) fn region_written(&mut self, region: u32, ok: bool) {
        if ok && let Some(marks) = self.table.sparse_mut().and_then(SparseTable::marks_mut) {
            marks.saved(region);
        }
    }

    /// Records that the content of `block` is no longer on the media.
    pub(super) fn pages_left_with(&mut self, block: BlockId) {
        if let Some(marks) = self.table.sparse_mut().and_then(SparseTable::marks_mut) {
            let left = self.leaving.extract_if(.., |&mut (of, _)| of == block);
            left.for_each(|(_, region)| marks.erased(region));
        }
    }

    /// Records that an admitted write has brought its data (`true`), or will not.
    pub fn stored(&mut self, lpn: Lpn, dirty: bool, ok: bool) {
        self.promised -= u32::from(dirty);
        if ok && let Some(sparse) = self.table.sparse_mut() {
            sparse.set_state(lpn, if dirty { CacheState::Dirty } else { CacheState::Clean });
        }
    }

    /// Unpins a page: its admitted write is on the media, or was given up.
    pub fn unpin(&mut self, lpn: Lpn) {
        if let Some(sparse) = self.table.sparse_mut() {
            sparse.unpin(lpn);
        }
    }

    /// Makes a dirty page clean. `buffered`: its newest data have no place yet; then the copy on the media is needed as before.
    pub fn clean(&mut self, lpn: Lpn, buffered: bool) -> bool {
        let was_dirty = self.state_of(lpn) == CacheState::Dirty;
        if was_dirty {
            self.region_changed(self.page_of(lpn));
        }
        if was_dirty && let Some(sparse) = self.table.sparse_mut() {
            sparse.set_state(lpn, CacheState::Clean);
            let ppa = sparse.get(lpn);
            if !buffered && ppa.is_some() && self.is_valid(ppa) {
                self.not_needed(ppa);
            }
        }
        was_dirty
    }

    /// Marks the copy at `ppa` as not needed: it stays where it is, and may go at any time.
    fn not_needed(&mut self, ppa: Ppa) {
        self.table.set_invalid(ppa);
        let block = self.layout.block_of(ppa);
        self.blocks.remove_valid(block);
        if self.blocks.state(block) == BlockState::Victim {
            if self.blocks.valid(block) == 0 {
                self.gc.note_emptied(block);
            }
            self.gc.went_on(&mut self.blocks, block);
        }
    }

    /// Handles a failed program after which `lpn` lies at `old` again. A clean page whose newest data are not in the buffer needs no
    /// copy.
    pub(super) fn cleaned_meanwhile(&mut self, lpn: Lpn, old: Ppa) {
        let clean = |sparse: &SparseTable| sparse.state(lpn) == CacheState::Clean && !sparse.is_pinned(lpn);
        if self.table.sparse().is_some_and(clean) && old.is_some() && self.is_valid(old) {
            self.not_needed(old);
        }
    }

    /// Evicts a page at the host's request. A silently dropped page could come back after a power cut, so this eviction is recorded on
    /// the media. Returns whether the page was cached.
    pub fn evict(&mut self, lpn: Lpn) -> bool {
        let was = self.state_of(lpn) != CacheState::Absent;
        let old = self.copy_of(lpn);
        if let Some(sparse) = self.table.sparse_mut().filter(|_| was) {
            sparse.set_state(lpn, CacheState::Absent);
        }
        self.table.set(lpn, Ppa::NONE);
        self.pages.dirty(self.page_of(lpn), self.sequence);
        self.keep_until_saved(old);
        self.invalidate(old, Outdated::Trimmed);
        was
    }

    /// Drops a clean page from the table.
    fn drop_clean(&mut self, lpn: Lpn) {
        let old = self.copy_of(lpn);
        self.counters.evicted_units += 1;
        self.region_changed(self.page_of(lpn));
        self.table.set(lpn, Ppa::NONE);
        if self.must_say(lpn, self.sequence) {
            self.pages.dirty(self.page_of(lpn), self.sequence);
            self.keep_until_saved(old);
        }
    }

    /// Drops a clean page that cannot be read, unless a write of it is under way. Returns whether it did.
    pub fn drop_if_unpinned(&mut self, lpn: Lpn) -> bool {
        let leaves = self.table.sparse().is_some_and(|sparse| !sparse.is_pinned(lpn));
        if leaves {
            self.drop_clean(lpn);
        }
        leaves
    }

    /// Returns whether a power cut could bring back a version of the page that is older than a write that begins now.
    pub fn may_come_back(&self, lpn: Lpn) -> bool {
        self.state_of(lpn) != CacheState::Absent
            || !self.gc.emptied().is_empty()
            || self.pages.is_dirty(self.page_of(lpn))
    }

    /// Returns whether the media still lack the fact that a page has no copy programmed before `sequence`: a mount would bring an older
    /// one back.
    fn must_say(&self, lpn: Lpn, sequence: u64) -> bool {
        self.config.durability != Durability::Volatile && self.pages.watermark(self.page_of(lpn)) < sequence
    }

    /// Evicts the clean units of emptied blocks. Returns the work to do before the next erase, if any.
    pub(super) fn evict_emptied(&mut self) -> Option<Reclaim> {
        let sparse = self.table.sparse()?;
        let holds_clean = |block: &&BlockId| sparse.present(block.0) > 0;
        let waits = |block: &&BlockId| !self.evicting.contains(block);
        let next = self.gc.emptied().iter().filter(holds_clean).find(waits).copied();
        if let Some(block) = next {
            self.evicting.push(block);
            return Some(Reclaim::Evict(block));
        }
        let waits = |&block: &BlockId| self.evicting.contains(&block) || self.is_being_replaced(block);
        let all_wait = self.gc.emptied().iter().all(waits);
        all_wait.then_some(Reclaim::AwaitsTrims)
    }

    /// Drops those of `pages`, the pages of an emptied block's units in order, that still lie there.
    pub fn evicted(&mut self, block: BlockId, pages: impl Iterator<Item = Option<Lpn>>) {
        let first = self.layout.ppa(block, 0).0;
        let closed = self.blocks.closed_at(block);
        for (ppa, mark) in (first..).map(Ppa).zip(pages) {
            if let Some(lpn) = mark.map(|mark| self.named(mark)).filter(|lpn| lpn.0 < self.user_units)
                && self.copy_of(lpn) == ppa
            {
                self.drop_of_block(lpn, block, closed);
            }
        }
        // Pages of unreadable units are found by a search.
        while let Some(sparse) = self.table.sparse()
            && sparse.present(block.0) > 0
        {
            let lies_there = |ppa: Ppa| ppa.is_some() && self.layout.block_of(ppa) == block;
            let Some(lpn) = sparse.iter().find(|slot| lies_there(slot.ppa())).map(|slot| slot.lpn()) else {
                break;
            };
            self.drop_of_block(lpn, block, closed);
        }
        self.evicting.retain(|&b| b != block);
    }

    fn drop_of_block(&mut self, lpn: Lpn, block: BlockId, closed: u64) {
        self.counters.evicted_units += 1;
        let region = self.page_of(lpn);
        self.region_changed(region);
        let was_marked = self.table.sparse().is_some_and(|sparse| sparse.is_marked(lpn));
        self.table.set(lpn, Ppa::NONE);
        if self.must_say(lpn, closed) {
            self.pages.dirty(region, self.sequence);
            self.blocks.set_last_trim(block, self.pages.last_trim());
        } else if let Some(sparse) = self.table.sparse_mut().filter(|_| was_marked)
            && !sparse.is_marked(lpn)
            && let Some(marks) = sparse.marks_mut()
        {
            marks.leaves_with_block(region);
            self.leaving.push((block, region));
        }
    }
}

impl PageMap {
    /// Panics where the table of a cache and the valid units disagree.
    pub(super) fn check_sparse(&self) {
        let Some(sparse) = self.table.sparse() else { return };
        sparse.check();
        for slot in sparse.iter().filter(|slot| slot.ppa().is_some() && !slot.is_pinned()) {
            assert_eq!(
                self.is_valid(slot.ppa()),
                slot.state() == CacheState::Dirty,
                "what is kept of {slot:?}"
            );
        }
    }
}

/// Encoding of a cache on the media.
impl PageMap {
    /// Page that an entry of a spare area or translation page names, without its dirty flag.
    #[inline]
    pub(crate) fn without_state(&self, mark: Lpn) -> Lpn {
        match self.table.sparse() {
            Some(_) if mark != Lpn::NONE => Lpn(mark.0 & !DIRTY),
            _ => mark,
        }
    }

    /// Entry for the spare area of a copy of `lpn`. `dirty`: state of the data when they arrived, whatever has become of the page since.
    #[inline]
    pub fn mark(&self, lpn: Lpn, dirty: bool) -> Lpn {
        let dirty = dirty && self.table.sparse().is_some() && lpn.0 < self.user_units;
        if dirty { Lpn(lpn.0 | DIRTY) } else { lpn }
    }

    /// The content of the translation page of a region: its pages that have a copy on the media.
    pub(crate) fn write_region(&mut self, settled: &Settled, region: u32, out: &mut Vec<u8>) {
        let Some(sparse) = self.table.sparse() else { return };
        for slot in sparse.of_region(region) {
            let ppa = self.settled_copy(settled, slot.lpn());
            if ppa != Ppa::NONE {
                let dirty = ppa == Ppa::LOST || self.is_valid(ppa);
                let page = slot.lpn().0 | if dirty { DIRTY } else { 0 };
                out.extend_from_slice(&page.to_le_bytes());
                out.extend_from_slice(&ppa.0.wrapping_add(1).to_le_bytes());
            }
        }
        if let Some(marks) = self.table.sparse_mut().and_then(SparseTable::marks_mut) {
            marks.imaged(region, settled.watermark);
        }
    }

    /// Adds, at a mount, the valid content of a translation page.
    pub(crate) fn found_in_region(
        &self,
        entries: &[u32],
        counts: impl Fn(Ppa) -> bool,
    ) -> impl Iterator<Item = Found> {
        entries.as_chunks::<2>().0.iter().filter_map(move |&[mark, entry]| {
            let (mark, ppa) = (Lpn(mark), Ppa(entry.wrapping_sub(1)));
            let lpn = self.without_state(mark);
            let found = entry != 0 && lpn.0 < self.user_units && counts(ppa);
            // Every copy that the replay finds is newer.
            found.then_some(Found { lpn, sequence: 0, ppa, dirty: mark != lpn })
        })
    }

    /// Keeps, at a mount, the newest copy of each page. After a power cut a mount may find more pages of a region than it has slots:
    /// dirty ones have priority, then the newest. Returns the number of dirty ones without a slot, which is zero unless a translation
    /// page was lost.
    pub(crate) fn restore_copies(&mut self, mut found: Vec<Found>) -> u64 {
        found.sort_unstable_by_key(|copy| (copy.lpn, std::cmp::Reverse((copy.sequence, copy.ppa))));
        found.dedup_by_key(|copy| copy.lpn);
        found.sort_unstable_by_key(|copy| std::cmp::Reverse((copy.dirty, copy.sequence, copy.ppa)));
        let mut lost = 0;
        for Found { lpn, ppa, dirty, .. } in found {
            let Some(sparse) = self.table.sparse_mut() else { break };
            if sparse.has_slot_for(lpn) {
                sparse.replace(lpn, ppa);
                sparse.set_state(lpn, if dirty { CacheState::Dirty } else { CacheState::Clean });
                if dirty {
                    sparse.mark(lpn);
                }
                continue;
            }
            lost += u64::from(dirty);
            // An older version must not come back when the block of this one is erased.
            self.pages.dirty(self.page_of(lpn), self.sequence);
            self.keep_until_saved(ppa);
        }
        lost
    }

    /// Handles, at a mount, a page for which a trim is uncertain. A clean page is then absent; the data of others are lost.
    pub(crate) fn doubt(&mut self, lpn: Lpn) {
        let clean = self.table.sparse().is_some_and(|sparse| sparse.state(lpn) == CacheState::Clean);
        self.table.set(lpn, if clean { Ppa::NONE } else { Ppa::LOST });
    }

    /// Returns, at a mount, whether the copy at `ppa` has to be kept.
    pub(crate) fn is_needed(&self, lpn: Lpn, ppa: Ppa) -> bool {
        ppa.is_some()
            && (self.table.sparse().is_none()
                || lpn.0 >= self.user_units
                || self.state_of(lpn) == CacheState::Dirty)
    }
}
