//! What a run works on: a drive, or layers of the host on one.
//!
//! A run is generic over this, so that the plain drive is called without a detour.

use pellucid_device::Device;
use pellucid_flash::{Cause, ChunkNotice, Command, Completion, Drive, Interface, Lba, Nanos, SimTime};
use pellucid_ftl::FtlCounters;
use pellucid_host::{HostCounters, HostFtl, HostFtlConfig, Stack, ZoneChunks, ZoneChunksConfig};

/// Something that takes block commands, with a drive at the bottom.
pub trait Target: Drive {
    /// The drive.
    fn device(&self) -> &Device;
    /// The drive.
    fn device_mut(&mut self) -> &mut Device;
    /// Simulated time.
    fn now(&self) -> SimTime;
    /// Bytes that can be addressed.
    fn capacity_bytes(&self) -> u64;
    /// A command for `lba` will come soon; changes nothing but the simulator's own speed.
    fn announce(&self, lba: Lba);
    /// Whether nothing more can be written: the drive, or the layer above it, has no good blocks left for it.
    fn is_read_only(&self) -> bool {
        self.device().is_read_only()
    }
    /// What the host's layers have done and hold; `None` without layers.
    fn host(&self) -> Option<HostUse> {
        None
    }
}

/// What the host's layers have done so far, and hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostUse {
    /// The layer.
    pub layer: &'static str,
    /// What it counted.
    pub counters: HostCounters,
    /// What its engine decided.
    pub ftl: FtlCounters,
    /// Time of the host's processor.
    pub cpu_busy: Nanos,
    /// Bytes of the host's memory.
    pub memory_bytes: u64,
    /// Mapping units of a block of its engine.
    pub units_per_block: u32,
}

impl Target for Device {
    #[inline]
    fn device(&self) -> &Device {
        self
    }

    #[inline]
    fn device_mut(&mut self) -> &mut Device {
        self
    }

    #[inline]
    fn now(&self) -> SimTime {
        Device::now(self)
    }

    fn capacity_bytes(&self) -> u64 {
        Device::capacity_bytes(self)
    }

    #[inline]
    fn announce(&self, lba: Lba) {
        Device::announce(self, lba);
    }
}

/// The layers that a description can put above a drive.
#[derive(Clone, Debug, PartialEq)]
pub enum HostLayer {
    /// A translation layer on an open-channel namespace.
    Ftl(HostFtlConfig),
    /// The same on a zoned namespace, whose zones are made chunks.
    ZoneLog(HostFtlConfig, ZoneChunksConfig),
}

/// A drive with layers of the host on it.
#[derive(Clone, Debug)]
pub enum HostStack {
    /// Translation above the line.
    Ftl(Box<Stack<HostFtl, Device>>),
    /// Translation above zones.
    ZoneLog(Box<Stack<HostFtl, Stack<ZoneChunks, Device>>>),
}

/// Calls the stack of each kind.
macro_rules! each {
    ($self:expr, $stack:ident => $call:expr) => {
        match $self {
            HostStack::Ftl($stack) => $call,
            HostStack::ZoneLog($stack) => $call,
        }
    };
}
impl HostStack {
    /// Puts layers on a drive and lets them start. The error is a sentence.
    pub fn start(layer: &HostLayer, device: Device) -> Result<HostStack, String> {
        let now = device.now();
        match layer {
            HostLayer::Ftl(config) => Ok(HostStack::Ftl(start_ftl(config, config.namespace, device, now)?)),
            HostLayer::ZoneLog(config, zones) => {
                let interface = Drive::interface(&device, zones.namespace);
                let layer =
                    ZoneChunks::new(zones, interface, device.image_bytes()).map_err(|e| e.to_string())?;
                let chunks = Stack::start(layer, device, now)?;
                Ok(HostStack::ZoneLog(start_ftl(config, 0, chunks, now)?))
            }
        }
    }

    /// Stops the layers, so that their next start on this drive is cheap. The error is a sentence.
    pub fn stop(&mut self) -> Result<(), String> {
        each!(self, stack => stack.stop())
    }

    /// Takes the drive from under the layers.
    pub fn into_device(self) -> Device {
        match self {
            HostStack::Ftl(stack) => stack.drive,
            HostStack::ZoneLog(stack) => stack.drive.drive,
        }
    }

    /// The translation layer.
    fn ftl(&self) -> &HostFtl {
        each!(self, stack => &stack.layer)
    }
}

fn start_ftl<D: Drive>(
    config: &HostFtlConfig,
    namespace: u16,
    drive: D,
    now: SimTime,
) -> Result<Box<Stack<HostFtl, D>>, String> {
    let interface = drive.interface(namespace);
    let layer = HostFtl::new(config, interface, drive.image_bytes()).map_err(|e| e.to_string())?;
    Ok(Box::new(Stack::start(layer, drive, now)?))
}

impl Drive for HostStack {
    fn namespaces(&self) -> u16 {
        1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        each!(self, stack => stack.interface(namespace))
    }

    fn image_bytes(&self) -> usize {
        each!(self, stack => stack.drive.image_bytes())
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        each!(self, stack => stack.submit(now, command));
    }

    fn advance(&mut self, now: SimTime) {
        each!(self, stack => stack.advance(now));
    }

    fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        each!(self, stack => stack.advance_to_completion(now, limit))
    }

    fn next_event(&self) -> Option<SimTime> {
        each!(self, stack => stack.next_event())
    }

    fn pop(&mut self) -> Option<Completion> {
        each!(self, stack => stack.pop())
    }

    fn pop_notice(&mut self) -> Option<(u16, ChunkNotice)> {
        each!(self, stack => stack.drive.pop_notice())
    }
}

impl Target for HostStack {
    fn device(&self) -> &Device {
        match self {
            HostStack::Ftl(stack) => &stack.drive,
            HostStack::ZoneLog(stack) => &stack.drive.drive,
        }
    }

    fn device_mut(&mut self) -> &mut Device {
        match self {
            HostStack::Ftl(stack) => &mut stack.drive,
            HostStack::ZoneLog(stack) => &mut stack.drive.drive,
        }
    }

    fn now(&self) -> SimTime {
        each!(self, stack => stack.now())
    }

    fn capacity_bytes(&self) -> u64 {
        self.ftl().capacity_sectors() * u64::from(self.ftl().sector_bytes())
    }

    #[inline]
    fn announce(&self, lba: Lba) {
        self.ftl().announce(lba);
    }

    fn is_read_only(&self) -> bool {
        self.ftl().is_read_only()
    }

    fn host(&self) -> Option<HostUse> {
        let ftl = self.ftl();
        let mut host = HostUse {
            layer: "host-ftl",
            counters: ftl.counters(),
            ftl: ftl.ftl_counters(),
            cpu_busy: ftl.cpu_busy(),
            memory_bytes: ftl.memory_bytes(),
            units_per_block: ftl.units_per_line(),
        };
        if let HostStack::ZoneLog(stack) = self {
            // What reaches the drive is what the lower layer makes of the upper one's commands.
            let (zones, counters) = (&stack.drive.layer, stack.drive.layer.counters());
            host.layer = "zone-log";
            host.counters.commands = counters.commands;
            host.counters.programmed_sectors[Cause::Journal as usize] += counters.trailer_sectors;
            host.counters.programmed_sectors[Cause::Padding as usize] += counters.padded_sectors;
            host.cpu_busy.0 += zones.cpu_busy().0;
            host.memory_bytes += zones.memory_bytes();
        }
        Some(host)
    }
}
