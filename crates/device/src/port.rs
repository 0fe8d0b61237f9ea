//! The drive as what stands above it sees it: the port of `flash`, on the drive's own calls.

use crate::Device;
use crate::spaces::Space;
use pellucid_flash::{ChunkNotice, Command, Completion, Drive, Interface, SimTime};

impl Drive for Device {
    fn namespaces(&self) -> u16 {
        self.spaces.len() as u16
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        self.spaces.get(usize::from(namespace)).map(|space| match space {
            Space::Block => {
                Interface::Block { sectors: self.capacity_sectors(), handles: self.config().ftl.handles }
            }
            Space::Chunks(space) => Interface::OpenChannel(*space.chunks.geometry()),
            Space::Zones(space) => Interface::Zoned(*space.zones.geometry()),
        })
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

    fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        Device::advance_to_completion(self, now, limit)
    }

    fn next_event(&self) -> Option<SimTime> {
        Device::next_event(self)
    }

    fn pop(&mut self) -> Option<Completion> {
        Device::pop(self)
    }

    fn pop_notice(&mut self) -> Option<(u16, ChunkNotice)> {
        self.direct.notices.pop_front()
    }
}
