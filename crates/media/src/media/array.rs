//! The array of cells: the addresses and contents of units, and the rules of programs and erases.
//!
//! Invariants: the superpages of a block are begun in order, one at a time; a superpage is unreadable until its program ends; a refused
//! operation changes nothing.

use super::age::Age;
use super::{Health, Spare};
use crate::data_path::UnitPlace;
use crate::error::{RuleError, StoreError};
use crate::state::{BlockState, Flag};
use crate::store::{Store, StoreShape, UNREADABLE};
use pellucid_flash::{BlockId, DieId, Layout, Lpn, Ppa, Split};

/// Shorter data (stamps in place of data) are not worth a prefetch.
const PREFETCH_BYTES_MIN: usize = 512;
/// Longest prefetch. The rest is fetched while the first part is being copied: the processor detects the sequence by itself, and stalls
/// on more outstanding lines than it can track (measured: 1 KiB is cheaper than 4 KiB).
const PREFETCH_BYTES_MAX: usize = 1024;

/// Units by which the prefetch of a block's content runs ahead: this many logical pages fill a cache line.
const UNITS_AHEAD: u32 = 16;
/// Longer units are not prefetched so early: each takes more cache than GC can use.
const STAMPS_BYTES_MAX: usize = 16;

/// Location of a mapping unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub block: u32,
    /// Unit of the block.
    pub index: u32,
    pub superpage: u32,
    /// Unit of the superpage.
    pub unit: u32,
}

/// Content of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Programmed,
    Unreadable,
    Erased,
}

/// The array of cells. Layout and shape never change; the store keeps its own invariants.
#[derive(Debug)]
pub struct Array {
    pub(super) layout: Layout,
    pub(super) shape: StoreShape,
    pub(super) store: Store,
}

/// Content of units and blocks.
impl Array {
    /// Bytes of the spare area that belong to the host, for each sector.
    pub fn metadata_bytes(&self) -> usize {
        self.shape.metadata_bytes
    }

    /// Length of the save area: bytes that a drive keeps beside its flash, as a drive with capacitors keeps its buffer. They are
    /// initially zero. With a file store they survive the end of the process, however it ends; copies of media have their own.
    pub fn save_bytes(&self) -> usize {
        self.shape.save_bytes
    }

    /// The host's metadata of whole sectors of one unit, from `first_sector` on, into `out`. They are in the spare area, so they are
    /// good if [`Media::read`] of the unit was; `out` is filled with zeros if nothing is readable. `false`: the store has lost them,
    /// as it can lose data.
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

    /// Returns whether a unit is programmed: [`Array::spare`] would return its spare area.
    #[inline]
    pub fn is_programmed(&self, ppa: Ppa) -> bool {
        self.content(self.place(ppa)) == Content::Programmed
    }

    /// The logical page that the spare area of a unit names; as [`Array::spare`] without the rest.
    #[inline]
    pub fn page(&self, ppa: Ppa) -> Option<Lpn> {
        let at = self.place(ppa);
        (self.content(at) == Content::Programmed)
            .then(|| self.shape.meta.lpn(self.store.meta(at.block), at.index))
    }

    /// Acts like [`Array::page`], for callers that walk a block unit by unit: prefetches the next units.
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

    /// Prefetches the memory of a unit that [`Media::read`] will read: much of its time is waiting for memory.
    #[inline]
    pub fn prefetch(&self, ppa: Ppa) {
        let bytes = self.shape.unit_stored_bytes;
        if bytes >= PREFETCH_BYTES_MIN {
            let at = self.place(ppa);
            self.store.prefetch(at.block, at.index, 0..bytes.min(PREFETCH_BYTES_MAX));
        }
    }

    /// Prefetches, as [`Array::prefetch`], `sectors` sectors of a unit, from `first` on.
    #[inline]
    pub fn prefetch_sectors(&self, ppa: Ppa, first: u32, sectors: u32) {
        if self.shape.unit_stored_bytes >= PREFETCH_BYTES_MIN {
            let at = self.place(ppa);
            let from = first as usize * self.shape.image_bytes;
            let end = (from + (sectors as usize * self.shape.image_bytes).min(PREFETCH_BYTES_MAX))
                .min(self.shape.unit_stored_bytes);
            self.store.prefetch(at.block, at.index, from..end);
        }
    }

    /// First step of [`Array::prefetch`]: call it for all units of a batch before their reads. TLB misses dominate the waiting time, and
    /// the processor resolves several at once only if nothing else is between.
    #[inline]
    pub fn touch(&self, ppa: Ppa) {
        let bytes = self.shape.unit_stored_bytes;
        if bytes >= PREFETCH_BYTES_MIN {
            let at = self.place(ppa);
            self.store.prefetch(at.block, at.index, 0..1);
        }
    }
}

/// Places, and the rules of flash.
impl Array {
    /// Copies the array: nothing is shared. Refused for a file store.
    pub(super) fn fork(&self) -> Result<Array, StoreError> {
        let store = self.store.fork()?;
        Ok(Array { layout: self.layout.clone(), shape: self.shape, store })
    }

    /// Address of a unit.
    #[inline]
    pub(super) fn address(&self, at: Place) -> Ppa {
        Ppa(at.block * self.layout.units_per_block + at.index)
    }

    /// Units of a block.
    pub(super) fn units(&self, block: u32) -> std::ops::Range<u32> {
        let first = block * self.layout.units_per_block;
        first..first + self.layout.units_per_block
    }

