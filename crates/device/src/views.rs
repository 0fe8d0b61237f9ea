//! Outside view of a drive, and its settings: sizes, counters, wear, use. Reading changes nothing.
//!
//! Calls that name a namespace are about that one; the others are about the whole drive, and sum over its namespaces.

use crate::block::BlockNamespace;
use crate::block::precondition::{Filler, NoRoom};
use crate::busy::Busy;
use crate::config::{self, DeviceConfig, Feedback};
use crate::counters::Counters;
use crate::device::Device;
use crate::memory::{ControllerMemory, Structure};
use crate::namespace_view::NamespaceView;
use crate::namespaces::Namespace;
use crate::probes;
use crate::probes::{Probes, Snapshot};
use crate::router::Router;
use crate::shared::Shared;
use crate::timeline::{Timeline, TimelineWindow};
use pellucid_flash::{BlockId, BlockMap, BlockUse, BlockView, Drive, Layout, Lpn, Nanos, SimTime};
use pellucid_ftl::{FtlCounters, Map, MountReport};
use pellucid_media::{Extent, Faults, Health, Media, MediaConfig, MediaError, StoreError, StoreNotice};

/// Adds up the reports of mounts that follow each other; `None`: there was none.
pub(crate) fn add_up(reports: impl Iterator<Item = MountReport>) -> Option<MountReport> {
    reports.reduce(|a, b| MountReport {
        header_reads: a.header_reads + b.header_reads,
        map_page_reads: a.map_page_reads + b.map_page_reads,
        replay_reads: a.replay_reads + b.replay_reads,
        // At most: another die may have been the busiest one.
        busiest_die_reads: a.busiest_die_reads + b.busiest_die_reads,
        mapped_units: a.mapped_units + b.mapped_units,
        lost_units: a.lost_units + b.lost_units,
        forgotten_units: a.forgotten_units + b.forgotten_units,
        undone_units: a.undone_units + b.undone_units,
    })
}

// ---- namespaces

impl Device {
    fn blocks(&self) -> impl Iterator<Item = &BlockNamespace> {
        self.router.namespaces.iter().filter_map(Namespace::block)
    }

    fn block(&self, namespace: u16) -> Option<&BlockNamespace> {
        self.router.namespaces.get(usize::from(namespace))?.block()
    }

    fn block_mut(&mut self, namespace: u16) -> Option<&mut BlockNamespace> {
        self.router.namespaces.get_mut(usize::from(namespace))?.block_mut()
    }

