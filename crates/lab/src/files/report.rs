//! What the threads of a file server saw.

use super::{FilesConfig, Operation};
use crate::report::{Latency, LatencyRecorder};
use pellucid_flash::Nanos;
use serde::Serialize;
use strum::VariantArray;

/// Operations of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OperationReport {
    /// The kind.
    pub operation: String,
    /// Operations per second.
    pub per_second: f64,
    /// How long they took.
    pub latency: Latency,
}

/// Operations of files, as their threads saw them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FilesReport {
    /// The personality.
    pub workload: String,
    /// Files of the set.
    pub files: u32,
    /// Mean size of a file.
    pub file_bytes: u64,
    /// Threads.
    pub threads: u32,
    /// Memory for the page cache.
    pub page_cache_bytes: u64,
    /// All operations.
    pub operations: u64,
    /// Operations per second.
    pub operations_per_second: f64,
    /// Mean time of an operation.
    pub mean_ns: f64,
    /// Bytes that operations read.
    pub read_bytes: u64,
    /// Bytes that operations wrote.
    pub written_bytes: u64,
    /// Share of pages read by operations that were in memory; absent without reads.
    pub page_hit_ratio: Option<f64>,
    /// Commits of the journal.
    pub commits: u64,
    /// Operations that were left out because the file system was full.
    pub refused: u64,
    /// By kind, those that happened.
    pub by_operation: Vec<OperationReport>,
}

/// Collects a report.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    kinds: Vec<LatencyRecorder>,
    sum_ns: u128,
    operations: u64,
    pub read_pages: u64,
    pub hit_pages: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub commits: u64,
    pub refused: u64,
}

impl Meter {
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

    pub fn record(&mut self, operation: Operation, time: Nanos) {
        self.kinds[operation as usize].record(time);
        self.sum_ns += u128::from(time.0);
        self.operations += 1;
    }

    pub fn operations(&self) -> u64 {
        self.operations
    }

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
