//! A log-structured file system, without I/O.
//!
//! ```text
//!   operations ─► tree and pages in memory ─► commit ─► batches ─► log          a prefix of the operations is durable after a flush
//!                                        └─► checkpoint: nodes ─► log, then one of two places
//!   cleaner    ─► live blocks of a segment become dirty ─► commit               the segment is free after the next checkpoint
//! ```
//! **One tree** (`tree.rs`) holds all metadata: inodes, names, attributes, extents (`key.rs` lists them). **Operations are a log, the tree is its
//! checkpoint**: a commit writes data blocks and the keys that changed; a checkpoint writes the nodes that changed. A mount reads the newest
//! checkpoint and applies the commits after it, in order, up to the first torn one. A commit that was durable and is not whole is damage, and is
//! reported. So:
//!
//! - A mount finds the state after some operation, no earlier than the newest [`SyncPoint`] that was reported as synced.
//! - A segment is rewritten only after a checkpoint that needs nothing in it.
//! - Space is reserved when an operation is accepted: `ENOSPC` is returned then or never.
//!
//! **Nothing blocks.** An operation returns [`Step::Done`], or [`Step::Wait`] if blocks are not in memory or space is missing. After `Wait`
//! nothing has changed: the caller takes jobs ([`Fs::next_job`]), carries them out, reports ([`Fs::answered`]) and calls the same operation
//! again. An operation first touches all nodes that it will change, and only then changes them, so there is nothing to undo. Time is an
//! argument. `Fs` is plain data: a clone forks its future.
//!
//! **Failures.** A failed write leaves a gap in the numbers of batches, at which a mount stops. Its blocks stay in memory and are moved like those of
//! a victim; no sync is answered until a checkpoint contains them. A failed read is `EIO` for the file that owns the block. When the drive refuses
//! writes, the file system becomes read-only.
//!
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | `Life` | phase, options of the mount | changes are accepted only while it is ready |
//! | `Turn` | time of the current call, ids of jobs, whether progress was made | job ids are unique |
//! | `Findings` | damage found by a mount | they only grow |
//! | `Catalog` | the tree with all metadata, keys changed since the last commit, count of blocks, number of the next file | each added or removed extent is booked once |
//! | `Pages` | data in memory, clean and dirty | a page that no extent counts is dirty, and a dirty one is listed |
//! | `Orphans` | files with something to free, held files | a held file is not removed |
//! | `Space` | segments with their live blocks, the reserve, open segments, queues of channels | a segment is written only if a durable checkpoint lists it |
//! | `Log` | identity, numbers of mount and batches, unwritten batches, blocks whose write failed | numbers have no gap |
//! | `Reads` | reads wanted and in flight, unreadable blocks | a block is requested once |
//! | `Writes` | batches for the drive, writes and the flush in flight | one flush at a time |
//! | `Commits` | number of changes, waiting syncs, commits that are not durable, the sync record | durable changes stay durable |
//! | `Checkpoints` | the current checkpoint, places of checkpoints and superblocks, segments to discard | only durable checkpoints free segments |
//! | `Cleaner` | the victim, blocks to move, blocks that an operation waits for | the next header of a victim is read after its blocks are moved |
//! | `Library` | requests to the flash library, flash blocks in use at the mount | one request of a kind at a time |
//! | `Names` | data placed by the drive: owners, pages being named, moves, ended names | a name has at most one owner |
//!
//! Only an object itself writes its fields; the values that describe the drive (`Layout`, [`MountOptions`]) never change. A method changes its own
//! object and returns the effects on others: the address of a batch, a durable checkpoint, an ended name. The `Core` holds the objects. *Paths*
//! (`paths/`) are functions over it that apply the returned effects: an operation, a commit, a step of the cleaner, the end of a job. [`Fs`] only
//! wires: each operation and each job is one path. A mount and an audit keep their progress (`Mounting`, [`Audit`]).
//!
//! A write passes `operations.rs`, `paths/file.rs`, `paths/room.rs`, `catalog.rs` and `pages.rs`; later `paths/commit.rs`, `paths/append.rs`, `space.rs`,
//! `writes.rs` and `paths/drive.rs`. A read that misses passes `paths/fetch.rs` and `reads.rs`.
//!
//! Files use only earlier files in this order: values (`types.rs`, `jobs.rs`, `key.rs`, `block.rs`, `layout.rs`), objects, `objects.rs`, paths,
//! [`Fs`], and above it `operations.rs` and `volume.rs`, which provide its operations and its drive.
//!
//! | file | job |
//! |---|---|
//! | `types.rs`, `jobs.rs`, `options.rs`, `view.rs`, `finding.rs` | types of callers |
//! | `key.rs`, `node.rs`, `tree.rs`, `table.rs`, `catalog.rs` | the tree |
//! | `block.rs`, `pages.rs` | data in memory |
//! | `backend.rs`, `layout.rs`, `superblock.rs`, `record.rs`, `picture.rs`, `batch.rs` | the medium, and what is written to it |
//! | `operations.rs`; `paths/directory.rs`, `rename.rs`, `attributes.rs`, `permissions.rs`, `file.rs`, `xattr.rs` | the operations |
//! | `paths/room.rs`, `freeing.rs` | space that an operation may take, and that it frees |
//! | `paths/format.rs`, `mount.rs`, `replay.rs`, `audit.rs` | making, mounting and checking a file system |
//! | `paths/append.rs`, `commit.rs`, `checkpoint.rs`, `clean.rs`, `background.rs` | making changes durable, and segments free |
//! | `names/`, `paths/naming.rs`, `paths/moves.rs` | data placed by the drive, and moves |
//! | `paths/fetch.rs`, `drive.rs`; `volume.rs` | jobs, and jobs as commands of a drive or calls of the flash library |