    /// The namespace of this number as seen from outside.
    #[inline]
    pub fn namespace(&self, number: u16) -> NamespaceView<'_> {
        NamespaceView::new(self, number)
    }

    /// Numbers of the block namespaces.
    pub fn block_namespaces(&self) -> impl Iterator<Item = u16> + use<'_> {
        let is_block = |namespace: &Namespace| matches!(namespace, Namespace::Block(_));
        (0..).zip(&self.router.namespaces).filter(move |(_, namespace)| is_block(namespace)).map(|(n, _)| n)
    }

    /// Host bytes of all block namespaces.
    pub fn capacity_bytes(&self) -> u64 {
        let sectors: u64 =
            self.blocks().map(|block| block.capacity_sectors(&self.router.shared.layout)).sum();
        sectors * u64::from(self.router.shared.layout.sector_bytes)
    }

    /// Returns whether any namespace is read-only: a block namespace without enough good blocks, or a zoned namespace without the blocks
    /// that its protected buffer needs.
    pub fn is_read_only(&self) -> bool {
        self.router.namespaces.iter().any(Namespace::takes_no_writes)
    }

    /// Blocks of the SLC caches of these namespaces, and those of them that are not free.
    pub fn cache_use(&self, namespaces: impl IntoIterator<Item = u16>) -> (u32, u32) {
        let blocks = namespaces.into_iter().filter_map(|namespace| self.block(namespace));
        let uses = blocks.map(|block| block.translation().view().cache);
        uses.fold((0, 0), |sum, cache| (sum.0 + cache.blocks, sum.1 + cache.used))
    }

    /// Returns the translation counters of all block namespaces, since the drive was made.
    pub fn ftl_counters(&self) -> FtlCounters {
        let mut sum = FtlCounters::default();
        self.blocks().for_each(|block| sum.add(&block.translation().view().counters));
        sum
    }

    /// Returns the report of the last mount, and how long its reads keep the busiest die, each at the slowest page type. The clock does not
    /// run meanwhile. `None`: the media were empty.
    pub fn last_mount(&self) -> Option<(MountReport, Nanos)> {
        self.timed(add_up(self.blocks().filter_map(|block| block.mounted()))?)
    }

    pub(crate) fn timed(&self, mount: MountReport) -> Option<(MountReport, Nanos)> {
        let read_ns =
            self.router.shared.config.media.timing.read_ns.iter().copied().max().unwrap_or_default();
        Some((mount, Nanos(mount.busiest_die_reads.saturating_mul(read_ns.0))))
    }

    /// Returns whether the drive is idle and only waits for the time to fold its SLC cache.
    pub fn waits_to_fold(&self) -> bool {
        let idle = self.blocks().filter(|block| block.awaits_idleness()).count();
        idle > 0 && self.router.shared.events.count() == idle
    }

    /// Sets the notifications of an open-channel namespace; returns whether the namespace is one.
    pub fn set_feedback(&mut self, namespace: u16, feedback: Feedback) -> bool {
        match self.router.namespaces.get_mut(usize::from(namespace)) {
            Some(Namespace::Chunks(n)) => {
                n.feedback = feedback;
                true
            }
            _ => false,
        }
    }

    /// From now on a namespace keeps events of these kinds, and no others.
    pub fn enable_placement_events(&mut self, namespace: u16, kinds: u8) {
        if let Some(block) = self.block_mut(namespace) {
            block.placement_mut().enable(kinds);
        }
    }

    /// Writes one mapping unit; `image` holds the sector images of the unit. Call [`Device::fill_end`] after the last.
    #[inline]
    pub fn fill_unit(&mut self, filler: &mut Filler, lpn: Lpn, image: &[u8]) -> Result<(), NoRoom> {
        let (block, shared) = self.fills(filler)?;
        block.fill_unit(shared, filler, lpn, image)
    }

    /// Programs what [`Device::fill_unit`] still holds.
    pub fn fill_end(&mut self, filler: &mut Filler) -> Result<(), NoRoom> {
        let (block, shared) = self.fills(filler)?;
        block.fill_end(shared, filler)
    }

    /// Returns the namespace that is filled; a missing one has no space.
    #[inline]
    fn fills(&mut self, filler: &Filler) -> Result<(&mut BlockNamespace, &mut Shared), NoRoom> {
        let Router { shared, namespaces, .. } = &mut self.router;
        let found = namespaces.get_mut(usize::from(filler.namespace)).and_then(Namespace::block_mut);
        Ok((found.ok_or(NoRoom)?, shared))
    }
}

// ---- the drive as a whole

impl Device {
    /// Returns the description that the drive was made from.
    pub fn config(&self) -> &DeviceConfig {
        &self.router.shared.config
    }

    /// The media's shape.
    pub fn layout(&self) -> &Layout {
        &self.router.shared.layout
    }

    /// Bytes that stand for one sector in a command's data: 4 (a stamp) with the `none` store, else all.
    pub fn image_bytes(&self) -> usize {
        self.router.shared.image_bytes
    }

    /// The drive's time.
    pub fn now(&self) -> SimTime {
        self.router.shared.now
    }

    /// Commands submitted and not completed.
    pub fn outstanding_commands(&self) -> u32 {
        self.router.shared.works.in_use() as u32 - self.router.shared.fetched.unretired()
    }

    /// See [`Media::chunks_by_wrong_bits`]; since the drive was made.
    pub fn chunks_by_wrong_bits(&self) -> &[u64] {
        self.router.shared.media.chunks_by_wrong_bits()
    }

    /// Blocks bad from the factory, and grown bad.
    pub fn bad_blocks(&self) -> (u32, u32) {
        let count = |h| {
            (0..self.router.shared.layout.blocks)
                .filter(|&b| self.router.shared.media.array().health(BlockId(b)) == h)
                .count() as u32
        };
        (count(Health::FactoryBad), count(Health::GrownBad))
    }

