//! Programs and erases: the rules that they obey, and the state that each leaves behind.
//!
//! ```text
//!  erased ─► program_begin ─► put_unit, copy_unit .. ─► program_end ─┬─► programmed
//!    ▲                  └─ power cut ─► torn                         └─► failed: the superpage is unreadable
//!    └── erase_end ◄── erase_begin ◄── (any)
//!         └─ failed, or cut off: nothing readable, and bad or to be erased again
//! ```
//! Invariants: the superpages of a block are begun in order, one at a time; what has begun is unreadable until its end; a refused
//! operation changes nothing and draws no random number.

use super::{Content, Health, Media, Outcome, Place, unit_place};
use crate::error::RuleError;
use crate::state::{BlockState, Flag};
use crate::store::UNREADABLE;
use pellucid_flash::{BlockId, Lpn, Ppa, copy_images};

impl Media {
    /// Starts to program the superpage whose first unit is `first`; its units follow with [`Media::put_unit`] or
    /// [`Media::copy_unit`]. Until [`Media::program_end`] the superpage is unreadable.
    pub fn program_begin(&mut self, first: Ppa, sequence: u64) -> Result<(), RuleError> {
        let at = self.place(first);
        let state = self.store.state(at.block);
        self.check_program(state, at)?;
        self.begin_meta(at, sequence)?;
        self.store.begin(at.block, at.superpage);
        self.store.set_state(at.block, state.with(Flag::Programming));
        Ok(())
    }

    /// Programs a superpage with the units `lpns`, of which those of [`Lpn::NONE`] are padding, and their images, one unit's behind the other's:
    /// as [`Media::program_begin`], [`Media::put_unit`] and [`Media::program_end`], for callers whose work takes no time.
    ///
    /// # Panics
    /// When `images` are not those of so many units.
    pub fn program(
        &mut self,
        first: Ppa,
        sequence: u64,
        lpns: &[Lpn],
        images: &[u8],
    ) -> Result<Outcome, RuleError> {
        assert_eq!(images.len(), lpns.len() * self.shape.unit_image_bytes, "image bytes of all units");
        let at = self.place(first);
        let state = self.store.state(at.block);
        self.check_program(state, at)?;
        self.begin_meta(at, sequence)?;
        // Nobody sees the superpage half programmed, unless the process dies and a file is left behind.
        if self.store.outlives_process() {
            self.store.begin(at.block, at.superpage);
            self.store.set_state(at.block, state.with(Flag::Programming));
        }
        self.put_all(at, lpns, images);
        Ok(self.end_program(at, state.with(Flag::Programming)))
    }

    /// Puts the units of a superpage from `at` on.
    #[inline]
    fn put_all(&mut self, at: Place, lpns: &[Lpn], images: &[u8]) {
        let (shape, unit_bytes) = (self.shape.meta, self.shape.unit_image_bytes);
        let as_they_are = !self.data_path.as_ref().is_some_and(|path| path.stores_code_words());
        if as_they_are && let Some((meta, stamps)) = self.store.stamps_mut(at.block) {
            // Media without stamps keep none. The images of padding go when the program ends.
            if !stamps.is_empty() {
                stamps[at.index as usize * unit_bytes..][..images.len()].copy_from_slice(images);
            }
            for (&lpn, unit) in lpns.iter().zip(0..).filter(|&(&lpn, _)| lpn != Lpn::NONE) {
                shape.put(meta, unit, at.index + unit, lpn);
            }
            return;
        }
        for ((&lpn, unit), image) in lpns.iter().zip(0..).zip(images.chunks_exact(unit_bytes.max(1))) {
            if lpn != Lpn::NONE {
                self.put_at(Place { index: at.index + unit, unit, ..at }, lpn, image, None);
            }
        }
    }

