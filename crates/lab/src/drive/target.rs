//! The target of a run: a drive of flash, a disk, or layers of the host on one or both of them.
//!
//! A run is generic over its target, so calls to the plain drive are direct.

use super::namespaces::BlockNamespace;
use super::targets::{self, TargetPlace};
use pellucid_device::{Device, Disk};
use pellucid_flash::{Cause, Drive, Figure, Interface, Lba, Nanos, SimTime};
use pellucid_ftl::FtlCounters;
use pellucid_host::{HostCounters, Layer, LayerConfig, Machine, Pair, Stack, TargetKind, Tower, ZoneChunks};

/// Bottom of a tower: a drive of flash, a disk, or both.
pub trait Bottom: Drive {
    /// Returns the drive of flash, if there is one.
    fn flash(&self) -> Option<&Device> {
        None
    }
    /// Returns the flash for changes.
    fn flash_mut(&mut self) -> Option<&mut Device> {
        None
    }
    /// Returns the disk, if there is one.
    fn disk(&self) -> Option<&Disk> {
        None
    }
    /// Returns the simulated time.
    fn now(&self) -> SimTime;
}

impl Bottom for Device {
    #[inline]
    fn flash(&self) -> Option<&Device> {
        Some(self)
    }

    #[inline]
    fn flash_mut(&mut self) -> Option<&mut Device> {
        Some(self)
    }

    #[inline]
    fn now(&self) -> SimTime {
        Device::now(self)
    }
}

impl Bottom for Disk {
    fn disk(&self) -> Option<&Disk> {
        Some(self)
    }

    fn now(&self) -> SimTime {
        Disk::now(self)
    }
}

/// The flash of either, and the disk of either.
impl<A: Bottom, B: Bottom> Bottom for Pair<A, B> {
    fn flash(&self) -> Option<&Device> {
        self.first.flash().or_else(|| self.second.flash())
    }

    fn flash_mut(&mut self) -> Option<&mut Device> {
        match self.first.flash_mut() {
            Some(flash) => Some(flash),
            None => self.second.flash_mut(),
        }
    }

    fn disk(&self) -> Option<&Disk> {
        self.first.disk().or_else(|| self.second.disk())
    }

    fn now(&self) -> SimTime {
        Pair::now(self)
    }
}

