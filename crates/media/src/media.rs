//! The media of one drive: the rules of flash, and the effect of each operation.
//!
//! - The superpages of a block are programmed in order, once each between two erases.
//! - Every program and erase has a begin and an end. In between a superpage, or a whole block, is unreadable; a power cut
//!   makes that lasting, until the next complete erase.
//! - A page that is torn, failed, half erased or never programmed is never returned as good data.
//! - A refused operation changes nothing and draws no random number.
//!
//! The media do not queue: the scheduler decides which operation may run when.
//!
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`Array`] | states, spare areas and data of all cells | superpages are begun in order |
//! | [`Times`] | array times, speed of each die | drawn from the seed of the media |
//! | [`Failures`] | planned and injected faults, endurance | one fault does not move the others |
//! | [`DataPath`], [`Retries`] | code, scrambler, bit errors; retries that reads need | see their heads |
//! | [`Age`] | how long the media have existed | it never goes back |
//! | [`GivenUp`], [`TranslationPages`] | units by address | none is of an erased block |
//! | [`Damage`] | reads that found damaged data in the store | the last one is told |
//!
//! Only an object itself writes its fields. [`Media`] is the interface of flash: this file has times, faults and age, `read.rs` and
//! `write.rs` the operations. Separate objects provide the contents of cells, the store's effects, faults and damage.

mod age;
mod array;
mod damage;
mod failures;
mod lists;
mod read;
mod snapshot;
mod write;

pub use snapshot::SnapshotError;

use crate::MediaConfig;
use crate::data_path::DataPath;
use crate::error::{MediaError, StoreError};
use crate::faults;
use crate::injected::{self, Fault};
use crate::integrity;
use crate::retry::Retries;
use crate::state::{BlockState, Flag};
use crate::store::{Remains, Store, StoreShape};
use crate::times::{self, Times};
use age::Age;
pub use array::Array;
use array::Content;
pub use damage::Damage;
pub use failures::Failures;
use lists::{GivenUp, TranslationPages};
use pellucid_flash::{BlockId, Layout, Lpn, Nanos, Ppa, SimTime};
use std::io::{Read, Write};

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
    array: Array,
    times: Times,
    failures: Failures,
    /// Code, scrambler and bit errors; `None`: data are stored as they are and nothing is ever wrong.
    data_path: Option<Box<DataPath>>,
    /// Retries that reads need; `None`: none.
    retries: Option<Retries>,
    /// The error rate depends on the stored data themselves.
    sees_patterns: bool,
    age: Age,
    recovered: bool,
    damage: Damage,
    /// Seed of the properties fixed when the media were made: factory-bad blocks, speed of each die.
    made: u64,
    lost: GivenUp,
    translation_pages: TranslationPages,
}

