//! The namespaces of a drive: the blocks and the implementation of each.
//!
//! Every namespace has the same blocks of every die, so all of them share all channels and dies. To the translation of a block
//! namespace the blocks of others are bad ones; to the others they do not exist.

use crate::back::operations::erase_now;
use crate::block::BlockNamespace;
use crate::block::cache::CacheNamespace;
use crate::block::mount::Source;
use crate::config::{self, CacheConfig, DeviceConfig};
use crate::direct::DirectPath;
use crate::direct::chunks::ChunkNamespace;
use crate::direct::nameless::NamelessNamespace;
use crate::direct::zone_buffer::ZoneNamespace;
use crate::direct::zone_save::{SaveArea, save_bytes};
use crate::error::DeviceError;
use crate::shared::Shared;
use pellucid_flash::{
    BlockId, BlockView, ChunkGeometry, Command, Interface, Layout, Lba, Nanos, Notice, Status, Vector,
};
use pellucid_ftl::{
    Checkpoint, Chunks, Management, Map, MapLog, Mark, MountReport, NamelessMachine, Separation, ZoneConfig,
};
use pellucid_media::{Media, StoreKind, Timing};
use std::ops::Range;

/// One namespace, with all that is its own.
#[derive(Clone, Debug)]
pub(crate) enum Namespace {
    /// Sectors in any order, through a buffer and translation.
    Block(Box<BlockNamespace>),
    /// Solid-state cache.
    Cache(Box<CacheNamespace>),
    /// Open-channel.
    Chunks(Box<ChunkNamespace>),
    /// Nameless writes.
    Nameless(Box<NamelessNamespace>),
    /// Zoned.
    Zones(Box<ZoneNamespace>),
}

/// Makes the same call to a namespace of any kind; to the blocks of a cache.
macro_rules! each {
    ($self:ident, $namespace:ident => $call:expr) => {
        match $self {
            Namespace::Block($namespace) => $call,
            Namespace::Cache(cache) => {
                let $namespace = cache.blocks_mut();
                $call
            }
            Namespace::Chunks($namespace) => $call,
            Namespace::Nameless($namespace) => $call,
            Namespace::Zones($namespace) => $call,
        }
    };
}

impl Namespace {
    /// A command has come, to this namespace or another one.
    #[inline]
    pub fn command_comes(&mut self) {
        if let Some(block) = self.block_mut() {
            block.command_comes();
        }
    }

    /// Gives handle 0 to a write that names one that does not exist.
    #[inline]
    pub fn settle_handle(&mut self, shared: &Shared, command: &mut Command) {
        if let Some(block) = self.block_mut() {
            block.settle_handle(shared, command);
        }
    }

    /// Why a command cannot be accepted.
    #[inline]
    pub fn refuse(&self, shared: &Shared, command: &Command) -> Option<Status> {
        match self {
            Namespace::Block(n) => n.refuse(shared, command),
            Namespace::Cache(n) => n.refuse(shared, command),
            Namespace::Chunks(n) => n.refuse(shared, command),
            Namespace::Nameless(n) => n.refuse(shared, command),
            Namespace::Zones(n) => n.refuse(shared, command),
        }
    }

    /// The firmware has taken a command.
    #[inline]
    pub fn start(&mut self, shared: &mut Shared, work: u32) {
        match self {
            Namespace::Block(n) => n.start(shared, work),
            Namespace::Cache(n) => n.start(shared, work),
            Namespace::Chunks(n) => n.start(shared, work),
            Namespace::Nameless(n) => n.start(shared, work),
            Namespace::Zones(n) => n.start(shared, work),
        }
    }

    /// The firmware has looked at a slice.
    #[inline]
    pub fn slice_known(&mut self, shared: &mut Shared, slice: u32) {
        each!(self, n => n.slice_known(shared, slice))
    }

    /// The firmware has the data of a slice moved.
    #[inline]
    pub fn start_dma(&mut self, shared: &mut Shared, slice: u32) {
        each!(self, n => n.start_dma(shared, slice))
    }

    /// The data of a slice have crossed the host link, and the firmware knows.
    #[inline]
    pub fn dma_done(&mut self, shared: &mut Shared, slice: u32) {
        each!(self, n => n.dma_done(shared, slice))
    }

