//! The drive as what stands above it sees it: the port of `flash`, on the drive's own calls.

use crate::Device;
use crate::namespaces::Namespace;
use pellucid_flash::{Command, Completion, Drive, Interface, Lba, Notice, SimTime};

impl Drive for Device {
    fn namespaces(&self) -> u16 {
        self.namespaces.len() as u16
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        self.namespaces.get(usize::from(namespace)).map(|namespace| match namespace {
            Namespace::Block(n) => match n.cache_geometry(self.layout()) {
                Some(geometry) => Interface::Cache(geometry),
                None => Interface::Block {
                    sectors: n.capacity_sectors(self.layout()),
                    handles: self.config().ftl.handles,
                },
            },
            Namespace::Chunks(n) => Interface::OpenChannel(*n.chunks.geometry()),
            Namespace::Nameless(n) => Interface::Nameless(n.machine.geometry()),
            Namespace::Zones(n) => Interface::Zoned(*n.zones.geometry()),
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

    fn outstanding(&self) -> usize {
        self.outstanding_commands() as usize
    }

    fn completed(&self) -> usize {
        Device::completed(self)
    }

    #[inline]
    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        if let Some((namespace, notice)) = self.shared.notices.pop_front() {
            return Some((namespace, Notice::Chunk(notice)));
        }
        (0..).zip(&mut self.namespaces).find_map(|(namespace, n)| {
            let notice = match n {
                Namespace::Block(_) | Namespace::Chunks(_) => return None,
                Namespace::Nameless(n) => {
                    let (old, new) = n.machine.next_move()?;
                    Notice::Moved { old, new }
                }
                Namespace::Zones(n) => {
                    let zone = n.zones.pop_changed()?;
                    Notice::ZoneChanged(Lba(u64::from(zone) * n.zones.geometry().zone_sectors))
                }
            };
            Some((namespace, notice))
        })
    }
}
