//! The array of cells: where a unit lies, what it holds, and the rules that programs and erases obey.
//!
//! Invariants: the superpages of a block are begun in order, one at a time; what has begun is unreadable until its end; a refused operation
//! changes nothing.

use super::Health;
use super::age::Age;
use crate::data_path::UnitPlace;
use crate::error::{RuleError, StoreError};
use crate::state::{BlockState, Flag};
use crate::store::{Store, StoreShape, UNREADABLE};
use pellucid_flash::{DieId, Layout, Lpn, Ppa, Split};

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
pub(super) struct Array {
    pub layout: Layout,
    pub shape: StoreShape,
    pub store: Store,
}

impl Array {
    /// Copies the array: nothing is shared. Refused for a file store.
    pub fn fork(&self) -> Result<Array, StoreError> {
        let store = self.store.fork()?;
        Ok(Array { layout: self.layout.clone(), shape: self.shape, store })
    }

    /// Address of a unit.
    #[inline]
    pub fn address(&self, at: Place) -> Ppa {
        Ppa(at.block * self.layout.units_per_block + at.index)
    }

    /// Units of a block.
    pub fn units(&self, block: u32) -> std::ops::Range<u32> {
        let first = block * self.layout.units_per_block;
        first..first + self.layout.units_per_block
    }

    /// Place of a unit.
    #[inline]
    pub fn place(&self, ppa: Ppa) -> Place {
        let (block, index) = self.layout.split.units_per_block.div_rem(ppa.0);
        let (superpage, unit) = self.layout.split.units_per_superpage.div_rem(index);
        Place { block, index, superpage, unit }
    }

    /// Content of a unit.
    #[inline]
    pub fn content(&self, at: Place) -> Content {
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
    pub fn die_of(&self, block: u32) -> DieId {
        DieId(self.layout.split.blocks_per_die.quotient(block))
    }

    /// Die, and block of the die.
    pub fn name(&self, block: u32) -> (u32, u32) {
        self.layout.split.blocks_per_die.div_rem(block)
    }

    /// Enters the sequence number, and in a block's first superpage the age.
    #[inline]
    pub fn begin_meta(&mut self, at: Place, sequence: u64, age: &Age) -> Result<(), RuleError> {
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
    pub fn begun(&self, ppa: Ppa) -> Place {
        let at = self.place(ppa);
        let state = self.store.state(at.block);
        let begun = state.is(Flag::Programming) && state.next_superpage() == at.superpage;
        assert!(begun, "no program has begun on block {} superpage {}", at.block, at.superpage);
        at
    }

    /// Checks that a program may begin here, in a block of this state.
    pub fn check_program(&self, state: BlockState, at: Place) -> Result<(), RuleError> {
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
    pub fn check_usable(&self, block: u32, state: BlockState) -> Result<(), RuleError> {
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
    pub fn pad(&mut self, at: Place, missing: u32) {
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
    pub fn end_unreadable(&mut self, block: u32, state: BlockState) {
        let superpage = state.next_superpage();
        let meta = self.store.meta_mut(block);
        self.shape.meta.set_offset(meta, superpage, UNREADABLE);
        self.store.end(block, superpage, false);
        let ended =
            state.without(Flag::Programming).with(Flag::HasUnreadable).with_next_superpage(superpage + 1);
        self.store.set_state(block, ended);
    }
}

/// Place of a unit as the data path names it.
#[inline]
pub(super) fn unit_place(split: &Split, at: Place) -> UnitPlace {
    let (_, block) = split.blocks_per_die.div_rem(at.block);
    UnitPlace { block, superpage: at.superpage, unit: at.unit }
}
