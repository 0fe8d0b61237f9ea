//! The media of one drive: the rules of flash, and the effect of each operation.
//!
//! - The superpages of a block are programmed in order, once each between two erases.
//! - Every program and erase has a begin and an end. In between a superpage, or a whole block, is unreadable; a power cut
//!   makes that lasting, until the next complete erase.
//! - A page that is torn, failed, half erased or never programmed is never returned as good data.
//! - A refused operation changes nothing and draws no random number.
//!
//! The media do not queue: the scheduler decides which operation may run when.

mod read;
mod snapshot;
mod stored;
mod write;

pub use snapshot::SnapshotError;

use crate::MediaConfig;
use crate::data_path::{DataPath, UnitPlace};
use crate::error::{MediaError, StoreError};
use crate::faults::{self, FaultPlan};
use crate::injected::{self, Fault, Injected};
use crate::integrity;
use crate::retry::Retries;
use crate::state::{BlockState, Flag};
use crate::store::{Store, StoreShape, UNREADABLE};
use crate::times::{self, Times};
use pellucid_flash::{BlockId, DieId, Layout, Lpn, Nanos, Ppa, SimTime, Split};
use std::collections::{BTreeMap, BTreeSet};

/// Content of the spare area of one mapping unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Logical page; [`Lpn::NONE`] for padding.
    pub lpn: Lpn,
    /// Sequence number of its superpage.
    pub sequence: u64,
}

/// Health of a block: whether it may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The block may be used.
    Good,
    /// Bad when the drive was made.
    FactoryBad,
    /// Retired during life.
    GrownBad,
}

/// Units by which the prefetch of a block's content runs ahead: this many logical pages fill a cache line.
const UNITS_AHEAD: u32 = 16;
/// Longer units are not prefetched so early: each takes more cache than GC can use.
const STAMPS_BYTES_MAX: usize = 16;

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadResult {
    /// Good data.
    Ok {
        /// Bits that error correction corrected.
        corrected_bits: u32,
        /// Corrected bits in the worst codeword: the distance to losing the data.
        worst_chunk_bits: u32,
    },
    /// No usable data: torn, failed, half erased, in operation, or more bit errors than can be corrected.
    Uncorrectable,
    /// Not programmed since the erase; all zero.
    Erased,
}

/// Outcome of a program or erase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The operation succeeded.
    Ok,
    /// The operation failed, as flash sometimes does; the status register reports it.
    Failed,
}

/// The media of one drive.
#[derive(Debug)]
pub struct Media {
    layout: Layout,
    times: Times,
    faults: FaultPlan,
    /// Faults injected while the drive worked; `None`: none.
    injected: Option<Box<Injected>>,
    /// Code, scrambler and bit errors; `None`: data are stored as they are and nothing is ever wrong.
    data_path: Option<Box<DataPath>>,
    /// Retries that reads need; `None`: none.
    retries: Option<Retries>,
    /// The error rate depends on the stored data themselves.
    sees_patterns: bool,
    /// Seconds that the media had existed when the drive was switched on.
    age_s: u64,
    /// Time since then, as far as the bit errors depend on it.
    now: SimTime,
    endurance: Option<u32>,
    recovered: bool,
    /// Blocks that went bad.
    retired: u64,
    /// Reads that found damaged data in the store; `damaged`: the last one did.
    damaged_reads: u64,
    damaged: bool,
    /// Seed of the properties fixed when the media were made: factory-bad blocks, speed of each die.
    made: u64,
    shape: StoreShape,
    store: Store,
    /// Units that are given up, by address, until their block is erased.
    lost: BTreeSet<u32>,
    /// Translation pages, by address, where the store keeps only stamps.
    segments: BTreeMap<u32, Box<[u8]>>,
}

/// Location of a mapping unit.
#[derive(Clone, Copy, Debug)]
struct Place {
    block: u32,
    /// Unit of the block.
    index: u32,
    superpage: u32,
    /// Unit of the superpage.
    unit: u32,
}

