//! Configuration of a flash monitor, and its answers to requests for flash.

use super::ring;
use crate::SsdGeometry;
use std::collections::BTreeMap;
use thiserror::Error;

/// Settings of a flash monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorConfig {
    /// Blocks of each LUN hidden from applications: they replace bad ones and are needed by wear levelling. 0: a thirty-second of all, at least 3.
    /// Fixed when the state is created, and ignored afterwards.
    pub spare_blocks: u32,
    /// Difference of the mean erases of two LUNs beyond which their data are swapped; 0: any amount.
    pub wear_gap: u32,
    /// Maximum number of LUNs of one application; 0: unlimited.
    pub quota_luns: u32,
    /// Maximum number of LUNs of the applications with these names.
    pub quotas: BTreeMap<String, u32>,
    /// Create a new state, whatever the media hold.
    pub format: bool,
}

impl Default for MonitorConfig {
    fn default() -> Self {
        MonitorConfig { spare_blocks: 0, wear_gap: 16, quota_luns: 0, quotas: BTreeMap::new(), format: false }
    }
}

impl MonitorConfig {
    /// Hidden blocks per LUN of `blocks`, on a drive with this many LUNs: spare ones, and those of the monitor's records.
    pub fn hidden_blocks(&self, blocks: u32, luns: u32) -> u32 {
        let spares = if self.spare_blocks == 0 { (blocks / 32).max(3) } else { self.spare_blocks };
        spares.saturating_add(ring::chunks_of_lun(luns))
    }
}

/// An application's request for flash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Bytes that it wants to store.
    pub capacity_bytes: u64,
    /// Additional flash, as a share of those LUNs: 0.25 is one more LUN for every four.
    pub over_provisioning: f64,
}

/// An application: the number of its namespace, constant as long as it owns flash, also over restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppId(pub u16);

/// LUNs allocated to an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The application.
    pub id: AppId,
    /// LUNs requested: for its capacity, and for over-provisioning.
    pub wanted_luns: [u32; 2],
    /// Its flash. It has more LUNs than requested if these do not divide evenly among channels.
    pub geometry: SsdGeometry,
}

/// Description of an application.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplicationInfo {
    /// The application.
    pub id: AppId,
    /// Its name.
    pub name: String,
    /// Its request.
    pub request: Request,
    /// Parallel units of the drive that currently hold its LUNs, channel by channel.
    pub units: Vec<u32>,
    /// Channels that it sees.
    pub channels: u32,
    /// True if it is open and has a namespace.
    pub is_open: bool,
}

/// Work of an application since the monitor started, and state of its flash.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Number of reads.
    pub reads: u64,
    /// Sectors read.
    pub read_sectors: u64,
    /// Number of writes and copies.
    pub writes: u64,
    /// Sectors written.
    pub written_sectors: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Addresses refused because they are not the application's.
    pub refused: u64,
    /// Blocks that failed and were replaced.
    pub replaced_blocks: u64,
    /// Blocks that failed when no spare was left.
    pub lost_blocks: u64,
    /// Swaps of its LUNs with others.
    pub swapped_luns: u64,
    /// Mean erases of a block of its LUNs, since the state was created.
    pub average_erases: f64,
}

/// Wear of a LUN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LunWear {
    /// The application that owns it.
    pub owner: Option<AppId>,
    /// Mean erases of a block.
    pub average_erases: f64,
    /// Retired blocks.
    pub bad_blocks: u32,
    /// Good blocks hidden from applications.
    pub spare_blocks: u32,
}

/// Reason why the monitor refuses something; nothing has changed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum MonitorError {
    /// The drive has no open-channel namespace.
    #[error("the drive has no open-channel namespace; the flash library needs channels, LUNs and blocks")]
    NotFlash,
    /// A LUN has no block besides spare blocks and the monitor's own.
    #[error(
        "LUNs of {blocks} blocks: {hidden} are for spares and the monitor's state; allowed: {hidden} + 1 or more"
    )]
    TooSmall {
        /// Blocks of a LUN.
        blocks: u32,
        /// Chunks hidden from applications.
        hidden: u32,
    },
    /// The record of the state does not fit.
    #[error("the monitor's state needs {needs} pages; a block has {has}")]
    StateTooLarge {
        /// Pages of a record.
        needs: u32,
        /// Pages of a block.
        has: u32,
    },
    /// The drive holds foreign data.
    #[error("no state of a flash monitor, but {blocks} blocks hold other data; allowed: blank media")]
    NotBlank {
        /// Number of written blocks.
        blocks: u32,
    },
    /// The state is of another drive, or malformed.
    #[error(
        "the state of the flash monitor is that of a drive of another shape; allowed: its own drive, or blank media"
    )]
    OtherDrive,
    /// The name is empty, or has characters other than letters, digits, `-`, `_` and `.`.
    #[error("application name {0:?}: allowed: letters, digits, '-', '_' and '.', 1 to 255 of them")]
    Name(String),
    /// An application of this name exists.
    #[error("{0}: an application of this name exists; open it, or release it first")]
    Exists(String),
    /// The application does not exist.
    #[error("{name}: no such application; there are {known}")]
    Missing {
        /// The name.
        name: String,
        /// Existing applications, in words.
        known: String,
    },
    /// The request is for nothing, or for an invalid share.
    #[error(
        "capacity {capacity_bytes} bytes, over-provisioning {over_provisioning}: allowed: 1 byte or more, and 0 to 100"
    )]
    Request {
        /// The capacity.
        capacity_bytes: u64,
        /// The share.
        over_provisioning: f64,
    },
    /// The quota is exceeded.
    #[error("{name}: {wanted} LUNs; its quota is {quota}")]
    Quota {
        /// The application.
        name: String,
        /// LUNs wanted.
        wanted: u64,
        /// LUNs allowed.
        quota: u32,
    },
    /// Too few LUNs are free.
    #[error(
        "{wanted} LUNs of {lun_bytes} bytes wanted; {free} are free, at most {most} for one application, which has as many in each of its \
         channels"
    )]
    NoRoom {
        /// LUNs wanted.
        wanted: u64,
        /// LUNs that are free.
        free: u32,
        /// Maximum for one application.
        most: u32,
        /// Capacity of one LUN for an application.
        lun_bytes: u64,
    },
    /// The application has commands in flight.
    #[error("{name}: {commands} of its commands are under way; wait until they end")]
    Busy {
        /// The application.
        name: String,
        /// Number of commands.
        commands: usize,
    },
    /// The drive did not answer.
    #[error("the drive does not answer")]
    NoAnswer,
    /// No blocks are left for the state.
    #[error(
        "the flash monitor cannot record which application has which LUN: all its blocks for this record have failed; allowed: the existing applications"
    )]
    NoState,
}
