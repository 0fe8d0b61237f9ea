//! Garbage collection pauses, in a report.

use super::Distribution;
use pellucid_flash::Pauses;
use serde::Serialize;

/// Garbage collection (GC) pauses: for each victim that was erased, was retired, or stayed because it could not be read, the time since it was
/// chosen. Quantiles come from a histogram with eight bins per doubling and are at most an eighth too large; mean and maximum are exact.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GcPauses {
    /// Victims that have ended, folded blocks not counted.
    pub count: u64,
    /// Arithmetic mean, exact; absent, like the following fields, without GC.
    pub mean_ns: Option<f64>,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 95th percentile.
    pub p95_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// The longest, exact.
    pub max_ns: Option<u64>,
    /// Pauses by their length.
    pub distribution: Distribution,
}

impl GcPauses {
    /// Summarises the pauses.
    pub fn new(pauses: &Pauses) -> GcPauses {
        let count = pauses.count();
        let quantile = |share| pauses.quantile(share).map(|pause| pause.0);
        let (upper_ns, number) = pauses.bins().unzip();
        GcPauses {
            count,
            mean_ns: (count > 0).then(|| pauses.sum().0 as f64 / count as f64),
            p50_ns: quantile(0.5),
            p95_ns: quantile(0.95),
            p99_ns: quantile(0.99),
            max_ns: pauses.longest().map(|pause| pause.0),
            distribution: Distribution { upper_ns, count: number },
        }
    }
}
