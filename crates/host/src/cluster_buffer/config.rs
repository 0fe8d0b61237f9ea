//! Configuration of a cluster buffer, and the division of its memory.

use pellucid_flash::{Interface, Nanos};
use pellucid_setting::{Settings, Word};
use std::ops::Range;

use super::journal::{JournalConfig, JournalSettings, Region};
use super::table::{SLOT_BYTES, TABLE_ENTRY_BYTES};
use crate::CpuCosts;

/// Guarantee of a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::VariantNames, strum::EnumString, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum FlushPolicy {
    /// A flush writes all earlier acknowledged data to the drive, then flushes the drive.
    #[default]
    Strict,
    /// A flush goes to the drive and bypasses the buffer, as published. A power cut loses the buffer's data.
    Paper,
}

/// Memory of the tables that find a sector in the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::VariantNames, strum::EnumString, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum TableMemory {
    /// Tables are part of the buffer's memory: those of clusters have a sixteenth of it, and a cluster leaves when it is used up.
    #[default]
    Within,
    /// Tables have memory of their own, for as many clusters as there can be in the buffer: a cluster leaves only when no sector is free, as published
    /// ("if there are no more buffers available in the buffer pool", section 3.5).
    Beside,
}

/// Configuration of a cluster buffer.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct ClusterBufferConfig {
    /// Cluster buffer: block namespace below.
    #[setting(kind = whole(0, 255), default = 0)]
    pub namespace: u16,
    /// Bytes of a sector.
    #[setting(skip = 512)]
    pub sector_bytes: u32,
    /// Cluster buffer: host memory for data, tables and evictions (FlashFire: 32 MiB).
    #[setting(kind = size(1 << 10, 1 << 40), default = 32 << 20)]
    pub size_bytes: u64,
    /// Cluster buffer: memory of the tables. within: part of size, and full tables evict clusters; beside: in addition to size
    /// (FlashFire).
    #[setting(default = "within")]
    pub tables: TableMemory,
    /// Cluster buffer: size of a cluster, the unit of an eviction (FlashFire: 1 MiB or 2 MiB).
    ///
    /// In sectors; a description says it in bytes.
    #[setting(key = "cluster", kind = size(512, 1 << 31), default = 1 << 20, made = 2048)]
    pub cluster_sectors: u32,
    /// Cluster buffer: effect of a flush. strict: it writes the buffer; paper: it bypasses the buffer, so a power cut loses the buffered
    /// data.
    #[setting(default = "strict")]
    pub flush: FlushPolicy,
    /// Region at the end of the device into which a flush may write; `None`: flushes drain the buffer.
    #[setting(flatten, via = JournalSettings)]
    pub journal: Option<JournalConfig>,
    /// Cluster buffer: clusters are written after this time without a request.
    ///
    /// The least recently used first; `None` turns this off.
    #[setting(or = "never", default = 500_000_000)]
    pub idle_ns: Option<Nanos>,
    /// Cluster buffer: longest time from a write to the beginning of its eviction.
    ///
    /// It bounds the loss with [`FlushPolicy::Paper`]; `None`: no bound.
    #[setting(or = "never")]
    pub age_ns: Option<Nanos>,
    /// Cluster buffer: an eviction reads the missing sectors and writes a whole cluster; false: it writes each run of sectors separately.
    #[setting(default = true)]
    pub padding: bool,
    /// Cluster buffer: full clusters are evicted before all others.
    #[setting(default = true)]
    pub early_retirement: bool,
    /// Cluster buffer: evictions under way at once; each has memory for a cluster.
    #[setting(kind = whole(1, 32), default = 1)]
    pub evictions: u32,
    /// Cluster buffer: byte ranges whose writes bypass the buffer, FROM-TO such as "0-64MiB", separated by commas; empty: none.
    ///
    /// In sectors; a description says it in bytes. Such as those of a file system's metadata.
    #[setting(kind = Kind::Text, default = "", made = Vec::new())]
    pub bypass: Vec<Range<u64>>,
    /// Processor time of the layer's work.
    #[setting(beside = "cpu", table, shared)]
    pub cpu: CpuCosts,
}

impl Default for ClusterBufferConfig {
    fn default() -> ClusterBufferConfig {
        ClusterBufferConfig::usual()
    }
}

