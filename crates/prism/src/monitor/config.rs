//! Configuration of a flash monitor, and its answers to applications that ask for flash.

use super::ring;
use crate::SsdGeometry;
use std::collections::BTreeMap;
use thiserror::Error;

/// Settings of a flash monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorConfig {
    /// Blocks of each LUN that no application sees: they replace bad ones and take what wear levelling moves. 0: a thirty-second of
    /// them, at least 3. Looked at when the state is made; it is fixed then.
    pub spare_blocks: u32,
    /// How much the average erases of two LUNs may differ before their data change places; 0: any amount.
    pub wear_gap: u32,
    /// LUNs that one application may have; 0: any number.
    pub quota_luns: u32,
    /// Largest number of LUNs of the applications with these names.
    pub quotas: BTreeMap<String, u32>,
    /// Make a new state whatever the media hold.
    pub format: bool,
}

impl Default for MonitorConfig {
    fn default() -> Self {
        MonitorConfig { spare_blocks: 0, wear_gap: 16, quota_luns: 0, quotas: BTreeMap::new(), format: false }
    }
}

impl MonitorConfig {
    /// Blocks that no application sees in a LUN of `blocks`, on a drive with this many LUNs: spare ones, and those of the monitor's records.
    pub fn hidden_blocks(&self, blocks: u32, luns: u32) -> u32 {
        let spares = if self.spare_blocks == 0 { (blocks / 32).max(3) } else { self.spare_blocks };
        spares.saturating_add(ring::chunks_of_lun(luns))
    }
}

/// How much flash an application wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Bytes that it wants to keep.
    pub capacity_bytes: u64,
    /// Flash beyond that, as a share of the LUNs for it: 0.25 is a LUN more for each four.
    pub over_provisioning: f64,
}

/// An application: the number of its namespace, for as long as it has flash, over restarts too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppId(pub u16);

/// LUNs that an application was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The application.
    pub id: AppId,
    /// LUNs that it asked for: for its capacity, and for over-provisioning on top.
    pub wanted_luns: [u32; 2],
    /// Its flash. It has more LUNs than it asked for where these do not divide evenly among channels.
    pub geometry: SsdGeometry,
}

/// Description of an application.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplicationInfo {
    /// The application.
    pub id: AppId,
    /// Its name.
    pub name: String,
    /// Request at its opening.
    pub request: Request,
    /// Parallel units of the drive that its LUNs are now, channel by channel.
    pub units: Vec<u32>,
    /// Channels that it sees.
    pub channels: u32,
    /// True if it is open: its namespace is there.
    pub is_open: bool,
}

/// Work of an application since the monitor started, and the state of its flash.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Reads, and their sectors.
    pub reads: u64,
    /// See `reads`.
    pub read_sectors: u64,
    /// Writes and copies, and their sectors.
    pub writes: u64,
    /// See `writes`.
    pub written_sectors: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Addresses refused, because they are not the application's.
    pub refused: u64,
    /// Blocks that failed and were replaced.
    pub replaced_blocks: u64,
    /// Blocks that failed when no spare was left.
    pub lost_blocks: u64,
    /// LUNs of its that changed places with another.
    pub swapped_luns: u64,
    /// Erases of a block of its LUNs, on average, since the state was made.
    pub average_erases: f64,
}

/// A LUN of the drive, as far as wear is concerned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LunWear {
    /// The application that has it.
    pub owner: Option<AppId>,
    /// Erases of a block, on average.
    pub average_erases: f64,
    /// Blocks out of use.
    pub bad_blocks: u32,
    /// Good blocks that no application sees.
    pub spare_blocks: u32,
}

/// Why the monitor does not do something. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum MonitorError {
    /// The drive has no open-channel namespace.
    #[error("the drive has no open-channel namespace; the flash library needs channels, LUNs and blocks")]
    NotFlash,
    /// A LUN has no block beside spare blocks and the monitor's own.
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
    /// There are data of another owner.
    #[error("no state of a flash monitor, but {blocks} blocks hold other data; allowed: blank media")]
    NotBlank {
        /// Blocks that are written.
        blocks: u32,
    },
    /// The state is that of another drive, or cannot be understood.
    #[error(
        "the state of the flash monitor is that of a drive of another shape; allowed: its own drive, or blank media"
    )]
    OtherDrive,
    /// The name is empty, or has other characters than letters, digits, `-`, `_` and `.`.
    #[error("application name {0:?}: allowed: letters, digits, '-', '_' and '.', 1 to 255 of them")]
    Name(String),
    /// There is an application of this name.
    #[error("{0}: an application of this name exists; open it, or release it first")]
    Exists(String),
    /// There is none.
    #[error("{name}: no such application; there are {known}")]
    Missing {
        /// The name.
        name: String,
        /// Existing applications, in words.
        known: String,
    },
    /// The request is for nothing, or for a share that is no number.
    #[error(
        "capacity {capacity_bytes} bytes, over-provisioning {over_provisioning}: allowed: 1 byte or more, and 0 to 100"
    )]
    Request {
        /// The capacity.
        capacity_bytes: u64,
        /// The share.
        over_provisioning: f64,
    },
    /// More than an application may have.
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
        /// The most that one application can have.
        most: u32,
        /// Capacity of one LUN for an application.
        lun_bytes: u64,
    },
    /// The application has commands under way.
    #[error("{name}: {commands} of its commands are under way; wait until they end")]
    Busy {
        /// The application.
        name: String,
        /// Commands.
        commands: usize,
    },
    /// The drive did not answer.
    #[error("the drive does not answer")]
    NoAnswer,
    /// The blocks for the state are gone.
    #[error(
        "the flash monitor cannot record which application has which LUN: all its blocks for this record have failed; allowed: the existing applications"
    )]
    NoState,
}