    /// How long its parts have worked until now.
    pub fn busy(&self) -> Busy<'_> {
        self.busy_at(self.router.shared.now)
    }

    /// As [`Device::busy`], until a later moment, up to which nothing more happens.
    pub fn busy_at(&self, at: SimTime) -> Busy<'_> {
        Busy::new(&self.router.shared, at)
    }

    /// The media, for tools that look at cells.
    pub fn media(&self) -> &Media {
        &self.router.shared.media
    }

    /// From now on operations of the media fail by these chances and at these places; factory-bad blocks stay as they are.
    pub fn set_faults(&mut self, faults: Faults) -> Result<(), MediaError> {
        let media = MediaConfig { faults, ..self.router.shared.config.media.clone() };
        self.router.shared.media.set_faults(&media)?;
        self.router.shared.config.media = media;
        Ok(())
    }

    /// The next thing to be told about the media's store.
    pub fn store_notice(&mut self) -> Option<StoreNotice> {
        self.router.shared.media.store_mut().notice()
    }

    /// Returns the limits of the memory and disk space that the media's store can come to use.
    pub fn extent(&self) -> Extent {
        self.router.shared.media.store().extent()
    }

    /// Writes a file store's changes to its file.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.router.shared.media.store_mut().sync()
    }

    /// Counters since the drive was made, of all namespaces.
    pub fn counters(&self) -> Counters {
        self.router.shared.counters()
    }

    /// Power cuts that the drive has come back from; a cheap part of [`Device::counters`].
    pub fn power_cuts(&self) -> u64 {
        self.router.shared.tally.power_cuts()
    }

    /// Counters from zero: what was done to fill the drive is not part of what follows.
    pub fn reset_counters(&mut self) {
        self.router.shared.reset_counters();
        for block in self.router.namespaces.iter_mut().filter_map(Namespace::block_mut) {
            block.set_counters(FtlCounters::default());
        }
        if self.is_watched() {
            self.watch();
        }
    }

    /// Erased blocks that are waiting, of all namespaces.
    pub fn free_blocks(&self) -> u32 {
        self.router.namespaces.iter().map(Namespace::free_blocks).sum()
    }

    /// The blocks as they are now, and what the drive has done. Cost: a walk over all blocks.
    pub fn block_map(&self) -> BlockMap {
        let Shared { layout, config, media, .. } = &self.router.shared;
        let mut blocks = vec![BlockView::default(); layout.blocks as usize];
        for (namespace, described) in self.router.namespaces.iter().zip(&config.namespaces) {
            namespace.view_blocks(layout, described.blocks(), &mut blocks);
        }
        for (view, block) in blocks.iter_mut().zip((0..).map(BlockId)) {
            view.erases = media.array().erase_count(block);
            if media.array().health(block) != Health::Good {
                view.usage = BlockUse::Bad;
            }
        }
        let (counters, ftl, sector) = (self.counters(), self.ftl_counters(), u64::from(layout.sector_bytes));
        BlockMap {
            channels: layout.channels,
            dies_per_channel: layout.dies_per_channel,
            blocks_per_die: layout.blocks_per_die,
            units_per_block: layout.units_per_block,
            victims: ftl.gc_victims(),
            copied_units: ftl.copied_units,
            host_written_bytes: counters.host_written_sectors * sector,
            programmed_bytes: counters.programmed_sectors.iter().sum::<u64>() * sector,
            free_blocks: self.free_blocks(),
            blocks,
        }
    }

    /// Erase count of every good block: neither bad from the factory nor grown bad.
    pub fn erase_counts(&self) -> impl Iterator<Item = u32> + '_ {
        probes::erase_counts(&self.router.shared)
    }

    /// Ages stored data by so many seconds at once, as on a shelf.
    pub fn elapse(&mut self, seconds: u64) {
        self.router.shared.media.elapse(seconds);
    }

    /// Starts recording the data of [`crate::Probes`], beginning at zero. Costs one walk over the blocks now, and a few
    /// nanoseconds per event afterwards. Does not change the drive's behaviour.
    pub fn watch(&mut self) {
        probes::watch(&mut self.router.shared);
    }

    /// The drive notes nothing more, and forgets what it noted.
    pub fn unwatch(&mut self) {
        probes::unwatch(&mut self.router.shared);
    }

    fn probes(&self) -> Option<&Probes> {
        self.router.shared.observers.as_ref()?.probes()
    }

    /// From now on the drive records a [`Timeline`], from nothing. Costs a look at every channel and way for each event, and memory for
    /// each entry. Changes nothing that the drive does.
    pub fn record_timeline(&mut self, window: TimelineWindow) {
        probes::record_timeline(&mut self.router.shared, window);
    }

    /// Ends the timeline, if one is recorded, and hands it out.
    pub fn take_timeline(&mut self) -> Option<Timeline> {
        probes::take_timeline(&mut self.router.shared)
    }

    /// Returns whether the drive's probes are on.
    pub fn is_watched(&self) -> bool {
        self.probes().is_some()
    }

    /// The drive as it is now. Changes nothing.
    pub fn snapshot(&self) -> Snapshot {
        let interfaces = (0..self.namespaces()).filter_map(|namespace| self.interface(namespace));
        let sectors: u64 = interfaces.map(|interface| interface.capacity_sectors()).sum();
        Snapshot {
            at: self.now(),
            counters: self.counters(),
            ftl: self.ftl_counters(),
            chunks_by_wrong_bits: self.chunks_by_wrong_bits().to_vec(),
            channels: self.router.shared.scheduler.work().channel_views(self.now()).collect(),
            ways: self.router.shared.scheduler.work().way_views(self.now()).collect(),
            outstanding_commands: self.outstanding_commands(),
            free_blocks: self.free_blocks(),
            blocks: self.layout().blocks,
            read_only: self.is_read_only(),
            link_busy: self.busy().link(),
            firmware_busy: self.busy().firmware_by_module(),
            processors: self.router.shared.firmware.processors() as u32,
            sector_bytes: self.layout().sector_bytes,
            capacity_bytes: sectors * u64::from(self.layout().sector_bytes),
            probes: self.probes().map(Probes::settled),
        }
    }

    /// Bytes of memory that the drive's state takes, by part.
    pub fn memory_bytes(&self) -> Vec<(&'static str, u64)> {
        let shared = &self.router.shared;
        let views = || self.blocks().map(|block| block.translation().view());
        vec![
            ("mapping table", views().map(|view| view.map_bytes).sum()),
            ("block tables", views().map(|view| view.memory_bytes - view.map_bytes).sum()),
            ("media", shared.media.store().memory_bytes()),
            ("buffer", self.blocks().map(|block| block.buffer_bytes()).sum()),
            ("namespaces", self.router.namespaces.iter().map(Namespace::memory_bytes).sum()),
            ("commands", shared.works.memory_bytes() + shared.slices.memory_bytes()),
            ("scheduler", shared.scheduler.work().memory_bytes()),
        ]
    }

    /// Memory of the controller by structure, as it is described: this is what reports show and limits are held against.
    pub fn controller_memory(&self) -> ControllerMemory {
        let Shared { layout, config, .. } = &self.router.shared;
        let parts = self.memory_bytes();
        let part = |name| parts.iter().filter(|part| part.0 == name).map(|part| part.1).sum();
        let units_per_block = u64::from(layout.units_per_block) * u64::from(layout.dies);
        let map_bytes = |(namespace, described): (&Namespace, &config::Namespace)| {
            let own = namespace.block().map_or(0, |block| block.translation().view().map_bytes);
            match (config.memory.map_unit_bytes, described) {
                (Some(bytes), config::Namespace::Block { blocks }) if config.ftl.map == Map::Page => {
                    u64::from(bytes) * blocks.len() as u64 * units_per_block
                }
                _ => own,
            }
        };
        let entries = u64::from(config.buffer.entries) + u64::from(config.buffer.read_entries);
        let has_buffer = self.blocks().next().is_some();
        let buffer = if has_buffer { entries * u64::from(layout.unit_bytes) } else { 0 };
        let mut memory = ControllerMemory::default();
        memory.set(
            Structure::MappingTable,
            self.router.namespaces.iter().zip(&config.namespaces).map(map_bytes).sum(),
        );
        memory.set(Structure::BlockTables, part("block tables"));
        memory.set(Structure::ChunkTables, part("namespaces"));
        memory.set(Structure::DataBuffer, buffer);
        memory
    }

    /// Walks the invariants of all parts and panics, naming it, where one is broken. Cost: the whole drive.
    pub fn check(&self) {
        self.router.namespaces.iter().for_each(|namespace| namespace.check(&self.router.shared));
    }
}