    /// The array starts on an operation of the namespace, and the media change. For how long.
    #[inline]
    pub fn begins(&mut self, shared: &mut Shared, op: u32) -> Nanos {
        each!(self, n => n.begins(shared, op))
    }

    /// The data of a read of the namespace are in the controller.
    #[inline]
    pub fn arrived(&mut self, shared: &mut Shared, op: u32) {
        each!(self, n => n.arrived(shared, op))
    }

    /// The array has ended an operation of the namespace that is no read, and the firmware knows.
    #[inline]
    pub fn ended(&mut self, shared: &mut Shared, op: u32) {
        each!(self, n => n.ended(shared, op))
    }

    /// The controller has moved the data of a slice, and may complete its command by itself.
    pub fn link_done(&mut self, shared: &mut Shared, slice: u32) {
        if let Some(block) = self.block_mut() {
            block.link_done(shared, slice);
        }
    }

    /// Returns whether [`Namespace::go_on`] has nothing to do.
    #[inline(always)]
    pub fn is_calm(&self, shared: &Shared) -> bool {
        match self {
            Namespace::Block(block) => block.is_calm(shared),
            Namespace::Cache(cache) => cache.blocks().is_calm(shared),
            Namespace::Chunks(_) | Namespace::Nameless(_) | Namespace::Zones(_) => true,
        }
    }

    /// Lets go on what waits in the namespace until everything else is done. `true`: something did, and all is to be asked again.
    #[inline(always)]
    pub fn go_on(&mut self, shared: &mut Shared) -> bool {
        match self {
            Namespace::Block(block) => block.go_on(shared),
            Namespace::Cache(cache) => cache.blocks_mut().go_on(shared),
            Namespace::Chunks(_) | Namespace::Nameless(_) | Namespace::Zones(_) => false,
        }
    }

    /// The time of an idle drive has passed, unless commands have come meanwhile.
    pub fn idle_for_long(&mut self, shared: &mut Shared) {
        match self {
            Namespace::Block(block) => block.idle_for_long(shared),
            Namespace::Cache(cache) => cache.idle_for_long(shared),
            Namespace::Chunks(_) | Namespace::Nameless(_) | Namespace::Zones(_) => {}
        }
    }

    /// Memory runs short: outdated data are discarded.
    pub fn forget_some(&mut self, shared: &mut Shared) {
        if let Some(block) = self.block_mut() {
            block.forget_some(shared);
        }
    }

    /// Handles a stuck drive: resumes writes that waited for space, or other writes ahead of them. `false`: no write
    /// could resume.
    pub fn let_in(&mut self, shared: &mut Shared) -> bool {
        self.block_mut().is_some_and(|block| block.let_in(shared))
    }

    /// Nothing can happen any more: commands that wait for space are given up.
    pub fn give_up_if_stuck(&mut self, shared: &mut Shared) {
        if let Some(block) = self.block_mut() {
            block.give_up_if_stuck(shared);
        }
    }

    /// Returns whether commands of the namespace may wait for something that never happens.
    pub fn may_be_stuck(&self) -> bool {
        matches!(self, Namespace::Block(_) | Namespace::Cache(_) | Namespace::Nameless(_))
    }

    /// Returns whether the namespace has its own spare blocks, which can be used up.
    pub fn has_spare_blocks(&self) -> bool {
        self.block().is_some()
    }

    /// Dies have died, or all flash is spent.
    pub fn flash_died(&mut self, shared: &mut Shared) {
        if let Some(block) = self.block_mut() {
            block.flash_died(shared);
        }
    }

    /// Report of the last mount; `None`: the media were empty, or it reports none.
    pub fn mounted(&self) -> Option<MountReport> {
        self.block()?.mounted()
    }

    /// It has been mounted anew after a power cut that ended `before`, whose losses it adds to the report.
    pub fn follow(&mut self, before: Namespace, media: &Media, report: &mut MountReport) {
        if let Some(before) = before.block() {
            before.add_losses(report);
        }
        match (self, before) {
            (Namespace::Block(block), Namespace::Block(before)) => block.follow(*before, media),
            (Namespace::Cache(cache), Namespace::Cache(before)) => cache.follow(*before, media),
            _ => {}
        }
    }

