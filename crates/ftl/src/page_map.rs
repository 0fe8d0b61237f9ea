//! The page map: any page may lie anywhere. For drives that can hold a map of all pages.
//!
//! ```text
//!  place ─► Placement: which die? ─► BlockManager: its superpage ─► Programs: number, units ─► MappingTable: new copies
//!  ended ─► Programs ─► old copies invalid ─► BlockManager: valid units ─► Gc: victims without any ─► next_erase
//!  next_gc ─► Gc: victim, its valid units ─► (caller reads) ─► arrived ─► place
//!  checkpoint, flush_to ─► TranslationPages: wanted ─► next_map_job ─► place
//! ```
//!
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`Shape`](core::Shape) | description, numbering of logical pages | never changes |
//! | [`Table`] | where each page lies | an entry names the newest copy |
//! | [`ValidUnits`](crate::valid_units) | which copies are needed | a unit is valid if a page needs it, or if it stands in for one that is being programmed |
//! | [`BlockManager`](crate::block_manager) | free, open, closed, retired; wear; valid counts | `valid` is the number of its valid units |
//! | [`Gc`](crate::gc) | what is read of victims, emptied blocks, counters; with [`Victims`](crate::victims) and [`Upkeep`](crate::upkeep) | a block is erased once it holds no valid copy |
//! | [`Programs`](programs::Programs) | number of the next program, programs that have not ended | numbers rise; following old copies leads to one on the media, or to none |
//! | [`Placement`](place::Placement) | order of dies, whose turn it is, which are full | a die that is recorded as full has no space for host data |
//! | [`TranslationPages`](crate::translation_pages) | their trims and watermarks, those on their way | two versions of a page are never in flight together |
//! | [`DemandMap`](demand_map::DemandMap) | table entries in memory, pages read for them | an entry that is not updated is the same on the media and here |
//! | [`Handles`] | reclaim unit of each placement handle, events | `written < unit` |
//! | [`SlcCache`](slc::SlcCache) | whether host data go to the SLC cache | its blocks are open for [`Stream::Cached`] alone |
//! | [`OutdatedCopies`](crate::outdated) | copies that became invalid and were not taken | none, unless the caller takes them |
//! | [`Temperature`](crate::temperature) | how often pages are written | - |
//!
//! Only an object itself writes its fields; the fields of the shape are constants that all may read. The objects form the [`Core`]. Paths
//! are functions without state, one module each: programs (`write`), copies (`copies`), GC (`collect`), translation pages (`journal`),
//! damage (`damage`), reclaim units (`reclaim_units`), mount (`mount`). [`PageMap`] only routes; its calls are those of
//! [`crate::translation`]. All are generic over the table: the table of all pages, or another kind (`sparse_map`).

mod collect;
pub(crate) mod copies;
pub(crate) mod core;
mod damage;
mod demand_map;
mod full;
pub(crate) mod journal;
mod mount;
mod place;
pub(crate) mod programs;
mod reclaim_units;
mod setup;
mod slc;
mod stream;
pub(crate) mod table;
mod write;

pub use demand_map::MapCounters;
pub use setup::{Blocks, MapProgress};

use self::core::Core;
use self::table::Table;
use crate::handles::Handles;
use crate::mapping_table::MappingTable;
use crate::translation::{
    Arrival, Arrived, Damage, FlushPoint, GcJob, Load, Located, MapJob, Move, Operation, Outdated, Plan,
    ProgramId, Reclaim, Soon, Stream,
};
use pellucid_flash::{BlockId, DieId, Lpn, Ppa, SimTime};

/// Shift of a superpage's owner, which is stored above its sequence number in the spare area for a mount.
const OWNER_SHIFT: u32 = 56;

/// Splits a spare-area value into sequence number and owner.
pub(crate) const fn split_sequence(stored: u64) -> (u64, u16) {
    (stored & ((1 << OWNER_SHIFT) - 1), (stored >> OWNER_SHIFT) as u16)
}

/// The translation state of one drive, with a table of all its pages, or another one.
#[derive(Clone, Debug)]
pub struct PageMap<T = MappingTable> {
    core: Core<T>,
}

/// Returns the result of [`PageMap::stream`] without counting.
pub(crate) fn next_stream<T: Table>(map: &PageMap<T>, lpn: Lpn, handle: u16) -> Stream {
    if handle > 0 {
        return Stream::Placed(handle);
    }
    let hot = map.core.temperature.as_ref().is_none_or(|t| t.would_be_hot(lpn));
    if hot { Stream::Host } else { Stream::HostCold }
}

/// Reads and writes.
impl<T: Table> PageMap<T> {
    /// Location of `lpn`, for an access of the host.
    #[inline]
    pub fn lookup(&mut self, lpn: Lpn) -> Located {
        copies::lookup(&mut self.core, lpn)
    }

