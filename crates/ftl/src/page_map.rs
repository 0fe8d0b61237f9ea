//! The page map: any page may lie anywhere. For drives that can hold a map of all pages.
//!
//! ```text
//!   MappingTable       where each page lies, which copies are valid           mapping_table.rs
//!   BlockManager       free, open, closed, retired; wear; valid counts        block_manager.rs
//!   Gc                 which block is emptied next: copies and erases         gc.rs, victim.rs, pace.rs; page_map/collect.rs
//!   TranslationPages   the part of the table that is written to the media     translation_pages.rs, map_writes.rs
//!   MapCache           what of it is in memory, with the map in flash         demand.rs, page_map/map_cache.rs
//! ```
//! `PageMap` routes between them and holds the shared state: the place of the next superpage (`page_map/place.rs`) and the programs that
//! have not ended (`page_map/programs.rs`). `page_map/lists.rs` writes further metadata of a cache. Its calls are those of
//! [`crate::translation`].

mod cache;
mod collect;
mod full;
mod lists;
mod map_cache;
mod place;
mod programs;
mod sparse;

use map_cache::MapCache;
pub use map_cache::MapCounters;
use programs::Programs;
pub(crate) use programs::Settled;
pub use sparse::Cached;
pub(crate) use sparse::Found;

use crate::block_manager::{BlockManager, BlockState};
use crate::gc::Gc;
use crate::handles::Handles;
use crate::log_block::merge::{MergeCounters, MergeKind};
use crate::mapping_table::MappingTable;
use crate::sparse::SparseTable;
use crate::temperature::Temperature;
use crate::translation::{Caller, Located, Outdated, Stream};
use crate::translation_pages::TranslationPages;
use crate::{Durability, FtlConfig, Separation, Victim};
use pellucid_flash::{BlockId, BlockStream, BlockView, Cause, DieId, Layout, Lpn, Pauses, Ppa, Rng, SimTime};

impl Stream {
    /// Place of the stream's open block among those of a die: six fixed ones, then two for each handle from 1.
    #[inline]
    pub(crate) const fn place(self) -> usize {
        match self {
            Stream::Host => 0,
            Stream::HostCold => 1,
            Stream::Gc => 2,
            Stream::Worn => 3,
            Stream::Meta | Stream::MetaMoved => 4,
            Stream::Cached => 5,
            Stream::Placed(handle) => 4 + 2 * handle as usize,
            Stream::PlacedGc(handle) => 5 + 2 * handle as usize,
            Stream::Log(_) | Stream::Merge(_) => panic!("a page map has no log blocks"),
        }
    }

    /// The stream as observers name it.
    pub(crate) const fn observed(self) -> BlockStream {
        match self {
            Stream::Host => BlockStream::Host,
            Stream::HostCold => BlockStream::HostCold,
            Stream::Gc | Stream::PlacedGc(_) | Stream::Merge(_) => BlockStream::Gc,
            Stream::Worn => BlockStream::Worn,
            Stream::Meta | Stream::MetaMoved => BlockStream::Map,
            Stream::Cached => BlockStream::Cache,
            Stream::Placed(handle) => BlockStream::Handle(handle),
            Stream::Log(_) => BlockStream::Log,
        }
    }

    /// Places of a die with this many handles.
    const fn places(handles: u16) -> usize {
        4 + 2 * handles as usize
    }

    /// The handle to which the stream's blocks belong; 0: several, or none.
    #[inline]
    pub(crate) const fn owner(self) -> u16 {
        match self {
            Stream::Placed(handle) | Stream::PlacedGc(handle) => handle,
            _ => 0,
        }
    }

    #[inline]
    pub(crate) const fn is_gc_copy(self) -> bool {
        matches!(self, Stream::Gc | Stream::Worn | Stream::MetaMoved | Stream::PlacedGc(_))
    }
}

/// Shift of a superpage's owner, which is stored above its sequence number in the spare area for a mount.
const OWNER_SHIFT: u32 = 56;

/// Splits a spare-area value into sequence number and owner.
pub(crate) const fn split_sequence(stored: u64) -> (u64, u16) {
    (stored & ((1 << OWNER_SHIFT) - 1), (stored >> OWNER_SHIFT) as u16)
}

