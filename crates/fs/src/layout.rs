//! Layout: positions of superblock, checkpoints, sync record and segments on a drive.
//!
//! ```text
//!   block 0      superblock
//!   then         places for two checkpoints, written alternately, with two copies each
//!   then         the sync record (`record.rs`)
//!   between      segments (`space.rs`)
//!   last block   copy of the superblock
//! ```
//! On flash (`backend.rs`) there are only segments; some of them hold checkpoints.

use crate::backend::{BATCH_BLOCKS, Backend, FlashShape, NamesShape};
use crate::options::MountOptions;
use crate::types::BLOCK_BYTES;

/// Maximum number of segments that a mount may have to read.
pub(crate) const RESERVE_MAX: usize = 128;
/// A stream keeps a segment open per channel if a channel has this many segments for each.
const SEGMENTS_A_LANE: u32 = 16;
/// Bytes of a checkpoint before its tables.
pub(crate) const CHECKPOINT_HEADER: usize = 256;
/// Bytes per segment in a checkpoint's table, and per entry of its reserve.
pub(crate) const USAGE_BYTES: usize = 12;
pub(crate) const RESERVE_BYTES: usize = 8;
/// Maximum number of segments, so that a checkpoint's table stays small.
pub(crate) const SEGMENTS_MAX: u64 = 1 << 16;
/// Minimum number of segments.
pub(crate) const SEGMENTS_MIN: u64 = 24;
/// Minimum blocks of a segment: in smaller ones headers take so much that cleaning gains nothing.
pub(crate) const SEGMENT_BLOCKS_MIN: u32 = 16;
pub(crate) const SEGMENT_BLOCKS: u32 = 256;
/// Copies of a checkpoint.
pub(crate) const COPIES: u64 = 2;
/// Copies of two checkpoints.
const PLACES: u64 = 2 * COPIES;

/// Layout of a file system on its drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub backend: Backend,
    pub blocks: u64,
    pub segment_blocks: u32,
    pub segments: u32,
    /// Segments that were usable at format time; the others are broken.
    pub capacity: u32,
    /// Blocks per copy of a checkpoint.
    pub place_blocks: u32,
    /// First block of the first segment.
    pub start: u64,
    /// True if the last block has a copy of the superblock: not on flash, and not in version 2.
    pub has_copy: bool,
    /// Open segments of each stream on a block drive; an option of the mount, not of the format.
    open: u32,
}

impl Layout {
    /// The layout of a new file system on this many blocks.
    pub fn new(blocks: u64, segment_blocks: u32) -> Layout {
        Layout::on_blocks(blocks, segment_blocks, true)
    }

    /// The layout on this many blocks, with or without a copy of the superblock.
    pub fn on_blocks(blocks: u64, segment_blocks: u32, has_copy: bool) -> Layout {
        let each = u64::from(segment_blocks);
        let most = (blocks / each).min(SEGMENTS_MAX);
        let table = CHECKPOINT_HEADER + most as usize * USAGE_BYTES + (RESERVE_MAX + 2) * RESERVE_BYTES;
        let place_blocks = table.div_ceil(BLOCK_BYTES) as u32;
        let record = 1 + PLACES * u64::from(place_blocks);
        let start = (record + 1).div_ceil(each) * each;
        let last = blocks.saturating_sub(u64::from(has_copy));
        let segments = (last.saturating_sub(start) / each).min(SEGMENTS_MAX) as u32;
        let (backend, capacity) = (Backend::Block, segments);
        Layout { backend, blocks, segment_blocks, segments, capacity, place_blocks, start, has_copy, open: 1 }
    }

    /// Sets the number of open segments of each stream. Flash always has one per channel.
    pub fn with_open(self, open: u32) -> Layout {
        Layout { open: open.clamp(1, MountOptions::OPEN_SEGMENTS_MAX), ..self }
    }

    /// Treats the blocks as virtual ones, beside names.
    pub fn with_names(self, shape: NamesShape) -> Layout {
        Layout { backend: Backend::Nameless(shape), ..self }
    }

    /// The blocks with the superblock; on flash it precedes each copy of a checkpoint instead.
    pub fn superblocks(&self) -> impl Iterator<Item = u64> + use<> {
        let copy = self.has_copy.then(|| self.blocks - 1);
        (!self.backend.is_flash()).then_some(0).into_iter().chain(copy)
    }

    /// Reports whether an address is a name: names follow the virtual blocks.
    pub fn is_name(&self, address: u64) -> bool {
        address >= self.blocks && self.backend.names().is_some()
    }

    /// The name at an address.
    pub fn name_of(&self, address: u64) -> u64 {
        address - self.blocks
    }

    /// Address of a name.
    pub fn address_of(&self, name: u64) -> u64 {
        self.blocks + name
    }

    /// The layout on flash, of which `capacity` flash blocks are usable.
    pub fn on_flash(shape: FlashShape, capacity: u32) -> Layout {
        let segments = shape.flash_blocks();
        let heads = RESERVE_MAX + 2 * shape.channels as usize;
        let table = CHECKPOINT_HEADER + segments as usize * USAGE_BYTES + heads * RESERVE_BYTES;
        let place_blocks = 1 + table.div_ceil(BLOCK_BYTES) as u32;
        Layout {
            backend: Backend::Function(shape),
            blocks: u64::from(segments) * u64::from(shape.segment_blocks),
            segment_blocks: shape.segment_blocks,
            segments,
            capacity,
            place_blocks: place_blocks.next_multiple_of(shape.page_blocks),
            // Block addresses must not be 0.
            start: shape.segment_blocks.into(),
            has_copy: false,
            open: 1,
        }
    }

