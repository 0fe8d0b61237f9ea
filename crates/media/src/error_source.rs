//! Wrong bits of a unit in a read, independent of whether its data are stored.
//!
//! An error is a cell whose charge is on the wrong side of a read threshold. The charge is a property of the cell, so rereading the
//! same page at the same time with the same thresholds gives the same wrong bits. Every cell therefore has a *weakness*, an
//! exponentially distributed number drawn from its address and the erase count of its block, that is, redrawn with each program. The
//! cell is wrong while the modelled rate exceeds its weakness:
//!
//! ```text
//!  weakest cell ─┬─────┬──┬───────┬────────────┬──────────► strongest
//!                        rate of the second retry
//!                                   rate of the first read      ... and after a month on the shelf
//! ```
//! So errors are a binomial number of evenly spread places for any one program, they accumulate with time and reads, and a
//! retry, which moves the thresholds (Cai et al., "Error Characterization, Mitigation, and Recovery in Flash-Memory-Based Solid-State
//! Drives", Proceedings of the IEEE 105(9), 2017), leaves wrong a part of the cells that were wrong before. The configured factor gives
//! that part. Not in the model: noise between two identical reads, and cells that only a retry gets wrong.
//!
//! Cells are drawn from the weakest on, until one is strong enough: a healthy page costs one random number.

use crate::bit_errors::{PageState, expected_bit_errors, retry_share};
use crate::integrity::BitErrors;
use pellucid_flash::Rng;

/// A wrong bit: chunk of the unit, and bit of its code word (data, then parity, most significant bit first).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongBit {
    pub chunk: u32,
    pub bit: u32,
}

/// The cells that store one part of a unit, since their last erase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells {
    /// Address of the unit on the media.
    pub unit: u32,
    /// Erases of its block.
    pub erases: u32,
    /// The first of the unit's chunks in these cells.
    pub first_chunk: u32,
    /// Chunks in these cells.
    pub chunks: u32,
}

/// Source of wrong bits: it derives the weakness of every cell.
#[derive(Clone, Debug)]
pub(crate) struct ErrorSource {
    config: BitErrors,
    seed: u64,
    /// Bits of a code word.
    word_bits: u32,
    /// The bits found wrong last.
    pub wrong: Vec<WrongBit>,
    /// One bit per bit of a page's code words; all zero between draws.
    taken: Vec<u64>,
}

impl ErrorSource {
    pub fn new(config: BitErrors, seed: u64, word_bits: u32) -> ErrorSource {
        let seed = Rng::stream(seed, "media.bit_errors").next_u64();
        ErrorSource { config, seed, word_bits, wrong: Vec::new(), taken: Vec::new() }
    }

    /// Adds the wrong bits of some cells at the `attempt`-th retry. `factor`: injected, on top of the configured one.
    #[inline]
    pub fn draw(&mut self, cells: Cells, state: &PageState, attempt: u32, factor: f64) {
        let bits = cells.chunks * self.word_bits;
        let share = retry_share(attempt, self.config.retry_factor, self.config.retry_floor);
        let expected = expected_bit_errors(state, bits) * self.config.factor * factor * share;
        let mut rng = self.stream(cells);
        let uniform = rng.unit_f64();
        // The weakest cell is right with probability (1 - p)^n, which is at least 1 - np.
        if uniform < expected {
            self.place(cells, bits, expected.min(f64::from(bits) / 2.0), uniform, rng);
        }
    }

    /// Random numbers of these cells.
    #[inline]
    fn stream(&self, cells: Cells) -> Rng {
        let place = u64::from(cells.unit) << 32 | u64::from(cells.first_chunk);
        let program = u64::from(cells.erases).wrapping_mul(0xd134_2543_de82_ef95);
        Rng::new(
            self.seed ^ place.wrapping_mul(0x9e6c_63d0_876a_68de | 1).wrapping_add(program).rotate_left(29),
        )
    }