/// Reason why translation cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The user capacity leaves too little space to work.
    #[error(
        "over_provisioning: {physical_units} mapping units on good blocks cannot serve {user_units} user units; \
         at least {needed_units} more are needed for open blocks and GC"
    )]
    TooLittleSpare {
        /// Units on good blocks.
        physical_units: u64,
        /// Units the host may use.
        user_units: u64,
        /// Units needed beside them.
        needed_units: u64,
    },
    /// A die has too few blocks for its part of the user capacity and its log blocks.
    #[error(
        "log_blocks: die {die} has {good_blocks} good blocks; its data need {data_blocks}, and log blocks, merges and \
         metadata {other_blocks}; allowed: at most {log_blocks_max} log blocks, or over_provisioning that leaves at \
         most {user_units_max} mapping units for the host"
    )]
    TooFewBlocks {
        /// The die.
        die: u32,
        /// Its good blocks.
        good_blocks: u32,
        /// Blocks that its data need.
        data_blocks: u32,
        /// Log blocks, destinations of merges, metadata.
        other_blocks: u32,
        /// The most log blocks with this user capacity; 0: none.
        log_blocks_max: u32,
        /// The most units of the host with these log blocks.
        user_units_max: u64,
    },
    /// The system gives no memory for the mapping table.
    #[error(
        "the mapping table takes {needed_bytes} bytes of memory, which the system does not give; allowed: a smaller drive, larger \
         mapping units, or a higher limit of memory"
    )]
    Memory {
        /// Bytes of memory that the table takes.
        needed_bytes: u64,
    },
}

/// Counters of translation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FtlCounters {
    /// Victims chosen, by cause.
    pub victims: [u64; Cause::COUNT],
    /// Valid units in all victims when they were chosen.
    pub victim_valid_units: u64,
    /// Units that GC copied elsewhere; of a cache, dirty ones.
    pub copied_units: u64,
    /// Clean units of a cache that were dropped to make space.
    pub evicted_units: u64,
    /// Blocks retired after the factory.
    pub grown_bad: u64,
    /// Victims that were chosen by their few valid units, against the policy: the die had lost its GC reserve.
    pub emergency_victims: u64,
    /// Blocks that were refreshed (data rewritten before they became unreadable) and erased.
    pub refreshed: u64,
    /// Host units that went to the SLC cache, if there is one; `direct_units`: those that bypassed it.
    pub cached_units: u64,
    /// See `cached_units`.
    pub direct_units: u64,
    /// Merges of log-block translation, by kind.
    pub merges: [MergeCounters; MergeKind::COUNT],
    /// The cached mapping table, where there is one.
    pub map: MapCounters,
    /// Victims that have ended, folds of the SLC cache not among them, by the time from their choice to their end.
    pub pauses: Pauses,
}

/// The translation state of one drive.
#[derive(Clone, Debug)]
pub struct PageMap {
    pub(crate) config: FtlConfig,
    pub(crate) layout: Layout,
    /// Pages that the host can address.
    pub(crate) user_units: u32,
    /// Most host pages that the media hold: all, or those of a cache.
    held: u32,
    /// Dirty pages whose writes were admitted and have not brought their data (cache).
    promised: u32,
    /// Emptied blocks whose clean pages are being evicted (cache).
    evicting: Vec<BlockId>,
    /// Lists of full blocks to be written, and regions that have changed (cache).
    lists: lists::Lists,
    /// Regions of marked pages that left with an emptied block, until it is erased (cache).
    leaving: Vec<(BlockId, u32)>,
    pub(crate) table: MappingTable,
    pub(crate) blocks: BlockManager,
    pub(crate) gc: Gc,
    pub(crate) pages: TranslationPages,
    /// Cache of table entries; `None`: all entries are in memory.
    map_cache: Option<MapCache>,
    pub(crate) handles: Handles,
    placement: place::Order,
    pub(crate) sequence: u64,
    programs: Programs,
    /// Copies that became invalid and were not taken.
    outdated: Vec<(Ppa, Outdated)>,
    /// The caller takes outdated copies.
    names_outdated: bool,
    temperature: Option<Temperature>,
    pub(crate) rng: Rng,
    pub(crate) counters: FtlCounters,
}

impl PageMap {
    /// Creates translation for empty media on which `bad` blocks are retired from the start.
    pub fn new(config: &FtlConfig, layout: &Layout, bad: &[BlockId]) -> Result<PageMap, SetupError> {
        let mut map = PageMap::new_worn(config, layout, bad)?;
        let physical = u64::from(layout.units) - bad.len() as u64 * u64::from(layout.units_per_block);
        let good = layout.blocks - bad.len() as u32;
        let most = config.units_max(layout, good, layout.dies, config.working_blocks());
        let map_pages = u64::from(map.map_pages());
        if map.held_units() > most {
            return Err(SetupError::TooLittleSpare {
                physical_units: physical,
                user_units: map.held_units() - map_pages,
                needed_units: physical - most + map_pages,
            });
        }
        map.fill_map_cache();
        Ok(map)
    }