    /// Blocks of a picture, including the superblock before it on flash.
    pub fn picture_blocks(&self) -> u32 {
        self.place_blocks - u32::from(self.backend.is_flash())
    }

    /// Open segments of each stream.
    pub fn lanes(&self) -> u32 {
        match self.backend {
            Backend::Block | Backend::Nameless(_) => {
                self.open.min(self.capacity / (2 * SEGMENTS_A_LANE)).max(1)
            }
            Backend::Function(shape) => shape.channels.min(self.capacity / (2 * SEGMENTS_A_LANE)).max(1),
        }
    }

    pub fn channels(&self) -> u32 {
        match self.backend {
            Backend::Block | Backend::Nameless(_) => 1,
            Backend::Function(shape) => shape.channels,
        }
    }

    pub fn channel_of(&self, segment: u32) -> usize {
        match self.backend {
            Backend::Block | Backend::Nameless(_) => 0,
            Backend::Function(shape) => (segment / shape.flash_blocks_each) as usize,
        }
    }

    /// Blocks that a batch of this many takes, padding included.
    pub fn padded(&self, blocks: u32) -> u32 {
        blocks.next_multiple_of(self.backend.page_blocks())
    }

    /// Address of a copy of a checkpoint. The two copies are separated.
    pub fn place(&self, number: u64, copy: u64) -> u64 {
        1 + (number % 2 + 2 * copy) * u64::from(self.place_blocks)
    }

    /// Blocks of all copies of a checkpoint on flash, where the copies are contiguous.
    pub fn places_blocks(&self) -> u32 {
        COPIES as u32 * self.place_blocks
    }

    /// Position of the sync record; flash has none.
    pub fn record(&self) -> Option<u64> {
        (!self.backend.is_flash()).then(|| 1 + PLACES * u64::from(self.place_blocks))
    }

    pub fn address(&self, segment: u32, block: u32) -> u64 {
        self.start + u64::from(segment) * u64::from(self.segment_blocks) + u64::from(block)
    }

    pub fn segment_of(&self, address: u64) -> u32 {
        ((address - self.start) / u64::from(self.segment_blocks)) as u32
    }

    /// Segments not available to files, which the cleaner and checkpoints need.
    pub fn spare(&self) -> u32 {
        // Headers take more of small segments, and cleaning one gains less.
        let spare = (self.capacity / 16).max(10 + 64 / self.segment_blocks);
        match self.backend {
            Backend::Block | Backend::Nameless(_) => spare + 2 * (self.lanes() - 1),
            // Open segments, and that of checkpoints.
            Backend::Function(_) => spare + 2 * self.lanes() + 2,
        }
    }

    /// Blocks reserved for the cleaner, so that it cleans several segments per checkpoint, which frees them. A checkpoint lists at
    /// most [`RESERVE_MAX`] segments to write to next, most of which are for other data.
    pub fn for_cleaner(&self) -> u64 {
        let segments = (self.capacity / 64).clamp(3, RESERVE_MAX as u32 / 4);
        u64::from(segments) * u64::from(self.segment_blocks)
    }

    /// Maximum blocks of a batch, headers included, unless the segment ends it earlier.
    pub fn batch_blocks(&self) -> u32 {
        self.segment_blocks.min(100).min(self.batch_most())
    }

    /// Maximum blocks of a batch for any segment.
    pub fn batch_most(&self) -> u32 {
        match self.backend {
            // A commit is spread over the open segments.
            Backend::Block | Backend::Nameless(_) if self.lanes() > 1 => BATCH_BLOCKS,
            backend => backend.batch_blocks(),
        }
    }

    /// Maximum number of segments that a checkpoint lists besides the open ones.
    pub fn reserve_most(&self) -> usize {
        match self.backend {
            // The table has space for these and one open segment of each stream.
            Backend::Block | Backend::Nameless(_) => RESERVE_MAX - 2 * (self.lanes() as usize - 1),
            Backend::Function(_) => RESERVE_MAX,
        }
    }

    /// Blocks available to files and their metadata. Headers and their copies take two blocks in a hundred, or per batch, and at least two per
    /// segment; on flash the end of a commit is padded to a page.
    pub fn usable(&self) -> u64 {
        let each = self.segment_blocks
            - 2 * self.segment_blocks.div_ceil(self.batch_blocks())
            - self.backend.page_blocks();
        u64::from(self.capacity - self.spare()) * u64::from(each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cleaner's reserve must be among the segments that a checkpoint lists, or a large file system would wait for it for ever.
    #[test]
    fn the_cleaner_leaves_space_to_others_however_large_the_volume() {
        for blocks in (12..38).map(|bits| 1_u64 << bits) {
            let layout = Layout::new(blocks, 256);
            let listed = RESERVE_MAX as u64 * u64::from(layout.segment_blocks);
            assert!(layout.for_cleaner() <= listed / 2, "{blocks} blocks");
        }
    }
}
