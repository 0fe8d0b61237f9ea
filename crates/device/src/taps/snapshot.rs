//! A drive at one moment, as plain data that outlives it.

use super::{OperationKind, Taps};
use crate::device::Device;
use crate::firmware::FirmwareModule;
use crate::monitor::Counters;
use pellucid_flash::{Drive, Nanos, SimTime};
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

/// A drive at one moment. Taking one costs a copy of the tables, some 200 KB with taps and a kilobyte without; no walk over
/// pages or blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// When.
    pub at: SimTime,
    /// Counters since the drive was made.
    pub counters: Counters,
    /// What translation decided.
    pub ftl: FtlCounters,
    /// Chunks of the code by wrong bits when they were read; see [`Device::chunks_by_wrong_bits`].
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
    /// See [`Device::is_read_only`].
    pub read_only: bool,
    /// Busy time of the host link: to the drive, to the host.
    pub link_busy: [Nanos; 2],
    /// Busy time of the firmware processor, by [`FirmwareModule`].
    pub firmware_busy: [Nanos; FirmwareModule::COUNT],
    /// Bytes of a host sector.
    pub sector_bytes: u32,
    /// Host bytes of all namespaces.
    pub capacity_bytes: u64,
    /// What was noted, if the drive is watched.
    pub taps: Option<Box<Taps>>,
}

impl Device {
    /// The drive as it is now. Changes nothing.
    pub fn snapshot(&self) -> Snapshot {
        let interfaces = (0..self.namespaces()).filter_map(|namespace| self.interface(namespace));
        let sectors: u64 = interfaces.map(|interface| interface.capacity_sectors()).sum();
        Snapshot {
            at: self.now,
            counters: self.counters(),
            ftl: self.ftl_counters(),
            chunks_by_wrong_bits: self.chunks_by_wrong_bits().to_vec(),
            channels: self.scheduler.channel_views(self.now).collect(),
            ways: self.scheduler.way_views(self.now).collect(),
            outstanding_commands: self.outstanding_commands(),
            free_blocks: self.free_blocks(),
            blocks: self.layout.blocks,
            read_only: self.is_read_only(),
            link_busy: self.link_busy(),
            firmware_busy: self.firmware_busy_by_module(),
            sector_bytes: self.layout.sector_bytes,
            capacity_bytes: sectors * u64::from(self.layout.sector_bytes),
            taps: self.taps.as_ref().map(|taps| taps.settled()),
        }
    }
}
