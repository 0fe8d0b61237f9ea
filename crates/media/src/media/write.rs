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

use super::array::{Array, Content, Place, unit_place};
use super::{Health, Media, Outcome};
use crate::data_path::DataPath;
use crate::error::RuleError;
use crate::state::{BlockState, Flag};
use pellucid_flash::{BlockId, Lpn, Ppa, copy_images};

impl Media {
    /// Starts to program the superpage whose first unit is `first`; its units follow with [`Media::put_unit`] or
    /// [`Media::copy_unit`]. Until [`Media::program_end`] the superpage is unreadable.
    pub fn program_begin(&mut self, first: Ppa, sequence: u64) -> Result<(), RuleError> {
        let at = self.array.place(first);
        let state = self.array.store.state(at.block);
        self.array.check_program(state, at)?;
        self.array.begin_meta(at, sequence, &self.age)?;
        self.array.store.begin(at.block, at.superpage);
        self.array.store.set_state(at.block, state.with(Flag::Programming));
        Ok(())
    }

    /// Programs a superpage with the units `lpns` ([`Lpn::NONE`] is padding) and their concatenated images: acts like
    /// [`Media::program_begin`], [`Media::put_unit`] and [`Media::program_end`], for callers whose work takes no time.
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
        assert_eq!(images.len(), lpns.len() * self.array.shape.unit_image_bytes, "image bytes of all units");
        let at = self.array.place(first);
        let state = self.array.store.state(at.block);
        self.array.check_program(state, at)?;
        self.array.begin_meta(at, sequence, &self.age)?;
        // Nobody sees the superpage half programmed, unless the process dies and a file is left behind.
        if self.array.store.outlives_process() {
            self.array.store.begin(at.block, at.superpage);
            self.array.store.set_state(at.block, state.with(Flag::Programming));
        }
        self.array.put_all(self.data_path.as_deref(), at, (lpns, images));
        Ok(self.end_program(at, state.with(Flag::Programming)))
    }

    /// Gives the content of one unit of a begun superpage; `images` are `sectors_per_unit * image_bytes` bytes. Units never
    /// given hold [`Lpn::NONE`] and zeros.
    ///
    /// # Panics
    /// When the superpage has not begun, or `images` has another length.
    #[inline]
    pub fn put_unit(&mut self, ppa: Ppa, lpn: Lpn, images: &[u8]) {
        let at = self.array.begun(ppa);
        self.array.put_at(self.data_path.as_deref(), at, lpn, (images, None));
    }

    /// Calls [`Media::put_unit`] and [`Media::put_metadata`].
    ///
    /// # Panics
    /// As in these two functions.
    #[inline]
    pub fn put_unit_with(&mut self, ppa: Ppa, lpn: Lpn, images: &[u8], metadata: &[u8]) {
        let at = self.array.begun(ppa);
        self.array.put_at(self.data_path.as_deref(), at, lpn, (images, Some(metadata)));
    }

    /// Gives the host's metadata of one unit of a begun superpage, after its [`Media::put_unit`]: `sectors_per_unit *
    /// metadata_bytes` bytes, or none for zeros.
    ///
    /// # Panics
    /// When the superpage has not begun, or `metadata` has another length.
    #[inline]
    pub fn put_metadata(&mut self, ppa: Ppa, metadata: &[u8]) {
        let at = self.array.begun(ppa);
        copy_metadata(self.array.store.unit_mut(at.block, at.index, at.unit).2, metadata);
    }

    /// Puts a unit that holds all its bytes (`unit_bytes`), whatever the store keeps of host data: a translation page, which a mount must
    /// read back.
    pub fn put_translation_page(&mut self, ppa: Ppa, lpn: Lpn, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.array.layout.unit_bytes as usize, "bytes of one unit");
        if self.array.shape.image_bytes == self.array.layout.sector_bytes as usize {
            return self.put_unit(ppa, lpn, bytes);
        }
        let at = self.array.begun(ppa);
        let meta = self.array.store.meta_mut(at.block);
        self.array.shape.meta.put(meta, at.unit, at.index, lpn);
        self.translation_pages.put(ppa.0, bytes.into());
    }

    /// Copies content and logical page of a unit into a unit of a begun superpage, inside the die. The data are not checked: if `from` is
    /// unreadable, the program of the superpage fails at its end. An erased unit copies as padding.
    ///
    /// # Panics
    /// When the superpage of `to` has not begun.
    pub fn copy_unit(&mut self, from: Ppa, to: Ppa) {
        let (source, at) = (self.array.place(from), self.array.begun(to));
        match self.array.content(source) {
            Content::Programmed => {}
            Content::Erased => return,
            Content::Unreadable => return self.array.shape.meta.poison(self.array.store.meta_mut(at.block)),
        }
        let lpn = self.array.shape.meta.lpn(self.array.store.meta(source.block), source.index);
        self.array.shape.meta.put(self.array.store.meta_mut(at.block), at.unit, at.index, lpn);
        self.array.store.copy_unit((source.block, source.index), (at.block, at.index, at.unit));
    }

    /// Ends the program of the superpage that starts at `first`. When it failed the superpage is unreadable, and the caller should
    /// retire the block.
    ///
    /// # Panics
    /// When the superpage has not begun.
    pub fn program_end(&mut self, first: Ppa) -> Outcome {
        let at = self.array.begun(first);
        self.end_program(at, self.array.store.state(at.block))
    }

    /// Ends the program of the superpage at `at`, in whose block, which is in `state`, it has begun.
    #[inline]
    fn end_program(&mut self, at: Place, state: BlockState) -> Outcome {
        let die = || self.array.die_of(at.block);
        let by_fault = self.failures.program_fails(die, at.block, at.superpage, state.erase_count());
        let worn_out = worn_out(self, at.block, state);
        let (shape, meta) = (self.array.shape.meta, self.array.store.meta(at.block));
        if by_fault || worn_out || shape.poisoned(meta) {
            self.array.end_unreadable(at.block, state);
            return Outcome::Failed;
        }
        if let Some(missing) = shape.next_missing(meta, 0) {
            self.array.pad(at, missing);
        }
        self.array.store.end(at.block, at.superpage, true);
        let done = state.without(Flag::Programming).with_next_superpage(at.superpage + 1);
        self.array.store.set_state(at.block, done);
        Outcome::Ok
    }

    /// Starts to erase `block`. Until [`Media::erase_end`] all of it is unreadable.
    pub fn erase_begin(&mut self, block: BlockId) -> Result<(), RuleError> {
        let state = self.array.store.state(block.0);
        self.array.check_usable(block.0, state)?;
        // Full, but unreadable: no superpage may be programmed before the erase is complete.
        let full = state.with(Flag::Erasing).with_next_superpage(self.array.layout.superpages_per_block);
        self.array.store.set_state(block.0, full);
        self.array.store.forget_block(block.0);
        self.translation_pages.erase(self.array.units(block.0));
        self.lost.erase(self.array.units(block.0));
        Ok(())
    }

    /// Ends the erase of `block`. When it failed the block is [`Health::GrownBad`] and holds nothing readable.
    ///
    /// # Panics
    /// When the erase has not begun.
    pub fn erase_end(&mut self, block: BlockId) -> Outcome {
        let state = self.array.store.state(block.0);
        assert!(state.is(Flag::Erasing), "no erase has begun on block {}", block.0);
        let die = self.array.die_of(block.0);
        let by_fault = self.failures.erase_fails(die, block.0, state.erase_count());
        if by_fault || worn_out(self, block.0, state) {
            let bad = state.without(Flag::Erasing).with(Flag::HalfErased).with(Flag::GrownBad);
            self.array.store.set_state(block.0, bad);
            if state.health() == Health::Good {
                self.failures.count_retired();
            }
            return Outcome::Failed;
        }
        self.array.store.set_state(block.0, state.erased());
        Outcome::Ok
    }

    /// Gives up the content of a retired block: it reads as unreadable from now on, as after a failed erase.
    ///
    /// # Panics
    /// When the block is good; a good one can be erased.
    pub fn invalidate(&mut self, block: BlockId) {
        let state = self.array.store.state(block.0);
        assert!(state.health() != Health::Good, "block {} is good", block.0);
        let full = state.without(Flag::Programming).with(Flag::HalfErased);
        self.array.store.set_state(block.0, full.with_next_superpage(self.array.layout.superpages_per_block));
    }

    /// Cuts the power: begun superpages become torn, and blocks in erase half erased.
    pub fn power_cut(&mut self) {
        for block in 0..self.array.layout.blocks {
            let state = self.array.store.state(block);
            if state.is(Flag::Programming) {
                self.array.end_unreadable(block, state);
            } else if state.is(Flag::Erasing) {
                self.array.store.set_state(block, state.without(Flag::Erasing).with(Flag::HalfErased));
            }
        }
    }
}