impl Media {
    /// Makes the media that `config` describes. With a file store, opens the image, or creates it when there is none; an
    /// opened image keeps the bad blocks, wear and die speeds with which it was made, and operations in progress when its
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
            failures: Failures::new(config, &layout),
            sees_patterns: data_path.as_ref().is_some_and(|path| path.sees_patterns(&config.store)),
            data_path,
            retries: Retries::new(config, &layout),
            age: Age::new(opened.age_s),
            recovered: opened.recovered,
            damage: Damage::default(),
            made: opened.made,
            lost: GivenUp::default(),
            translation_pages: TranslationPages::default(),
            array: Array { layout, shape, store: opened.store },
        };
        if opened.created {
            for block in faults::factory_bad(&config.faults, &media.array.layout, opened.made) {
                media.array.store.set_state(block, BlockState::default().with(Flag::FactoryBad));
            }
            media.array.wear_in(config.integrity.cycles);
            media.array.store.finish_creation()?;
        } else {
            check_past(&media.array, media.made, config)?;
            media.power_cut();
        }
        Ok(media)
    }

    /// Sets the drive's time, which never goes back. It determines the age of stored data.
    #[inline]
    pub fn set_now(&mut self, now: SimTime) {
        self.age.set_now(now);
    }

    /// Lets time pass at once, as on a shelf: stored data become older by `seconds`.
    pub fn elapse(&mut self, seconds: u64) {
        self.age.elapse(seconds);
        self.array.store.set_age(self.age.seconds());
    }

    /// Chunks with more wrong bits than the code corrects that its decoder took for other data. They are uncorrectable all the same (see
    /// `data_path.rs`).
    pub fn miscorrected_chunks(&self) -> u64 {
        self.data_path.as_ref().map_or(0, |path| path.miscorrected)
    }

    /// Resets the counts to zero.
    pub fn reset_counts(&mut self) {
        self.failures.reset_counts();
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

    /// Replaces the present faults by those of `config`, with restarted random streams. The rest of `config` is ignored.
    pub fn set_faults(&mut self, config: &MediaConfig) -> Result<(), MediaError> {
        self.failures.plan_anew(config, &self.array.layout)
    }

    /// Checks that [`Media::inject`] would accept this fault, without injecting it.
    pub fn check_fault(&self, fault: Fault) -> Result<(), MediaError> {
        let errs = self.data_path.as_ref().is_some_and(|path| path.errs());
        injected::check(fault, &self.array.layout, errs)
    }

    /// Injects a fault into the running media.
    pub fn inject(&mut self, fault: Fault) -> Result<(), MediaError> {
        let errs = self.data_path.as_ref().is_some_and(|path| path.errs());
        self.failures.inject(fault, &self.array.layout, errs)
    }

    /// The shape.
    pub fn layout(&self) -> &Layout {
        &self.array.layout
    }

    /// Bytes kept per sector: 4 (a stamp) for [`crate::StoreKind::None`], `sector_bytes` otherwise.
    pub fn image_bytes(&self) -> usize {
        self.array.shape.image_bytes
    }

    /// Faults of the media, and blocks that they have cost.
    #[inline]
    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Damaged data that reads have found in the store.
    #[inline]
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// The cells: what each unit and block holds.
    #[inline]
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// The store: an image of one drive, a save area, limits of memory and disk, and notices of these.
    #[inline]
    pub fn store(&self) -> &Store {
        &self.array.store
    }

    /// The store, to be changed.
    #[inline]
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.array.store
    }

    /// Returns whether the media were opened from an image file that its last user had not closed.
    pub fn recovered(&self) -> bool {
        self.recovered
    }

    /// Copies the media: same contents, same future, nothing shared. Refused for a file store.
    pub fn fork(&self) -> Result<Media, StoreError> {
        Ok(Media {
            array: self.array.fork()?,
            times: self.times.clone(),
            failures: self.failures.clone(),
            data_path: self.data_path.clone(),
            retries: self.retries,
            sees_patterns: self.sees_patterns,
            age: self.age,
            recovered: self.recovered,
            damage: self.damage,
            made: self.made,
            lost: self.lost.clone(),
            translation_pages: self.translation_pages.clone(),
        })
    }

    /// Sense time of the page that holds `ppa`; for a unit on pages of several types, the largest. With `op_spread` every
    /// call draws anew.
    #[inline]
    pub fn read_ns(&mut self, ppa: Ppa) -> Nanos {
        let at = self.array.place(ppa);
        let (die, block) = self.array.layout.split.blocks_per_die.div_rem(at.block);
        let time = match self.times.slc_read_ns(die, block) {
            Some(time) => time,
            None => self.times.read_ns((die, at.block), at.superpage, at.unit),
        };
        self.failures.slowed(die, time)
    }

    /// Program time of the superpage that starts at `first`.
    #[inline]
    pub fn program_ns(&mut self, first: Ppa) -> Nanos {
        self.program_of_units_ns(first, self.array.layout.units_per_superpage)
    }

    /// As [`Media::program_ns`], where only the first `units` of the superpage hold data: a block in SLC mode is programmed page by page.
    #[inline]
    pub fn program_of_units_ns(&mut self, first: Ppa, units: u32) -> Nanos {
        let at = self.array.place(first);
        let (die, block) = self.array.layout.split.blocks_per_die.div_rem(at.block);
        let time = match self.times.slc_program_ns(die, block, units) {
            Some(time) => time,
            None => self.times.program_ns((die, at.block), at.superpage),
        };
        self.failures.slowed(die, time)
    }

    /// Erase time of `block`.
    #[inline]
    pub fn erase_ns(&mut self, block: BlockId) -> Nanos {
        let die = self.array.layout.split.blocks_per_die.quotient(block.0);
        let time = self.times.erase_ns(die, block.0);
        self.failures.slowed(die, time)
    }

    /// Reads the content that [`Media::put_translation_page`] stored; `None` when it cannot be read.
    pub fn map_page(&self, ppa: Ppa) -> Option<Vec<u8>> {
        let at = self.array.place(ppa);
        if self.array.content(at) != Content::Programmed {
            return None;
        }
        if self.array.shape.image_bytes == self.array.layout.sector_bytes as usize {
            let stored = self.array.store.raw(at.block, at.index);
            let good = self.array.store.is_what_was_stored(at.block, at.index, &stored);
            return good.then(|| {
                let mut bytes = vec![0; self.array.shape.unit_image_bytes];
                self.reveal(at, 0, &stored, &mut bytes);
                bytes
            });
        }
        self.translation_pages.get(ppa.0).map(<[u8]>::to_vec)
    }

    /// Gives up a unit that could not be read: reads find it uncorrectable until its block is erased, even in a later process.
    pub fn mark_lost(&mut self, ppa: Ppa) {
        let at = self.array.place(ppa);
        if self.lost.add(ppa.0) && self.array.content(at) == Content::Programmed {
            self.array.store.give_up(at.block, at.index);
        }
    }

    /// Returns whether [`Media::mark_lost`] gave up this unit.
    #[inline]
    pub fn is_lost(&self, ppa: Ppa) -> bool {
        self.lost.has(ppa.0)
    }

    /// Marks `block` grown bad, for ever. What it holds stays readable. A factory-bad block stays factory bad.
    pub fn retire(&mut self, block: BlockId) {
        let state = self.array.store.state(block.0);
        if state.health() == Health::Good {
            self.array.store.set_state(block.0, state.with(Flag::GrownBad));
            self.failures.count_retired();
        }
    }

    /// Returns whether [`Media::forget`] saves memory.
    pub fn forgets(&self) -> bool {
        self.array.store.forgets() && !self.sees_patterns
    }

    /// Discards the data of a unit that are no longer needed, although its block is not erased yet: `remains` says why, and what a read
    /// finds from then on. The spare area stays.
    #[inline]
    pub fn forget(&mut self, ppa: Ppa, remains: Remains) {
        let at = self.array.place(ppa);
        if self.array.content(at) == Content::Programmed && self.forgets() {
            self.array.store.forget(at.block, at.index, remains);
        }
    }

    // ---- snapshots

    /// Writes the state of media in memory to `out`. `config` is what they were made from.
    pub fn export(&self, config: &MediaConfig, out: &mut impl Write) -> Result<(), SnapshotError> {
        snapshot::export(self, config, out)
    }

    /// Makes media from `config` in the state that [`Media::export`] wrote, with the same content and wear, and the same speed of each
    /// die. Geometry and kind of store must agree; times, faults and endurance may differ.
    pub fn import(config: &MediaConfig, input: &mut impl Read) -> Result<Media, SnapshotError> {
        snapshot::import(config, input)
    }
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

/// Refuses a description of new media that a file was not made with: it would have no effect.
fn check_past(array: &Array, made: u64, config: &MediaConfig) -> Result<(), MediaError> {
    let refuse = |key, value: String| {
        let allowed = "what the media file was made with (it describes new media), or another file".into();
        Err(MediaError::Config { key, value, allowed })
    };
    let Array { layout, store, .. } = array;
    let is_good = |block: u32| store.state(block).health() == Health::Good;
    let cycles = config.integrity.cycles;
    if (0..layout.blocks).any(|block| is_good(block) && store.state(block).erase_count() < cycles) {
        return refuse("cycles", cycles.to_string());
    }
    match faults::factory_bad(&config.faults, layout, made).any(is_good) {
        true => refuse("faults.factory_bad", config.faults.factory_bad.to_string()),
        false => Ok(()),
    }
}
