//! The page-map translation layer: where each logical page lies, where the next one goes, what is collected.
//!
//! It holds no data and does no I/O. Its caller (a drive, or a host in front of an open-channel drive) carries out what it
//! plans and reports back:
//!
//! ```text
//!   plan_program ──► (program) ──► program_ended          next_relocation ──► (read) ──► plan_program(from)
//!        │ map points to the new copy at once                  │ one valid unit of the die's victim
//!        └ the old copy stays valid until the new one          └ victim empty: pop_emptied ──► (erase) ──► erase_ended
//!          is on the media
//! ```
//! The rule that everything rests on: **a copy is invalidated only when its successor's program has ended**, and a block is
//! erased only when it holds no valid copy. So at every moment the newest completed copy of every page is on the media, and
//! a power cut at any point loses nothing that was on the media. Destinations are given when data are at hand, never
//! before, so that the stripes of a die are programmed in the order of their addresses and no program waits for a read.

mod cache;
mod full;
mod place;
mod places;
mod programs;

pub use programs::Settled;
use programs::{Program, ProgramUnit};

use crate::blocks::{BlockState, Blocks};
use crate::collect::Collection;
use crate::handles::Handles;
use crate::temperature::Temperature;
use crate::translation::{Outdated, Stream};
use crate::{Durability, FtlConfig, Separation, Victim};
use pellucid_flash::{BlockId, Cause, DieId, Layout, Lpn, Ppa, Rng};

impl Stream {
    /// The place of its open block among those of a die: six fixed ones, then two for each handle from 1.
    #[inline]
    pub(crate) const fn place(self) -> usize {
        match self {
            Stream::Host => 0,
            Stream::HostCold => 1,
            Stream::Collected => 2,
            Stream::Worn => 3,
            Stream::Meta | Stream::MetaMoved => 4,
            Stream::Cached => 5,
            Stream::Placed(handle) => 4 + 2 * handle as usize,
            Stream::PlacedCollected(handle) => 5 + 2 * handle as usize,
        }
    }

    /// Places of a die with so many handles.
    const fn places(handles: u16) -> usize {
        4 + 2 * handles as usize
    }

    /// The handle that its blocks belong to; 0: several, or none.
    #[inline]
    pub(crate) const fn owner(self) -> u16 {
        match self {
            Stream::Placed(handle) | Stream::PlacedCollected(handle) => handle,
            _ => 0,
        }
    }

    #[inline]
    pub(crate) const fn is_relocation(self) -> bool {
        matches!(self, Stream::Collected | Stream::Worn | Stream::MetaMoved | Stream::PlacedCollected(_))
    }
}

/// The owner of a stripe stands above its sequence number in the spare area, so that a mount finds it.
const OWNER_SHIFT: u32 = 56;

/// Sequence number and owner of what stands in a spare area.
pub(crate) const fn split_sequence(stored: u64) -> (u64, u16) {
    (stored & ((1 << OWNER_SHIFT) - 1), (stored >> OWNER_SHIFT) as u16)
}

/// Why translation cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// The user capacity leaves too little room to work.
    TooLittleSpare {
        /// Units on good blocks.
        physical_units: u64,
        /// Units the host may use.
        user_units: u64,
        /// Units needed beside them.
        needed_units: u64,
    },
}

impl std::fmt::Display for SetupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let SetupError::TooLittleSpare { physical_units, user_units, needed_units } = self;
        write!(
            f,
            "over_provisioning: {physical_units} mapping units on good blocks cannot serve {user_units} user units; \
             at least {needed_units} more are needed for open blocks and collection"
        )
    }
}

impl std::error::Error for SetupError {}

/// A block that takes data, and its next stripe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenBlock {
    pub(crate) block: BlockId,
    pub(crate) stripe: u32,
}

