//! Operations of files, as the threads of a file server saw them.

use crate::Latency;
use serde::Serialize;

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
