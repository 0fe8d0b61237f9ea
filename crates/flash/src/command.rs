//! Commands of a host, and completions of a drive.
//!
//! The commands of the block command set are in [`Opcode`] itself, because every other set shares some of them. Commands of only one set
//! form a separate enum beside that set's other types, with one variant here. A namespace executes the commands of its interface and
//! refuses others with [`Status::InvalidOpcode`]:
//!
//! | opcode | block, fdp | zoned | open-channel | cache | nameless |
//! |---|---|---|---|---|---|
//! | `Read`, `Flush` | yes | yes | yes, also as a vector | yes | yes |
//! | `Write` | yes | yes | yes, also as a vector | no | yes |
//! | `Trim`, `WriteZeroes` | yes | no | no | no | yes |
//! | `Report` | of handles | yes | yes | no | of names |
//! | `NextUnit` | yes, with handles | no | no | no | no |
//! | [`ZoneOp`] | no | yes | no | no | no |
//! | [`ChunkOp`] | no | no | yes, also as a vector | no | no |
//! | [`CacheOp`] | no | no | no | yes ([what they promise](crate::CacheGeometry)) | no |
//! | [`NamelessOp`] | no | no | no | no | yes ([what they promise](crate::NamelessGeometry)) |

use crate::{CacheOp, ChunkOp, Lba, NamelessOp, SimTime, ZoneOp};

/// The caller's name for a command; comes back unchanged with the completion.
pub type Tag = u64;

/// Operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// Read sectors into `data`.
    Read,
    /// Write the sectors of `data`.
    Write,
    /// Make every write acknowledged before this command durable.
    Flush,
    /// Discard sectors: they read as zeros (deterministic) until written again.
    Trim,
    /// Write zeros without transferring them.
    WriteZeroes,
    /// Describe `sectors` chunks or zones from the one that holds `lba` on: the completion's `data` are packed
    /// [`ChunkInfo`](crate::ChunkInfo) or [`ZoneInfo`](crate::ZoneInfo). Where there are placement handles, `lba` is the first
    /// handle and `sectors` the number of packed [`HandleInfo`](crate::HandleInfo). Of a nameless namespace: what each of `sectors`
    /// names from `lba` on is called now, as 8 bytes, little endian. Costs the media nothing.
    Report,
    /// Let the placement handle [`Command::handle`] refer to a new reclaim unit; the rest of the old one stays unwritten.
    NextUnit,
    /// Command of zoned namespaces alone.
    Zone(ZoneOp),
    /// Command of open-channel namespaces alone.
    Chunk(ChunkOp),
    /// Command of caches alone.
    Cache(CacheOp),
    /// Command of nameless namespaces alone.
    Nameless(NamelessOp),
}

// It travels with every command and every completion.
const _: () = assert!(size_of::<Opcode>() == 2);

/// Effect of a command on the data of its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It brings data to the host.
    Reads,
    /// It brings data, which need space, to the media.
    Writes,
    /// It releases data, or changes the state of the area that holds them.
    Erases,
    /// It returns information to the host without changing anything.
    Asks,
    /// It changes the drive's state apart from data, or the durability of data.
    Manages,
}

impl Effect {
    /// Returns whether the command leaves everything as it is.
    #[inline]
    pub fn changes_nothing(self) -> bool {
        matches!(self, Effect::Reads | Effect::Asks)
    }
}

impl Opcode {
    /// Returns the effect of a command of this kind.
    #[inline]
    pub fn effect(self) -> Effect {
        match self {
            Opcode::Read => Effect::Reads,
            Opcode::Write => Effect::Writes,
            Opcode::Trim | Opcode::WriteZeroes => Effect::Erases,
            Opcode::Report => Effect::Asks,
            Opcode::Flush | Opcode::NextUnit => Effect::Manages,
            Opcode::Zone(operation) => operation.effect(),
            Opcode::Chunk(operation) => operation.effect(),
            Opcode::Cache(operation) => operation.effect(),
            Opcode::Nameless(operation) => operation.effect(),
        }
    }
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
    /// Operation.
    pub opcode: Opcode,
    /// Force unit access: a write completes only when it is on the media.
    pub fua: bool,
    /// First sector.
    pub lba: Lba,
    /// Number of sectors; 0 only for a flush.
    pub sectors: u32,
    /// Sector images, see above.
    pub data: Vec<u8>,
    /// The namespace it is for.
    pub namespace: u16,
    /// Placement handle of a write to an `fdp` namespace; 0 where there is only one.
    pub handle: u16,
    /// Fields of open-channel and nameless commands only.
    pub vector: Option<Box<Vector>>,
}

impl Command {
    /// A command for namespace 0 that is no vector command.
    pub fn new(tag: Tag, opcode: Opcode, lba: Lba, sectors: u32, data: Vec<u8>) -> Command {
        Command {
            tag,
            queue: 0,
            opcode,
            fua: false,
            lba,
            sectors,
            data,
            namespace: 0,
            handle: 0,
            vector: None,
        }
    }

    /// Its completion, for a command that is refused at `now`.
    pub fn refused(self, now: SimTime, status: Status) -> Completion {
        self.ended(status, now, now, crate::StageTimes::default())
    }

