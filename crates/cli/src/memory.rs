//! Memory of this machine, and the buffers that must fit into it: one that does not would end the program where it is made.

use crate::failure::Failure;
use anyhow::anyhow;
use pellucid_host::{ClusterBufferConfig, LayerConfig};
use pellucid_spec::{Medium, Spec};
use pellucid_workload::Job;

/// Bytes that a buffer takes for a sector beside its data: its stamp or its place in a table.
const SECTOR_BYTES: u64 = 16;
/// Bytes that the data buffer of a drive takes for an entry beside its data.
const ENTRY_BYTES: u64 = 128;

/// Returns the memory of this machine; where the system does not say, there is no limit.
pub fn machine_bytes() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    total.and_then(|kib| kib.trim().parse::<u64>().ok()).map_or(u64::MAX, |kib| kib << 10)
}

/// Buffer that takes its memory when it is made.
struct Buffer {
    key: &'static str,
    value: u64,
    /// Bytes that it takes for each of the units in which the key counts.
    unit_bytes: f64,
}

/// Returns the buffers of a description.
fn buffers(spec: &Spec) -> Vec<Buffer> {
    let geometry = &spec.drive.media.geometry;
    let keeps = spec.drive.media.store.keeps_data();
    // With stamps instead of data, no buffer holds any data.
    let of_sectors =
        |sectors: u64| sectors * (SECTOR_BYTES + if keeps { geometry.sector_bytes.into() } else { 0 });
    let mut found = Vec::new();
    if spec.medium == Medium::Flash {
        let sectors = u64::from(geometry.unit_bytes / geometry.sector_bytes);
        let unit_bytes = (ENTRY_BYTES + of_sectors(sectors)) as f64;
        let entries = [
            ("drive.buffer.entries", spec.drive.buffer.entries),
            ("drive.buffer.read_entries", spec.drive.buffer.read_entries),
        ];
        found.extend(entries.map(|(key, value)| Buffer { key, value: value.into(), unit_bytes }));
    }
    for layer in &spec.host {
        match layer {
            LayerConfig::ClusterBuffer(config) => {
                let share = of_sectors(1) as f64 / f64::from(config.sector_bytes);
                let unit_bytes = if keeps { 1.0 } else { share };
                found.push(Buffer { key: "host.cluster_buffer.size", value: config.size_bytes, unit_bytes });
            }
            LayerConfig::HostFtl(config) => {
                // Sectors are rounded up to a power of two, and each has an entry and two places in the index.
                let unit_bytes = 2.0 * (of_sectors(1) + 4 * SECTOR_BYTES) as f64;
                let value = config.buffer_sectors.into();
                found.push(Buffer { key: "host.ftl.buffer", value, unit_bytes });
            }
            _ => {}
        }
    }
    found
}

/// Refuses buffers that are larger than the memory of this machine.
pub fn check(spec: &Spec) -> Result<(), Failure> {
    let machine_bytes = machine_bytes();
    for Buffer { key, value, unit_bytes } in buffers(spec) {
        if value as f64 * unit_bytes > machine_bytes as f64 {
            return Err(refused(key, value, (machine_bytes as f64 / unit_bytes) as u64, machine_bytes));
        }
    }
    let geometry = &spec.drive.media.geometry;
    // A drive offers no more than its flash.
    let sectors = match spec.medium {
        Medium::Flash => {
            geometry.layout().map_or(0, |layout| layout.media_bytes()) / u64::from(geometry.sector_bytes)
        }
        Medium::Disk => spec.backing.disk.sectors,
    };
    let buffered = spec.host.iter().filter_map(|layer| match layer {
        LayerConfig::ClusterBuffer(config) => Some(config),
        _ => None,
    });
    let keeps = spec.drive.media.store.keeps_data();
    buffered
        .into_iter()
        .try_for_each(|config| check_tables(config, sectors, if keeps { config.size_bytes } else { 0 }))
}

/// Refuses tables beside a cluster buffer that do not fit into the memory of this machine: above a drive of so many sectors, with the bytes of the buffer
/// itself.
pub fn check_tables(config: &ClusterBufferConfig, sectors: u64, buffer_bytes: u64) -> Result<(), Failure> {
    let (table_bytes, machine_bytes) = (config.tables_beside_bytes(sectors), machine_bytes());
    if table_bytes == 0 || table_bytes.saturating_add(buffer_bytes) <= machine_bytes {
        return Ok(());
    }
    Err(Failure::asked(anyhow!(
        "host.cluster_buffer.tables = beside: they would take {table_bytes} bytes beside the buffer; allowed: within, larger clusters, or a smaller buffer, \
         so that both fit into the memory of this machine, {machine_bytes} bytes"
    )))
}

/// Bytes that a request takes while it is outstanding, in the run and in the drive: measured, 1.7 GB for 4 million of them.
const REQUEST_BYTES: u64 = 400;

/// Refuses jobs that together keep more requests outstanding than the memory of this machine can hold.
pub fn check_jobs(jobs: &[Job]) -> Result<(), Failure> {
    let outstanding = jobs.iter().map(|job| u64::from(job.iodepth)).sum::<u64>();
    let (machine_bytes, most) = (machine_bytes(), machine_bytes() / REQUEST_BYTES);
    match outstanding > most {
        true => Err(refused("iodepth of all jobs together", outstanding, most, machine_bytes)),
        false => Ok(()),
    }
}

/// Returns the failure of a buffer that is larger than the memory of this machine.
pub fn refused(key: &str, value: u64, most: u64, machine_bytes: u64) -> Failure {
    let allowed = match most == machine_bytes {
        true => format!("at most the memory of this machine, {machine_bytes} bytes"),
        false => format!("at most {most}, which the memory of this machine, {machine_bytes} bytes, can hold"),
    };
    Failure::asked(anyhow!("{key} = {value}: allowed: {allowed}"))
}
