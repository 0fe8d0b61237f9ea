//! Parts of a description that must not change while the media keep their data: they determine which sector a stored unit is.
//!
//! A store that outlives the process records these words, and a drive with a different description is refused. With a different capacity,
//! translation pages would be taken for host data and not be found, so trimmed data would reappear.

use crate::config::{DeviceConfig, Namespace};
use crate::error::DeviceError;
use pellucid_flash::{FNV_BASIS, Layout, fnv1a};
use pellucid_ftl::{Durability, Management};
use pellucid_media::StoreError;

const CAPACITY: &str = "the number of mapping units for the host (ftl.over_provisioning, ftl.capacity)";
const NAMESPACES: &str = "the fingerprint of the namespaces (drive.namespace)";
const MAP: &str = "ftl.map and ftl.durability";

/// Refuses a description with which the data of a drive made as `made` would be misread or not be found. Both have the same geometry.
pub fn keeps_data(made: &DeviceConfig, described: &DeviceConfig, layout: &Layout) -> Result<(), DeviceError> {
    let [made, described] = [made, described].map(|config| crate::namespaces::complete(config, layout));
    for ((key, made), (_, described)) in words(&made?, layout).into_iter().zip(words(&described?, layout)) {
        if made != described {
            let [made, described] = [made, described].map(|value| phrase(key, value));
            return Err(DeviceError::Kept { file: None, made, described });
        }
    }
    Ok(())
}

/// A store's refusal of other words, in sentences.
pub(crate) fn refusal(error: StoreError) -> DeviceError {
    match error {
        StoreError::Geometry { path, key: key @ (CAPACITY | NAMESPACES | MAP), image, description } => {
            let [made, described] = [image, description].map(|value| phrase(key, value));
            DeviceError::Kept { file: Some(path), made, described }
        }
        other => DeviceError::Media(other.into()),
    }
}

/// Describes the setting that a word of the record stands for.
fn phrase(key: &str, value: u64) -> String {
    match (key, value) {
        (CAPACITY, units) => {
            format!("{units} mapping units for the host (ftl.over_provisioning, ftl.capacity)")
        }
        (NAMESPACES, fingerprint) => {
            format!("namespaces of fingerprint {fingerprint:016x} (drive.namespace)")
        }
        (_, 0) => "no map (ftl.map) of its own".into(),
        (_, value) => {
            let map = ["page\" or \"demand", "bast", "fast"];
            let map = map.get((value / 10) as usize).copied().unwrap_or("of another version");
            let durability = if value % 10 == 1 { "volatile" } else { "journal" };
            format!("ftl.map = \"{map}\" and ftl.durability = \"{durability}\"")
        }
    }
}

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
    // Log blocks and a page map would take the spare areas of each other for something else.
    let kept = if mapped { kept + config.ftl.map.format() } else { kept };
    let shapes = config.namespaces.iter().flat_map(shape).flat_map(u32::to_le_bytes);
    [(CAPACITY, units), (NAMESPACES, fnv1a(FNV_BASIS, shapes).max(1)), (MAP, kept)]
}

/// Kind, blocks, and everything else that determines addresses. Limits may change.
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
