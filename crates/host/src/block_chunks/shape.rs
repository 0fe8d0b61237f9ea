//! Where chunks and what is known of them lie on a block drive.
//!
//! ```text
//!  sectors   [ head ][ table of chunk 0 | table of chunk 1 | ... ][ data of chunk 0 | data of chunk 1 | ... ]
//! ```

use super::table;
use pellucid_flash::{ChunkAddress, ChunkGeometry, Lba, Nanos, Vector};

/// Sectors of the head.
pub(super) const HEAD_SECTORS: u32 = 8;

/// Chunks on a plain block drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockChunksConfig {
    /// The block namespace of the drive.
    pub namespace: u16,
    /// Groups of parallel units. A plain drive has none; these are names for parts of it.
    pub groups: u32,
    /// Parallel units of a group.
    pub units: u32,
    /// Sectors of a chunk.
    pub chunk_sectors: u32,
    /// Least write, in sectors; a divisor of a chunk.
    pub write_sectors: u32,
    /// Bytes of a sector of the drive.
    pub sector_bytes: u32,
    /// A write is acknowledged when it is on the media. Without this it is after a flush, or before the next reset: a loss of power may
    /// then tear what was written last, a crash of the program alone loses nothing.
    pub force_writes: bool,
    /// Make new chunks whatever the drive holds.
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

/// Why there can be no chunks on a drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockChunksError {
    /// The namespace is not a block one.
    #[error("namespace {0} is not a block one; these chunks are made of sectors")]
    NotBlock(u16),
    /// A setting does not fit.
    #[error("{key} = {value}: allowed: {allowed}")]
    Setting {
        /// Its name.
        key: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        allowed: String,
    },
}

/// How a block drive makes chunks.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub chunks: ChunkGeometry,
    /// Sectors of the table of a chunk.
    pub table_sectors: u32,
    /// Writes that one sector of a table describes.
    pub per_sector: u32,
}

impl Shape {
    pub fn new(
        config: &BlockChunksConfig,
        sectors: u64,
        image_bytes: usize,
    ) -> Result<Shape, BlockChunksError> {
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
            // A plain drive does not say.
            read_ns: [Nanos::ZERO; 2],
            write_ns: [Nanos::ZERO; 2],
            reset_ns: [Nanos::ZERO; 2],
        };
        Ok(Shape { chunks, table_sectors, per_sector })
    }

    /// Chunks in all.
    pub fn count(&self) -> u32 {
        self.chunks.parallel_units() * self.chunks.chunks
    }

    /// Sectors of all tables.
    pub fn tables(&self) -> u64 {
        u64::from(self.count()) * u64::from(self.table_sectors)
    }

    /// The sector of the drive that holds sector `at` of all tables.
    pub fn table(&self, at: u64) -> Lba {
        Lba(u64::from(HEAD_SECTORS) + at)
    }

    /// The number, among all tables, of the sector that describes `write` of a chunk.
    pub fn table_of(&self, chunk: u32, write: u32) -> u64 {
        u64::from(chunk) * u64::from(self.table_sectors) + u64::from(write / self.per_sector)
    }

    /// The drive's sector of a sector of a chunk.
    pub fn data(&self, chunk: u32, sector: u32) -> Lba {
        Lba(u64::from(HEAD_SECTORS)
            + self.tables()
            + u64::from(chunk) * u64::from(self.chunks.chunk_sectors)
            + u64::from(sector))
    }

    /// Number and sector of a chunk; `None`: there is no such sector.
    pub fn place(&self, lba: Lba) -> Option<(u32, u32)> {
        let address: ChunkAddress = self.chunks.address(lba)?;
        Some((self.chunks.chunk_number(address), address.sector))
    }

    /// What the head says of the shape.
    pub fn words(&self) -> [u32; 6] {
        let ChunkGeometry { groups, units, chunks, chunk_sectors, write_min_sectors, sector_bytes, .. } =
            self.chunks;
        [groups, units, chunks, chunk_sectors, write_min_sectors, sector_bytes]
    }
}