    /// Returns the interface that hosts see.
    pub fn interface(&self, shared: &Shared) -> Interface {
        match self {
            Namespace::Block(n) => Interface::Block {
                sectors: n.capacity_sectors(&shared.layout),
                handles: shared.config.ftl.handles,
            },
            Namespace::Cache(n) => Interface::Cache(n.geometry(&shared.layout)),
            Namespace::Chunks(n) => Interface::OpenChannel(*n.chunks.geometry()),
            Namespace::Nameless(n) => Interface::Nameless(n.machine.geometry()),
            Namespace::Zones(n) => Interface::Zoned(*n.zones.geometry()),
        }
    }

    /// Returns whether it ever tells something by itself.
    pub fn tells(&self) -> bool {
        !matches!(self, Namespace::Block(_) | Namespace::Cache(_))
    }

    /// How many things of its own wait to be told; chunk notices go through [`Shared::notices`].
    pub fn notices(&self) -> usize {
        match self {
            Namespace::Nameless(n) => n.machine.moves_to_tell(),
            Namespace::Zones(n) => n.zones.changed(),
            _ => 0,
        }
    }

    /// The next thing that it tells by itself; chunk notices go through [`Shared::notices`].
    #[inline]
    pub fn pop_notice(&mut self) -> Option<Notice> {
        match self {
            Namespace::Block(_) | Namespace::Cache(_) | Namespace::Chunks(_) => None,
            Namespace::Nameless(n) => n.machine.next_move().map(|(old, new)| Notice::Moved { old, new }),
            Namespace::Zones(n) => {
                let zone = n.zones.pop_changed()?;
                Some(Notice::ZoneChanged(Lba(u64::from(zone) * n.zones.geometry().zone_sectors)))
            }
        }
    }

    pub fn memory_bytes(&self) -> u64 {
        match self {
            Namespace::Block(_) | Namespace::Cache(_) => 0,
            Namespace::Chunks(n) => n.chunks.memory_bytes(),
            Namespace::Nameless(n) => n.memory_bytes(),
            Namespace::Zones(n) => n.memory_bytes(),
        }
    }

    /// Erased blocks that are waiting.
    pub fn free_blocks(&self) -> u32 {
        match self {
            Namespace::Block(n) => n.translation().free_blocks(),
            Namespace::Cache(n) => n.blocks().translation().free_blocks(),
            Namespace::Chunks(n) => n.chunks.free_blocks(),
            Namespace::Nameless(n) => n.machine.engine().free_blocks(),
            Namespace::Zones(n) => n.zones.free_blocks(),
        }
    }

    /// Adds its blocks, of which it has `of_die` of every die, to the view of an observer; erase counts are the media's to tell.
    pub fn view_blocks(&self, layout: &Layout, of_die: &Range<u32>, views: &mut [BlockView]) {
        let own =
            (0..layout.dies).flat_map(|die| of_die.clone().map(move |b| die * layout.blocks_per_die + b));
        let mut add = |(block, part): (BlockId, BlockView)| {
            let view = &mut views[block.0 as usize];
            (view.usage, view.stream) = (view.usage.max(part.usage), part.stream);
            view.units = (view.units + part.units).min(layout.units_per_block);
        };
        match self {
            Namespace::Block(n) => {
                own.map(BlockId).for_each(|block| add((block, n.translation().block_view(block))))
            }
            Namespace::Cache(n) => {
                let translation = n.blocks().translation();
                own.map(BlockId).for_each(|block| add((block, translation.block_view(block))));
            }
            Namespace::Nameless(n) => n.block_views().for_each(add),
            Namespace::Chunks(n) => n.chunks.block_views().for_each(add),
            Namespace::Zones(n) => n.zones.block_views().for_each(add),
        }
    }

    /// Returns whether data wait for space in its buffer.
    #[inline]
    pub fn awaits_room(&self) -> bool {
        match self {
            Namespace::Block(n) => n.awaits_room(),
            Namespace::Cache(n) => n.blocks().awaits_room(),
            Namespace::Chunks(_) | Namespace::Nameless(_) => false,
            Namespace::Zones(n) => !n.starved.is_empty(),
        }
    }

