//! Chunks on a plain block drive: a file or a block device acts as the simplest flash.
//!
//! ```text
//!             write + out-of-band data        read, vector          reset                  report
//!  above         │                               │                    │                       │
//!  BlockChunks   data, then the chunk's table    runs of sectors      next generation, trim   known
//!     ▼          │                               and of tables        │
//!  block drive   write, write                    reads                write, trim
//! ```
//! Guarantees: a write is acknowledged when its data, and then the table sector that counts it, are on the
//! media (force unit access, unless [`BlockChunksConfig::force_writes`] is off). After a crash a chunk
//! therefore holds a prefix of its writes, including all acknowledged ones. Writes to a chunk may be under
//! way together; their table entries are written in order, and one write of a table may count several of
//! them. A reset takes effect when the first sector of the table is on the media; then the data are trimmed.
//!
//! If the drive keeps stamps instead of data, tables stay in memory, because the drive could not return them.
//!
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`ChunkShape`] | where chunks and their tables lie | never changes |
//! | [`Chunk`](chunk::Chunk) | how far a chunk is written, writes that its table does not count | one table write at a time |
//! | [`Tables`](tables::Tables) | epoch, out-of-band data that the drive cannot keep | one epoch for all chunks |
//! | [`Ops`](ops::Ops) | commands from above, completions | a command ends once |
//! | [`Link`](link::Link) | commands to the drive, spare buffers | a command has one record, under its tag |
//! | [`ChunkStart`] | tables that were found, commands that came meanwhile | none waits once it has ended |
//!
//! Each object alone writes its fields. All but the start make the [`Core`]. Paths are functions without state: `commands`, `read`, `write`,
//! `reset`. [`BlockChunks`] wires them.

mod chunk;
mod commands;
mod core;
mod link;
mod ops;
mod read;
mod reset;
mod shape;
mod start;
mod table;
mod tables;
mod write;

pub use shape::{BlockChunksConfig, BlockChunksError};

use self::core::Core;
use crate::{Layer, Machine};
use link::Purpose;
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Completion, Figure, Interface, SimTime, Status};
use shape::ChunkShape;
use start::ChunkStart;

/// Chunk layer. Clone it together with the drive below to fork the simulation.
#[derive(Clone, Debug)]
pub struct BlockChunks {
    core: Core,
    /// Sectors of the drive.
    sectors: u64,
    start: ChunkStart,
}

impl BlockChunks {
    /// Creates the layer for the block namespace that `interface` describes.
    pub fn new(
        config: &BlockChunksConfig,
        interface: Option<Interface>,
        image_bytes: usize,
    ) -> Result<BlockChunks, BlockChunksError> {
        let Some(Interface::Block { sectors, .. }) = interface else {
            return Err(BlockChunksError::NotBlock(config.namespace));
        };
        let shape = ChunkShape::new(config, sectors, image_bytes)?;
        let mut core = Core::new(config, shape, image_bytes);
        let start = ChunkStart::new(&mut core);
        Ok(BlockChunks { core, sectors, start })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &BlockChunksConfig {
        &self.core.config
    }

    /// Returns the bytes of host memory for records of commands and chunks, without the buffers of commands
    /// under way.
    pub fn memory_bytes(&self) -> u64 {
        let chunks: usize = self.core.chunks.iter().map(|chunk| chunk.memory_bytes()).sum();
        self.core.ops.memory_bytes() + self.core.link.memory_bytes() + chunks as u64
    }
}

impl Machine for BlockChunks {
    type Ask = Command;
    type Answer = Completion;

    #[inline]
    fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.core.config.namespace)
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        let core = &mut self.core;
        core.now = now;
        let refused = commands::refuse(core, &command);
        let op = core.ops.begin(now, command);
        match refused {
            Some(status) => core.finish(op, status),
            None if self.start.failure().is_some() => core.finish(op, Status::ReadOnly),
            None if !self.start.is_ready() => self.start.keep(op),
            None => commands::begin(core, op),
        }
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        let (core, completion) = (&mut self.core, completion.take());
        core.now = now;
        let part = completion.tag as u32;
        let (op, purpose) = core.link.ended(part);
        let status = completion.status;
        if op != NIL {
            core.ops.set_stages(op, completion.stages);
        }
        match purpose {
            Purpose::Run => read::run_ended(core, part, op, completion),
            Purpose::Direct => {
                core.ops.command_mut(op).data = completion.data;
                core.finish(op, status);
            }
            Purpose::Whole => core.finish(op, status),
            Purpose::Data => write::data_ended(core, op, completion),
            Purpose::Table(chunk) => write::table_ended(core, chunk, completion),
            Purpose::ResetFlush | Purpose::ResetTable | Purpose::ResetTrim => {
                reset::reset_goes_on(core, op, purpose, status);
            }
            Purpose::Start(from) => self.start.goes_on(core, from, completion),
        }
    }

    fn advance(&mut self, now: SimTime) {
        self.core.now = now;
    }

    fn next_event(&self) -> Option<SimTime> {
        None
    }

    fn next_command(&mut self) -> Option<Command> {
        self.core.link.next_command()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.core.ops.pop()
    }

    #[inline]
    fn answered(&self) -> usize {
        self.core.ops.answered()
    }

    fn failure(&self) -> Option<String> {
        self.start.failure()
    }

    fn is_ready(&self) -> bool {
        self.start.is_ready()
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        let block = Some(Interface::Block { sectors: self.sectors, handles: 1 });
        let config = BlockChunksConfig { format: false, ..self.core.config.clone() };
        let mut fresh =
            BlockChunks::new(&config, block, self.core.image_bytes).map_err(|error| error.to_string())?;
        let core = &mut self.core;
        core.now = now;
        fresh.core.ops.put_up(core.ops.lose_all(now));
        if !core.tables.keep_content() {
            // Counted sectors are exactly those that a start would find.
            for (fresh, chunk) in fresh.core.chunks.iter_mut().zip(&core.chunks) {
                *fresh = chunk.after_cut(&core.shape);
            }
            fresh.core.tables.take_stamps(&mut core.tables);
        }
        fresh.core.now = now;
        *self = fresh;
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        let tables = self.core.tables.written() * u64::from(self.core.shape.chunks.sector_bytes);
        vec![
            Figure::count("commands", "Commands sent to the drive.", self.core.link.commands()),
            Figure::bytes("table_bytes", "Bytes of tables written.", tables),
            Figure::bytes("memory_bytes", "Bytes of host memory for records.", self.memory_bytes()).gauge(),
        ]
    }
}

impl Layer for BlockChunks {
    fn interface(&self) -> Interface {
        Interface::OpenChannel(self.core.shape.chunks)
    }

    fn start_notice(&self) -> Option<&'static str> {
        let message = "tables of chunks are damaged or cannot be read: these chunks are offline, and what they held is lost";
        (self.start.lost() > 0).then_some(message)
    }
}
