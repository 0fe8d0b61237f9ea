//! Log-block hybrid translation: a block map, and a few log blocks that are mapped by units.
//!
//! A logical block has as many pages as a block has units. It has at most one *data block*, in which page i lies at unit i. Host writes
//! go to *log blocks*, superpage by superpage in the order of arrival; the newest copy of a page is in a log block, or at its place in
//! the data block. Log blocks are few, so eventually one has to be merged with the data blocks of its pages ([`merge`]):
//!
//! ```text
//!  place ─► BAST: the log block of the logical block     ─► program ─► log full, or too many of them ─► evacuate ─► merges ─► erase
//!           FAST: the sequential one, or the oldest's successor
//! ```
//! Such a translation needs little memory: a number for each logical block and for each unit of a log block ([`LogBlock::memory_bytes`]).
//! The simulator still keeps a full mapping table, as it finds a page in one step; an invariant says that every entry of the table
//! follows from those numbers.
//!
//! | file | job |
//! |---|---|
//! | `mod.rs` | logical blocks, data and log blocks, the space that a drive needs |
//! | `bast.rs`, `fast.rs` | the policies: which log block takes a write, which one is merged away |
//! | `merge.rs` | evacuations and merges |
//! | `programs.rs` | programs under way, what they replace, and failures |
//! | `blocks.rs` | roles and references of blocks; free ones |
//! | `journal.rs` | trims and losses that survive a power cut |
//! | `mark.rs`, `mount.rs` | spare areas; what a mount makes of them |
//! | `damage.rs`, `check.rs` | damage and wear levelling; invariants |
//! | `surface.rs` | calls that other translations have work for |
//!
//! Logical block n belongs to die `n % dies`. Each die has log blocks, metadata blocks and a merge of its own, so dies share nothing. A die
//! whose flash is dead loses its logical blocks, and the drive is read-only from then on.
//!
//! Invariants: the newest copy on the media of every page has a reference, and a block is erased only when it has none; every copy of a
//! page that is in use lies in a data block at its place, or in a log block that lists it.

mod bast;
mod blocks;
mod check;
mod damage;
mod fast;
mod journal;
mod mark;
pub mod merge;
mod mount;
mod programs;
mod surface;

use crate::config::Map;
use crate::handles::Handles;
use crate::mapping_table::L2p;
use crate::translation::{Located, Outdated, Plan, Reclaim, Stream};
use crate::{Durability, FtlConfig};
use crate::{FtlCounters, SetupError};
use blocks::{Blocks, Role};
use journal::{Journal, JournalSizes};
use mark::Kind;
use merge::{Evacuation, Merge};
use pellucid_flash::{BlockId, BlockStream, BlockUse, BlockView, DieId, Layout, Lpn, Ppa, SimTime};
use programs::Programs;
use std::collections::VecDeque;

/// Age, in sequence numbers, beyond which a block is not written on: the numbers of its superpages count from its first, in 32 bits.
const BLOCK_SEQUENCES: u64 = 1 << 31;

/// Policy that chooses the log block of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Bast,
    Fast,
}

/// A log block.
#[derive(Clone, Debug)]
struct Log {
    block: BlockId,
    /// The logical block to which all of it belongs; `None`: any.
    owner: Option<u32>,
    /// The next superpage.
    next: u32,
    /// The log block takes more data, as far as it has space.
    open: bool,
    /// Every page in the log block lies at its place.
    in_place: bool,
    /// Sequence numbers: of its first superpage, and of the last one that a host wrote.
    began: u64,
    used_at: u64,
    /// The page of each unit.
    pages: Vec<Lpn>,
}

/// State of one die.
#[derive(Clone, Debug)]
struct Die {
    /// The data block of each of its logical blocks.
    data: Vec<BlockId>,
    /// Log blocks, the oldest first.
    logs: Vec<Log>,
    run: fast::Run,
    evacuations: VecDeque<Evacuation>,
    merge: Option<Merge>,
    /// Former address of each page of the merge; `sources`: those of the superpage that is being read.
    from: Vec<Ppa>,
    sources: Vec<Ppa>,
    journal: Journal,
    /// A merge has no block for its destination, and none will come back.
    starved: bool,
    dead: bool,
}

