//! How long the parts of a drive have worked since it was made. Reading changes nothing.

use crate::firmware::FirmwareModule;
use crate::shared::Shared;
use pellucid_flash::{Nanos, SimTime};

/// Busy times of a drive's components up to a moment before which no further event occurs.
#[derive(Clone, Copy, Debug)]
pub struct Busy<'a> {
    shared: &'a Shared,
    at: SimTime,
}

impl<'a> Busy<'a> {
    pub(crate) fn new(shared: &'a Shared, at: SimTime) -> Busy<'a> {
        Busy { shared, at }
    }

    /// Time of every channel.
    pub fn channels(self) -> Vec<Nanos> {
        self.shared.scheduler.work().channel_busy(self.at).collect()
    }

    /// Time of every die.
    pub fn dies(self) -> Vec<Nanos> {
        self.shared.scheduler.work().die_busy(self.at).collect()
    }

    /// Dies that work at this moment, or hold data for the channel.
    pub fn dies_at_work(self) -> u32 {
        self.shared.scheduler.work().busy_dies()
    }

    /// Time of the host link: to the drive, to the host.
    pub fn link(self) -> [Nanos; 2] {
        self.shared.host.link_busy(self.at)
    }

    /// Time of the firmware: the mean of its processors.
    pub fn firmware(self) -> Nanos {
        let all: u64 = self.firmware_by_module().iter().map(|time| time.0).sum();
        Nanos(all / self.shared.firmware.processors() as u64)
    }

    /// Returns the time of the firmware's processors by module. Turns of a loop that find nothing do not count.
    pub fn firmware_by_module(self) -> [Nanos; FirmwareModule::COUNT] {
        self.shared.firmware.busy(self.at)
    }
}
