//! A solid-state cache: a page map of the pages that it holds, of a larger address space.
//!
//! To blocks and GC only dirty units are valid: GC copies those, and a block that holds none is emptied. Before it is erased its clean
//! units leave the table (silent eviction).
//!
//! ```text
//!  admit ─► (evicts a clean page of a full region) ─► pinned ─► stored: clean or dirty ─► place ─► ended ─► unpin
//!  emptied block ─► Reclaim::Evict ─► evicted: its clean pages are absent ─► translation pages that do not know? ─► Reclaim::Erase
//! ```
//! Old versions cannot come back: a translation page reflects every program below its watermark. A mount takes nothing older than that
//! from spare areas, and ignores the page's entries for a block that was erased since. So a copy may be dropped with its block as soon as
//! the watermark of its page has passed it; otherwise the page is written first, as for a trim.
//!
//! [`PageMapCache`] has the calls of the cache's owner. The other paths of the page map call the functions below it where
//! [`Core::cache`](Core) is there, and know of a cache nothing else.

use super::copies::{drop_copy, invalidate, keep_until_saved};
use super::core::Core;
use super::journal;
use super::lists::Lists;
use crate::cached::Cached;
use crate::sparse::SparseTable;
use crate::translation::{Outdated, Reclaim};
use pellucid_flash::{BlockId, CacheState, Lpn, Ppa};

/// State of a cache beside its table.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// Dirty pages whose writes were admitted and have not brought their data.
    promised: u32,
    /// Emptied blocks whose clean pages are being evicted.
    evicting: Vec<BlockId>,
    /// Regions of marked pages that left with an emptied block, until it is erased.
    leaving: Vec<(BlockId, u32)>,
    /// Clean units that were dropped to make space.
    evicted_units: u64,
    pub lists: Lists,
}

impl Cache {
    /// Creates the state of an empty cache.
    pub fn new(lists: Lists) -> Cache {
        Cache { promised: 0, evicting: Vec::new(), leaving: Vec::new(), evicted_units: 0, lists }
    }

    /// Clean units that were dropped to make space.
    pub fn evicted_units(&self) -> u64 {
        self.evicted_units
    }

    /// Sets their count: to zero, or to that from before a power cut.
    pub fn set_evicted_units(&mut self, units: u64) {
        self.evicted_units = units;
    }

    /// A clean unit of `region` was dropped.
    fn drop_unit(&mut self, region: u32) {
        self.evicted_units += 1;
        self.lists.region_changed(region);
    }

    /// The first of the `emptied` blocks that holds clean units, whose eviction begins now.
    fn begin_eviction(
        &mut self,
        emptied: &[BlockId],
        holds_clean: impl Fn(BlockId) -> bool,
    ) -> Option<BlockId> {
        let next = emptied.iter().copied().filter(|&b| holds_clean(b)).find(|b| !self.evicting.contains(b));
        self.evicting.extend(next);
        next
    }
}

/// A page map as a cache: admission, state and eviction of pages.
#[derive(Debug)]
pub struct PageMapCache<'a> {
    core: &'a mut Core,
}

