//! What the host's translation is told, and why it refuses.

use crate::CpuCosts;
use pellucid_ftl::{Durability, Separation, SetupError, Victim};

/// The host's translation layer over a range of parallel units of an open-channel namespace, and a range of the chunks of each.
#[derive(Clone, Debug, PartialEq)]
pub struct HostFtlConfig {
    /// Namespace of the drive.
    pub namespace: u16,
    /// First parallel unit, groups and units counted through.
    pub first_unit: u32,
    /// Parallel units; 0: all from the first on.
    pub units: u32,
    /// First chunk of each parallel unit.
    pub first_chunk: u32,
    /// Chunks of each parallel unit; 0: all from the first on.
    pub chunks: u32,
    /// Spare capacity as a share of the capacity offered, counted on what lines can hold.
    pub over_provisioning: f64,
    /// Capacity in bytes, instead of what over-provisioning yields.
    pub capacity_bytes: Option<u64>,
    /// Sectors of the write buffer, rounded up to a power of two; 0: two writes for every parallel unit, and
    /// what the drive holds back.
    pub buffer_sectors: u32,
    /// Best writes (`ws_opt`) of the drive that one write covers. 2 on a drive whose best write is a page: the two planes that
    /// pblk expects of a parallel unit.
    pub write_units: u32,
    /// Chunks of each parallel unit that replace bad ones.
    pub spare_chunks: u32,
    /// GC starts, and the application is slowed down, below this share of free lines.
    pub gc_share: f64,
    /// Victim choice among lines.
    pub victim: Victim,
    /// Which data share lines. pblk mixes what GC moves with what the application writes ([`Separation::Off`]); with
    /// [`Separation::GcCopies`] each has lines of its own.
    pub separation: Separation,
    /// What survives a crash beside written data: with the journal trims do, and mounting reads less.
    pub durability: Durability,
    /// How often the host tries a failed read again, after the drive has given up.
    pub read_retries: u32,
    /// The drive counts chunks that are partly written, and is told of those that take nothing more
    /// ([`ZoneChunks`](crate::ZoneChunks)). Such a chunk has nothing below its write pointer that a crash has torn.
    pub finish_chunks: bool,
    /// What the host's own work costs.
    pub cpu: CpuCosts,
    /// Names the target; written beside all data, so that another target's are not taken for its own.
    pub uuid: u64,
}

impl Default for HostFtlConfig {
    /// pblk's settings where it has them: 11 % over-provisioning, writers slowed down below an eighth of free lines.
    fn default() -> Self {
        HostFtlConfig {
            namespace: 0,
            first_unit: 0,
            units: 0,
            first_chunk: 0,
            chunks: 0,
            over_provisioning: 0.11,
            capacity_bytes: None,
            buffer_sectors: 0,
            write_units: 1,
            spare_chunks: 1,
            gc_share: 1.0 / 8.0,
            victim: Victim::Greedy,
            separation: Separation::Off,
            durability: Durability::Journal { checkpoint_every: 0 },
            read_retries: 2,
            finish_chunks: false,
            cpu: CpuCosts::FREE,
            uuid: 0x7065_6c6c_7563_6964,
        }
    }
}

/// Why the host's translation cannot work on a drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostFtlError {
    /// The namespace is not an open-channel one.
    #[error("namespace {0} is not an open-channel one; a host FTL needs chunks")]
    NotOpenChannel(u16),
    /// A setting does not fit.
    #[error("{key} = {value}: allowed: {allowed}")]
    Setting {
        /// The key as in the description.
        key: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        allowed: String,
    },
    /// Too little room.
    #[error("host.ftl.{0}")]
    Room(SetupError),
    /// The drive refused a command of the start.
    #[error("{0}")]
    Drive(String),
}
