//! The interface of translation: calls of a drive, or a host FTL, and the work that translation requests from them.
//!
//! Translation decides and remembers; it has no data and does no I/O. Its caller carries out its plans and reports the outcome.
//!
//! ```text
//!  reads    lookup ─► Located ─► (readable) ─► read
//!  writes   stream ─► queue of that stream ─► place ─► Plan ─► ended(Program)
//!  GC       next_gc ─► GcJob ─► read ─► is_current ─► arrived ─► queue of the unit's stream ─► is_current ─► place
//!           next_erase ─► Reclaim::Erase ─► erase ─► ended(Erase)
//!  map      next_map_job ─► MapJob::Program ─► metadata ─► ended(Program)
//!                        └► MapJob::Read ─► ended(Read)
//! ```
//! These calls are the data path. Beside them: [`Translation::start`], damage, placement handles, and one [`View`] for reports.
//!
//! GC copies are throttled by the caller, die by die; erases and metadata are not.
//!
//! Central rule: **a copy is invalidated only when its successor's program has ended**, and a block is erased only when it holds no valid
//! copy. So the newest completed copy of every page is on the media at every moment.

use crate::handles::Handles;
use crate::{
    Cached, CachedPages, FtlConfig, FtlCounters, LogBlock, Map, MountReport, MountSource, PageMap,
    SetupError, SparseMap, SparseMapCache, next_stream,
};
use pellucid_flash::{BlockId, BlockView, Cause, DieId, Divisor, Layout, Lpn, Ppa, SimTime};

/// Location of a logical page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    /// Location of the newest copy, which may still be on its way to the media.
    At(Ppa),
    /// Nowhere: never written, or trimmed. It reads as zeros.
    Zero,
    /// Lost data. Reads fail until the page is written again.
    Lost,
    /// Unknown yet: the entry is in a translation page that is not cached. [`MapJob::Read`] follows; ask again when that page was read.
    NeedsMap(MapPage),
}

/// A translation page, by its number: a part of the mapping table that is one unit on the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MapPage(pub u32);

/// Stream: data that share an open block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Host data of placement handle 0 (the hot part with [`crate::Separation::Frequency`]).
    Host,
    /// Host data that are seldom written.
    HostCold,
    /// GC copies.
    Gc,
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
    PlacedGc(u16),
    /// Host data that share a log block: those of a logical block, or of a die ([`crate::LogBlock::stream`]).
    Log(u32),
    /// The units of a merge, which has a place for each.
    Merge(CopyId),
}

/// Name of a planned program until it has [`ended`](Translation::ended).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramId(pub u32);

/// A program to carry out. Its units go to `first`, `first + 1`, ... in the order given; the rest of the superpage is padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Id for reporting its end.
    pub id: ProgramId,
    /// First unit of the superpage.
    pub first: Ppa,
    /// Die of the superpage.
    pub die: DieId,
    /// Value for the spare area: a number that rises with every planned superpage of the drive, and in the highest byte the placement
    /// handle.
    pub sequence: u64,
}

/// Load on the caller besides GC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Hosts wait for the drive.
    Busy,
    /// No command is under way.
    Idle,
    /// No command has been under way for so long that the SLC cache is folded.
    Rested,
}

/// GC copies to carry out in a die: read the units, report for each that it has [`arrived`](Translation::arrived), and place them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcJob<'a> {
    /// Units of one sense, at least one. Their destination is bound when a superpage of their stream is ready.
    Move(&'a [Move]),
    /// Up to a superpage of units for fixed places. Those that are still current when all have arrived are placed together, as
    /// [`Stream::Merge`].
    Copy {
        /// Id of the copy until it is placed.
        id: CopyId,
        /// Cause.
        cause: Cause,
        /// Addresses of the sources, by position; [`Ppa::NONE`]: the position is unused.
        sources: &'a [Ppa],
    },
}

/// A valid unit of a victim that has to leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Location.
    pub from: Ppa,
    /// Cause.
    pub cause: Cause,
    /// Stream that takes the unit.
    pub to: Stream,
    /// The die may move the unit by copyback.
    pub inside: bool,
}

/// Name of a [`GcJob::Copy`] until it is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyId(pub u32);