    /// Returns whether the namespace is read-only because it lacks good blocks.
    pub fn takes_no_writes(&self) -> bool {
        match self {
            Namespace::Block(n) => n.is_read_only(),
            Namespace::Cache(n) => n.blocks().is_read_only(),
            Namespace::Chunks(_) => false,
            Namespace::Nameless(n) => n.machine.is_read_only(),
            Namespace::Zones(n) => n.zones.is_short(),
        }
    }

    pub fn check(&self, shared: &Shared) {
        match self {
            Namespace::Block(n) => n.check(shared),
            Namespace::Cache(n) => n.blocks().check(shared),
            Namespace::Chunks(n) => n.chunks.check(),
            Namespace::Nameless(n) => n.check(),
            Namespace::Zones(n) => n.check(),
        }
    }

    /// The block namespace, or that of a cache.
    #[inline]
    pub fn block(&self) -> Option<&BlockNamespace> {
        match self {
            Namespace::Block(n) => Some(n),
            Namespace::Cache(n) => Some(n.blocks()),
            _ => None,
        }
    }

    /// As [`Namespace::block`], to change it.
    #[inline]
    pub fn block_mut(&mut self) -> Option<&mut BlockNamespace> {
        match self {
            Namespace::Block(n) => Some(n),
            Namespace::Cache(n) => Some(n.blocks_mut()),
            _ => None,
        }
    }

    /// The power fails: buffers that are protected are written to their logs meanwhile.
    pub fn power_fails(&mut self, media: &mut Media, layout: &Layout) {
        if let Namespace::Zones(zones) = self
            && zones.protected
        {
            zones.save(media, layout);
        }
    }

    /// A command that a nameless namespace gave its chunks has ended.
    pub fn inner_ended(&mut self, shared: &mut Shared, work: u32) {
        self.nameless_mut().expect("it gave the command").inner_ended(shared, work);
    }

    /// Commands have perhaps waited for the host as long as they may.
    pub fn host_awaited(&mut self, shared: &mut Shared) {
        self.nameless_mut().expect("its commands wait for the host").host_awaited(shared);
    }

    /// Commands that wait for the host, as nameless writes do for an acknowledgement, end; `true`: some did.
    pub fn give_up_waiting(&mut self, shared: &mut Shared) -> bool {
        self.nameless_mut().is_some_and(|nameless| nameless.give_up_waiting(shared))
    }

    /// Takes the state that a power cut leaves beside the media: the checkpoint of a nameless namespace whose media keep no data.
    pub fn take_kept(&mut self) -> Option<Vec<u8>> {
        self.nameless_mut()?.machine.take_kept()
    }

    pub fn nameless(&self) -> Option<&NamelessNamespace> {
        match self {
            Namespace::Nameless(n) => Some(n),
            _ => None,
        }
    }

    pub fn nameless_mut(&mut self) -> Option<&mut NamelessNamespace> {
        match self {
            Namespace::Nameless(n) => Some(n),
            _ => None,
        }
    }

    pub fn chunks(&self) -> Option<&ChunkNamespace> {
        match self {
            Namespace::Chunks(n) => Some(n),
            _ => None,
        }
    }
}

/// Returns the description with derived values filled in: the single namespace of a drive that describes none, and the user
/// capacity of the only block namespace if it does not have all blocks.
pub(crate) fn complete(config: &DeviceConfig, layout: &Layout) -> Result<DeviceConfig, DeviceError> {
    let mut config = config.clone();
    if config.namespaces.is_empty() {
        config.namespaces.push(config::Namespace::Block { blocks: 0..layout.blocks_per_die });
    }
    check(&config, layout)?;
    let block: Vec<_> = config.block_namespaces().cloned().collect();
    if let [blocks] = &block[..] {
        config.ftl = config.ftl_of(blocks, layout);
    }
    Ok(config)
}

