//! Log-block hybrid translation: a block map, and a few log blocks that are mapped by units.
//!
//! A logical block has as many pages as a block has units. It has at most one *data block*, in which page i is at unit i. Host writes go to
//! *log blocks*, superpage by superpage in order of arrival; the newest copy of a page is in a log block, or at its place in the data
//! block. Log blocks are few, so eventually one must be merged with the data blocks of its pages ([`merge`]):
//!
//! ```text
//!  place ─► BAST: the log block of the logical block     ─► program ─► log full, or too many of them ─► evacuate ─► merges ─► erase
//!           FAST: the sequential one, or the oldest's successor
//! ```
//! Such a translation needs little memory: a number for each logical block and for each unit of a log block ([`View::map_bytes`]).
//! The simulator still keeps a full mapping table, as it finds a page in one step; an invariant says that every entry of the table
//! follows from those numbers.
//!
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`Shape`](core::Shape) | description, numbering of logical blocks and trim pages | never changes |
//! | [`Blocks`](blocks::Blocks) | roles and references of blocks; free ones | a block that is free, leaving or bad has no reference |
//! | [`Programs`](programs::Programs) | number of the next program, programs that have not ended | numbers rise |
//! | [`Logs`](logs::Logs), of a die | data blocks, log blocks, the run of sequential writes | a logical block has at most one of either |
//! | [`Merges`](merges::Merges), of a die | evacuations, the merge under way with its sources | one merge at a time |
//! | [`Journal`](journal::Journal), of a die | trim pages with their blocks | a copy that an unsaved trim made invalid keeps its block |
//! | [`Tally`](tally::Tally) | trims, counters, pauses, news for the caller | a block is collected once at most |
//! | [`Contents`](contents::Contents) | of a cache: state and pins of each page | see its head |
//! | [`OutdatedCopies`](crate::outdated) | copies that became invalid and were not taken | none, unless the caller takes them |
//!
//! Each object alone writes its fields. The objects make the [`Core`]. Paths are functions without state: host data (`place`, with the
//! policies `bast` and `fast`), programs (`write`), merges and erases (`merge`), trim pages (`journal`), damage and wear levelling (`damage`),
//! a cache (`cache`), mount (`mount`). [`LogBlock`] only routes.
//!
//! Logical block n belongs to die `n % dies`. Each die has its own log blocks, metadata blocks and merge, so dies share nothing. A dead die
//! loses its logical blocks, and the drive becomes read-only.
//!
//! Invariants: the newest copy on the media of every page has a reference, and a block is erased only when it has none; every copy in use
//! is at its place in a data block, or in a log block that lists it.

mod bast;
mod blocks;
mod cache;
mod check;
mod contents;
mod core;
mod damage;
mod fast;
mod journal;
mod logs;
mod mark;
pub mod merge;
mod merges;
mod mount;
mod place;
mod programs;
mod tally;
mod write;

pub use cache::LogBlockCache;

use self::core::Core;
use crate::cached::Cached;
use crate::config::Map;
use crate::handles::Handles;
use crate::mount::{MountReport, MountSource};
use crate::translation::{
    Arrival, Arrived, Caller, Damage, FlushPoint, GcJob, Located, MapJob, Move, Operation, Outdated, Plan,
    ProgramId, Reclaim, Soon, Start, Stream, View,
};
use crate::{Durability, FtlConfig, FtlCounters, SetupError};
use blocks::Role;
use journal::JournalSizes;
use pellucid_flash::{BlockId, BlockStream, BlockUse, BlockView, DieId, Layout, Lpn, Ppa, SimTime};

/// Policy that chooses the log block of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Bast,
    Fast,
}

/// The log-block translation of one drive.
#[derive(Clone, Debug)]
pub struct LogBlock {
    core: Core,
    /// The handle that every drive has: log blocks keep nothing apart.
    handles: Handles,
}

/// Setup and figures.
impl LogBlock {
    /// Creates translation for empty media on which `bad` blocks are retired from the start.
    pub fn new(config: &FtlConfig, layout: &Layout, bad: &[BlockId]) -> Result<LogBlock, SetupError> {
        let core = Core::new(config, layout, bad)?;
        for die in (0..layout.dies).map(DieId) {
            let (good, needed) =
                (core.blocks.good(die), core.shape.blocks_needed(die, core.shape.reserved_logs()));
            if good < needed {
                return Err(too_few_blocks(&core, die, good, needed));
            }
        }
        Ok(LogBlock { core, handles: Handles::new(1, layout) })
    }

