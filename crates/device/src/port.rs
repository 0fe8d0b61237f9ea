//! The drive as what stands above it sees it: the port of `flash`, on the drive's own calls.

use crate::Device;
use pellucid_flash::{Command, Completion, Drive, Interface, SimTime};

impl Drive for Device {
    fn namespaces(&self) -> u16 {
        1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        (namespace == 0).then(|| Interface::Block { sectors: self.capacity_sectors(), handles: 1 })
    }

    fn image_bytes(&self) -> usize {
        Device::image_bytes(self)
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        Device::submit(self, now, command);
    }

    fn advance(&mut self, now: SimTime) {
        Device::advance(self, now);
    }

    fn next_event(&self) -> Option<SimTime> {
        Device::next_event(self)
    }

    fn pop(&mut self) -> Option<Completion> {
        Device::pop(self)
    }
}
