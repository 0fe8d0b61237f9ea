//! The medium below a file system, which provides its segments.
//!
//! | | block drive or file | Prism's function level |
//! |---|---|---|
//! | segment | at a multiple of its size | a flash block, which the library hands out ([`Job::Allocate`](crate::Job)) |
//! | open segments | one for new data, one for GC copies of the cleaner, or more by choice | the same in every channel; the channel with the shortest queue is written next |
//! | batch | what fits; at most [`BATCH_BLOCKS`] where more are open | whole flash pages, and no more than [`BATCH_BLOCKS`], so that a commit uses all channels |
//! | checkpoint | two pairs of places, written in turn | appended to flash blocks of their own |
//! | segment without contents | overwritten; optionally discarded | given back (`Flash_Trim`) once a checkpoint that needs nothing in it is durable; erased in the background |
//! | mount | reads the reserve that the checkpoint lists | reads the blocks of the reserve that the library found |
//!
//! On a drive of nameless writes the log lies in the virtual address space, as on a block drive. It has no data blocks, which the drive places itself
//! (`names/mod.rs`).

use crate::types::BLOCK_BYTES;

/// Maximum blocks of a batch, header included, if several segments are open.
pub(crate) const BATCH_BLOCKS: u32 = 32;

/// Medium below a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// Blocks that can be overwritten: a block drive, or a file.
    #[default]
    Block,
    /// Flash blocks of Prism's function level.
    Function(FlashShape),
    /// Named data, and virtual blocks for the log.
    Nameless(NamesShape),
}

/// A nameless namespace, in blocks of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamesShape {
    /// Upper bound of names.
    pub names: u64,
    /// Maximum number of named blocks.
    pub capacity: u64,
}

/// Flash as Prism's function level presents it, in blocks of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashShape {
    /// Channels.
    pub channels: u32,
    /// Flash blocks of each channel.
    pub flash_blocks_each: u32,
    /// Blocks of 4 KiB in a flash block: whole pages.
    pub segment_blocks: u32,
    /// Blocks of 4 KiB in a page; 1 if a page is no larger.
    pub page_blocks: u32,
}

impl FlashShape {
    /// The shape of flash with blocks and pages of these sizes in bytes.
    ///
    /// The error is a sentence.
    pub fn new(
        channels: u32,
        flash_blocks_each: u32,
        block_bytes: u64,
        page_bytes: u32,
    ) -> Result<FlashShape, String> {
        let block = BLOCK_BYTES as u32;
        if page_bytes == 0 || (!page_bytes.is_multiple_of(block) && !block.is_multiple_of(page_bytes)) {
            return Err(format!("pages of {page_bytes} bytes do not fit to blocks of {block} bytes"));
        }
        let page_blocks = (page_bytes / block).max(1);
        let whole = u32::try_from(block_bytes / u64::from(block)).unwrap_or(u32::MAX);
        let segment_blocks = whole / page_blocks * page_blocks;
        Ok(FlashShape { channels, flash_blocks_each, segment_blocks, page_blocks })
    }

    /// Flash blocks in all.
    pub const fn flash_blocks(&self) -> u32 {
        self.channels * self.flash_blocks_each
    }
}

/// A flash block that held data at the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundSegment {
    /// Its number.
    pub segment: u32,
    /// Content of the segment; `None`: unknown.
    pub content: Option<Content>,
    /// Number of written blocks of 4 KiB; the last one may be torn.
    pub blocks: u32,
}

/// Content of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Batches of the log.
    Log = 1,
    /// Checkpoints; on a block drive the superblock, too.
    Checkpoint = 2,
}

impl Content {
    /// Mark stored with the data on flash.
    pub const fn mark(self) -> u32 {
        self as u32
    }

    /// The content with this mark.
    pub fn of(mark: u32) -> Option<Content> {
        [Content::Log, Content::Checkpoint].into_iter().find(|content| content.mark() == mark)
    }
}

impl Backend {
    /// Code in the superblock.
    pub(crate) fn kind(&self) -> u32 {
        match self {
            Backend::Block => 0,
            Backend::Function(_) => 1,
            Backend::Nameless(_) => 2,
        }
    }

    pub(crate) fn is_flash(&self) -> bool {
        matches!(self, Backend::Function(_))
    }

    /// Shape of the names, if data have names.
    pub(crate) fn names(&self) -> Option<NamesShape> {
        match self {
            Backend::Nameless(shape) => Some(*shape),
            _ => None,
        }
    }

    /// Blocks that are written together.
    pub(crate) fn page_blocks(&self) -> u32 {
        match self {
            Backend::Block | Backend::Nameless(_) => 1,
            Backend::Function(shape) => shape.page_blocks,
        }
    }

    /// Maximum blocks of a batch.
    pub(crate) fn batch_blocks(&self) -> u32 {
        match self {
            Backend::Block | Backend::Nameless(_) => u32::MAX,
            Backend::Function(shape) => BATCH_BLOCKS.next_multiple_of(shape.page_blocks),
        }
    }
}