/// Result of the read of a [`Move`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The unit was not read: `is_current` found that it is not needed.
    Outdated,
    /// The data have been read.
    Read,
    /// The unit cannot be read.
    Unreadable,
}

/// Fate of a unit that was read by GC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// The unit goes to the stream of its [`Move`], as this page.
    Keep(Lpn),
    /// The unit was metadata, which translation itself rewrites: see `next_map_job`.
    Metadata,
    /// The unit is no longer needed.
    Drop,
    /// Host data are lost.
    Lost,
}

/// A block without valid units, and without copies that only an unsaved trim made invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// Erase it, then report [`Operation::Erase`].
    Erase(BlockId, Cause),
    /// The block has failed and was retired; mark it on the media.
    Retire(BlockId),
    /// Empty blocks wait until trims are on the media: continue with `next_map_job`. Nothing more to erase
    /// now.
    AwaitsTrims,
    /// The block holds clean units of a cache. Report their pages ([`Translation::evicted`]); it is erased after that.
    Evict(BlockId),
}

/// Metadata to be programmed or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapJob {
    /// Program metadata; `metadata` gives their content.
    Program {
        /// Planned program.
        plan: Plan,
        /// Units of the superpage.
        units: u32,
        /// Cause of the program.
        cause: Cause,
        /// Units by the reason for which each was wanted.
        by_cause: [u32; Cause::COUNT],
    },
    /// Read a translation page, then report [`Operation::Read`].
    Read {
        /// The page.
        page: MapPage,
        /// Location of the page.
        from: Ppa,
        /// Cause.
        cause: Cause,
    },
    /// Metadata found no space: start GC in every die. Nothing more to do now.
    NeedsSpace,
}

/// Trims that a flush waits for beside data: every one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlushPoint(pub(crate) u64);

/// Reason why a copy is no longer needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outdated {
    /// The successor is on the media.
    Replaced,
    /// The page was trimmed. Until the trim is on the media, a power cut brings the copy back.
    Trimmed,
}

/// No space now. Space comes when a block is erased, or when [`Translation::take_released`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// GC in this die makes the space; `None`: in any.
    pub die: Option<DieId>,
}

/// A flash operation that translation requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A planned program. If it succeeded, the copies that it replaced are invalid. If it failed, the map points back to the old copies,
    /// and the caller places its data again, except metadata and units of a merge.
    Program(ProgramId),
    /// An erase. If it failed, the block is retired.
    Erase(BlockId),
    /// The read of a translation page. Look-ups that need the page must be repeated now. If the read failed, translation rewrites the
    /// page from its own knowledge.
    Read(MapPage),
}

/// Flash that fails early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Marks the die as dead: nothing more is planned there. Programs already planned there end as failed.
    Dead(DieId),
    /// Data of the block could not be read: readable data are moved out, and the block is retired when nothing valid is left.
    Unreadable(BlockId),
    /// The data of the block must be rewritten before they become unreadable.
    Weak(BlockId),
}

/// State that the simulator's caller will access soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soon {
    /// The map entry of a page.
    Lookup(Lpn),
    /// State that the end of a planned program changes.
    End(ProgramId),
}

/// Initial state of translation.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a, S> {
    /// Empty media.
    Empty {
        /// Blocks retired from the start.
        bad: &'a [BlockId],
        /// Initial erase count of all other blocks.
        erases: u32,
    },
    /// Media to be mounted; with [`crate::Durability::Volatile`], nothing on them is kept.
    Mount(&'a S),
    /// Media that were saved on purpose, to be mounted: their content is kept with any durability.
    Restore(&'a S),
}

/// Properties of the caller.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Units per sense of a die: GC moves them together.
    pub sense: Divisor,
    /// The caller uses [`Translation::take_outdated`].
    pub takes_outdated: bool,
}

/// Figures for reports and hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Mapping units the host may use.
    pub user_units: u32,
    /// True if so many blocks are bad that the host's data no longer fit: the drive must refuse writes.
    pub worn_out: bool,
    /// Decisions of translation so far.
    pub counters: FtlCounters,
    /// The SLC cache.
    pub cache: CacheUse,
    /// Bytes of memory that a drive would need for map and block tables, as held here.
    pub memory_bytes: u64,
    /// Bytes of these for the map.
    pub map_bytes: u64,
}

