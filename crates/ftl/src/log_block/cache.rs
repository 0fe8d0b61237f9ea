//! A solid-state cache with log blocks, as the original FlashTier had it: data blocks are mapped as a whole, log blocks page by page.
//!
//! ```text
//!  admit ─► pinned ─► stored: clean or dirty ─► log block ─► unpin        merge ─► data block, which needs a free one: none?
//!                                                                             └─► make_room: the data block with the fewest pages, of a logical
//!                                                                                 block that is not needed ─► its pages are absent ─► erased
//! ```
//! Translation is that of any drive with log blocks; a cache differs in this. Its address space is larger than the flash, so there are
//! data blocks for some logical blocks only. Where a block is missing, a clean one is evicted instead ([`make_room`]): all pages in
//! it leave the map at once, without a copy (silent eviction). An evicted page is trimmed, in the words of this translation, so its older
//! copies cannot come back once its block is erased ([`journal`]).
//!
//! - [`Eviction::SeUtil`]: each die keeps all its log blocks; evicted blocks become data blocks.
//! - [`Eviction::SeMerge`]: an evicted block takes data or becomes a log block, so the log grows as far as clean data yield to it.
//!
//! Invariant: as long as no block fails, the logical blocks needed in a die ([`Contents`](super::contents)), its log blocks, its metadata
//! and two blocks for merges are no more than its good blocks. So if no block is free, one can be evicted, and an admitted write always
//! finds space. A mount may find cleaned pages dirty again; writes are then refused until the host has cleaned enough.

use super::contents::Contents;
use super::core::Core;
use super::{journal, merge};
use crate::cached::{mark_of, page_of_mark};
use crate::{Cached, Eviction};
use pellucid_flash::{BlockId, CacheState, Cause, DieId, Lpn, Ppa};

/// Bytes of the controller's map for a data block: number of the logical block and of the block. Two bits for each page follow.
const DATA_ENTRY_BYTES: u64 = 8;
/// Bytes for a unit of a log block: its page, with the dirty flag, and its place.
const LOG_ENTRY_BYTES: u64 = 8;
/// Entries in use, out of 16, of a hash table with linear probing, as in the cache with a page map.
const LOAD_OF_16: u64 = 13;

/// A log-block translation as a cache: admission, state and eviction of pages.
#[derive(Debug)]
pub struct LogBlockCache<'a> {
    core: &'a mut Core,
}

