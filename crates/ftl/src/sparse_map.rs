//! A solid-state cache: a page map of the pages that it holds, of a larger address space.
//!
//! For blocks and GC, only dirty units are valid: GC copies these, and a block without any counts as empty. Before it is erased, its clean
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
//! [`CachePages`] owns the cached pages and all other state of a cache. It is the table of an otherwise ordinary page map, whose paths
//! access it as [`Table`](crate::page_map::table::Table) and know nothing else about caches. [`SparseMapCache`] has the calls of the
//! cache's owner; its paths are `evict` and `media`.

mod evict;
mod lists;
mod media;
mod pages;
mod table;

use self::evict::{drop_clean, drop_of_block, make_room_for_marks};
use self::pages::CachePages;
use crate::cached::Cached;
use crate::page_map::PageMap;
use crate::page_map::copies::{drop_copy, invalidate, keep_until_saved};
use crate::page_map::core::Core;
use crate::translation::Outdated;
use pellucid_flash::{BlockId, CacheState, Lpn, Ppa};

/// A page map of the pages that a solid-state cache holds.
pub type SparseMap = PageMap<CachePages>;

/// A page map as a cache: admission, state and eviction of pages.
#[derive(Debug)]
pub struct SparseMapCache<'a> {
    core: &'a mut Core<CachePages>,
}

