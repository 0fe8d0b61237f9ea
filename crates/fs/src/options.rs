//! Mount options.

use crate::types::BLOCK_BYTES;

/// Minimum memory.
const MEMORY_BYTES_MIN: usize = 256 << 10;

/// Rule by which the cleaner chooses a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CleanerPolicy {
    /// The segment whose cleaning frees most for longest: by its live blocks and its age.
    #[default]
    CostBenefit,
    /// The segment with the fewest live blocks.
    Greedy,
}

/// Mount options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Memory for nodes and data, including dirty ones.
    pub memory_bytes: usize,
    /// True if nothing may be written.
    pub read_only: bool,
    /// True to accept changes although durable data are damaged; what remains becomes the state.
    pub repair: bool,
    /// True to discard free segments.
    pub discard: bool,
    /// Policy of the cleaner.
    pub cleaner: CleanerPolicy,
    /// Segments open at once for new data, and as many for GC copies; on flash always one per channel. At most [`MountOptions::OPEN_SEGMENTS_MAX`].
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
    /// Maximum open segments of a stream: a checkpoint lists them all.
    pub const OPEN_SEGMENTS_MAX: u32 = 32;

    /// Memory in blocks.
    pub(crate) fn frames(&self) -> usize {
        self.memory_bytes.max(MEMORY_BYTES_MIN) / BLOCK_BYTES
    }
}
