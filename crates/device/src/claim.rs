//! Parts of a description that must not change while the media keep their data: they determine which sector a stored unit is.
//!
//! A store that outlives the process keeps these words, and a drive with another description is refused. With another capacity translation
//! pages would be taken for host data, and not be found: trimmed data would come back.

use crate::config::{DeviceConfig, Namespace};
use pellucid_flash::{FNV_BASIS, Layout, fnv1a};
use pellucid_ftl::{Durability, Management, Map};

const DURABILITY: &str = "ftl.durability (1: volatile, 2: journal)";

/// Returns the words of a complete description, with their names. 0 stands for an absent part.
pub(crate) fn words(config: &DeviceConfig, layout: &Layout) -> [(&'static str, u64); 3] {
    let mapped = config.block_namespaces().next().is_some();
    let units =
        config.block_namespaces().map(|blocks| config.ftl_of(blocks, layout).user_units(layout)).sum();
    // A drive that keeps no journal would ignore and overwrite the data that a journal has kept; the rest would come back mixed with older
    // data.
    let kept = match (mapped, config.ftl.durability) {
        (false, _) => 0,
        (true, Durability::Volatile) => 1,
        (true, Durability::Journal { .. }) => 2,
    };
    // Log blocks and a page map would take the spare areas of each other for something else. With log blocks the name tells it.
    let (kept, durability) = match config.ftl.map.format() {
        format if !mapped || format == 0 => (kept, DURABILITY),
        format => (kept + format, Map::CLAIM),
    };
    let shapes = config.namespaces.iter().flat_map(shape).flat_map(u32::to_le_bytes);
    [
        ("the number of mapping units for the host (ftl.over_provisioning, ftl.capacity)", units),
        ("the fingerprint of the namespaces (drive.namespace)", fnv1a(FNV_BASIS, shapes).max(1)),
        (durability, kept),
    ]
}

/// Kind, blocks, and what else says where something lies. Limits may change.
fn shape(namespace: &Namespace) -> [u32; 5] {
    let blocks = namespace.blocks();
    let (kind, a, b) = match namespace {
        Namespace::Block { .. } => (1, 0, 0),
        Namespace::Cache { cache, .. } => {
            (5, cache.address_sectors as u32, (cache.address_sectors >> 32) as u32)
        }
        Namespace::OpenChannel { chunks, .. } => match chunks.management {
            Management::Host => (2, 0, 0),
            Management::Shared { spare_blocks } => (3, spare_blocks, 0),
        },
        Namespace::Nameless { .. } => (6, 0, 0),
        Namespace::Zoned { zones } => (4, zones.spare_blocks, zones.dies_per_zone),
    };
    [kind, blocks.start, blocks.end, a, b]
}