impl ClusterBufferConfig {
    /// Returns the bytes of tables that come on top of the configured memory, above a namespace of so many sectors.
    pub fn tables_beside_bytes(&self, sectors: u64) -> u64 {
        if self.tables == TableMemory::Within || self.cluster_sectors == 0 || self.sector_bytes == 0 {
            return 0;
        }
        let clusters = sectors.div_ceil(self.cluster_sectors.into());
        let (buffers, slots) = (self.size_bytes / u64::from(self.sector_bytes), self.slots_beside(clusters));
        (clusters + buffers)
            .saturating_mul(TABLE_ENTRY_BYTES)
            .saturating_add(slots.saturating_mul(self.slot_bytes()))
    }

    /// Returns the clusters of so many that can be in the buffer at once, if tables do not limit them.
    fn slots_beside(&self, clusters: u64) -> u64 {
        // Each has a sector there.
        clusters.min(self.size_bytes / u64::from(self.sector_bytes))
    }

    /// Returns the bytes of a slot with its table.
    fn slot_bytes(&self) -> u64 {
        u64::from(self.cluster_sectors) * TABLE_ENTRY_BYTES + SLOT_BYTES
    }
}

/// Reason that a cluster buffer cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterBufferError {
    /// The namespace below is not a block namespace.
    #[error("cluster buffer: namespace {0} is no block namespace; allowed: one with interface = \"block\"")]
    NotBlock(u16),
    /// The cluster size is out of range.
    #[error(
        "host.cluster_buffer.cluster = {bytes} bytes: allowed: a multiple of the sector of {sector_bytes} bytes, at most 2 GiB"
    )]
    Cluster {
        /// Configured bytes of a cluster.
        bytes: u64,
        /// Bytes of a sector.
        sector_bytes: u32,
    },
    /// The memory is too small.
    #[error(
        "host.cluster_buffer.size = {bytes} bytes: allowed: at least {least} bytes for a drive of {drive_bytes} bytes and clusters of {cluster_bytes}"
    )]
    Size {
        /// Configured bytes of memory.
        bytes: u64,
        /// Minimum bytes of memory.
        least: u64,
        /// Bytes of the namespace below.
        drive_bytes: u64,
        /// Bytes of a cluster.
        cluster_bytes: u64,
    },
    /// A range whose writes pass the buffer by is empty, or not on the drive.
    #[error(
        "host.cluster_buffer.bypass = {first_bytes}-{end_bytes} (bytes): allowed: ranges within the {drive_bytes} bytes of the drive"
    )]
    Bypass {
        /// First byte of the range.
        first_bytes: u64,
        /// Byte behind the range.
        end_bytes: u64,
        /// Bytes of the drive.
        drive_bytes: u64,
    },
    /// A journal needs flushes that write the buffer.
    #[error("host.cluster_buffer.journal: allowed: with host.cluster_buffer.flush = strict")]
    JournalOfPaper,
    /// The unit size is out of range.
    #[error(
        "host.cluster_buffer.journal_unit = {unit_bytes} bytes: allowed: a multiple of the sector of {sector_bytes} bytes"
    )]
    JournalUnit {
        /// Configured bytes of a unit.
        unit_bytes: u32,
        /// Bytes of a sector.
        sector_bytes: u32,
    },
    /// The ring is too small or too large.
    #[error(
        "host.cluster_buffer.journal = {bytes} bytes: allowed: at least {least} bytes with these clusters, and less than the device of {drive_bytes} bytes"
    )]
    Journal {
        /// Configured bytes of the ring.
        bytes: u64,
        /// Minimum bytes of the ring.
        least: u64,
        /// Bytes of the device.
        drive_bytes: u64,
    },
}

/// Joins ranges of sectors that overlap or touch, in order.
pub(super) fn joined(
    ranges: &[Range<u64>],
    (sectors, sector_bytes): (u64, u32),
) -> Result<Vec<Range<u64>>, ClusterBufferError> {
    let mut sorted = ranges.to_vec();
    sorted.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        if range.is_empty() || range.end > sectors {
            let [first_bytes, end_bytes, drive_bytes] =
                [range.start, range.end, sectors].map(|at| at.saturating_mul(sector_bytes.into()));
            return Err(ClusterBufferError::Bypass { first_bytes, end_bytes, drive_bytes });
        }
        match joined.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => joined.push(range),
        }
    }
    Ok(joined)
}

