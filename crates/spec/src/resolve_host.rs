//! `[host]`: the layers above the drive, and the cost of the host's own work.

use super::draft::{Draft, Layer, Survives};
use super::error::SpecError;
use super::resolve_backing::{BackingKind, Medium};
use super::schema::Fallback::{Empty, Flag, Real, Whole, Word};
use super::schema::{Kind, SHARE, TIME, Values, count, few, keys, word};
use super::{resolve_cache, resolve_ftl};
use pellucid_device::Namespace;
use pellucid_flash::{Migration, Nanos};
use pellucid_host::{
    ClusterBufferConfig, CpuCosts, Elevator, FlushPolicy, HostFtlConfig, JournalConfig, JournalUse,
    LayerConfig, ZoneChunksConfig,
};
use pellucid_text::Quantity;
use strum::VariantNames;

const LARGEST: Kind = Kind::Unit(Quantity::Size, 512, 1 << 30);
const BUFFER: Kind = Kind::Whole(0, 1 << 24);
const CLUSTER: Kind = Kind::Unit(Quantity::Size, 512, 1 << 31);
const MEMORY: Kind = Kind::Unit(Quantity::Size, 1 << 10, 1 << 40);
const RING: Kind = Kind::Unit(Quantity::Size, 1 << 10, 1 << 40);
const SELDOM: Kind = Kind::Or("never", &TIME);

