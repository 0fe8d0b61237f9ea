//! The SLC cache (pSLC): blocks with one bit per cell. Host writes go there first, as fast as one bit is programmed, and are folded
//! later: moved to blocks whose cells hold all their bits.
//!
//! ```text
//!  host write ─► a block of the cache takes it? ─ yes ─► SLC block ─ full ─► Cached ─┬─ nothing valid left ────────────► erased
//!                        │ no                                                        └─ the drive is idle: folded ─► then erased
//!                        └──► block of all bits, as without a cache                        (a GC copy like any other)
//! ```
//! A block of the cache has as many superpages as others, divided by the bits of a cell: a superpage has as many units there, but its
//! pages are programmed one after the other (`media`). So addresses, spare areas, map and mount need not know of it.
//!
//! The cache is a fixed part of each die and no part of the user capacity, so a full cache takes no capacity away: further data bypass
//! it. Folded data share the blocks of GC. A die folds only while it has more free blocks than start its GC, so folding, which needs a
//! block and gives none back, never takes the last one.
//!
//! Invariants: a block of the cache is open only for [`Stream::Cached`], and no other is; translation pages never go there.

use super::PageMap;
use crate::block_manager::BlockManager;
use crate::gc::Gc;
use crate::translation::{CacheUse, Load, Stream};
use pellucid_flash::{BlockId, DieId};

impl PageMap {
    /// Superpages that a block takes, of the SLC cache or not, for translation pages or not.
    #[inline]
    pub(crate) fn superpages_of_kind(&self, cached: bool, meta: bool) -> u32 {
        match self.config.slc_cache {
            Some(cache) if cached => self.layout.superpages_per_block / cache.bits,
            None if !meta => self.layout.superpages_per_block - self.config.list_superpages(),
            _ => self.layout.superpages_per_block,
        }
    }

    /// The die whose SLC cache takes the next superpage of `stream`; `None`: there is none, or it is full.
    #[inline]
    pub(super) fn place_in_cache(&mut self, stream: Stream) -> Option<(DieId, Stream)> {
        let passes = self.config.slc_cache.is_none() || self.placement.past_cache;
        if passes || !matches!(stream, Stream::Host | Stream::HostCold) { None } else { self.find_in_cache() }
    }

    /// A superpage of `stream` with so many units was placed: counts those of the host, by whether they went to the SLC cache.
    #[inline]
    pub(super) fn count_placed(&mut self, stream: Stream, units: u32) {
        match stream {
            Stream::Cached => self.counters.cached_units += u64::from(units),
            Stream::Host | Stream::HostCold if self.config.slc_cache.is_some() => {
                self.counters.direct_units += u64::from(units);
            }
            _ => {}
        }
    }

    fn find_in_cache(&mut self) -> Option<(DieId, Stream)> {
        for _ in 0..self.placement.count() {
            let die = self.placement.next();
            if self.open_block(die, Stream::Cached).is_some() || self.blocks.cache_free_in(die) > 0 {
                return Some((die, Stream::Cached));
            }
        }
        None
    }

    /// Sets whether data bypass the SLC cache from now on.
    pub fn pass_cache(&mut self, past: bool) {
        self.placement.past_cache = past;
    }

    /// Blocks of the SLC cache, those that are not free, and those that can be folded.
    pub fn cache_use(&self) -> CacheUse {
        if self.config.slc_cache.is_none() {
            return CacheUse::default();
        }
        let blocks = self.config.cache_blocks() * self.layout.dies;
        let live = (0..self.layout.dies).map(DieId).filter(|&die| !self.blocks.is_dead(die));
        let full = live.map(|die| self.blocks.cached(die).0).sum();
        CacheUse { blocks, used: blocks - self.blocks.cache_free(), full }
    }

    /// Part of [`PageMap::check`]: the cache is open for host data alone.
    pub(super) fn check_cache(&self) {
        for (block, stream) in self.open_blocks() {
            assert_eq!(
                self.blocks.is_cache(block),
                stream == Stream::Cached,
                "block {} is open for {stream:?}",
                block.0
            );
        }
    }
}

impl Gc {
    /// Returns whether `die` should empty a block of its SLC cache: an empty one always, another one while the drive folds.
    #[inline]
    pub(crate) fn wants_folding(&self, blocks: &BlockManager, die: DieId, load: Load) -> bool {
        self.config.slc_cache.is_some() && {
            let (cached, empty) = blocks.cached(die);
            empty > 0
                || (load == Load::Rested
                    && cached > 0
                    && blocks.free_count(die) > self.config.gc_low_blocks.max(1 + self.cut_reserve))
        }
    }

    /// A full block of the SLC cache of `die` that holds nothing valid.
    #[inline]
    pub(crate) fn empty_cached(&self, blocks: &BlockManager, die: DieId) -> Option<BlockId> {
        (blocks.cached(die).1 > 0).then(|| blocks.next_cached(die))?
    }

    /// The block of the SLC cache of `die` that is folded next, while the drive folds.
    pub(crate) fn next_fold(&self, blocks: &BlockManager, die: DieId, load: Load) -> Option<BlockId> {
        if load == Load::Rested { blocks.next_cached(die) } else { None }
    }
}