    /// Creates translation, as [`PageMap::new`], for a drive in use, which may have lost blocks since: its data can be read, however few
    /// good blocks are left. With too few of them it is [`PageMap::worn_out`].
    pub(crate) fn new_worn(
        config: &FtlConfig,
        layout: &Layout,
        bad: &[BlockId],
    ) -> Result<PageMap, SetupError> {
        let physical = u64::from(layout.units);
        let wanted = config.user_units(layout);
        let entries_per_page = crate::spare::entries_per_page(layout);
        let map_pages = match (config.durability, config.cache) {
            (Durability::Volatile, _) => 0,
            (_, Some(_)) => SparseTable::regions_for(wanted, entries_per_page / 2).into(),
            (Durability::Journal { .. }, None) => wanted.div_ceil(entries_per_page.into()),
        };
        if wanted == 0 || wanted + map_pages > physical {
            return Err(SetupError::TooLittleSpare {
                physical_units: physical,
                user_units: wanted,
                needed_units: map_pages,
            });
        }
        PageMap::with_units(config, layout, wanted as u32, map_pages as u32, bad)
    }

    fn with_units(
        config: &FtlConfig,
        layout: &Layout,
        user_units: u32,
        map_pages: u32,
        bad: &[BlockId],
    ) -> Result<PageMap, SetupError> {
        let keep_buckets = config.victim == Victim::Greedy;
        let streams = Stream::places(config.handles);
        let (cache, dynamic) = (config.cache_blocks(), config.wear.dynamic);
        let (held, table, user_units) = match &config.cache {
            None => (user_units, MappingTable::new(user_units + map_pages, layout.units)?, user_units),
            Some(cache) => {
                let (address, slots) = (cache.address_units, crate::spare::entries_per_page(layout) / 2);
                let keeps = config.durability != Durability::Volatile;
                let sparse = SparseTable::new(address, user_units.into(), slots, layout, keeps);
                (user_units, MappingTable::of_cache(address, map_pages, layout.units, sparse)?, address)
            }
        };
        let lists = config.list_superpages();
        let mut blocks = BlockManager::new(layout, cache, keep_buckets, dynamic, streams, lists);
        for &block in bad {
            blocks.retire(block);
        }
        Ok(PageMap {
            config: config.clone(),
            layout: layout.clone(),
            user_units,
            held,
            promised: 0,
            evicting: Vec::new(),
            leaving: Vec::new(),
            lists: lists::Lists::new(config, map_pages, layout),
            table,
            blocks,
            gc: Gc::new(config, layout),
            pages: TranslationPages::new(map_pages, config.durability, layout, config.cache.is_some()),
            map_cache: MapCache::of(config, user_units, map_pages, layout),
            handles: Handles::new(config.handles, layout),
            placement: place::Order::new(config, layout),
            sequence: 1,
            programs: Programs::new(layout.units_per_superpage),
            outdated: Vec::new(),
            names_outdated: false,
            temperature: (config.separation == Separation::Frequency).then(|| Temperature::new(user_units)),
            rng: Rng::stream(config.seed, "ftl"),
            counters: FtlCounters::default(),
        })
    }

    /// Units that the media have to hold: host data and translation pages.
    pub(crate) fn held_units(&self) -> u64 {
        u64::from(self.held) + u64::from(self.pages.count())
    }

    /// Mapping units the host may use.
    pub fn user_units(&self) -> u32 {
        self.user_units
    }

    /// Location of `lpn`, for an access of the host.
    #[inline]
    pub fn lookup(&mut self, lpn: Lpn) -> Located {
        if self.map_cache.is_some()
            && let Some(page) = self.missing_page(lpn)
        {
            return Located::NeedsMap(page);
        }
        self.peek(lpn)
    }

    /// Location of `lpn`, for any other purpose.
    #[inline]
    pub fn peek(&self, lpn: Lpn) -> Located {
        match self.copy_of(lpn) {
            Ppa::NONE => Located::Zero,
            Ppa::LOST => Located::Lost,
            ppa => Located::At(ppa),
        }
    }

    /// See [`Translation::untouched_until`](crate::Translation::untouched_until).
    pub fn untouched_until(&self, lpn: Lpn) -> Option<Lpn> {
        self.table.untouched_until(lpn)
    }

