//! The units of the media that hold a needed copy.
//!
//! Invariant, maintained by the paths: a unit is valid if a page's entry names it and the page needs this copy, or if it stands in for one
//! being programmed.

use crate::SetupError;
use pellucid_flash::Ppa;
use std::ops::Range;

/// Validity of each unit.
#[derive(Clone, Debug)]
pub struct ValidUnits {
    /// One bit for each unit of the media.
    words: Vec<u64>,
}

impl ValidUnits {
    /// Creates the record of media of `units` units, none of which is valid.
    ///
    /// # Errors
    /// The system has no memory for it.
    pub fn new(units: u32) -> Result<ValidUnits, SetupError> {
        let words = (units as usize).div_ceil(64);
        let mut probe: Vec<u64> = Vec::new();
        let no_memory = |_| SetupError::Memory { needed_bytes: words as u64 * 8 };
        probe.try_reserve_exact(words).map_err(no_memory)?;
        // Zeros of the system cost no memory before they are written; the compiler must not leave out the attempt.
        drop(std::hint::black_box(probe));
        Ok(ValidUnits { words: vec![0; words] })
    }

    /// Returns whether the copy at `ppa` is needed.
    #[inline]
    pub fn has(&self, ppa: Ppa) -> bool {
        self.words[ppa.0 as usize / 64] >> (ppa.0 % 64) & 1 == 1
    }

    /// Adds the copy at `ppa`.
    #[inline]
    pub fn add(&mut self, ppa: Ppa) {
        self.words[ppa.0 as usize / 64] |= 1 << (ppa.0 % 64);
    }

    /// Removes the copy at `ppa`.
    #[inline]
    pub fn remove(&mut self, ppa: Ppa) {
        self.words[ppa.0 as usize / 64] &= !(1 << (ppa.0 % 64));
    }

    /// Prefetches the bit of `ppa`; returns whether there is such a unit.
    #[inline]
    pub fn prefetch(&self, ppa: Ppa) -> bool {
        let word = ppa.0 as usize / 64;
        let is_unit = word < self.words.len();
        if is_unit {
            prefetch_index::prefetch_index(&self.words, word);
        }
        is_unit
    }

    /// The first valid unit of `units`.
    pub fn next(&self, units: Range<Ppa>) -> Option<Ppa> {
        let (mut at, end) = (units.start.0, units.end.0);
        while at < end {
            let word = self.words[at as usize / 64] >> (at % 64);
            if word != 0 {
                let found = at + word.trailing_zeros();
                return (found < end).then_some(Ppa(found));
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }
}