/// Blocks of the SLC cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// All blocks of the cache.
    pub blocks: u32,
    /// Blocks that are not free.
    pub used: u32,
    /// Blocks that can be folded.
    pub full: u32,
}

/// The translation of one drive. Clone it to fork its future.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a namespace has one, and looks pages up in it all the time")]
pub enum Translation {
    /// See [`PageMap`].
    PageMap(PageMap),
    /// See [`SparseMap`].
    SparseMap(SparseMap),
    /// See [`LogBlock`].
    LogBlock(LogBlock),
}

/// Calls the same method of each translation.
macro_rules! each {
    ($self:ident, $it:ident => $call:expr) => {
        match $self {
            Translation::PageMap($it) => $call,
            Translation::SparseMap($it) => $call,
            Translation::LogBlock($it) => $call,
        }
    };
}

/// Reads and writes.
impl Translation {
    /// Location of `lpn`, for an access of the host: it counts as a use of its entry.
    #[inline]
    pub fn lookup(&mut self, lpn: Lpn) -> Located {
        match self {
            Translation::PageMap(it) => it.lookup(lpn),
            Translation::SparseMap(it) => it.lookup(lpn),
            Translation::LogBlock(it) => it.peek(lpn),
        }
    }

    /// Looks up `lpn` for any purpose but a host access; never returns [`Located::NeedsMap`].
    #[inline]
    pub fn peek(&self, lpn: Lpn) -> Located {
        each!(self, it => it.peek(lpn))
    }

    /// End of a range of never-written pages that starts with `lpn`, as far as is known without examining each page; `None`: nothing
    /// is known about `lpn`.
    pub fn untouched_until(&self, lpn: Lpn) -> Option<Lpn> {
        each!(self, it => it.untouched_until(lpn))
    }

    /// Address at which the data of the copy at `ppa` can be read now: `ppa` itself or, until its program has ended, the copy that it
    /// replaces. [`Ppa::NONE`]: the page has no copy on the media yet.
    #[inline]
    pub fn readable(&self, ppa: Ppa) -> Ppa {
        each!(self, it => it.readable(ppa))
    }

    /// Returns the stream of a host write of `lpn` with placement handle `handle`; counts the write. Callers keep a queue for each
    /// stream.
    #[inline]
    pub fn stream(&mut self, lpn: Lpn, handle: u16) -> Stream {
        match self {
            Translation::PageMap(it) => it.stream(lpn, handle),
            Translation::SparseMap(it) => it.stream(lpn, handle),
            Translation::LogBlock(it) => it.stream(lpn),
        }
    }

    /// Returns the result of [`Translation::stream`] without counting; `None`: the stream belongs to log
    /// blocks.
    pub fn next_stream(&self, lpn: Lpn, handle: u16) -> Option<Stream> {
        match self {
            Translation::PageMap(it) => Some(next_stream(it, lpn, handle)),
            Translation::SparseMap(it) => Some(next_stream(it, lpn, handle)),
            Translation::LogBlock(_) => None,
        }
    }

    /// Plans the program of `lpns`, at most a superpage's worth ([`Lpn::NONE`]: a unit that is no longer needed), when their data are
    /// ready. The map points to the new copies at once. `near`: these are GC copies of that die. If a merge is not placed but still
    /// needed, [`Translation::next_gc`] returns it again.
    #[inline]
    pub fn place(&mut self, stream: Stream, near: Option<DieId>, lpns: &[Lpn]) -> Result<Plan, Full> {
        match self {
            Translation::PageMap(it) => it.place(stream, near, lpns).ok_or(Full { die: None }),
            Translation::SparseMap(it) => it.place(stream, near, lpns).ok_or(Full { die: None }),
            Translation::LogBlock(it) => match it.place(stream, lpns) {
                Some(plan) => Ok(plan),
                None => Err(Full { die: it.die_of_stream(stream) }),
            },
        }
    }

