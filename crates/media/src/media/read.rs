//! Reading: the content of a unit, its wrong bits in this read, and whether the code corrects them.
//!
//! ```text
//!  read ─► content: never programmed, torn, lost? ─► no good data
//!             └─ programmed ─► data path: wrong bits of this attempt, corrected or not ─► data, or zeros and the reason
//! ```

use super::array::{Array, Content, Place, unit_place};
use super::{Damage, Media, ReadResult};
use crate::bit_errors::{PageState, Pattern, of_word_line};
use crate::config::Cell;
use crate::data_path::{DataPath, Found as DrawnBits, Segment, UnitPlace, UnitShape};
use crate::store::Found;
use pellucid_flash::{Lpn, Ppa};

impl Media {
    /// Reads whole sectors of one unit, from `first_sector` on, into `out`: a multiple of [`Media::image_bytes`], possibly
    /// none when only the outcome matters. `attempt` counts retries from 0. Without good data `out` is filled with zeros.
    ///
    /// # Panics
    /// When the sectors reach beyond the unit.
    #[inline]
    pub fn read(&mut self, ppa: Ppa, first_sector: u32, out: &mut [u8], attempt: u32) -> ReadResult {
        let at = self.array.place(ppa);
        let start = first_sector as usize * self.array.shape.image_bytes;
        assert!(start + out.len() <= self.array.shape.unit_image_bytes, "sectors beyond the unit");
        match self.array.content(at) {
            Content::Programmed => {}
            Content::Erased => {
                out.fill(0);
                return ReadResult::Erased;
            }
            Content::Unreadable => {
                out.fill(0);
                return ReadResult::Uncorrectable;
            }
        }
        self.read_programmed(at, start, out, attempt)
    }

    /// Reads a whole unit into `out` as [`Media::read`] does, with up to `retries` retries. Returns whether the data are good, and the logical
    /// page that the spare area names: `None` where nothing is programmed, or nothing readable.
    ///
    /// # Panics
    /// When `out` is longer than a unit's images.
    #[inline]
    pub fn read_named(&mut self, ppa: Ppa, out: &mut [u8], retries: u32) -> (bool, Option<Lpn>) {
        let at = self.array.place(ppa);
        assert!(out.len() <= self.array.shape.unit_image_bytes, "sectors beyond the unit");
        if self.array.content(at) != Content::Programmed {
            out.fill(0);
            return (false, None);
        }
        let lpn = self.array.shape.meta.lpn(self.array.store.meta(at.block), at.index);
        let good = |attempt| matches!(self.read_programmed(at, 0, out, attempt), ReadResult::Ok { .. });
        ((0..=retries).any(good), Some(lpn))
    }

    /// Reads a unit whose superpage is programmed.
    #[inline]
    fn read_programmed(&mut self, at: Place, start: usize, out: &mut [u8], attempt: u32) -> ReadResult {
        self.damage.begin_read();
        let by_fault = self.failures.read_fails(at.block, at.superpage, attempt);
        let ppa = self.array.address(at);
        let is_dead = || self.failures.has_injected() && self.failures.is_dead(self.array.die_of(at.block));
        if by_fault || self.is_lost(ppa) || is_dead() {
            out.fill(0);
            return ReadResult::Uncorrectable;
        }
        if self.retries.is_some() && self.needs_more(at, attempt) {
            out.fill(0);
            return ReadResult::Uncorrectable;
        }
        if self.data_path.is_some() {
            return self.read_guarded(at, start, out, attempt);
        }
        match self.array.store.read(at.block, at.index, start, out) {
            Found::Good | Found::Zeros => ReadResult::Ok { corrected_bits: 0, worst_chunk_bits: 0 },
            Found::Damaged => damaged(&mut self.damage, out),
        }
    }

    /// Reports whether the thresholds of the `attempt`-th retry do not fit the cells yet. Counts the read, unless the bit-error path does
    /// so later.
    #[inline]
    fn needs_more(&mut self, at: Place, attempt: u32) -> bool {
        let Some(retries) = &self.retries else { return false };
        let split = &self.array.layout.split;
        if self.times.is_slc(split.blocks_per_die.remainder(at.block)) {
            return false;
        }
        let (age_s, cycles) = (self.age.seconds(), self.array.store.state(at.block).erase_count());
        let (born_s, reads) = self.array.shape.meta.history(self.array.store.meta(at.block));
        let page = retries.page(at.block, at.superpage, at.unit);
        let more = attempt < retries.steps(page, cycles, age_s.saturating_sub(born_s), reads);
        if more || !self.data_path.as_ref().is_some_and(|path| path.errs()) {
            self.array.store.set_age(age_s);
            self.array.store.count_read(at.block, (born_s, reads.saturating_add(1)));
        }
        more
    }

    /// Reads more sectors of a unit that [`Media::read`] has just found good; it counts as the same flash read. `false`: the store has
    /// lost them since; `out` is all zeros.
    ///
    /// # Panics
    /// When the sectors reach beyond the unit, or the unit is not programmed.
    #[inline]
    pub fn read_more(&mut self, ppa: Ppa, first_sector: u32, out: &mut [u8]) -> bool {
        let at = self.array.place(ppa);
        let start = first_sector as usize * self.array.shape.image_bytes;
        assert!(start + out.len() <= self.array.shape.unit_image_bytes, "sectors beyond the unit");
        assert!(self.array.content(at) == Content::Programmed, "unit {} is not programmed", ppa.0);
        if out.is_empty() {
            return true;
        }
        match self.array.store.read(at.block, at.index, start, out) {
            Found::Good => {}
            Found::Zeros => return true,
            Found::Damaged => {
                damaged(&mut self.damage, out);
                return false;
            }
        }
        if let Some(path) = &self.data_path {
            path.unscramble(unit_place(&self.array.layout.split, at), start, out);
        }
        true
    }