mod backend;
mod batch;
mod block;
mod catalog;
mod checkpoints;
mod cleaner;
mod commits;
mod finding;
mod jobs;
mod key;
mod layout;
mod library;
mod life;
mod log;
mod names;
mod node;
mod objects;
mod operations;
mod options;
mod orphans;
mod pages;
mod paths;
mod picture;
mod reads;
mod record;
mod space;
mod stop;
mod superblock;
mod table;
mod tree;
mod turn;
mod types;
mod view;
mod volume;
mod writes;

pub use backend::{Backend, Content, FlashShape, FoundSegment, NamesShape};
pub use block::{Blocks, ReadData, WriteData};
pub use finding::{Finding, Findings};
pub use jobs::{Job, JobAnswer, JobError, JobId, JobOutcome};
pub use options::{CleanerPolicy, MountOptions};
pub use paths::audit::Audit;
pub use paths::format::FormatOptions;
pub use types::*;
pub use view::{FsCounters, FsState, FsView};
pub use volume::{BlockVolume, FlashVolume, NamelessVolume, Volume};

use layout::{Layout, SEGMENT_BLOCKS};
use library::Library;
use life::Life;
use log::Log;
use objects::Core;
use paths::mount::Mounting;
use paths::{background, booking, call, drive, format, moves, naming};

/// Maximum background steps per call.
const STEPS_MAX: u32 = 64;

/// A mounted file system. Clone it, with its drive, to fork its future.
#[derive(Clone, Debug)]
pub struct Fs {
    core: Core,
    /// The mount in progress.
    mounting: Option<Box<Mounting>>,
}

/// Life of a file system: format or mount, inspection, unmount.
impl Fs {
    /// Creates a file system, in use at once. It is on the drive when its first sync point is durable.
    ///
    /// The error is a sentence.
    pub fn format(now: Time, format: &FormatOptions, options: MountOptions) -> Result<Fs, String> {
        Ok(Fs { core: format::format(now, format, options)?, mounting: None })
    }

    /// Mounts a drive of this many blocks. Operations wait until the mount is ready: take jobs.
    pub fn mount(now: Time, blocks: u64, options: MountOptions) -> Fs {
        Fs::mount_on(now, Layout::new(blocks.max(1), SEGMENT_BLOCKS), Mounting::new(blocks), options)
    }

    /// Mounts a drive of nameless writes with this many virtual blocks. Operations wait until the mount is ready: take jobs.
    pub fn mount_nameless(now: Time, blocks: u64, shape: NamesShape, options: MountOptions) -> Fs {
        let layout = Layout::new(blocks.max(1), SEGMENT_BLOCKS).with_names(shape);
        Fs::mount_on(now, layout, Mounting::new(blocks), options)
    }

    /// Mounts flash: the blocks in `found` hold data, and `left` more can be allocated. Operations wait until the mount is ready.
    pub fn mount_flash(
        now: Time,
        shape: FlashShape,
        found: &[FoundSegment],
        left: u32,
        options: MountOptions,
    ) -> Fs {
        let layout = Layout::on_flash(shape, shape.flash_blocks());
        let mut fs = Fs::mount_on(now, layout, Mounting::on_flash(&layout, found), options);
        fs.core.space.set_elsewhere(left + found.len() as u32);
        fs.core.library = Library::with(found);
        fs
    }

    fn mount_on(now: Time, layout: Layout, mounting: Mounting, options: MountOptions) -> Fs {
        let mut core = Core::new(Life::mounting(options), layout, Log::new(0, false));
        core.turn.at(now);
        Fs { core, mounting: Some(Box::new(mounting)) }
    }

    /// Refuses changes from now on, and makes everything durable. Take jobs until the state reports the end. Blocks still to be freed are freed after
    /// the next mount.
    pub fn unmount(&mut self) {
        self.mounting = None;
        if self.core.life.is_ready() {
            self.core.cleaner.stop();
            self.core.reads.forget_raw();
            self.core.want_checkpoint();
        }
        self.core.life.unmount();
    }

