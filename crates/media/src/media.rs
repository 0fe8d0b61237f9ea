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
//! Each object alone writes its fields. [`Media`] is the interface: this file has what asks and keeps, `read.rs` and `write.rs` what flash does.

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
use crate::store::{Extent, Remains, Store, StoreNotice, StoreShape};
use crate::times::{self, Times};
use age::Age;
use array::{Array, Content};
use damage::Damage;
use failures::Failures;
use lists::{GivenUp, TranslationPages};
use pellucid_flash::{BlockId, DieId, Layout, Lpn, Nanos, Ppa, SimTime};
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
            media.wear_in(config.integrity.cycles);
            media.array.store.finish_creation()?;
        } else {
            media.power_cut();
        }
        Ok(media)
    }

    /// Ages new media: good blocks have been through `cycles` cycles.
    fn wear_in(&mut self, cycles: u32) {
        for block in 0..self.array.layout.blocks {
            let state = self.array.store.state(block);
            if cycles > 0 && state.health() == Health::Good {
                self.array.store.set_state(block, state.with_erase_count(cycles));
            }
        }
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

    /// Blocks that went bad, of those that were good when the media were made, opened or last asked to [count anew](Media::reset_counts).
    pub fn retired_blocks(&self) -> u64 {
        self.failures.retired()
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

    /// Replaces the present faults by those of `config`, with random streams that start anew. The rest of `config` is ignored.
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

    /// Returns whether [`Fault::KillDie`] was injected for `die`.
    pub fn is_dead(&self, die: DieId) -> bool {
        self.failures.is_dead(die)
    }

    /// Returns whether [`Fault::WearOut`] was injected.
    pub fn spent(&self) -> bool {
        self.failures.spent()
    }

    /// The shape.
    pub fn layout(&self) -> &Layout {
        &self.array.layout
    }

    /// Bytes of the spare area that belong to the host, for each sector.
    pub fn metadata_bytes(&self) -> usize {
        self.array.shape.metadata_bytes
    }

    /// Bytes kept per sector: 4 (a stamp) for [`crate::StoreKind::None`], `sector_bytes` otherwise.
    pub fn image_bytes(&self) -> usize {
        self.array.shape.image_bytes
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

    /// The host's metadata of whole sectors of one unit, from `first_sector` on, into `out`. They lie in the spare area, so they
    /// are good if [`Media::read`] of the unit was; `out` is filled with zeros where nothing is readable. `false`: the store has lost
    /// them, as it can lose data.
    ///
    /// # Panics
    /// When the sectors reach beyond the unit.
    #[inline]
    pub fn metadata(&self, ppa: Ppa, first_sector: u32, out: &mut [u8]) -> bool {
        let at = self.array.place(ppa);
        let start = first_sector as usize * self.array.shape.metadata_bytes;
        assert!(start + out.len() <= self.array.shape.unit_metadata_bytes, "sectors beyond the unit");
        if self.array.content(at) != Content::Programmed {
            out.fill(0);
            return true;
        }
        self.array.store.metadata(at.block, at.index, start, out)
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

    /// Reads the spare area of a unit; `None` when the unit is erased, torn, failed or in operation. Read faults do not apply: callers
    /// that need to know whether the data are readable call [`Media::read`].
    #[inline]
    pub fn spare(&self, ppa: Ppa) -> Option<Spare> {
        let at = self.array.place(ppa);
        if self.array.content(at) != Content::Programmed {
            return None;
        }
        let (shape, meta) = (&self.array.shape.meta, self.array.store.meta(at.block));
        let sequence = shape.first_sequence(meta) + u64::from(shape.offset(meta, at.superpage));
        Some(Spare { lpn: shape.lpn(meta, at.index), sequence })
    }

    /// Returns whether a unit is programmed: [`Media::spare`] would return its spare area.
    #[inline]
    pub fn is_programmed(&self, ppa: Ppa) -> bool {
        self.array.content(self.array.place(ppa)) == Content::Programmed
    }

    /// The logical page that the spare area of a unit names; as [`Media::spare`] without the rest.
    #[inline]
    pub fn page(&self, ppa: Ppa) -> Option<Lpn> {
        let at = self.array.place(ppa);
        (self.array.content(at) == Content::Programmed)
            .then(|| self.array.shape.meta.lpn(self.array.store.meta(at.block), at.index))
    }

    /// As [`Media::page`], for callers that go through a block unit by unit: prefetches what comes next.
    #[inline]
    pub fn page_in_turn(&self, ppa: Ppa) -> Option<Lpn> {
        let at = self.array.place(ppa);
        if self.array.content(at) != Content::Programmed {
            return None;
        }
        let (meta, ahead) = (self.array.store.meta(at.block), at.index + UNITS_AHEAD);
        prefetch_index::prefetch_index(meta, self.array.shape.meta.lpn_place(ahead));
        if self.array.shape.unit_stored_bytes <= STAMPS_BYTES_MAX {
            self.array.store.prefetch(at.block, ahead, 0..1);
        }
        Some(self.array.shape.meta.lpn(meta, at.index))
    }

    /// Superpages programmed, torn or failed since the last erase. All of them for a block in erase or half erased.
    #[inline]
    pub fn next_superpage(&self, block: BlockId) -> u32 {
        self.array.store.state(block.0).next_superpage()
    }

    /// The sequence number given when the block's first superpage was begun, whatever became of it. The rules of
    /// [`Media::program_begin`] count from it. Meaningless for a block without a begun superpage.
    pub fn begun_with(&self, block: BlockId) -> u64 {
        self.array.shape.meta.first_sequence(self.array.store.meta(block.0))
    }

    /// Complete erases.
    #[inline]
    pub fn erase_count(&self, block: BlockId) -> u32 {
        self.array.store.state(block.0).erase_count()
    }

    /// Returns the health of the block: whether it may be used.
    #[inline]
    pub fn health(&self, block: BlockId) -> Health {
        self.array.store.state(block.0).health()
    }

    /// Marks `block` grown bad, for ever. What it holds stays readable. A factory-bad block stays factory bad.
    pub fn retire(&mut self, block: BlockId) {
        let state = self.array.store.state(block.0);
        if state.health() == Health::Good {
            self.array.store.set_state(block.0, state.with(Flag::GrownBad));
            self.failures.count_retired();
        }
    }

    /// Bytes of memory allocated for states, spare areas and data. A file store keeps the data in its file.
    pub fn memory_bytes(&self) -> u64 {
        self.array.store.memory_bytes()
    }

    // ---- what the store adds to flash: an image of one drive, a save area, limits of memory and disk, and their notices

    /// Binds the media to a drive: numbers, with their names, that must not change while the media are kept, because the stored data mean
    /// something else to a drive with other numbers. 0: not given.
    ///
    /// # Errors
    /// When the image in a file store belongs to a drive with other numbers, or when they cannot be written. The image is unchanged.
    pub fn claim(&mut self, words: [(&'static str, u64); 3]) -> Result<(), StoreError> {
        self.array.store.claim(words)
    }

    /// Removes a file that was just made for media that cannot be used; a file that existed before stays.
    pub fn discard(&mut self) {
        self.array.store.discard();
    }

    /// Length of the save area: bytes that a drive keeps beside its flash, as a drive with capacitors keeps its buffer. They are
    /// initially zero. With a file store they survive the end of the process, however it ends; copies of media have their own.
    pub fn save_bytes(&self) -> usize {
        self.array.shape.save_bytes
    }

    /// Bytes of the save area from `at` on.
    ///
    /// # Panics
    /// When they reach beyond it.
    pub fn save_read(&self, at: usize, out: &mut [u8]) {
        self.array.store.save_read(at, out);
    }

    /// Writes bytes to the save area. After this returns, they survive a kill of the process.
    ///
    /// # Errors
    /// When the file cannot take them, as with a full disk; the bytes at this place are then undefined.
    ///
    /// # Panics
    /// When they reach beyond the area.
    pub fn save_write(&mut self, at: usize, bytes: &[u8]) -> Result<(), StoreError> {
        self.array.store.save_write(at, bytes)
    }

    /// Returns whether the store takes more data: its file accepts writes, or its memory has not reached its bound. Otherwise hosts
    /// should be refused writes; those under way are still completed.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.array.store.has_room()
    }

    /// Returns whether the file fails to take written data. Its content is then as a power cut at that moment would have left it, and no
    /// later change may be promised to a host.
    #[inline]
    pub fn holds_back(&self) -> bool {
        self.array.store.holds_back()
    }

    /// Retries writes that the file refused.
    pub fn try_again(&mut self) {
        self.array.store.try_again();
    }

    /// Fulfils a flush; with [`crate::SyncTo::Machine`] waits for the disk.
    ///
    /// # Errors
    /// When the file does not take the written data.
    pub fn promise(&mut self) -> Result<(), StoreError> {
        self.array.store.flushed()
    }

    /// Takes the next notice of the store.
    pub fn store_notice(&mut self) -> Option<StoreNotice> {
        self.array.store.notice()
    }

    /// Memory and disk space that the store may come to use.
    pub fn extent(&self) -> Extent {
        self.array.store.extent()
    }

    /// Reads that found damaged data in the store.
    pub fn damaged_reads(&self) -> u64 {
        self.damage.reads()
    }

    /// Returns whether the last read failed because the store lost the data: the flash itself is as good as before.
    pub fn was_damaged(&self) -> bool {
        self.damage.is_of_last_read()
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

    /// With a file store, writes everything to the disk.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.array.store.sync()
    }

    // ---- snapshots

    /// Writes the state of media in memory to `out`. `config` is what they were made from.
    pub fn export(&self, config: &MediaConfig, out: &mut impl Write) -> Result<(), SnapshotError> {
        snapshot::export(self, config, out)
    }

    /// Makes media from `config` in the state that [`Media::export`] wrote, with the same content and wear, and the same speed of each
    /// die. Shape and kind of store must agree; times, faults and endurance may differ.
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