/// Counters of what translation decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FtlCounters {
    /// Victims chosen, by cause.
    pub victims: [u64; Cause::COUNT],
    /// Valid units in all victims when they were chosen.
    pub victim_valid_units: u64,
    /// Units that were relocated (programmed again elsewhere).
    pub relocated_units: u64,
    /// Blocks retired after the factory.
    pub grown_bad: u64,
    /// Victims that were chosen by their few valid units, against the policy: the die had lost its GC reserve.
    pub emergency_victims: u64,
    /// Blocks whose data were written anew before they became unreadable, and which were erased.
    pub refreshed: u64,
    /// Units of hosts that went to the SLC cache, and those that went past it, where there is one.
    pub cached_units: u64,
    /// See `cached_units`.
    pub direct_units: u64,
}

/// The translation state of one drive.
#[derive(Clone, Debug)]
pub struct PageMap {
    pub(crate) config: FtlConfig,
    pub(crate) layout: Layout,
    pub(crate) user_units: u32,
    pub(crate) entries_per_segment: u32,
    map: places::Places,
    valid: Vec<u64>,
    pub(crate) blocks: Blocks,
    /// Per die and stream.
    open: Vec<Option<OpenBlock>>,
    places: usize,
    pub(crate) handles: Handles,
    /// Dies that can be programmed no more.
    pub(crate) dead: Vec<bool>,
    pub(crate) live_dies: u32,
    order: Vec<DieId>,
    cursor: usize,
    /// What is written goes past the SLC cache.
    cache_off: bool,
    /// Its blocks are being emptied.
    folding: bool,
    full: full::FullDies,
    /// Blocks of each die that host data leave free beside the one for collection, because power was cut.
    pub(crate) cut_reserve: u32,
    /// Collection has made room that host data were turned away for.
    pub(crate) released: bool,
    pub(crate) sequence: u64,
    programs: Vec<Program>,
    program_units: Vec<ProgramUnit>,
    idle_programs: Vec<u32>,
    pub(crate) collections: Vec<Collection>,
    pub(crate) emptied: Vec<BlockId>,
    /// Copies that became invalid and were not taken; `None`: nobody wants to know.
    outdated: Option<Vec<(Ppa, Outdated)>>,
    temperature: Option<Temperature>,
    pub(crate) rng: Rng,
    pub(crate) segments: crate::journal::Segments,
    pub(crate) counters: FtlCounters,
}

impl PageMap {
    /// Translation for empty media on which `bad` blocks are retired from the start.
    pub fn new(config: &FtlConfig, layout: &Layout, bad: &[BlockId]) -> Result<PageMap, SetupError> {
        let map = PageMap::new_worn(config, layout, bad)?;
        let physical = u64::from(layout.units) - bad.len() as u64 * u64::from(layout.units_per_block);
        let good = layout.blocks - bad.len() as u32;
        let most = config.units_max(layout, good, layout.dies, config.working_blocks());
        let segments = u64::from(map.segments());
        if u64::from(map.map_length()) > most {
            return Err(SetupError::TooLittleSpare {
                physical_units: physical,
                user_units: map.user_units.into(),
                needed_units: physical - most + segments,
            });
        }
        Ok(map)
    }

    /// As [`PageMap::new`], for a drive in use, which may have lost blocks since: what it holds can be read, however few
    /// good blocks are left. With too few of them it is [`PageMap::worn_out`].
    pub(crate) fn new_worn(
        config: &FtlConfig,
        layout: &Layout,
        bad: &[BlockId],
    ) -> Result<PageMap, SetupError> {
        let physical = u64::from(layout.units);
        let wanted = config.user_units(layout);
        let entries_per_segment = crate::spare::entries_per_segment(layout);
        let segments = match config.durability {
            Durability::Volatile => 0,
            Durability::Journal { .. } => wanted.div_ceil(entries_per_segment.into()),
        };
        if wanted == 0 || wanted + segments > physical {
            return Err(SetupError::TooLittleSpare {
                physical_units: physical,
                user_units: wanted,
                needed_units: segments,
            });
        }
        Ok(PageMap::with_units(config, layout, wanted as u32, segments, bad))
    }

    /// No translation: for a drive without a namespace that needs one. It takes no memory to speak of.
    pub fn absent(config: &FtlConfig, layout: &Layout) -> PageMap {
        let nothing = layout.with_blocks_per_die(0);
        let config = FtlConfig { durability: Durability::Volatile, ..config.clone() };
        PageMap::with_units(&config, &nothing, 0, 0, &[])
    }

