//! Which bits of a unit are wrong this time it is read: the same draw for data that are kept and for data that are not.
//!
//! The number of wrong bits of each page is drawn from the bit-error model, then as many distinct places. Bits err
//! independently of each other and of earlier reads: reading again draws anew, with fewer errors, as the thresholds have
//! moved. (In a real part most of the same cells would be wrong again; what a retry gains is in the configured factor.)
//!
//! A healthy page costs one random number: see `bit_errors/sample.rs`.

use crate::bit_errors::{PageState, draw_bit_errors, expected_bit_errors, retry_share};
use crate::integrity::BitErrors;
use pellucid_flash::Rng;

/// A wrong bit: chunk of the unit, and bit of its code word (data, then parity, most significant bit first).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongBit {
    pub chunk: u32,
    pub bit: u32,
}

/// Draws wrong bits.
#[derive(Clone, Debug)]
pub(crate) struct ErrorSource {
    config: BitErrors,
    rng: Rng,
    /// Bits of a code word.
    word_bits: u32,
    /// The bits drawn last.
    pub wrong: Vec<WrongBit>,
    /// One bit per bit of a page's code words; all zero between draws.
    taken: Vec<u64>,
}

impl ErrorSource {
    pub fn new(config: BitErrors, seed: u64, word_bits: u32) -> ErrorSource {
        let rng = Rng::stream(seed, "media.bit_errors");
        ErrorSource { config, rng, word_bits, wrong: Vec::new(), taken: Vec::new() }
    }

    /// Adds the wrong bits of `chunks` chunks of one page, the first of which is number `first` of the unit. `factor`:
    /// injected, on top of the configured one.
    #[inline]
    pub fn draw(&mut self, state: &PageState, first: u32, chunks: u32, attempt: u32, factor: f64) {
        let bits = chunks * self.word_bits;
        let share = retry_share(attempt, self.config.retry_factor, self.config.retry_floor);
        let expected = expected_bit_errors(state, bits) * self.config.factor * factor * share;
        let wrong = draw_bit_errors(&mut self.rng, expected.min(f64::from(bits) / 2.0), bits);
        if wrong > 0 {
            self.place(wrong, bits, first);
        }
    }

    /// `count` distinct bits among `bits` (Floyd's algorithm: every set of them is equally likely).
    fn place(&mut self, count: u32, bits: u32, first: u32) {
        let words = bits.div_ceil(64) as usize;
        if self.taken.len() < words {
            self.taken.resize(words, 0);
        }
        let start = self.wrong.len();
        for last in bits - count..bits {
            let drawn = self.rng.below(u64::from(last) + 1) as u32;
            let is_taken = self.taken[drawn as usize / 64] >> (drawn % 64) & 1 == 1;
            let place = if is_taken { last } else { drawn };
            self.taken[place as usize / 64] |= 1 << (place % 64);
            let (chunk, bit) = (first + place / self.word_bits, place % self.word_bits);
            self.wrong.push(WrongBit { chunk, bit });
        }
        for wrong in &self.wrong[start..] {
            let place = (wrong.chunk - first) * self.word_bits + wrong.bit;
            self.taken[place as usize / 64] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_distinct_and_evenly_spread() {
        let config = BitErrors { factor: 1.0, retry_factor: 0.5, retry_floor: 0.1 };
        let mut source = ErrorSource::new(config, 1, 50);
        let mut seen = [0u32; 200];
        for _ in 0..20_000 {
            source.wrong.clear();
            source.place(7, 200, 3);
            let mut places: Vec<u32> = source.wrong.iter().map(|w| (w.chunk - 3) * 50 + w.bit).collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), 7);
            places.iter().for_each(|&place| seen[place as usize] += 1);
            assert!(source.taken.iter().all(|&word| word == 0));
        }
        // 700 expected each; 5 sigma.
        assert!(seen.iter().all(|&n| (570..830).contains(&n)), "{seen:?}");
        source.wrong.clear();
        source.place(200, 200, 0);
        assert_eq!(source.wrong.len(), 200, "all of them");
    }
}
