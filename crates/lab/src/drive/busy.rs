//! Busy time at the ends of intervals, which are no events of the drive.
//!
//! A die works on between events: what it has worked since the last one is added. A transfer counts for its channel as a whole
//! when it begins, so no more of it is told than has passed: the rest belongs to the intervals after.

use pellucid_device::Device;
use pellucid_flash::SimTime;

/// Busy time of a drive as it stands at a moment.
pub(super) struct BusyShares {
    at: SimTime,
    /// By channel: what has been told so far, never more than the drive has counted.
    channels_ns: Vec<u64>,
    dies_ns: u64,
}

impl BusyShares {
    /// From now on.
    pub fn new(at: SimTime, device: &Device) -> BusyShares {
        let channels_ns = device.channel_busy().iter().map(|busy| busy.0).collect();
        BusyShares { at, channels_ns, dies_ns: dies_ns(at, device) }
    }

    /// Moves on to `at`, before which the drive has no event any more.
    pub fn advance(&mut self, at: SimTime, device: &Device) {
        let passed_ns = at.0.saturating_sub(self.at.0);
        for (told, busy) in self.channels_ns.iter_mut().zip(device.channel_busy()) {
            *told = busy.0.min(told.saturating_add(passed_ns));
        }
        self.dies_ns = dies_ns(at, device);
        self.at = at;
    }

    /// Of all channels together.
    pub fn channels_ns(&self) -> u64 {
        self.channels_ns.iter().sum()
    }

    /// Of all dies together.
    pub fn dies_ns(&self) -> u64 {
        self.dies_ns
    }
}

fn dies_ns(at: SimTime, device: &Device) -> u64 {
    let counted: u64 = device.die_busy().iter().map(|busy| busy.0).sum();
    let since_ns = at.0.saturating_sub(device.now().0);
    counted + u64::from(device.busy_dies()) * since_ns
}
