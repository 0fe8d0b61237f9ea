//! The namespaces of a drive: who owns which blocks, and what each is made of.
//!
//! Every namespace has the same blocks of every die, so all of them share all channels and dies. To the page map the blocks of
//! others are bad ones; to the others they do not exist.

use crate::build::DeviceError;
use crate::config::{DeviceConfig, Feedback, Namespace};
use crate::power::Source;
use crate::zone_save::{SaveArea, save_bytes};
use crate::zone_stage::ZoneSpace;
use pellucid_flash::{BlockId, ChunkGeometry, Layout, Nanos, Vector};
use pellucid_ftl::{Chunks, Management, Mark, ZoneConfig};
use pellucid_media::{Media, Outcome, StoreKind, Timing};

/// A number that no namespace has.
pub(crate) const NO_NAMESPACE: u16 = u16::MAX;

/// One namespace.
#[derive(Clone, Debug)]
pub(crate) enum Space {
    /// Served by the drive's page map.
    Block,
    /// Open-channel.
    Chunks(Box<ChunkSpace>),
    /// Zoned.
    Zones(Box<ZoneSpace>),
}

/// An open-channel namespace.
#[derive(Clone, Debug)]
pub(crate) struct ChunkSpace {
    pub chunks: Chunks,
    pub feedback: Feedback,
}

impl Space {
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Space::Block => 0,
            Space::Chunks(space) => space.chunks.memory_bytes(),
            Space::Zones(space) => space.memory_bytes(),
        }
    }

    /// Erased blocks that are waiting; those of a block namespace are the page map's.
    pub fn free_blocks(&self) -> u32 {
        match self {
            Space::Block => 0,
            Space::Chunks(space) => space.chunks.free_blocks(),
            Space::Zones(space) => space.zones.free_blocks(),
        }
    }

    /// Whether data wait for room in a buffer of its own.
    pub fn awaits_room(&self) -> bool {
        matches!(self, Space::Zones(space) if !space.starved.is_empty())
    }

    pub fn check(&self) {
        match self {
            Space::Block => {}
            Space::Chunks(space) => space.chunks.check(),
            Space::Zones(space) => space.check(),
        }
    }
}

/// The description with what follows from it filled in: the one namespace of a drive that names none, the user capacity
/// of a block namespace that has not all blocks, and the spare bytes that belong to open-channel hosts.
pub(crate) fn complete(config: &DeviceConfig, layout: &Layout) -> Result<DeviceConfig, DeviceError> {
    let mut config = config.clone();
    if config.namespaces.is_empty() {
        config.namespaces.push(Namespace::Block { blocks: 0..layout.blocks_per_die });
    }
    check(&config, layout)?;
    for namespace in &config.namespaces {
        if let Namespace::Block { blocks } = namespace
            && blocks.len() < layout.blocks_per_die as usize
            && config.ftl.capacity_bytes.is_none()
        {
            let units = blocks.len() as u64 * u64::from(layout.units_per_block) * u64::from(layout.dies);
            let user = (units as f64 / (1.0 + config.ftl.over_provisioning)) as u64;
            config.ftl.capacity_bytes = Some(user * u64::from(layout.unit_bytes));
        }
    }
    Ok(config)
}

