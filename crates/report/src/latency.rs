//! Latencies of one kind of request: exact count, mean, minimum and maximum, and percentiles of known resolution.
//!
//! Resolution: percentiles come from a histogram of 1024 buckets per power of two. A percentile is never below the exact nearest-rank
//! value and at most 0.1 % above it; below 2048 ns it is exact. Memory is bounded: one counter per bucket up to the largest latency, at
//! most 56,320 (440 KiB), however many requests are recorded.
//!
//! Invariants: `min <= every percentile <= max`, and percentiles never fall as the quantile rises.

use pellucid_flash::{Histogram, Nanos};
use serde::Serialize;

/// Summary of latencies, in simulated nanoseconds. Without requests every field but `count` is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Requests measured.
    pub count: u64,
    /// Arithmetic mean, exact.
    pub mean_ns: Option<f64>,
    /// Smallest, exact.
    pub min_ns: Option<u64>,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 95th percentile.
    pub p95_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p99_9_ns: Option<u64>,
    /// 99.99th percentile.
    pub p99_99_ns: Option<u64>,
    /// Largest, exact.
    pub max_ns: Option<u64>,
}

/// Distribution of latencies in at most 976 bins, each at most 1/16 as wide as its lower edge. Empty bins are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Largest latency of each bin in nanoseconds (inclusive), rising.
    pub upper_ns: Vec<u64>,
    /// Requests in each bin.
    pub count: Vec<u64>,
}

impl Distribution {
    /// Returns the fraction of requests up to each bin's upper edge: `(latency_ns, share)`.
    pub fn cumulative(&self) -> Vec<(f64, f64)> {
        let total: u64 = self.count.iter().sum();
        let mut below = 0;
        let bins = self.upper_ns.iter().zip(&self.count);
        bins.map(|(&upper, &count)| {
            below += count;
            (upper as f64, below as f64 / total as f64)
        })
        .collect()
    }
}

impl Distribution {
    /// Returns the fraction of requests per sixteenth of a power of two, `(latency_ns, share)`, which makes bins of unequal width comparable on a
    /// logarithmic axis. Empty bins beside used ones are given as 0.
    pub fn density(&self) -> Vec<(f64, f64)> {
        let total: u64 = self.count.iter().sum();
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut next_bin = 0;
        for (&upper_ns, &count) in self.upper_ns.iter().zip(&self.count) {
            let bin = Coarse::bucket_of(upper_ns);
            if bin > next_bin && next_bin > 0 {
                points.push((middle_ns(next_bin), 0.0));
            }
            if bin > next_bin + 1 || next_bin == 0 {
                points.push((middle_ns(bin.saturating_sub(1)), 0.0));
            }
            let width = ((upper_ns as f64 + 1.0) / lower_ns(bin)).log2() * 16.0;
            points.push((middle_ns(bin), count as f64 / total as f64 / width.max(0.5)));
            next_bin = bin + 1;
        }
        if next_bin > 0 {
            points.push((middle_ns(next_bin), 0.0));
        }
        points
    }
}

fn lower_ns(bin: usize) -> f64 {
    if bin == 0 { 1.0 } else { Coarse::upper_of(bin - 1) as f64 + 1.0 }
}

/// Returns the middle of a bin on a logarithmic axis, at least 1 ns.
fn middle_ns(bin: usize) -> f64 {
    let bin = bin.min(Coarse::bucket_of(u64::MAX));
    (lower_ns(bin) * (Coarse::upper_of(bin).max(1) as f64)).sqrt()
}

/// The coarse scale of [`Distribution`] and the time series: 16 bins per power of two.
pub(super) type Coarse = Histogram<4>;

/// Records latencies, at a few nanoseconds of real time each.
#[derive(Clone, Debug)]
pub struct LatencyRecorder {
    histogram: Histogram<10>,
    min_ns: u64,
    max_ns: u64,
}

impl Default for LatencyRecorder {
    fn default() -> Self {
        LatencyRecorder::new()
    }
}

impl LatencyRecorder {
    /// Makes an empty recorder.
    pub fn new() -> LatencyRecorder {
        LatencyRecorder { histogram: Histogram::default(), min_ns: u64::MAX, max_ns: 0 }
    }