    /// Enters the sequence number, and in a block's first superpage the age.
    #[inline]
    fn begin_meta(&mut self, at: Place, sequence: u64) -> Result<(), RuleError> {
        let (shape, age_s) = (&self.shape.meta, if at.superpage == 0 { self.age() } else { 0 });
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

    /// Gives the content of one unit of a begun superpage; `images` are `sectors_per_unit * image_bytes` bytes. Units never
    /// given hold [`Lpn::NONE`] and zeros.
    ///
    /// # Panics
    /// When the superpage has not begun, or `images` has another length.
    #[inline]
    pub fn put_unit(&mut self, ppa: Ppa, lpn: Lpn, images: &[u8]) {
        self.put(ppa, lpn, images, None);
    }

    /// Calls [`Media::put_unit`] and [`Media::put_metadata`].
    ///
    /// # Panics
    /// As in these two functions.
    #[inline]
    pub fn put_unit_with(&mut self, ppa: Ppa, lpn: Lpn, images: &[u8], metadata: &[u8]) {
        self.put(ppa, lpn, images, Some(metadata));
    }

    #[inline]
    fn put(&mut self, ppa: Ppa, lpn: Lpn, images: &[u8], metadata: Option<&[u8]>) {
        let at = self.begun(ppa);
        self.put_at(at, lpn, images, metadata);
    }

    #[inline]
    fn put_at(&mut self, at: Place, lpn: Lpn, images: &[u8], metadata: Option<&[u8]>) {
        assert_eq!(images.len(), self.shape.unit_image_bytes, "image bytes of one unit");
        let (meta, target, metadata_target) = self.store.unit_mut(at.block, at.index, at.unit);
        self.shape.meta.put(meta, at.unit, at.index, lpn);
        if let Some(metadata) = metadata {
            copy_metadata(metadata_target, metadata);
        }
        match &self.data_path {
            Some(path) if path.stores_code_words() => {
                path.store(unit_place(&self.layout.split, at), images, target);
            }
            _ if target.is_empty() => {}
            _ => copy_images(target, images),
        }
    }

    /// Gives the host's metadata of one unit of a begun superpage, after its [`Media::put_unit`]: `sectors_per_unit *
    /// metadata_bytes` bytes, or none for zeros.
    ///
    /// # Panics
    /// When the superpage has not begun, or `metadata` has another length.
    #[inline]
    pub fn put_metadata(&mut self, ppa: Ppa, metadata: &[u8]) {
        let at = self.begun(ppa);
        copy_metadata(self.store.unit_mut(at.block, at.index, at.unit).2, metadata);
    }

    /// Puts a unit that holds all its bytes (`unit_bytes`), whatever the store keeps of host data: a translation page, which a mount must
    /// read back.
    pub fn put_translation_page(&mut self, ppa: Ppa, lpn: Lpn, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.layout.unit_bytes as usize, "bytes of one unit");
        if self.shape.image_bytes == self.layout.sector_bytes as usize {
            return self.put_unit(ppa, lpn, bytes);
        }
        let at = self.begun(ppa);
        let meta = self.store.meta_mut(at.block);
        self.shape.meta.put(meta, at.unit, at.index, lpn);
        self.segments.insert(ppa.0, bytes.into());
    }

    /// Copies content and logical page of a unit into a unit of a begun superpage, inside the die. The data are not checked: if `from` is
    /// unreadable, the program of the superpage fails at its end. An erased unit copies as padding.
    ///
    /// # Panics
    /// When the superpage of `to` has not begun.
    pub fn copy_unit(&mut self, from: Ppa, to: Ppa) {
        let (source, at) = (self.place(from), self.begun(to));
        match self.content(source) {
            Content::Programmed => {}
            Content::Erased => return,
            Content::Unreadable => return self.shape.meta.poison(self.store.meta_mut(at.block)),
        }
        let lpn = self.shape.meta.lpn(self.store.meta(source.block), source.index);
        self.shape.meta.put(self.store.meta_mut(at.block), at.unit, at.index, lpn);
        self.store.copy_unit((source.block, source.index), (at.block, at.index, at.unit));
    }

    /// Ends the program of the superpage that starts at `first`. When it failed the superpage is unreadable, and the caller should
    /// retire the block.
    ///
    /// # Panics
    /// When the superpage has not begun.
    pub fn program_end(&mut self, first: Ppa) -> Outcome {
        let at = self.begun(first);
        self.end_program(at, self.store.state(at.block))
    }

    /// Ends the program of the superpage at `at`, in whose block, which is in `state`, it has begun.
    #[inline]
    fn end_program(&mut self, at: Place, state: BlockState) -> Outcome {
        let injected = self.injected.is_some() && self.program_fails(at.block);
        let by_fault = self.faults.program_fails(at.block, at.superpage, state.erase_count()) || injected;
        let worn_out = self.worn_out(at.block, state);
        let (shape, meta) = (self.shape.meta, self.store.meta(at.block));
        if by_fault || worn_out || shape.poisoned(meta) {
            self.end_unreadable(at.block, state);
            return Outcome::Failed;
        }
        if let Some(missing) = shape.next_missing(meta, 0) {
            self.pad(at, missing);
        }
        self.store.end(at.block, at.superpage, true);
        let done = state.without(Flag::Programming).with_next_superpage(at.superpage + 1);
        self.store.set_state(at.block, done);
        Outcome::Ok
    }

