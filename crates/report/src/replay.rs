//! Differences between a replay and its trace.

use super::text::counted;
use serde::Serialize;

/// Number of trace records by what the replay did with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Replay {
    /// Records taken from the trace.
    pub records: u64,
    /// Devices of the records (disks, volumes, files), all replayed into the drive's one address space.
    pub devices: u64,
    /// Records of devices that are not selected: left out.
    pub other_devices: u64,
    /// Records earlier than the one before them: replayed at that one's time.
    pub out_of_order: u64,
    /// Reads, writes and trims of no bytes: left out.
    pub empty: u64,
    /// Records widened to whole sectors.
    pub widened: u64,
    /// Records with another address on the drive than in the trace.
    pub moved: u64,
    /// Records split because their sectors are not contiguous on the drive, or because they are longer than 1 GiB.
    pub split: u64,
    /// Records longer than the drive: clipped to its length.
    pub clipped: u64,
    /// Trims partly omitted because nothing was there.
    pub trims_cut: u64,
}

impl Replay {
    /// Describes each count worth mentioning.
    pub(super) fn words(&self) -> Vec<String> {
        let devices = if self.devices > 1 { self.devices } else { 0 };
        let parts = [
            ("devices in one address space", devices),
            ("left out, of other devices", self.other_devices),
            ("out of order", self.out_of_order),
            ("empty", self.empty),
            ("widened to sectors", self.widened),
            ("moved", self.moved),
            ("split", self.split),
            ("clipped", self.clipped),
            ("trims cut", self.trims_cut),
        ];
        counted(&parts)
    }
}