impl Die {
    /// The log block of logical block `lbn` alone.
    fn owned(&self, lbn: u32) -> Option<usize> {
        self.logs.iter().position(|log| log.owner == Some(lbn))
    }
}

const NO_BLOCK: BlockId = BlockId(u32::MAX);

/// The log-block translation of one drive.
#[derive(Clone, Debug)]
pub struct LogBlock {
    scheme: Scheme,
    /// Log blocks per die; FAST adds a sequential one.
    log_blocks: u32,
    config: FtlConfig,
    layout: Layout,
    user_units: u32,
    map: L2p,
    blocks: Blocks,
    dies: Vec<Die>,
    programs: Programs,
    sequence: u64,
    journal: Option<JournalSizes>,
    /// Trims and losses so far.
    trims: u64,
    /// Number of the last trim or loss to be written to the media.
    save_to: u64,
    /// There may be metadata to be programmed.
    map_jobs: bool,
    /// Space may have come for host writes.
    released: bool,
    /// Copies that became invalid and were not taken, if the caller takes them.
    outdated: Vec<(Ppa, Outdated)>,
    names_outdated: bool,
    /// The handle that every drive has: log blocks keep nothing apart.
    handles: Handles,
    /// Page lists of former log blocks, for reuse.
    lists: Vec<Vec<Lpn>>,
    counters: FtlCounters,
    /// The caller's time.
    now: SimTime,
    /// Blocks whose data are to leave them, or have left, until they are erased or retired; each since when.
    collecting: Vec<(BlockId, SimTime)>,
}

impl LogBlock {
    /// Creates translation for empty media on which `bad` blocks are retired from the start.
    pub fn new(config: &FtlConfig, layout: &Layout, bad: &[BlockId]) -> Result<LogBlock, SetupError> {
        let map = LogBlock::new_worn(config, layout, bad)?;
        for die in (0..layout.dies).map(DieId) {
            let (good, needed) = (map.blocks.good(die), map.blocks_needed(die, map.log_blocks));
            if good < needed {
                return Err(map.too_few_blocks(die, good, needed));
            }
        }
        Ok(map)
    }

    fn too_few_blocks(&self, die: DieId, good: u32, needed: u32) -> SetupError {
        let least = self.blocks_needed(die, 1);
        let logical = self.logical_blocks_of(die);
        SetupError::TooFewBlocks {
            die: die.0,
            good_blocks: good,
            data_blocks: logical,
            other_blocks: needed - logical,
            log_blocks_max: (good + 1).saturating_sub(least),
            user_units_max: u64::from(good.saturating_sub(needed - logical))
                * u64::from(self.layout.units_per_block)
                * u64::from(self.layout.dies),
        }
    }

    /// Creates translation, as [`LogBlock::new`], for a drive in use, which may have lost blocks since.
    fn new_worn(config: &FtlConfig, layout: &Layout, bad: &[BlockId]) -> Result<LogBlock, SetupError> {
        let (scheme, log_blocks) = match config.map {
            Map::Bast { log_blocks } => (Scheme::Bast, log_blocks),
            Map::Fast { log_blocks } => (Scheme::Fast, log_blocks),
            other => unreachable!("{other:?} has no log blocks"),
        };
        let wanted = config.user_units(layout);
        if wanted == 0 || wanted > u64::from(layout.units) {
            return Err(SetupError::TooLittleSpare {
                physical_units: layout.units.into(),
                user_units: wanted,
                needed_units: 0,
            });
        }
        let user_units = wanted as u32;
        let logical_blocks = user_units.div_ceil(layout.units_per_block);
        let per_die = logical_blocks.div_ceil(layout.dies);
        let journal = (config.durability != Durability::Volatile).then(|| JournalSizes::new(layout, per_die));
        let die = Die {
            data: vec![NO_BLOCK; per_die as usize],
            logs: Vec::new(),
            run: fast::Run::default(),
            evacuations: VecDeque::new(),
            merge: None,
            from: Vec::new(),
            sources: Vec::new(),
            journal: Journal::new(journal.map_or(0, |sizes| sizes.pages)),
            starved: false,
            dead: false,
        };
        Ok(LogBlock {
            scheme,
            log_blocks: log_blocks.max(1),
            config: config.clone(),
            layout: layout.clone(),
            user_units,
            map: L2p::new(user_units)?,
            blocks: Blocks::new(layout, bad, config.wear.dynamic),
            dies: vec![die; layout.dies as usize],
            programs: Programs::new(layout.units_per_superpage),
            sequence: 1,
            journal,
            trims: 0,
            save_to: 0,
            map_jobs: false,
            released: false,
            outdated: Vec::new(),
            names_outdated: false,
            handles: Handles::new(1, layout),
            lists: Vec::new(),
            counters: FtlCounters::default(),
            now: SimTime::ZERO,
            collecting: Vec::new(),
        })
    }

