//! A drive at one moment, as plain data that outlives it.

use super::{OperationKind, Probes};
use crate::counters::Counters;
use crate::firmware::FirmwareModule;
use pellucid_flash::{Nanos, SimTime};
use pellucid_ftl::FtlCounters;

/// One channel at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelView {
    /// Busy time since the drive was made.
    pub busy: Nanos,
    /// A transfer is under way.
    pub active: bool,
}

/// One way (die) at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WayView {
    /// Busy time since the drive was made.
    pub busy: Nanos,
    /// The operation that it holds.
    pub holds: Option<OperationKind>,
}

/// A drive at one moment. Taking one costs a copy of the tables, some 200 KB with probes and a kilobyte without; no walk over
/// pages or blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// When.
    pub at: SimTime,
    /// Counters since the drive was made.
    pub counters: Counters,
    /// Counters of translation.
    pub ftl: FtlCounters,
    /// Codewords by wrong bits when they were read; see [`crate::Device::chunks_by_wrong_bits`].
    pub chunks_by_wrong_bits: Vec<u64>,
    /// Channels of the drive, each with as many ways.
    pub channels: Vec<ChannelView>,
    /// Ways in the order of dies: those of the first channel first.
    pub ways: Vec<WayView>,
    /// Commands submitted and not completed.
    pub outstanding_commands: u32,
    /// Erased blocks that are waiting.
    pub free_blocks: u32,
    /// Blocks of the media, good and bad.
    pub blocks: u32,
    /// See [`crate::Device::is_read_only`].
    pub read_only: bool,
    /// Busy time of the host link: to the drive, to the host.
    pub link_busy: [Nanos; 2],
    /// Processors of the firmware.
    pub processors: u32,
    /// Busy time of the firmware's processors, by [`FirmwareModule`].
    pub firmware_busy: [Nanos; FirmwareModule::COUNT],
    /// Bytes of a host sector.
    pub sector_bytes: u32,
    /// Host bytes of all namespaces.
    pub capacity_bytes: u64,
    /// Statistics of the probes, if the drive is watched.
    pub probes: Option<Box<Probes>>,
}