    /// Location of `lpn`, for any other purpose.
    #[inline]
    pub fn peek(&self, lpn: Lpn) -> Located {
        copies::peek(&self.core, lpn)
    }

    /// See [`Translation::untouched_until`](crate::Translation::untouched_until).
    pub fn untouched_until(&self, lpn: Lpn) -> Option<Lpn> {
        self.core.table.untouched_until(lpn)
    }

    /// Address at which the data of the page at `ppa` can be read now: `ppa` itself or, until its program has ended, the copy that
    /// it replaces. [`Ppa::NONE`]: the page has no copy on the media yet.
    #[inline]
    pub fn readable(&self, ppa: Ppa) -> Ppa {
        copies::readable(&self.core, ppa)
    }

    /// Prefetches state that will be accessed soon. It changes nothing.
    #[inline]
    pub fn prefetch(&self, soon: Soon) {
        match soon {
            Soon::Lookup(lpn) => self.core.table.prefetch(lpn),
            Soon::End(id) => write::started(&self.core, id),
        }
    }

    /// Returns the stream of a host write of `lpn` with placement handle `handle`; counts the write if data are separated by frequency.
    /// Data that the host places are not separated further.
    #[inline]
    pub fn stream(&mut self, lpn: Lpn, handle: u16) -> Stream {
        if handle > 0 {
            return Stream::Placed(handle);
        }
        let hot = self.core.temperature.as_mut().is_none_or(|t| t.write(lpn));
        if hot { Stream::Host } else { Stream::HostCold }
    }

    /// Plans the program of `lpns` (at most a superpage's worth, [`Lpn::NONE`] for units that lost their owner meanwhile).
    /// The map points to the new copies at once. `near`: these are GC copies, which should go to this die; another if it is
    /// full. `None`: no die can take data now; try again when a block was erased.
    pub fn place(&mut self, stream: Stream, near: Option<DieId>, lpns: &[Lpn]) -> Option<Plan> {
        write::place(&mut self.core, stream, near, lpns)
    }

    /// Records that host data were placed. Returns whether the rolling checkpoint, whose next translation pages are wanted now, or the
    /// list of a block is due.
    #[inline]
    pub fn checkpoint(&mut self) -> bool {
        journal::checkpoint(&mut self.core)
    }

    /// Discards `lpn`. Its old copy is invalid at once, but its block is not erased before the trim is on the media: a power
    /// cut must not bring back a copy that is older still.
    pub fn trim(&mut self, lpn: Lpn) {
        copies::trim(&mut self.core, lpn);
    }

    /// Records that a flash operation has ended.
    #[inline]
    pub fn ended(&mut self, operation: Operation, ok: bool) {
        match operation {
            Operation::Program(id) => write::ended(&mut self.core, id, ok),
            Operation::Erase(block) => collect::erase_ended(&mut self.core, block, ok),
            Operation::Read(page) => journal::page_read(&mut self.core, page, ok),
        }
    }

    /// Takes the copies that became invalid since the last call, with the reason: no later read goes there.
    #[inline]
    pub fn take_outdated(&mut self) -> Option<std::vec::Drain<'_, (Ppa, Outdated)>> {
        self.core.outdated.take()
    }

    /// Returns whether a die that had turned host data away may have gained space since the last call, though no block has come free.
    #[inline]
    pub fn take_released(&mut self) -> bool {
        self.core.gc.away_mut().take_released()
    }
}

/// GC and damage.
impl<T: Table> PageMap<T> {
    /// Returns whether [`PageMap::next_gc`] has work in `die`.
    #[inline]
    pub fn wants_gc(&self, die: DieId, load: Load) -> bool {
        collect::wants_gc(&self.core, die, load)
    }

    /// Sets the time, which translation needs only for the pauses of GC.
    #[inline]
    pub fn set_now(&mut self, now: SimTime) {
        self.core.gc.set_now(now);
    }