    /// Most host units on a drive of good blocks, and the blocks that each die keeps beside those for data.
    pub fn sizes(config: &FtlConfig, layout: &Layout) -> (u64, u64) {
        let sequential = u64::from(matches!(config.map, Map::Fast { .. }));
        let merges = 2;
        let kept = |data: u32| {
            let metadata = match config.durability {
                Durability::Volatile => 0,
                Durability::Journal { .. } => JournalSizes::new(layout, data.max(1)).blocks,
            };
            u64::from(config.map.log_blocks().unwrap_or(0)) + sequential + merges + u64::from(metadata)
        };
        // Fewer blocks for data never need more for metadata.
        let blocks = layout.blocks_per_die;
        let mut data = u64::from(blocks).saturating_sub(kept(blocks)) as u32;
        while kept(data + 1) + u64::from(data) < u64::from(blocks) {
            data += 1;
        }
        (u64::from(data) * u64::from(layout.dies) * u64::from(layout.units_per_block), kept(data))
    }

    /// Blocks that `die` needs with `log_blocks` log blocks: those for data, a sequential log block, the destination of a merge, a
    /// replacement should it fail, and metadata.
    fn blocks_needed(&self, die: DieId, log_blocks: u32) -> u32 {
        let sequential = u32::from(self.scheme == Scheme::Fast);
        self.least_blocks(die) + 1 + log_blocks + sequential
    }

    /// Blocks that `die` needs without log blocks, and without a replacement for a destination that fails.
    fn least_blocks(&self, die: DieId) -> u32 {
        self.logical_blocks_of(die) + 1 + self.journal.map_or(0, |sizes| sizes.blocks)
    }

    fn logical_blocks_of(&self, die: DieId) -> u32 {
        let blocks = self.user_units.div_ceil(self.layout.units_per_block);
        blocks.saturating_sub(die.0).div_ceil(self.layout.dies)
    }

    /// Free blocks that metadata may still need.
    fn metadata_reserve(&self, die: DieId) -> u32 {
        let in_use = self.dies[die.0 as usize].journal.blocks_in_use();
        self.journal.map_or(0, |sizes| sizes.blocks.saturating_sub(in_use))
    }

    /// Logical block of a page, and its number there.
    #[inline]
    fn lbn(&self, lpn: Lpn) -> (u32, u32) {
        self.layout.split.units_per_block.div_rem(lpn.0)
    }

    #[inline]
    fn lpn(&self, lbn: u32, at: u32) -> Lpn {
        Lpn(lbn * self.layout.units_per_block + at)
    }

    /// Pages of a logical block; the last one may have fewer than the others.
    fn pages_of(&self, lbn: u32) -> u32 {
        (self.user_units - lbn * self.layout.units_per_block).min(self.layout.units_per_block)
    }

    fn die_of_lbn(&self, lbn: u32) -> DieId {
        DieId(lbn % self.layout.dies)
    }

    fn data_block(&self, lbn: u32) -> Option<BlockId> {
        let die = &self.dies[(lbn % self.layout.dies) as usize];
        Some(die.data[(lbn / self.layout.dies) as usize]).filter(|&block| block != NO_BLOCK)
    }

    fn set_data_block(&mut self, lbn: u32, block: Option<BlockId>) {
        let die = &mut self.dies[(lbn % self.layout.dies) as usize];
        die.data[(lbn / self.layout.dies) as usize] = block.unwrap_or(NO_BLOCK);
    }

    /// Mapping units the host may use.
    pub fn user_units(&self) -> u32 {
        self.user_units
    }

