//! The surface of translation: what a drive, or a host FTL, asks of it, and what it asks them to do.
//!
//! Translation decides and remembers; it has no data and does no I/O. Its caller carries out what it plans and reports the outcome.
//!
//! ```text
//!  reads    lookup ─► Located ─► (readable) ─► read
//!  writes   stream ─► queue of that stream ─► place ─► Plan ─► program_started ─► program_ended
//!  GC       next_gc ─► GcJob::Move ─► read ─► arrived ─► queue of the job's stream ─► is_current ─► place
//!                   └► GcJob::Copy ─► read copy_sources ─► place_copy ─► Plan ─► program_ended
//!           next_erase ─► Reclaim::Erase ─► erase ─► erase_ended
//!  map      next_map_job ─► MapJob::Program ─► metadata ─► program_ended
//!                        └► MapJob::Read ─► map_page_read
//! ```
//! GC copies are throttled by the caller, die by die; erases and metadata are not.
//!
//! The rule that everything rests on: **a copy is invalidated only when its successor's program has ended**, and a block is erased only
//! when it holds no valid copy. So the newest completed copy of every page is on the media at every moment.

use crate::handles::Handles;
use crate::{FtlConfig, FtlCounters, LogBlock, Map, MountReport, MountSource, PageMap, SetupError};
use pellucid_flash::{BlockId, Cause, DieId, Layout, Lpn, Ppa};
use std::ops::Range;

/// Where a logical page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    /// Its newest copy, which may still be on its way to the media.
    At(Ppa),
    /// Nowhere: never written, or trimmed. It reads as zeros.
    Zero,
    /// Its data were lost. Reads fail until it is written again.
    Lost,
    /// Its entry is in a translation page that is not cached. [`MapJob::Read`] follows; ask again when that page was read.
    NeedsMap(MapPage),
}

/// A translation page, by its number: a part of the mapping table that is one unit on the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MapPage(pub u32);

/// Which data share an open block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Host data of placement handle 0 (the hot part with [`crate::Separation::Frequency`]).
    Host,
    /// Host data that are seldom written.
    HostCold,
    /// GC copies.
    Collected,
    /// Cold data moved by wear levelling, onto worn blocks.
    Worn,
    /// Translation pages.
    Meta,
    /// Translation pages that GC waits for: they share the blocks of `Meta` and may use the GC reserve.
    MetaMoved,
    /// Host data in the SLC cache.
    Cached,
    /// Host data of this placement handle, from 1.
    Placed(u16),
    /// GC copies of this placement handle, with [`crate::Isolation::Persistent`].
    PlacedCollected(u16),
    /// Host data that share a log block: those of a logical block, or of a die ([`crate::LogBlock::stream`]).
    Log(u32),
}

/// Names a planned program until `program_ended`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramId(pub u32);

/// A program to carry out. Its units go to `first`, `first + 1`, ... in the order given; the rest of the stripe is padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// To report its end.
    pub id: ProgramId,
    /// First unit of the stripe.
    pub first: Ppa,
    /// Its die.
    pub die: DieId,
    /// Goes to the spare area: a number that rises with every planned stripe of the drive, and above it, in the highest byte,
    /// the placement handle.
    pub sequence: u64,
}

/// A GC copy to carry out in a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcJob {
    /// One unit, whose destination is bound when its data are at hand.
    Move(Move),
    /// Up to a stripe of units to a fixed place, in order: read all of `copy_sources`, then `place_copy`.
    Copy(CopyId),
}

/// A valid unit of a victim that has to leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Where it lies.
    pub from: Ppa,
    /// Why it moves.
    pub cause: Cause,
    /// Whose open block takes it.
    pub to: Stream,
    /// Copyback: the die may move it by itself.
    pub inside: bool,
}

/// Names a fixed copy until its program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyId(pub u32);

/// How the read of a [`Move`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// `is_current` said that nobody needs it.
    Outdated,
    /// Its data are at hand.
    Read,
    /// It cannot be read.
    Unreadable,
}