keys! {
    "host.layers": Kind::Words(Layer::VARIANTS), Empty => layers,
        "Layers above the drive, nearest the application first";
    "host.ftl.namespace": Kind::Whole(0, 255), Whole(0) => host_ftl.namespace,
        "Namespace below: open-channel for the host FTL, zoned for the zone log";
    "host.ftl.first_unit": count(0), Whole(0) => host_ftl.first_unit,
        "Host FTL: first parallel unit of its range";
    "host.ftl.units": count(0), Whole(0) => host_ftl.units,
        "Host FTL: parallel units of its range; 0: all from the first on";
    "host.ftl.over_provisioning": Kind::Share(0.0, 100.0), Real(0.11) => host_ftl.over_provisioning,
        "Host FTL: spare capacity as a share of what it offers (pblk: 11 %)";
    "host.ftl.buffer": BUFFER, Whole(0) => host_ftl.buffer_sectors,
        "Host FTL: sectors of the write buffer; 0: two writes for every parallel unit";
    "host.ftl.write_units": Kind::Whole(1, 64), Whole(1) => host_ftl.write_units,
        "Host FTL: optimal writes of the drive that one write covers; 2: the two planes that pblk expects";
    "host.ftl.spare_chunks": few(0), Whole(1) => host_ftl.spare_chunks,
        "Host FTL: chunks of each parallel unit that replace bad ones";
    "host.ftl.gc_share": SHARE, Real(0.125) => host_ftl.gc_share,
        "Host FTL: share of free lines below which GC runs and writers are slowed down (pblk: an eighth)";
    "host.ftl.victim": resolve_ftl::VICTIMS, Word("greedy") => host_ftl.victim,
        "Host FTL: which line GC frees next";
    "host.ftl.separation": Kind::Word(&["off", "gc-copies"]), Word("off") => host_ftl.separation,
        "Host FTL: off: GC copies share lines with host writes, as in pblk; gc-copies: they have lines of their own";
    "host.ftl.durability": word::<Survives>(), Word("journal") => host_durability,
        "Host FTL: journal keeps translation pages on the drive, so that trims survive a crash";
    "host.ftl.read_retries": few(0), Whole(2) => host_ftl.read_retries,
        "Host FTL: how often a read that failed in the drive is tried again";
    "host.zone_log.width": few(1), Whole(1) => zones.width,
        "Zone log: zones written side by side; the drive must allow four times as many active ones";
    "host.zone_log.batch": Kind::Whole(0, 1 << 16), Whole(0) => zones.batch_sectors,
        "Zone log: sectors of a batch, one of them its trailer; 0: the largest divisor of the zone capacity up to 64";
    "host.cluster_buffer.namespace": Kind::Whole(0, 255), Whole(0) => cluster_buffer.namespace,
        "Cluster buffer: block namespace below";
    "host.cluster_buffer.size": MEMORY, Whole(32 << 20) => cluster_buffer.size_bytes,
        "Cluster buffer: host memory for data, tables and evictions (FlashFire: 32 MiB)";
    "host.cluster_buffer.cluster": CLUSTER, Whole(1 << 20) => cluster_bytes,
        "Cluster buffer: a cluster, which is what an eviction writes (FlashFire: 1 MiB or 2 MiB)";
    "host.cluster_buffer.flush": word::<FlushPolicy>(), Word("strict") => cluster_buffer.flush,
        "Cluster buffer: strict: a flush writes the buffer; paper: a flush bypasses the buffer, whose content a power cut then loses";
    "host.cluster_buffer.journal": Kind::Or("none", &RING), Word("none") => journal_ring,
        "Cluster buffer, strict: ring at the end of the drive into which a flush may write; its size is taken from what the buffer offers";
    "host.cluster_buffer.journal_unit": CLUSTER, Whole(16 << 10) => journal_unit,
        "Cluster buffer: records of the journal begin and end at multiples of this, best what the drive programs at once";
    "host.cluster_buffer.journal_use": word::<JournalUse>(), Word("cheaper") => journal_use,
        "Cluster buffer: a flush journals when that has been cheaper so far than to drain, or always";
    "host.cluster_buffer.idle": SELDOM, Whole(500_000_000) => cluster_buffer.idle_ns,
        "Cluster buffer: clusters are written after this time without a request";
    "host.cluster_buffer.age": SELDOM, Word("never") => cluster_buffer.age_ns,
        "Cluster buffer: longest time that data stay in the buffer before their eviction begins";
    "host.cluster_buffer.padding": Kind::Flag, Flag(true) => cluster_buffer.padding,
        "Cluster buffer: an eviction reads what is missing and writes a whole cluster; false: each run of sectors is a write";
    "host.cluster_buffer.early_retirement": Kind::Flag, Flag(true) => cluster_buffer.early_retirement,
        "Cluster buffer: full clusters leave before all others";
    "host.cluster_buffer.evictions": Kind::Whole(1, 32), Whole(1) => cluster_buffer.evictions,
        "Cluster buffer: evictions under way at once; each has memory for a cluster";
    "host.block_layer.namespace": Kind::Whole(0, 255), Whole(0) => block_layer.namespace,
        "Block layer: namespace below";
    "host.block_layer.elevator": word::<Elevator>(), Word("deadline") => block_layer.elevator,
        "Block layer: order in which requests go to the drive";
    "host.block_layer.requests": few(1), Whole(128) => block_layer.requests,
        "Block layer: requests that wait at most (Linux: nr_requests)";
    "host.block_layer.depth": few(1), Whole(32) => block_layer.depth,
        "Block layer: commands that are with the drive at most";
    "host.block_layer.largest": LARGEST, Word("512KiB") => block_layer_largest,
        "Block layer: largest request; larger commands are cut (Linux: max_sectors_kb)";
    "host.block_layer.plug": few(0), Whole(4) => block_layer.plug,
        "Block layer: requests that an idle queue gathers before the first goes to the drive; 0: none";
    "host.block_layer.plug_time": TIME, Word("3ms") => block_layer.plug_ns,
        "Block layer: longest time for which an idle queue gathers";
    "host.block_layer.read_expire": TIME, Word("500ms") => block_layer.read_expire,
        "Block layer, deadline: no request overtakes a read that has waited this long";
    "host.block_layer.write_expire": TIME, Word("5s") => block_layer.write_expire,
        "Block layer, deadline: no request overtakes a write that has waited this long";
    "host.nameless.namespace": Kind::Whole(0, 255), Whole(0) => nameless.namespace,
        "Nameless writes: open-channel namespace below";
    "host.nameless.over_provisioning": Kind::Share(0.0, 100.0), Real(0.0753) => nameless.ftl.over_provisioning,
        "Nameless writes: spare capacity as a share of what can hold data (Jasmine's firmware: 7 / 93)";
    "host.nameless.virtual_share": SHARE, Real(0.0625) => nameless.ftl.virtual_share,
        "Nameless writes: share of what can hold data that has virtual addresses";
    "host.nameless.gc_low": few(0), Whole(0) => nameless.ftl.gc_low,
        "Nameless writes: GC runs while this many chunks or fewer are free. 0: 1/256 of all chunks, at least one per parallel unit plus four";
    "host.nameless.migration": word::<Migration>(), Word("acknowledged") => nameless.ftl.migration,
        "Nameless writes: acknowledged: the old copy of a moved sector is kept until the host knows the new name; prototype: it is erased first, as in the paper";
    "host.cpu.cores": few(1), Whole(1) => host_ftl.cpu.cores,
        "Processor cores that the host's layers may use";
    "host.cpu.submit": TIME, Whole(0) => host_ftl.cpu.submit_ns,
        "Host processor: taking and completing a command";
    "host.cpu.sector": TIME, Whole(0) => host_ftl.cpu.sector_ns,
        "Host processor: mapping one sector, and copying it if it is written";
    "host.cpu.command": TIME, Whole(0) => host_ftl.cpu.command_ns,
        "Host processor: submitting one command to the drive";
    "host.cpu.completion": TIME, Whole(0) => host_ftl.cpu.completion_ns,
        "Host processor: handling one completion of the drive";
}

