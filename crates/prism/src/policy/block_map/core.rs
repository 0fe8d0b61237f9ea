//! Core of a block-mapped range: the objects that its paths use.

use super::blocks::Blocks;
use super::chunks::{Chunks, RESERVE};
use super::health::Health;
use super::link::Link;
use super::requests::Requests;
use super::tally::Tally;
use crate::Space;
use crate::policy::Gc;
use pellucid_flash::{ChunkAddress, Lba, SimTime};
use std::ops::Range;

/// The range, its rows and its policy; constant.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub space: Space,
    pub rows: Range<u32>,
    pub sectors: u64,
    pub gc: Gc,
    pub id: u32,
}

impl Shape {
    /// Number of logical blocks; the error is a sentence that says why the range cannot be served.
    pub fn blocks(&self) -> Result<u64, String> {
        let geometry = &self.space.chunks;
        if geometry.cached_sectors > 0 {
            return Err(
                "the drive holds sectors back (mw_cunits); a block-mapped range reads what it wrote".into()
            );
        }
        if geometry.open_chunks_max > 0 || geometry.open_chunks_per_unit_max > 0 {
            return Err(
                "the drive limits open chunks; every block of a block-mapped range may be open".into()
            );
        }
        let rows = self.rows.len();
        let all = u64::from(self.luns()) * rows as u64;
        let blocks = self.sectors.div_ceil(geometry.chunk_sectors.into());
        let needed = blocks + u64::from(RESERVE) + 2;
        match needed > all {
            true => Err(format!("{rows} rows have {all} chunks, and {blocks} blocks take {needed}")),
            false => Ok(blocks),
        }
    }

    pub fn luns(&self) -> u32 {
        self.space.geometry().luns()
    }

    /// A sector of a chunk.
    pub fn lba(&self, chunk: u32, sector: u32) -> Lba {
        let ChunkAddress { group, unit, chunk, .. } = self.space.chunks.chunk_at(chunk);
        self.space.chunks.lba(ChunkAddress { group, unit, chunk, sector })
    }

    /// Sectors of a logical block.
    pub fn length(&self) -> u32 {
        self.space.chunks.chunk_sectors
    }

    /// Bytes of the image of a sector.
    pub fn image(&self) -> usize {
        self.space.image_bytes
    }

    /// Bytes of the images of this many sectors.
    pub fn images(&self, sectors: u32) -> usize {
        sectors as usize * self.image()
    }

    /// Sectors of a write.
    pub fn unit(&self) -> u32 {
        self.space.page_sectors()
    }
}

/// Objects that the paths use. Each has private fields and keeps its own invariants.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub shape: Shape,
    pub now: SimTime,
    pub chunks: Chunks,
    pub blocks: Blocks,
    pub requests: Requests,
    pub link: Link,
    pub health: Health,
    pub tally: Tally,
}

impl Core {
    /// Creates the state before the flash is examined; the error is a sentence.
    pub fn new(shape: Shape) -> Result<Core, String> {
        let blocks = shape.blocks()?;
        Ok(Core {
            now: SimTime::ZERO,
            chunks: Chunks::new(&shape.space, shape.rows.clone()),
            blocks: Blocks::new(blocks as usize),
            requests: Requests::default(),
            link: Link::new(shape.space.namespace),
            health: Health::default(),
            tally: Tally::default(),
            shape,
        })
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        self.blocks.memory_bytes() + self.chunks.memory_bytes() + self.requests.memory_bytes()
    }

    /// Checks every invariant, and panics if one is broken.
    pub fn check(&self) {
        self.blocks.check();
        self.chunks.check(self.blocks.iter().flat_map(|block| block.pieces.chunks()).collect());
    }
}