/// What becomes of a unit that was read to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// It goes to the stream of its [`Move`], as this page.
    Keep(Lpn),
    /// It was metadata, which translation writes anew by itself: see `next_map_job`.
    Metadata,
    /// Nobody needs it any more.
    Drop,
    /// Data of the host are lost.
    Lost,
}

/// A block that holds nothing valid any more, and no copy that only an unsaved trim made invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// Erase it, then call `erase_ended`.
    Erase(BlockId, Cause),
    /// It has failed and was retired; mark it on the media.
    Retire(BlockId),
    /// Empty blocks wait until trims are on the media: go on with `next_map_job`. Nothing more to erase now.
    AwaitsTrims,
}

/// Metadata to be programmed or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapJob {
    /// Program metadata; their content is given by `metadata`.
    Program {
        /// Where.
        plan: Plan,
        /// Units of the stripe.
        units: u32,
        /// Why the program takes place.
        cause: Cause,
        /// The same units by what each was wanted for.
        by_cause: [u32; Cause::COUNT],
    },
    /// Read a translation page, then call `map_page_read`.
    Read {
        /// Which.
        page: MapPage,
        /// Where it lies.
        from: Ppa,
        /// Why.
        cause: Cause,
    },
    /// Metadata found no space: start GC in every die. Nothing more to do now.
    NeedsSpace,
}

/// What a flush waits for beside data: every trim before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlushPoint(pub(crate) u64);

/// Why a copy is no longer needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outdated {
    /// Its successor is on the media.
    Replaced,
    /// Its page was trimmed. Until the trim is on the media, a power cut brings the copy back.
    Trimmed,
}

/// The translation of one drive. Clone it to fork its future.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a namespace has one, and looks pages up in it all the time")]
pub enum Translation {
    /// See [`PageMap`].
    PageMap(PageMap),
    /// See [`LogBlock`].
    LogBlock(LogBlock),
}

/// Calls the same method of whichever translation this is.
macro_rules! each {
    ($self:ident, $it:ident => $call:expr) => {
        match $self {
            Translation::PageMap($it) => $call,
            Translation::LogBlock($it) => $call,
        }
    };
}

/// Where pages lie.
impl Translation {
    /// Where `lpn` lies, for an access of the host: it counts as a use of its entry.
    #[inline]
    pub fn lookup(&mut self, lpn: Lpn) -> Located {
        each!(self, it => it.lookup(lpn))
    }

    /// The same for any other purpose; never [`Located::NeedsMap`].
    #[inline]
    pub fn peek(&self, lpn: Lpn) -> Located {
        each!(self, it => it.peek(lpn))
    }

    /// Where the copy at `ppa` can be read now: there, or while its program has not ended the copy that it replaces.
    /// [`Ppa::NONE`]: the page has none on the media yet.
    #[inline]
    pub fn readable(&self, ppa: Ppa) -> Ppa {
        each!(self, it => it.readable(ppa))
    }

    /// Prefetches the map entry of `lpn`. It changes nothing but the simulator's own speed.
    #[inline]
    pub fn prefetch(&self, lpn: Lpn) {
        each!(self, it => it.prefetch(lpn));
    }

    /// Forgets a page.
    pub fn trim(&mut self, lpn: Lpn) {
        each!(self, it => it.trim(lpn));
    }

    /// Copies that nobody needs any more since the last call, if there are any; none, unless [`Translation::name_outdated`] was called.
    #[inline]
    pub fn take_outdated(&mut self) -> Option<std::vec::Drain<'_, (Ppa, Outdated)>> {
        each!(self, it => it.take_outdated())
    }
}

/// Writes.
impl Translation {
    /// Which stream a host write of `lpn` with placement handle `handle` belongs to; counts the write. Callers keep a queue for each
    /// stream.
    #[inline]
    pub fn stream(&mut self, lpn: Lpn, handle: u16) -> Stream {
        each!(self, it => it.stream(lpn, handle))
    }

