//! Jobs: requests of the file system to its drive.

use crate::backend::Content;
use crate::block::Blocks;

/// Identifier of a job in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u64);

/// A request to the drive. Jobs in flight may be executed in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Read blocks.
    Read {
        /// Identifier.
        id: JobId,
        /// First block on the drive.
        block: u64,
        /// Number of blocks.
        blocks: u32,
    },
    /// Write blocks. The data may stay in a volatile cache until the next flush.
    Write {
        /// Identifier.
        id: JobId,
        /// First block on the drive.
        block: u64,
        /// The blocks; on flash, whole pages.
        data: Blocks,
        /// Content of the job.
        content: Content,
    },
    /// Make every completed write durable.
    Flush {
        /// Identifier.
        id: JobId,
    },
    /// Discard all blocks of a segment, which are no longer needed. On a block drive this may be ignored; on flash it releases the flash
    /// block.
    Discard {
        /// Identifier.
        id: JobId,
        /// First block on the drive.
        block: u64,
        /// Number of blocks.
        blocks: u32,
    },
    /// Allocate a flash block in the channel that has most free ones; answered by [`JobOutcome::Allocated`]. Only on flash.
    Allocate {
        /// Identifier.
        id: JobId,
    },
    /// Write blocks wherever the drive chooses; answered by [`JobOutcome::Named`]. Only with names.
    NamelessWrite {
        /// Identifier.
        id: JobId,
        /// The blocks.
        data: Blocks,
    },
    /// Free these names. Only with names.
    Free {
        /// Identifier.
        id: JobId,
        /// The names of blocks.
        names: Vec<u64>,
    },
    /// Acknowledge moves: the new names are recorded. Only with names.
    Acknowledge {
        /// Identifier.
        id: JobId,
        /// The old names of blocks.
        names: Vec<u64>,
    },
    /// Ask for the present name of each name, if any; answered by [`JobOutcome::Named`]. Only with names.
    Names {
        /// Identifier.
        id: JobId,
    },
    /// Ends when the drive has moved data, or when nothing else is in flight; answered by [`JobOutcome::Moved`]. Only with names.
    Moves {
        /// Identifier.
        id: JobId,
    },
    /// The flash blocks that the file system keeps after a mount; all others may be erased. Only on flash.
    Keep {
        /// Identifier.
        id: JobId,
        /// Their numbers.
        segments: Vec<u32>,
    },
}

impl Job {
    /// Identifier of the job.
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

/// Reason why a job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobError {
    /// The drive could not execute it.
    Failed,
    /// The drive no longer accepts writes.
    ReadOnly,
}

/// Result of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// The job ended; a read has data.
    Ended(Result<Vec<u8>, JobError>),
    /// Answer to an allocation.
    Allocated {
        /// The allocated flash block, if there was one.
        segment: Option<u32>,
        /// Flash blocks still available.
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
    /// Identifier of the job.
    pub id: JobId,
    /// Result.
    pub outcome: JobOutcome,
    /// Old and new names of blocks that the drive had moved before.
    pub moves: Vec<(u64, u64)>,
}

impl JobAnswer {
    /// The answer to a job, without moves.
    pub fn new(id: JobId, outcome: JobOutcome) -> JobAnswer {
        JobAnswer { id, outcome, moves: Vec::new() }
    }
}