    /// Location of `lpn`.
    #[inline]
    pub fn lookup(&mut self, lpn: Lpn) -> Located {
        self.peek(lpn)
    }

    /// Looks up `lpn` without counting as a use.
    #[inline]
    pub fn peek(&self, lpn: Lpn) -> Located {
        match self.map.get(lpn) {
            Ppa::NONE => Located::Zero,
            Ppa::LOST => Located::Lost,
            ppa => Located::At(ppa),
        }
    }

    /// See [`Translation::untouched_until`](crate::Translation::untouched_until).
    pub fn untouched_until(&self, lpn: Lpn) -> Option<Lpn> {
        self.map.untouched_until(lpn)
    }

    /// Prefetches the map entry of `lpn`, for the simulator's speed.
    #[inline]
    pub fn prefetch(&self, lpn: Lpn) {
        self.map.prefetch(lpn);
    }

    /// Returns the stream of a host write of `lpn`; counts the write.
    #[inline]
    pub fn stream(&mut self, lpn: Lpn, _handle: u16) -> Stream {
        Stream::Log(match self.scheme {
            Scheme::Bast => self.lbn(lpn).0,
            Scheme::Fast => self.stream_fast(lpn),
        })
    }

    /// Number of streams.
    pub fn streams(&self) -> u32 {
        match self.scheme {
            Scheme::Bast => self.user_units.div_ceil(self.layout.units_per_block),
            Scheme::Fast => self.layout.dies * fast::STREAMS,
        }
    }

    /// The die whose merges make space for a stream.
    pub fn die_of_stream(&self, stream: Stream) -> Option<DieId> {
        match (stream, self.scheme) {
            (Stream::Log(group), Scheme::Bast) => Some(self.die_of_lbn(group)),
            (Stream::Log(group), Scheme::Fast) => Some(DieId(group / fast::STREAMS)),
            _ => None,
        }
    }

    /// Binds a destination for data of one stream, at most a superpage of them ([`Lpn::NONE`] for units that lost their page
    /// meanwhile). `None`: no space now; a merge has to end first. For units of a merge, see [`GcJob::Copy`].
    ///
    /// # Panics
    /// With a stream that this translation did not return.
    pub fn place(&mut self, stream: Stream, lpns: &[Lpn]) -> Option<Plan> {
        debug_assert!(!lpns.is_empty() && lpns.len() <= self.layout.units_per_superpage as usize);
        match (stream, self.scheme) {
            (Stream::Log(lbn), Scheme::Bast) => self.place_bast(lbn, lpns),
            (Stream::Log(group), Scheme::Fast) => self.place_fast(group, lpns),
            (Stream::Merge(copy), _) => self.place_copy(copy, lpns),
            _ => panic!("{stream:?} is no stream of log blocks"),
        }
    }

    /// Returns whether a log block takes another superpage. Closes one that was begun too long ago.
    fn takes_more(&mut self, die: DieId, log: usize) -> bool {
        let (sequence, superpages) = (self.sequence, self.layout.superpages_per_block);
        let state = &mut self.dies[die.0 as usize];
        let log = &mut state.logs[log];
        log.open &= sequence - log.began < BLOCK_SEQUENCES;
        log.open && log.next < superpages && !state.dead
    }

    /// Opens a log block of `die`, if that leaves the free blocks that a merge and metadata need. Returns its position among the log
    /// blocks.
    fn open_log(&mut self, die: DieId, owner: Option<u32>) -> Option<usize> {
        let full = |merge: &Merge| self.blocks.role(merge.target) == Role::Destination;
        let state = &self.dies[die.0 as usize];
        let destination = u32::from(!state.merge.as_ref().is_some_and(full));
        // With one log block a drive that has lost blocks still works.
        let in_its_place = u32::from(!state.logs.is_empty());
        let kept = self.metadata_reserve(die) + destination + in_its_place;
        if state.dead || self.blocks.free(die) <= kept {
            return None;
        }
        let block = self.blocks.take(die, Role::Log, false)?;
        let pages = self.lists.pop().unwrap_or_default();
        let (began, used_at) = (self.sequence, self.sequence);
        let log = Log { block, owner, next: 0, open: true, in_place: owner.is_some(), began, used_at, pages };
        let logs = &mut self.dies[die.0 as usize].logs;
        logs.push(log);
        Some(logs.len() - 1)
    }