fn check(config: &DeviceConfig, layout: &Layout) -> Result<(), DeviceError> {
    let refuse = |key, allowed| Err(DeviceError::Setting { key, allowed });
    let mut taken: Vec<_> = config.namespaces.iter().map(config::Namespace::blocks).collect();
    taken.sort_by_key(|blocks| blocks.start);
    let inside = taken.iter().all(|b| b.start < b.end && b.end <= layout.blocks_per_die);
    if !inside || taken.windows(2).any(|pair| pair[0].end > pair[1].start) {
        return refuse("drive.namespace.blocks", "blocks of a die that no other namespace has, at least one");
    }
    if config.namespaces.len() > usize::from(u16::MAX) {
        return refuse("drive.namespace", "at most 65535 namespaces");
    }
    for namespace in &config.namespaces {
        if let config::Namespace::Cache { cache, .. } = namespace {
            check_cache(cache, config, layout)?;
        }
        if let config::Namespace::Zoned { zones } = namespace {
            check_zones(zones, config, layout)?;
        }
        if let config::Namespace::OpenChannel { chunks, .. } = namespace {
            if config.media.metadata_bytes as usize != Vector::METADATA_BYTES {
                return refuse("drive.media.metadata_bytes", "16 with an open-channel namespace");
            }
            let spare = match chunks.management {
                Management::Host => 0,
                Management::Shared { spare_blocks } => spare_blocks as usize,
            };
            if spare >= chunks.blocks.len() {
                return refuse("drive.namespace.spare_blocks", "fewer than the namespace has of a die");
            }
            if chunks.write_optimal_superpages == 0
                || chunks.write_optimal_superpages > layout.superpages_per_block
            {
                return refuse("drive.namespace.write_optimal", "1 to the programs of a block");
            }
        }
    }
    Ok(())
}

fn check_cache(cache: &CacheConfig, config: &DeviceConfig, layout: &Layout) -> Result<(), DeviceError> {
    let units = cache.address_sectors / u64::from(layout.sectors_per_unit);
    let aligned = cache.address_sectors.is_multiple_of(layout.sectors_per_unit.into());
    for (ok, key, allowed) in [
        (
            aligned && (1..=CacheConfig::ADDRESS_UNITS_MAX).contains(&units),
            "drive.namespace.address_space",
            "whole mapping units, at least one and at most 2^31 - 2^26 of them",
        ),
        (
            !matches!(config.ftl.map, Map::Demand { .. }),
            "drive.ftl.map",
            "\"page\", \"bast\" or \"fast\" with a cache namespace",
        ),
        (
            config.ftl.map == Map::Page || cache.log == MapLog::SpareArea,
            "drive.namespace.log",
            "\"spare-area\" with log blocks",
        ),
        (
            config.ftl.map == Map::Page || cache.checkpoint == Checkpoint::Rolling,
            "drive.namespace.checkpoint",
            "\"rolling\" with log blocks",
        ),
        (config.ftl.handles == 1, "drive.ftl.handles", "1 with a cache namespace"),
        (config.ftl.slc_cache.is_none(), "drive.ftl.slc_cache.blocks", "0 with a cache namespace"),
        (
            config.ftl.separation != Separation::Frequency,
            "drive.ftl.separation",
            "off or collected with a cache namespace; its eviction says which",
        ),
    ] {
        if !ok {
            return Err(DeviceError::Setting { key, allowed });
        }
    }
    Ok(())
}

fn check_zones(zones: &ZoneConfig, config: &DeviceConfig, layout: &Layout) -> Result<(), DeviceError> {
    for (ok, key, allowed) in [
        (
            config.media.metadata_bytes as usize * layout.sectors_per_unit as usize >= Mark::BYTES,
            "drive.media.metadata_bytes",
            "16 in a mapping unit with a zoned namespace",
        ),
        (
            zones.dies_per_zone >= 1 && layout.dies.is_multiple_of(zones.dies_per_zone),
            "drive.namespace.dies_per_zone",
            "a divisor of the dies of the drive",
        ),
        (
            zones.spare_blocks >= 1 && (zones.spare_blocks as usize) < zones.blocks.len(),
            "drive.namespace.spare_blocks",
            "at least 1, and fewer than the namespace has of a die",
        ),
        (
            zones.active_max == 0 || zones.open_max <= zones.active_max,
            "drive.namespace.open_max",
            "at most active_max",
        ),
        (
            zones.active_max >= 1 && zones.stage_superpages > zones.active_max,
            "drive.namespace.stage",
            "more superpages than active_max, which must be limited: each active zone can hold one partly written",
        ),
        (
            zones.protected || zones.active_max <= layout.superpages_per_block / 2,
            "drive.namespace.active_max",
            "at most half of the superpages of a block: the staging log holds one for each",
        ),
        (
            zones.spare_blocks * layout.dies >= zones.spare_least(layout.superpages_per_block),
            "drive.namespace.spare_blocks",
            "with a protected buffer, in all dies together the blocks that its superpages fill, and 3",
        ),
        (
            u64::from(zones.append_max_sectors) * u64::from(layout.sector_bytes)
                >= ZoneConfig::APPEND_MAX_BYTES_LEAST,
            "drive.namespace.append_max",
            "sectors of 8 KiB at least, the shortest limit that hosts can be told (ZASL 1)",
        ),
        (
            !matches!(config.media.store, StoreKind::File(_))
                || config.media.save_bytes >= save_bytes(&config.namespaces, layout),
            "drive.media.save_bytes",
            "with a file store and a protected buffer, what save_bytes() says",
        ),
    ] {
        if !ok {
            return Err(DeviceError::Setting { key, allowed });
        }
    }
    Ok(())
}

