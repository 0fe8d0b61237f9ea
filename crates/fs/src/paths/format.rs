//! Formatting: the layout of a new file system, and its first state.

use super::booking;
use crate::backend::{Backend, FlashShape};
use crate::commits::Commits;
use crate::key::Inode;
use crate::layout::{Layout, SEGMENT_BLOCKS, SEGMENT_BLOCKS_MIN, SEGMENTS_MAX, SEGMENTS_MIN};
use crate::life::Life;
use crate::log::Log;
use crate::objects::Core;
use crate::options::MountOptions;
use crate::types::{BLOCK_BYTES, FileKind, Ino, Time};

/// Format options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// Medium below.
    pub backend: Backend,
    /// Blocks of the drive, 4 KiB each. On flash: those of the flash blocks that can be allocated.
    pub blocks: u64,
    /// Blocks of a segment; 0: 1 MiB, or more on a large drive. On flash a segment is a flash block.
    pub segment_blocks: u32,
    /// True if data blocks have checksums, too.
    pub data_checksums: bool,
    /// A unique number of the file system, such as a random one.
    pub id: u64,
}

impl FormatOptions {
    fn layout(&self) -> Result<Layout, String> {
        if let Backend::Function(shape) = self.backend {
            return self.layout_on_flash(shape);
        }
        let mut segment_blocks = self.segment_blocks;
        if segment_blocks == 0 {
            segment_blocks = SEGMENT_BLOCKS;
            while self.blocks / u64::from(segment_blocks) > SEGMENTS_MAX {
                let most = (SEGMENTS_MAX + 1) * u64::from(segment_blocks) - 1;
                let twice = segment_blocks.checked_mul(2);
                segment_blocks = twice.ok_or_else(|| {
                    format!("{} blocks of 4 KiB are too many; {most} is the most", self.blocks)
                })?;
            }
            while segment_blocks > 32 && self.blocks / u64::from(segment_blocks) < 4 * SEGMENTS_MIN {
                segment_blocks /= 2;
            }
        }
        if segment_blocks < SEGMENT_BLOCKS_MIN {
            return Err(format!(
                "segments of {segment_blocks} blocks are too small; {SEGMENT_BLOCKS_MIN} is the least"
            ));
        }
        let layout = Layout::new(self.blocks, segment_blocks);
        let layout = self.backend.names().map_or(layout, |shape| layout.with_names(shape));
        if u64::from(layout.segments) < SEGMENTS_MIN {
            let least = (SEGMENTS_MIN + 2) * u64::from(segment_blocks) * BLOCK_BYTES as u64;
            return Err(format!(
                "{} blocks of 4 KiB are too few for a file system with segments of {} KiB; {} KiB is the least",
                self.blocks,
                u64::from(segment_blocks) * 4,
                least / 1024
            ));
        }
        Ok(layout)
    }

    fn layout_on_flash(&self, shape: FlashShape) -> Result<Layout, String> {
        let FlashShape { segment_blocks, .. } = shape;
        if segment_blocks < SEGMENT_BLOCKS_MIN.max(4 * shape.page_blocks) {
            return Err(format!(
                "flash blocks of {} KiB are too small; {} KiB and four pages is the least",
                u64::from(segment_blocks) * 4,
                SEGMENT_BLOCKS_MIN * 4
            ));
        }
        if u64::from(shape.flash_blocks()) > SEGMENTS_MAX {
            let most = SEGMENTS_MAX;
            return Err(format!("{} flash blocks are too many; {most} is the most", shape.flash_blocks()));
        }
        let free = (self.blocks / u64::from(segment_blocks)) as u32;
        let layout = Layout::on_flash(shape, free.min(shape.flash_blocks()));
        if u64::from(layout.capacity) < SEGMENTS_MIN + u64::from(layout.spare()) {
            return Err(format!(
                "{free} flash blocks are too few for a file system; {} is the least",
                SEGMENTS_MIN + u64::from(layout.spare())
            ));
        }
        if layout.places_blocks() > segment_blocks {
            return Err(format!(
                "two copies of a checkpoint, of {} KiB in all, do not fit into a flash block of {} KiB",
                layout.places_blocks() * 4,
                u64::from(segment_blocks) * 4
            ));
        }
        Ok(layout)
    }
}

/// Creates a file system that is in use at once. It is on the drive when its first sync point is durable.
///
/// The error is a sentence.
pub(crate) fn format(now: Time, format: &FormatOptions, options: MountOptions) -> Result<Core, String> {
    let layout = format.layout()?.with_open(options.open_segments);
    let log = Log::new(format.id, format.data_checksums);
    let mut core = Core::new(Life::ready(options), layout, log);
    core.turn.at(now);
    let root = Inode {
        kind: FileKind::Directory,
        mode: 0o755,
        links: 2,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        blocks: 0,
        parent: Ino::ROOT,
        accessed: now,
        modified: now,
        changed: now,
        created: now,
    };
    core.names.owners.begin_use();
    core.catalog.put_inode(Ino::ROOT, &root);
    core.commits = Commits::of_format();
    core.checkpoints.want_superblocks(layout.superblocks());
    if layout.backend.is_flash() {
        core.space.set_elsewhere(layout.capacity);
    }
    if core.space.has_names() {
        core.names.moves.want_report();
    }
    core.space.refill();
    core.space.use_reserve();
    core.want_checkpoint();
    booking::book(&mut core);
    Ok(core)
}