    /// Place of a unit.
    #[inline]
    pub(super) fn place(&self, ppa: Ppa) -> Place {
        let (block, index) = self.layout.split.units_per_block.div_rem(ppa.0);
        let (superpage, unit) = self.layout.split.units_per_superpage.div_rem(index);
        Place { block, index, superpage, unit }
    }

    /// Content of a unit.
    #[inline]
    pub(super) fn content(&self, at: Place) -> Content {
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

    /// Die of a block.
    pub(super) fn die_of(&self, block: u32) -> DieId {
        DieId(self.layout.split.blocks_per_die.quotient(block))
    }

    /// Die, and block of the die.
    pub(super) fn name(&self, block: u32) -> (u32, u32) {
        self.layout.split.blocks_per_die.div_rem(block)
    }

    /// Enters the sequence number, and in a block's first superpage the age.
    #[inline]
    pub(super) fn begin_meta(&mut self, at: Place, sequence: u64, age: &Age) -> Result<(), RuleError> {
        let (shape, age_s) = (&self.shape.meta, if at.superpage == 0 { age.seconds() } else { 0 });
        let meta = self.store.meta_mut(at.block);
        let first = if at.superpage == 0 { sequence } else { shape.first_sequence(meta) };
        let offset = sequence.checked_sub(first).and_then(|d| u32::try_from(d).ok());
        let Some(offset) = offset.filter(|&d| d != UNREADABLE) else {
            return Err(self.wrong_sequence(at, sequence, first));
        };
        shape.begin(meta, at.superpage, first, offset);
        if at.superpage == 0 {
            shape.set_born(meta, age_s);
            self.store.set_age(age_s);
        }
        Ok(())
    }

    /// The place of a unit whose superpage is being programmed.
    #[inline(always)]
    pub(super) fn begun(&self, ppa: Ppa) -> Place {
        let at = self.place(ppa);
        let state = self.store.state(at.block);
        let begun = state.is(Flag::Programming) && state.next_superpage() == at.superpage;
        assert!(begun, "no program has begun on block {} superpage {}", at.block, at.superpage);
        at
    }

    /// Checks that a program may begin here, in a block of this state.
    pub(super) fn check_program(&self, state: BlockState, at: Place) -> Result<(), RuleError> {
        self.check_usable(at.block, state)?;
        let next_superpage = state.next_superpage();
        if at.superpage == next_superpage && at.unit == 0 {
            return Ok(());
        }
        Err(self.wrong_place(at, next_superpage))
    }

    #[cold]
    fn wrong_place(&self, at: Place, next_superpage: u32) -> RuleError {
        let ((die, block), superpage) = (self.name(at.block), at.superpage);
        if superpage < next_superpage {
            RuleError::NotErased { die, block, superpage }
        } else {
            RuleError::OutOfOrder { die, block, superpage, unit: at.unit, next_superpage }
        }
    }

    #[cold]
    fn wrong_sequence(&self, at: Place, sequence: u64, first: u64) -> RuleError {
        let (die, block) = self.name(at.block);
        RuleError::Sequence { die, block, superpage: at.superpage, sequence, first }
    }

    /// Checks that a block of this state is good and idle.
    pub(super) fn check_usable(&self, block: u32, state: BlockState) -> Result<(), RuleError> {
        if state.health() == Health::Good && !state.busy() {
            return Ok(());
        }
        Err(self.unusable(block, state.health()))
    }

    #[cold]
    fn unusable(&self, block: u32, health: Health) -> RuleError {
        let (die, block) = self.name(block);
        if health == Health::Good {
            RuleError::Busy { die, block }
        } else {
            RuleError::BadBlock { die, block, health }
        }
    }

    /// Fills the units of the begun superpage of `at` that the caller did not give; `missing` is the first of them.
    pub(super) fn pad(&mut self, at: Place, missing: u32) {
        let shape = self.shape.meta;
        let mut next = Some(missing);
        while let Some(unit) = next {
            let index = at.index - at.unit + unit;
            // Padding is never read, so it needs no code words.
            self.store.clear_unit(at.block, index, unit);
            let meta = self.store.meta_mut(at.block);
            shape.put(meta, unit, index, Lpn::NONE);
            next = shape.next_missing(meta, unit + 1);
        }
    }

    /// Ends the begun superpage of `block` as torn or failed.
    pub(super) fn end_unreadable(&mut self, block: u32, state: BlockState) {
        let superpage = state.next_superpage();
        let meta = self.store.meta_mut(block);
        self.shape.meta.set_offset(meta, superpage, UNREADABLE);
        self.store.end(block, superpage, false);
        let ended =
            state.without(Flag::Programming).with(Flag::HasUnreadable).with_next_superpage(superpage + 1);
        self.store.set_state(block, ended);
    }

    /// Ages new media: good blocks have been through `cycles` cycles.
    pub(super) fn wear_in(&mut self, cycles: u32) {
        for block in 0..self.layout.blocks {
            let state = self.store.state(block);
            if cycles > 0 && state.health() == Health::Good {
                self.store.set_state(block, state.with_erase_count(cycles));
            }
        }
    }
}

/// Place of a unit as the data path names it.
#[inline]
pub(super) fn unit_place(split: &Split, at: Place) -> UnitPlace {
    let (_, block) = split.blocks_per_die.div_rem(at.block);
    UnitPlace { block, superpage: at.superpage, unit: at.unit }
}
