//! Configuration of the host FTL, and its errors.

use crate::CpuCosts;
use pellucid_ftl::{Durability, Policies, Separation, SetupError, Victim};

/// Configuration of the host FTL over a range of parallel units of an open-channel namespace, and a range of
/// chunks in each unit.
#[derive(Clone, Debug, PartialEq)]
pub struct HostFtlConfig {
    /// Namespace of the drive.
    pub namespace: u16,
    /// First parallel unit, counted across groups.
    pub first_unit: u32,
    /// Number of parallel units; 0 takes all from the first on.
    pub units: u32,
    /// First chunk of each parallel unit.
    pub first_chunk: u32,
    /// Number of chunks of each parallel unit; 0 takes all from the first on.
    pub chunks: u32,
    /// Spare capacity of the lines, as a share of the offered capacity.
    pub over_provisioning: f64,
    /// Capacity in bytes, in place of the one that over-provisioning yields.
    pub capacity_bytes: Option<u64>,
    /// Sectors of the write buffer, rounded up to a power of two; 0: two writes for every parallel unit, and
    /// the sectors that the drive holds back.
    pub buffer_sectors: u32,
    /// Size of a write, in optimal writes (`ws_opt`) of the drive. 2 suits a drive whose optimal write is a
    /// page: pblk expects two planes in a parallel unit.
    pub write_units: u32,
    /// Number of chunks of each parallel unit that replace bad ones.
    pub spare_chunks: u32,
    /// Share of free lines below which GC starts and the application is slowed down.
    pub gc_share: f64,
    /// Victim choice among lines.
    pub victim: Victim,
    /// Policies from outside; that of victims chooses among lines instead of `victim`.
    pub policies: Policies,
    /// Separation of data into lines. pblk mixes GC copies with the application's writes
    /// ([`Separation::Off`]); [`Separation::GcCopies`] gives each its own lines.
    pub separation: Separation,
    /// Durability of state besides the written data: with the journal, trims survive a crash, and mounting
    /// reads less.
    pub durability: Durability,
    /// Number of times that the host retries a failed read after the drive has given up.
    pub read_retries: u32,
    /// The drive limits the number of partly written chunks, and the host finishes chunks that take no more
    /// data ([`ZoneChunks`](crate::ZoneChunks)). Below the write pointer of such a chunk, no superpage is
    /// torn by a crash.
    pub finish_chunks: bool,
    /// Processor time of the host's own work.
    pub cpu: CpuCosts,
    /// Identity of the target. It is written beside all data, so that data of another target are recognised.
    pub uuid: u64,
}

impl Default for HostFtlConfig {
    /// Returns pblk's settings where it has them: 11 % over-provisioning, and slower writers below an eighth
    /// of free lines.
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
            policies: Policies::default(),
            separation: Separation::Off,
            durability: Durability::Journal { checkpoint_every: 0 },
            read_retries: 2,
            finish_chunks: false,
            cpu: CpuCosts::FREE,
            uuid: 0x7065_6c6c_7563_6964,
        }
    }
}

/// Reason that the host FTL cannot run on a drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostFtlError {
    /// The namespace is not an open-channel namespace.
    #[error("namespace {0} is not an open-channel one; a host FTL needs chunks")]
    NotOpenChannel(u16),
    /// A setting is out of range.
    #[error("{key} = {value}: allowed: {allowed}")]
    Setting {
        /// Key, as in the description.
        key: &'static str,
        /// Value of the setting.
        value: u64,
        /// Allowed values.
        allowed: String,
    },
    /// The spare capacity is too small.
    #[error("host.ftl.{0}")]
    Room(SetupError),
    /// The drive refused a command of the start.
    #[error("{0}")]
    Drive(String),
}
