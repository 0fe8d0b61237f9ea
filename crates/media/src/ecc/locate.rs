//! From syndromes to error positions: the key equation and the roots of its solution.
//!
//! The locator of errors at positions p1, p2, ... is the product of (1 - alpha^p x). [`locator`] finds it by
//! the Berlekamp-Massey algorithm (Massey, "Shift-register synthesis and BCH decoding", 1969); a binary code
//! makes every second discrepancy zero, so these steps are skipped (Berlekamp, "Algebraic Coding Theory",
//! section 7.6). [`RootFinder`] then looks for the positions: in closed form up to two errors, and by a Chien
//! search of 64 positions at a time above.

use super::galois::Field;
use std::sync::OnceLock;

/// Largest supported number of correctable bits.
pub(super) const MAX_STRENGTH: usize = 128;

/// Coefficients of a locator polynomial, constant term first.
pub(super) type Locator = [u16; MAX_STRENGTH + 1];

/// Finds the shortest locator that explains the syndromes S(1) to S(2t) (`syndromes[0]` is S(1)), with its
/// degree. `None` when that would take more than `t` errors.
pub(super) fn locator(field: &Field, syndromes: &[u16], t: usize) -> Option<(Locator, usize)> {
    let mut current: Locator = [0; MAX_STRENGTH + 1];
    current[0] = 1;
    // The locator before its length last changed, the discrepancy at that time, and the steps made since.
    let mut previous = current;
    let mut previous_discrepancy = 1;
    let mut gap = 1;
    let mut length = 0;
    for i in (0..2 * t).step_by(2) {
        let discrepancy = (1..=length.min(i))
            .fold(syndromes[i], |sum, j| sum ^ field.multiply(current[j], syndromes[i - j]));
        if discrepancy == 0 {
            gap += 2;
            continue;
        }
        let grows = 2 * length <= i;
        if grows && i + 1 - length > t {
            return None;
        }
        let before = current;
        let factor = field.divide(discrepancy, previous_discrepancy);
        for j in gap..=t {
            current[j] ^= field.multiply(factor, previous[j - gap]);
        }
        if grows {
            length = i + 1 - length;
            previous = before;
            previous_discrepancy = discrepancy;
            gap = 2;
        } else {
            gap += 2;
        }
    }
    // A degree below the length means a root at zero: no error pattern has such a locator.
    (current[length] != 0).then_some((current, length))
}

/// Finds the positions that a locator names.
#[derive(Clone, Debug)]
pub(super) struct RootFinder {
    /// Positions of the (shortened) code: roots elsewhere are not errors.
    positions: u32,
    /// Bits of a field element, rounded up to a compiled number of planes.
    planes: usize,
    /// Four-bit digits of a field element.
    digits: usize,
    /// Largest degree of a locator.
    degree_max: usize,
    /// Bit planes of 64 consecutive multiples. Entry `((k - 1) * digits + d) * 16 + v` holds `planes` words;
    /// bit `s` of word `w` is bit `w` of `(v << 4 d) * alpha^(k s)`. Made by the first search: it is half the cost of a small drive, and
    /// few drives ever correct three bits.
    multiples: OnceLock<Vec<u64>>,
}

impl RootFinder {
    /// For locators of degree up to `t` over positions `0..positions`.
    pub(super) fn new(m: u32, t: usize, positions: u32) -> RootFinder {
        let planes = [8, 12, 14, 16].into_iter().find(|&p| p >= m as usize).unwrap_or(16);
        let digits = m.div_ceil(4) as usize;
        RootFinder { positions, planes, digits, degree_max: t, multiples: OnceLock::new() }
    }