    /// The newest copy of `lpn`; [`Ppa::NONE`]: none; [`Ppa::LOST`].
    #[inline]
    pub(crate) fn copy_of(&self, lpn: Lpn) -> Ppa {
        self.table.get(lpn)
    }

    /// Prefetches the map entry of `lpn`: a look-up soon after does not wait for memory. It changes nothing.
    #[inline]
    pub fn prefetch(&self, lpn: Lpn) {
        self.table.prefetch(lpn);
    }

    /// Returns whether the copy at `ppa` is some page's newest, or still stands in for one that is being programmed.
    #[inline]
    pub fn is_valid(&self, ppa: Ppa) -> bool {
        self.table.is_valid(ppa)
    }

    /// Returns the stream of a host write of `lpn` with placement handle `handle`; counts the write if data are separated by frequency.
    /// Data that the host places are not separated further.
    #[inline]
    pub fn stream(&mut self, lpn: Lpn, handle: u16) -> Stream {
        if handle > 0 {
            return Stream::Placed(handle);
        }
        let hot = self.temperature.as_mut().is_none_or(|t| t.write(lpn));
        if hot { Stream::Host } else { Stream::HostCold }
    }

    /// The block that `stream` has open in `die`, and its next superpage.
    pub fn open_superpage(&self, die: DieId, stream: Stream) -> Option<(BlockId, u32)> {
        self.open_block(die, self.config.shared(stream)).map(|open| (open.block, open.superpage))
    }

    /// Closes the block that `stream` has open in `die`: it takes no more data.
    pub(crate) fn close_open(&mut self, die: DieId, stream: Stream) {
        if let Some(block) = self.blocks.close_open(die, stream.place(), self.sequence) {
            self.gc.went_on(&mut self.blocks, block);
        }
    }

