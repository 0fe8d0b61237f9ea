//! Applications of the flash library on a drive in service: the flash monitor below the line that hosts see.
//!
//! ```text
//!   namespaces      0          1 + n: application n, with blocks of its own LUNs
//!                   │ hidden   │
//!   flash monitor   └──────────┴── gives LUNs, replaces bad blocks, levels wear between applications
//!   drive           0: open-channel
//! ```
//! The drive's own namespace is not served: a host that used it would write into what applications have.
//!
//! Invariant: an application that has flash is open, so its namespace is there.

use pellucid_device::Device;
use pellucid_flash::{ChunkInfo, Command, Completion, Drive, Interface, Notice, SimTime};
use pellucid_prism::{AppId, Monitor, MonitorConfig, MonitorError, Request};

/// A modelled drive that a flash monitor divides among applications.
#[derive(Debug)]
pub struct Apps {
    monitor: Monitor<Device>,
    /// Namespaces of the drive itself, which come first and are hidden.
    hidden: u16,
}

impl Apps {
    /// Puts a monitor on a drive, and opens the applications that it finds there. The error is a sentence.
    pub fn start(device: Device) -> Result<Apps, String> {
        let hidden = Device::namespaces(&device);
        if hidden != 1 {
            return Err(format!("{hidden} namespaces; allowed: a drive with one open-channel namespace"));
        }
        let now = device.now();
        let monitor = Monitor::start(device, MonitorConfig::default(), now);
        let mut monitor = monitor.map_err(|error| error.to_string())?;
        let names: Vec<String> = monitor.applications().map(|info| info.name).collect();
        for name in names {
            monitor.open(&name).map_err(|error| error.to_string())?;
        }
        Ok(Apps { monitor, hidden })
    }

    /// The monitor: applications, LUNs and their wear.
    pub fn monitor(&self) -> &Monitor<Device> {
        &self.monitor
    }

    /// The drive.
    pub fn device(&self) -> &Device {
        &self.monitor.drive
    }

    /// Mutable access to the drive.
    pub fn device_mut(&mut self) -> &mut Device {
        &mut self.monitor.drive
    }

    /// Unwraps the drive.
    pub fn into_device(self) -> Device {
        self.monitor.drive
    }

    /// Number of the namespace of an application.
    pub fn number(&self, id: AppId) -> u16 {
        self.hidden + id.0
    }

    /// Name of the application whose namespace has this number.
    pub fn name(&self, number: u16) -> Option<String> {
        let id = AppId(number.checked_sub(self.hidden)?);
        self.monitor.applications().find(|info| info.id == id).map(|info| info.name)
    }

    /// Gives flash to a new application, and runs the drive until that is on the media. Returns the number of its namespace.
    pub fn allocate(&mut self, name: &str, request: Request) -> Result<u16, MonitorError> {
        self.monitor.allocate(name, request).map(|allocation| self.number(allocation.id))
    }

    /// Takes the flash of an application away, and runs the drive until that is on the media.
    pub fn release(&mut self, name: &str) -> Result<(), MonitorError> {
        self.monitor.release(name)
    }

    /// The drive has lost its power and has come back at `now`. The error is a sentence.
    pub fn restart(&mut self, now: SimTime) -> Result<(), String> {
        self.monitor.restart(now).map_err(|error| error.to_string())
    }

    /// Descriptors of `count` blocks of an application's namespace from number `first` on, as far as there are.
    pub fn chunk_infos(&self, namespace: u16, first: u32, count: u32) -> Vec<ChunkInfo> {
        let Some(id) = namespace.checked_sub(self.hidden).map(AppId) else { return Vec::new() };
        let of_drive =
            |device: &Device, namespace, chunk| device.namespace(namespace).chunk_infos(chunk, 1).next();
        let info = |block| self.monitor.block_info(id, block, of_drive);
        (first..first.saturating_add(count)).map_while(info).collect()
    }
}

impl Drive for Apps {
    fn namespaces(&self) -> u16 {
        self.hidden + Drive::namespaces(&self.monitor)
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        Drive::interface(&self.monitor, namespace.checked_sub(self.hidden)?)
    }

    fn image_bytes(&self) -> usize {
        Drive::image_bytes(&self.monitor)
    }

    fn submit(&mut self, now: SimTime, mut command: Command) {
        // A number that no application has is refused by the monitor.
        command.namespace = command.namespace.checked_sub(self.hidden).unwrap_or(u16::MAX);
        Drive::submit(&mut self.monitor, now, command);
    }

    fn advance(&mut self, now: SimTime) {
        Drive::advance(&mut self.monitor, now);
    }

    fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        Drive::advance_to_completion(&mut self.monitor, now, limit)
    }

    fn next_event(&self) -> Option<SimTime> {
        Drive::next_event(&self.monitor)
    }

    fn pop(&mut self) -> Option<Completion> {
        Drive::pop(&mut self.monitor)
    }

    fn outstanding(&self) -> usize {
        Drive::outstanding(&self.monitor)
    }

    fn completed(&self) -> usize {
        Drive::completed(&self.monitor)
    }

    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        let (namespace, notice) = Drive::pop_notice(&mut self.monitor)?;
        Some((self.hidden + namespace, notice))
    }
}