    /// Plans the program of `lpns`, at most a stripe's worth ([`Lpn::NONE`]: a unit that nobody needs any more), now that their data are
    /// at hand. The map points to the new copies at once. `near`: these are GC copies of that die. `None`: there is no space now.
    #[inline]
    pub fn place(&mut self, stream: Stream, near: Option<DieId>, lpns: &[Lpn]) -> Option<Plan> {
        each!(self, it => it.place(stream, near, lpns))
    }

    /// The die in which GC makes space for a stream; `None`: in any.
    pub fn die_of_stream(&self, stream: Stream) -> Option<DieId> {
        match self {
            Translation::PageMap(_) => None,
            Translation::LogBlock(it) => it.die_of_stream(stream),
        }
    }

    /// Host data were placed, and their program was issued. `true`: a checkpoint is due, go on with [`Translation::next_map_job`].
    #[inline]
    pub fn checkpoint(&mut self) -> bool {
        each!(self, it => it.checkpoint())
    }

    /// A planned program has reached its die. It changes nothing but the simulator's own speed.
    #[inline]
    pub fn program_started(&self, id: ProgramId) {
        each!(self, it => it.program_started(id));
    }

    /// A program ended. `ok`: the copies it replaced are invalid now. Otherwise the map points back to the old copies, and the caller,
    /// who has the data still, places them again; but not metadata.
    #[inline]
    pub fn program_ended(&mut self, id: ProgramId, ok: bool) {
        each!(self, it => it.program_ended(id, ok));
    }

    /// Whether space came, since the last call, for host data that were turned away, though no block was erased.
    #[inline]
    pub fn take_released(&mut self) -> bool {
        each!(self, it => it.take_released())
    }
}

/// GC.
impl Translation {
    /// A die without a free block gives back what needs no copy. To be called before [`Translation::next_gc`].
    #[inline]
    pub fn reap(&mut self, die: DieId) {
        each!(self, it => it.reap(die));
    }

    /// Whether [`Translation::next_gc`] has something to do; it asks that itself.
    #[inline]
    pub fn wants_gc(&self, die: DieId, idle: bool) -> bool {
        each!(self, it => it.wants_gc(die, idle))
    }

    /// The next GC copy of `die`, `idle` while the drive has nothing to do for hosts. Callers limit how many are in flight.
    #[inline]
    pub fn next_gc(&mut self, die: DieId, idle: bool) -> Option<GcJob> {
        each!(self, it => it.next_gc(die, idle))
    }

    /// The next unit of the same victim that lies in `places`, which one sense brings anyhow.
    #[inline]
    pub fn next_gc_in(&mut self, die: DieId, places: Range<Ppa>) -> Option<Move> {
        each!(self, it => it.next_gc_in(die, places))
    }

    /// Whether the copy at `from`, whose spare area names this page, is still needed.
    #[inline]
    pub fn is_current(&self, from: Ppa, named: Option<Lpn>) -> bool {
        each!(self, it => it.is_current(from, named))
    }

    /// The read of a [`Move`] has ended: what becomes of the unit. `named`: what its spare area says.
    #[inline]
    pub fn arrived(&mut self, moved: &Move, named: Option<Lpn>, arrival: Arrival) -> Arrived {
        each!(self, it => it.arrived(moved, named, arrival))
    }

    /// Whether no further [`Move`] of `die` comes by itself, so that partial stripes of GC copies should not wait.
    #[inline]
    pub fn gc_rests(&self, die: DieId) -> bool {
        each!(self, it => it.gc_rests(die))
    }

    /// The sources of a fixed copy by position; [`Ppa::NONE`]: the position takes nothing.
    ///
    /// # Panics
    /// When this translation gives no such copies.
    pub fn copy_sources(&self, id: CopyId) -> &[Ppa] {
        match self {
            Translation::LogBlock(it) => it.copy_sources(id),
            Translation::PageMap(_) => panic!("{id:?} in a page map"),
        }
    }

    /// Why a fixed copy takes place.
    pub fn copy_cause(&self, id: CopyId) -> Cause {
        match self {
            Translation::LogBlock(it) => it.copy_cause(id),
            Translation::PageMap(_) => panic!("{id:?} in a page map"),
        }
    }

