//! Layout of a chunk's sectors in its zone, and the check that a drive's zones can be chunks.
//!
//! ```text
//!  zones    0 1 2 3 | 4 5 6 7 | ...        width 4: chunk c of parallel unit u is zone 4 c + u
//!  chunk    0 ... D-1        D ... 2D-1            D data sectors of each batch
//!  zone     0 ... D-1  (D)   D+1 ... 2D  (2D+1)    (trailer)
//! ```

use super::trailer;
use crate::CpuCosts;
use pellucid_flash::{ChunkAddress, ChunkGeometry, ChunkInfo, ChunkState, Lba, Nanos, ZoneGeometry};
use pellucid_flash::{ZoneInfo, ZoneState};
use pellucid_setting::Settings;

/// Number of lines that may be partly written at a time: one of data and one of the map, each with a
/// predecessor that is being finished.
const LINES_ACTIVE: u32 = 4;
/// Default sectors of a batch: 256 KiB of the usual sectors.
const BATCH_SECTORS: u32 = 64;

/// Configuration of zones as chunks.
#[derive(Clone, Debug, PartialEq, Eq, Settings)]
pub struct ZoneChunksConfig {
    /// Zoned namespace of the drive.
    #[setting(beside = "ftl", shared, kind = whole(0, 255), default = 0)]
    pub namespace: u16,
    /// Zone log: zones written side by side; the drive must allow four times as many active ones.
    ///
    /// To the layer above, they are parallel units.
    #[setting(kind = few(1), default = 1)]
    pub width: u32,
    /// Zone log: sectors of a batch, one of them its trailer; 0: the largest divisor of the zone capacity up to 64.
    ///
    /// A divisor of the zone capacity.
    #[setting(key = "batch", kind = whole(0, 1 << 16), default = 0)]
    pub batch_sectors: u32,
    /// Processor time of commands to the drive and their completions.
    #[setting(beside = "cpu", table, shared)]
    pub cpu: CpuCosts,
}

impl Default for ZoneChunksConfig {
    fn default() -> Self {
        ZoneChunksConfig::usual()
    }
}

/// Reason that the zones of a namespace cannot be chunks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneChunksError {
    /// The namespace is not a zoned namespace.
    #[error("namespace {0} is not a zoned one; a zone log needs zones")]
    NotZoned(u16),
    /// A setting is out of range.
    #[error("{key} = {value}: allowed: {allowed}")]
    Setting {
        /// Key, as in the description.
        key: &'static str,
        /// Value of the setting.
        value: u64,
        /// Allowed values.
        allowed: String,
    },
}

/// Position of a chunk's sector in its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub zone: u32,
    pub batch: u32,
    /// Sector within the batch.
    pub sector: u32,
}

/// Layout of chunks on zones.
#[derive(Clone, Debug)]
pub(super) struct ZoneShape {
    pub zones: ZoneGeometry,
    pub chunks: ChunkGeometry,
    /// Sectors in a batch.
    pub batch: u32,
    /// Data sectors in a batch.
    pub data: u32,
}

