//! A histogram with a relative error that is known: 2^`FINE` buckets to each doubling, exact below 2^(`FINE` + 1).
//!
//! ```text
//!  FINE = 4
//!  value   0 1 2 .. 15 | 16 17 .. 31 | 32-33 34-35 .. 62-63 | 64-67 .. | ... | up to 2^64 - 1
//!  bucket  0 1 2 .. 15 | 16 17 .. 31 | 32    33       47    | 48       | ...
//! ```
//! A bucket is at most 2^-`FINE` times as wide as its smallest value, so a quantile is never below the exact one, and above it by less
//! than an eighth (`FINE` = 3), a sixteenth (4) or a thousandth (10). Buckets of a finer histogram nest in those of a coarser one.
//!
//! `hdrhistogram` was considered, but it takes its precision in decimal digits at run time, keeps no sum, and its buckets of different
//! precisions do not nest, as reports, bands and confidence intervals require.
//!
//! The table reaches to the largest value so far: an empty histogram has none. It grows at most a few dozen times, never once per value.

/// Weights by value. Totals and sums are exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram<const FINE: u32> {
    weights: Vec<u64>,
    total: u64,
    /// Sum of value times weight.
    sum: u128,
}

impl<const FINE: u32> Histogram<FINE> {
    /// The bucket of a value.
    #[inline]
    pub const fn bucket_of(value: u64) -> usize {
        if value < 1 << FINE {
            return value as usize;
        }
        let shift = value.ilog2() - FINE;
        ((shift as usize) << FINE) + (value >> shift) as usize
    }

    /// The largest value of a bucket.
    #[inline]
    pub const fn upper_of(bucket: usize) -> u64 {
        let fine = 1 << FINE;
        if bucket < 2 * fine {
            return bucket as u64;
        }
        let shift = (bucket >> FINE) - 1;
        (((bucket % fine + fine) as u64) << shift) + ((1 << shift) - 1)
    }

    /// Adds `weight` at `value`.
    #[inline]
    pub fn record(&mut self, value: u64, weight: u64) {
        let bucket = Self::bucket_of(value);
        if bucket >= self.weights.len() {
            self.reach(bucket);
        }
        self.weights[bucket] += weight;
        self.total += weight;
        self.sum += u128::from(value) * u128::from(weight);
    }

    #[cold]
    fn reach(&mut self, bucket: usize) {
        self.weights.resize(bucket + 1, 0);
    }

    /// Adds everything that `other` recorded.
    pub fn merge(&mut self, other: &Histogram<FINE>) {
        if other.weights.len() > self.weights.len() {
            self.weights.resize(other.weights.len(), 0);
        }
        self.weights.iter_mut().zip(&other.weights).for_each(|(weight, more)| *weight += more);
        self.total += other.total;
        self.sum += other.sum;
    }

    /// All weights together.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The sum of value times weight.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The value that this share of all weights does not exceed, rounded up to the end of its bucket; `None` when empty.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let [found] = self.quantiles([share]);
        found
    }

    /// As [`Histogram::quantile`], for several shares that rise: the buckets are walked once.
    pub fn quantiles<const N: usize>(&self, rising: [f64; N]) -> [Option<u64>; N] {
        let ranks = rising.map(|share| ((share * self.total as f64).ceil() as u64).max(1));
        let (mut found, mut at, mut seen) = ([None; N], 0, 0);
        let mut rank = ranks.first().copied().unwrap_or(u64::MAX);
        for (bucket, weight) in self.weights.iter().enumerate() {
            seen += weight;
            if seen < rank {
                continue;
            }
            while at < N && seen >= ranks[at] {
                found[at] = Some(Self::upper_of(bucket));
                at += 1;
            }
            let Some(&next) = ranks.get(at) else { break };
            rank = next;
        }
        found
    }

    /// Buckets that are not empty, smallest first: largest value, weight.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0);
        filled.map(|(bucket, &weight)| (Self::upper_of(bucket), weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    fn buckets_are_contiguous_and_narrow<const FINE: u32>() {
        let top = Histogram::<FINE>::bucket_of(u64::MAX);
        assert_eq!(top + 1, (65 - FINE as usize) << FINE);
        assert_eq!(Histogram::<FINE>::upper_of(top), u64::MAX);
        for bucket in 0..top {
            let upper = Histogram::<FINE>::upper_of(bucket);
            assert_eq!(Histogram::<FINE>::bucket_of(upper), bucket, "upper end {upper}");
            assert_eq!(Histogram::<FINE>::bucket_of(upper + 1), bucket + 1, "behind {upper}");
            let width = Histogram::<FINE>::upper_of(bucket + 1) - upper;
            assert!(width == 1 || (width - 1) << FINE <= upper, "{width} wide above {upper}");
            assert!(width == 1 || upper + 1 >= 2 << FINE, "exact below 2^(FINE + 1)");
        }
    }

    #[test]
    fn buckets_have_the_width_that_the_module_says() {
        buckets_are_contiguous_and_narrow::<3>();
        buckets_are_contiguous_and_narrow::<4>();
        buckets_are_contiguous_and_narrow::<10>();
    }

    #[test]
    fn quantiles_are_those_of_sorted_values_rounded_up_and_merging_changes_nothing() {
        let mut rng = Rng::new(5);
        let mut parts = [Histogram::<4>::default(), Histogram::default()];
        let mut whole = Histogram::<4>::default();
        let mut sorted = Vec::new();
        for i in 0..10_000 {
            let value = rng.next_u64() >> rng.below(64);
            parts[i % 2].record(value, 1);
            whole.record(value, 1);
            sorted.push(value);
        }
        sorted.sort_unstable();
        for share in [0.0, 0.001, 0.5, 0.99, 1.0] {
            let rank = ((share * 10_000f64).ceil() as usize).max(1);
            let bucket = Histogram::<4>::bucket_of(sorted[rank - 1]);
            assert_eq!(whole.quantile(share), Some(Histogram::<4>::upper_of(bucket)), "share {share}");
        }
        assert_eq!(whole.sum(), sorted.iter().map(|&value| u128::from(value)).sum());
        let [mut merged, second] = parts;
        merged.merge(&second);
        assert_eq!(merged, whole);
    }

    #[test]
    fn weights_and_sums_are_exact() {
        let mut histogram = Histogram::<4>::default();
        assert_eq!((histogram.quantile(0.5), histogram.total(), histogram.sum()), (None, 0, 0));
        for (value, weight) in [(0, 3), (15, 1), (1_000, 2)] {
            histogram.record(value, weight);
        }
        assert_eq!(histogram.sum(), 15 + 2_000);
        assert_eq!(
            [0.0, 0.5, 0.6, 2.0 / 3.0, 0.7, 1.0].map(|share| histogram.quantile(share).unwrap()),
            [0, 0, 15, 15, 1_023, 1_023]
        );
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(0, 3), (15, 1), (1_023, 2)]);
        histogram.record(u64::MAX, 5);
        assert_eq!((histogram.total(), histogram.sum()), (11, 2_015 + 5 * u128::from(u64::MAX)));
    }
}
