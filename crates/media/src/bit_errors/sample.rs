//! Wrong bits for tests and measurements of the codec alone. [`crate::error_source`] draws the wrong bits of a drive's media.

use pellucid_flash::Rng;

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

/// Returns whether an expectation or a probability allows no error at all; NaN allows none either.
fn is_none(expected: f64) -> bool {
    expected.is_nan() || expected <= 0.0
}