    /// The next copies that GC wants in `die`, choosing a victim first if need be. `None`: nothing to do now.
    #[inline]
    pub fn next_gc(&mut self, die: DieId, load: Load) -> Option<GcJob<'_>> {
        collect::next_gc(&mut self.core, die, load)
    }

    /// Returns whether the copy at `from`, whose spare area names this page, is still needed and must be moved. If the spare area is
    /// unreadable or its block is being erased: returns whether the copy is some page's newest, or still stands in for one being
    /// programmed.
    #[inline]
    pub fn is_current(&self, from: Ppa, named: Option<Lpn>) -> bool {
        copies::is_current(&self.core, from, named)
    }

    /// Ends the read of a unit of a victim and returns the fate of the unit. `named`: logical page in its spare area.
    #[inline]
    pub fn arrived(&mut self, moved: &Move, named: Option<Lpn>, arrival: Arrival) -> Arrived {
        collect::arrived(&mut self.core, moved, named, arrival)
    }

    /// Returns whether the victim of `die` has been read to its end, so that a partial superpage of GC copies should not wait.
    pub fn gc_rests(&self, die: DieId) -> bool {
        self.core.gc.rests(&self.core.valid, die)
    }

    /// Counts placed GC copies, for callers that do not report them to [`PageMap::place`].
    pub fn count_copied(&mut self, units: u32) {
        self.core.gc.counters_mut().add_copied(units);
    }

    /// Returns whether [`PageMap::reap`] may have something to do.
    #[inline]
    pub fn may_reap(&self, die: DieId) -> bool {
        collect::may_reap(&self.core, die)
    }

    /// Frees, in a die without a free block, blocks that need no copy: its closed blocks without valid units.
    pub fn reap(&mut self, die: DieId) {
        collect::reap(&mut self.core, die);
    }

    /// Returns whether [`PageMap::next_erase`] has a block.
    #[inline]
    pub fn has_emptied(&self) -> bool {
        !self.core.gc.emptied().is_empty()
    }

    /// The next block without valid units, and without copies that only an unsaved trim made invalid.
    #[inline]
    pub fn next_erase(&mut self) -> Option<Reclaim> {
        collect::next_erase(&mut self.core)
    }

    /// Reports failing flash. `false`: that was known, or there is nothing to do.
    pub fn damage(&mut self, damage: Damage) -> bool {
        match damage {
            Damage::Dead(die) => damage::kill_die(&mut self.core, die),
            Damage::Unreadable(block) => damage::retire_block(&mut self.core, block),
            Damage::Weak(block) => damage::refresh_block(&mut self.core, block),
        }
    }

    /// Tells translation that a failure in `block` affected one of several replaceable parts: the block is emptied and erased like any
    /// other victim instead of being retired. Call right after [`PageMap::ended`] has reported the failure.
    pub fn forgive(&mut self, block: BlockId) {
        damage::forgive(&mut self.core, block);
    }
}

/// Metadata, flushes and placement handles.
impl<T: Table> PageMap<T> {
    /// Returns the next read of a translation page, or program of a superpage of requested ones; a partial superpage only if a caller
    /// waits or no more will follow.
    #[inline]
    pub fn next_map_job(&mut self) -> Option<MapJob> {
        journal::next_map_job(&mut self.core)
    }

    /// Returns whether look-ups or ended programs have left work for [`PageMap::next_map_job`].
    #[inline]
    pub fn has_map_work(&self) -> bool {
        journal::has_map_work(&self.core)
    }

    /// Logical page for the spare area, and content, of a unit of a planned program of translation pages.
    pub fn metadata(&self, id: ProgramId, position: u32) -> (Lpn, &[u8]) {
        journal::metadata(&self.core, id, position)
    }

    /// Trims that a flush beginning now waits for beside data.
    pub fn flush_point(&self) -> FlushPoint {
        FlushPoint(self.core.pages.last_trim())
    }

    /// Requests writes of the translation pages for which a flush waits, as many as may be in flight; returns whether everything up to
    /// `point` is on the media.
    pub fn flush_to(&mut self, point: FlushPoint) -> bool {
        journal::flush_to(&mut self.core, point)
    }

    /// Requests writes of the translation pages from `first` on, as many as may be in flight at once; returns the next
    /// one.
    pub fn save_map(&mut self, first: u32) -> u32 {
        journal::save_map(&mut self.core, first)
    }

    /// The placement handles.
    #[inline]
    pub fn handles(&self) -> &Handles {
        &self.core.handles
    }

    /// The placement handles, for taking their events.
    pub fn handles_mut(&mut self) -> &mut Handles {
        &mut self.core.handles
    }

    /// Placement handle of the block that holds `lpn`; 0 if none.
    pub fn owner(&self, lpn: Lpn) -> u16 {
        reclaim_units::owner(&self.core, lpn)
    }

    /// RUH update: lets `handle` refer to a new reclaim unit; its open blocks are closed as they are.
    pub fn next_unit(&mut self, handle: u16) {
        reclaim_units::next_unit(&mut self.core, handle);
    }

    /// Sets whether data bypass the SLC cache from now on.
    pub fn pass_cache(&mut self, past: bool) {
        self.core.slc.pass(past);
    }

    /// The objects, for the calls that a table of another kind adds.
    pub(crate) fn core(&self) -> &Core<T> {
        &self.core
    }

    /// The objects, for the calls that a table of another kind adds.
    #[inline]
    pub(crate) fn core_mut(&mut self) -> &mut Core<T> {
        &mut self.core
    }
}