    /// Its completion, with its buffers and without a result. `stages` sum to `completed - submitted`.
    pub fn ended(
        self,
        status: Status,
        submitted: SimTime,
        completed: SimTime,
        stages: crate::StageTimes,
    ) -> Completion {
        Completion {
            tag: self.tag,
            opcode: self.opcode,
            status,
            submitted,
            completed,
            stages,
            data: self.data,
            result: 0,
            unmapped: 0,
            vector: self.vector,
        }
    }
}

/// The addresses and the out-of-band data of an open-channel command (Open-Channel SSD 2.0, vector commands).
///
/// With `addresses`, [`Command::lba`] is not used and [`Command::sectors`] is their number, at most
/// [`Vector::ADDRESSES_MAX`]. Without, the command is a scalar one that carries metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vector {
    /// One address for each sector (`Reset`: for each chunk).
    pub addresses: Vec<Lba>,
    /// `Copy`: where each sector goes.
    pub destinations: Vec<Lba>,
    /// Out-of-band data, [`Vector::METADATA_BYTES`] for each sector: given with a write, filled by a read, empty if not wanted.
    pub metadata: Vec<u8>,
}

impl Vector {
    /// Addresses that one command can name.
    pub const ADDRESSES_MAX: usize = 64;
    /// Out-of-band bytes of one sector.
    pub const METADATA_BYTES: usize = 16;
}

/// How a command ended. This is data for the host, not an error of ours.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
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
    /// The namespace's interface has no such command.
    InvalidOpcode,
    /// Zoned: the command runs over the end of the zone (NVMe ZNS, 1B8h).
    ZoneBoundary,
    /// Zoned: the zone is full (1B9h).
    ZoneFull,
    /// Zoned: the zone is read-only (1BAh).
    ZoneReadOnly,
    /// Zoned: the zone is offline (1BBh).
    ZoneOffline,
    /// Zoned: the write does not begin at the write pointer (1BCh).
    ZoneInvalidWrite,
    /// Zoned: the command would make too many zones active (1BDh).
    TooManyActiveZones,
    /// Zoned: the command would make too many zones open (1BEh).
    TooManyOpenZones,
    /// Zoned: the zone cannot go from its state to the wanted one (1BFh).
    ZoneInvalidTransition,
    /// Open-channel: write to a chunk that is closed, offline or out of range (280h).
    ChunkWriteInvalid,
    /// Open-channel, with DULBE: the read contains an unwritten sector (287h). Nameless: the name does not exist.
    Unwritten,
    /// Open-channel: the chunk is offline (2C0h).
    ChunkOffline,
    /// Open-channel: the chunk's state does not allow a reset (2C1h).
    ChunkInvalidReset,
    /// Open-channel: the data were corrected with high effort (2D0h). They are good.
    HighEcc,
    /// Open-channel: the write failed; writing continues in the next write unit (2F0h).
    ChunkWriteFailed,
    /// Open-channel: the chunk was closed before its end (2F1h).
    ChunkClosedEarly,
    /// Open-channel: the write does not begin at the write pointer, or its length is not a multiple of `ws_min` (2F2h).
    ChunkOutOfOrder,
    /// Cache: a block of the read is not cached. This is no error: no data were transferred, and `result` is the first absent block,
    /// counted from the first block of the command.
    Absent,
    /// Cache: eviction of clean blocks can free no space; the host must clean dirty blocks first. Nothing was written.
    CacheFull,
    /// Nameless: no further sector can get a name; the host must free names or acknowledge moves first. Nothing was written.
    CapacityExceeded,
}

impl Status {
    /// The name used in logs.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The caller's name for the command.
    pub tag: Tag,
    /// Operation of the command.
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
    /// [`ZoneOp::Append`]: the first sector written. [`NamelessOp::Write`]: the first name. A vector command: bit i is set where address i failed.
    /// [`CacheOp`], and a read that ends with [`Status::Absent`]: see there. Else 0.
    pub result: u64,
    /// Sectors of a read of logical blocks that have no place on the media: never written, or trimmed. They read as zeros, and no
    /// flash operation serves them. Else 0.
    pub unmapped: u32,
    /// The command's vector, its metadata filled by a read.
    pub vector: Option<Box<Vector>>,
}

impl Completion {
    /// Takes the completion with its buffers, leaving one without buffers.
    pub fn take(&mut self) -> Completion {
        let (data, vector) = (std::mem::take(&mut self.data), self.vector.take());
        Completion { data, vector, ..self.clone() }
    }
}

/// Copies sector images. Most often it is one stamp, for which a call would cost more than the copy.
///
/// # Panics
/// When the lengths differ.
#[inline]
pub fn copy_images(to: &mut [u8], from: &[u8]) {
    match (<&mut [u8; 4]>::try_from(&mut *to), <&[u8; 4]>::try_from(from)) {
        (Ok(to), Ok(from)) => *to = *from,
        _ => to.copy_from_slice(from),
    }
}

/// Appends sector images; as [`copy_images`].
#[inline]
pub fn append_images(to: &mut Vec<u8>, from: &[u8]) {
    match <&[u8; 4]>::try_from(from) {
        Ok(stamp) => to.extend_from_slice(stamp),
        Err(_) => to.extend_from_slice(from),
    }
}
