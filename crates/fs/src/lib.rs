//! A log-structured file system, without I/O.
//!
//! ```text
//!   operations ─► tree and pages in memory ─► commit ─► batches ─► log          a prefix of the operations is durable after a flush
//!                                        └─► checkpoint: nodes ─► log, then one of two places
//!   cleaner    ─► live blocks of a segment become dirty ─► commit               the segment is free after the next checkpoint
//! ```
//! **One tree** (`tree.rs`) holds all metadata: inodes, names, attributes, extents (`key.rs` lists them). **Operations are a log, the tree is its
//! checkpoint**: a commit writes data blocks and the keys that changed; a checkpoint writes the nodes that changed. A mount reads the newest
//! checkpoint and applies the commits behind it, in order, up to the first that was torn; one that was durable and is not whole is damage,
//! which is named. So:
//!
//! - A mount finds the state after some operation, no earlier than the newest [`SyncPoint`] that was reported as synced.
//! - A segment is rewritten only after a checkpoint that needs nothing in it.
//! - Space is promised when an operation is accepted: `ENOSPC` comes then or never.
//!
//! **Nothing waits.** An operation ends with [`Step::Done`], or with [`Step::Wait`] when blocks are missing in memory or space is missing.
//! `Wait` has changed nothing: the caller takes jobs ([`Fs::next_job`]), carries them out, reports ([`Fs::ended`]) and calls the same operation
//! again. An operation first touches all nodes that it will change and only then changes them, so there is nothing to undo. Time is an
//! argument. `Fs` is plain data: a clone forks its future.
//!
//! **Failures.** A failed write leaves a hole in the numbers of batches, which no mount passes. Its blocks stay in memory and are moved like
//! those of a victim; no sync is answered until a checkpoint holds them. A failed read is `EIO` for the file that owns the block. When the
//! drive takes no writes any more, the file system is read-only.
//!
//! | file | job |
//! |---|---|
//! | `types.rs`, `jobs.rs`, `finding.rs` | types of callers |
//! | `reads.rs` | reads |
//! | `names.rs`, `names/rename.rs`, `attributes.rs`, `file.rs`, `xattr.rs` | the operations |
//! | `extents.rs`, `space.rs` | blocks of a file; free and reserved space |
//! | `catalog.rs` | all metadata: the tree with what has changed since the last commit |
//! | `orphans.rs` | files of which something is still to be freed, and files that are held |
//! | `key.rs`, `node.rs`, `tree.rs`, `table.rs` | the tree |
//! | `pages.rs`, `block.rs` | data in memory |
//! | `backend.rs` | what it lies on: a block drive, the flash library, or nameless writes |
//! | `nameless/` | data that the drive places, and moves |
//! | `log.rs`, `batch.rs` | segments, and what is written to them |
//! | `format.rs`, `superblock.rs`, `commit.rs`, `checkpoint.rs`, `record.rs` | how it is made, and what makes it durable |
//! | `mount.rs`, `replay.rs` | what finds it again |
//! | `clean.rs` | the cleaner |
//! | `volume.rs` | jobs as commands of a drive, or calls of the flash library |
//! | `audit.rs` | a walk over all metadata that finds damage |

mod attributes;
mod audit;
mod backend;
mod batch;
mod block;
mod catalog;
mod checkpoint;
mod clean;
mod commit;
mod extents;
mod file;
mod finding;
mod format;
mod jobs;
mod key;
mod library;
mod log;
mod mount;
mod nameless;
mod names;
mod node;
mod orphans;
mod pages;
mod reads;
mod record;
mod replay;
mod space;
mod stop;
mod superblock;
mod table;
mod tree;
mod types;
mod volume;
mod xattr;

pub use audit::Audit;
pub use backend::{Backend, Content, FlashShape, FoundSegment, NamesShape};
pub use block::{Blocks, ReadData, WriteData};
pub use finding::Finding;
pub use format::FormatOptions;
pub use jobs::{Job, JobError, JobId};
pub use mount::{CleanerPolicy, MountOptions};
pub use types::*;
pub use volume::{BlockVolume, FlashVolume, JobAnswer, JobOutcome, NamelessVolume, Volume};