    #[cold]
    fn multiples(&self, field: &Field) -> Vec<u64> {
        let (planes, digits) = (self.planes, self.digits);
        let mut multiples = vec![0; self.degree_max * digits * 16 * planes];
        for (index, entry) in multiples.chunks_exact_mut(planes).enumerate() {
            let (k, digit, value) = (index / (16 * digits) + 1, index / 16 % digits, index % 16);
            let element = value << (4 * digit);
            // A value above the field's elements never occurs; its entry stays zero.
            let element = if element <= field.order() as usize { element as u16 } else { 0 };
            for s in 0..64 {
                let product = field.multiply(element, field.power((k * s) as u64));
                for (w, plane) in entry.iter_mut().enumerate() {
                    *plane |= u64::from(product >> w & 1) << s;
                }
            }
        }
        multiples
    }

    /// Writes the error positions to `found` and returns true if the locator of this `degree` has as many distinct roots inside the code
    /// as its degree. Otherwise the content of `found` is undefined.
    pub(super) fn find(&self, field: &Field, locator: &Locator, degree: usize, found: &mut [u32]) -> bool {
        match degree {
            0 => true,
            1 => {
                found[0] = field.log(locator[1]);
                found[0] < self.positions
            }
            2 => {
                // Without its linear term the quadratic is a square.
                let (sum, product) = (locator[1], locator[2]);
                let Some(roots) = (sum != 0).then(|| field.quadratic_roots(sum, product)).flatten() else {
                    return false;
                };
                found[0] = field.log(roots[0]);
                found[1] = field.log(roots[1]);
                found[0] < self.positions && found[1] < self.positions
            }
            _ => match self.planes {
                8 => self.search::<8>(field, locator, degree, found),
                12 => self.search::<12>(field, locator, degree, found),
                14 => self.search::<14>(field, locator, degree, found),
                _ => self.search::<16>(field, locator, degree, found),
            },
        }
    }

    /// Evaluates the reversed locator, whose roots are `alpha^position`, at 64 positions at a time in bit
    /// planes: a position is a root where all planes are zero. Of the term c x^k at position 64 b + s the
    /// factor c alpha^(64 b k) has a logarithm that grows by 64 k from block to block; the 64 multiples by alpha^(k s) come from the table,
    /// by linearity one entry per four bits.
    fn search<const P: usize>(
        &self,
        field: &Field,
        locator: &Locator,
        degree: usize,
        found: &mut [u32],
    ) -> bool {
        let (entries, _) = self.multiples.get_or_init(|| self.multiples(field)).as_chunks::<P>();
        let order = field.order();
        // Of each term: its power, the logarithm of its factor in this block, and what that grows by.
        let mut terms = [(0, 0, 0); MAX_STRENGTH];
        let mut used = 0;
        for k in (1..=degree).filter(|k| locator[degree - k] != 0) {
            terms[used] = (k, field.log(locator[degree - k]), (64 * k as u32) % order);
            used += 1;
        }
        let mut count = 0;
        for start in (0..self.positions).step_by(64) {
            let mut sum = [0u64; P];
            for (w, plane) in sum.iter_mut().enumerate() {
                *plane = 0u64.wrapping_sub(u64::from(locator[degree] >> w & 1));
            }
            for (k, logarithm, growth) in &mut terms[..used] {
                let factor = field.power_below(*logarithm);
                *logarithm += *growth;
                if *logarithm >= order {
                    *logarithm -= order;
                }
                let tables = &entries[(*k - 1) * 16 * self.digits..][..16 * self.digits];
                for (digit, table) in tables.chunks_exact(16).enumerate() {
                    let entry = &table[usize::from(factor >> (4 * digit) & 15)];
                    for w in 0..P {
                        sum[w] ^= entry[w];
                    }
                }
            }
            let mut roots = !sum.iter().fold(0, |any, plane| any | plane);
            if self.positions - start < 64 {
                roots &= (1 << (self.positions - start)) - 1;
            }
            while roots != 0 {
                found[count] = start + roots.trailing_zeros();
                count += 1;
                roots &= roots - 1;
            }
            if count == degree {
                return true;
            }
        }
        false
    }
}