    /// Reads a unit through code, scrambler and bit errors, for [`Media::read`].
    fn read_guarded(&mut self, at: Place, start: usize, out: &mut [u8], attempt: u32) -> ReadResult {
        let mut path = self.data_path.take().expect("asked before");
        let place = unit_place(&self.array.layout.split, at);
        let mut found = DrawnBits::default();
        if path.errs() {
            let state = self.array.page_state(at.block, self.age.seconds());
            let factor = self.failures.error_factor(|| self.array.die_of(at.block));
            let (shape, address) = (path.shape, self.array.address(at).0);
            // Scrambled data, and data that are not kept, count as random.
            let pattern = |segment| match self.sees_patterns {
                true => self.array.pattern(at, shape, segment),
                false => Pattern::Random,
            };
            found = path.draw((place, address), state, attempt, factor, pattern);
        }
        let stored = self.array.store.read(at.block, at.index, start, out);
        if stored == Found::Zeros {
            self.data_path = Some(path);
            return ReadResult::Ok { corrected_bits: 0, worst_chunk_bits: 0 };
        }
        let good = stored == Found::Good;
        let by_hand = !good && path.always_decodes();
        if good || by_hand {
            path.unscramble(place, start, out);
            if path.must_decode(found) && !out.is_empty() || by_hand {
                found = self.array.decode_unit(&mut path, (at, place), found, (start, out), good);
            }
        }
        self.data_path = Some(path);
        if !good && (!by_hand || found.lost) {
            return damaged(&mut self.damage, out);
        }
        if found.lost {
            out.fill(0);
            return ReadResult::Uncorrectable;
        }
        ReadResult::Ok { corrected_bits: found.bits, worst_chunk_bits: found.worst }
    }

    /// Recovers the data of a unit, as they were given, from its stored bytes.
    pub(super) fn reveal(&self, at: Place, start: usize, stored: &[u8], out: &mut [u8]) {
        if stored.is_empty() {
            return out.fill(0);
        }
        match &self.data_path {
            Some(path) if path.stores_code_words() => {
                path.reveal(unit_place(&self.array.layout.split, at), start, stored, out);
            }
            _ => out.copy_from_slice(&stored[start..start + out.len()]),
        }
    }
}

/// The store has lost the data.
#[cold]
fn damaged(damage: &mut Damage, out: &mut [u8]) -> ReadResult {
    damage.found();
    out.fill(0);
    ReadResult::Uncorrectable
}

/// Steps of a read that the cells alone decide.
impl Array {
    /// Decodes a stored unit and corrects `out`, which holds its bytes from `start` on. `good`: these bytes are as they were stored;
    /// otherwise the code may correct them, and the result must equal the stored data.
    fn decode_unit(
        &self,
        path: &mut DataPath,
        (at, place): (Place, UnitPlace),
        drawn: DrawnBits,
        (start, out): (usize, &mut [u8]),
        good: bool,
    ) -> DrawnBits {
        let stored = self.store.raw(at.block, at.index);
        if good {
            return path.decode(place, drawn, start, &stored, out);
        }
        let mut whole = vec![0; self.shape.unit_image_bytes];
        path.reveal(place, 0, &stored, &mut whole);
        let found = path.decode(place, drawn, 0, &stored, &mut whole);
        let mut again = vec![0; stored.len()];
        path.store(place, &whole, &mut again);
        let corrected = !found.lost && self.store.is_what_was_stored(at.block, at.index, &again);
        if corrected {
            out.copy_from_slice(&whole[start..start + out.len()]);
        }
        DrawnBits { lost: !corrected, ..found }
    }

    /// State that determines the error rate of a block's pages, except for the page itself. Counts the read, and has a file record the
    /// time: otherwise data that are only read would be younger each time the file is opened.
    fn page_state(&mut self, block: u32, age_s: u64) -> PageState {
        let pe_cycles = self.store.state(block).erase_count();
        self.store.set_age(age_s);
        let (born_s, reads) = self.shape.meta.history(self.store.meta(block));
        self.store.count_read(block, (born_s, reads.saturating_add(1)));
        let retention_s = age_s.saturating_sub(born_s) as f64;
        let (cell, pattern) = (Cell::Slc, Pattern::Random);
        PageState { cell, page_type: 0, pe_cycles, retention_s, reads, pattern }
    }

    /// Data stored on a segment of an MLC page and its word line. A word line that is not full counts as random.
    fn pattern(&self, at: Place, shape: UnitShape, segment: Segment) -> Pattern {
        let (superpage, unit, start) = shape.partner(segment);
        if superpage >= self.store.state(at.block).next_superpage() {
            return Pattern::Random;
        }
        let part = |index: u32, start: u32| {
            let stored = self.store.raw(at.block, index);
            (stored, start as usize..start as usize + shape.segment_bytes as usize)
        };
        let (own, own_range) = part(at.index, segment.start);
        let (other, other_range) = part(superpage * self.layout.units_per_superpage + unit, start);
        let (own, other) = (&own[own_range], &other[other_range]);
        if segment.page.is_multiple_of(2) { of_word_line(own, other) } else { of_word_line(other, own) }
    }
}