use batch::Identity;
use catalog::Catalog;
use checkpoint::Checkpointing;
use clean::Cleaner;
use commit::Commits;
use library::Library;
use log::Log;
use mount::Phase;
use nameless::Nameless;
use orphans::Orphans;
use pages::Pages;
use pellucid_flash::Pauses;
use reads::Reads;
use stop::Stop;

/// Steps of the background in one call.
const STEPS_MAX: u32 = 64;

/// Dirty data are written after this time.
const DIRTY_NS: u64 = 5_000_000_000;

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

/// A mounted file system. Clone it, with its drive, to fork its future.
#[derive(Clone, Debug)]
pub struct Fs {
    options: MountOptions,
    phase: Phase,
    file_system: u64,
    data_checksums: bool,
    now: Time,
    catalog: Catalog,
    pages: Pages,
    log: Log,
    reads: Reads,
    commits: Commits,
    checkpointing: Checkpointing,
    library: Library,
    nameless: Nameless,
    cleaner: Cleaner,
    /// An operation or a commit was done since memory was looked at.
    done: bool,
    /// Something went on in the background.
    progress: bool,
    next_id: u64,
    new_ino: Ino,
    /// Changing operations so far.
    changes: u64,
    /// Since when something is dirty.
    dirty_since: Option<Time>,
    orphans: Orphans,
    /// Damage that the mount found and that costs something, and damage that costs nothing.
    damage: Vec<Finding>,
    notes: Vec<Finding>,
    fresh: Vec<bool>,
    counters: FsCounters,
}

impl Fs {
    /// How it is.
    pub fn state(&self) -> FsState {
        self.phase.state()
    }

    /// Bytes of a segment.
    pub fn segment_bytes(&self) -> u64 {
        u64::from(self.log.layout.segment_blocks) * BLOCK_BYTES as u64
    }

    /// How full it is, and what it has in hand.
    pub fn view(&self) -> FsView {
        let bad = self.log.segments.iter().filter(|s| s.state == log::State::Bad).count();
        FsView {
            segment_blocks: self.log.layout.segment_blocks,
            segments: self.log.layout.segments,
            unused: self.log.unused() as u32,
            dead: self.log.dead().count() as u32,
            bad: bad as u32,
            data_blocks: self.catalog.allocated() + self.pages.delayed(),
            nodes: self.catalog.node_count(),
            levels: self.catalog.root().1,
            dirty_pages: self.pages.dirty(),
            dirty_nodes: self.catalog.dirty(),
            resident: self.pages.resident() + self.catalog.resident(),
            room: self.log.room(),
            freeing: self.orphans.count(),
            checkpoint: self.checkpointing.number,
            data_checksums: self.data_checksums,
        }
    }

    /// Damage that the mount has found in what was durable: a mount without repair is read-only then.
    pub fn damage(&self) -> &[Finding] {
        &self.damage
    }

    /// Damage that the mount has found and that costs nothing, and what a power cut may have torn.
    pub fn notes(&self) -> &[Finding] {
        &self.notes
    }

    /// Counters since the mount.
    pub fn counters(&self) -> FsCounters {
        self.counters
    }

    /// Begins an operation.
    fn begin(&mut self, now: Time) {
        self.now = now;
        self.trim();
    }

    /// Forgets what memory has no space for. Only after something was done: what an operation waits for stays until then.
    fn trim(&mut self) {
        let most = self.options.frames();
        if !std::mem::take(&mut self.done) {
            return;
        }
        if self.catalog.resident() + self.pages.resident() <= most {
            return;
        }
        let unwritten = self.log.written_through() + 1;
        let nodes = (most / 2).max(most.saturating_sub(self.pages.resident()));
        self.catalog.trim(nodes, unwritten);
        self.pages.trim(most.saturating_sub(self.catalog.resident()), unwritten);
    }