/// A drive, or layers on one, with a clock, as a host program uses it.
pub trait TimedDrive: Drive {
    /// Returns the simulated time.
    fn now(&self) -> SimTime;
    /// Returns the bytes of a sector.
    fn sector_bytes(&self) -> u32;
    /// Makes the host layers write their buffered data and stop; no further work may be submitted above them. An error is a sentence.
    fn drain(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// Advances from `now` until something may have happened for the user, whose own next event is at `until`; returns the time reached, or `None` if
    /// nothing will ever happen. A drive with a single user stops at each of its events.
    fn wait(&mut self, now: SimTime, until: Option<SimTime>) -> Option<SimTime> {
        let next = [until, self.next_event()].into_iter().flatten().min()?;
        let now = now.max(next);
        self.advance(now);
        Some(now)
    }
}

/// Something that takes block commands, with a drive at the bottom.
pub trait Target: TimedDrive {
    /// Returns the drive of flash, if there is one.
    fn flash(&self) -> Option<&Device>;
    /// Returns the flash for changes.
    fn flash_mut(&mut self) -> Option<&mut Device>;
    /// Returns the disk, if there is one.
    fn disk(&self) -> Option<&Disk> {
        None
    }
    /// Returns the number of submission queues.
    fn queues(&self) -> u16 {
        self.flash().map_or(1, |device| device.config().host.queues)
    }
    /// Returns the block namespaces that take commands; a run without one is refused.
    fn block_namespaces(&self) -> Vec<BlockNamespace>;
    /// Returns the namespaces of chunks or zones that jobs may address, with their shapes.
    fn raw_namespaces(&self) -> Vec<(u16, Interface)> {
        Vec::new()
    }
    /// Returns the targets that jobs may name.
    fn targets(&self) -> Vec<TargetPlace> {
        Vec::new()
    }
    /// Returns the work of the host FTL of a block target.
    fn host_of(&self, namespace: u16) -> Option<HostUse> {
        let _ = namespace;
        None
    }
    /// Returns the addressable bytes.
    fn capacity_bytes(&self) -> u64 {
        let blocks: u64 = self.block_namespaces().iter().map(|namespace| namespace.sectors).sum();
        // Beside a block namespace of the drive, chunks and zones are not its capacity.
        let counts_raw = blocks == 0 || !self.targets().is_empty();
        let raw = self.raw_namespaces().into_iter().filter(|_| counts_raw);
        let sectors = blocks + raw.map(|(_, interface)| interface.capacity_sectors()).sum::<u64>();
        sectors * u64::from(self.sector_bytes())
    }
    /// Announces a command for `lba`; affects only the simulator's own speed.
    fn prefetch(&self, namespace: u16, lba: Lba);
    /// Returns whether the drive is read-only because it, or the layer above it, has no good blocks left.
    fn is_read_only(&self) -> bool {
        self.flash().is_some_and(Device::is_read_only)
    }
    /// Returns the work and state of the host's layers; `None` without layers.
    fn host(&self) -> Option<HostUse> {
        None
    }
    /// Returns whether host layers transform the requested writes without counting the originals: the bytes given to the drive then differ from the
    /// bytes written. Below a cache, the cache writes, including data that were only read.
    fn reshapes_writes(&self) -> bool {
        false
    }
    /// Returns the counters of layers and disk, by name.
    fn figures(&self) -> Vec<(&'static str, Vec<Figure>)> {
        below(self)
    }
}

/// Returns the counters of the drives at the bottom: a solid-state cache, the disk.
fn below(target: &(impl Target + ?Sized)) -> Vec<(&'static str, Vec<Figure>)> {
    let caches = target.flash().into_iter().flat_map(|device| {
        (0..Drive::namespaces(device)).map(|number| ("cache-drive", device.namespace(number).cache_figures()))
    });
    let disk = target.disk().map(|disk| ("disk", disk.figures()));
    caches.filter(|(_, figures)| !figures.is_empty()).chain(disk).collect()
}

/// Work of the host's layers so far, and their state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostUse {
    /// Name of the layer.
    pub layer: &'static str,
    /// Counters of the host FTL.
    pub counters: HostCounters,
    /// Counters of its engine.
    pub ftl: FtlCounters,
    /// Busy time of the host's processor.
    pub cpu_busy: Nanos,
    /// Bytes of host memory.
    pub memory_bytes: u64,
    /// Mapping units per block of its engine.
    pub units_per_block: u32,
}

impl TimedDrive for Device {
    #[inline]
    fn now(&self) -> SimTime {
        Device::now(self)
    }

    #[inline]
    fn sector_bytes(&self) -> u32 {
        self.layout().sector_bytes
    }
}

impl Target for Device {
    #[inline]
    fn flash(&self) -> Option<&Device> {
        Some(self)
    }

    #[inline]
    fn flash_mut(&mut self) -> Option<&mut Device> {
        Some(self)
    }

    fn block_namespaces(&self) -> Vec<BlockNamespace> {
        BlockNamespace::all(self)
    }

    fn raw_namespaces(&self) -> Vec<(u16, Interface)> {
        let all = (0..self.namespaces()).filter_map(|n| Some((n, Drive::interface(self, n)?)));
        all.filter(|(_, interface)| matches!(interface, Interface::OpenChannel(_) | Interface::Zoned(_)))
            .collect()
    }

    #[inline]
    fn prefetch(&self, namespace: u16, lba: Lba) {
        self.namespace(namespace).prefetch(lba);
    }
}

impl TimedDrive for Disk {
    fn now(&self) -> SimTime {
        Disk::now(self)
    }

    fn sector_bytes(&self) -> u32 {
        self.config().sector_bytes
    }
}

impl Target for Disk {
    fn flash(&self) -> Option<&Device> {
        None
    }

    fn flash_mut(&mut self) -> Option<&mut Device> {
        None
    }

    fn disk(&self) -> Option<&Disk> {
        Some(self)
    }

    fn block_namespaces(&self) -> Vec<BlockNamespace> {
        vec![BlockNamespace { number: 0, sectors: self.config().sectors, handles: 1, base: 0 }]
    }