    /// The source of a fixed copy at `position` cannot be read: its page is lost until it is written again. Whether anybody needs it.
    pub fn copy_lost(&mut self, id: CopyId, position: u32) -> bool {
        match self {
            Translation::LogBlock(it) => it.copy_lost(id, position),
            Translation::PageMap(_) => panic!("{id:?} in a page map"),
        }
    }

    /// The sources of a fixed copy are at hand: binds their place. Gives the page of each position, [`Lpn::NONE`] for padding. `None`:
    /// nothing is to be programmed now; if it still has to be copied, [`Translation::next_gc`] gives it again. A program that fails is
    /// not planned again by the caller.
    pub fn place_copy(&mut self, id: CopyId, lpns: &mut Vec<Lpn>) -> Option<Plan> {
        match self {
            Translation::LogBlock(it) => it.place_copy(id, lpns),
            Translation::PageMap(_) => panic!("{id:?} in a page map"),
        }
    }

    /// The next block that can be erased, or retired.
    #[inline]
    pub fn next_erase(&mut self) -> Option<Reclaim> {
        each!(self, it => it.next_erase())
    }

    /// The erase of a block ended; a failed one is retired.
    pub fn erase_ended(&mut self, block: BlockId, ok: bool) {
        each!(self, it => it.erase_ended(block, ok));
    }
}

/// Metadata, and what a flush waits for.
impl Translation {
    /// The next program or read of metadata.
    #[inline]
    pub fn next_map_job(&mut self) -> Option<MapJob> {
        each!(self, it => it.next_map_job())
    }

    /// The read of a [`MapJob::Read`] has ended; look-ups that asked for the page are to be repeated now. Not `ok`: it cannot be read, and
    /// translation writes it anew from what it knows.
    pub fn map_page_read(&mut self, page: MapPage, ok: bool) {
        each!(self, it => it.map_page_read(page, ok));
    }

    /// Whether look-ups or ended programs have left something to do for [`Translation::next_map_job`].
    #[inline]
    pub fn has_map_work(&self) -> bool {
        each!(self, it => it.has_map_work())
    }

    /// What the spare area names, and the content, of a unit of a planned program of metadata.
    pub fn metadata(&self, id: ProgramId, position: u32) -> (Lpn, &[u8]) {
        each!(self, it => it.metadata(id, position))
    }

    /// What a flush that begins now waits for beside data.
    pub fn flush_point(&self) -> FlushPoint {
        each!(self, it => it.flush_point())
    }

    /// Wants written what a flush waits for ([`Translation::next_map_job`]); whether everything up to `point` is on the media.
    pub fn flush_to(&mut self, point: FlushPoint) -> bool {
        each!(self, it => it.flush_to(point))
    }
}

/// Damage.
impl Translation {
    /// `die` is dead: nothing is planned there any more. Programs that are planned there end as failed ones do.
    pub fn kill_die(&mut self, die: DieId) {
        each!(self, it => it.kill_die(die));
    }

    /// Data of `block` could not be read: what can be is moved out, and it is retired when nothing valid is left. `false`: that was known.
    pub fn retire_block(&mut self, block: BlockId) -> bool {
        each!(self, it => it.retire_block(block))
    }

    /// The data of `block` are to be written anew before they become unreadable. `false`: nothing to do, or known.
    pub fn refresh_block(&mut self, block: BlockId) -> bool {
        each!(self, it => it.refresh_block(block))
    }

    /// Whether so many blocks are bad that the host's data no longer fit: the drive must refuse writes.
    pub fn worn_out(&self) -> bool {
        each!(self, it => it.worn_out())
    }
}

/// Placement handles and the SLC cache.
impl Translation {
    /// The placement handles.
    pub fn handles(&self) -> &Handles {
        each!(self, it => it.handles())
    }

    /// The same, to take their events.
    pub fn handles_mut(&mut self) -> &mut Handles {
        each!(self, it => it.handles_mut())
    }

    /// The placement handle in whose blocks `lpn` lies; 0 if in none.
    pub fn owner(&self, lpn: Lpn) -> u16 {
        each!(self, it => it.owner(lpn))
    }