    /// Reports that host data were placed, and their program was issued. `true`: a checkpoint is due, go on with
    /// [`Translation::next_map_job`].
    #[inline]
    pub fn checkpoint(&mut self) -> bool {
        match self {
            Translation::PageMap(it) => it.checkpoint(),
            Translation::SparseMap(it) => it.checkpoint(),
            // Nothing is written to shorten a mount, which reads all spare areas.
            Translation::LogBlock(_) => false,
        }
    }

    /// Discards a page.
    pub fn trim(&mut self, lpn: Lpn) {
        each!(self, it => it.trim(lpn));
    }

    /// Reports that a flash operation has ended, well or not.
    #[inline]
    pub fn ended(&mut self, operation: Operation, ok: bool) {
        each!(self, it => it.ended(operation, ok));
    }

    /// Takes the copies invalidated since the last call; none, unless [`Caller::takes_outdated`].
    #[inline]
    pub fn take_outdated(&mut self) -> Option<std::vec::Drain<'_, (Ppa, Outdated)>> {
        each!(self, it => it.take_outdated())
    }

    /// Returns whether, since the last call, space became available for host data that were turned away, although no
    /// block was erased.
    #[inline]
    pub fn take_released(&mut self) -> bool {
        each!(self, it => it.take_released())
    }

    /// Prefetches state that will be accessed soon. It changes nothing but the simulator's own speed.
    #[inline]
    pub fn prefetch(&self, soon: Soon) {
        each!(self, it => it.prefetch(soon));
    }
}

/// GC.
impl Translation {
    /// Returns whether [`Translation::next_gc`] may have work in `die`.
    #[inline]
    pub fn wants_gc(&self, die: DieId, load: Load) -> bool {
        match self {
            Translation::PageMap(it) => it.wants_gc(die, load),
            Translation::SparseMap(it) => it.wants_gc(die, load),
            // It may begin a merge at that call.
            Translation::LogBlock(_) => true,
        }
    }

    /// Sets the time, which translation needs only for the pauses of GC: call it before calls that begin or end the GC of a
    /// victim.
    #[inline]
    pub fn set_now(&mut self, now: SimTime) {
        each!(self, it => it.set_now(now));
    }

    /// The next GC copies of `die`. Callers limit how many are in flight.
    #[inline]
    pub fn next_gc(&mut self, die: DieId, load: Load) -> Option<GcJob<'_>> {
        match self {
            Translation::PageMap(it) => it.next_gc(die, load),
            Translation::SparseMap(it) => it.next_gc(die, load),
            Translation::LogBlock(it) => it.next_gc(die),
        }
    }

    /// Returns whether the copy at `from`, whose spare area names this page, is still needed.
    #[inline]
    pub fn is_current(&self, from: Ppa, named: Option<Lpn>) -> bool {
        each!(self, it => it.is_current(from, named))
    }

    /// Reports that the read of a unit of a [`GcJob`] has ended, and returns the unit's fate. `named`: logical page in its spare area.
    #[inline]
    pub fn arrived(&mut self, moved: &Move, named: Option<Lpn>, arrival: Arrival) -> Arrived {
        match self {
            Translation::PageMap(it) => it.arrived(moved, named, arrival),
            Translation::SparseMap(it) => it.arrived(moved, named, arrival),
            Translation::LogBlock(it) => it.arrived(moved, arrival),
        }
    }

    /// Returns whether GC of `die` rests: no further [`Move`] will follow of its own accord, so that partial superpages
    /// of GC copies should not wait.
    #[inline]
    pub fn gc_rests(&self, die: DieId) -> bool {
        match self {
            Translation::PageMap(it) => it.gc_rests(die),
            Translation::SparseMap(it) => it.gc_rests(die),
            // Nothing moves unit by unit.
            Translation::LogBlock(_) => true,
        }
    }

    /// Returns whether [`Translation::reap`] may have something to do.
    #[inline]
    pub fn may_reap(&self, die: DieId) -> bool {
        each!(self, it => it.may_reap(die))
    }

    /// Returns whether [`Translation::reap`] may have something to do in any die.
    #[inline]
    pub fn may_reap_any(&self) -> bool {
        match self {
            Translation::PageMap(it) => it.blocks().may_be_reaped(),
            Translation::SparseMap(it) => it.blocks().may_be_reaped(),
            Translation::LogBlock(it) => it.may_reap_any(),
        }
    }

    /// Returns whether [`Translation::next_erase`] has a block.
    #[inline]
    pub fn has_emptied(&self) -> bool {
        each!(self, it => it.has_emptied())
    }

    /// Frees, in a die without a free block, blocks that need no copy. Call it before [`Translation::next_gc`].
    #[inline]
    pub fn reap(&mut self, die: DieId) {
        each!(self, it => it.reap(die));
    }

    /// The next block that can be erased, or retired.
    #[inline]
    pub fn next_erase(&mut self) -> Option<Reclaim> {
        each!(self, it => it.next_erase())
    }
}

