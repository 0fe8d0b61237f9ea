//! Layout of chunks and their tables on a block drive.
//!
//! ```text
//!  sectors   [ head ][ table of chunk 0 | table of chunk 1 | ... ][ data of chunk 0 | data of chunk 1 | ... ]
//! ```

use super::table;
use pellucid_flash::{ChunkAddress, ChunkGeometry, ChunkState, Lba, Nanos, Vector};

/// Sectors of the head.
pub(super) const HEAD_SECTORS: u32 = 8;

/// Configuration of chunks on a plain block drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockChunksConfig {
    /// Block namespace of the drive.
    pub namespace: u16,
    /// Number of groups of parallel units. A plain drive has no parallel units; groups and units only name
    /// parts of it.
    pub groups: u32,
    /// Parallel units in a group.
    pub units: u32,
    /// Sectors in a chunk.
    pub chunk_sectors: u32,
    /// Minimum write size in sectors; a divisor of a chunk.
    pub write_sectors: u32,
    /// Bytes of a sector of the drive.
    pub sector_bytes: u32,
    /// Acknowledge a write when it is on the media. If off, writes are durable after a flush, or before the
    /// next reset: a power cut may tear the latest writes; a crash of the program alone loses nothing.
    pub force_writes: bool,
    /// Make new chunks even if the drive holds data.
    pub format: bool,
}

impl Default for BlockChunksConfig {
    fn default() -> Self {
        BlockChunksConfig {
            namespace: 0,
            groups: 4,
            units: 2,
            chunk_sectors: 1024,
            write_sectors: 4,
            sector_bytes: 4096,
            force_writes: true,
            format: false,
        }
    }
}

/// Reason that a drive cannot hold chunks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockChunksError {
    /// The namespace is not a block namespace.
    #[error("namespace {0} is not a block one; these chunks are made of sectors")]
    NotBlock(u16),
    /// A setting is out of range.
    #[error("{key} = {value}: allowed: {allowed}")]
    Setting {
        /// Key of the setting.
        key: &'static str,
        /// Value of the setting.
        value: u64,
        /// Allowed values.
        allowed: String,
    },
}

/// Layout of chunks on a block drive.
#[derive(Clone, Debug)]
pub(super) struct ChunkShape {
    pub chunks: ChunkGeometry,
    /// Sectors of a chunk's table.
    pub table_sectors: u32,
    /// Number of writes that one table sector describes.
    pub per_sector: u32,
}

impl ChunkShape {
    pub fn new(
        config: &BlockChunksConfig,
        sectors: u64,
        image_bytes: usize,
    ) -> Result<ChunkShape, BlockChunksError> {
        let refuse = |key, value: u32, allowed: String| {
            Err(BlockChunksError::Setting { key, value: value.into(), allowed })
        };
        let BlockChunksConfig { groups, units, chunk_sectors, write_sectors, sector_bytes, .. } = *config;
        if sector_bytes < 512 || (image_bytes != 4 && image_bytes != sector_bytes as usize) {
            return refuse("sector_bytes", sector_bytes, format!("the drive's {image_bytes}"));
        }
        let entry = write_sectors.saturating_mul(Vector::METADATA_BYTES as u32);
        let per_sector = (sector_bytes - table::HEADER_BYTES as u32).checked_div(entry).unwrap_or(0);
        if per_sector == 0 {
            let most = (sector_bytes - table::HEADER_BYTES as u32) / Vector::METADATA_BYTES as u32;
            return refuse("write_sectors", write_sectors, format!("1 to {most}"));
        }
        if chunk_sectors == 0 || !chunk_sectors.is_multiple_of(write_sectors) {
            let allowed = format!("a multiple of the {write_sectors} of a write");
            return refuse("chunk_sectors", chunk_sectors, allowed);
        }
        let table_sectors = (chunk_sectors / write_sectors).div_ceil(per_sector);
        let each = u64::from(table_sectors) + u64::from(chunk_sectors);
        let all = sectors.saturating_sub(HEAD_SECTORS.into()) / each;
        let units_all = u64::from(groups) * u64::from(units);
        let chunks = all.checked_div(units_all).unwrap_or(0).min(u64::from(u32::MAX) / units_all.max(1));
        if chunks == 0 {
            let allowed = format!("groups x units from 1 to the {all} chunks that the drive has room for");
            return refuse("groups", groups, allowed);
        }
        let chunks = ChunkGeometry {
            groups,
            units,
            chunks: chunks as u32,
            chunk_sectors,
            sector_bytes,
            write_min_sectors: write_sectors,
            write_optimal_sectors: write_sectors,
            cached_sectors: 0,
            open_chunks_max: 0,
            open_chunks_per_unit_max: 0,
            // A plain drive reports no latencies.
            read_ns: [Nanos::ZERO; 2],
            write_ns: [Nanos::ZERO; 2],
            reset_ns: [Nanos::ZERO; 2],
        };
        Ok(ChunkShape { chunks, table_sectors, per_sector })
    }

    /// Returns the state of a chunk of which `written` sectors count.
    pub fn state(&self, written: u32) -> ChunkState {
        match written {
            0 => ChunkState::Free,
            all if all == self.chunks.chunk_sectors => ChunkState::Closed,
            _ => ChunkState::Open,
        }
    }

    /// Returns the number of chunks.
    pub fn count(&self) -> u32 {
        self.chunks.parallel_units() * self.chunks.chunks
    }

    /// Returns the number of sectors of all tables.
    pub fn tables(&self) -> u64 {
        u64::from(self.count()) * u64::from(self.table_sectors)
    }

    /// Returns the drive sector of sector `at` of all tables.
    pub fn table(&self, at: u64) -> Lba {
        Lba(u64::from(HEAD_SECTORS) + at)
    }

    /// Returns the number, among all table sectors, of the sector that describes `write` of a chunk.
    pub fn table_of(&self, chunk: u32, write: u32) -> u64 {
        u64::from(chunk) * u64::from(self.table_sectors) + u64::from(write / self.per_sector)
    }

    /// Returns the drive sector of a sector of a chunk.
    pub fn data(&self, chunk: u32, sector: u32) -> Lba {
        Lba(u64::from(HEAD_SECTORS)
            + self.tables()
            + u64::from(chunk) * u64::from(self.chunks.chunk_sectors)
            + u64::from(sector))
    }

    /// Returns the chunk number and the sector within it; `None` if the address is out of range.
    pub fn place(&self, lba: Lba) -> Option<(u32, u32)> {
        let address: ChunkAddress = self.chunks.address(lba)?;
        Some((self.chunks.chunk_number(address), address.sector))
    }

    /// Returns the layout as words, for the head.
    pub fn words(&self) -> [u32; 6] {
        let ChunkGeometry { groups, units, chunks, chunk_sectors, write_min_sectors, sector_bytes, .. } =
            self.chunks;
        [groups, units, chunks, chunk_sectors, write_min_sectors, sector_bytes]
    }
}