/// Makes the namespaces from what the media hold. `keep`: also what a drive would forget whose own contract is to. `kept`: what those
/// before a power cut hand on, where the media keep no data ([`NamelessNamespace`]).
pub(crate) fn mount(
    config: &DeviceConfig,
    layout: &Layout,
    media: &mut Media,
    keep: bool,
    mut kept: Vec<Option<Vec<u8>>>,
) -> Result<Vec<Namespace>, DeviceError> {
    let mut namespaces = Vec::with_capacity(config.namespaces.len());
    for (number, namespace) in (0..).zip(&config.namespaces) {
        namespaces.push(match namespace {
            config::Namespace::Block { blocks } => {
                let block = BlockNamespace::mount(number, config, blocks, layout, media, keep)?;
                Namespace::Block(Box::new(block))
            }
            config::Namespace::Cache { blocks, cache } => {
                let cache = CacheNamespace::mount(number, config, cache, blocks, layout, media, keep)?;
                Namespace::Cache(Box::new(cache))
            }
            config::Namespace::OpenChannel { chunks, feedback } => {
                let times = times(&config.media.timing, chunks.write_optimal_superpages);
                let source =
                    Source { media, blocks: chunks.blocks.clone(), blocks_per_die: layout.blocks_per_die };
                let (mut chunks, erase) = Chunks::mount(chunks, layout, times, &source);
                for block in erase {
                    let ok = erase_now(media, block);
                    chunks.erased_at_mount(block, ok, media.array().erase_count(block));
                }
                Namespace::Chunks(Box::new(ChunkNamespace::new(number, chunks, *feedback)))
            }
            config::Namespace::Nameless { blocks, ftl } => {
                let kept = kept.get_mut(usize::from(number)).and_then(Option::take);
                let source = Source { media, blocks: blocks.clone(), blocks_per_die: layout.blocks_per_die };
                let chunks = NamelessMachine::chunks(blocks.clone());
                let (chunks, _) = Chunks::mount(&chunks, layout, times(&config.media.timing, 1), &source);
                let nameless = NamelessNamespace::mount(
                    (number, ftl),
                    chunks,
                    layout,
                    (media, config.scheduler.read_retries),
                    kept,
                )?;
                Namespace::Nameless(Box::new(nameless))
            }
            config::Namespace::Zoned { zones } => {
                let saved = SaveArea::open(&config.namespaces, number.into(), layout, media);
                Namespace::Zones(Box::new(ZoneNamespace::mount(number, zones, layout, media, saved)))
            }
        });
    }
    Ok(namespaces)
}

/// Typical and longest times of a geometry; the maker of the chunks fills in the rest.
fn times(timing: &Timing, write_optimal_superpages: u32) -> ChunkGeometry {
    let range = |times: &[Nanos], count: u32| {
        let sum: u64 = times.iter().map(|t| t.0).sum();
        let longest = times.iter().copied().max().unwrap_or_default();
        [Nanos(sum / times.len().max(1) as u64 * u64::from(count)), Nanos(longest.0 * u64::from(count))]
    };
    ChunkGeometry {
        read_ns: range(&timing.read_ns, 1),
        write_ns: range(&timing.program_ns, write_optimal_superpages),
        reset_ns: [timing.erase_ns; 2],
        ..ChunkGeometry::default()
    }
}