    fn prefetch(&self, _namespace: u16, _lba: Lba) {}
}

/// Puts layers on a drive, in the order given, and starts them. The error is a sentence.
pub fn put_on<D: Bottom>(layers: &[LayerConfig], drive: D) -> Result<Tower<D>, String> {
    let now = drive.now();
    Tower::build(drive, layers, now)
}

impl<D: Bottom> TimedDrive for Tower<D> {
    #[inline]
    fn now(&self) -> SimTime {
        match self.shared() {
            Some(shared) => shared.now(),
            None => self.stack().map_or_else(|| self.bottom().now(), Stack::now),
        }
    }

    #[inline]
    fn sector_bytes(&self) -> u32 {
        match (self.flash(), self.disk()) {
            (Some(device), _) => device.layout().sector_bytes,
            (None, Some(disk)) => disk.config().sector_bytes,
            (None, None) => 512,
        }
    }

    fn drain(&mut self) -> Result<(), String> {
        self.stop()
    }
}

impl<D: Bottom> Target for Tower<D> {
    #[inline]
    fn flash(&self) -> Option<&Device> {
        self.bottom().flash()
    }

    #[inline]
    fn flash_mut(&mut self) -> Option<&mut Device> {
        self.bottom_mut().flash_mut()
    }

    fn disk(&self) -> Option<&Disk> {
        self.bottom().disk()
    }

    /// Returns the figures of layers that have no section of their own in a report, and of the drives below.
    fn figures(&self) -> Vec<(&'static str, Vec<Figure>)> {
        let layers =
            self.layers().filter(|layer| layer.host_ftl().is_none() && layer.zone_chunks().is_none());
        layers.map(|layer| (layer.name(), Machine::figures(layer))).chain(below(self)).collect()
    }

    /// Returns the namespace of the uppermost layer, or those of the block targets.
    fn block_namespaces(&self) -> Vec<BlockNamespace> {
        if self.shared().is_some() {
            return targets::blocks(self);
        }
        let number = self.stack().map_or(0, Stack::namespace);
        let sectors = self.interface(number).map_or(0, |interface| interface.capacity_sectors());
        vec![BlockNamespace { number, sectors, handles: 1, base: 0 }]
    }

    fn raw_namespaces(&self) -> Vec<(u16, Interface)> {
        let raw = self.targets().into_iter().filter(|target| target.kind == TargetKind::Raw);
        raw.filter_map(|target| Some((target.namespace, self.interface(target.namespace)?))).collect()
    }

    fn targets(&self) -> Vec<TargetPlace> {
        targets::all(self)
    }

    fn host_of(&self, namespace: u16) -> Option<HostUse> {
        self.shared()?.layer(namespace).map(targets::host_ftl)
    }

    #[inline]
    fn prefetch(&self, _namespace: u16, lba: Lba) {
        if let Some(stack) = self.stack() {
            stack.layer.prefetch(lba);
        }
    }

    fn is_read_only(&self) -> bool {
        match self.shared() {
            None => self.stack().is_some_and(|stack| stack.layer.is_read_only()),
            Some(shared) => self
                .targets()
                .iter()
                .any(|target| shared.layer(target.namespace).is_some_and(Layer::is_read_only)),
        }
    }

    fn reshapes_writes(&self) -> bool {
        self.shared().is_none()
            && self.layers().next().is_some_and(|top| top.host_ftl().is_none())
            && self.layers().all(|layer| layer.cache().is_none())
    }

    /// Returns the work of the uppermost layer, at the cost of all layers.
    fn host(&self) -> Option<HostUse> {
        if self.shared().is_some() {
            return targets::host(self);
        }
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
            // The drive receives the commands that the lower layer makes of the upper layer's.
            if let Some(counters) = below.zone_chunks().map(ZoneChunks::counters) {
                host.counters.commands = counters.commands;
                host.counters.programmed_sectors[Cause::Journal as usize] += counters.trailer_sectors;
                host.counters.programmed_sectors[Cause::Padding as usize] += counters.padded_sectors;
            }
        }
        Some(host)
    }
}
