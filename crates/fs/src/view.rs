//! Views of callers: the state of a file system, its counters, and how full it is.

use pellucid_flash::{Figure, Pauses};

/// How a file system is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FsState {
    /// The file system is being mounted: operations wait.
    Mounting,
    /// The file system is in use.
    Ready,
    /// The file system is in use, and takes no changes.
    ReadOnly,
    /// The file system is unmounted, and all is durable.
    Unmounted,
    /// The mount failed; a sentence says why.
    Failed(String),
}

/// Counters of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsCounters {
    /// Blocks of new data written.
    pub data_blocks: u64,
    /// Blocks of data that the cleaner moved: the file copies.
    pub moved_blocks: u64,
    /// Nodes of the tree written.
    pub node_blocks: u64,
    /// Headers and entries written.
    pub record_blocks: u64,
    /// Commits.
    pub commits: u64,
    /// Checkpoints that are durable.
    pub checkpoints: u64,
    /// Segments cleaned.
    pub cleaned: u64,
    /// Segments cleaned, by the time from their choice until nothing in them was needed but by the checkpoint.
    pub pauses: Pauses,
    /// Blocks read.
    pub read_blocks: u64,
    /// Writes that failed.
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

/// How full it is, and what it has in hand; for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsView {
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// Segments.
    pub segments: u32,
    /// Free segments without contents.
    pub unused: u32,
    /// Segments without live blocks; a checkpoint frees them.
    pub dead: u32,
    /// Out of use.
    pub bad: u32,
    /// Blocks of files, those in memory too.
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
    /// Files without a name, and files with blocks behind their end, that are still to be freed.
    pub freeing: usize,
    /// Number of the newest checkpoint.
    pub checkpoint: u64,
    /// Data blocks have checksums.
    pub data_checksums: bool,
}