    /// State of the file system.
    pub fn state(&self) -> FsState {
        self.core.life.state()
    }

    /// Bytes of a segment.
    pub fn segment_bytes(&self) -> u64 {
        u64::from(self.core.space.layout().segment_blocks) * BLOCK_BYTES as u64
    }

    /// Fill level and work in progress.
    pub fn view(&self) -> FsView {
        let Core { catalog, pages, space, .. } = &self.core;
        let bad = space.segments().iter().filter(|s| s.state == space::State::Bad).count();
        FsView {
            segment_blocks: space.layout().segment_blocks,
            segments: space.layout().segments,
            unused: space.unused() as u32,
            dead: space.dead().count() as u32,
            bad: bad as u32,
            data_blocks: catalog.allocated() + pages.delayed(),
            nodes: catalog.node_count(),
            levels: catalog.root().1,
            dirty_pages: pages.dirty(),
            dirty_nodes: catalog.dirty(),
            resident: pages.resident() + catalog.resident(),
            room: space.room(),
            freeing: self.core.orphans.count(),
            checkpoint: self.core.checkpoints.number(),
            data_checksums: self.core.log.data_checksums(),
        }
    }

    /// Damage found by the mount. If durable data are affected, a mount without repair is read-only.
    pub fn findings(&self) -> &Findings {
        &self.core.findings
    }

    /// Counters since the mount.
    pub fn counters(&self) -> FsCounters {
        let Core { log, names, writes, cleaner, .. } = &self.core;
        let blocks = log.counts();
        FsCounters {
            data_blocks: blocks.data + names.naming.blocks(),
            moved_blocks: blocks.moved,
            node_blocks: blocks.nodes,
            record_blocks: blocks.records,
            commits: self.core.commits.count(),
            checkpoints: self.core.checkpoints.count(),
            cleaned: cleaner.count(),
            pauses: cleaner.pauses(),
            read_blocks: self.core.reads.blocks(),
            write_failures: writes.failures(),
            renamed_blocks: names.moves.count(),
        }
    }

    /// Checks the invariants of the state in memory, and panics if one is broken.
    pub fn check(&self) {
        self.core.catalog.check();
        self.core.pages.check();
        self.core.space.check();
    }
}

/// Jobs, and the durability that they provide.
impl Fs {
    /// Requests that all changes so far become durable; [`Fs::is_synced`] reports the end. Take jobs until then.
    pub fn sync(&mut self) -> SyncPoint {
        self.core.commits.sync()
    }

    /// Reports whether everything before a point is durable. The error means that it cannot become so.
    pub fn is_synced(&self, point: SyncPoint) -> Result<bool, Errno> {
        match self.core.commits.is_durable(point) {
            true => Ok(true),
            false if self.core.life.is_ready() => Ok(false),
            false => Err(Errno::Io),
        }
    }

    /// The next job, if there is one now.
    pub fn next_job(&mut self, now: Time) -> Option<Job> {
        self.core.turn.at(now);
        call::trim(&mut self.core);
        for _ in 0..STEPS_MAX {
            self.core.turn.take_progress();
            self.work();
            booking::book(&mut self.core);
            let job = drive::next_job(&mut self.core);
            if job.is_some() || !self.core.turn.take_progress() {
                return job;
            }
        }
        None
    }

    fn work(&mut self) {
        match self.mounting.take() {
            Some(mounting) => self.mounting = mounting.run(&mut self.core).map(Box::new),
            None => background::work(&mut self.core),
        }
    }

    /// Handles the end of a job: with data for a read, or an error.
    pub fn ended(&mut self, now: Time, id: JobId, outcome: Result<Vec<u8>, JobError>) {
        self.core.turn.at(now);
        drive::ended(&mut self.core, id.0, outcome);
        booking::book(&mut self.core);
    }

    /// Handles the answer to a job. Earlier moves of the drive are processed first.
    pub fn answered(&mut self, now: Time, answer: JobAnswer) {
        let JobAnswer { id, outcome, moves } = answer;
        self.core.turn.at(now);
        moves::got_moves(&mut self.core, &moves);
        match outcome {
            JobOutcome::Ended(outcome) => self.ended(now, id, outcome),
            JobOutcome::Allocated { segment, left } => drive::allocated(&mut self.core, id.0, segment, left),
            JobOutcome::Named(names) => naming::got_names(&mut self.core, id.0, names),
            JobOutcome::Moved => self.core.names.moves.polled(id.0),
        }
    }

    /// Time at which [`Fs::next_job`] should be called even if nothing ended and nothing was
    /// requested.
    pub fn wants_time(&self) -> Option<Time> {
        match self.core.life.is_ready() {
            true if background::has_work(&self.core) => Some(self.core.turn.now()),
            true => self.core.commits.due_at(),
            false => None,
        }
    }
}