    /// Adds one latency.
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        self.histogram.record(latency.0, 1);
        self.min_ns = self.min_ns.min(latency.0);
        self.max_ns = self.max_ns.max(latency.0);
    }

    /// Adds all latencies of `other`.
    pub fn merge(&mut self, other: &LatencyRecorder) {
        self.histogram.merge(&other.histogram);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Returns the number of latencies.
    pub fn count(&self) -> u64 {
        self.histogram.total()
    }

    /// Returns the sum of all latencies in nanoseconds, exact.
    pub fn sum_ns(&self) -> u128 {
        self.histogram.sum()
    }

    /// Returns the smallest value that at least the fraction `q` (0 to 1) of all latencies do not exceed; `None` if empty.
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        self.histogram.quantile(q).map(|ns| Nanos(ns.clamp(self.min_ns, self.max_ns)))
    }

    /// Like [`LatencyRecorder::quantile`] in nanoseconds, for several rising fractions, in one walk over the histogram.
    fn quantiles_ns<const N: usize>(&self, rising: [f64; N]) -> [Option<u64>; N] {
        self.histogram.quantiles(rising).map(|found| found.map(|ns| ns.clamp(self.min_ns, self.max_ns)))
    }

    /// Returns the summary for the report.
    pub fn summary(&self) -> Latency {
        let count = self.count();
        if count == 0 {
            return Latency::default();
        }
        let [p50_ns, p95_ns, p99_ns, p99_9_ns, p99_99_ns] =
            self.quantiles_ns([0.5, 0.95, 0.99, 0.999, 0.9999]);
        Latency {
            count,
            mean_ns: Some(self.sum_ns() as f64 / count as f64),
            min_ns: Some(self.min_ns),
            p50_ns,
            p95_ns,
            p99_ns,
            p99_9_ns,
            p99_99_ns,
            max_ns: Some(self.max_ns),
        }
    }

    /// Returns the distribution on the coarse scale. Its bins are unions of the histogram's buckets, so every count is in the right bin.
    pub fn distribution(&self) -> Distribution {
        let mut coarse = Coarse::default();
        self.histogram.buckets().for_each(|(upper_ns, count)| coarse.record(upper_ns, count));
        let (upper_ns, count) = coarse.buckets().unzip();
        Distribution { upper_ns, count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;

    /// Latencies over seven decades: what a drive with retries and GC stalls shows.
    fn latencies(n: usize, seed: u64) -> Vec<u64> {
        let mut rng = Rng::new(seed);
        (0..n).map(|_| (10f64.powf(2.0 + 7.0 * rng.unit_f64().powi(3))) as u64).collect()
    }

    fn recorder_of(values: &[u64]) -> LatencyRecorder {
        let mut recorder = LatencyRecorder::new();
        for &value in values {
            recorder.record(Nanos(value));
        }
        recorder
    }

    #[test]
    fn percentiles_stay_within_the_written_resolution_of_sorted_data() {
        let values = latencies(200_000, 7);
        let recorder = recorder_of(&values);
        let mut sorted = values.clone();
        sorted.sort_unstable();
        for q in [0.001, 0.25, 0.5, 0.95, 0.99, 0.999, 0.9999, 1.0] {
            let rank = ((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
            let exact = sorted[rank - 1];
            let got = recorder.quantile(q).unwrap().0;
            assert!(got >= exact, "quantile {q}: {got} is below the exact {exact}");
            assert!(
                got as f64 <= exact as f64 * 1.001,
                "quantile {q}: {got} is more than 0.1 % above {exact}"
            );
            if exact < 2048 {
                assert_eq!(got, exact, "quantile {q} below 2048 ns must be exact");
            }
        }
        let summary = recorder.summary();
        assert_eq!(summary.count, 200_000);
        assert_eq!(summary.min_ns, sorted.first().copied());
        assert_eq!(summary.max_ns, sorted.last().copied());
        for few in [1, 2, 3, 30, 200_000] {
            let recorder = recorder_of(&values[..few]);
            let one_by_one = [0.5, 0.95, 0.99, 0.999, 0.9999].map(|q| recorder.quantile(q).map(|ns| ns.0));
            let Latency { p50_ns, p95_ns, p99_ns, p99_9_ns, p99_99_ns, .. } = recorder.summary();
            assert_eq!([p50_ns, p95_ns, p99_ns, p99_9_ns, p99_99_ns], one_by_one, "of {few}");
        }
        let sum: u128 = values.iter().map(|&v| u128::from(v)).sum();
        assert_eq!(recorder.sum_ns(), sum);
        assert_eq!(summary.mean_ns, Some(sum as f64 / 200_000.0));
    }

    #[test]
    fn the_whole_range_of_time_can_be_recorded() {
        let recorder = recorder_of(&[0, 1, 1 << 63]);
        let summary = recorder.summary();
        assert_eq!((summary.min_ns, summary.p50_ns, summary.max_ns), (Some(0), Some(1), Some(1 << 63)));
        assert_eq!(recorder.quantile(1.0), Some(Nanos(1 << 63)));
        assert_eq!(LatencyRecorder::new().summary(), Latency::default());
    }

    #[test]
    fn a_merge_equals_recording_everything_in_one() {
        let (a, b) = (latencies(5_000, 1), latencies(3_000, 2));
        let mut merged = recorder_of(&a);
        merged.merge(&recorder_of(&b));
        let all = recorder_of(&[a, b].concat());
        assert_eq!(merged.summary(), all.summary());
        assert_eq!(merged.distribution(), all.distribution());
    }

    #[test]
    fn a_density_is_smooth_across_powers_of_two_and_zero_in_gaps() {
        // Evenly spread over the logarithm of latency: every full bin must have the same density.
        let mut recorder = LatencyRecorder::new();
        for i in 0..400_000 {
            recorder.record(Nanos((1e5 * 100f64.powf(f64::from(i) / 400_000.0)) as u64));
        }
        let density = recorder.distribution().density();
        let expected = 1.0 / (100f64.log2() * 16.0);
        for (ns, share) in density.iter().filter(|(ns, _)| (1.1e5..9e6).contains(ns)) {
            assert!((share / expected - 1.0).abs() < 0.05, "{share} at {ns} ns, expected {expected}");
        }
        let spikes = recorder_of(&[100, 100, 100, 1_000_000]).distribution().density();
        let shares: Vec<f64> = spikes.iter().map(|point| point.1).collect();
        assert_eq!((shares[0], shares[2], shares[3], shares[5]), (0.0, 0.0, 0.0, 0.0));
        assert!(shares[1] > 0.6 && shares[4] > 0.2);
        assert!(spikes.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn the_distribution_counts_every_request_where_it_belongs() {
        let values = latencies(20_000, 3);
        let distribution = recorder_of(&values).distribution();
        for (i, &upper) in distribution.upper_ns.iter().enumerate() {
            let exact =
                values.iter().filter(|&&v| Coarse::upper_of(Coarse::bucket_of(v)) == upper).count() as u64;
            assert_eq!(distribution.count[i], exact, "bin up to {upper} ns");
        }
        assert_eq!(distribution.count.iter().sum::<u64>(), 20_000);
        assert_eq!(distribution.cumulative().last().map(|p| p.1), Some(1.0));
    }
}
