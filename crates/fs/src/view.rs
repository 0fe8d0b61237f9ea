//! Views for callers: state, counters, and fill level of a file system.

use pellucid_flash::{Figure, Pauses};

/// State of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FsState {
    /// Being mounted: operations wait.
    Mounting,
    /// In use.
    Ready,
    /// In use, without changes.
    ReadOnly,
    /// Unmounted; everything is durable.
    Unmounted,
    /// The mount failed, with a sentence of the reason.
    Failed(String),
}

/// Counters of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsCounters {
    /// Blocks of new data written.
    pub data_blocks: u64,
    /// Data blocks moved by the cleaner: file copies.
    pub moved_blocks: u64,
    /// Nodes of the tree written.
    pub node_blocks: u64,
    /// Headers and entries written.
    pub record_blocks: u64,
    /// Commits.
    pub commits: u64,
    /// Durable checkpoints.
    pub checkpoints: u64,
    /// Segments cleaned.
    pub cleaned: u64,
    /// Segments cleaned, by the time from choice until only a checkpoint is needed to free them.
    pub pauses: Pauses,
    /// Blocks read.
    pub read_blocks: u64,
    /// Failed writes.
    pub write_failures: u64,
    /// Data blocks that the drive moved to other names.
    pub renamed_blocks: u64,
}

impl FsCounters {
    /// The counters as figures of a layer.
    pub fn figures(&self) -> Vec<Figure> {
        let count = Figure::count;
        let mut list = vec![
            count("fs_data_blocks", "Blocks of new data written.", self.data_blocks),
            count("fs_moved_blocks", "Blocks of data that the cleaner moved.", self.moved_blocks),
            count("fs_node_blocks", "Nodes of the tree written.", self.node_blocks),
            count("fs_record_blocks", "Headers and entries of the log written.", self.record_blocks),
            count("fs_read_blocks", "Blocks read.", self.read_blocks),
            count("fs_commits", "Commits.", self.commits),
            count("fs_checkpoints", "Checkpoints that are durable.", self.checkpoints),
            count("fs_cleaned_segments", "Segments cleaned.", self.cleaned),
            count("fs_write_failures", "Writes that failed.", self.write_failures),
        ];
        list.extend(self.pauses.figures([
            "fs_gc_pauses",
            "fs_gc_pause_sum_ns",
            "fs_gc_pause_p50_ns",
            "fs_gc_pause_p99_ns",
            "fs_gc_pause_max_ns",
        ]));
        list
    }
}

/// Fill level and work in progress, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsView {
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// Segments.
    pub segments: u32,
    /// Free, empty segments.
    pub unused: u32,
    /// Segments without live blocks; the next checkpoint frees them.
    pub dead: u32,
    /// Retired segments.
    pub bad: u32,
    /// Blocks of files, including those in memory.
    pub data_blocks: u64,
    /// Nodes of the tree.
    pub nodes: u64,
    /// Levels of the tree above its leaves.
    pub levels: u8,
    /// Dirty pages.
    pub dirty_pages: usize,
    /// Dirty nodes.
    pub dirty_nodes: usize,
    /// Pages and nodes in memory.
    pub resident: usize,
    /// Blocks that the log can take before the next checkpoint.
    pub room: u64,
    /// Files with something still to free: without a name, or with blocks beyond their end.
    pub freeing: usize,
    /// Number of the newest checkpoint.
    pub checkpoint: u64,
    /// True if data blocks have checksums.
    pub data_checksums: bool,
}