impl<'a> SparseMapCache<'a> {
    /// The calls of a map's cache.
    #[inline]
    pub fn of(map: &'a mut SparseMap) -> SparseMapCache<'a> {
        SparseMapCache { core: map.core_mut() }
    }

    /// Content of the cache.
    pub fn content(map: &SparseMap) -> Cached {
        let core = map.core();
        let sparse = core.table.sparse();
        Cached {
            pages: core.shape.held,
            clean: sparse.clean(),
            dirty: sparse.dirty(),
            table_bytes: core.table.table_bytes() + core.valid.memory_bytes(),
        }
    }

    /// The state of a page; its data may be in the buffer.
    pub fn state_of(&self, lpn: Lpn) -> CacheState {
        self.core.table.sparse().state(lpn)
    }

    /// The first dirty page at or behind `from`.
    pub fn next_dirty(&self, from: Lpn) -> Option<Lpn> {
        self.core.table.sparse().next_dirty(from)
    }

    /// Admits a write of `lpn`: it has a slot until [`SparseMapCache::unpin`]. `false`: evictions could make no space, or only after a
    /// translation page is written, which is then wanted.
    pub fn admit(&mut self, lpn: Lpn, dirty: bool) -> bool {
        let is_full = self.core.table.dirty_or_promised() >= self.core.shape.held;
        if dirty && is_full && self.state_of(lpn) != CacheState::Dirty {
            return false;
        }
        if dirty && !self.core.table.sparse().takes_mark(lpn) {
            make_room_for_marks(self.core, lpn);
            return false;
        }
        while !self.core.table.pin(lpn) {
            let Some(clean) = self.core.table.sparse().evictable(lpn) else { return false };
            drop_clean(self.core, clean);
        }
        if dirty {
            self.core.table.promise(lpn);
        }
        true
    }

    /// Records that an admitted write has brought its data (`true`), or will not.
    pub fn stored(&mut self, lpn: Lpn, dirty: bool, ok: bool) {
        if dirty {
            self.core.table.end_promise();
        }
        if ok {
            self.core.table.set_state(lpn, if dirty { CacheState::Dirty } else { CacheState::Clean });
        }
    }

    /// Unpins a page: its admitted write is on the media, or was given up.
    pub fn unpin(&mut self, lpn: Lpn) {
        self.core.table.unpin(lpn);
    }

    /// Makes a dirty page clean. `buffered`: its newest data have no place yet; then the copy on the media is needed as before.
    pub fn clean(&mut self, lpn: Lpn, buffered: bool) -> bool {
        let was_dirty = self.state_of(lpn) == CacheState::Dirty;
        if was_dirty {
            let region = self.core.page_of(lpn);
            self.core.table.region_changed(region);
            self.core.table.set_state(lpn, CacheState::Clean);
            let ppa = self.core.copy_of(lpn);
            if !buffered && ppa.is_some() && self.core.valid.has(ppa) {
                drop_copy(self.core, ppa);
            }
        }
        was_dirty
    }

    /// Evicts a page at the host's request. A silently dropped page could reappear after a power cut, so this eviction is recorded on
    /// the media. Returns whether the page was cached.
    pub fn evict(&mut self, lpn: Lpn) -> bool {
        let was = self.state_of(lpn) != CacheState::Absent;
        let old = self.core.copy_of(lpn);
        if was {
            self.core.table.set_state(lpn, CacheState::Absent);
        }
        self.core.table.point(lpn, Ppa::NONE);
        let region = self.core.page_of(lpn);
        self.core.pages.dirty(region, self.core.programs.sequence());
        keep_until_saved(self.core, old);
        invalidate(self.core, old, Outdated::Trimmed);
        was
    }

    /// Drops an unreadable clean page, unless a write of it is in flight. Returns whether it did.
    pub fn drop_if_unpinned(&mut self, lpn: Lpn) -> bool {
        let leaves = !self.core.table.sparse().is_pinned(lpn);
        if leaves {
            drop_clean(self.core, lpn);
        }
        leaves
    }

    /// Returns whether a power cut could bring back a version of the page that is older than a write that begins now.
    pub fn may_come_back(&self, lpn: Lpn) -> bool {
        self.state_of(lpn) != CacheState::Absent
            || self.core.table.may_return(lpn)
            || !self.core.gc.emptied().is_empty()
            || self.core.pages.is_dirty(self.core.page_of(lpn))
    }

    /// Drops those of `pages`, the pages of an emptied block's units in order, that are still there.
    pub fn evicted(&mut self, block: BlockId, pages: impl Iterator<Item = Option<Lpn>>) {
        let first = self.core.shape.layout.ppa(block, 0).0;
        let closed = self.core.blocks.record(block).closed_at();
        for (ppa, mark) in (first..).map(Ppa).zip(pages) {
            if let Some(lpn) =
                mark.map(|mark| self.core.named(mark)).filter(|&lpn| self.core.shape.is_hosts(lpn))
                && self.core.copy_of(lpn) == ppa
            {
                drop_of_block(self.core, lpn, block, closed);
            }
        }
        // Pages of unreadable units are found by a search.
        while self.core.table.sparse().present()[block.0 as usize] > 0 {
            let lies_there = |ppa: Ppa| ppa.is_some() && self.core.shape.layout.block_of(ppa) == block;
            let Some(lpn) =
                self.core.table.sparse().iter().find(|slot| lies_there(slot.ppa())).map(|slot| slot.lpn())
            else {
                break;
            };
            drop_of_block(self.core, lpn, block, closed);
        }
        self.core.table.end_eviction(block);
    }

    /// Begins a checkpoint after the data that a flush waits for are on the media. If the table is written with each flush, its changed
    /// regions are awaited as trims are: then the flush needs another [`flush_point`](crate::Translation::flush_point).
    pub fn begin_checkpoint(&mut self) -> bool {
        let Core { table, pages, programs, .. } = &mut *self.core;
        table.lists().changed().for_each(|region| pages.dirty(region, programs.sequence()));
        table.lists().has_regions()
    }

    /// Writes the changes after the drive has been idle for a while. Go on with [`next_map_job`](crate::Translation::next_map_job).
    pub fn save_changed(&mut self) {
        self.core.table.lists_mut().begin_saving();
    }

    /// Returns whether there are changes that an idle drive would write.
    pub fn has_changed(&self) -> bool {
        self.core.table.lists().changed().next().is_some()
    }
}
