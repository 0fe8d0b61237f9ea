//! What stands at the bottom of a tower that is served: a drive of this process, or one on another machine.

use crate::remote::Remote;
use pellucid_device::Device;
use pellucid_flash::{Command, Completion, Drive, Interface, Notice, SimTime};

/// The drive at the bottom.
#[expect(
    clippy::large_enum_variant,
    reason = "there are a few, and the plain drive is reached without a detour"
)]
pub(crate) enum Bottom {
    /// Of this process.
    Device(Device),
    /// On another machine.
    Remote(Box<Remote>),
}

/// Calls the drive of each kind.
macro_rules! each {
    ($self:expr, $drive:ident => $call:expr) => {
        match $self {
            Bottom::Device($drive) => $call,
            Bottom::Remote($drive) => $call,
        }
    };
}

impl Bottom {
    #[inline]
    pub fn device(&self) -> Option<&Device> {
        match self {
            Bottom::Device(device) => Some(device),
            Bottom::Remote(_) => None,
        }
    }

    #[inline]
    pub fn device_mut(&mut self) -> Option<&mut Device> {
        match self {
            Bottom::Device(device) => Some(device),
            Bottom::Remote(_) => None,
        }
    }

    pub fn into_device(self) -> Option<Device> {
        match self {
            Bottom::Device(device) => Some(device),
            Bottom::Remote(_) => None,
        }
    }

    #[inline]
    pub fn remote(&self) -> Option<&Remote> {
        match self {
            Bottom::Remote(remote) => Some(remote),
            Bottom::Device(_) => None,
        }
    }

    pub fn remote_mut(&mut self) -> Option<&mut Remote> {
        match self {
            Bottom::Remote(remote) => Some(remote),
            Bottom::Device(_) => None,
        }
    }

    /// Simulated time of a drive of this process. That of a remote one is its layer's.
    #[inline]
    pub fn now(&self) -> SimTime {
        self.device().map_or(SimTime::ZERO, Device::now)
    }
}

impl Drive for Bottom {
    fn namespaces(&self) -> u16 {
        each!(self, drive => drive.namespaces())
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        each!(self, drive => drive.interface(namespace))
    }

    fn image_bytes(&self) -> usize {
        each!(self, drive => drive.image_bytes())
    }

    #[inline]
    fn submit(&mut self, now: SimTime, command: Command) {
        each!(self, drive => drive.submit(now, command));
    }

    #[inline]
    fn advance(&mut self, now: SimTime) {
        each!(self, drive => drive.advance(now));
    }

    #[inline]
    fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        each!(self, drive => drive.advance_to_completion(now, limit))
    }

    #[inline]
    fn next_event(&self) -> Option<SimTime> {
        each!(self, drive => drive.next_event())
    }

    #[inline]
    fn pop(&mut self) -> Option<Completion> {
        each!(self, drive => drive.pop())
    }

    #[inline]
    fn outstanding(&self) -> usize {
        each!(self, drive => drive.outstanding())
    }

    #[inline]
    fn completed(&self) -> usize {
        each!(self, drive => drive.completed())
    }

    #[inline]
    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        each!(self, drive => drive.pop_notice())
    }
}
