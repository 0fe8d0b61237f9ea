//! The timeline of a run: the part of it that a drive records.

use pellucid_device::{Device, TimelineWindow};
use pellucid_flash::{Nanos, SimTime};

/// The part of a run to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelinePart {
    /// Begin and end, since the measurement began.
    pub window: (Nanos, Nanos),
    /// Requests that took less are left out; 0 leaves out none.
    pub slower_than: Nanos,
    /// Maximum number of entries.
    pub entries_max: usize,
}

impl TimelinePart {
    /// Returns all of the run, in at most this many entries.
    pub fn whole(entries_max: usize) -> TimelinePart {
        TimelinePart { window: (Nanos::ZERO, Nanos(u64::MAX)), slower_than: Nanos::ZERO, entries_max }
    }

    /// Starts recording, when the measurement begins.
    pub(super) fn begin(&self, device: &mut Device) {
        let TimelinePart { window: (from, to), slower_than, entries_max } = *self;
        let after = |time: Nanos| SimTime(device.now().0.saturating_add(time.0));
        let window = TimelineWindow { from: after(from), to: after(to), slower_than, entries_max };
        device.record_timeline(window);
    }
}
