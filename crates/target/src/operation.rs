//! Operations of hosts, and the namespaces that they address.

use pellucid_flash::{Interface, Lba, Opcode, Vector};

/// Prefix of a drive's qualified name over NVMe; the drive's name follows. Names of targets are limited so
/// that theirs fit too.
pub const NQN_PREFIX: &str = "nqn.2026-01.org.pellucid:";

/// A command of a host, like [`pellucid_flash::Command`] without its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Submission queue of the drive, taken modulo the drive's number of queues.
    pub queue: u16,
    /// Opcode of the command.
    pub opcode: Opcode,
    /// Force unit access.
    pub fua: bool,
    /// First sector.
    pub lba: Lba,
    /// Number of sectors; 0 only for a flush.
    pub sectors: u32,
    /// Data of a write, or the buffer of a read (from [`Port::take_buffer`](crate::session::Port::take_buffer)), of `sectors * sector_bytes`
    /// bytes; else empty.
    pub data: Vec<u8>,
    /// Placement handle of a write, if the namespace has several.
    pub handle: u16,
    /// Addresses of an open-channel vector command.
    pub vector: Option<Box<Vector>>,
}

impl Operation {
    /// Creates an operation in queue 0 that is neither forced nor placed.
    pub fn new(opcode: Opcode, lba: Lba, sectors: u32, data: Vec<u8>) -> Operation {
        Operation { queue: 0, opcode, fua: false, lba, sectors, data, handle: 0, vector: None }
    }

    /// Creates a flush.
    pub fn flush() -> Operation {
        Operation::new(Opcode::Flush, Lba(0), 0, Vec::new())
    }
}

/// Data that a namespace keeps when its drive loses power, which determines the cache announced to hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Every acknowledged write, and every discard before a flush: there is no volatile cache.
    Acknowledged,
    /// Data that were flushed or forced: there is a volatile cache.
    Flushed,
    /// No data are guaranteed: a flush has no target.
    Nothing,
}

impl Keeps {
    /// Returns true if a write may be acknowledged before it is durable, so that it needs a flush.
    #[inline]
    pub fn has_cache(self) -> bool {
        self == Keeps::Flushed
    }

    /// Name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Keeps::Acknowledged => "acknowledged",
            Keeps::Flushed => "flushed",
            Keeps::Nothing => "nothing",
        }
    }
}

/// Constant properties of a namespace while it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Name of the namespace, and of its NBD export.
    pub name: String,
    /// Index of its drive in the server.
    pub drive: usize,
    /// Number among the namespaces of that drive.
    pub number: u16,
    /// Interface of the namespace.
    pub interface: Interface,
    /// Number of host sectors; for chunks, of the sparse address space.
    pub sectors: u64,
    /// Bytes per host sector.
    pub sector_bytes: u32,
    /// Bytes of a mapping unit: aligned requests are the most efficient.
    pub unit_bytes: u32,
    /// Bytes of a superpage, which are programmed together.
    pub superpage_bytes: u32,
    /// Data kept across a power cut.
    pub keeps: Keeps,
    /// Name of the target on some of the drive's parallel units, if it is one.
    pub target: Option<String>,
    /// The namespace does not exist yet, or no longer: no connection may begin to use it.
    pub gone: bool,
}

impl Namespace {
    /// Number of placement handles; 1 without placement.
    pub fn handles(&self) -> u16 {
        self.interface.handles()
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.sectors * u64::from(self.sector_bytes)
    }
}