    /// Starts translation on these media; also returns the report of a mount. With [`Durability::Volatile`] a mounted drive starts empty.
    /// Restored media are kept then, too; but such a drive has no record of trimmed pages, so their last copy comes back if it has not been
    /// erased.
    pub fn start<S: MountSource>(
        config: &FtlConfig,
        layout: &Layout,
        from: Start<'_, S>,
    ) -> Result<(LogBlock, Option<MountReport>), SetupError> {
        let (source, keep) = match from {
            Start::Empty { bad, erases } => {
                let mut map = LogBlock::new(config, layout, bad)?;
                (0..layout.blocks).for_each(|block| map.core.blocks.set_erases(BlockId(block), erases));
                return Ok((map, None));
            }
            Start::Mount(source) => (source, config.durability != Durability::Volatile),
            Start::Restore(source) => (source, true),
        };
        let mut core = Core::new(config, layout, &source.bad_blocks(layout))?;
        let report = mount::rebuild(&mut core, source, keep);
        Ok((LogBlock { core, handles: Handles::new(1, layout) }, Some(report)))
    }

    /// Sets the caller to work for from now on.
    pub fn serve(&mut self, caller: Caller) {
        self.core.outdated.set_taken(caller.takes_outdated);
    }

    /// Most host units on a drive of good blocks, and the blocks that each die keeps beside those for data.
    pub fn sizes(config: &FtlConfig, layout: &Layout) -> (u64, u64) {
        let sequential = u64::from(matches!(config.map, Map::Fast { .. }));
        let merges = 2;
        let log_blocks = config.reserved_log_blocks().unwrap_or(0);
        // The address space of a cache is larger than what it holds.
        let logical = |data: u32| match config.cache {
            Some(cache) => cache.address_units.div_ceil(layout.units_per_block).div_ceil(layout.dies),
            None => data.max(1),
        };
        let kept = |data: u32| {
            let metadata = match config.durability {
                Durability::Volatile => 0,
                Durability::Journal { .. } => JournalSizes::new(layout, logical(data)).blocks,
            };
            u64::from(log_blocks) + sequential + merges + u64::from(metadata)
        };
        // Fewer blocks for data never need more for metadata.
        let blocks = layout.blocks_per_die;
        let mut data = u64::from(blocks).saturating_sub(kept(blocks)) as u32;
        while kept(data + 1) + u64::from(data) < u64::from(blocks) {
            data += 1;
        }
        (u64::from(data) * u64::from(layout.dies) * u64::from(layout.units_per_block), kept(data))
    }

    /// Mapping units the host may use.
    pub fn user_units(&self) -> u32 {
        self.core.shape.user_units
    }

    /// Number of streams.
    pub fn streams(&self) -> u32 {
        match self.core.shape.scheme {
            Scheme::Bast => self.core.shape.logical_blocks(),
            Scheme::Fast => self.core.shape.layout.dies * fast::STREAMS,
        }
    }

    /// Figures for reports and hosts.
    pub fn view(&self) -> View {
        let Core { shape, blocks, dies, tally, .. } = &self.core;
        let logs = u64::from(shape.logs_max()) * u64::from(shape.layout.units_per_block);
        // A number for each logical block, and for each unit of a log block.
        let dense = || 4 * dies.iter().map(|die| die.logs.logical_blocks() as u64 + logs).sum::<u64>();
        let map_bytes = if self.core.cache.is_some() { cache::map_bytes(&self.core) } else { dense() };
        View {
            user_units: shape.user_units,
            worn_out: damage::worn_out(&self.core),
            counters: *tally.counters(),
            cache: Default::default(),
            memory_bytes: map_bytes + blocks.memory_bytes(),
            map_bytes,
        }
    }

    /// Sets the counters: to zero, or to what translation had counted before a power cut.
    pub fn set_counters(&mut self, counters: FtlCounters) {
        self.core.tally.set_counters(counters);
    }

    /// The block as an observer sees it. A log block is open until its data leave it.
    pub fn block_view(&self, block: BlockId) -> BlockView {
        let core = &self.core;
        let leaves = || core.die_of(block).merges.evacuates(block);
        let (usage, stream) = match core.blocks.role(block) {
            Role::Free => (BlockUse::Free, BlockStream::None),
            Role::Data(_) => (BlockUse::Full, BlockStream::Host),
            Role::Log if leaves() => (BlockUse::Victim, BlockStream::Log),
            Role::Log => (BlockUse::Open, BlockStream::Log),
            Role::Destination => (BlockUse::Open, BlockStream::Gc),
            Role::Metadata => (BlockUse::Full, BlockStream::Map),
            Role::Leaving | Role::Erasing => (BlockUse::Erasing, BlockStream::None),
            Role::Bad => (BlockUse::Bad, BlockStream::None),
        };
        let units = core.blocks.references(block).min(core.shape.layout.units_per_block);
        BlockView { usage, stream, units, erases: core.blocks.erases(block) }
    }

    /// Free blocks in all.
    #[inline]
    pub fn free_blocks(&self) -> u32 {
        self.core.blocks.free_total()
    }

