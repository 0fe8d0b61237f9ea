//! Formatting: the layout of a new file system, and its first state.

use super::backend::{Backend, FlashShape};
use super::catalog::Catalog;
use super::checkpoint::Checkpointing;
use super::clean::Cleaner;
use super::commit::Commits;
use super::key::Inode;
use super::library::Library;
use super::log::{Layout, Log, SEGMENT_BLOCKS, SEGMENT_BLOCKS_MIN, SEGMENTS_MAX, SEGMENTS_MIN};
use super::mount::{MountOptions, Phase};
use super::nameless::Nameless;
use super::orphans::Orphans;
use super::pages::Pages;
use super::reads::Reads;
use super::types::{BLOCK_BYTES, FileKind, Ino, Time};
use super::{Fs, FsCounters};

/// How a file system is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// Medium below.
    pub backend: Backend,
    /// Blocks of the drive, 4 KiB each. On flash: of the flash blocks that can be handed out.
    pub blocks: u64,
    /// Blocks of a segment; 0: 1 MiB, or more on a large drive. On flash a segment is a flash block.
    pub segment_blocks: u32,
    /// Every data block has a checksum, too.
    pub data_checksums: bool,
    /// A number that no other file system has: a random one.
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
                segment_blocks *= 2;
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
        let layout = Layout { backend: self.backend, ..Layout::new(self.blocks, segment_blocks) };
        if u64::from(layout.segments) < SEGMENTS_MIN {
            let least = (SEGMENTS_MIN + 2) * u64::from(segment_blocks) * BLOCK_BYTES as u64;
            return Err(format!(
                "{} blocks of 4 KiB are too few for a file system with segments of {} KiB; {} KiB is the least",
                self.blocks,
                segment_blocks * 4,
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
                segment_blocks * 4,
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
                segment_blocks * 4
            ));
        }
        Ok(layout)
    }
}

impl Fs {
    pub(super) fn new(options: MountOptions, layout: Layout, phase: Phase) -> Fs {
        Fs {
            options,
            phase,
            file_system: 0,
            data_checksums: false,
            now: Time(0),
            catalog: Catalog::new(0),
            pages: Pages::default(),
            log: Log::new(layout),
            reads: Reads::default(),
            commits: Commits::default(),
            checkpointing: Checkpointing::default(),
            library: Library::default(),
            nameless: Nameless::default(),
            cleaner: Cleaner::default(),
            done: false,
            progress: false,
            next_id: 0,
            new_ino: Ino(2),
            changes: 0,
            dirty_since: None,
            orphans: Orphans::default(),
            damage: Vec::new(),
            notes: Vec::new(),
            fresh: Vec::new(),
            counters: FsCounters::default(),
        }
    }

    /// A new file system, in use at once. It is on the drive when its first sync point is durable.
    ///
    /// The error is a sentence.
    pub fn format(now: Time, format: &FormatOptions, options: MountOptions) -> Result<Fs, String> {
        let layout = format.layout()?;
        let mut fs = Fs::new(options, layout, Phase::Ready);
        (fs.now, fs.file_system, fs.data_checksums) = (now, format.id, format.data_checksums);
        fs.catalog = Catalog::new(format.id);
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
        fs.nameless.begin_use();
        fs.catalog.put_inode(Ino::ROOT, &root);
        fs.changes = 1;
        match layout.backend {
            Backend::Block | Backend::Nameless(_) => {
                fs.checkpointing.superblocks = layout.superblocks().collect();
            }
            Backend::Function(_) => fs.log.elsewhere = layout.capacity,
        }
        if layout.backend.names().is_some() {
            fs.nameless.reconcile();
        }
        fs.log.refill();
        fs.log.usable = fs.log.reserve.len();
        fs.commits.hole = true;
        fs.want_checkpoint();
        fs.bury();
        Ok(fs)
    }
}