    /// RUH update: lets `handle` refer to a new reclaim unit.
    pub fn next_unit(&mut self, handle: u16) {
        each!(self, it => it.next_unit(handle));
    }

    /// Whether host data go past the SLC cache from now on.
    pub fn pass_cache(&mut self, past: bool) {
        each!(self, it => it.pass_cache(past));
    }

    /// Whether blocks of the SLC cache are emptied that hold something.
    pub fn fold(&mut self, on: bool) {
        each!(self, it => it.fold(on));
    }

    /// Whether any die has something to fold.
    pub fn has_cached(&self) -> bool {
        each!(self, it => it.has_cached())
    }

    /// Blocks of the SLC cache, and those of them that are not free.
    pub fn cache_use(&self) -> (u32, u32) {
        each!(self, it => it.cache_use())
    }
}

/// Setting up, and views.
impl Translation {
    /// Translation for empty media on which `bad` blocks are retired from the start.
    pub fn new(config: &FtlConfig, layout: &Layout, bad: &[BlockId]) -> Result<Translation, SetupError> {
        match config.map {
            Map::Page | Map::Demand { .. } => PageMap::new(config, layout, bad).map(Translation::PageMap),
            Map::Bast { .. } | Map::Fast { .. } => {
                LogBlock::new(config, layout, bad).map(Translation::LogBlock)
            }
        }
    }

    /// Rebuilt from what the media hold; empty with [`crate::Durability::Volatile`].
    pub fn mount(
        config: &FtlConfig,
        layout: &Layout,
        source: &impl MountSource,
    ) -> Result<(Translation, MountReport), SetupError> {
        match config.map {
            Map::Page | Map::Demand { .. } => PageMap::mount(config, layout, source)
                .map(|(map, report)| (Translation::PageMap(map), report)),
            Map::Bast { .. } | Map::Fast { .. } => LogBlock::mount(config, layout, source)
                .map(|(map, report)| (Translation::LogBlock(map), report)),
        }
    }

    /// The same for media that were saved on purpose: what they hold is kept with any durability.
    pub fn restore(
        config: &FtlConfig,
        layout: &Layout,
        source: &impl MountSource,
    ) -> Result<(Translation, MountReport), SetupError> {
        match config.map {
            Map::Page | Map::Demand { .. } => PageMap::restore(config, layout, source)
                .map(|(map, report)| (Translation::PageMap(map), report)),
            Map::Bast { .. } | Map::Fast { .. } => LogBlock::restore(config, layout, source)
                .map(|(map, report)| (Translation::LogBlock(map), report)),
        }
    }

    /// All blocks have been erased so often before the drive was made.
    pub fn set_erases(&mut self, erases: u32) {
        each!(self, it => it.set_erases(erases));
    }

    /// From now on [`Translation::take_outdated`] names the copies that become invalid.
    pub fn name_outdated(&mut self) {
        each!(self, it => it.name_outdated());
    }

    /// Mapping units the host may use.
    #[inline]
    pub fn user_units(&self) -> u32 {
        each!(self, it => it.user_units())
    }

    /// Free blocks in all.
    pub fn free_blocks(&self) -> u32 {
        each!(self, it => it.free_blocks())
    }

    /// What translation decided so far.
    pub fn counters(&self) -> FtlCounters {
        each!(self, it => it.counters())
    }

    /// Sets the counters: to zero, or to what translation had counted before a power cut.
    pub fn set_counters(&mut self, counters: FtlCounters) {
        each!(self, it => it.set_counters(counters));
    }

    /// Bytes of memory that a drive would need for map and block tables, as held here.
    pub fn memory_bytes(&self) -> u64 {
        each!(self, it => it.memory_bytes())
    }

    /// Walks every invariant and panics, naming it, where one is broken. Cost: the whole drive.
    pub fn check(&self) {
        each!(self, it => it.check());
    }

    /// Panics where translation relies on metadata that the media do not hold. Cost: all metadata.
    pub fn check_media(&self, source: &impl MountSource) {
        each!(self, it => it.check_media(source));
    }
}