    /// Bad blocks in all, factory and grown.
    pub fn bad_blocks(&self) -> u32 {
        self.core.blocks.bad()
    }

    /// Erases of `block` so far.
    pub fn erases(&self, block: BlockId) -> u32 {
        self.core.blocks.erases(block)
    }

    /// Returns whether `block` takes data before it is erased again.
    pub fn takes_data(&self, block: BlockId) -> bool {
        match self.core.blocks.role(block) {
            Role::Free | Role::Destination => true,
            Role::Log => self.core.die_of(block).logs.of_block(block).is_some_and(|log| log.is_open()),
            _ => false,
        }
    }

    /// The placement handles: one.
    pub fn handles(&self) -> &Handles {
        &self.handles
    }

    /// The placement handles, for taking their events.
    pub fn handles_mut(&mut self) -> &mut Handles {
        &mut self.handles
    }

    /// Walks every invariant and panics, naming it, where one is broken. Cost: the whole drive.
    pub fn check(&self) {
        check::check(&self.core);
    }

    /// Panics where the media and the table disagree. Cost: the whole drive.
    pub fn check_media(&self, source: &impl MountSource) {
        check::check_media(&self.core, source);
    }
}

/// The calls of [`crate::translation`] that log blocks have work for.
impl LogBlock {
    /// Location of `lpn`.
    #[inline]
    pub fn peek(&self, lpn: Lpn) -> Located {
        match self.core.map.get(lpn) {
            Ppa::NONE => Located::Zero,
            Ppa::LOST => Located::Lost,
            ppa => Located::At(ppa),
        }
    }

    /// See [`Translation::untouched_until`](crate::Translation::untouched_until).
    pub fn untouched_until(&self, lpn: Lpn) -> Option<Lpn> {
        self.core.map.untouched_until(lpn)
    }

    /// Place where the data of the copy at `ppa` can be read now: there, or, until its program has ended, in the copy that it replaces.
    /// [`Ppa::NONE`]: it has none on the media yet.
    #[inline]
    pub fn readable(&self, ppa: Ppa) -> Ppa {
        self.core.readable(ppa)
    }

    /// Prefetches state that will be accessed soon. It changes nothing.
    #[inline]
    pub fn prefetch(&self, soon: Soon) {
        if let Soon::Lookup(lpn) = soon {
            self.core.map.prefetch(lpn);
        }
    }

    /// Returns the stream of a host write of `lpn`; counts the write.
    #[inline]
    pub fn stream(&mut self, lpn: Lpn) -> Stream {
        place::stream(&mut self.core, lpn)
    }

    /// The die whose merges make space for a stream.
    pub fn die_of_stream(&self, stream: Stream) -> Option<DieId> {
        place::die_of_stream(&self.core, stream)
    }

    /// Binds a destination for data of one stream, at most a superpage of them ([`Lpn::NONE`] for units that lost their page
    /// meanwhile). `None`: no space now; a merge has to end first. For units of a merge, see [`GcJob::Copy`].
    ///
    /// # Panics
    /// With a stream that this translation did not return.
    pub fn place(&mut self, stream: Stream, lpns: &[Lpn]) -> Option<Plan> {
        place::place(&mut self.core, stream, lpns)
    }

    /// Discards a page. Its old copy is invalid at once, but its block is not erased before the trim is on the media.
    pub fn trim(&mut self, lpn: Lpn) {
        journal::trim(&mut self.core, lpn);
    }

    /// Records that a flash operation has ended. No translation page is read: all of the map is in memory.
    #[inline]
    pub fn ended(&mut self, operation: Operation, ok: bool) {
        match operation {
            Operation::Program(id) => write::ended(&mut self.core, id, ok),
            Operation::Erase(block) => merge::erase_ended(&mut self.core, block, ok),
            Operation::Read(_) => {}
        }
    }

