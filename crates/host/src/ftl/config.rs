//! Configuration of the host FTL, and its errors.

use crate::CpuCosts;
use pellucid_ftl::{Durability, Policies, Separation, SetupError, Survives, Victim};
use pellucid_setting::Settings;

/// Configuration of the host FTL over a range of parallel units of an open-channel namespace, and a range of
/// chunks in each unit.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct HostFtlConfig {
    /// Namespace below: open-channel for the host FTL, zoned for the zone log.
    #[setting(kind = whole(0, 255), default = 0)]
    pub namespace: u16,
    /// Host FTL: first parallel unit of its range.
    ///
    /// Counted across groups.
    #[setting(default = 0)]
    pub first_unit: u32,
    /// Host FTL: parallel units of its range; 0: all from first_unit on.
    #[setting(default = 0)]
    pub units: u32,
    /// First chunk of each parallel unit.
    #[setting(skip)]
    pub first_chunk: u32,
    /// Number of chunks of each parallel unit; 0 takes all from the first on.
    #[setting(skip)]
    pub chunks: u32,
    /// Host FTL: spare capacity as a share of the capacity that it offers (pblk: 11 %).
    #[setting(kind = share(0.0, 100.0), default = 0.11)]
    pub over_provisioning: f64,
    /// Capacity in bytes, in place of the one that over-provisioning yields.
    #[setting(skip)]
    pub capacity_bytes: Option<u64>,
    /// Host FTL: sectors of the write buffer; 0: two writes for every parallel unit.
    ///
    /// Rounded up to a power of two; with 0, the sectors that the drive holds back come on top.
    #[setting(key = "buffer", kind = whole(0, 1 << 24), default = 0)]
    pub buffer_sectors: u32,
    /// Host FTL: optimal writes of the drive that one write covers; 2: the two planes that pblk expects.
    ///
    /// An optimal write is `ws_opt`. 2 suits a drive whose optimal write is a page: pblk expects two planes in a parallel unit.
    #[setting(kind = whole(1, 64), default = 1)]
    pub write_units: u32,
    /// Host FTL: chunks of each parallel unit that replace bad ones.
    #[setting(kind = few(0), default = 1)]
    pub spare_chunks: u32,
    /// Host FTL: share of free lines below which GC runs and writers are slowed down (pblk: an eighth).
    #[setting(kind = SHARE, default = 0.125)]
    pub gc_share: f64,
    /// Host FTL: choice of the line that GC frees next.
    #[setting(default = "greedy")]
    pub victim: Victim,
    /// Policies from outside; that of victims chooses among lines instead of `victim`.
    #[setting(skip)]
    pub policies: Policies,
    /// Host FTL: lines of GC copies. off: shared with host writes, as in pblk; gc-copies: separate.
    #[setting(kind = Kind::Word(&["off", "gc-copies"]), default = "off")]
    pub separation: Separation,
    /// Host FTL: journal keeps translation pages on the drive, so that trims survive a crash.
    ///
    /// With it, mounting reads less, too.
    #[setting(default = "journal", via = Survives)]
    pub durability: Durability,
    /// Host FTL: most retries of a read that failed in the drive.
    #[setting(kind = few(0), default = 2)]
    pub read_retries: u32,
    /// The drive limits the number of partly written chunks, and the host finishes chunks that take no more
    /// data ([`ZoneChunks`](crate::ZoneChunks)). Below the write pointer of such a chunk, no superpage is
    /// torn by a crash.
    #[setting(skip)]
    pub finish_chunks: bool,
    /// Processor time of the host's own work.
    #[setting(beside = "cpu", table, shared)]
    pub cpu: CpuCosts,
    /// Identity of the target. It is written beside all data, so that data of another target are recognised.
    #[setting(skip = 0x7065_6c6c_7563_6964)]
    pub uuid: u64,
}

impl Default for HostFtlConfig {
    /// Returns pblk's settings where it has them: 11 % over-provisioning, and slower writers below an eighth
    /// of free lines.
    fn default() -> Self {
        HostFtlConfig::usual()
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