    /// Picks cells, the weakest first, while they are wrong. `uniform`: the first random number.
    fn place(&mut self, cells: Cells, bits: u32, expected: f64, mut uniform: f64, mut rng: Rng) {
        let words = bits.div_ceil(64) as usize;
        if self.taken.len() < words {
            self.taken.resize(words, 0);
        }
        let start = self.wrong.len();
        // A cell is wrong with probability p while its weakness is below -ln(1 - p). Of n exponential numbers the least is
        // an exponential number divided by n; the next one lies beyond it by another, divided by n - 1.
        let limit = -(-expected / f64::from(bits)).ln_1p();
        let mut weakness = 0.0;
        for left in (1..=bits).rev() {
            weakness -= (-uniform).ln_1p() / f64::from(left);
            if weakness > limit {
                break;
            }
            let place = loop {
                let place = rng.below(bits.into()) as u32;
                let (word, bit) = (&mut self.taken[place as usize / 64], 1 << (place % 64));
                if *word & bit == 0 {
                    *word |= bit;
                    break place;
                }
            };
            let (chunk, bit) = (cells.first_chunk + place / self.word_bits, place % self.word_bits);
            self.wrong.push(WrongBit { chunk, bit });
            uniform = rng.unit_f64();
        }
        for wrong in &self.wrong[start..] {
            let place = (wrong.chunk - cells.first_chunk) * self.word_bits + wrong.bit;
            self.taken[place as usize / 64] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bit_errors::Pattern;
    use crate::config::Cell;

    const STATE: PageState = PageState {
        cell: Cell::Mlc,
        page_type: 0,
        pe_cycles: 3_000,
        retention_s: 0.0,
        reads: 0,
        pattern: Pattern::Random,
    };

    fn cells(unit: u32) -> Cells {
        Cells { unit, erases: 7, first_chunk: 3, chunks: 4 }
    }

    /// 200 bits, of which `expected` are expected to be wrong.
    fn source(expected: f64) -> ErrorSource {
        let factor = expected / expected_bit_errors(&STATE, 200);
        ErrorSource::new(BitErrors { factor, retry_factor: 0.5, retry_floor: 0.1 }, 1, 50)
    }

    /// Places of the wrong bits, the weakest first.
    fn wrong(source: &mut ErrorSource, cells: Cells, attempt: u32, factor: f64) -> Vec<u32> {
        source.wrong.clear();
        source.draw(cells, &STATE, attempt, factor);
        assert!(source.taken.iter().all(|&word| word == 0));
        source.wrong.iter().map(|w| (w.chunk - 3) * 50 + w.bit).collect()
    }

    #[test]
    fn numbers_are_binomial_and_places_distinct_and_evenly_spread() {
        for expected in [0.02, 0.9, 7.0, 60.0] {
            let (mut source, n) = (source(expected), 40_000);
            let (mut seen, mut sum, mut squares) = ([0u32; 200], 0.0, 0.0);
            for unit in 0..n {
                let mut places = wrong(&mut source, cells(unit), 0, 1.0);
                let count = places.len() as f64;
                (sum, squares) = (sum + count, squares + count * count);
                places.sort_unstable();
                places.dedup();
                assert_eq!(places.len() as f64, count);
                places.iter().for_each(|&place| seen[place as usize] += 1);
            }
            let (mean, n) = (sum / f64::from(n), f64::from(n));
            let sigma = (expected * (1.0 - expected / 200.0)).sqrt();
            assert!((mean - expected).abs() < 5.0 * sigma / n.sqrt(), "{expected}: {mean}");
            let variance = squares / n - mean * mean;
            assert!((variance / (sigma * sigma) - 1.0).abs() < 0.12, "{expected}: {variance}");
            let each = n * expected / 200.0;
            assert!(seen.iter().all(|&n| (f64::from(n) - each).abs() < 5.0 * each.sqrt()), "{seen:?}");
        }
    }

    #[test]
    fn the_same_cells_are_wrong_again_and_a_retry_leaves_a_part_of_them() {
        let mut source = source(40.0);
        let (mut first, mut left, mut floor) = (0, 0, 0);
        for unit in 0..500 {
            let before = wrong(&mut source, cells(unit), 0, 1.0);
            assert_eq!(wrong(&mut source, cells(unit), 0, 1.0), before);
            let retried = wrong(&mut source, cells(unit), 1, 1.0);
            assert!(before.starts_with(&retried));
            let last = wrong(&mut source, cells(unit), 9, 1.0);
            assert!(retried.starts_with(&last) && last == wrong(&mut source, cells(unit), 4, 1.0));
            // Time, wear and damage only add.
            assert!(wrong(&mut source, cells(unit), 0, 1.5).starts_with(&before));
            (first, left, floor) = (first + before.len(), left + retried.len(), floor + last.len());
        }
        let ratio = |n: usize| n as f64 / first as f64;
        assert!(
            (ratio(left) - 0.5).abs() < 0.02 && (ratio(floor) - 0.1).abs() < 0.01,
            "{first} {left} {floor}"
        );
    }

    #[test]
    fn another_program_or_place_or_seed_has_other_weak_cells() {
        let mut source = source(10.0);
        let here = wrong(&mut source, cells(9), 0, 1.0);
        assert_ne!(here, wrong(&mut source, Cells { erases: 8, ..cells(9) }, 0, 1.0));
        assert_ne!(here, wrong(&mut source, cells(10), 0, 1.0));
        let mut other = ErrorSource::new(source.config, 2, 50);
        assert_ne!(here, wrong(&mut other, cells(9), 0, 1.0));
        // The error rate saturates at half of the bits.
        assert!((60..140).contains(&wrong(&mut source, cells(9), 0, 1e9).len()));
    }
}
