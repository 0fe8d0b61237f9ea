//! `[host]`: the layers above the drive, completed with what they must know about it.

use super::description::Description;
use super::error::SpecError;
use super::resolve_backing::{BackingKind, Medium};
use super::schema::Values;
use pellucid_device::{DeviceConfig, Guarantee, Namespace};
use pellucid_flash::Migration;
use pellucid_host::{HostSettings, LayerConfig, LayerName};
use pellucid_setting::get;
use pellucid_text::read_byte_range;
use std::ops::Range;
use strum::VariantNames;

const CLUSTER: &str = "host.cluster_buffer.cluster";
const BYPASS: &str = "host.cluster_buffer.bypass";

/// Completes the settings of the layers from those of the drive below.
pub(crate) fn finish(host: &mut HostSettings, drive: &DeviceConfig, values: &Values) {
    let (sector_bytes, seed) = (drive.media.geometry.sector_bytes, drive.ftl.seed);
    host.ftl.uuid = seed;
    host.cluster_buffer.sector_bytes = sector_bytes;
    let cluster_bytes: u64 = get(values, CLUSTER);
    host.cluster_buffer.cluster_sectors = (cluster_bytes / u64::from(sector_bytes)) as u32;
    host.cluster_buffer.bypass = bypass(sector_bytes, values).unwrap_or_default();
    if let Some(journal) = &mut host.cluster_buffer.journal {
        // A simulated drive belongs to its user, so its journal may be made.
        journal.make = Some(seed);
    }
    let largest_bytes: u32 = get(values, "host.block_layer.largest");
    host.block_layer.largest = (largest_bytes / sector_bytes).max(1);
    (host.ata.sector_bytes, host.ata.seed) = (sector_bytes, seed);
    let namespaces = &drive.namespaces;
    let is_durable = |namespace: &Namespace| matches!(namespace, Namespace::Cache { cache, .. } if cache.guarantee == Guarantee::WriteDirty);
    host.cache.backing = namespaces.len().max(1) as u16;
    host.cache.sector_bytes = sector_bytes;
    host.cache.durable_commands = namespaces.first().is_some_and(is_durable);
}

/// The layers above the drive, nearest the drive first.
pub(crate) fn layers(all: &Description, values: &Values) -> Result<Vec<LayerConfig>, SpecError> {
    let (layers, medium) = (&all.host.layers, all.drive.kind);
    let is_alone = medium == Medium::Disk || layers.contains(&LayerName::Cache);
    if all.backing.kind == BackingKind::Disk && !is_alone {
        return Err(values.refuse("backing.kind", "none, or disk with host.layers = [\"cache\"]"));
    }
    if !layers.is_sorted_by(|above, below| above.depth() < below.depth()) {
        let allowed = format!("each at most once, from above: {}", names_by_depth());
        return Err(values.refuse("host.layers", allowed));
    }
    if medium == Medium::Disk && !layers.iter().all(|layer| layer.stands_on_disk()) {
        let of_disk = |name: &&&str| name.parse::<LayerName>().is_ok_and(LayerName::stands_on_disk);
        let names: Vec<&str> = LayerName::VARIANTS.iter().filter(of_disk).copied().collect();
        let allowed = format!("above a disk {}; the others need flash", names.join(", "));
        return Err(values.refuse("host.layers", allowed));
    }
    let has = |layer| layers.contains(&layer);
    let number = usize::from(all.host.nameless.namespace);
    let nameless = matches!(all.drive.device.namespaces.get(number), Some(Namespace::Nameless { .. }));
    // A nameless namespace may stand alone: neither a file system on it nor a host over NVMe needs a file.
    let is_file = has(LayerName::NamelessFile);
    if (is_file && !has(LayerName::NamelessFtl) && !nameless) || (has(LayerName::NamelessFtl) && !is_file) {
        let allowed = "nameless-file and nameless-ftl together, or neither; nameless-file alone above a nameless namespace";
        return Err(values.refuse("host.layers", allowed));
    }
    if has(LayerName::Cache) {
        check_cache(all, values)?;
    }
    if has(LayerName::Ata) {
        check_ata(all, values)?;
    }
    if has(LayerName::ClusterBuffer) {
        check_cluster(all.drive.device.media.geometry.sector_bytes, values)?;
    }
    Ok(layers.iter().rev().flat_map(|&layer| all.host.layer(layer)).collect())
}

/// Refuses a disk interface above anything but sectors, or above a drive that drops the old name of a sector before the host can learn of it.
fn check_ata(all: &Description, values: &Values) -> Result<(), SpecError> {
    let only = |what: &str| Err(values.refuse("host.layers", format!("ata {what}")));
    if all.drive.kind == Medium::Disk {
        return Ok(());
    }
    let namespaces = &all.drive.device.namespaces;
    match namespaces.get(usize::from(all.host.ata.namespace)) {
        None if namespaces.is_empty() && all.host.ata.namespace == 0 => Ok(()),
        Some(Namespace::Block { .. } | Namespace::Cache { .. }) => Ok(()),
        Some(Namespace::Nameless { ftl, .. }) if ftl.migration == Migration::Acknowledged => Ok(()),
        Some(Namespace::Nameless { .. }) => only(
            "where migration = \"acknowledged\" in the nameless namespace: the host learns late of moves",
        ),
        _ => only("on a block, cache or nameless namespace of the drive (host.ata.namespace)"),
    }
}

fn check_cluster(sector_bytes: u32, values: &Values) -> Result<(), SpecError> {
    let cluster_bytes: u64 = get(values, CLUSTER);
    if !cluster_bytes.is_multiple_of(sector_bytes.into()) {
        let allowed = format!("a multiple of the sector of {sector_bytes} bytes");
        return Err(values.refuse(CLUSTER, allowed));
    }
    if bypass(sector_bytes, values).is_none() {
        return Err(values.refuse(BYPASS, "FROM-TO in bytes, such as \"0-64MiB\", several with commas"));
    }
    Ok(())
}

/// The sectors whose writes bypass the buffer; `None`: the value is not a list of ranges.
fn bypass(sector_bytes: u32, values: &Values) -> Option<Vec<Range<u64>>> {
    let text: Option<String> = get(values, BYPASS);
    let sector = u64::from(sector_bytes);
    let range = |text: &str| {
        let (from, to) = read_byte_range(text.trim())?;
        (from < to && to < u64::MAX).then(|| from / sector..to.div_ceil(sector))
    };
    text.iter().flat_map(|text| text.split(',')).map(range).collect()
}

/// Refuses a cache above anything that does not lead to the drive, or without a disk behind it.
fn check_cache(all: &Description, values: &Values) -> Result<(), SpecError> {
    let is_way = |layer: &LayerName| matches!(layer, LayerName::BlockLayer | LayerName::Ata);
    if !all.host.layers.iter().all(|layer| *layer == LayerName::Cache || is_way(layer)) {
        return Err(values.refuse("host.layers", "cache with no other layers than block-layer and ata"));
    }
    if all.backing.kind != BackingKind::Disk {
        return Err(values.refuse("host.layers", "cache where backing.kind = \"disk\""));
    }
    Ok(())
}

/// Names of the layers from above; layers of one depth exclude each other.
fn names_by_depth() -> String {
    let mut names: Vec<(u32, &str)> = Vec::new();
    for name in LayerName::VARIANTS {
        names.push((name.parse::<LayerName>().expect("one of the names").depth(), name));
    }
    names.sort_by_key(|(depth, _)| *depth);
    let same = names.chunk_by(|(one, _), (other, _)| one == other);
    let words = same.map(|names| names.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(" or "));
    words.collect::<Vec<_>>().join(", ")
}
