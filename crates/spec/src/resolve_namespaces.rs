//! `[[drive.namespace]]`: the namespaces of the drive, and the blocks that each has on every die.

use super::error::SpecError;
use super::resolve_media::NO_COPIES;
use super::schema::Values;
use super::table::{Table, fields};
use pellucid_device::{CacheConfig, DeviceConfig, Feedback, Guarantee, Namespace};
use pellucid_flash::{ChunkGeometry, Layout, Nanos, Vector};
use pellucid_ftl::{
    Checkpoint, ChunkConfig, Durability, Eviction, FtlConfig, Management, Map, MapLog, NamelessConfig,
    NamelessMachine, Separation, WriteFailure, ZoneConfig,
};
use pellucid_media::{MediaConfig, StoreKind};
use pellucid_setting::{Kind, SHARE, TIME, Typed, count, size};
use pellucid_text::write_share;
use std::ops::Range;
use strum::{EnumString, VariantNames};

/// Greatest spare space of a nameless namespace, as a share of the user capacity.
const OVER_PROVISIONING_MAX: f64 = 100.0;

/// Key of the list of namespaces.
const LIST: &str = "drive.namespace";

/// Interface of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum InterfaceWord {
    Block,
    Fdp,
    OpenChannel,
    Zoned,
    Cache,
    Nameless,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