    fn with_units(
        config: &FtlConfig,
        layout: &Layout,
        user_units: u32,
        segments: u64,
        bad: &[BlockId],
    ) -> PageMap {
        let entries_per_segment = crate::spare::entries_per_segment(layout);
        let keep_buckets = config.victim == Victim::Greedy;
        let mut blocks = Blocks::new(layout, config.cache_blocks(), keep_buckets, config.wear.dynamic);
        for &block in bad {
            blocks.retire(block);
        }
        PageMap {
            config: config.clone(),
            layout: layout.clone(),
            user_units,
            entries_per_segment,
            map: places::Places::new(user_units + segments as u32),
            valid: vec![0; (layout.units as usize).div_ceil(64)],
            blocks,
            open: vec![None; layout.dies as usize * Stream::places(config.handles)],
            places: Stream::places(config.handles),
            handles: Handles::new(config.handles, layout),
            dead: vec![false; layout.dies as usize],
            live_dies: layout.dies,
            order: place::placement_order(config.placement, layout),
            cursor: 0,
            cache_off: false,
            folding: false,
            full: full::FullDies::new(layout.dies as usize),
            cut_reserve: 0,
            released: false,
            sequence: 1,
            programs: Vec::new(),
            program_units: Vec::new(),
            idle_programs: Vec::new(),
            collections: vec![Collection::default(); layout.dies as usize],
            emptied: Vec::new(),
            outdated: None,
            temperature: (config.separation == Separation::Frequency).then(|| Temperature::new(user_units)),
            rng: Rng::stream(config.seed, "ftl"),
            segments: crate::journal::Segments::new(
                segments as u32,
                config.durability,
                u64::from(layout.units / layout.units_per_stripe),
                layout.units_per_stripe,
            ),
            counters: FtlCounters::default(),
        }
    }

    /// Mapping units the host may use.
    pub fn user_units(&self) -> u32 {
        self.user_units
    }

    /// Where `lpn` lies; [`Ppa::NONE`] if it was never written or was trimmed, [`Ppa::LOST`] if it was lost at a mount.
    #[inline]
    pub fn lookup(&self, lpn: Lpn) -> Ppa {
        self.map.get(lpn)
    }

    /// Asks the processor to bring the map entry of `lpn` near. What is looked up soon after costs no trip to memory
    /// then; a look-up without it is correct all the same.
    #[inline]
    pub fn touch(&self, lpn: Lpn) {
        self.map.touch(lpn);
    }

    #[inline]
    pub(crate) fn set_map(&mut self, lpn: Lpn, ppa: Ppa) {
        self.map.set(lpn, ppa);
    }

    /// Units of a block that are valid.
    pub fn valid_units(&self, block: BlockId) -> u32 {
        self.blocks.valid(block)
    }

    /// Whether the copy at `ppa` is some page's newest, or still stands in for one that is being programmed.
    #[inline]
    pub fn is_valid(&self, ppa: Ppa) -> bool {
        self.valid[ppa.0 as usize / 64] >> (ppa.0 % 64) & 1 == 1
    }

