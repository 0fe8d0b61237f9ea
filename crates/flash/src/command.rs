//! What a host asks of a block drive, and what the drive answers.

use crate::{Lba, SimTime};

/// The caller's name for a command; comes back unchanged with the completion.
pub type Tag = u64;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// Read sectors into `data`.
    Read,
    /// Write the sectors of `data`.
    Write,
    /// Make every write acknowledged before this command durable.
    Flush,
    /// Forget sectors: they read as zeros (deterministic) until written again.
    Trim,
    /// Write zeros without transferring them.
    WriteZeroes,
}

/// One command of a host.
///
/// `data` holds `sectors * image_bytes` bytes, where an *image* is what the drive keeps of a sector: all its bytes
/// with the `ram` and `file` stores, a 4-byte stamp with `none`. The buffer of a write is handed back with
/// the completion, so that a caller can pool it. The buffer of a read is filled; an empty one means "do not return the data".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The caller's name for it.
    pub tag: Tag,
    /// The submission queue it arrives in; must be below the number of queues of the drive.
    pub queue: u16,
    /// What to do.
    pub opcode: Opcode,
    /// Force unit access: a write completes only when it is on the media.
    pub fua: bool,
    /// First sector.
    pub lba: Lba,
    /// Number of sectors; 0 only for a flush.
    pub sectors: u32,
    /// Sector images, see above.
    pub data: Vec<u8>,
}

/// How a command ended. This is data for the host, not an error of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Done.
    Success,
    /// A sector lies beyond the end of the drive.
    LbaOutOfRange,
    /// A field of the command is not allowed (length 0, buffer of the wrong size, unknown queue).
    InvalidField,
    /// The media could not return the data after every retry.
    UnrecoveredRead,
    /// The drive ran out of good blocks and is read-only.
    ReadOnly,
    /// The data could not be written.
    WriteFault,
    /// Power was cut before the command completed.
    PowerLoss,
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The caller's name for the command.
    pub tag: Tag,
    /// What was asked.
    pub opcode: Opcode,
    /// How it ended.
    pub status: Status,
    /// When it was submitted.
    pub submitted: SimTime,
    /// When it completed.
    pub completed: SimTime,
    /// Where its time went: nanoseconds per [stage](crate::Stage); the sum is exactly `completed - submitted`. For a command
    /// cut into several slices this is the path of the slice that finished last.
    pub stages: crate::StageTimes,
    /// The command's buffer, filled for a successful read.
    pub data: Vec<u8>,
}
