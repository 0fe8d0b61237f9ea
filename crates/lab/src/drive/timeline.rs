//! The timeline of a run: which part of it a drive records.

use pellucid_device::{Device, TimelineWindow};
use pellucid_flash::{Nanos, SimTime};

/// The part of a run that is to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelinePart {
    /// Begin and end, since the measurement began.
    pub window: (Nanos, Nanos),
    /// Requests that took less are left out; 0: none is.
    pub slower_than: Nanos,
    /// Entries that are kept at most.
    pub entries_max: usize,
}

impl TimelinePart {
    /// All of it, in as many entries at most.
    pub fn whole(entries_max: usize) -> TimelinePart {
        TimelinePart { window: (Nanos::ZERO, Nanos(u64::MAX)), slower_than: Nanos::ZERO, entries_max }
    }

    /// Lets the drive record from now on, when the measurement begins.
    pub(super) fn begin(&self, device: &mut Device) {
        let TimelinePart { window: (from, to), slower_than, entries_max } = *self;
        let after = |time: Nanos| SimTime(device.now().0.saturating_add(time.0));
        let window = TimelineWindow { from: after(from), to: after(to), slower_than, entries_max };
        device.record_timeline(window);
    }
}