    /// Plans the next superpage of a log block.
    fn append(&mut self, die: DieId, log: usize, lpns: &[Lpn]) -> Plan {
        let Log { block, next, owner, .. } = self.dies[die.0 as usize].logs[log];
        self.dies[die.0 as usize].logs[log].used_at = self.sequence;
        self.log_grew(die, block, lpns);
        let kind = if owner.is_some() { Kind::Owned } else { Kind::Random };
        self.plan_host(block, next, kind, lpns)
    }

    /// Appends `lpns` to a log block as its next superpage.
    fn log_grew(&mut self, die: DieId, block: BlockId, lpns: &[Lpn]) {
        let (per_block, per_superpage) = (self.layout.units_per_block, self.layout.units_per_superpage);
        let logs = &mut self.dies[die.0 as usize].logs;
        let Some(log) = logs.iter_mut().find(|log| log.block == block) else { return };
        if let Some(owner) = log.owner {
            let first = owner * per_block + log.next * per_superpage;
            let at_place = |(place, lpn): (u32, &Lpn)| *lpn == Lpn::NONE || lpn.0 == place;
            log.in_place &= (first..).zip(lpns).all(at_place);
        }
        log.next += 1;
        log.pages.extend_from_slice(lpns);
        log.pages.resize((log.next * per_superpage) as usize, Lpn::NONE);
    }

    /// Closes a log block: it takes no more host data.
    fn close_log(&mut self, block: BlockId) {
        let logs = &mut self.dies[self.layout.die_of_block(block).0 as usize].logs;
        if let Some(log) = logs.iter_mut().find(|log| log.block == block) {
            log.open = false;
        }
    }

    fn remove_log(&mut self, die: DieId, block: BlockId) {
        let logs = &mut self.dies[die.0 as usize].logs;
        if let Some(at) = logs.iter().position(|log| log.block == block) {
            let mut pages = logs.remove(at).pages;
            pages.clear();
            self.lists.push(pages);
        }
    }

    /// Requests the merge of a log block, because host data need its place.
    fn want_merge(&mut self, block: BlockId) {
        let die = self.layout.die_of_block(block);
        let waiting = |cause| matches!(cause, pellucid_flash::Cause::Gc);
        let state = &self.dies[die.0 as usize];
        // One at a time: the next is requested when this one was not enough.
        if !state.dead && !state.evacuations.iter().any(|evacuation| waiting(evacuation.cause())) {
            self.evacuate(block, pellucid_flash::Cause::Gc);
        }
    }

    /// Returns whether [`LogBlock::next_erase`] may have a block.
    pub fn has_emptied(&self) -> bool {
        !self.blocks.leaving().is_empty()
    }

    /// The next block to be erased, or retired.
    pub fn next_erase(&mut self) -> Option<Reclaim> {
        let mut awaits_trims = false;
        let waiting = self.blocks.leaving().iter().position(|&block| {
            let state = &self.dies[self.layout.die_of_block(block).0 as usize];
            let saved = self.blocks.last_trim(block) < state.journal.saved_before();
            awaits_trims |= !saved && !state.dead;
            saved || state.dead
        });
        if let Some(at) = waiting {
            let block = self.blocks.leaving()[at];
            if self.blocks.failed(block) {
                self.counters.grown_bad += 1;
                self.collected(block);
                return Some(Reclaim::Retire(self.blocks.retire_leaving(at)));
            }
            let (block, cause, merge) = self.blocks.erase(at);
            if let Some(kind) = merge {
                self.counters.merges[kind as usize].erases += 1;
            }
            self.counters.refreshed += u64::from(cause == pellucid_flash::Cause::Refresh);
            return Some(Reclaim::Erase(block, cause));
        }
        if !awaits_trims {
            return None;
        }
        (self.save_to, self.map_jobs) = (self.trims, true);
        Some(Reclaim::AwaitsTrims)
    }

    /// Tells the time, which translation needs for the pauses of GC alone.
    #[inline]
    pub fn set_now(&mut self, now: SimTime) {
        self.now = now;
    }

    /// Records that the data of a block are to leave it, if that is new.
    fn collects(&mut self, block: BlockId) {
        if !self.collecting.iter().any(|&(other, _)| other == block) {
            self.collecting.push((block, self.now));
        }
    }