/// Metadata and flushes.
impl Translation {
    /// The next program or read of metadata.
    #[inline]
    pub fn next_map_job(&mut self) -> Option<MapJob> {
        each!(self, it => it.next_map_job())
    }

    /// Returns whether look-ups or ended programs have left work for [`Translation::next_map_job`].
    #[inline]
    pub fn has_map_work(&self) -> bool {
        each!(self, it => it.has_map_work())
    }

    /// Returns whether translation has neither map work nor events of placement handles for its caller.
    #[inline]
    pub fn is_calm(&self) -> bool {
        each!(self, it => !it.has_map_work() && !it.handles().has_events())
    }

    /// Logical page for the spare area, and content, of a unit of a planned metadata program.
    pub fn metadata(&self, id: ProgramId, position: u32) -> (Lpn, &[u8]) {
        each!(self, it => it.metadata(id, position))
    }

    /// Trims that a flush beginning now waits for beside data.
    pub fn flush_point(&self) -> FlushPoint {
        each!(self, it => it.flush_point())
    }

    /// Requests the writes that a flush waits for ([`Translation::next_map_job`]); returns whether everything up to `point` is on the
    /// media.
    pub fn flush_to(&mut self, point: FlushPoint) -> bool {
        each!(self, it => it.flush_to(point))
    }
}

/// Caches.
impl Translation {
    /// The calls of a cache; `None`: the translation is none.
    #[inline]
    pub fn cache(&mut self) -> Option<CachedPages<'_>> {
        match self {
            Translation::PageMap(_) => None,
            Translation::SparseMap(it) => Some(CachedPages::SparseMap(SparseMapCache::of(it))),
            Translation::LogBlock(it) => it.cache().map(CachedPages::LogBlock),
        }
    }

    /// Begins a checkpoint after the data that a flush waits for are on the media. `true`: a cache writes its table with each flush, and the
    /// flush needs another [`Translation::flush_point`].
    pub fn begin_checkpoint(&mut self) -> bool {
        self.cache().is_some_and(|mut cache| cache.begin_checkpoint())
    }

    /// Drops those of `pages`, the pages of an emptied block's units in order, that are still there ([`Reclaim::Evict`]).
    pub fn evicted(&mut self, block: BlockId, pages: impl Iterator<Item = Option<Lpn>>) {
        self.cache().expect("only a cache asks for the names of pages").evicted(block, pages);
    }

    /// Returns whether there is work for a drive that has been idle for a while: blocks of the SLC cache to fold, or changes of a cache to
    /// write.
    pub fn has_idle_work(&mut self) -> bool {
        match self.cache() {
            Some(cache) => cache.has_changed(),
            None => self.view().cache.full > 0,
        }
    }

    /// Content of the cache; `None`: this translation is no cache.
    pub fn cached(&self) -> Option<Cached> {
        match self {
            Translation::PageMap(_) => None,
            Translation::SparseMap(it) => Some(SparseMapCache::content(it)),
            Translation::LogBlock(it) => it.cached(),
        }
    }

    /// Entry for the spare area of a copy of `lpn`, whose data arrived `dirty` or not.
    #[inline]
    pub fn mark(&self, lpn: Lpn, dirty: bool) -> Lpn {
        each!(self, it => it.mark(lpn, dirty))
    }

    /// Entry for the spare area of a copy that GC or a merge makes of `lpn`.
    #[inline]
    pub fn mark_of_copy(&self, lpn: Lpn) -> Lpn {
        match self {
            Translation::PageMap(_) => lpn,
            // GC of a cache copies dirty units only.
            Translation::SparseMap(it) => it.mark(lpn, true),
            Translation::LogBlock(it) => it.mark_of_copy(lpn),
        }
    }

    /// Page that a spare area with this mark names.
    #[inline]
    pub fn named(&self, mark: Lpn) -> Lpn {
        each!(self, it => it.named(mark))
    }
}