    /// Starts to erase `block`. Until [`Media::erase_end`] all of it is unreadable.
    pub fn erase_begin(&mut self, block: BlockId) -> Result<(), RuleError> {
        let state = self.store.state(block.0);
        self.check_usable(block.0, state)?;
        // Full, but unreadable: no superpage may be programmed before the erase is complete.
        let full = state.with(Flag::Erasing).with_next_superpage(self.layout.superpages_per_block);
        self.store.set_state(block.0, full);
        self.store.forget_block(block.0);
        let first = block.0 * self.layout.units_per_block;
        let units = first..first + self.layout.units_per_block;
        while let Some((&unit, _)) = self.segments.range(units.clone()).next() {
            self.segments.remove(&unit);
        }
        while let Some(&unit) = self.lost.range(units.clone()).next() {
            self.lost.remove(&unit);
        }
        Ok(())
    }

    /// Ends the erase of `block`. When it failed the block is [`Health::GrownBad`] and holds nothing readable.
    ///
    /// # Panics
    /// When the erase has not begun.
    pub fn erase_end(&mut self, block: BlockId) -> Outcome {
        let state = self.store.state(block.0);
        assert!(state.is(Flag::Erasing), "no erase has begun on block {}", block.0);
        let die = self.die_of(block.0);
        let injected = self.injected.as_mut().is_some_and(|injected| injected.erase_fails(die));
        let by_fault = self.faults.erase_fails(block.0, state.erase_count()) || injected;
        if by_fault || self.worn_out(block.0, state) {
            let bad = state.without(Flag::Erasing).with(Flag::HalfErased).with(Flag::GrownBad);
            self.store.set_state(block.0, bad);
            self.retired += u64::from(state.health() == Health::Good);
            return Outcome::Failed;
        }
        self.store.set_state(block.0, state.erased());
        Outcome::Ok
    }

    /// Gives up the content of a retired block: it reads as unreadable from now on, as after a failed erase.
    ///
    /// # Panics
    /// When the block is good; a good one can be erased.
    pub fn invalidate(&mut self, block: BlockId) {
        let state = self.store.state(block.0);
        assert!(state.health() != Health::Good, "block {} is good", block.0);
        let full = state.without(Flag::Programming).with(Flag::HalfErased);
        self.store.set_state(block.0, full.with_next_superpage(self.layout.superpages_per_block));
    }

    /// Cuts the power: begun superpages become torn, and blocks in erase half erased.
    pub fn power_cut(&mut self) {
        for block in 0..self.layout.blocks {
            let state = self.store.state(block);
            if state.is(Flag::Programming) {
                self.end_unreadable(block, state);
            } else if state.is(Flag::Erasing) {
                self.store.set_state(block, state.without(Flag::Erasing).with(Flag::HalfErased));
            }
        }
    }

    /// Returns whether an injected fault makes a program in `block` fail.
    #[cold]
    fn program_fails(&mut self, block: u32) -> bool {
        let die = self.die_of(block);
        self.injected.as_mut().is_some_and(|injected| injected.program_fails(die))
    }

    /// The place of a unit whose superpage is being programmed.
    #[inline(always)]
    fn begun(&self, ppa: Ppa) -> Place {
        let at = self.place(ppa);
        let state = self.store.state(at.block);
        let begun = state.is(Flag::Programming) && state.next_superpage() == at.superpage;
        assert!(begun, "no program has begun on block {} superpage {}", at.block, at.superpage);
        at
    }

    fn check_program(&self, state: BlockState, at: Place) -> Result<(), RuleError> {
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

    fn check_usable(&self, block: u32, state: BlockState) -> Result<(), RuleError> {
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

    fn worn_out(&self, block: u32, state: BlockState) -> bool {
        let worn = self.endurance.is_some_and(|limit| state.erase_count() >= limit);
        worn && !self.times.is_slc(self.layout.split.blocks_per_die.remainder(block))
    }

    /// Fills the units of the begun superpage of `at` that the caller did not give; `missing` is the first of them.
    fn pad(&mut self, at: Place, missing: u32) {
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
    fn end_unreadable(&mut self, block: u32, state: BlockState) {
        let superpage = state.next_superpage();
        let meta = self.store.meta_mut(block);
        self.shape.meta.set_offset(meta, superpage, UNREADABLE);
        self.store.end(block, superpage, false);
        let ended =
            state.without(Flag::Programming).with(Flag::HasUnreadable).with_next_superpage(superpage + 1);
        self.store.set_state(block, ended);
    }
}

/// The host's metadata of one unit, or zeros.
#[inline]
fn copy_metadata(target: &mut [u8], metadata: &[u8]) {
    match metadata {
        [] => target.fill(0),
        given => target.copy_from_slice(given),
    }
}