/// Content of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Programmed,
    Unreadable,
    Erased,
}

impl Media {
    /// Makes the media that `config` describes. With a file store, opens the image, or creates it when there is none; an
    /// opened image keeps the bad blocks, wear and die speeds it was made with, and operations that were under way when its
    /// last user died are torn.
    pub fn new(config: &MediaConfig) -> Result<Media, MediaError> {
        let layout = config.geometry.layout()?;
        times::check(config)?;
        faults::check(&config.faults, &layout)?;
        let code = integrity::check(config)?;
        let parity_bytes = DataPath::stored_parity_bytes(config, &layout, code.as_ref());
        let shape = StoreShape::new(config, &layout, parity_bytes);
        let data_path = DataPath::new(config, &layout, code.as_ref()).map(Box::new);
        let opened = Store::open(config, shape)?;
        let mut media = Media {
            times: Times::new(config, &layout, opened.made),
            faults: FaultPlan::new(config, &layout),
            injected: None,
            sees_patterns: data_path.as_ref().is_some_and(|path| path.sees_patterns(&config.store)),
            data_path,
            retries: Retries::new(config, &layout),
            age_s: opened.age_s,
            now: SimTime::ZERO,
            endurance: config.endurance,
            recovered: opened.recovered,
            retired: 0,
            damaged_reads: 0,
            damaged: false,
            made: opened.made,
            shape,
            store: opened.store,
            lost: BTreeSet::new(),
            segments: BTreeMap::new(),
            layout,
        };
        if opened.created {
            for block in faults::factory_bad(&config.faults, &media.layout, opened.made) {
                media.store.set_state(block, BlockState::default().with(Flag::FactoryBad));
            }
            media.wear_in(config.integrity.cycles);
            media.store.finish_creation()?;
        } else {
            media.power_cut();
        }
        Ok(media)
    }

    /// Ages new media: good blocks have been through `cycles` cycles.
    fn wear_in(&mut self, cycles: u32) {
        for block in 0..self.layout.blocks {
            let state = self.store.state(block);
            if cycles > 0 && state.health() == Health::Good {
                self.store.set_state(block, state.with_erase_count(cycles));
            }
        }
    }

    /// Sets the drive's time, which never goes back. It determines the age of stored data.
    #[inline]
    pub fn set_now(&mut self, now: SimTime) {
        self.now = now;
    }

    /// Lets time pass at once, as on a shelf: stored data become older by `seconds`.
    pub fn elapse(&mut self, seconds: u64) {
        self.age_s = self.age_s.saturating_add(seconds);
        self.store.set_age(self.age());
    }

    /// Seconds that the media have existed.
    fn age(&self) -> u64 {
        self.age_s.saturating_add(self.now.0 / 1_000_000_000)
    }

    /// Chunks with more wrong bits than the code corrects that its decoder took for other data. They are uncorrectable all the same (see
    /// `data_path.rs`).
    pub fn miscorrected_chunks(&self) -> u64 {
        self.data_path.as_ref().map_or(0, |path| path.miscorrected)
    }

    /// Blocks that went bad, of those that were good when the media were made, opened or last asked to [count anew](Media::reset_counts).
    pub fn retired_blocks(&self) -> u64 {
        self.retired
    }

    /// Resets the counts to zero.
    pub fn reset_counts(&mut self) {
        self.retired = 0;
        if let Some(path) = &mut self.data_path {
            path.miscorrected = 0;
            path.chunks_by_wrong_bits.fill(0);
        }
    }

    /// Codewords read, each retry counted again, by the number of wrong bits that the model found in them. The last entry is for more than the
    /// code corrects. Empty without the bit-error model.
    pub fn chunks_by_wrong_bits(&self) -> &[u64] {
        self.data_path.as_ref().filter(|path| path.errs()).map_or(&[], |path| &path.chunks_by_wrong_bits)
    }

