//! Layout of the drive: data blocks, and the chunks of the two places for checkpoints.
//!
//! ```text
//!   chunk of each parallel unit:   0 .. n        n .. 2n       2n ..
//!                                  place A       place B       data
//! ```
//! Parallel unit i of the rotation shares its channel with as few of its neighbours as possible.

use super::saver::HEADER_BYTES;
use crate::{FoundChunk, Nameless, NamelessConfig};
use pellucid_flash::{
    ChunkAddress, ChunkGeometry, ChunkInfo, ChunkState, Interface, Layout, Lba, Ppa, Split,
};

/// Division of the namespace.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub geometry: ChunkGeometry,
    pub layout: Layout,
    /// Chunks of each parallel unit in each place for checkpoints.
    place_chunks: u32,
}

impl Shape {
    /// Divides a namespace. The error is a sentence.
    pub fn new(config: &NamelessConfig, number: u16, interface: Option<Interface>) -> Result<Shape, String> {
        let geometry = match interface {
            Some(Interface::OpenChannel(geometry)) => geometry,
            Some(other) => {
                let name = other.name();
                return Err(format!(
                    "nameless writes need an open-channel namespace; namespace {number} is {name}"
                ));
            }
            None => return Err(format!("the drive has no namespace {number}")),
        };
        if geometry.cached_sectors > 0 {
            return Err(format!(
                "nameless writes: the drive holds back {} sectors of an open chunk; allowed: 0, so that a name can be read at once",
                geometry.cached_sectors
            ));
        }
        // One block of every parallel unit takes data, and one chunk takes checkpoints.
        let (open, of_unit) = (geometry.open_chunks_max, geometry.open_chunks_per_unit_max);
        let units = geometry.parallel_units();
        if (open > 0 && open < 2 * units) || of_unit == 1 {
            return Err(format!(
                "nameless writes: the drive allows {open} open chunks, {of_unit} of a parallel unit; allowed: no limit, or {} and 2",
                2 * units
            ));
        }
        let all = layout(&geometry, geometry.chunks).ok_or_else(|| {
            format!("nameless writes: chunks of {} sectors; allowed: whole writes of the drive, fewer than 2^32 - 1 sectors in all", geometry.chunk_sectors)
        })?;
        let bytes = Nameless::new(config, &all)?.checkpoint_bytes();
        let page = u64::from(geometry.write_min_sectors) * u64::from(geometry.sector_bytes);
        let pages = bytes.div_ceil(page.saturating_sub(HEADER_BYTES as u64).max(1)) + 1;
        // Two more chunks replace those in which a write fails.
        let chunks = pages.div_ceil(all.superpages_per_block.into()) + 2;
        let place_chunks = chunks.div_ceil(units.into()).min(geometry.chunks.into()) as u32;
        let data = geometry.chunks.saturating_sub(2 * place_chunks);
        let layout = layout(&geometry, data).filter(|layout| layout.blocks > 0).ok_or_else(|| {
            format!(
                "nameless writes: {} chunks of each parallel unit; allowed: more than the {} for checkpoints",
                geometry.chunks,
                2 * place_chunks
            )
        })?;
        Ok(Shape { geometry, layout, place_chunks })
    }

    /// Least spare capacity that takes effect ([`NamelessConfig::over_provisioning_least`]), rounded up in the last digit that a message
    /// shows, so that the value in the message is itself accepted. `None`: the chunks are too few for any data.
    pub fn over_provisioning_least(&self) -> Option<f64> {
        NamelessConfig::over_provisioning_least(&self.layout).map(|least| (least * 1e4).ceil() / 1e4)
    }

    fn address(&self, unit: u32, chunk: u32, sector: u32) -> Lba {
        let group = unit % self.geometry.groups;
        self.geometry.lba(ChunkAddress { group, unit: unit / self.geometry.groups, chunk, sector })
    }

    /// The sector of the drive that holds a unit.
    pub fn sector(&self, ppa: Ppa) -> Lba {
        let block = self.layout.block_of(ppa);
        let (unit, chunk) = self.layout.split.blocks_per_die.div_rem(block.0);
        self.address(unit, chunk + 2 * self.place_chunks, self.layout.index_in_block(ppa))
    }

    /// The first sector of each chunk of a place for checkpoints.
    pub fn place(&self, place: u32) -> Vec<Lba> {
        let chunks = place * self.place_chunks..(place + 1) * self.place_chunks;
        let units = self.geometry.parallel_units();
        chunks
            .flat_map(|chunk| (0..units).map(move |unit| (unit, chunk)))
            .map(|(unit, chunk)| self.address(unit, chunk, 0))
            .collect()
    }

    /// State of each data block according to a report.
    pub fn found(&self, report: &[ChunkInfo]) -> Vec<FoundChunk> {
        let blocks = (0..self.layout.blocks)
            .map(|block| self.sector(self.layout.ppa(pellucid_flash::BlockId(block), 0)));
        blocks.map(|lba| found(&self.of_chunk(report, lba))).collect()
    }

    /// Descriptor, in a report, of the chunk that begins at `lba`.
    pub fn of_chunk(&self, report: &[ChunkInfo], lba: Lba) -> ChunkInfo {
        let address = self.geometry.address(lba).expect("a chunk of the namespace");
        report[self.geometry.chunk_number(address) as usize]
    }
}

fn found(info: &ChunkInfo) -> FoundChunk {
    match info.state {
        ChunkState::Free => FoundChunk::Free,
        ChunkState::Offline => FoundChunk::Offline,
        // A reset that was cut off leaves a closed chunk, of which nothing can be read.
        ChunkState::Open | ChunkState::Closed => FoundChunk::Written(info.write_pointer),
    }
}

/// Layout of `chunks` chunks of each parallel unit; `None`: there is none.
fn layout(geometry: &ChunkGeometry, chunks: u32) -> Option<Layout> {
    let (page, block, dies) = (geometry.write_min_sectors, geometry.chunk_sectors, geometry.parallel_units());
    let units = u64::from(dies) * u64::from(chunks) * u64::from(block);
    let fits = page > 0 && block >= 2 * page && block.is_multiple_of(page) && units < u64::from(u32::MAX);
    fits.then(|| Layout {
        channels: geometry.groups,
        dies_per_channel: geometry.units,
        dies,
        blocks_per_die: chunks,
        blocks: dies * chunks,
        superpages_per_block: block / page,
        units_per_superpage: page,
        units_per_block: block,
        units: units as u32,
        sectors_per_unit: 1,
        sector_bytes: geometry.sector_bytes,
        unit_bytes: geometry.sector_bytes,
        spare_bytes_per_unit: 0,
        pages_per_unit: 1,
        split: Split::new(block, page, chunks, 1),
    })
}