/// Setup, faults, placement handles and reports: rarely called.
impl Translation {
    /// Starts translation on these media; also returns the report of a mount.
    pub fn start<S: MountSource>(
        config: &FtlConfig,
        layout: &Layout,
        caller: Caller,
        from: Start<'_, S>,
    ) -> Result<(Translation, Option<MountReport>), SetupError> {
        Ok(match config.map {
            Map::Page | Map::Demand { .. } => match config.cache {
                None => {
                    let (mut map, report) = PageMap::start(config, layout, from)?;
                    map.serve(caller);
                    (Translation::PageMap(map), report)
                }
                Some(_) => {
                    let (mut map, report) = SparseMap::start(config, layout, from)?;
                    map.serve(caller);
                    (Translation::SparseMap(map), report)
                }
            },
            Map::Bast { .. } | Map::Fast { .. } => {
                let (mut map, report) = LogBlock::start(config, layout, from)?;
                map.serve(caller);
                (Translation::LogBlock(map), report)
            }
        })
    }

    /// Reports failing flash. `false`: that was known, or there is nothing to do.
    pub fn damage(&mut self, damage: Damage) -> bool {
        each!(self, it => it.damage(damage))
    }

    /// The placement handles.
    #[inline]
    pub fn handles(&self) -> &Handles {
        each!(self, it => it.handles())
    }

    /// The placement handles, for taking their events.
    pub fn handles_mut(&mut self) -> &mut Handles {
        each!(self, it => it.handles_mut())
    }

    /// Placement handle of the block that holds `lpn`; 0 if none.
    pub fn owner(&self, lpn: Lpn) -> u16 {
        match self {
            Translation::PageMap(it) => it.owner(lpn),
            Translation::SparseMap(it) => it.owner(lpn),
            Translation::LogBlock(_) => 0,
        }
    }

    /// RUH update: lets `handle` refer to a new reclaim unit.
    pub fn next_unit(&mut self, handle: u16) {
        match self {
            Translation::PageMap(it) => it.next_unit(handle),
            Translation::SparseMap(it) => it.next_unit(handle),
            // Handle 0 has no reclaim unit of its own.
            Translation::LogBlock(_) => {}
        }
    }

    /// Sets whether host data bypass the SLC cache from now on.
    pub fn pass_cache(&mut self, past: bool) {
        match self {
            Translation::PageMap(it) => it.pass_cache(past),
            Translation::SparseMap(it) => it.pass_cache(past),
            Translation::LogBlock(_) => {}
        }
    }

    /// Figures for reports and hosts.
    pub fn view(&self) -> View {
        each!(self, it => it.view())
    }

    /// Erased blocks that are waiting. Called for every interval of a time series, unlike the rest of [`Translation::view`].
    pub fn free_blocks(&self) -> u32 {
        match self {
            Translation::PageMap(it) => it.blocks().free(),
            Translation::SparseMap(it) => it.blocks().free(),
            Translation::LogBlock(it) => it.free_blocks(),
        }
    }

    /// The block as an observer sees it.
    pub fn block_view(&self, block: BlockId) -> BlockView {
        match self {
            Translation::PageMap(it) => it.blocks().view(block),
            Translation::SparseMap(it) => it.blocks().view(block),
            Translation::LogBlock(it) => it.block_view(block),
        }
    }

    /// Sets the counters: to zero, or to those from before a power cut.
    pub fn set_counters(&mut self, counters: FtlCounters) {
        each!(self, it => it.set_counters(counters));
    }

    /// Walks all invariants and panics with the name of any that is broken, including those about the contents of the media. Costs
    /// a walk over the whole drive.
    pub fn check(&self, source: &impl MountSource) {
        each!(self, it => {
            it.check();
            it.check_media(source);
        });
    }
}