impl<'a> PageMapCache<'a> {
    /// The calls of the cache; `None`: the map is none.
    pub(super) fn of(core: &'a mut Core) -> Option<PageMapCache<'a>> {
        core.cache.is_some().then_some(PageMapCache { core })
    }

    fn kept(&mut self) -> &mut Cache {
        self.core.cache.as_mut().expect("the map is a cache's")
    }

    /// The state of a page; its data may be in the buffer.
    pub fn state_of(&self, lpn: Lpn) -> CacheState {
        state_of(self.core, lpn)
    }

    /// The first dirty page at or behind `from`.
    pub fn next_dirty(&self, from: Lpn) -> Option<Lpn> {
        self.core.table.sparse()?.next_dirty(from)
    }

    /// Admits a write of `lpn`: it has a slot until [`PageMapCache::unpin`]. `false`: evictions could make no space, or only after a
    /// translation page is written, which is then wanted.
    pub fn admit(&mut self, lpn: Lpn, dirty: bool) -> bool {
        let Some(sparse) = self.core.table.sparse() else { return false };
        let promised = sparse.dirty() + self.core.cache.as_ref().map_or(0, |cache| cache.promised);
        if dirty && sparse.state(lpn) != CacheState::Dirty && promised >= self.core.shape.held {
            return false;
        }
        if dirty && !sparse.takes_mark(lpn) {
            make_room_for_marks(self.core, lpn);
            return false;
        }
        while let Some(sparse) = self.core.table.sparse_mut()
            && !sparse.pin(lpn)
        {
            let Some(clean) = sparse.evictable(lpn) else { return false };
            drop_clean(self.core, clean);
        }
        self.kept().promised += u32::from(dirty);
        if dirty && let Some(sparse) = self.core.table.sparse_mut() {
            sparse.mark(lpn);
        }
        true
    }

    /// Records that an admitted write has brought its data (`true`), or will not.
    pub fn stored(&mut self, lpn: Lpn, dirty: bool, ok: bool) {
        self.kept().promised -= u32::from(dirty);
        if ok && let Some(sparse) = self.core.table.sparse_mut() {
            sparse.set_state(lpn, if dirty { CacheState::Dirty } else { CacheState::Clean });
        }
    }

    /// Unpins a page: its admitted write is on the media, or was given up.
    pub fn unpin(&mut self, lpn: Lpn) {
        if let Some(sparse) = self.core.table.sparse_mut() {
            sparse.unpin(lpn);
        }
    }

    /// Makes a dirty page clean. `buffered`: its newest data have no place yet; then the copy on the media is needed as before.
    pub fn clean(&mut self, lpn: Lpn, buffered: bool) -> bool {
        let was_dirty = state_of(self.core, lpn) == CacheState::Dirty;
        if was_dirty {
            let region = self.core.page_of(lpn);
            self.kept().lists.region_changed(region);
        }
        if was_dirty && let Some(sparse) = self.core.table.sparse_mut() {
            sparse.set_state(lpn, CacheState::Clean);
            let ppa = sparse.get(lpn);
            if !buffered && ppa.is_some() && self.core.table.is_valid(ppa) {
                drop_copy(self.core, ppa);
            }
        }
        was_dirty
    }

    /// Evicts a page at the host's request. A silently dropped page could come back after a power cut, so this eviction is recorded on
    /// the media. Returns whether the page was cached.
    pub fn evict(&mut self, lpn: Lpn) -> bool {
        let was = state_of(self.core, lpn) != CacheState::Absent;
        let old = self.core.copy_of(lpn);
        if let Some(sparse) = self.core.table.sparse_mut().filter(|_| was) {
            sparse.set_state(lpn, CacheState::Absent);
        }
        self.core.table.set(lpn, Ppa::NONE);
        let region = self.core.page_of(lpn);
        self.core.pages.dirty(region, self.core.programs.sequence());
        keep_until_saved(self.core, old);
        invalidate(self.core, old, Outdated::Trimmed);
        was
    }

    /// Drops a clean page that cannot be read, unless a write of it is under way. Returns whether it did.
    pub fn drop_if_unpinned(&mut self, lpn: Lpn) -> bool {
        let leaves = self.core.table.sparse().is_some_and(|sparse| !sparse.is_pinned(lpn));
        if leaves {
            drop_clean(self.core, lpn);
        }
        leaves
    }

    /// Returns whether a power cut could bring back a version of the page that is older than a write that begins now.
    pub fn may_come_back(&self, lpn: Lpn) -> bool {
        state_of(self.core, lpn) != CacheState::Absent
            || !self.core.gc.emptied().is_empty()
            || self.core.pages.is_dirty(self.core.page_of(lpn))
    }

    /// Drops those of `pages`, the pages of an emptied block's units in order, that still lie there.
    pub fn evicted(&mut self, block: BlockId, pages: impl Iterator<Item = Option<Lpn>>) {
        let first = self.core.shape.layout.ppa(block, 0).0;
        let closed = self.core.blocks.closed_at(block);
        for (ppa, mark) in (first..).map(Ppa).zip(pages) {
            if let Some(lpn) =
                mark.map(|mark| self.core.named(mark)).filter(|&lpn| self.core.shape.is_hosts(lpn))
                && self.core.copy_of(lpn) == ppa
            {
                drop_of_block(self.core, lpn, block, closed);
            }
        }
        // Pages of unreadable units are found by a search.
        while let Some(sparse) = self.core.table.sparse()
            && sparse.present(block.0) > 0
        {
            let lies_there = |ppa: Ppa| ppa.is_some() && self.core.shape.layout.block_of(ppa) == block;
            let Some(lpn) = sparse.iter().find(|slot| lies_there(slot.ppa())).map(|slot| slot.lpn()) else {
                break;
            };
            drop_of_block(self.core, lpn, block, closed);
        }
        self.kept().evicting.retain(|&b| b != block);
    }

    /// Begins a checkpoint after the data that a flush waits for are on the media. If the table is written with each flush, its changed
    /// regions are awaited as trims are: then the flush needs another [`flush_point`](crate::Translation::flush_point).
    pub fn begin_checkpoint(&mut self) -> bool {
        let Core { cache, pages, programs, .. } = &mut *self.core;
        cache.as_ref().is_some_and(|cache| {
            cache.lists.changed().for_each(|region| pages.dirty(region, programs.sequence()));
            cache.lists.has_regions()
        })
    }

    /// Writes the changes after the drive has been idle for a while. Go on with [`next_map_job`](crate::Translation::next_map_job).
    pub fn save_changed(&mut self) {
        if let Some(cache) = &mut self.core.cache {
            cache.lists.begin_saving();
        }
    }

    /// Returns whether there are changes that an idle drive would write.
    pub fn has_changed(&self) -> bool {
        self.core.cache.as_ref().is_some_and(|cache| cache.lists.changed().next().is_some())
    }
}

// ---- for the paths of the page map

/// Content of the cache; `None`: this map is no cache.
pub(super) fn cached(core: &Core) -> Option<Cached> {
    core.table.sparse().map(|sparse| Cached {
        pages: core.shape.held,
        clean: sparse.clean(),
        dirty: sparse.dirty(),
        table_bytes: core.table.memory_bytes(),
    })
}

/// The state of a page; its data may be in the buffer.
pub(super) fn state_of(core: &Core, lpn: Lpn) -> CacheState {
    core.table.sparse().map_or(CacheState::Absent, |sparse| sparse.state(lpn))
}

/// Makes space for marks in the region of `lpn`, in which a mount could find as many dirty pages as it has slots. Some clean pages
/// are evicted, and the region's translation page is wanted, which records them and earlier departures.
fn make_room_for_marks(core: &mut Core, lpn: Lpn) {
    let region = core.page_of(lpn);
    for _ in 0..(core.shape.entries / 16).max(1) {
        let Some(clean) = core.table.sparse().and_then(|sparse| sparse.evictable(lpn)) else { break };
        drop_clean(core, clean);
    }
    let departed = |sparse: &SparseTable| sparse.marks().is_some_and(|marks| marks.any_departed(region));
    if core.table.sparse().is_some_and(departed) {
        core.pages.dirty(region, core.programs.sequence());
        journal::want_trimmed(core);
    }
}

/// The program of a page of the host has ended: its region's translation page on the media is out of date.
pub(super) fn entry_changed(core: &mut Core, lpn: Lpn) {
    if core.shape.is_hosts(lpn) {
        let region = core.page_of(lpn);
        if let Some(cache) = &mut core.cache {
            cache.lists.region_changed(region);
        }
    }
}

/// Records that the program of the translation page of a region has ended well.
pub(super) fn region_written(core: &mut Core, region: u32) {
    if let Some(marks) = core.table.sparse_mut().and_then(SparseTable::marks_mut) {
        marks.saved(region);
    }
}

/// Records that the content of `block` is no longer on the media.
pub(super) fn pages_left_with(core: &mut Core, block: BlockId) {
    if let Some(cache) = &mut core.cache
        && let Some(marks) = core.table.sparse_mut().and_then(SparseTable::marks_mut)
    {
        let left = cache.leaving.extract_if(.., |&mut (of, _)| of == block);
        left.for_each(|(_, region)| marks.erased(region));
    }
}

/// Handles a failed program after which `lpn` lies at `old` again. A clean page whose newest data are not in the buffer needs no
/// copy.
pub(super) fn cleaned_meanwhile(core: &mut Core, lpn: Lpn, old: Ppa) {
    let clean = |sparse: &SparseTable| sparse.state(lpn) == CacheState::Clean && !sparse.is_pinned(lpn);
    if core.table.sparse().is_some_and(clean) && old.is_some() && core.table.is_valid(old) {
        drop_copy(core, old);
    }
}

fn unit_dropped(core: &mut Core, region: u32) {
    if let Some(cache) = &mut core.cache {
        cache.drop_unit(region);
    }
}

/// Drops a clean page from the table.
fn drop_clean(core: &mut Core, lpn: Lpn) {
    let old = core.copy_of(lpn);
    let region = core.page_of(lpn);
    unit_dropped(core, region);
    core.table.set(lpn, Ppa::NONE);
    if must_say(core, lpn, core.programs.sequence()) {
        core.pages.dirty(region, core.programs.sequence());
        keep_until_saved(core, old);
    }
}

/// Returns whether the media still lack the fact that a page has no copy programmed before `sequence`: a mount would bring an older
/// one back.
fn must_say(core: &Core, lpn: Lpn, sequence: u64) -> bool {
    !core.shape.is_volatile() && core.pages.watermark(core.page_of(lpn)) < sequence
}

/// Evicts the clean units of emptied blocks. Returns the work to do before the next erase, if any.
pub(super) fn evict_emptied(core: &mut Core) -> Option<Reclaim> {
    let Core { cache, table, gc, .. } = &mut *core;
    let (cache, sparse) = (cache.as_mut()?, table.sparse()?);
    if let Some(block) = cache.begin_eviction(gc.emptied(), |block| sparse.present(block.0) > 0) {
        return Some(Reclaim::Evict(block));
    }
    let core = &*core;
    let waits = |&block: &BlockId| {
        core.cache.as_ref().is_some_and(|cache| cache.evicting.contains(&block))
            || is_being_replaced(core, block)
    };
    core.gc.emptied().iter().all(waits).then_some(Reclaim::AwaitsTrims)
}

/// Emptied blocks that have to wait: a power cut would bring a copy in them back.
pub(super) fn held_blocks(core: &Core) -> Vec<BlockId> {
    if core.cache.is_none() {
        return Vec::new();
    }
    core.gc.emptied().iter().copied().filter(|&block| is_being_replaced(core, block)).collect()
}

/// Returns whether a copy in `block` is being replaced by a program that has not ended.
fn is_being_replaced(core: &Core, block: BlockId) -> bool {
    core.programs.replace_any(|old| core.shape.layout.block_of(old) == block)
}

fn drop_of_block(core: &mut Core, lpn: Lpn, block: BlockId, closed: u64) {
    let region = core.page_of(lpn);
    unit_dropped(core, region);
    let was_marked = core.table.sparse().is_some_and(|sparse| sparse.is_marked(lpn));
    core.table.set(lpn, Ppa::NONE);
    if must_say(core, lpn, closed) {
        core.pages.dirty(region, core.programs.sequence());
        core.blocks.set_last_trim(block, core.pages.last_trim());
    } else if let Some(sparse) = core.table.sparse_mut().filter(|_| was_marked)
        && !sparse.is_marked(lpn)
        && let Some(marks) = sparse.marks_mut()
    {
        marks.leaves_with_block(region);
        if let Some(cache) = &mut core.cache {
            cache.leaving.push((block, region));
        }
    }
}

/// Panics where the table of a cache and the valid units disagree.
pub(super) fn check(core: &Core) {
    let Some(sparse) = core.table.sparse() else { return };
    sparse.check();
    for slot in sparse.iter().filter(|slot| slot.ppa().is_some() && !slot.is_pinned()) {
        assert_eq!(
            core.table.is_valid(slot.ppa()),
            slot.state() == CacheState::Dirty,
            "what is kept of {slot:?}"
        );
    }
}