/// Units that a program brings.
impl Array {
    /// Puts the units of a superpage from `at` on.
    #[inline]
    fn put_all(&mut self, path: Option<&DataPath>, at: Place, (lpns, images): (&[Lpn], &[u8])) {
        let (shape, unit_bytes) = (self.shape.meta, self.shape.unit_image_bytes);
        let as_they_are = !path.is_some_and(DataPath::stores_code_words);
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
                self.put_at(path, Place { index: at.index + unit, unit, ..at }, lpn, (image, None));
            }
        }
    }

    /// Puts a unit, with its metadata if they are given.
    #[inline]
    fn put_at(
        &mut self,
        path: Option<&DataPath>,
        at: Place,
        lpn: Lpn,
        (images, metadata): (&[u8], Option<&[u8]>),
    ) {
        assert_eq!(images.len(), self.shape.unit_image_bytes, "image bytes of one unit");
        let (meta, target, metadata_target) = self.store.unit_mut(at.block, at.index, at.unit);
        self.shape.meta.put(meta, at.unit, at.index, lpn);
        if let Some(metadata) = metadata {
            copy_metadata(metadata_target, metadata);
        }
        match path {
            Some(path) if path.stores_code_words() => {
                path.store(unit_place(&self.layout.split, at), images, target);
            }
            _ if target.is_empty() => {}
            _ => copy_images(target, images),
        }
    }
}

/// Returns whether a block in `state` has had more cycles than it endures.
fn worn_out(media: &Media, block: u32, state: BlockState) -> bool {
    media.failures.is_worn_out(state.erase_count())
        && !media.times.is_slc(media.array.layout.split.blocks_per_die.remainder(block))
}

/// The host's metadata of one unit, or zeros.
#[inline]
fn copy_metadata(target: &mut [u8], metadata: &[u8]) {
    match metadata {
        [] => target.fill(0),
        given => target.copy_from_slice(given),
    }
}
