//! The drive as the layers above see it: the port of `flash`, on the drive's own calls.

use crate::Device;
use pellucid_flash::{Command, Completion, Drive, Interface, Notice, SimTime};

impl Drive for Device {
    fn namespaces(&self) -> u16 {
        self.router.namespaces.len() as u16
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        self.router
            .namespaces
            .get(usize::from(namespace))
            .map(|namespace| namespace.interface(&self.router.shared))
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

    fn notices(&self) -> usize {
        self.router.notices()
    }

    #[inline]
    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        if let Some((namespace, notice)) = self.router.shared.notices.pop() {
            return Some((namespace, Notice::Chunk(notice)));
        }
        (0..)
            .zip(&mut self.router.namespaces)
            .find_map(|(number, namespace)| Some((number, namespace.pop_notice()?)))
    }
}