    /// Replaces the present faults by those of `config`, with random streams that start anew. The rest of `config` is ignored.
    pub fn set_faults(&mut self, config: &MediaConfig) -> Result<(), MediaError> {
        faults::check(&config.faults, &self.layout)?;
        self.faults = FaultPlan::new(config, &self.layout);
        Ok(())
    }

    /// Checks that [`Media::inject`] would accept this fault, without injecting it.
    pub fn check_fault(&self, fault: Fault) -> Result<(), MediaError> {
        let errs = self.data_path.as_ref().is_some_and(|path| path.errs());
        injected::check(fault, &self.layout, errs)
    }

    /// Injects a fault into the running media.
    pub fn inject(&mut self, fault: Fault) -> Result<(), MediaError> {
        self.check_fault(fault)?;
        self.injected.get_or_insert_with(|| Box::new(Injected::new(&self.layout))).add(fault);
        Ok(())
    }

    /// Returns whether [`Fault::KillDie`] was injected for `die`.
    pub fn is_dead(&self, die: DieId) -> bool {
        self.injected.as_ref().is_some_and(|injected| injected.dead[die.0 as usize])
    }

    /// Returns whether [`Fault::WearOut`] was injected.
    pub fn spent(&self) -> bool {
        self.injected.as_ref().is_some_and(|injected| injected.worn_out)
    }

    /// The shape.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes of the spare area that belong to the host, for each sector.
    pub fn metadata_bytes(&self) -> usize {
        self.shape.metadata_bytes
    }

    /// Bytes kept per sector: 4 (a stamp) for [`crate::StoreKind::None`], `sector_bytes` otherwise.
    pub fn image_bytes(&self) -> usize {
        self.shape.image_bytes
    }

    /// Returns whether the media were opened from an image file that its last user had not closed.
    pub fn recovered(&self) -> bool {
        self.recovered
    }

    /// Copies the media: same contents, same future, nothing shared. Refused for a file store.
    pub fn fork(&self) -> Result<Media, StoreError> {
        let store = self.store.fork()?;
        Ok(Media {
            layout: self.layout.clone(),
            times: self.times.clone(),
            faults: self.faults.clone(),
            injected: self.injected.clone(),
            data_path: self.data_path.clone(),
            retries: self.retries,
            sees_patterns: self.sees_patterns,
            age_s: self.age_s,
            now: self.now,
            endurance: self.endurance,
            recovered: self.recovered,
            retired: self.retired,
            damaged_reads: self.damaged_reads,
            damaged: self.damaged,
            made: self.made,
            shape: self.shape,
            store,
            lost: self.lost.clone(),
            segments: self.segments.clone(),
        })
    }

    /// Sense time of the page that holds `ppa`; for a unit on pages of several types, the largest. With `op_spread` every
    /// call draws anew.
    #[inline]
    pub fn read_ns(&mut self, ppa: Ppa) -> Nanos {
        let at = self.place(ppa);
        let (die, block) = self.layout.split.blocks_per_die.div_rem(at.block);
        let time = match self.times.slc_read_ns(die, block) {
            Some(time) => time,
            None => self.times.read_ns((die, at.block), at.superpage, at.unit),
        };
        self.slowed(die, time)
    }

    /// Program time of the superpage that starts at `first`.
    #[inline]
    pub fn program_ns(&mut self, first: Ppa) -> Nanos {
        self.program_of_units_ns(first, self.layout.units_per_superpage)
    }

    /// As [`Media::program_ns`], where only the first `units` of the superpage hold data: a block in SLC mode is programmed page by page.
    #[inline]
    pub fn program_of_units_ns(&mut self, first: Ppa, units: u32) -> Nanos {
        let at = self.place(first);
        let (die, block) = self.layout.split.blocks_per_die.div_rem(at.block);
        let time = match self.times.slc_program_ns(die, block, units) {
            Some(time) => time,
            None => self.times.program_ns((die, at.block), at.superpage),
        };
        self.slowed(die, time)
    }

