//! The calls of a solid-state cache, with either translation.
//!
//! A cache with a sparse page map maps each page separately ([`SparseMapCache`]); a cache with log blocks maps whole data blocks, like the
//! original FlashTier ([`LogBlockCache`]). For their owner, a cache namespace, they differ only in contents and cost.

use crate::log_block::LogBlockCache;
use crate::sparse_map::SparseMapCache;
use pellucid_flash::{BlockId, CacheState, Lpn};

/// A translation as a cache: admission, state and eviction of pages.
#[derive(Debug)]
pub enum CachedPages<'a> {
    /// Every page is mapped by itself.
    SparseMap(SparseMapCache<'a>),
    /// Data blocks are mapped as a whole.
    LogBlock(LogBlockCache<'a>),
}

impl CachedPages<'_> {
    /// The state of a page; its data may be in the buffer.
    pub fn state_of(&self, lpn: Lpn) -> CacheState {
        match self {
            CachedPages::SparseMap(it) => it.state_of(lpn),
            CachedPages::LogBlock(it) => it.state_of(lpn),
        }
    }

    /// The first dirty page at or behind `from`.
    pub fn next_dirty(&self, from: Lpn) -> Option<Lpn> {
        match self {
            CachedPages::SparseMap(it) => it.next_dirty(from),
            CachedPages::LogBlock(it) => it.next_dirty(from),
        }
    }

    /// Admits a write of `lpn`: it has its place until [`CachedPages::unpin`]. `false`: evictions could make no space, or only after
    /// metadata are written, which are then wanted.
    pub fn admit(&mut self, lpn: Lpn, dirty: bool) -> bool {
        match self {
            CachedPages::SparseMap(it) => it.admit(lpn, dirty),
            CachedPages::LogBlock(it) => it.admit(lpn),
        }
    }

    /// Records that an admitted write has brought its data (`true`), or will not.
    pub fn stored(&mut self, lpn: Lpn, dirty: bool, ok: bool) {
        match self {
            CachedPages::SparseMap(it) => it.stored(lpn, dirty, ok),
            CachedPages::LogBlock(it) if ok => it.stored(lpn, dirty),
            CachedPages::LogBlock(_) => {}
        }
    }

    /// Unpins a page: its admitted write is on the media, or was given up.
    pub fn unpin(&mut self, lpn: Lpn) {
        match self {
            CachedPages::SparseMap(it) => it.unpin(lpn),
            CachedPages::LogBlock(it) => it.unpin(lpn),
        }
    }

    /// Makes a dirty page clean; returns whether it was dirty. `buffered`: its newest data have no place yet; then the copy on the media is
    /// needed as before.
    pub fn clean(&mut self, lpn: Lpn, buffered: bool) -> bool {
        match self {
            CachedPages::SparseMap(it) => it.clean(lpn, buffered),
            // Buffered data are pinned.
            CachedPages::LogBlock(it) => it.clean(lpn),
        }
    }

    /// Evicts a page at the host's request. A silently dropped page could come back after a power cut, so this eviction is recorded on
    /// the media. Returns whether the page was cached.
    pub fn evict(&mut self, lpn: Lpn) -> bool {
        match self {
            CachedPages::SparseMap(it) => it.evict(lpn),
            CachedPages::LogBlock(it) => it.evict(lpn),
        }
    }

    /// Drops a clean page that cannot be read, unless a write of it is under way. Returns whether it did.
    pub fn drop_if_unpinned(&mut self, lpn: Lpn) -> bool {
        match self {
            CachedPages::SparseMap(it) => it.drop_if_unpinned(lpn),
            CachedPages::LogBlock(it) => it.drop_if_unpinned(lpn),
        }
    }

    /// Returns whether a power cut could bring back a version of the page that is older than a write that begins now.
    pub fn may_come_back(&self, lpn: Lpn) -> bool {
        match self {
            CachedPages::SparseMap(it) => it.may_come_back(lpn),
            CachedPages::LogBlock(it) => it.may_come_back(lpn),
        }
    }

    /// Drops those of `pages`, the pages of an emptied block's units in order, that still lie there. Log blocks know their pages, and never ask
    /// for them.
    pub fn evicted(&mut self, block: BlockId, pages: impl Iterator<Item = Option<Lpn>>) {
        match self {
            CachedPages::SparseMap(it) => it.evicted(block, pages),
            CachedPages::LogBlock(_) => panic!("block {} of a log-block cache was to be named", block.0),
        }
    }

    /// Begins a checkpoint after the data that a flush waits for are on the media. If the table is written with each flush, its changed
    /// regions are awaited as trims are: then the flush needs another [`flush_point`](crate::Translation::flush_point).
    pub fn begin_checkpoint(&mut self) -> bool {
        match self {
            CachedPages::SparseMap(it) => it.begin_checkpoint(),
            CachedPages::LogBlock(_) => false,
        }
    }

    /// Writes the changes after the drive has been idle for a while. Go on with [`next_map_job`](crate::Translation::next_map_job).
    pub fn save_changed(&mut self) {
        match self {
            CachedPages::SparseMap(it) => it.save_changed(),
            CachedPages::LogBlock(_) => {}
        }
    }

    /// Returns whether there are changes that an idle drive would write.
    pub fn has_changed(&self) -> bool {
        match self {
            CachedPages::SparseMap(it) => it.has_changed(),
            CachedPages::LogBlock(_) => false,
        }
    }
}