    /// Records that a block is free or retired: its pause has ended, if it had one.
    fn collected(&mut self, block: BlockId) {
        if let Some(at) = self.collecting.iter().position(|&(other, _)| other == block) {
            let (_, since) = self.collecting.swap_remove(at);
            self.counters.pauses.record(self.now.since(since));
        }
    }

    /// Records that the erase of a block has ended. If it failed, the block is retired.
    pub fn erase_ended(&mut self, block: BlockId, ok: bool) {
        let die = self.layout.die_of_block(block);
        self.blocks.erased(block, ok);
        self.collected(block);
        self.counters.grown_bad += u64::from(!ok);
        (self.released, self.map_jobs) = (true, true);
        self.level_wear(die);
        self.step(die);
    }

    /// Returns whether space may have come, since the last call, for host writes that were turned away.
    #[inline]
    pub fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.released)
    }

    /// Takes the copies that became invalid since the last call, with the reason.
    #[inline]
    pub fn take_outdated(&mut self) -> Option<std::vec::Drain<'_, (Ppa, Outdated)>> {
        if self.outdated.is_empty() { None } else { Some(self.outdated.drain(..)) }
    }

    /// The block as an observer sees it. A log block is open until its data leave it.
    pub fn block_view(&self, block: BlockId) -> BlockView {
        let leaves = || {
            let die = &self.dies[self.layout.die_of_block(block).0 as usize];
            die.evacuations.iter().any(|evacuation| evacuation.block == block)
        };
        let (usage, stream) = match self.blocks.role(block) {
            Role::Free => (BlockUse::Free, BlockStream::None),
            Role::Data(_) => (BlockUse::Full, BlockStream::Host),
            Role::Log if leaves() => (BlockUse::Victim, BlockStream::Log),
            Role::Log => (BlockUse::Open, BlockStream::Log),
            Role::Destination => (BlockUse::Open, BlockStream::Gc),
            Role::Metadata => (BlockUse::Full, BlockStream::Map),
            Role::Leaving | Role::Erasing => (BlockUse::Erasing, BlockStream::None),
            Role::Bad => (BlockUse::Bad, BlockStream::None),
        };
        let units = self.blocks.references(block).min(self.layout.units_per_block);
        BlockView { usage, stream, units, erases: self.blocks.erases(block) }
    }

    /// Free blocks in all.
    #[inline]
    pub fn free_blocks(&self) -> u32 {
        self.blocks.free_total()
    }

    /// Bad blocks in all, factory and grown.
    pub fn bad_blocks(&self) -> u32 {
        self.blocks.bad()
    }

    /// Erases of `block` so far.
    pub fn erases(&self, block: BlockId) -> u32 {
        self.blocks.erases(block)
    }

    /// Returns whether `block` takes data before it is erased again.
    pub fn takes_data(&self, block: BlockId) -> bool {
        let open = |die: &Die| die.logs.iter().any(|log| log.block == block && log.open);
        match self.blocks.role(block) {
            Role::Free | Role::Destination => true,
            Role::Log => open(&self.dies[self.layout.die_of_block(block).0 as usize]),
            _ => false,
        }
    }

    /// Decisions of translation so far.
    pub fn counters(&self) -> FtlCounters {
        self.counters
    }

    /// Sets the counters: to zero, or to what translation had counted before a power cut.
    pub fn set_counters(&mut self, counters: FtlCounters) {
        self.counters = counters;
    }

    /// Bytes of memory that a drive would need: a number for each logical block and each unit of a log block, and the tables of
    /// blocks.
    pub fn memory_bytes(&self) -> u64 {
        self.map_memory_bytes() + self.blocks.memory_bytes()
    }

    /// Bytes of memory that a drive would need for the numbers of logical blocks and units of log blocks.
    pub fn map_memory_bytes(&self) -> u64 {
        let numbers = |die: &Die| {
            let logs = self.log_blocks + u32::from(self.scheme == Scheme::Fast);
            die.data.len() as u64 + u64::from(logs) * u64::from(self.layout.units_per_block)
        };
        4 * self.dies.iter().map(numbers).sum::<u64>()
    }
}
