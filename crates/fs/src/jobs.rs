//! Jobs: requests of the file system to its drive.

use crate::backend::Content;
use crate::block::Blocks;

/// Name of a job that has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u64);

/// Something that the drive shall do. Jobs that are out at the same time may be done in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Read blocks.
    Read {
        /// Its name.
        id: JobId,
        /// First block of the drive.
        block: u64,
        /// How many.
        blocks: u32,
    },
    /// Write blocks. The data may stay in a volatile cache until the next flush.
    Write {
        /// Its name.
        id: JobId,
        /// First block of the drive.
        block: u64,
        /// The blocks; on flash, whole pages.
        data: Blocks,
        /// Content of the job.
        content: Content,
    },
    /// Make every write that has ended durable.
    Flush {
        /// Its name.
        id: JobId,
    },
    /// Discard all blocks of a segment, which are no longer needed. On a block drive this may be ignored; on flash it releases the flash
    /// block.
    Discard {
        /// Its name.
        id: JobId,
        /// First block of the drive.
        block: u64,
        /// How many.
        blocks: u32,
    },
    /// Hand out a flash block of the channel that has most of them; the answer is [`JobOutcome::Allocated`]. On flash only.
    Allocate {
        /// Its name.
        id: JobId,
    },
    /// Write blocks wherever the drive likes; the answer is [`JobOutcome::Named`]. Names only.
    NamelessWrite {
        /// Its name.
        id: JobId,
        /// The blocks.
        data: Blocks,
    },
    /// The data of these names are no longer needed. Names only.
    Free {
        /// Its name.
        id: JobId,
        /// The names of blocks.
        names: Vec<u64>,
    },
    /// The new names of these are kept. Names only.
    Acknowledge {
        /// Its name.
        id: JobId,
        /// The old names of blocks.
        names: Vec<u64>,
    },
    /// Ask for the present name of each name, or that it leads nowhere; the answer is [`JobOutcome::Named`]. Names only.
    Names {
        /// Its name.
        id: JobId,
    },
    /// Ends when the drive has moved data, or when nothing else is in flight; the answer is [`JobOutcome::Moved`]. Names only.
    Moves {
        /// Its name.
        id: JobId,
    },
    /// The flash blocks that the file system goes on with after a mount; all others can be erased. On flash only.
    Keep {
        /// Its name.
        id: JobId,
        /// Their numbers.
        segments: Vec<u32>,
    },
}

impl Job {
    /// Its name.
    pub fn id(&self) -> JobId {
        match *self {
            Job::Read { id, .. }
            | Job::Write { id, .. }
            | Job::Flush { id }
            | Job::Discard { id, .. }
            | Job::Allocate { id }
            | Job::Keep { id, .. }
            | Job::NamelessWrite { id, .. }
            | Job::Free { id, .. }
            | Job::Acknowledge { id, .. }
            | Job::Names { id }
            | Job::Moves { id } => id,
        }
    }
}

/// Why a job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobError {
    /// The drive could not do it.
    Failed,
    /// The drive does not take writes any more.
    ReadOnly,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// With the data that were read.
    Ended(Result<Vec<u8>, JobError>),
    /// A flash block was handed out, if there was one, and this many are left.
    Allocated {
        /// Its number.
        segment: Option<u32>,
        /// Flash blocks that can be handed out.
        left: u32,
    },
    /// Names of the written blocks, or the current name of each.
    Named(Result<Vec<u64>, JobError>),
    /// The drive reported moves.
    Moved,
}

/// The answer to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobAnswer {
    /// The job's name.
    pub id: JobId,
    /// How it ended.
    pub outcome: JobOutcome,
    /// Old names and new ones of what the drive had moved before.
    pub moves: Vec<(u64, u64)>,
}

impl JobAnswer {
    /// The answer to a job, of a drive that has moved nothing.
    pub fn new(id: JobId, outcome: JobOutcome) -> JobAnswer {
        JobAnswer { id, outcome, moves: Vec::new() }
    }
}