    /// Ends an operation: asks for what is missing.
    fn end<T>(&mut self, result: Result<T, Stop>) -> Result<Step<T>, Errno> {
        self.bury();
        let result = match self.phase {
            Phase::Mounting(_) => Err(Stop::Room),
            _ => result,
        };
        match result {
            Ok(value) => {
                self.done = true;
                Ok(Step::Done(value))
            }
            Err(Stop::Errno(errno)) => {
                self.done = true;
                Err(errno)
            }
            Err(Stop::Miss(miss)) => self.want_node(miss).map(|()| Step::Wait),
            Err(Stop::Data | Stop::Room) => Ok(Step::Wait),
        }
    }

    /// Books what an operation has changed: extents that came and went, copies of nodes that died.
    fn bury(&mut self) {
        if self.catalog.take_news() {
            self.dirty_since.get_or_insert(self.now);
        }
        while let Some(booking) = self.catalog.next_booking() {
            self.count_extent(booking);
        }
        while let Some(address) = self.catalog.next_freed() {
            self.log.sub_live(address, 1);
        }
        self.settle_owners();
    }

    fn writable(&self) -> Result<(), Stop> {
        match self.phase {
            Phase::Ready => Ok(()),
            Phase::Mounting(_) => Err(Stop::Room),
            _ => Err(Errno::ReadOnly.into()),
        }
    }

    fn identity(&self) -> Identity {
        Identity { file_system: self.file_system, epoch: self.log.epoch }
    }

    /// All changes so far: [`Fs::is_synced`] says when they are durable. Take jobs until then.
    pub fn sync(&mut self) -> SyncPoint {
        let point = SyncPoint(self.changes);
        self.commits.wanted(point.0);
        point
    }

    /// Returns whether everything before a point is durable. The error: it cannot be made so.
    pub fn is_synced(&self, point: SyncPoint) -> Result<bool, Errno> {
        match self.phase {
            _ if self.commits.is_durable(point.0) => Ok(true),
            Phase::Ready => Ok(false),
            _ => Err(Errno::Io),
        }
    }

    /// The next job, if there is one now.
    pub fn next_job(&mut self, now: Time) -> Option<Job> {
        self.now = now;
        self.trim();
        for _ in 0..STEPS_MAX {
            self.progress = false;
            self.work();
            self.bury();
            let job = self.job();
            if job.is_some() || !self.progress {
                return job;
            }
        }
        None
    }

    fn job(&mut self) -> Option<Job> {
        if let Some(job) = self.next_library_job().or_else(|| self.next_nameless_job()) {
            return Some(job);
        }
        if let Some((id, block, blocks)) = self.reads.next() {
            self.counters.read_blocks += u64::from(blocks);
            return Some(Job::Read { id: JobId(id), block, blocks });
        }
        self.next_write().or_else(|| self.next_flush()).or_else(|| self.next_poll())
    }

    /// A job ended: with the data that were read, without any, or with an error.
    pub fn ended(&mut self, now: Time, id: JobId, outcome: Result<Vec<u8>, JobError>) {
        self.now = now;
        if self.library.keeps == Some(id.0) {
            self.library.keeps = None;
        } else if self.reads.is_under_way(id.0) {
            self.read_ended(id.0, outcome);
        } else if self.nameless.is_asked(id.0) {
            // It was not carried out.
            self.polled(now, id);
            self.got_names(now, id, outcome.and(Err(JobError::Failed)));
        } else {
            self.write_ended(id.0, outcome);
        }
        self.bury();
    }

    /// When [`Fs::next_job`] should be called although nothing ended and nothing was asked.
    pub fn wants_time(&self) -> Option<Time> {
        match self.phase {
            Phase::Ready if self.has_background_work() => Some(self.now),
            Phase::Ready => self.dirty_since.map(|since| since.after(DIRTY_NS)),
            _ => None,
        }
    }

    /// Walks the invariants of what is in memory, and panics where one is broken.
    pub fn check(&self) {
        self.catalog.check();
        self.pages.check();
        for segment in &self.log.segments {
            assert!(segment.live <= segment.written, "what lives was written");
        }
    }
}