impl ZoneShape {
    pub fn new(config: &ZoneChunksConfig, zones: &ZoneGeometry) -> Result<ZoneShape, ZoneChunksError> {
        let refuse =
            |key, value: u32, allowed| Err(ZoneChunksError::Setting { key, value: value.into(), allowed });
        let most = match zones.active_max {
            0 => zones.zones,
            active => active / LINES_ACTIVE,
        };
        if most == 0 {
            let allowed = format!("0, or at least {LINES_ACTIVE}: data, map, and one of each being finished");
            return refuse("drive.namespace.active_max", zones.active_max, allowed);
        }
        let wanted = config.width.saturating_mul(LINES_ACTIVE);
        if zones.open_max > 0 && zones.open_max < zones.active_max.min(wanted) {
            let allowed = format!("0, or at least {wanted} with this width");
            return refuse("drive.namespace.open_max", zones.open_max, allowed);
        }
        if config.width == 0 || config.width > most {
            let why = match zones.active_max {
                0 => String::new(),
                active => format!(
                    ", for {LINES_ACTIVE} times as many zones may be active, and the drive allows {active}"
                ),
            };
            return refuse("host.zone_log.width", config.width, format!("1 to {most}{why}"));
        }
        let longest = u64::from(trailer::batch_sectors_max(zones.sector_bytes));
        let fits =
            |batch: u64| (2..=longest).contains(&batch) && zones.capacity_sectors.is_multiple_of(batch);
        let batch = match config.batch_sectors {
            0 => (2..=u64::from(BATCH_SECTORS)).rev().find(|&batch| fits(batch)),
            batch => Some(u64::from(batch)).filter(|&batch| fits(batch)),
        };
        let Some(batch) = batch else {
            let capacity = zones.capacity_sectors;
            let allowed = format!("2 to {longest}, a divisor of the {capacity} sectors of a zone");
            return refuse("host.zone_log.batch", config.batch_sectors, allowed);
        };
        let sectors = zones.capacity_sectors / batch * (batch - 1);
        let Ok(chunk_sectors) = u32::try_from(sectors) else {
            let allowed = "zones of less than 2^32 sectors".into();
            return refuse("drive.namespace.dies_per_zone", zones.zones, allowed);
        };
        let batch = batch as u32;
        let chunks = ChunkGeometry {
            groups: 1,
            units: config.width,
            chunks: zones.zones / config.width,
            chunk_sectors,
            sector_bytes: zones.sector_bytes,
            write_min_sectors: batch - 1,
            write_optimal_sectors: batch - 1,
            cached_sectors: 0,
            open_chunks_max: 0,
            open_chunks_per_unit_max: 0,
            // A zoned drive reports no latencies.
            read_ns: [Nanos::ZERO; 2],
            write_ns: [Nanos::ZERO; 2],
            reset_ns: [Nanos::ZERO; 2],
        };
        Ok(ZoneShape { zones: *zones, chunks, batch, data: batch - 1 })
    }

    /// Returns the zone of a chunk.
    pub fn zone_of(&self, address: ChunkAddress) -> u32 {
        address.chunk * self.chunks.units + address.unit
    }

    /// Returns the position of a chunk's sector; `None` if the address is out of range.
    #[inline]
    pub fn place(&self, lba: Lba) -> Option<Place> {
        let address = self.chunks.address(lba)?;
        let (batch, sector) = (address.sector / self.data, address.sector % self.data);
        Some(Place { zone: self.zone_of(address), batch, sector })
    }

    /// Returns the first sector of a zone.
    pub fn start(&self, zone: u32) -> u64 {
        u64::from(zone) * self.zones.zone_sectors
    }

    /// Returns the drive address of a position.
    #[inline]
    pub fn lba(&self, place: Place) -> u64 {
        self.start(place.zone) + u64::from(place.batch * self.batch + place.sector)
    }

    /// Returns the address of the trailer that describes a position.
    #[inline]
    pub fn trailer(&self, place: Place) -> u64 {
        self.lba(Place { sector: self.data, ..place })
    }

    /// Returns the position of a drive sector.
    #[inline]
    pub fn place_at(&self, lba: u64) -> Place {
        let (zone, offset) = (lba / self.zones.zone_sectors, (lba % self.zones.zone_sectors) as u32);
        Place { zone: zone as u32, batch: offset / self.batch, sector: offset % self.batch }
    }

    /// Returns the number of sectors that a zone lacks to the end of a torn batch.
    pub fn torn(&self, info: &ZoneInfo) -> u32 {
        match info.state {
            ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen | ZoneState::Closed => {
                let written = (info.write_pointer.0 - info.start.0) as u32;
                written.next_multiple_of(self.batch) - written
            }
            _ => 0,
        }
    }

    /// Returns the description of a chunk for that of its zone. The write pointer of a full or read-only zone
    /// is undefined; its unwritten sectors have no trailer.
    pub fn info(&self, address: ChunkAddress, zone: &ZoneInfo) -> ChunkInfo {
        let written = (zone.write_pointer.0.saturating_sub(zone.start.0)) as u32 / self.batch * self.data;
        let (state, write_pointer) = match zone.state {
            ZoneState::Empty => (ChunkState::Free, 0),
            ZoneState::Offline => (ChunkState::Offline, 0),
            ZoneState::Full | ZoneState::ReadOnly => (ChunkState::Closed, self.chunks.chunk_sectors),
            ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen | ZoneState::Closed => {
                (ChunkState::Open, written)
            }
        };
        ChunkInfo {
            state,
            wear_index: 0,
            start: self.chunks.lba(address),
            sectors: self.chunks.chunk_sectors,
            write_pointer,
        }
    }
}