    /// The first valid unit of `block` at or after unit `from`.
    pub(crate) fn next_valid(&self, block: BlockId, from: u32) -> Option<Ppa> {
        let (start, end) =
            (self.layout.ppa(block, from).0, self.layout.ppa(block, self.layout.units_per_block).0);
        let mut at = start;
        while at < end {
            let word = self.valid[at as usize / 64] >> (at % 64);
            if word != 0 {
                let found = at + word.trailing_zeros();
                return (found < end).then_some(Ppa(found));
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Which stream a host write of `lpn` with placement handle `handle` belongs to; counts the write if data are separated by
    /// frequency. What the host places is not separated further.
    #[inline]
    pub fn host_stream(&mut self, lpn: Lpn, handle: u16) -> Stream {
        if handle > 0 {
            return Stream::Placed(handle);
        }
        let hot = self.temperature.as_mut().is_none_or(|t| t.write(lpn));
        if hot { Stream::Host } else { Stream::HostCold }
    }

    /// Stripes written of the block that `stream` has open in `die`.
    pub(crate) fn open_stripes(&self, die: DieId, stream: Stream) -> u64 {
        self.open_block(die, stream).map_or(0, |open| open.stripe.into())
    }

    /// The block that `stream` has open in `die`, and its next stripe.
    pub fn open_stripe(&self, die: DieId, stream: Stream) -> Option<(BlockId, u32)> {
        self.open_block(die, self.shared(stream)).map(|open| (open.block, open.stripe))
    }

    /// The open blocks of `die`, with their places among the streams.
    pub(crate) fn open_in(&self, die: DieId) -> impl Iterator<Item = (usize, OpenBlock)> + use<'_> {
        let first = die.0 as usize * self.places;
        let open = self.open[first..first + self.places].iter();
        open.enumerate().filter_map(|(place, open)| open.map(|open| (place, open)))
    }

    /// The block that `stream` has open in `die` takes no more data.
    pub(crate) fn close_open(&mut self, die: DieId, stream: Stream) {
        let at = self.open_at(die, stream);
        if let Some(open) = self.open[at].take() {
            self.blocks.close_early(open.block, self.sequence);
            self.collection_went_on(open.block);
        }
    }

    /// Open blocks, and what each is open for.
    pub(crate) fn open_blocks(&self) -> impl Iterator<Item = (BlockId, Stream)> + use<'_> {
        let fixed =
            [Stream::Host, Stream::HostCold, Stream::Collected, Stream::Worn, Stream::Meta, Stream::Cached];
        let placed = (1..self.config.handles).flat_map(|h| [Stream::Placed(h), Stream::PlacedCollected(h)]);
        let streams: Vec<Stream> = fixed.into_iter().chain(placed).collect();
        self.open
            .iter()
            .enumerate()
            .filter_map(move |(at, open)| open.map(|open| (open.block, streams[at % self.places])))
    }

    /// The copy at `ppa` is no longer needed, for this reason.
    #[inline]
    pub(crate) fn invalidate(&mut self, ppa: Ppa, why: Outdated) {
        if !ppa.is_some() || !self.is_valid(ppa) {
            return;
        }
        self.valid[ppa.0 as usize / 64] &= !(1 << (ppa.0 % 64));
        if let Some(outdated) = &mut self.outdated {
            outdated.push((ppa, why));
        }
        let block = self.layout.block_of(ppa);
        self.blocks.remove_valid(block);
        if self.config.victim == Victim::Lru {
            self.blocks.touch(block, self.sequence);
        }
        if self.blocks.state(block) == BlockState::Victim {
            if self.blocks.valid(block) == 0 {
                self.emptied.push(block);
            }
            self.collection_went_on(block);
        }
    }

    /// From now on [`PageMap::take_dead`] names the copies that become invalid.
    pub fn name_dead(&mut self) {
        self.outdated = Some(Vec::new());
    }

    /// Whether there are any.
    #[inline]
    pub fn has_dead(&self) -> bool {
        self.outdated.as_ref().is_some_and(|outdated| !outdated.is_empty())
    }

    /// Copies that became invalid since the last time, and why: nothing that is read from now on lies there.
    pub fn take_dead(&mut self) -> impl Iterator<Item = (Ppa, Outdated)> {
        self.outdated.iter_mut().flat_map(|outdated| outdated.drain(..))
    }

    /// Forgets `lpn`. Its old copy is invalid at once, but its block is not erased before the trim is on the media: a power
    /// cut must not bring back a copy that is older still.
    pub fn trim(&mut self, lpn: Lpn) {
        let old = self.lookup(lpn);
        if old != Ppa::NONE {
            self.set_map(lpn, Ppa::NONE);
            self.segments.dirty(lpn.0 / self.entries_per_segment, self.sequence);
            self.keep_until_saved(old);
            self.invalidate(old, Outdated::Trimmed);
        }
    }

    pub(crate) fn keep_until_saved(&mut self, ppa: Ppa) {
        if ppa.is_some() {
            self.blocks.set_last_trim(self.layout.block_of(ppa), self.segments.last_trim());
        }
    }

    /// Whether `block` takes data before it is erased again.
    pub fn takes_data(&self, block: BlockId) -> bool {
        matches!(self.blocks.state(block), BlockState::Free | BlockState::Open)
    }

    /// Whether `block` holds map segments; meaningful while it holds anything.
    pub fn holds_segments(&self, block: BlockId) -> bool {
        self.blocks.is_meta(block)
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

    /// Whether so many blocks are bad that the host's data and what is needed to work no longer fit: the drive must
    /// refuse writes.
    pub fn worn_out(&self) -> bool {
        let dead = (0..self.layout.dies).map(DieId).filter(|die| self.dead[die.0 as usize]);
        let lost = dead.flat_map(|die| self.blocks.of_die(die));
        let lost = lost.filter(|&b| self.blocks.state(b) != BlockState::Bad).count() as u32;
        let good = self.layout.blocks - self.blocks.bad_count() - lost;
        let most = self.config.units_max(&self.layout, good, self.live_dies, self.config.working_blocks());
        u64::from(self.map_length()) > most
    }

    /// What translation decided so far.
    pub fn counters(&self) -> FtlCounters {
        self.counters
    }

    /// Counts on from what the map before a power cut had counted.
    pub fn count_on_from(&mut self, counters: FtlCounters) {
        self.counters = counters;
    }

    /// Counters from zero.
    pub fn reset_counters(&mut self) {
        self.counters = FtlCounters::default();
    }

    /// All blocks have been erased so often before the drive was made.
    pub fn set_erases(&mut self, erases: u32) {
        (0..self.layout.blocks).for_each(|block| self.blocks.set_erases(BlockId(block), erases));
    }

    /// How often `block` was erased.
    pub fn erases(&self, block: BlockId) -> u32 {
        self.blocks.erases(block)
    }

    /// Bytes of memory that a drive would need for the map and block tables, as held here.
    pub fn memory_bytes(&self) -> u64 {
        self.map.memory_bytes() + self.valid.len() as u64 * 8 + self.blocks.memory_bytes()
    }

    /// Mount only: `block` can take data of `stream` from `stripe` on.
    pub(crate) fn reopen(&mut self, block: BlockId, stream: Stream, stripe: u32) -> bool {
        let die = self.layout.die_of_block(block);
        let at = self.open_at(die, self.shared(stream));
        let vacant = self.open[at].is_none();
        if vacant {
            self.open[at] = Some(OpenBlock { block, stripe });
        }
        vacant
    }

    /// Mount only: a unit found on the media is the newest copy of its page.
    pub(crate) fn adopt(&mut self, ppa: Ppa) {
        self.valid[ppa.0 as usize / 64] |= 1 << (ppa.0 % 64);
    }

    pub(crate) fn map_length(&self) -> u32 {
        self.map.entries()
    }

    /// Walks every invariant and panics, naming it, where one is broken. Cost: the whole drive.
    pub fn check(&self) {
        self.blocks.check();
        self.check_handles();
        self.check_full();
        self.check_cache();
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
        for lpn in 0..self.map.entries() {
            let ppa = self.lookup(Lpn(lpn));
            if ppa.is_some() {
                assert!(self.is_valid(ppa), "lpn {lpn} points to an invalid unit {}", ppa.0);
                let other = owners.insert(ppa, lpn);
                assert_eq!(other, None, "unit {} belongs to two logical pages", ppa.0);
            }
        }
        // What is valid without an owner waits for its successor's program.
        let stride = self.layout.units_per_stripe as usize;
        let mut waiting = std::collections::BTreeSet::new();
        for (id, program) in self.programs.iter().enumerate().filter(|(_, p)| p.active) {
            for unit in &self.program_units[id * stride..id * stride + program.units as usize] {
                waiting.insert(unit.old);
            }
        }
        let orphans = counts.iter().sum::<u32>() as usize - owners.len();
        let explained = waiting
            .iter()
            .filter(|&&ppa| ppa.is_some() && self.is_valid(ppa) && !owners.contains_key(&ppa))
            .count();
        assert_eq!(orphans, explained, "valid units that no page owns and no program replaces");
    }
}
