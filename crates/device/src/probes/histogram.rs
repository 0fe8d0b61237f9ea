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
/// Values from this power of two on share the last bucket.
const TOP_BITS: u32 = 44;
const BUCKETS: usize = buckets(FINE_BITS, TOP_BITS);
/// The same of the histograms that every way has.
const COARSE_BITS: u32 = 3;
const COARSE_TOP_BITS: u32 = 36;
const COARSE_BUCKETS: usize = buckets(COARSE_BITS, COARSE_TOP_BITS);

const fn buckets(fine_bits: u32, top_bits: u32) -> usize {
    ((top_bits - fine_bits) as usize + 1) << fine_bits
}

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
fn bucket_of(value: u64, fine_bits: u32, buckets: usize) -> usize {
    if value < 1 << fine_bits {
        return value as usize;
    }
    let shift = value.ilog2() - fine_bits;
    (((shift as usize) << fine_bits) + (value >> shift) as usize).min(buckets - 1)
}

/// The largest value of a bucket; the last one has no end.
fn upper_of(bucket: usize, fine_bits: u32) -> u64 {
    let fine = 1 << fine_bits;
    if bucket < 2 * fine {
        return bucket as u64;
    }
    let shift = (bucket >> fine_bits) as u32 - 1;
    (((bucket % fine + fine) as u64 + 1) << shift) - 1
}

impl Histogram {
    /// Adds `weight` at `value`.
    #[inline]
    pub fn record(&mut self, value: u64, weight: u64) {
        self.weights[bucket_of(value, FINE_BITS, BUCKETS)] += weight;
        self.sum = self.sum.saturating_add(value.saturating_mul(weight));
    }

    /// Counts one `value` without its sum. A caller that keeps several sums side by side [adds them later](Histogram::set_sum), because a
    /// sum is a cache line of its own.
    #[inline]
    pub(super) fn count(&mut self, value: u64) {
        self.weights[bucket_of(value, FINE_BITS, BUCKETS)] += 1;
    }

    pub(super) fn set_sum(&mut self, sum: u64) {
        self.sum = sum;
    }

    /// All weights together.
    pub fn total(&self) -> u64 {
        self.weights.iter().sum()
    }

    /// The sum of value times weight.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The value that this share of all weights does not exceed, up to a sixteenth too large; 0 when empty.
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = (share * self.total() as f64).ceil();
        let mut seen = 0;
        let reached = self.buckets().find(|(_, weight)| {
            seen += weight;
            seen as f64 >= rank
        });
        reached.map_or(0, |(upper, _)| upper)
    }

    /// Buckets that are not empty, smallest first: largest value, weight.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0);
        filled.map(|(bucket, &weight)| (upper_of(bucket, FINE_BITS), weight))
    }
}

/// Counts by value, in a kilobyte: 8 buckets to a doubling, up to a minute in nanoseconds. A value is never more than an eighth
/// below the upper end of its bucket; a count stays at the largest number that it can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coarse {
    counts: [u32; COARSE_BUCKETS],
}

impl Default for Coarse {
    fn default() -> Coarse {
        Coarse { counts: [0; COARSE_BUCKETS] }
    }
}

impl Coarse {
    /// Counts one `value`.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let count = &mut self.counts[bucket_of(value, COARSE_BITS, COARSE_BUCKETS)];
        *count = count.saturating_add(1);
    }

    /// Values that the shares `shares` of all, in ascending order, do not exceed, up to an eighth too large; `None` when empty.
    pub fn quantiles<const N: usize>(&self, shares: [f64; N]) -> Option<[u64; N]> {
        let total: u64 = self.counts.iter().map(|&count| u64::from(count)).sum();
        let (mut bucket, mut seen) = (0, u64::from(self.counts[0]));
        let value = |share: f64| {
            let rank = (share * total as f64).ceil().max(1.0);
            while (seen as f64) < rank && bucket + 1 < COARSE_BUCKETS {
                bucket += 1;
                seen += u64::from(self.counts[bucket]);
            }
            upper_of(bucket, COARSE_BITS)
        };
        (total > 0).then(|| shares.map(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_a_sixteenth_wide() {
        for (fine_bits, buckets, top_bits) in
            [(FINE_BITS, BUCKETS, TOP_BITS), (COARSE_BITS, COARSE_BUCKETS, COARSE_TOP_BITS)]
        {
            let of = |value| bucket_of(value, fine_bits, buckets);
            for bucket in 0..buckets - 1 {
                let upper = upper_of(bucket, fine_bits);
                assert_eq!(of(upper), bucket, "upper end {upper}");
                assert_eq!(of(upper + 1), bucket + 1, "behind {upper}");
                let width = upper_of(bucket + 1, fine_bits) - upper;
                assert!(width == 1 || width << fine_bits <= upper + 1, "{width} wide above {upper}");
            }
            assert_eq!(upper_of(buckets - 1, fine_bits), (1 << top_bits) - 1);
            assert_eq!(of(u64::MAX), buckets - 1);
        }
    }

    #[test]
    fn quantiles_of_a_way() {
        let mut coarse = Coarse::default();
        assert_eq!(coarse.quantiles([0.5]), None);
        (0..98).for_each(|_| coarse.record(7));
        coarse.record(1_000);
        coarse.record(u64::MAX);
        let top = (1 << COARSE_TOP_BITS) - 1;
        assert_eq!(coarse.quantiles([0.0, 0.5, 0.98, 0.985, 1.0]), Some([7, 7, 7, 1_023, top]));
    }

    #[test]
    fn weights_and_sums_are_exact() {
        let mut histogram = Histogram::default();
        for (value, weight) in [(0, 3), (15, 1), (1_000, 2)] {
            histogram.record(value, weight);
        }
        assert_eq!(histogram.sum(), 15 + 2_000);
        assert_eq!(
            [0.0, 0.5, 0.6, 2.0 / 3.0, 0.7, 1.0].map(|share| histogram.quantile(share)),
            [0, 0, 15, 15, 1_023, 1_023]
        );
        assert_eq!(Histogram::default().quantile(0.5), 0);
        histogram.record(u64::MAX, 5);
        assert_eq!(histogram.total(), 11);
        assert_eq!(histogram.sum(), u64::MAX);
        assert_eq!(histogram.buckets().collect::<Vec<_>>()[..3], [(0, 3), (15, 1), (1_023, 2)]);
    }
}
