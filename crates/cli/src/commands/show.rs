//! `pellucid show`: the resolved description.

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use crate::subject::Subject;
use pellucid_device::{Device, DeviceConfig};
use pellucid_flash::{CacheGeometry, ChunkGeometry, Drive, Interface, PlacementGeometry, ZoneGeometry};
use pellucid_lab::experiment::jobs;
use pellucid_media::StoreKind;
use pellucid_spec::{show, show_explained};

const EXAMPLES: &str = "\
Examples:
  pellucid show cosmos-plus
  pellucid show zoned
  pellucid show netbook-ssd --explain
  pellucid show jasmine --set ftl.victim=fifo > mine.toml
  pellucid show aged.pellucid";

/// Print the whole description of a drive, with every default and the source of every value
///
/// For a drive with namespaces, comment lines at the top show what hosts see of each.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Show {
    /// A preset, a description in TOML, or an image
    #[arg(value_name = "DRIVE")]
    drive: String,
    /// Write the meaning of each key above it
    #[arg(long, conflicts_with = "json")]
    explain: bool,
}

impl Show {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let spec = Subject::open_to_show(&self.drive, global)?.spec;
        // A description that `run` would refuse is refused here too.
        jobs(&spec).map_err(Failure::asked)?;
        if !global.json {
            let described = if self.explain { show_explained(&spec) } else { show(&spec) };
            let text = namespaces(&spec.drive, &spec.drive_name)? + &described;
            return Ok(output::print(&text)?);
        }
        let entries = spec.provenance.entries.iter().map(
            |entry| serde_json::json!({ "key": entry.key, "value": entry.value, "source": entry.source() }),
        );
        Ok(output::print(&format!("{:#}\n", entries.collect::<serde_json::Value>()))?)
    }
}

/// Describes, as comment lines, the host's view of each namespace that the description names. The lines come from a new drive with these
/// settings: geometry does not depend on written data.
fn namespaces(config: &DeviceConfig, drive: &str) -> Result<String, Failure> {
    if config.namespaces.is_empty() {
        return Ok(String::new());
    }
    let mut config = config.clone();
    if let StoreKind::File(_) = config.media.store {
        // Memory is taken only for what is written.
        config.media.store = StoreKind::Ram;
    }
    let device = Device::new(&config).map_err(Failure::asked)?;
    let sector_bytes = device.layout().sector_bytes;
    let lines = (0..device.namespaces()).filter_map(|number| {
        let interface = device.interface(number)?;
        let (name, geometry) = match interface {
            Interface::Block { .. } => match device.namespace(number).placement() {
                Some(placement) => ("fdp", handles(&placement)),
                None => (interface.name(), String::new()),
            },
            Interface::OpenChannel(geometry) => (interface.name(), chunks(&geometry)),
            Interface::Zoned(geometry) => (interface.name(), zones(&geometry)),
            Interface::Cache(geometry) => (interface.name(), cache(&geometry)),
            _ => (interface.name(), String::new()),
        };
        let capacity = capacity(interface.capacity_sectors(), sector_bytes);
        let served = match device.namespaces() {
            1 => String::new(),
            _ => format!(" ({drive}.{} when it is served)", number + 1),
        };
        Some(format!("# namespace {number}{served}: {name}, {capacity}\n{geometry}"))
    });
    Ok(lines.collect::<String>() + "\n")
}

fn handles(placement: &PlacementGeometry) -> String {
    let PlacementGeometry { handles, unit_bytes, persistent } = *placement;
    let isolated = if persistent { "persistently" } else { "initially" };
    format!("#   {handles} reclaim unit handles, {isolated} isolated, reclaim units of {unit_bytes} B\n")
}

fn chunks(geometry: &ChunkGeometry) -> String {
    let ChunkGeometry { groups, units, chunks, chunk_sectors, sector_bytes, .. } = *geometry;
    format!(
        "#   {groups} groups x {units} parallel units x {chunks} chunks x {chunk_sectors} sectors of {sector_bytes} B\n\
         #   ws_min {}, ws_opt {}, mw_cunits {} sectors; open chunks {}, of a parallel unit {}\n",
        geometry.write_min_sectors,
        geometry.write_optimal_sectors,
        geometry.cached_sectors,
        limit(geometry.open_chunks_max),
        limit(geometry.open_chunks_per_unit_max),
    )
}

fn zones(geometry: &ZoneGeometry) -> String {
    let ZoneGeometry { zones, zone_sectors, capacity_sectors, sector_bytes, .. } = *geometry;
    format!(
        "#   {zones} zones of {zone_sectors} sectors of {sector_bytes} B, {capacity_sectors} of them writable\n\
         #   open zones {}, active zones {}, longest append {} sectors\n",
        limit(geometry.open_max),
        limit(geometry.active_max),
        geometry.append_max_sectors,
    )
}

fn cache(geometry: &CacheGeometry) -> String {
    let CacheGeometry { address_sectors, unit_sectors, units } = *geometry;
    format!(
        "#   {units} blocks of {unit_sectors} sectors, of a backing store of up to {address_sectors} sectors\n"
    )
}

/// Bytes that can be written.
fn capacity(sectors: u64, sector_bytes: u32) -> String {
    let bytes = sectors * u64::from(sector_bytes);
    format!("{bytes} B ({:.1} GiB)", bytes as f64 / f64::from(1 << 30))
}

/// A limit that 0 lifts.
fn limit(most: u32) -> String {
    if most == 0 { "any number".into() } else { format!("at most {most}") }
}
