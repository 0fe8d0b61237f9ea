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
//! The cache is a fixed part of each die and not part of the user capacity, so a full cache does not reduce capacity: further data
//! bypass it. Folded data share the blocks of GC copies. A die folds only while its free blocks exceed its GC threshold, so folding,
//! which takes a block and returns none, never takes the last one.
//!
//! Invariants: a block of the cache is open only for [`Stream::Cached`], and no other is; translation pages never go there.

use super::core::Core;
use super::place;
use super::table::Table;
use crate::translation::{CacheUse, Stream};
use pellucid_flash::DieId;

/// Use of the SLC cache by host data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlcCache {
    /// The drive has one.
    is_there: bool,
    /// Host data bypass it.
    is_passed: bool,
    /// Host units that went there.
    cached_units: u64,
    /// Host units that bypassed it.
    direct_units: u64,
}

impl SlcCache {
    /// Creates the cache, if the drive `has` one.
    pub fn new(has: bool) -> SlcCache {
        SlcCache { is_there: has, ..SlcCache::default() }
    }

    /// Returns whether data of `stream` go there as long as it has space.
    #[inline]
    pub fn takes(&self, stream: Stream) -> bool {
        self.is_there && !self.is_passed && matches!(stream, Stream::Host | Stream::HostCold)
    }

    /// Sets whether host data bypass the cache from now on.
    pub fn pass(&mut self, past: bool) {
        self.is_passed = past;
    }

    /// Counts the host units of a superpage of `stream` placed in a block of `shared`.
    #[inline]
    pub fn count(&mut self, stream: Stream, shared: Stream, units: u32) {
        if !self.is_there {
            return;
        }
        if shared == Stream::Cached {
            self.cached_units += u64::from(units);
        } else if matches!(stream, Stream::Host | Stream::HostCold) {
            self.direct_units += u64::from(units);
        }
    }

    /// Host units that went there, and those that bypassed it.
    pub fn counts(&self) -> (u64, u64) {
        (self.cached_units, self.direct_units)
    }

    /// Sets the counts: to zero, or to those from before a power cut.
    pub fn set_counts(&mut self, (cached, direct): (u64, u64)) {
        (self.cached_units, self.direct_units) = (cached, direct);
    }
}

/// Blocks of the SLC cache, those that are not free, and those that can be folded.
pub(super) fn cache_use<T: Table>(core: &Core<T>) -> CacheUse {
    let (config, layout, manager) = (&core.shape.config, &core.shape.layout, &core.blocks);
    if config.slc_cache.is_none() {
        return CacheUse::default();
    }
    let blocks = config.cache_blocks() * layout.dies;
    let live = (0..layout.dies).map(DieId).filter(|&die| !manager.is_dead(die));
    let full = live.map(|die| manager.slc().full(die).0).sum();
    CacheUse { blocks, used: blocks - manager.slc().free(), full }
}

/// Panics unless the SLC cache is open for host data alone.
pub(super) fn check<T: Table>(core: &Core<T>) {
    for (block, stream) in place::open_blocks(core) {
        let in_cache = core.blocks.slc().has(block);
        assert_eq!(in_cache, stream == Stream::Cached, "block {} is open for {stream:?}", block.0);
    }
}
