//! Measurements of a file server's threads.

use super::{FilesConfig, Operation};
use pellucid_flash::Nanos;
use pellucid_report::{FilesReport, LatencyRecorder, OperationReport};
use strum::VariantArray;

/// Collects the figures of a file server's threads.
#[derive(Clone, Debug)]
pub struct Meter {
    kinds: Vec<LatencyRecorder>,
    sum_ns: u128,
    operations: u64,
    /// Pages read by operations.
    pub(super) read_pages: u64,
    /// Pages among these that were in memory.
    pub(super) hit_pages: u64,
    /// Bytes read by operations.
    pub read_bytes: u64,
    /// Bytes written by operations. No figure includes skipped operations.
    pub written_bytes: u64,
    /// Commits of the journal.
    pub(super) commits: u64,
    /// Operations skipped for want of a file or of space.
    pub refused: u64,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter::new()
    }
}

impl Meter {
    /// An empty meter.
    pub fn new() -> Meter {
        Meter {
            kinds: vec![LatencyRecorder::new(); Operation::VARIANTS.len()],
            sum_ns: 0,
            operations: 0,
            read_pages: 0,
            hit_pages: 0,
            read_bytes: 0,
            written_bytes: 0,
            commits: 0,
            refused: 0,
        }
    }

    /// Records an operation and its time.
    pub fn record(&mut self, operation: Operation, time: Nanos) {
        self.kinds[operation as usize].record(time);
        self.sum_ns += u128::from(time.0);
        self.operations += 1;
    }

    /// Number of completed operations.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Latency of all operations together.
    pub fn latency(&self) -> LatencyRecorder {
        self.kinds.iter().fold(LatencyRecorder::new(), |mut all, kind| {
            all.merge(kind);
            all
        })
    }

    /// The figures of a measurement of this length.
    pub fn report(&self, config: &FilesConfig, measured: Nanos) -> FilesReport {
        let seconds = measured.as_secs_f64();
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let by_operation: Vec<OperationReport> = Operation::VARIANTS
            .iter()
            .map(|&operation| (operation, self.kinds[operation as usize].summary()))
            .filter(|(_, latency)| latency.count > 0)
            .map(|(operation, latency)| OperationReport {
                operation: operation.name().into(),
                per_second: rate(latency.count),
                latency,
            })
            .collect();
        let operations: u64 = by_operation.iter().map(|kind| kind.latency.count).sum();
        FilesReport {
            workload: config.personality.name().into(),
            files: config.files,
            file_bytes: config.file_bytes,
            threads: config.threads,
            page_cache_bytes: config.page_cache_bytes,
            operations,
            operations_per_second: rate(operations),
            mean_ns: if operations > 0 { self.sum_ns as f64 / operations as f64 } else { 0.0 },
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            page_hit_ratio: (self.read_pages > 0).then(|| self.hit_pages as f64 / self.read_pages as f64),
            commits: self.commits,
            refused: self.refused,
            by_operation,
        }
    }
}
