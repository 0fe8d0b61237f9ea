//! The bottom of a served stack: a modelled drive, a drive on another machine, a file, or a cache drive with
//! its backing store.

use super::apps::Apps;
use crate::event::Event;
use crate::file_drive::FileDrive;
use crate::remote::Remote;
use mio::{Registry, Token, Waker};
use pellucid_device::Device;
use pellucid_flash::{Command, Completion, Drive, Interface, Notice, SimTime};
use pellucid_host::Pair;
use std::sync::Arc;
use std::time::Duration;

/// Longest single wait.
const LOOK: Duration = Duration::from_millis(50);

/// The drive at the bottom.
#[expect(
    clippy::large_enum_variant,
    reason = "there are a few, and the plain drive is reached without a detour"
)]
pub enum Bottom {
    /// A modelled drive in this process.
    Device(Device),
    /// A drive on another machine.
    Remote(Box<Remote>),
    /// A plain file or block device.
    File(Box<FileDrive>),
    /// A modelled drive in this process, divided among applications.
    Apps(Box<Apps>),
    /// A cache drive, modelled or a file, and a backing store.
    Cached(Box<Pair<Bottom, FileDrive>>),
}

impl From<Device> for Bottom {
    fn from(device: Device) -> Bottom {
        Bottom::Device(device)
    }
}

impl From<Remote> for Bottom {
    fn from(remote: Remote) -> Bottom {
        Bottom::Remote(Box::new(remote))
    }
}

impl From<FileDrive> for Bottom {
    fn from(file: FileDrive) -> Bottom {
        Bottom::File(Box::new(file))
    }
}

/// Calls the drive, whichever kind it is.
macro_rules! each {
    ($self:expr, $drive:ident => $call:expr) => {
        match $self {
            Bottom::Device($drive) => $call,
            Bottom::Remote($drive) => $call,
            Bottom::File($drive) => $call,
            Bottom::Apps($drive) => $call,
            Bottom::Cached($drive) => $call,
        }
    };
}

impl Bottom {
    /// The modelled drive, if it is one.
    #[inline]
    pub fn device(&self) -> Option<&Device> {
        match self {
            Bottom::Device(device) => Some(device),
            Bottom::Apps(apps) => Some(apps.device()),
            Bottom::Cached(pair) => pair.first.device(),
            _ => None,
        }
    }

    /// Mutable access to the modelled drive, if it is one.
    #[inline]
    pub fn device_mut(&mut self) -> Option<&mut Device> {
        match self {
            Bottom::Device(device) => Some(device),
            Bottom::Apps(apps) => Some(apps.device_mut()),
            Bottom::Cached(pair) => pair.first.device_mut(),
            _ => None,
        }
    }

    pub(crate) fn into_device(self) -> Option<Device> {
        match self {
            Bottom::Device(device) => Some(device),
            Bottom::Apps(apps) => Some(apps.into_device()),
            Bottom::Cached(pair) => pair.first.into_device(),
            _ => None,
        }
    }

    /// The flash monitor and its applications, if the drive is divided among such.
    pub(crate) fn apps(&self) -> Option<&Apps> {
        match self {
            Bottom::Apps(apps) => Some(apps),
            _ => None,
        }
    }

    /// Mutable access to the flash monitor.
    pub(crate) fn apps_mut(&mut self) -> Option<&mut Apps> {
        match self {
            Bottom::Apps(apps) => Some(apps),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn remote(&self) -> Option<&Remote> {
        match self {
            Bottom::Remote(remote) => Some(remote),
            _ => None,
        }
    }

    pub(crate) fn remote_mut(&mut self) -> Option<&mut Remote> {
        match self {
            Bottom::Remote(remote) => Some(remote),
            _ => None,
        }
    }

    /// Connection state of a remote drive, and the number of reconnections.
    pub(crate) fn connection(&self) -> Option<(&'static str, u64)> {
        self.remote().map(|remote| (remote.state(), remote.reconnections()))
    }

    /// Handles an event on one of a remote drive's sockets.
    pub(crate) fn ready(&mut self, socket: usize) {
        if let Some(remote) = self.remote_mut() {
            remote.ready(socket);
        }
    }

    /// Stops the connection to a remote drive; see [`Remote::stop`].
    pub(crate) fn stop(&mut self) {
        if let Some(remote) = self.remote_mut() {
            remote.stop();
        }
    }

    pub(crate) fn file(&self) -> Option<&FileDrive> {
        match self {
            Bottom::File(file) => Some(file),
            _ => None,
        }
    }

    /// Returns true if the drive runs in wall time, whatever the server's time mode.
    #[inline]
    pub fn is_in_wall_time(&self) -> bool {
        !matches!(self, Bottom::Device(_) | Bottom::Apps(_))
    }

    /// The cache drive and its backing store, if it is a cache.
    pub(crate) fn cached_mut(&mut self) -> Option<&mut Pair<Bottom, FileDrive>> {
        match self {
            Bottom::Cached(pair) => Some(pair),
            _ => None,
        }
    }

    /// Waits until neither drive of a cache has operations in flight, after the cache drive has lost power.
    /// Otherwise an operation could complete after the caller considers it lost.
    pub(crate) fn settle(&mut self, now: SimTime) {
        let Some(pair) = self.cached_mut() else { return };
        // Drops operations that ended with the power.
        pair.restart(now);
        while pair.second.outstanding() > 0 {
            pair.second.wait(LOOK);
            pair.restart(now);
        }
    }

    /// Registers for wake-ups: when the drive needs a turn, it wakes `waker` or raises an event with one of
    /// the tokens from `token` on.
    pub(crate) fn attach(
        &mut self,
        registry: &Registry,
        token: Token,
        waker: Arc<Waker>,
    ) -> std::io::Result<()> {
        match self {
            Bottom::Device(_) | Bottom::Apps(_) => Ok(()),
            Bottom::Remote(remote) => remote.attach(registry, token, waker),
            Bottom::File(file) => {
                file.attach(waker);
                Ok(())
            }
            Bottom::Cached(pair) => {
                pair.second.attach(Arc::clone(&waker));
                pair.first.attach(registry, token, waker)
            }
        }
    }

    /// Takes the drive's events for the log.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        match self {
            Bottom::Device(_) | Bottom::Apps(_) => Vec::new(),
            Bottom::Remote(remote) => remote.take_events(),
            Bottom::File(file) => events_of(file),
            Bottom::Cached(pair) => {
                let mut events = pair.first.take_events();
                events.append(&mut events_of(&mut pair.second));
                events
            }
        }
    }

    /// Simulated time of a modelled drive. For other drives, the layer on them keeps the time.
    #[inline]
    pub fn now(&self) -> SimTime {
        self.device().map_or(SimTime::ZERO, Device::now)
    }
}

fn events_of(file: &mut FileDrive) -> Vec<Event> {
    let path = file.path().display().to_string();
    let event = |why| Event::FileFailed { file: path.clone(), why };
    file.take_sentences().into_iter().map(event).collect()
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
    fn notices(&self) -> usize {
        each!(self, drive => drive.notices())
    }

    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        each!(self, drive => drive.pop_notice())
    }
}