    /// Open blocks, and the stream of each.
    pub(crate) fn open_blocks(&self) -> impl Iterator<Item = (BlockId, Stream)> + use<'_> {
        let fixed = [Stream::Host, Stream::HostCold, Stream::Gc, Stream::Worn, Stream::Meta, Stream::Cached];
        let placed = (1..self.config.handles).flat_map(|h| [Stream::Placed(h), Stream::PlacedGc(h)]);
        let streams: Vec<Stream> = fixed.into_iter().chain(placed).collect();
        self.blocks.all_open().map(move |(place, open)| (open.block, streams[place]))
    }

    /// Invalidates the copy at `ppa`, which is no longer needed for this reason.
    #[inline]
    pub(crate) fn invalidate(&mut self, ppa: Ppa, why: Outdated) {
        if !ppa.is_some() || !self.is_valid(ppa) {
            return;
        }
        self.table.set_invalid(ppa);
        // A page that a cache evicted comes back with its data, if the power is cut before the eviction is on the media.
        let comes_back = why == Outdated::Trimmed && self.table.sparse().is_some();
        if self.names_outdated && !comes_back {
            self.outdated.push((ppa, why));
        }
        let block = self.layout.block_of(ppa);
        self.blocks.remove_valid(block);
        if self.config.victim == Victim::Lru {
            self.blocks.touch(block, self.sequence);
        }
        if self.blocks.state(block) == BlockState::Victim {
            if self.blocks.valid(block) == 0 {
                self.gc.note_emptied(block);
            }
            self.gc.went_on(&mut self.blocks, block);
        }
    }

    /// Sets the caller to work for from now on.
    pub fn serve(&mut self, caller: Caller) {
        self.gc.set_sense(caller.sense);
        self.names_outdated = caller.takes_outdated;
    }

    /// Takes the copies that became invalid since the last call, with the reason: no later read goes there.
    #[inline]
    pub fn take_outdated(&mut self) -> Option<std::vec::Drain<'_, (Ppa, Outdated)>> {
        if self.outdated.is_empty() { None } else { Some(self.outdated.drain(..)) }
    }

    /// Discards `lpn`. Its old copy is invalid at once, but its block is not erased before the trim is on the media: a power
    /// cut must not bring back a copy that is older still.
    pub fn trim(&mut self, lpn: Lpn) {
        let old = self.copy_of(lpn);
        if old != Ppa::NONE {
            self.table.set(lpn, Ppa::NONE);
            self.entry_trimmed(lpn);
            self.pages.dirty(self.page_of(lpn), self.sequence);
            self.keep_until_saved(old);
            self.invalidate(old, Outdated::Trimmed);
        }
    }

    pub(crate) fn keep_until_saved(&mut self, ppa: Ppa) {
        if ppa.is_some() {
            self.blocks.set_last_trim(self.layout.block_of(ppa), self.pages.last_trim());
        }
    }

    /// Translation page that holds the entry of `lpn`.
    #[inline]
    pub(crate) fn page_of(&self, lpn: Lpn) -> u32 {
        match self.table.sparse() {
            None => lpn.0 / self.pages.entries,
            Some(sparse) => sparse.region(lpn),
        }
    }

    /// Units of a block that are valid.
    pub fn valid_units(&self, block: BlockId) -> u32 {
        self.blocks.valid(block)
    }

    /// Returns whether `block` takes data before it is erased again.
    pub fn takes_data(&self, block: BlockId) -> bool {
        matches!(self.blocks.state(block), BlockState::Free | BlockState::Open)
    }

    /// The block as an observer sees it.
    pub fn block_view(&self, block: BlockId) -> BlockView {
        self.blocks.view(block)
    }

    /// Free blocks in all.
    #[inline]
    pub fn free_blocks(&self) -> u32 {
        self.blocks.free_total()
    }

    /// Bad blocks in all, factory and grown.
    pub fn bad_blocks(&self) -> u32 {
        self.blocks.bad_count()
    }

    /// Returns whether so many blocks are bad that the host's data and the blocks that translation needs no longer fit: the drive must
    /// refuse writes.
    pub fn worn_out(&self) -> bool {
        let (good, dies) = (self.blocks.good(), self.blocks.live_dies());
        let most = self.config.units_max(&self.layout, good, dies, self.config.working_blocks());
        self.held_units() > most
    }

    /// Decisions of translation so far.
    pub fn counters(&self) -> FtlCounters {
        FtlCounters { pauses: *self.gc.pauses(), ..self.counters }
    }

    /// Sets the counters: to zero, or to those from before a power cut.
    pub fn set_counters(&mut self, counters: FtlCounters) {
        self.counters = counters;
        self.gc.set_pauses(counters.pauses);
    }

    /// Tells the time, which translation needs for the pauses of GC alone.
    #[inline]
    pub fn set_now(&mut self, now: SimTime) {
        self.gc.now = now;
    }

    /// Erases of `block` so far.
    pub fn erases(&self, block: BlockId) -> u32 {
        self.blocks.erases(block)
    }

    /// Bytes of memory that a drive would need for the map and block tables, as held here.
    pub fn memory_bytes(&self) -> u64 {
        self.map_memory_bytes() + self.blocks.memory_bytes()
    }

    /// Walks every invariant and panics, naming it, where one is broken. Cost: the whole drive.
    pub fn check(&self) {
        self.blocks.check();
        self.gc.check();
        self.check_handles();
        self.check_full();
        self.check_cache();
        self.check_sparse();
        let mut counts = vec![0u32; self.layout.blocks as usize];
        for unit in (0..self.layout.units).filter(|&u| self.is_valid(Ppa(u))) {
            counts[self.layout.block_of(Ppa(unit)).0 as usize] += 1;
        }
        for (block, &count) in counts.iter().enumerate() {
            let block = BlockId(block as u32);
            assert_eq!(self.blocks.valid(block), count, "valid units of block {}", block.0);
            let state = self.blocks.state(block);
            assert!(
                count == 0 || !matches!(state, BlockState::Free | BlockState::Erasing | BlockState::Bad),
                "block {} is {state:?} and holds {count} valid units",
                block.0
            );
        }
        let mut owners = std::collections::BTreeMap::new();
        for (Lpn(lpn), ppa) in self.table.placed() {
            if ppa.is_some() {
                if self.table.sparse().is_none() || lpn >= self.user_units {
                    assert!(self.is_valid(ppa), "lpn {lpn} points to an invalid unit {}", ppa.0);
                }
                let other = owners.insert(ppa, lpn);
                assert_eq!(other, None, "unit {} belongs to two logical pages", ppa.0);
            }
        }
        owners.retain(|&ppa, _| self.is_valid(ppa));
        // Valid units without an owner wait for their successor's program.
        let waiting: std::collections::BTreeSet<Ppa> =
            self.programs.active().flat_map(|program| program.units).map(|unit| unit.old).collect();
        let orphans = counts.iter().sum::<u32>() as usize - owners.len();
        let explained = waiting
            .iter()
            .filter(|&&ppa| ppa.is_some() && self.is_valid(ppa) && !owners.contains_key(&ppa))
            .count();
        assert_eq!(orphans, explained, "valid units that no page owns and no program replaces");
    }
}
