//! Drawing error counts and places from an expectation.
//!
//! Bits fail independently, so a page has a binomial number of errors. All samples are exact (inversion of
//! the distribution function), and the common case of a healthy page costs one random number and one
//! comparison: the probability of no error at all, (1 - p)^n or e^-m, is never below 1 - expectation, so a
//! uniform number below that means none, without computing it.

use pellucid_flash::Rng;

/// Inversion starts at the probability of zero, which must not underflow: larger expectations are drawn in
/// parts.
const LARGEST_PART: f64 = 256.0;

/// Up to this many chunks are counted in an array on the stack, and at most this many errors one by one.
const COUNTED_CHUNKS: usize = 256;
const COUNTED_ERRORS: u32 = 2_048;

/// Draws the number of wrong bits among `bits`, each wrong with probability `expected / bits` (at most 1).
pub fn draw_bit_errors(rng: &mut Rng, expected: f64, bits: u32) -> u32 {
    let parts = (expected / LARGEST_PART).ceil().clamp(1.0, f64::from(bits.max(1))) as u32;
    let p = (expected / f64::from(bits.max(1))).min(1.0);
    (0..parts).map(|i| draw_binomial(rng, bits / parts + u32::from(i < bits % parts), p)).sum()
}

/// Flips random bits of `page`, each with probability `expected / bits`, and returns how many. Walks from one
/// wrong bit to the next: the gaps are geometric.
pub fn inject_bit_errors(rng: &mut Rng, page: &mut [u8], expected: f64) -> u32 {
    let bits = page.len() * 8;
    let p = expected / bits as f64;
    if is_none(p) {
        return 0;
    }
    let mut flipped = 0;
    let mut uniform = rng.unit_f64();
    if uniform < 1.0 - expected {
        return 0;
    }
    let log_right = (-p.min(1.0)).ln_1p();
    let mut bit = 0;
    loop {
        // P(gap >= g) = (1 - p)^g. The uniform number counts from the other end, so that a small one is a
        // large gap.
        bit += ((uniform.ln() / log_right) as usize).min(bits);
        if bit >= bits {
            return flipped;
        }
        page[bit / 8] ^= 1 << (bit % 8);
        flipped += 1;
        bit += 1;
        uniform = rng.unit_f64();
    }
}

/// Draws the wrong bits of a page and their chunks, and returns the number in the worst chunk. The total is
/// Poisson with mean `expected_bits_per_page`, which makes the counts of the chunks independent.
pub fn worst_chunk_errors(rng: &mut Rng, expected_bits_per_page: f64, chunks: u32) -> u32 {
    let total = draw_poisson(rng, expected_bits_per_page);
    if total <= 1 || chunks <= 1 {
        return total;
    }
    if chunks as usize <= COUNTED_CHUNKS && total <= COUNTED_ERRORS {
        let mut counts = [0u16; COUNTED_CHUNKS];
        let throw = |_| {
            let count = &mut counts[rng.below(u64::from(chunks)) as usize];
            *count += 1;
            u32::from(*count)
        };
        return (0..total).map(throw).max().unwrap_or(0);
    }
    // Chunk by chunk: of the errors that remain, each falls into this one of the remaining chunks with equal
    // probability.
    let mut left = total;
    let mut worst = 0;
    for remaining in (1..=chunks).rev() {
        let here = if remaining == 1 {
            left
        } else {
            draw_bit_errors(rng, f64::from(left) / f64::from(remaining), left)
        };
        left -= here;
        worst = worst.max(here);
        if left <= worst {
            break;
        }
    }
    worst
}

/// Whether an expectation or a probability allows no error at all; so does one that is no number.
fn is_none(expected: f64) -> bool {
    expected.is_nan() || expected <= 0.0
}

/// A binomial number with `n p` of at most [`LARGEST_PART`] or so.
fn draw_binomial(rng: &mut Rng, n: u32, p: f64) -> u32 {
    if is_none(p) {
        return 0;
    }
    if p > 0.5 {
        // The probability of zero would underflow; count the right bits instead.
        return n - draw_binomial(rng, n, 1.0 - p);
    }
    let uniform = rng.unit_f64();
    let trials = f64::from(n);
    if uniform < 1.0 - trials * p {
        return 0;
    }
    let odds = p / (1.0 - p);
    invert(uniform, (trials * (-p).ln_1p()).exp(), n, |k| (trials - k + 1.0) / k * odds)
}

/// A Poisson number.
fn draw_poisson(rng: &mut Rng, mean: f64) -> u32 {
    if is_none(mean) {
        return 0;
    }
    let parts = (mean / LARGEST_PART).ceil().max(1.0);
    let part_mean = mean / parts;
    (0..parts as u32).fold(0, |sum: u32, _| {
        let uniform = rng.unit_f64();
        let count = if uniform < 1.0 - part_mean {
            0
        } else {
            invert(uniform, (-part_mean).exp(), u32::MAX, |k| part_mean / k)
        };
        sum.saturating_add(count)
    })
}

/// The smallest k up to `max` whose distribution function exceeds `uniform`. `first` is P(0), `ratio(k)` is
/// P(k) / P(k - 1).
fn invert(uniform: f64, first: f64, max: u32, ratio: impl Fn(f64) -> f64) -> u32 {
    let mut probability = first;
    let mut sum = first;
    let mut k = 0;
    while uniform >= sum && k < max {
        k += 1;
        probability *= ratio(f64::from(k));
        let before = sum;
        sum += probability;
        // Rounding can keep the sum below the largest uniform number; past the mode nothing more is coming.
        if sum == before && ratio(f64::from(k)) < 1.0 {
            break;
        }
    }
    k
}