    /// Erase time of `block`.
    #[inline]
    pub fn erase_ns(&mut self, block: BlockId) -> Nanos {
        let die = self.layout.split.blocks_per_die.quotient(block.0);
        let time = self.times.erase_ns(die, block.0);
        self.slowed(die, time)
    }

    /// The host's metadata of whole sectors of one unit, from `first_sector` on, into `out`. They lie in the spare area, so they
    /// are good if [`Media::read`] of the unit was; `out` is filled with zeros where nothing is readable. `false`: the store has lost
    /// them, as it can lose data.
    ///
    /// # Panics
    /// When the sectors reach beyond the unit.
    #[inline]
    pub fn metadata(&self, ppa: Ppa, first_sector: u32, out: &mut [u8]) -> bool {
        let at = self.place(ppa);
        let start = first_sector as usize * self.shape.metadata_bytes;
        assert!(start + out.len() <= self.shape.unit_metadata_bytes, "sectors beyond the unit");
        if self.content(at) != Content::Programmed {
            out.fill(0);
            return true;
        }
        self.store.metadata(at.block, at.index, start, out)
    }

    /// Reads the content that [`Media::put_translation_page`] stored; `None` when it cannot be read.
    pub fn map_page(&self, ppa: Ppa) -> Option<Vec<u8>> {
        let at = self.place(ppa);
        if self.content(at) != Content::Programmed {
            return None;
        }
        if self.shape.image_bytes == self.layout.sector_bytes as usize {
            let stored = self.store.raw(at.block, at.index);
            let good = self.store.is_what_was_stored(at.block, at.index, &stored);
            return good.then(|| {
                let mut bytes = vec![0; self.shape.unit_image_bytes];
                self.reveal(at, 0, &stored, &mut bytes);
                bytes
            });
        }
        self.segments.get(&ppa.0).map(|bytes| bytes.to_vec())
    }

    /// Gives up a unit that could not be read: reads find it uncorrectable until its block is erased, even in a later process.
    pub fn mark_lost(&mut self, ppa: Ppa) {
        let at = self.place(ppa);
        if self.lost.insert(ppa.0) && self.content(at) == Content::Programmed {
            self.store.give_up(at.block, at.index);
        }
    }

    /// Returns whether [`Media::mark_lost`] gave up this unit.
    #[inline]
    pub fn is_lost(&self, ppa: Ppa) -> bool {
        !self.lost.is_empty() && self.lost.contains(&ppa.0)
    }

    /// Reads the spare area of a unit; `None` when the unit is erased, torn, failed or in operation. Read faults do not apply: callers
    /// that need to know whether the data are readable call [`Media::read`].
    #[inline]
    pub fn spare(&self, ppa: Ppa) -> Option<Spare> {
        let at = self.place(ppa);
        if self.content(at) != Content::Programmed {
            return None;
        }
        let (shape, meta) = (&self.shape.meta, self.store.meta(at.block));
        let sequence = shape.first_sequence(meta) + u64::from(shape.offset(meta, at.superpage));
        Some(Spare { lpn: shape.lpn(meta, at.index), sequence })
    }

    /// Returns whether a unit is programmed: [`Media::spare`] would return its spare area.
    #[inline]
    pub fn is_programmed(&self, ppa: Ppa) -> bool {
        self.content(self.place(ppa)) == Content::Programmed
    }

    /// The logical page that the spare area of a unit names; as [`Media::spare`] without the rest.
    #[inline]
    pub fn page(&self, ppa: Ppa) -> Option<Lpn> {
        let at = self.place(ppa);
        (self.content(at) == Content::Programmed)
            .then(|| self.shape.meta.lpn(self.store.meta(at.block), at.index))
    }

