//! Core of chunks on a block drive: the objects that its paths use.

use super::BlockChunksConfig;
use super::chunk::Chunk;
use super::link::{Link, Purpose, Want};
use super::ops::Ops;
use super::shape::ChunkShape;
use super::tables::Tables;
use pellucid_flash::{Command, SimTime, Status};

/// Objects that the paths use. Each has private fields and keeps its own invariants.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub config: BlockChunksConfig,
    pub shape: ChunkShape,
    pub image_bytes: usize,
    pub now: SimTime,
    pub chunks: Vec<Chunk>,
    pub tables: Tables,
    pub ops: Ops,
    pub link: Link,
    /// Memory of a list that each read makes anew.
    pub wants: Vec<Want>,
}

impl Core {
    /// Creates the state before the start.
    pub fn new(config: &BlockChunksConfig, shape: ChunkShape, image_bytes: usize) -> Core {
        let count = shape.count() as usize;
        let keeps_stamps = image_bytes != shape.chunks.sector_bytes as usize;
        Core {
            config: config.clone(),
            image_bytes,
            now: SimTime::ZERO,
            chunks: vec![Chunk::default(); count],
            tables: Tables::new(if keeps_stamps { count } else { 0 }),
            ops: Ops::default(),
            link: Link::new(config.namespace),
            wants: Vec::new(),
            shape,
        }
    }

    pub fn chunk(&self, number: u32) -> &Chunk {
        &self.chunks[number as usize]
    }

    pub fn chunk_mut(&mut self, number: u32) -> &mut Chunk {
        &mut self.chunks[number as usize]
    }

    /// Sends a part of `op` to the drive.
    pub fn send(&mut self, op: u32, purpose: Purpose, command: Command) {
        self.ops.begin_part(op);
        self.link.send(op, purpose, command);
    }

    /// Ends a command from above.
    pub fn finish(&mut self, op: u32, status: Status) {
        self.ops.finish(self.now, op, status);
    }
}