/// Division of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BufferShape {
    /// Sectors in the namespace.
    pub sectors: u64,
    /// Sectors in a cluster.
    pub cluster_sectors: u32,
    /// Clusters in the namespace.
    pub clusters: u64,
    /// Maximum number of sectors in the buffer.
    pub buffers: u32,
    /// Maximum number of clusters with sectors in the buffer.
    pub slots: u32,
    /// Region of the journal, after the sectors.
    pub journal: Option<Region>,
}

/// Divisor of the memory: second-level tables take at most this share of it.
const TABLE_SHARE: u64 = 16;

impl BufferShape {
    /// Divides the memory: first-level table, a buffer for each eviction, second-level tables, and the rest
    /// for sectors; without the tables if they have memory of their own.
    pub(super) fn new(
        config: &ClusterBufferConfig,
        interface: Option<Interface>,
    ) -> Result<BufferShape, ClusterBufferError> {
        let Some(Interface::Block { mut sectors, .. }) = interface else {
            return Err(ClusterBufferError::NotBlock(config.namespace));
        };
        let (sector, cluster_sectors) = (u64::from(config.sector_bytes), config.cluster_sectors);
        let cluster_bytes = sector * u64::from(cluster_sectors);
        if cluster_sectors == 0 || cluster_bytes > 2 << 30 {
            return Err(ClusterBufferError::Cluster {
                bytes: cluster_bytes,
                sector_bytes: config.sector_bytes,
            });
        }
        // Bytes of the memory that an entry of the first table, a slot, and a sector take.
        let is_beside = config.tables == TableMemory::Beside;
        let (entry, table, buffer) = match is_beside {
            false => (TABLE_ENTRY_BYTES, config.slot_bytes(), sector + TABLE_ENTRY_BYTES),
            true => (0, 0, sector),
        };
        let (mut journal, mut record_bytes) = (None, 0);
        if let Some(asked) = &config.journal {
            if config.flush != FlushPolicy::Strict {
                return Err(ClusterBufferError::JournalOfPaper);
            }
            let slots = match is_beside {
                false => config.size_bytes / TABLE_SHARE / table + 2,
                true => config.slots_beside(sectors.div_ceil(cluster_sectors.into())),
            };
            let region = Region::new(asked, sectors, config.sector_bytes, cluster_sectors, slots)?;
            record_bytes = u64::from(region.largest) * u64::from(asked.unit_bytes);
            sectors = region.ring;
            journal = Some(region);
        }
        let clusters = sectors.div_ceil(cluster_sectors.into());
        let fixed = clusters * entry + u64::from(config.evictions) * cluster_bytes + record_bytes;
        // At least two clusters fit into the buffer, one of them full.
        let least = fixed + 2 * table + (u64::from(cluster_sectors) + 1) * buffer;
        if config.size_bytes < least {
            let (bytes, drive_bytes) = (config.size_bytes, sectors * sector);
            return Err(ClusterBufferError::Size { bytes, least, drive_bytes, cluster_bytes });
        }
        let rest = config.size_bytes - fixed;
        let most = match is_beside {
            false => (rest / TABLE_SHARE / table).max(2).min(clusters.max(2)),
            true => config.slots_beside(clusters),
        };
        let slots = most.min(u64::from(u32::MAX >> 2));
        let buffers = ((rest - slots * table) / buffer).min(u64::from(u32::MAX >> 2));
        Ok(BufferShape {
            sectors,
            cluster_sectors,
            clusters,
            buffers: buffers as u32,
            slots: slots as u32,
            journal,
        })
    }

    /// Returns the sectors of a cluster; the last one may be shorter.
    #[inline]
    pub(super) fn length(&self, cluster: u64) -> u32 {
        let first = cluster * u64::from(self.cluster_sectors);
        (self.sectors - first).min(self.cluster_sectors.into()) as u32
    }

    /// Returns the first and the last cluster of a range.
    #[inline]
    pub(super) fn clusters_of(&self, lba: u64, sectors: u32) -> (u64, u64) {
        let size = u64::from(self.cluster_sectors);
        (lba / size, (lba + u64::from(sectors) - 1) / size)
    }

    /// Splits a range by clusters: number, first sector in it, and sectors.
    #[inline]
    pub(super) fn split(&self, lba: u64, sectors: u32) -> impl Iterator<Item = (u64, u32, u32)> + use<> {
        let size = u64::from(self.cluster_sectors);
        let (mut at, end) = (lba, lba + u64::from(sectors));
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let (cluster, first) = (at / size, at % size);
                let count = (size - first).min(end - at);
                at += count;
                (cluster, first as u32, count as u32)
            })
        })
    }
}
