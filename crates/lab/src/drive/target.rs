//! What a run works on: a drive, or layers of the host on one.
//!
//! A run is generic over this, so that the plain drive is called without a detour.

use super::namespaces::BlockNamespace;
use pellucid_device::Device;
use pellucid_flash::{Cause, Drive, Lba, Nanos, SimTime};
use pellucid_ftl::FtlCounters;
use pellucid_host::{HostCounters, Layer, LayerConfig, Stack, Tower, ZoneChunks};

/// Something that takes block commands, with a drive at the bottom.
pub trait Target: Drive {
    /// The drive.
    fn device(&self) -> &Device;
    /// The drive.
    fn device_mut(&mut self) -> &mut Device;
    /// Simulated time.
    fn now(&self) -> SimTime;
    /// The block namespaces that take commands; without one, what a run does is refused.
    fn block_namespaces(&self) -> Vec<BlockNamespace>;
    /// Bytes that can be addressed.
    fn capacity_bytes(&self) -> u64 {
        let sectors: u64 = self.block_namespaces().iter().map(|namespace| namespace.sectors).sum();
        sectors * u64::from(self.device().layout().sector_bytes)
    }
    /// A command for `lba` will come soon; changes nothing but the simulator's own speed.
    fn prefetch(&self, namespace: u16, lba: Lba);
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

    fn block_namespaces(&self) -> Vec<BlockNamespace> {
        BlockNamespace::all(self)
    }

    #[inline]
    fn prefetch(&self, namespace: u16, lba: Lba) {
        Device::prefetch(self, namespace, lba);
    }
}

/// Puts layers on a drive, in the order in which they are given, and lets them start. The error is a sentence.
pub fn put_on(layers: &[LayerConfig], device: Device) -> Result<Tower<Device>, String> {
    let now = device.now();
    Tower::build(device, layers, now)
}

impl Target for Tower<Device> {
    #[inline]
    fn device(&self) -> &Device {
        self.bottom()
    }

    #[inline]
    fn device_mut(&mut self) -> &mut Device {
        self.bottom_mut()
    }

    #[inline]
    fn now(&self) -> SimTime {
        self.stack().map_or_else(|| self.bottom().now(), Stack::now)
    }

    /// That of the uppermost layer.
    fn block_namespaces(&self) -> Vec<BlockNamespace> {
        let number = self.stack().map_or(0, Stack::namespace);
        let sectors = self.interface(number).map_or(0, |interface| interface.capacity_sectors());
        vec![BlockNamespace { number, sectors, handles: 1, base: 0 }]
    }

    #[inline]
    fn prefetch(&self, _namespace: u16, lba: Lba) {
        if let Some(stack) = self.stack() {
            stack.layer.prefetch(lba);
        }
    }

    fn is_read_only(&self) -> bool {
        self.stack().is_some_and(|stack| stack.layer.is_read_only())
    }

    /// What the uppermost layer did, at the cost of all of them.
    fn host(&self) -> Option<HostUse> {
        let mut layers = self.layers();
        let top = layers.next()?;
        let ftl = top.host_ftl()?;
        let mut host = HostUse {
            layer: top.name(),
            counters: ftl.counters(),
            ftl: ftl.ftl_counters(),
            cpu_busy: top.cpu_busy(),
            memory_bytes: top.memory_bytes(),
            units_per_block: ftl.units_per_line(),
        };
        for below in layers {
            host.layer = below.name();
            host.cpu_busy += below.cpu_busy();
            host.memory_bytes += below.memory_bytes();
            // What reaches the drive is what the lower layer makes of the upper one's commands.
            if let Some(counters) = below.zone_chunks().map(ZoneChunks::counters) {
                host.counters.commands = counters.commands;
                host.counters.programmed_sectors[Cause::Journal as usize] += counters.trailer_sectors;
                host.counters.programmed_sectors[Cause::Padding as usize] += counters.padded_sectors;
            }
        }
        Some(host)
    }
}