enum Manager {
    Host,
    Shared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
enum OnWriteFailure {
    Close,
    NextUnit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
enum Unwritten {
    Zeros,
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
enum StageBuffer {
    Volatile,
    Protected,
}

fields! {
    /// Fields of a block namespace.
    block {
        INTERFACE: "interface", "block; fdp: a block namespace that offers reclaim unit handles (drive.ftl.handles)";
        BLOCKS: "blocks", "Blocks of every die; in the last namespace by default all remaining blocks";
    }

    /// Fields of an open-channel namespace.
    open_channel {
        INTERFACE: "interface", "open-channel: chunks of physical blocks";
        BLOCKS: "blocks", "Blocks of every die; in the last namespace by default all remaining blocks";
        MANAGEMENT: "management", "host: the host retires bad chunks; shared: the drive replaces them; default host";
        SPARE_BLOCKS: "spare_blocks", "With management = \"shared\": blocks of every die that replace bad ones";
        WRITE_OPTIMAL: "write_optimal", "Optimal write size (ws_opt) in superpages; default 1";
        CACHED: "cached", "Superpages behind the write pointer that cannot be read yet (mw_cunits); default 0";
        OPEN_MAX: "open_max", "Most open chunks; 0, the default: any number";
        OPEN_PER_UNIT_MAX: "open_per_unit_max", "Most open chunks of a parallel unit; 0, the default: any number";
        ON_WRITE_FAILURE: "on_write_failure", "close: a failed write closes the chunk; next-unit: writing continues in the next write unit; default close";
        RATED_ERASES: "rated_erases", "Erases at which the wear index is 100 %; default the endurance, or 3000";
        UNWRITTEN: "unwritten", "Result of a read of unwritten sectors: zeros or an error (DULBE); default zeros";
        COPYBACK: "copyback", "Vector copies stay inside their die; default false";
        HIGH_ECC: "high_ecc", "Reads corrected with high effort are reported (HECC); default false";
        VERY_HIGH_ECC: "very_high_ecc", "Reads corrected with very high effort are reported (VHECC); default false";
        HIGH_ECC_BITS: "high_ecc_bits", "Corrected bits of a mapping unit from which the effort is high";
        VERY_HIGH_ECC_BITS: "very_high_ecc_bits", "Corrected bits of a mapping unit from which the effort is very high";
        WEAR_GAP: "wear_gap", "Difference of erase counts in a parallel unit at which the drive notifies the host; 0, the default: never";
    }

    /// Fields of a zoned namespace.
    zoned {
        INTERFACE: "interface", "zoned: zones over the dies (NVMe ZNS)";
        BLOCKS: "blocks", "Blocks of every die; in the last namespace by default all remaining blocks";
        SPARE_BLOCKS: "spare_blocks", "Blocks of every die that replace bad ones and hold the staging log";
        DIES_PER_ZONE: "dies_per_zone", "Dies that a zone is striped over, a divisor of all; default all";
        OPEN_MAX: "open_max", "Most open zones; default active_max";
        ACTIVE_MAX: "active_max", "Most active zones; default 14, or fewer where the staging log has no space";
        APPEND_MAX: "append_max", "Most sectors of a zone append; default a superpage";
        STAGE: "stage", "Superpages of the write staging buffer; default active_max + two for each die";
        BUFFER: "buffer", "Contents of the staging buffer at a power cut: lost (volatile) or kept (protected); default volatile";
    }

    /// Fields of a cache.
    cache {
        INTERFACE: "interface", "cache: blocks of a larger backing store, clean or dirty (solid-state cache)";
        BLOCKS: "blocks", "Blocks of every die; in the last namespace by default all remaining blocks";
        ADDRESS_SPACE: "address_space", "Size of the largest backing store that the cache can serve";
        EVICTION: "eviction", "Silent eviction: log and GC copies in separate blocks (se-util) or in the same (se-merge); with log blocks: evicted blocks take data (se-util), or data and logs (se-merge); default se-util";
        GUARANTEE: "guarantee", "Data that survive a power cut: flush (those before a flush), write-dirty (dirty data and evictions at once); default flush";
        LOG: "log", "List of the contents of a full block: in the spare area (spare-area), or in its last superpage, which then takes no data (last-page); default spare-area";
        CHECKPOINT: "checkpoint", "Time at which the table is written: continuously (rolling), or at a flush and after five idle seconds (on-flush); default rolling";
    }

    /// Fields of a nameless namespace.
    nameless {
        INTERFACE: "interface", "nameless: sectors that are named by their physical place, and sectors with virtual addresses (nameless writes)";
        BLOCKS: "blocks", "Blocks of every die; in the last namespace by default all remaining blocks";
        OVER_PROVISIONING: "over_provisioning", "Spare capacity as a share of the space for data; default 0.0753";
        VIRTUAL_SHARE: "virtual_share", "Share of the space for data that has virtual addresses; default 0.0625";
        GC_LOW: "gc_low", "GC runs while this many blocks or fewer are free. 0, the default: 1/256 of all blocks, at least one per die plus four";
        MIGRATION: "migration", "Old copy of a moved sector. acknowledged: kept until the host knows the new name; prototype: erased earlier; default acknowledged";
        ACKNOWLEDGE_WITHIN: "acknowledge_within", "Longest time that a write waits for space until the host acknowledges moves; then the write fails; default 1s";
    }
}

/// Erases at which an unlimited part counts as worn for the wear index: the rating of MLC in the first open-channel drives.
const RATED_ERASES: u32 = 3000;

/// Resolves the namespaces and their demands on the media: spare bytes for hosts, and a save area.
pub(crate) fn finish(drive: &mut DeviceConfig, values: &Values, layout: &Layout) -> Result<(), SpecError> {
    let rows = values.rows(LIST);
    let mut free = 0..layout.blocks_per_die;
    for (index, row) in rows.iter().enumerate() {
        let table = Table { list: LIST, index, row };
        let last = index + 1 == rows.len();
        let namespace = namespace(drive, &table, layout, |table| share(table, &mut free, last))?;
        drive.namespaces.push(namespace);
    }
    let media = &mut drive.media;
    if matches!(media.store, StoreKind::File(_)) {
        media.save_bytes = pellucid_device::save_bytes(&drive.namespaces, layout);
    }
    check_spare(values, layout, media)
}

fn namespace(
    drive: &mut DeviceConfig,
    table: &Table,
    layout: &Layout,
    share: impl FnOnce(&Table) -> Result<Range<u32>, SpecError>,
) -> Result<Namespace, SpecError> {
    let interface: InterfaceWord = table.word(block::INTERFACE, None)?;
    table.check_names(match interface {
        InterfaceWord::Block | InterfaceWord::Fdp => block::ALL,
        InterfaceWord::OpenChannel => open_channel::ALL,
        InterfaceWord::Zoned => zoned::ALL,
        InterfaceWord::Cache => cache::ALL,
        InterfaceWord::Nameless => nameless::ALL,
    })?;
    let blocks = share(table)?;
    let media = &mut drive.media;
    match interface {
        InterfaceWord::Block | InterfaceWord::Fdp => {
            let is_mapped = |n: &Namespace| matches!(n, Namespace::Block { .. } | Namespace::Cache { .. });
            let several = drive.namespaces.iter().any(is_mapped);
            if several && drive.ftl.capacity_bytes.is_some() {
                return Err(table.refuse(
                    block::INTERFACE,
                    "one block namespace with drive.ftl.capacity; several with over_provisioning, which is that of each",
                ));
            }
            // FDP is a block namespace with several handles.
            if interface == InterfaceWord::Fdp && drive.ftl.handles < 2 {
                return Err(
                    table.refuse(block::INTERFACE, "block, or with fdp drive.ftl.handles of 2 at least")
                );
            }
            Ok(Namespace::Block { blocks })
        }
        InterfaceWord::Cache => cache(table, blocks, layout, &drive.ftl),
        InterfaceWord::Nameless => nameless(table, blocks, layout),
        InterfaceWord::Zoned => {
            media.metadata_bytes = Vector::METADATA_BYTES as u32;
            zoned(table, blocks, layout)
        }
        InterfaceWord::OpenChannel => {
            media.metadata_bytes = Vector::METADATA_BYTES as u32;
            open_channel(table, blocks, layout, media)
        }
    }
}

fn cache(
    table: &Table,
    blocks: Range<u32>,
    layout: &Layout,
    ftl: &FtlConfig,
) -> Result<Namespace, SpecError> {
    for (ok, allowed) in [
        (
            ftl.durability != Durability::Volatile,
            "another one, or cache with drive.ftl.durability = \"journal\": a cache guarantees what a flush has made durable",
        ),
        (
            ftl.map == Map::Page || ftl.map.log_blocks().is_some(),
            "another one, or cache with drive.ftl.map of page, bast or fast",
        ),
        (ftl.handles == 1, "another one, or cache with drive.ftl.handles = 1"),
        (ftl.slc_cache.is_none(), "another one, or cache with drive.ftl.slc_cache.blocks = 0"),
        (
            ftl.separation != Separation::Frequency,
            "another one, or cache with drive.ftl.separation of off or gc-copies",
        ),
    ] {
        if !ok {
            return Err(table.refuse(cache::INTERFACE, allowed));
        }
    }
    let unit = u64::from(layout.unit_bytes);
    let kind = size(unit, CacheConfig::ADDRESS_UNITS_MAX * unit);
    let bytes = match table.field(cache::ADDRESS_SPACE, kind)? {
        Some(Typed::Whole(bytes)) if bytes.is_multiple_of(unit) => bytes,
        Some(_) => {
            return Err(table.refuse(cache::ADDRESS_SPACE, format!("whole mapping units of {unit} bytes")));
        }
        None => return Err(table.refuse(cache::ADDRESS_SPACE, kind.allowed())),
    };
    let cache = CacheConfig {
        address_sectors: bytes / u64::from(layout.sector_bytes),
        eviction: table.word(cache::EVICTION, Some(Eviction::SeUtil))?,
        guarantee: table.word(cache::GUARANTEE, Some(Guarantee::Flush))?,
        log: table.word(cache::LOG, Some(MapLog::SpareArea))?,
        checkpoint: table.word(cache::CHECKPOINT, Some(Checkpoint::Rolling))?,
    };
    if ftl.map.log_blocks().is_some() {
        if cache.log != MapLog::SpareArea {
            let allowed = "spare-area: with log blocks (drive.ftl.map) the spare areas are the only list of what a block holds";
            return Err(table.refuse(cache::LOG, allowed));
        }
        if cache.checkpoint != Checkpoint::Rolling {
            let allowed =
                "rolling: with log blocks (drive.ftl.map) there is no table to write, only what was evicted";
            return Err(table.refuse(cache::CHECKPOINT, allowed));
        }
    }
    Ok(Namespace::Cache { blocks, cache })
}

fn nameless(table: &Table, blocks: Range<u32>, layout: &Layout) -> Result<Namespace, SpecError> {
    let usual = NamelessConfig::default();
    let own = layout.with_blocks_per_die(blocks.len() as u32);
    // More would keep GC running all the time.
    let all_free = Kind::Whole(0, own.blocks.into());
    let real = |field, kind: Kind, usual| match table.field(field, kind)? {
        Some(Typed::Real(value)) => Ok(value),
        Some(other) => unreachable!("a number reads as a number: {other:?}"),
        None => Ok(usual),
    };
    let ftl = NamelessConfig {
        over_provisioning: real(
            nameless::OVER_PROVISIONING,
            Kind::Share(0.0, OVER_PROVISIONING_MAX),
            usual.over_provisioning,
        )?,
        virtual_share: real(nameless::VIRTUAL_SHARE, SHARE, usual.virtual_share)?,
        gc_low: table.number(nameless::GC_LOW, all_free, Some(usual.gc_low))?,
        migration: table.word(nameless::MIGRATION, Some(usual.migration))?,
        acknowledge_within_ns: match table.field(nameless::ACKNOWLEDGE_WITHIN, TIME)? {
            Some(Typed::Whole(ns)) => Nanos(ns),
            Some(other) => unreachable!("a time reads as nanoseconds: {other:?}"),
            None => usual.acknowledge_within_ns,
        },
    };
    let geometry = NamelessMachine::chunks(blocks.clone()).geometry(layout, ChunkGeometry::default());
    match NamelessMachine::over_provisioning_least(&ftl, &geometry) {
        Ok(Some(least)) if least > OVER_PROVISIONING_MAX => {
            Err(table.refuse(nameless::BLOCKS, format!("more: {}", NamelessMachine::ALWAYS_SPARE)))
        }
        Ok(Some(least)) if ftl.over_provisioning < least => {
            let allowed = format!(
                "at least {}: {}",
                write_share(least).trim_matches('"'),
                NamelessMachine::ALWAYS_SPARE
            );
            Err(table.refuse(nameless::OVER_PROVISIONING, allowed))
        }
        Ok(_) => Ok(Namespace::Nameless { blocks, ftl }),
        Err(sentence) => Err(table.refuse(nameless::BLOCKS, sentence)),
    }
}

/// The blocks that a namespace has on every die: as many of the free ones as it asks for; the last namespace may take the rest.
fn share(table: &Table, free: &mut Range<u32>, last: bool) -> Result<Range<u32>, SpecError> {
    let left = free.end - free.start;
    if left == 0 {
        return Err(table.refuse(block::BLOCKS, "fewer in the namespaces before: none of a die is left"));
    }
    let kind = Kind::Whole(1, left.into());
    let blocks = table.number(block::BLOCKS, kind, last.then_some(left))?;
    let start = free.start;
    free.start += blocks;
    Ok(start..free.start)
}

/// Checks that the host's metadata fit the spare area of a page.
fn check_spare(values: &Values, layout: &Layout, media: &MediaConfig) -> Result<(), SpecError> {
    let sectors = media.geometry.page_bytes / layout.sector_bytes;
    let needed = sectors * media.metadata_bytes;
    if media.geometry.spare_bytes < needed {
        let allowed = format!("at least {needed}: {} bytes for each sector of a page", media.metadata_bytes);
        return Err(values.refuse("drive.media.spare_size", allowed));
    }
    Ok(())
}

fn open_channel(
    table: &Table,
    blocks: Range<u32>,
    layout: &Layout,
    media: &MediaConfig,
) -> Result<Namespace, SpecError> {
    let number = |field, least, default| table.number(field, count(least), Some(default));
    let superpages = Kind::Whole(1, layout.superpages_per_block.into());
    let management = match table.word(open_channel::MANAGEMENT, Some(Manager::Host))? {
        Manager::Host if table.has(open_channel::SPARE_BLOCKS) => {
            return Err(table.refuse(
                open_channel::SPARE_BLOCKS,
                "none: management = \"host\" leaves spare blocks to the host",
            ));
        }
        Manager::Host => Management::Host,
        Manager::Shared => {
            let most = blocks.len() as u64 - 1;
            let spare_blocks = table.number(open_channel::SPARE_BLOCKS, Kind::Whole(1, most), None)?;
            Management::Shared { spare_blocks }
        }
    };
    let copyback = table.flag(open_channel::COPYBACK, false)?;
    if copyback && media.integrity.forbids_copies() {
        return Err(table.refuse(open_channel::COPYBACK, NO_COPIES));
    }
    let failure = match table.word(open_channel::ON_WRITE_FAILURE, Some(OnWriteFailure::Close))? {
        OnWriteFailure::Close => WriteFailure::CloseChunk,
        OnWriteFailure::NextUnit => WriteFailure::NextUnit,
    };
    Ok(Namespace::OpenChannel {
        chunks: ChunkConfig {
            blocks,
            management,
            write_optimal_superpages: table.number(open_channel::WRITE_OPTIMAL, superpages, Some(1))?,
            cached_superpages: table.number(
                open_channel::CACHED,
                Kind::Whole(0, layout.superpages_per_block.into()),
                Some(0),
            )?,
            open_max: number(open_channel::OPEN_MAX, 0, 0)?,
            open_per_unit_max: number(open_channel::OPEN_PER_UNIT_MAX, 0, 0)?,
            failure,
            rated_erases: number(open_channel::RATED_ERASES, 1, media.endurance.unwrap_or(RATED_ERASES))?,
        },
        feedback: Feedback {
            unwritten_is_error: table.word(open_channel::UNWRITTEN, Some(Unwritten::Zeros))?
                == Unwritten::Error,
            copyback,
            high_ecc: table.flag(open_channel::HIGH_ECC, false)?,
            very_high_ecc: table.flag(open_channel::VERY_HIGH_ECC, false)?,
            high_ecc_bits: number(open_channel::HIGH_ECC_BITS, 1, u32::MAX)?,
            very_high_ecc_bits: number(open_channel::VERY_HIGH_ECC_BITS, 1, u32::MAX)?,
            wear_gap: number(open_channel::WEAR_GAP, 0, 0)?,
        },
    })
}

fn zoned(table: &Table, blocks: Range<u32>, layout: &Layout) -> Result<Namespace, SpecError> {
    let superpage = layout.units_per_superpage * layout.sectors_per_unit;
    let dies_per_zone =
        table.number(zoned::DIES_PER_ZONE, Kind::Whole(1, layout.dies.into()), Some(layout.dies))?;
    if !layout.dies.is_multiple_of(dies_per_zone) {
        return Err(table.refuse(zoned::DIES_PER_ZONE, format!("a divisor of the {} dies", layout.dies)));
    }
    let protected = table.word(zoned::BUFFER, Some(StageBuffer::Volatile))? == StageBuffer::Protected;
    // The staging log of a volatile buffer holds a superpage for each active zone, in half a block.
    let most = if protected { u32::MAX } else { (layout.superpages_per_block / 2).max(1) };
    let limit = Kind::Whole(1, most.into());
    let active_max = table.number(zoned::ACTIVE_MAX, limit, Some(most.min(ACTIVE_ZONES)))?;
    let open_max = table.number(zoned::OPEN_MAX, Kind::Whole(1, active_max.into()), Some(active_max))?;
    let least = Kind::Whole(u64::from(active_max) + 1, 1 << 20);
    let shortest = ZoneConfig::APPEND_MAX_BYTES_LEAST.div_ceil(layout.sector_bytes.into()) as u32;
    let mut zones = ZoneConfig {
        spare_blocks: 0,
        dies_per_zone,
        open_max,
        active_max,
        append_max_sectors: table.number(
            zoned::APPEND_MAX,
            count(shortest.into()),
            Some(superpage.max(shortest)),
        )?,
        stage_superpages: table.number(zoned::STAGE, least, Some(active_max + 2 * layout.dies))?,
        protected,
        blocks,
    };
    let least = zones.spare_least(layout.superpages_per_block).div_ceil(layout.dies);
    let most = zones.blocks.len() as u32 - 1;
    if protected && least > most {
        let sentence = format!(
            "volatile: a protected one of {} superpages needs {least} spare blocks of every die and \
            at least 1 for zones",
            zones.stage_superpages
        );
        return Err(table.refuse(zoned::BUFFER, sentence));
    }
    let usual = (zones.blocks.len() as u32 / 32).max(least);
    zones.spare_blocks =
        table.number(zoned::SPARE_BLOCKS, Kind::Whole(least.into(), most.into()), Some(usual))?;
    Ok(Namespace::Zoned { zones })
}

/// Active zones of a drive whose description does not say.
const ACTIVE_ZONES: u32 = 14;

/// The blocks that translation works on.
pub(crate) struct Translated {
    pub layout: Layout,
    /// Index of the namespace that they belong to; `None`: the drive has no list.
    namespace: Option<usize>,
    /// True if these are all blocks of the drive.
    whole: bool,
    /// Settings of the cache, if it is one.
    cache: Option<CacheConfig>,
}

impl Translated {
    /// Settings of the translation of these blocks.
    pub fn ftl(&self, drive: &DeviceConfig) -> FtlConfig {
        let mut ftl = drive.ftl.clone();
        if let Some(cache) = self.cache {
            ftl.cache = Some(cache.map(&self.layout));
            ftl.separation = cache.eviction.separation();
        }
        ftl
    }

