//! A keyed permutation of `0..n` in constant memory: fio's random map without the map.
//!
//! Numbers of b bits, the minimum for `n` values, are mixed by invertible steps (multiply by an odd number modulo 2^b, add, XOR with the upper half);
//! a result of `n` or more is mixed again until it is below (cycle walking). `2^b < 2n`, so this takes fewer than two rounds on average. It is not a
//! cipher: the order must look random, not be secret.

use pellucid_flash::Rng;

const ROUNDS: usize = 3;

/// A permutation of `0..n`, chosen by a key from a random stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    factors: [u64; ROUNDS],
    addends: [u64; ROUNDS],
}

impl Permutation {
    /// A permutation of `0..n`, `n > 0`, with a key drawn from `rng`.
    pub fn new(n: u64, rng: &mut Rng) -> Permutation {
        assert!(n > 0, "a permutation of nothing");
        let bits = u64::BITS - (n - 1).leading_zeros();
        let mask = if bits == 0 { 0 } else { u64::MAX >> (u64::BITS - bits) };
        let factors = std::array::from_fn(|_| rng.next_u64() | 1);
        let addends = std::array::from_fn(|_| rng.next_u64());
        Permutation { n, mask, shift: (bits / 2).max(1), factors, addends }
    }

    /// Number of permuted values.
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Never true: a permutation has at least one number.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Maps `x`, which must be below `n`.
    #[inline]
    pub fn apply(&self, mut x: u64) -> u64 {
        debug_assert!(x < self.n);
        loop {
            for (factor, addend) in self.factors.iter().zip(&self.addends) {
                x = x.wrapping_mul(*factor).wrapping_add(*addend) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.n {
                return x;
            }
        }
    }
}

/// Endless passes over `0..n`, each number once per pass, in a new order for every pass.
#[derive(Clone, Debug)]
pub(super) struct RandomMap {
    order: Permutation,
    cursor: u64,
}

impl RandomMap {
    pub(super) fn new(n: u64, rng: &mut Rng) -> RandomMap {
        RandomMap { order: Permutation::new(n, rng), cursor: 0 }
    }

    #[inline]
    pub(super) fn next(&mut self, rng: &mut Rng) -> u64 {
        if self.cursor == self.order.len() {
            *self = RandomMap::new(self.order.len(), rng);
        }
        self.cursor += 1;
        self.order.apply(self.cursor - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once() {
        let mut rng = Rng::new(1);
        for n in (1..=300).chain([1023, 1024, 1025, 65_537, 100_003]) {
            let order = Permutation::new(n, &mut rng);
            let mut seen = vec![false; n as usize];
            for x in 0..n {
                let y = order.apply(x) as usize;
                assert!(!seen[y], "n = {n}: {y} came twice");
                seen[y] = true;
            }
        }
    }

    #[test]
    fn works_up_to_64_bits() {
        let mut rng = Rng::new(2);
        for n in [1 << 40, (1 << 63) + 1, u64::MAX] {
            let order = Permutation::new(n, &mut rng);
            let images: std::collections::HashSet<u64> = (0..1000).map(|x| order.apply(x)).collect();
            assert_eq!(images.len(), 1000);
            assert!(images.iter().all(|y| *y < n));
        }
    }

    /// Successive numbers must not be near each other: an ordered walk would make random I/O sequential. Over 16 equal parts of the range, pairs
    /// (part of x, part of x + 1) are counted; chi-square with 255 degrees of freedom exceeds 341 with probability 0.0003 for independent draws.
    #[test]
    fn successive_numbers_are_unrelated() {
        for seed in 0..5 {
            let n = 160_000;
            let order = Permutation::new(n, &mut Rng::new(seed));
            let part = |x| (order.apply(x) * 16 / n) as usize;
            let mut pairs = vec![0u32; 256];
            for x in 0..n - 1 {
                pairs[part(x) * 16 + part(x + 1)] += 1;
            }
            let expected = (n - 1) as f64 / 256.0;
            let chi: f64 = pairs.iter().map(|c| (f64::from(*c) - expected).powi(2) / expected).sum();
            assert!(chi < 341.0, "seed {seed}: chi-square {chi:.0}");
        }
    }

    #[test]
    fn each_pass_is_complete_and_new() {
        let mut rng = Rng::new(3);
        let mut map = RandomMap::new(100, &mut rng);
        let mut pass = || (0..100).map(|_| map.next(&mut rng)).collect::<Vec<_>>();
        let (first, second) = (pass(), pass());
        assert_ne!(first, second);
        for mut order in [first, second] {
            order.sort_unstable();
            assert_eq!(order, (0..100).collect::<Vec<_>>());
        }
    }
}