impl<'a> LogBlockCache<'a> {
    /// The calls of the cache; `None`: the drive is none.
    pub(super) fn of(core: &'a mut Core) -> Option<LogBlockCache<'a>> {
        core.cache.is_some().then_some(LogBlockCache { core })
    }

    fn contents(&self) -> &Contents {
        self.core.cache.as_ref().expect("the drive is a cache")
    }

    fn contents_mut(&mut self) -> &mut Contents {
        self.core.cache.as_mut().expect("the drive is a cache")
    }

    fn place_of(&self, lpn: Lpn) -> (u32, DieId) {
        let (lbn, _) = self.core.shape.lbn(lpn);
        (lbn, self.core.shape.die_of_lbn(lbn))
    }

    /// The state of a page; its data may be in the buffer.
    pub fn state_of(&self, lpn: Lpn) -> CacheState {
        self.contents().state(lpn)
    }

    /// The first dirty page at or behind `from`.
    pub fn next_dirty(&self, from: Lpn) -> Option<Lpn> {
        self.contents().next_dirty(from)
    }

    /// Admits a write of `lpn`: its logical block is needed until [`LogBlockCache::unpin`]. `false`: its die has no block for it, before the host
    /// cleans pages.
    pub fn admit(&mut self, lpn: Lpn) -> bool {
        let (lbn, die) = self.place_of(lpn);
        let contents = self.contents();
        let with_it = contents.needed(die) + u32::from(!contents.is_needed(lbn));
        let fits = with_it <= needed_max(self.core, die);
        if fits {
            self.contents_mut().pin(lpn);
        }
        fits
    }

    /// Records that an admitted write has brought its data.
    pub fn stored(&mut self, lpn: Lpn, dirty: bool) {
        self.contents_mut().set(lpn, if dirty { CacheState::Dirty } else { CacheState::Clean });
    }

    /// Unpins a page: its admitted write is on the media, or was given up.
    pub fn unpin(&mut self, lpn: Lpn) {
        let nowhere = self.core.map.get(lpn) == Ppa::NONE;
        let contents = self.contents_mut();
        contents.unpin(lpn);
        if nowhere && !contents.is_pinned(lpn) {
            contents.set(lpn, CacheState::Absent);
        }
        self.no_longer_needed(lpn);
    }

    /// Makes a dirty page clean; returns whether it was dirty.
    pub fn clean(&mut self, lpn: Lpn) -> bool {
        let was_dirty = self.state_of(lpn) == CacheState::Dirty;
        if was_dirty && self.core.map.get(lpn) == Ppa::LOST && !self.contents().is_pinned(lpn) {
            // Nothing of it is left, and the backing store has it.
            self.evict(lpn);
        } else if was_dirty {
            self.contents_mut().set(lpn, CacheState::Clean);
            self.no_longer_needed(lpn);
        }
        was_dirty
    }

    /// A page needs less than before: merges that wait for space may go on.
    fn no_longer_needed(&mut self, lpn: Lpn) {
        let (lbn, die) = self.place_of(lpn);
        if !self.contents().is_needed(lbn) && self.core.die(die).merges.has_evacuations() {
            merge::step(self.core, die);
        }
    }

    /// Evicts a page at the host's request. Returns whether it was cached.
    pub fn evict(&mut self, lpn: Lpn) -> bool {
        let was = self.state_of(lpn) != CacheState::Absent;
        self.contents_mut().set(lpn, CacheState::Absent);
        journal::trim(self.core, lpn);
        self.no_longer_needed(lpn);
        was
    }

    /// Drops a clean page that cannot be read, unless a write of it is under way. Returns whether it did.
    pub fn drop_if_unpinned(&mut self, lpn: Lpn) -> bool {
        let leaves = !self.contents().is_pinned(lpn);
        if leaves {
            self.core.tally.count_evicted(1);
            self.evict(lpn);
        }
        leaves
    }

    /// Returns whether a power cut could bring back a version of the page that is older than a write that begins now.
    pub fn may_come_back(&self, lpn: Lpn) -> bool {
        self.state_of(lpn) != CacheState::Absent || journal::is_unsaved(self.core, lpn)
    }
}

// ---- for the paths of log blocks

/// Most logical blocks of `die` that may be needed at the same time.
fn needed_max(core: &Core, die: DieId) -> u32 {
    let state = core.die(die);
    if state.is_dead() {
        return 0;
    }
    let shape = &core.shape;
    let logs = reserved_logs(core).max(state.logs.all().len() as u32);
    let good = core.blocks.good(die).saturating_sub(shape.kept_blocks());
    // A die that has lost blocks holds a logical block at the cost of its log.
    let least = u32::from(!is_worn_out(core, die));
    good.saturating_sub(logs).max(least).min(shape.data_blocks_of(die))
}

/// Log blocks of a die that data leave free.
fn reserved_logs(core: &Core) -> u32 {
    core.shape.reserved_logs() + core.shape.least_logs() - 1
}

/// Returns whether `die` has lost so many blocks that not even one logical block has a place.
pub(super) fn is_worn_out(core: &Core, die: DieId) -> bool {
    core.blocks.good(die) <= core.shape.kept_blocks() + core.shape.least_logs()
}

/// Returns whether `die` may open one more log block: it does not take the place of data that have to stay.
pub(super) fn takes_log(core: &Core, die: DieId) -> bool {
    let Some(contents) = &core.cache else { return true };
    let logs = core.die(die).logs.all().len() as u32 + 1;
    let fits = contents.needed(die) + logs + core.shape.kept_blocks() <= core.blocks.good(die);
    fits || logs <= core.shape.least_logs()
}

/// Evicts a data block of `die`, which has no free block for data, unless one is about to become
/// free.
pub(super) fn make_room_if_full(core: &mut Core, die: DieId) {
    if core.blocks.returning(die) == 0 {
        make_room(core, die, None);
    }
}

/// Evicts the data block with the fewest pages whose logical block is neither needed nor `kept`. Does nothing if there is none, or if the
/// drive is not a cache.
fn make_room(core: &mut Core, die: DieId, kept: Option<u32>) {
    let Some(contents) = &core.cache else { return };
    let merged = core.die(die).merges.current().map(|merge| merge.aim().lbn);
    let lbn_of = |local: u32| local * core.shape.layout.dies + die.0;
    let replaced =
        |block: BlockId| core.programs.host_units().any(|(_, unit)| core.shape.is_in(unit.old, block));
    let all = core.die(die).logs.all_data().map(|(local, block)| (lbn_of(local), block));
    let evictable = all.filter(|&(lbn, block)| {
        !contents.is_needed(lbn)
            && merged != Some(lbn)
            && kept != Some(lbn)
            && core.blocks.in_flight(block) == 0
    });
    let worth = |block| (core.blocks.references(block), core.blocks.erases(block), block);
    let mut evictable: Vec<(u32, BlockId)> = evictable.collect();
    evictable.sort_by_key(|&(_, block)| worth(block));
    if let Some((lbn, block)) = evictable.into_iter().find(|&(_, block)| !replaced(block)) {
        evict_block(core, lbn, block);
    }
}

/// Keeps the blocks of the log free of data, where they are reserved: a data block more than there may be, that of logical block `lbn`,
/// evicts another.
pub(super) fn keep_log_region(core: &mut Core, die: DieId, lbn: u32) {
    let is_shared = core.shape.config.cache.is_none_or(|cache| cache.eviction == Eviction::SeMerge);
    if is_shared || core.die(die).is_dead() {
        return;
    }
    let data = core.die(die).logs.all_data().count() as u32;
    if data + core.shape.kept_blocks() + reserved_logs(core) > core.blocks.good(die) {
        make_room(core, die, Some(lbn));
    }
}

/// Silent eviction: all pages that lie in a data block leave the map with it.
fn evict_block(core: &mut Core, lbn: u32, block: BlockId) {
    let mut evicted = 0;
    for at in 0..core.shape.pages_of(lbn) {
        let lpn = core.shape.lpn(lbn, at);
        if core.shape.is_in(core.map.get(lpn), block) {
            if let Some(contents) = &mut core.cache {
                contents.set(lpn, CacheState::Absent);
            }
            journal::trim(core, lpn);
            evicted += 1;
        }
    }
    core.tally.count_evicted(evicted);
    merge::give_up(core, block, Cause::Gc, None);
}

/// Entry of the table for a page whose copy cannot be read: lost, or, if the backing store has it, absent.
pub(super) fn unreadable(core: &mut Core, lpn: Lpn) -> Ppa {
    let Some(contents) = core.cache.as_mut().filter(|contents| !contents.is_pinned(lpn)) else {
        return Ppa::LOST;
    };
    if contents.state(lpn) == CacheState::Dirty {
        return Ppa::LOST;
    }
    contents.set(lpn, CacheState::Absent);
    core.tally.count_evicted(1);
    Ppa::NONE
}

/// Records the state of a page that a mount has found.
pub(super) fn found(core: &mut Core, lpn: Lpn, dirty: bool) {
    if let Some(contents) = &mut core.cache {
        contents.set(lpn, if dirty { CacheState::Dirty } else { CacheState::Clean });
    }
}

/// Mark in the spare area of a copy of `lpn` whose data arrived `dirty` or not.
#[inline]
pub(super) fn mark(core: &Core, lpn: Lpn, dirty: bool) -> Lpn {
    mark_of(lpn, dirty && core.cache.is_some() && lpn.0 < core.shape.user_units)
}

/// Mark in the spare area of a copy that a merge makes of `lpn`. A page whose newer data are on their way counts as dirty: nobody
/// knows here what its copy on the media was.
#[inline]
pub(super) fn mark_of_copy(core: &Core, lpn: Lpn) -> Lpn {
    let stays = |contents: &Contents| contents.state(lpn) == CacheState::Dirty || contents.is_pinned(lpn);
    mark(core, lpn, core.cache.as_ref().is_some_and(stays))
}

/// Page that a spare area with this mark names.
#[inline]
pub(super) fn named(core: &Core, mark: Lpn) -> Lpn {
    if core.cache.is_some() { page_of_mark(mark) } else { mark }
}

/// Content of the cache; `None`: the drive is none.
pub(super) fn cached(core: &Core) -> Option<Cached> {
    let contents = core.cache.as_ref()?;
    let data: u32 = (0..core.shape.layout.dies).map(|die| core.shape.data_blocks_of(DieId(die))).sum();
    Some(Cached {
        pages: data * core.shape.layout.units_per_block,
        clean: contents.clean(),
        dirty: contents.dirty(),
        table_bytes: map_bytes(core),
    })
}

/// Bytes of the controller's map: an entry for each block that may hold data, with two bits for each of its pages, and one for each unit
/// of a log block, in hash tables.
pub(super) fn map_bytes(core: &Core) -> u64 {
    let (shape, layout) = (&core.shape, &core.shape.layout);
    let bits = 2 * u64::from(layout.units_per_block.div_ceil(8));
    let logs = u64::from(shape.logs_max());
    let of_die = |_| {
        let data = u64::from(layout.blocks_per_die.saturating_sub(shape.kept_blocks()));
        data * (DATA_ENTRY_BYTES + bits) + logs * u64::from(layout.units_per_block) * LOG_ENTRY_BYTES
    };
    let entries: u64 = (0..layout.dies).map(of_die).sum();
    entries * 16 / LOAD_OF_16
}

/// Panics where the content of a cache and the table disagree.
pub(super) fn check(core: &Core) {
    let Some(contents) = &core.cache else { return };
    contents.check(|lpn| core.map.get(lpn) != Ppa::NONE);
    for (lpn, ppa) in core.map.mapped() {
        let known = contents.state(lpn) != CacheState::Absent || contents.is_pinned(lpn);
        assert!(known, "page {} lies at {}, and is absent", lpn.0, ppa.0);
    }
}
