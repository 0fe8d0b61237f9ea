//! A histogram of fixed size: 16 buckets to each doubling, exact below 16.
//!
//! ```text
//!  value   0 1 2 .. 15 | 16 17 .. 31 | 32-33 34-35 .. 62-63 | 64-67 .. | ... | up to 2^44 and above
//!  bucket  0 1 2 .. 15 | 16 17 .. 31 | 32    33       47    | 48       | ...
//! ```
//! A value is never more than a sixteenth below the upper end of its bucket. 2^44 nanoseconds are almost five hours; what is longer counts
//! as that.

/// Buckets to a doubling, as a power of two.
const FINE_BITS: u32 = 4;
const FINE: usize = 1 << FINE_BITS;
/// Values from this power of two on share the last bucket.
const TOP_BITS: u32 = 44;
const BUCKETS: usize = ((TOP_BITS - FINE_BITS) as usize + 1) * FINE;

/// Weights by value. Recording allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    weights: [u64; BUCKETS],
    /// Sum of value times weight; stays at the largest number where it would pass it, after centuries.
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { weights: [0; BUCKETS], sum: 0 }
    }
}

#[inline]
fn bucket_of(value: u64) -> usize {
    if value < FINE as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - FINE_BITS;
    (((shift as usize) << FINE_BITS) + (value >> shift) as usize).min(BUCKETS - 1)
}

/// The largest value of a bucket; the last one has no end.
fn upper_of(bucket: usize) -> u64 {
    if bucket < 2 * FINE {
        return bucket as u64;
    }
    let shift = (bucket >> FINE_BITS) as u32 - 1;
    (((bucket % FINE + FINE) as u64 + 1) << shift) - 1
}

impl Histogram {
    /// Adds `weight` at `value`.
    #[inline]
    pub fn record(&mut self, value: u64, weight: u64) {
        self.weights[bucket_of(value)] += weight;
        self.sum = self.sum.saturating_add(value.saturating_mul(weight));
    }

    /// All weights together.
    pub fn total(&self) -> u64 {
        self.weights.iter().sum()
    }

    /// The sum of value times weight.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Buckets that are not empty, smallest first: largest value, weight.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0);
        filled.map(|(bucket, &weight)| (upper_of(bucket), weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_a_sixteenth_wide() {
        for bucket in 0..BUCKETS - 1 {
            let upper = upper_of(bucket);
            assert_eq!(bucket_of(upper), bucket, "upper end {upper}");
            assert_eq!(bucket_of(upper + 1), bucket + 1, "behind {upper}");
            let width = upper_of(bucket + 1) - upper;
            assert!(width == 1 || width * 16 <= upper + 1, "{width} wide above {upper}");
        }
        assert_eq!(upper_of(BUCKETS - 1), (1 << TOP_BITS) - 1);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn weights_and_sums_are_exact() {
        let mut histogram = Histogram::default();
        for (value, weight) in [(0, 3), (15, 1), (1_000, 2)] {
            histogram.record(value, weight);
        }
        assert_eq!(histogram.sum(), 15 + 2_000);
        histogram.record(u64::MAX, 5);
        assert_eq!(histogram.total(), 11);
        assert_eq!(histogram.sum(), u64::MAX);
        assert_eq!(histogram.buckets().collect::<Vec<_>>()[..3], [(0, 3), (15, 1), (1_023, 2)]);
    }
}