fn check(config: &DeviceConfig, layout: &Layout) -> Result<(), DeviceError> {
    let refuse = |key, allowed| Err(DeviceError::Setting { key, allowed });
    let mut taken: Vec<_> = config.namespaces.iter().map(Namespace::blocks).collect();
    taken.sort_by_key(|blocks| blocks.start);
    let inside = taken.iter().all(|b| b.start < b.end && b.end <= layout.blocks_per_die);
    if !inside || taken.windows(2).any(|pair| pair[0].end > pair[1].start) {
        return refuse("drive.namespace.blocks", "blocks of a die that no other namespace has, at least one");
    }
    let blocks = config.namespaces.iter().filter(|n| matches!(n, Namespace::Block { .. })).count();
    if blocks > 1 || config.namespaces.len() >= usize::from(NO_NAMESPACE) {
        return refuse("drive.namespace", "at most one block namespace");
    }
    for namespace in &config.namespaces {
        if let Namespace::Zoned { zones } = namespace {
            check_zones(zones, config, layout)?;
        }
        if let Namespace::OpenChannel { chunks, .. } = namespace {
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
            if chunks.write_optimal_stripes == 0 || chunks.write_optimal_stripes > layout.stripes_per_block {
                return refuse("drive.namespace.write_optimal", "1 to the programs of a block");
            }
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
            zones.active_max >= 1 && zones.stage_stripes > zones.active_max,
            "drive.namespace.stage",
            "more stripes than active_max, which must be limited: each active zone can hold one partly written",
        ),
        (
            zones.protected || zones.active_max <= layout.stripes_per_block / 2,
            "drive.namespace.active_max",
            "at most half of the stripes of a block: the staging log holds one for each",
        ),
        (
            zones.spare_blocks * layout.dies >= zones.spare_least(layout.stripes_per_block),
            "drive.namespace.spare_blocks",
            "with a protected buffer, in all dies together the blocks that its stripes fill, and 3",
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

/// Makes the namespaces from what the media hold; the second is the number of the block namespace.
pub(crate) fn mount(config: &DeviceConfig, layout: &Layout, media: &mut Media) -> (Vec<Space>, u16) {
    let mut block_namespace = NO_NAMESPACE;
    let mut spaces = Vec::with_capacity(config.namespaces.len());
    for (number, namespace) in config.namespaces.iter().enumerate() {
        spaces.push(match namespace {
            Namespace::Block { .. } => {
                block_namespace = number as u16;
                Space::Block
            }
            Namespace::OpenChannel { chunks, feedback } => {
                let times = times(&config.media.timing, layout, chunks.write_optimal_stripes);
                let source =
                    Source { media, blocks: chunks.blocks.clone(), blocks_per_die: layout.blocks_per_die };
                let (mut chunks, erase) = Chunks::mount(chunks, layout, times, &source);
                for block in erase {
                    let ok = erase_now(media, block);
                    chunks.erased_at_mount(block, ok, media.erase_count(block));
                }
                Space::Chunks(Box::new(ChunkSpace { chunks, feedback: *feedback }))
            }
            Namespace::Zoned { zones } => {
                let saved = SaveArea::open(&config.namespaces, number, layout, media);
                Space::Zones(Box::new(ZoneSpace::mount(zones, layout, media, saved)))
            }
        });
    }
    (spaces, block_namespace)
}

/// Mounting takes no simulated time, and so does what it erases.
pub(crate) fn erase_now(media: &mut Media, block: BlockId) -> bool {
    media.erase_begin(block).unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
    media.erase_end(block) == Outcome::Ok
}

/// Typical and longest times of a geometry; the rest of it is filled in by who makes the chunks.
fn times(timing: &Timing, layout: &Layout, write_optimal_stripes: u32) -> ChunkGeometry {
    let range = |times: &[Nanos], count: u32| {
        let sum: u64 = times.iter().map(|t| t.0).sum();
        let longest = times.iter().copied().max().unwrap_or_default();
        [Nanos(sum / times.len().max(1) as u64 * u64::from(count)), Nanos(longest.0 * u64::from(count))]
    };
    ChunkGeometry {
        groups: layout.channels,
        units: layout.dies_per_channel,
        chunks: 0,
        chunk_sectors: 0,
        sector_bytes: layout.sector_bytes,
        write_min_sectors: 0,
        write_optimal_sectors: 0,
        cached_sectors: 0,
        open_chunks_max: 0,
        open_chunks_per_unit_max: 0,
        read_ns: range(&timing.read_ns, 1),
        write_ns: range(&timing.program_ns, write_optimal_stripes),
        reset_ns: [timing.erase_ns; 2],
    }
}