    /// As [`Media::page`], for callers that go through a block unit by unit: prefetches what comes next.
    #[inline]
    pub fn page_in_turn(&self, ppa: Ppa) -> Option<Lpn> {
        let at = self.place(ppa);
        if self.content(at) != Content::Programmed {
            return None;
        }
        let (meta, ahead) = (self.store.meta(at.block), at.index + UNITS_AHEAD);
        prefetch_index::prefetch_index(meta, self.shape.meta.lpn_place(ahead));
        if self.shape.unit_stored_bytes <= STAMPS_BYTES_MAX {
            self.store.prefetch(at.block, ahead, 0..1);
        }
        Some(self.shape.meta.lpn(meta, at.index))
    }

    /// Superpages programmed, torn or failed since the last erase. All of them for a block in erase or half erased.
    #[inline]
    pub fn next_superpage(&self, block: BlockId) -> u32 {
        self.store.state(block.0).next_superpage()
    }

    /// The sequence number given when the block's first superpage was begun, whatever became of it. The rules of
    /// [`Media::program_begin`] count from it. Meaningless for a block without a begun superpage.
    pub fn begun_with(&self, block: BlockId) -> u64 {
        self.shape.meta.first_sequence(self.store.meta(block.0))
    }

    /// Complete erases.
    #[inline]
    pub fn erase_count(&self, block: BlockId) -> u32 {
        self.store.state(block.0).erase_count()
    }

    /// Returns the health of the block: whether it may be used.
    #[inline]
    pub fn health(&self, block: BlockId) -> Health {
        self.store.state(block.0).health()
    }

    /// Marks `block` grown bad, for ever. What it holds stays readable. A factory-bad block stays factory bad.
    pub fn retire(&mut self, block: BlockId) {
        let state = self.store.state(block.0);
        if state.health() == Health::Good {
            self.store.set_state(block.0, state.with(Flag::GrownBad));
            self.retired += 1;
        }
    }

    /// Bytes of memory allocated for states, spare areas and data. A file store keeps the data in its file.
    pub fn memory_bytes(&self) -> u64 {
        self.store.memory_bytes()
    }

    /// An array time, scaled for a die that was made slower.
    #[inline]
    fn slowed(&self, die: u32, time: Nanos) -> Nanos {
        match &self.injected {
            None => time,
            Some(injected) => Nanos((time.0 as f64 * injected.time_factor[die as usize]).round() as u64),
        }
    }

    #[inline]
    fn place(&self, ppa: Ppa) -> Place {
        let (block, index) = self.layout.split.units_per_block.div_rem(ppa.0);
        let (superpage, unit) = self.layout.split.units_per_superpage.div_rem(index);
        Place { block, index, superpage, unit }
    }

    #[inline]
    fn content(&self, at: Place) -> Content {
        let state = self.store.state(at.block);
        let next = state.next_superpage();
        if state.all_unreadable() {
            Content::Unreadable
        } else if at.superpage >= next {
            let under_way = state.is(Flag::Programming) && at.superpage == next;
            if under_way { Content::Unreadable } else { Content::Erased }
        } else if state.is(Flag::HasUnreadable)
            && self.shape.meta.offset(self.store.meta(at.block), at.superpage) == UNREADABLE
        {
            Content::Unreadable
        } else {
            Content::Programmed
        }
    }

    fn die_of(&self, block: u32) -> DieId {
        DieId(self.layout.split.blocks_per_die.quotient(block))
    }

    /// Die, and block of the die.
    fn name(&self, block: u32) -> (u32, u32) {
        self.layout.split.blocks_per_die.div_rem(block)
    }
}

fn unit_place(split: &Split, at: Place) -> UnitPlace {
    let (_, block) = split.blocks_per_die.div_rem(at.block);
    UnitPlace { block, superpage: at.superpage, unit: at.unit }
}

impl Clone for Media {
    /// As [`Media::fork`].
    ///
    /// # Panics
    /// With a file store.
    fn clone(&self) -> Media {
        self.fork().unwrap_or_else(|e| panic!("clone of media: {e}"))
    }
}
