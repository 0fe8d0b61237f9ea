//! How a file system is mounted.

use crate::types::BLOCK_BYTES;

/// Least memory.
const MEMORY_BYTES_MIN: usize = 256 << 10;

/// Rule by which the cleaner chooses a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CleanerPolicy {
    /// The one whose cleaning frees most for longest: by what lives in it, and by its age.
    #[default]
    CostBenefit,
    /// The one in which least lives.
    Greedy,
}

/// How a file system is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Memory for nodes and data, dirty ones too.
    pub memory_bytes: usize,
    /// True if nothing may be written.
    pub read_only: bool,
    /// Changes are taken although something that was durable is damaged: what is left of it becomes the state.
    pub repair: bool,
    /// The drive is told which segments are free.
    pub discard: bool,
    /// Policy of the cleaner.
    pub cleaner: CleanerPolicy,
    /// Segments that are open for new data at once, and as many for what the cleaner moves; on flash it has one in every channel. At most
    /// [`MountOptions::OPEN_SEGMENTS_MAX`].
    pub open_segments: u32,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            memory_bytes: 64 << 20,
            read_only: false,
            repair: false,
            discard: false,
            cleaner: CleanerPolicy::CostBenefit,
            open_segments: 1,
        }
    }
}

impl MountOptions {
    /// Most segments of a stream that are open at once: a checkpoint lists them all.
    pub const OPEN_SEGMENTS_MAX: u32 = 32;

    /// Blocks in memory.
    pub(crate) fn frames(&self) -> usize {
        self.memory_bytes.max(MEMORY_BYTES_MIN) / BLOCK_BYTES
    }
}