    /// Finds the smallest block namespace; `None` if there is none.
    pub fn find(namespaces: &[Namespace], layout: &Layout) -> Option<Translated> {
        if namespaces.is_empty() {
            return Some(Translated { layout: layout.clone(), namespace: None, whole: true, cache: None });
        }
        let all = namespaces.iter().enumerate();
        let is_mapped = |n: &Namespace| matches!(n, Namespace::Block { .. } | Namespace::Cache { .. });
        let block = all.filter(|(_, namespace)| is_mapped(namespace));
        let (index, smallest) = block.min_by_key(|(_, namespace)| namespace.blocks().len())?;
        let blocks = smallest.blocks().len() as u32;
        Some(Translated {
            layout: layout.with_blocks_per_die(blocks),
            namespace: Some(index),
            whole: blocks == layout.blocks_per_die,
            cache: match smallest {
                Namespace::Cache { cache, .. } => Some(*cache),
                _ => None,
            },
        })
    }

    /// Names its blocks, to begin a sentence.
    pub fn words(&self) -> String {
        let blocks = self.layout.blocks_per_die;
        match self.namespace.filter(|_| !self.whole) {
            Some(index) => format!("each die of the {blocks} blocks of drive.namespace[{index}]"),
            None => format!("each die of {blocks} blocks"),
        }
    }

    /// Refuses too few blocks, of the namespace or of the drive. `enough`: whether translation can work on this layout.
    pub fn too_few(&self, values: &Values, enough: impl Fn(&Layout) -> bool, why: &str) -> SpecError {
        /// Search limit: no translation needs more for itself.
        const TRIED: u32 = 1 << 16;
        let blocks = self.layout.blocks_per_die;
        let mut more = (blocks..blocks.saturating_add(TRIED)).skip(1);
        let allowed = match more.find(|&blocks| enough(&self.layout.with_blocks_per_die(blocks))) {
            Some(least) => format!("at least {least}: {why}"),
            None => why.to_string(),
        };
        match self.namespace.filter(|_| !self.whole) {
            Some(index) => {
                let row = &values.rows(LIST)[index];
                Table { list: LIST, index, row }.refuse(block::BLOCKS, allowed)
            }
            None => values.refuse("drive.media.blocks", allowed),
        }
    }
}