    /// Takes the copies that became invalid since the last call, with the reason.
    #[inline]
    pub fn take_outdated(&mut self) -> Option<std::vec::Drain<'_, (Ppa, Outdated)>> {
        self.core.outdated.take()
    }

    /// Returns whether space may have come, since the last call, for host writes that were turned away.
    #[inline]
    pub fn take_released(&mut self) -> bool {
        self.core.tally.take_released()
    }

    /// Tells the time, which translation needs for the pauses of GC alone.
    #[inline]
    pub fn set_now(&mut self, now: SimTime) {
        self.core.tally.set_now(now);
    }

    /// Returns whether [`LogBlock::next_gc`] has work.
    #[inline]
    pub fn wants_gc(&self, die: DieId) -> bool {
        let state = self.core.die(die);
        !state.is_dead() && (state.merges.current().is_some() || state.merges.has_evacuations())
    }

    /// The next superpage to copy in `die`.
    pub fn next_gc(&mut self, die: DieId) -> Option<GcJob<'_>> {
        merge::next_gc(&mut self.core, die)
    }

    /// Returns whether the copy at `from`, whose spare area names this page, is still needed. Without a spare area it is unreadable, or
    /// replaced and erased.
    #[inline]
    pub fn is_current(&self, from: Ppa, named: Option<Lpn>) -> bool {
        named.is_none_or(|mark| {
            let lpn = self.named(mark);
            lpn.0 < self.core.shape.user_units && self.core.map.get(lpn) == from
        })
    }

    /// Records that the read of a source has ended.
    ///
    /// # Panics
    /// When the source belongs to no merge.
    pub fn arrived(&mut self, moved: &Move, arrival: Arrival) -> Arrived {
        merge::arrived(&mut self.core, moved, arrival)
    }

    /// Returns whether [`LogBlock::reap`] has something to do.
    pub fn may_reap(&self, die: DieId) -> bool {
        self.core.die(die).merges.has_evacuations()
    }

    /// Returns whether [`LogBlock::reap`] has something to do in any die.
    pub fn may_reap_any(&self) -> bool {
        self.core.dies.iter().any(|die| die.merges.has_evacuations())
    }

    /// Continues merges that need no copy.
    pub fn reap(&mut self, die: DieId) {
        if self.may_reap(die) {
            merge::step(&mut self.core, die);
        }
    }

    /// Returns whether [`LogBlock::next_erase`] may have a block.
    pub fn has_emptied(&self) -> bool {
        !self.core.blocks.leaving().is_empty()
    }

    /// The next block to be erased, or retired.
    pub fn next_erase(&mut self) -> Option<Reclaim> {
        merge::next_erase(&mut self.core)
    }

    /// Reports failing flash. `false`: that was known, or there is nothing to do.
    pub fn damage(&mut self, damage: Damage) -> bool {
        match damage {
            Damage::Dead(die) => damage::kill_die(&mut self.core, die),
            Damage::Unreadable(block) => damage::retire_block(&mut self.core, block),
            Damage::Weak(block) => damage::refresh_block(&mut self.core, block),
        }
    }

    /// Returns the next metadata to be programmed. Called after every change.
    pub fn next_map_job(&mut self) -> Option<MapJob> {
        journal::next_map_job(&mut self.core)
    }

    /// Returns whether [`LogBlock::next_map_job`] may have work.
    #[inline]
    pub fn has_map_work(&self) -> bool {
        self.core.tally.has_map_jobs()
    }

    /// Logical page for the spare area, and content, of a unit of a planned metadata program.
    ///
    /// # Panics
    /// When no such program is planned.
    pub fn metadata(&self, id: ProgramId, position: u32) -> (Lpn, &[u8]) {
        journal::metadata(&self.core, id, position)
    }

    /// Trims that a flush waits for beside data: those so far.
    pub fn flush_point(&self) -> FlushPoint {
        FlushPoint(self.core.tally.trims())
    }

    /// Returns whether everything before `point` is on the media. If not, [`LogBlock::next_map_job`] returns the metadata to write.
    pub fn flush_to(&mut self, point: FlushPoint) -> bool {
        journal::flush_to(&mut self.core, point)
    }
}

/// The translation as a solid-state cache.
impl LogBlock {
    /// The calls of a cache; `None`: the drive is none.
    #[inline]
    pub fn cache(&mut self) -> Option<LogBlockCache<'_>> {
        LogBlockCache::of(&mut self.core)
    }

    /// Content of the cache; `None`: the drive is none.
    pub fn cached(&self) -> Option<Cached> {
        cache::cached(&self.core)
    }

    /// Entry for the spare area of a copy of `lpn`, whose data arrived `dirty` or not.
    #[inline]
    pub fn mark(&self, lpn: Lpn, dirty: bool) -> Lpn {
        cache::mark(&self.core, lpn, dirty)
    }

    /// Entry for the spare area of a copy that a merge makes of `lpn`.
    #[inline]
    pub fn mark_of_copy(&self, lpn: Lpn) -> Lpn {
        cache::mark_of_copy(&self.core, lpn)
    }

    /// Page that a spare area with this mark names.
    #[inline]
    pub fn named(&self, mark: Lpn) -> Lpn {
        cache::named(&self.core, mark)
    }
}

fn too_few_blocks(core: &Core, die: DieId, good: u32, needed: u32) -> SetupError {
    let (shape, layout) = (&core.shape, &core.shape.layout);
    let least = shape.blocks_needed(die, 1);
    let data = shape.data_blocks_of(die);
    SetupError::TooFewBlocks {
        die: die.0,
        good_blocks: good,
        data_blocks: data,
        other_blocks: needed - data,
        log_blocks_max: (good + 1).saturating_sub(least),
        user_units_max: u64::from(good.saturating_sub(needed - data))
            * u64::from(layout.units_per_block)
            * u64::from(layout.dies),
    }
}