/// Completes the settings of a host FTL.
pub(crate) fn finish(draft: &mut Draft) {
    draft.host_ftl.durability = draft.host_durability.durability(0);
    draft.host_ftl.uuid = draft.drive.ftl.seed;
    draft.zones.namespace = draft.host_ftl.namespace;
    draft.zones.cpu = draft.host_ftl.cpu;
    draft.cluster_buffer.journal = draft.journal_ring.map(|ring_bytes| JournalConfig {
        ring_bytes,
        unit_bytes: draft.journal_unit,
        usage: draft.journal_use,
        // A modelled drive is its user's own.
        make: Some(draft.drive.ftl.seed),
    });
    draft.cluster_buffer.cpu = draft.host_ftl.cpu;
    draft.cluster_buffer.sector_bytes = draft.drive.media.geometry.sector_bytes;
    draft.nameless.cpu = draft.host_ftl.cpu;
    draft.block_layer.largest = (draft.block_layer_largest / draft.drive.media.geometry.sector_bytes).max(1);
    draft.block_layer.cpu = CpuCosts { sector_ns: Nanos::ZERO, ..draft.host_ftl.cpu };
}

/// The layers above the drive, nearest the drive first.
pub(crate) fn layers(draft: &Draft, values: &Values) -> Result<Vec<LayerConfig>, SpecError> {
    let is_alone = draft.medium == Medium::Disk || draft.layers.contains(&Layer::Cache);
    if draft.backing_kind == BackingKind::Disk && !is_alone {
        return Err(values.refuse("backing.kind", "none, or disk with host.layers = [\"cache\"]"));
    }
    // From the application to the drive; those that make another kind of namespace stand on the drive.
    let height = |layer: &Layer| match layer {
        Layer::ClusterBuffer | Layer::NamelessFile => 0,
        Layer::BlockLayer => 1,
        Layer::HostFtl | Layer::ZoneLog | Layer::NamelessFtl => 2,
        Layer::Cache => 3,
    };
    if !draft.layers.is_sorted_by(|above, below| height(above) < height(below)) {
        let allowed = "cluster-buffer above block-layer above host-ftl or zone-log, each at most once; or nameless-file above block-layer \
                       above nameless-ftl";
        return Err(values.refuse("host.layers", allowed));
    }
    let stands_on_disk = |layer: &Layer| matches!(layer, Layer::BlockLayer | Layer::ClusterBuffer);
    if draft.medium == Medium::Disk && !draft.layers.iter().all(stands_on_disk) {
        return Err(values
            .refuse("host.layers", "block-layer and cluster-buffer above a disk; the others need flash"));
    }
    let has = |layer| draft.layers.contains(&layer);
    let number = usize::from(draft.nameless.namespace);
    let nameless = matches!(draft.drive.namespaces.get(number), Some(Namespace::Nameless { .. }));
    // A nameless namespace may be alone: a file system on it needs no file, nor does a host over NVMe.
    let is_file = has(Layer::NamelessFile);
    if (is_file && !has(Layer::NamelessFtl) && !nameless) || (has(Layer::NamelessFtl) && !is_file) {
        let allowed = "nameless-file and nameless-ftl together, or neither; nameless-file alone above a nameless namespace";
        return Err(values.refuse("host.layers", allowed));
    }
    let mut layers = Vec::new();
    for layer in draft.layers.iter().rev() {
        match layer {
            Layer::HostFtl => layers.push(LayerConfig::HostFtl(draft.host_ftl.clone())),
            Layer::ZoneLog => layers.extend(zone_log(draft.host_ftl.clone(), draft.zones.clone())),
            Layer::ClusterBuffer => layers.push(cluster_buffer(draft, values)?),
            Layer::BlockLayer => layers.push(LayerConfig::BlockLayer(draft.block_layer.clone())),
            Layer::Cache => layers.push(resolve_cache::layer(draft, values)?),
            Layer::NamelessFtl => layers.push(LayerConfig::NamelessFtl(draft.nameless.clone())),
            Layer::NamelessFile => layers.push(LayerConfig::NamelessFile(draft.nameless.namespace)),
        }
    }
    Ok(layers)
}

/// A host FTL on zones. The layer that sends commands to the drive pays for them.
fn zone_log(ftl: HostFtlConfig, zones: ZoneChunksConfig) -> Vec<LayerConfig> {
    let cpu = CpuCosts { command_ns: Nanos::ZERO, completion_ns: Nanos::ZERO, ..ftl.cpu };
    let ftl = HostFtlConfig { finish_chunks: true, cpu, ..ftl };
    vec![LayerConfig::ZoneChunks(zones), LayerConfig::HostFtl(ftl)]
}

fn cluster_buffer(draft: &Draft, values: &Values) -> Result<LayerConfig, SpecError> {
    let config = draft.cluster_buffer.clone();
    let sector = u64::from(config.sector_bytes);
    if !draft.cluster_bytes.is_multiple_of(sector) {
        let allowed = format!("a multiple of the sector of {sector} bytes");
        return Err(values.refuse("host.cluster_buffer.cluster", allowed));
    }
    let cluster_sectors = (draft.cluster_bytes / sector) as u32;
    Ok(LayerConfig::ClusterBuffer(ClusterBufferConfig { cluster_sectors, ..config }))
}
