//! Division by a number that is fixed for the life of a drive, as one multiplication.
//!
//! Addresses are split into die, block, superpage and unit on every operation, and the divisors (units per block, ...) are
//! rarely powers of two. The method is Lemire, Kaser and Kurz, "Faster remainder by direct computation" (2019): with
//! `m = ceil(2^64 / d)`, `floor(m * n / 2^64)` is exact for every 32-bit `n` and `d > 1`.

/// A fixed divisor, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisor {
    divisor: u32,
    /// `ceil(2^64 / divisor)`; unused when the divisor is 1, for which it would need 65 bits.
    inverse: u64,
}

impl Divisor {
    /// To divide by `divisor`.
    ///
    /// # Panics
    /// When it is 0.
    pub const fn new(divisor: u32) -> Divisor {
        assert!(divisor > 0, "a layout has no zero counts");
        Divisor { divisor, inverse: (u64::MAX / divisor as u64).wrapping_add(1) }
    }

    /// The divisor itself.
    pub const fn get(self) -> u32 {
        self.divisor
    }

    /// Quotient and remainder.
    #[inline]
    pub fn div_rem(self, n: u32) -> (u32, u32) {
        let quotient = self.quotient(n);
        (quotient, n - quotient * self.divisor)
    }

    /// The remainder.
    #[inline]
    pub fn remainder(self, n: u32) -> u32 {
        self.div_rem(n).1
    }

    /// The quotient.
    #[inline]
    pub fn quotient(self, n: u32) -> u32 {
        if self.divisor == 1 {
            return n;
        }
        ((u128::from(self.inverse) * u128::from(n)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_hardware_division() {
        let mut rng = crate::Rng::new(7);
        let edges = [1, 2, 3, 5, 7, 48, 255, 256, 257, 65_535, 65_536, 65_537, u32::MAX - 1, u32::MAX];
        for round in 0..20_000 {
            let d = if round < edges.len() {
                edges[round]
            } else {
                (rng.next_u64() as u32 >> (round % 31)).max(1)
            };
            let divisor = Divisor::new(d);
            let multiple = (u32::MAX / d) * d;
            for n in [0, 1, d - 1, d, multiple - 1, multiple, u32::MAX, rng.next_u64() as u32] {
                assert_eq!(divisor.div_rem(n), (n / d, n % d), "{n} / {d}");
            }
        }
    }
}
