//! File operations, as the threads of a file server saw them.

use crate::Latency;
use serde::Serialize;

/// File operations of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OperationReport {
    /// The kind.
    pub operation: String,
    /// Operations per second.
    pub per_second: f64,
    /// Latency.
    pub latency: Latency,
}

/// File operations, as the threads of a file server saw them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FilesReport {
    /// Name of the personality.
    pub workload: String,
    /// Number of files in the set.
    pub files: u32,
    /// Mean size of a file.
    pub file_bytes: u64,
    /// Number of threads.
    pub threads: u32,
    /// Bytes of memory for the page cache.
    pub page_cache_bytes: u64,
    /// Number of operations.
    pub operations: u64,
    /// Operations per second.
    pub operations_per_second: f64,
    /// Mean latency of an operation.
    pub mean_ns: f64,
    /// Bytes that operations read.
    pub read_bytes: u64,
    /// Bytes that operations wrote.
    pub written_bytes: u64,
    /// Share of pages read by operations that were in memory; absent without reads.
    pub page_hit_ratio: Option<f64>,
    /// Journal commits.
    pub commits: u64,
    /// Operations skipped because the file system was full.
    pub refused: u64,
    /// Operations by kind; kinds that did not occur are left out.
    pub by_operation: Vec<OperationReport>,
}
