//! What can be seen of a drive from outside: sizes, counters, wear, use. Reading changes nothing.

use crate::config::DeviceConfig;
use crate::device::Device;
use crate::firmware::FirmwareModule;
use crate::monitor::Counters;
use crate::spaces::Space;
use pellucid_flash::{BlockId, Layout, Lba, Lpn, Nanos, Ppa, SimTime};
use pellucid_ftl::{FtlCounters, MountReport};
use pellucid_media::{Extent, Faults, Health, Media, MediaConfig, MediaError, StoreError, StoreNotice};

impl Device {
    /// What the drive was made from.
    pub fn config(&self) -> &DeviceConfig {
        &self.config
    }

    /// The media's shape.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Host sectors.
    pub fn capacity_sectors(&self) -> u64 {
        u64::from(self.ftl.user_units()) * u64::from(self.layout.sectors_per_unit)
    }

    /// Host bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_sectors() * u64::from(self.layout.sector_bytes)
    }

    /// Bytes that stand for one sector in a command's data: 4 (a stamp) with the `none` store, else all.
    pub fn image_bytes(&self) -> usize {
        self.image_bytes
    }

    /// Announces that a command for `lba` will come soon. Changes nothing but the simulator's own speed.
    #[inline]
    pub fn announce(&self, lba: Lba) {
        self.ftl.touch(Lpn(self.layout.unit_of(lba.0).0));
    }

    /// Announces that a read from `lba` on will come at once; the map entry should have been [announced](Device::announce) before. Of
    /// reads that come together each is announced before the first is submitted: the processor waits for the memory of all of
    /// them at the same time then.
    #[inline]
    pub fn announce_read(&self, namespace: u16, lba: Lba) {
        if namespace != self.block_namespace || lba.0 >= self.capacity_sectors() {
            return;
        }
        let ppa = self.ftl.lookup(Lpn(self.layout.unit_of(lba.0).0));
        if ppa.is_some() {
            self.media.touch(ppa);
        }
    }

    /// Whether one of the namespaces is a block namespace, which the page map serves.
    pub fn has_block_namespace(&self) -> bool {
        self.block_namespace != crate::spaces::NO_NAMESPACE
    }

    /// The drive's time.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Commands submitted and not completed.
    pub fn outstanding_commands(&self) -> u32 {
        self.works.in_use() as u32 - self.unretired
    }

    /// Counters since the drive was made.
    pub fn counters(&self) -> Counters {
        Counters {
            suspensions: self.scheduler.suspensions,
            miscorrected_chunks: self.media.miscorrected_chunks(),
            damaged_reads: self.media.damaged_reads(),
            retired_blocks: self.media.retired_blocks(),
            ..self.counters
        }
    }

    /// See [`Media::chunks_by_wrong_bits`]; since the drive was made.
    pub fn chunks_by_wrong_bits(&self) -> &[u64] {
        self.media.chunks_by_wrong_bits()
    }

    /// Blocks of the SLC cache, and those of them that are not free.
    pub fn cache_use(&self) -> (u32, u32) {
        self.ftl.cache_use()
    }

    /// What translation decided; since the drive was made.
    pub fn ftl_counters(&self) -> FtlCounters {
        self.ftl.counters()
    }

    /// What the last mount did, and how long its reads keep the busiest die, each at the slowest page type. The clock does
    /// not run meanwhile. `None`: the media were empty.
    pub fn last_mount(&self) -> Option<(MountReport, Nanos)> {
        let read_ns = self.config.media.timing.read_ns.iter().copied().max().unwrap_or_default();
        self.mounted.map(|mount| (mount, Nanos(mount.busiest_die_reads.saturating_mul(read_ns.0))))
    }

    /// Whether the drive has run out of good blocks, or a zoned namespace of those that its protected buffer needs.
    pub fn is_read_only(&self) -> bool {
        self.read_only || (0..self.spaces.len() as u16).any(|namespace| self.takes_no_writes(namespace))
    }

    /// The same of one namespace.
    pub fn takes_no_writes(&self, namespace: u16) -> bool {
        match self.spaces.get(usize::from(namespace)) {
            Some(Space::Zones(space)) => space.zones.is_short(),
            Some(Space::Chunks(_)) => false,
            Some(Space::Block) | None => self.read_only,
        }
    }

    /// Erased blocks that are waiting, of all namespaces.
    pub fn free_blocks(&self) -> u32 {
        self.ftl.free_blocks() + self.spaces.iter().map(Space::free_blocks).sum::<u32>()
    }

    /// Erase count of every good block: neither bad from the factory nor grown bad.
    pub fn erase_counts(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.layout.blocks)
            .map(BlockId)
            .filter(|&b| self.media.health(b) == Health::Good)
            .map(|b| self.media.erase_count(b))
    }

    /// Blocks bad from the factory, and grown bad.
    pub fn bad_blocks(&self) -> (u32, u32) {
        let count =
            |h| (0..self.layout.blocks).filter(|&b| self.media.health(BlockId(b)) == h).count() as u32;
        (count(Health::FactoryBad), count(Health::GrownBad))
    }

    /// Busy time of every channel.
    pub fn channel_busy(&self) -> Vec<Nanos> {
        self.channel_busy_at(self.now)
    }

    /// Busy time of every die.
    pub fn die_busy(&self) -> Vec<Nanos> {
        self.die_busy_at(self.now)
    }

    /// As [`Device::channel_busy`] at a later moment, up to which nothing more happens.
    pub fn channel_busy_at(&self, at: SimTime) -> Vec<Nanos> {
        self.scheduler.channel_busy(at).collect()
    }

    /// As [`Device::die_busy`] at a later moment, up to which nothing more happens.
    pub fn die_busy_at(&self, at: SimTime) -> Vec<Nanos> {
        self.scheduler.die_busy(at).collect()
    }

    /// Dies that work at this moment, or hold data for the channel.
    pub fn busy_dies(&self) -> u32 {
        self.scheduler.busy_dies()
    }

    /// Busy time of the host link: to the drive, to the host.
    pub fn link_busy(&self) -> [Nanos; 2] {
        self.host.link_busy(self.now)
    }

    /// Busy time of the firmware processor.
    pub fn firmware_busy(&self) -> Nanos {
        Nanos(self.firmware_busy_by_module().iter().map(|time| time.0).sum())
    }

    /// The same by module. Turns of a loop that find nothing are in neither.
    pub fn firmware_busy_by_module(&self) -> [Nanos; FirmwareModule::COUNT] {
        self.firmware.busy(self.now)
    }

    /// Where the newest programmed copy of a logical page lies; `None` for a page that was never written, was trimmed, or lies
    /// beyond the end.
    pub fn locate(&self, lpn: Lpn) -> Option<Ppa> {
        (lpn.0 < self.ftl.user_units()).then(|| self.ftl.lookup(lpn)).filter(|ppa| ppa.is_some())
    }

    /// Whether a logical page holds data: programmed (and perhaps lost), or written and still in the buffer. A page without data
    /// reads as zeros.
    pub fn is_mapped(&self, lpn: Lpn) -> bool {
        let programmed = lpn.0 < self.ftl.user_units() && self.ftl.lookup(lpn) != Ppa::NONE;
        programmed || self.buffer.find(lpn).is_some_and(|entry| self.buffer[entry].dirty != 0)
    }

    /// The media, for tools that look at cells.
    pub fn media(&self) -> &Media {
        &self.media
    }

    /// From now on operations of the media fail by these chances and at these places; factory-bad blocks stay as they are.
    pub fn set_faults(&mut self, faults: Faults) -> Result<(), MediaError> {
        let media = MediaConfig { faults, ..self.config.media.clone() };
        self.media.set_faults(&media)?;
        self.config.media = media;
        Ok(())
    }

    /// The next thing to be told about the media's store.
    pub fn store_notice(&mut self) -> Option<StoreNotice> {
        self.media.store_notice()
    }

    /// What the media's store can come to take.
    pub fn extent(&self) -> Extent {
        self.media.extent()
    }

    /// Writes a file store's changes to its file.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.media.sync()
    }

    /// Bytes of memory that the drive's state takes, by part.
    pub fn memory_bytes(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("translation", if self.has_block_namespace() { self.ftl.memory_bytes() } else { 0 }),
            ("media", self.media.memory_bytes()),
            ("buffer", self.buffer.memory_bytes()),
            ("namespaces", self.spaces.iter().map(Space::memory_bytes).sum()),
            ("commands", self.works.memory_bytes() + self.slices.memory_bytes()),
            ("scheduler", self.scheduler.memory_bytes()),
        ]
    }

    /// Walks the invariants of all parts and panics, naming it, where one is broken. Cost: the whole drive.
    pub fn check(&self) {
        self.ftl.check();
        self.spaces.iter().for_each(Space::check);
        self.buffer.check();
    }
}
