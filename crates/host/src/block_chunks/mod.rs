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

mod read;
mod shape;
mod start;
mod table;
mod write;

pub use shape::{BlockChunksConfig, BlockChunksError};

use crate::{Layer, Machine};
use pellucid_flash::slab::Slab;
use pellucid_flash::{
    ChunkInfo, ChunkOp, ChunkState, Command, Completion, Figure, Interface, Opcode, SimTime, Stage,
    StageTimes, Status, Vector,
};
use read::Want;
use shape::Shape;
use start::Start;
use std::collections::VecDeque;

/// Command from above.
#[derive(Clone, Debug, Default)]
struct Op {
    command: Option<Command>,
    submitted: SimTime,
    /// Number of parts under way.
    left: u32,
    status: Option<Status>,
    /// Failed addresses, as a bit mask.
    failed: u64,
    stages: StageTimes,
}

/// Purpose of a command to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Purpose {
    /// The whole of a command; its status is the command's.
    #[default]
    Whole,
    /// A read into the command's own buffer.
    Direct,
    /// A run of sectors of a read.
    Run,
    /// The data of a write.
    Data,
    /// The table of a chunk.
    Table(u32),
    /// The flush before a reset; the table write follows, and then the trim.
    ResetFlush,
    /// The table write of a reset.
    ResetTable,
    /// The trim of a reset.
    ResetTrim,
    /// A read of the head, or of tables from this sector on, during the start.
    Start(u64),
}

/// Command to the drive.
#[derive(Clone, Debug, Default)]
struct Part {
    op: u32,
    purpose: Purpose,
    /// Sectors that the read needs from this run.
    wants: Vec<Want>,
}

/// Write of a chunk that the table does not count yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    op: u32,
    /// End of the write, in sectors of the chunk.
    end: u32,
    /// Result of the data write: `Some(true)` once the data are on the drive, `Some(false)` if they failed,
    /// `None` before.
    data: Option<bool>,
}

/// State of a chunk.
#[derive(Clone, Debug, Default)]
struct Chunk {
    state: ChunkState,
    /// Number of sectors that the table counts.
    written: u32,
    /// Number of sectors assigned to writes.
    reserved: u32,
    generation: u64,
    resetting: bool,
    /// Uncounted writes, in order.
    pending: VecDeque<Pending>,
    /// Number of sectors that the table write under way will count; 0 if none is under way.
    saving: u32,
    /// Last sector of the table, while it is not full.
    table: Vec<u8>,
}

/// Chunk layer. Clone it together with the drive below to fork the simulation.
#[derive(Clone, Debug)]
pub struct BlockChunks {
    config: BlockChunksConfig,
    shape: Shape,
    sectors: u64,
    image_bytes: usize,
    now: SimTime,
    start: Start,
    epoch: u64,
    chunks: Vec<Chunk>,
    /// Out-of-band data of each chunk, if the drive keeps stamps.
    stamps: Vec<Vec<u8>>,
    ops: Slab<Op>,
    parts: Slab<Part>,
    waiting: VecDeque<u32>,
    wants: Vec<Want>,
    buffers: Vec<Vec<u8>>,
    down: VecDeque<Command>,
    up: VecDeque<Completion>,
    commands: u64,
    table_sectors: u64,
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
        let shape = Shape::new(config, sectors, image_bytes)?;
        let count = shape.count() as usize;
        let stamps = if image_bytes == shape.chunks.sector_bytes as usize { 0 } else { count };
        let mut layer = BlockChunks {
            config: config.clone(),
            shape,
            sectors,
            image_bytes,
            now: SimTime::ZERO,
            start: Start::default(),
            epoch: 0,
            chunks: vec![Chunk::default(); count],
            stamps: vec![Vec::new(); stamps],
            ops: Slab::default(),
            parts: Slab::default(),
            waiting: VecDeque::new(),
            wants: Vec::new(),
            buffers: Vec::new(),
            down: VecDeque::new(),
            up: VecDeque::new(),
            commands: 0,
            table_sectors: 0,
        };
        layer.begin_start();
        Ok(layer)
    }

    /// Returns the configuration.
    pub fn config(&self) -> &BlockChunksConfig {
        &self.config
    }

    /// Returns the bytes of host memory for records of commands and chunks, without the buffers of commands
    /// under way.
    pub fn memory_bytes(&self) -> u64 {
        let chunks =
            self.chunks.iter().map(|chunk| chunk.table.capacity() + size_of::<Chunk>()).sum::<usize>();
        self.ops.memory_bytes() + self.parts.memory_bytes() + chunks as u64
    }

    fn keeps_content(&self) -> bool {
        self.stamps.is_empty()
    }

    /// Returns the status of a command that is refused at submission.
    fn refuse(&self, command: &Command) -> Option<Status> {
        if command.namespace != 0 {
            return Some(Status::InvalidField);
        }
        let (images, oob) =
            (command.sectors as usize * self.image_bytes, command.sectors as usize * Vector::METADATA_BYTES);
        let (listed, metadata) =
            command.vector.as_ref().map_or((0, 0), |v| (v.addresses.len(), v.metadata.len()));
        let metadata_fits = metadata == 0 || metadata == oob;
        let good = match command.opcode {
            Opcode::Write => {
                command.data.len() == images && metadata_fits && listed == 0 && command.sectors > 0
            }
            Opcode::Read => {
                let data = command.data.is_empty() || command.data.len() == images;
                let length =
                    listed == 0 || (listed == command.sectors as usize && listed <= Vector::ADDRESSES_MAX);
                data && metadata_fits && length && command.sectors > 0
            }
            Opcode::Report | Opcode::Chunk(ChunkOp::Reset) => {
                let (chunk, _) = match self.shape.place(command.lba) {
                    Some(place) => place,
                    None => return Some(Status::LbaOutOfRange),
                };
                let past = u64::from(chunk) + u64::from(command.sectors) > self.shape.count().into();
                match command.opcode {
                    Opcode::Report if past => return Some(Status::LbaOutOfRange),
                    Opcode::Report => command.sectors > 0,
                    _ => command.sectors == 0 && listed == 0,
                }
            }
            Opcode::Flush => true,
            _ => return Some(Status::InvalidOpcode),
        };
        (!good).then_some(Status::InvalidField)
    }

    fn begin(&mut self, op: u32) {
        match self.command(op).opcode {
            Opcode::Read => self.start_read(op),
            Opcode::Write => self.start_write(op),
            Opcode::Chunk(ChunkOp::Reset) => self.start_reset(op),
            Opcode::Report => self.describe(op),
            _ => {
                let flush = Command::new(0, Opcode::Flush, pellucid_flash::Lba(0), 0, Vec::new());
                self.send_new(op, Purpose::Whole, flush);
            }
        }
    }

    /// Sends a part of `op` to the drive.
    fn send(&mut self, op: u32, part: u32, purpose: Purpose, command: Command) {
        if op != pellucid_flash::slab::NIL {
            self.ops[op].left += 1;
        }
        (self.parts[part].op, self.parts[part].purpose) = (op, purpose);
        self.commands += 1;
        self.down.push_back(Command { tag: part.into(), namespace: self.config.namespace, ..command });
    }

    fn send_new(&mut self, op: u32, purpose: Purpose, command: Command) {
        let part = self.parts.take();
        self.send(op, part, purpose, command);
    }

    fn command(&self, op: u32) -> &Command {
        self.ops[op].command.as_ref().expect("a command under way")
    }

    /// Returns the descriptions of the requested chunks.
    fn describe(&mut self, op: u32) {
        let mut command = self.ops[op].command.take().expect("a command under way");
        let (first, _) = self.shape.place(command.lba).expect("checked at submission");
        command.data.clear();
        for number in first..first + command.sectors {
            let chunk = &self.chunks[number as usize];
            let info = ChunkInfo {
                state: chunk.state,
                wear_index: 0,
                start: self.shape.chunks.lba(self.shape.chunks.chunk_at(number)),
                sectors: self.shape.chunks.chunk_sectors,
                write_pointer: chunk.written,
            };
            info.encode(&mut command.data);
        }
        self.ops[op].command = Some(command);
        self.finish(op, Status::Success);
    }

    fn ended(&mut self, completion: Completion) {
        let part = completion.tag as u32;
        let Part { op, purpose, .. } = self.parts[part];
        let (status, stages) = (completion.status, completion.stages);
        if op != pellucid_flash::slab::NIL {
            self.ops[op].stages = stages;
        }
        if purpose == Purpose::Run {
            return self.run_ended(part, op, completion);
        }
        self.parts.release(part);
        match purpose {
            Purpose::Direct => {
                self.ops[op].command.as_mut().expect("a command under way").data = completion.data;
                self.finish(op, status);
            }
            Purpose::Whole => self.finish(op, status),
            Purpose::Data => self.data_ended(op, completion),
            Purpose::Table(chunk) => self.table_ended(chunk, completion),
            Purpose::ResetFlush | Purpose::ResetTable | Purpose::ResetTrim => {
                self.reset_goes_on(op, purpose, status)
            }
            Purpose::Start(from) => self.start_goes_on(from, completion),
            Purpose::Run => unreachable!("looked at before"),
        }
    }

    fn give_back(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > 0 {
            self.buffers.push(buffer);
        }
    }

    fn finish(&mut self, op: u32, status: Status) {
        let record = &mut self.ops[op];
        let command = record.command.take().expect("a command under way");
        let stages = record.stages.summing_to(self.now - record.submitted, Stage::Host);
        let ended = command.ended(status, record.submitted, self.now, stages);
        self.up.push_back(Completion { result: record.failed, ..ended });
        self.ops.release(op);
    }
}

impl Machine for BlockChunks {
    type Ask = Command;
    type Answer = Completion;

    #[inline]
    fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.config.namespace)
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.now = now;
        let refused = self.refuse(&command);
        let op = self.ops.take();
        self.ops[op] = Op { command: Some(command), submitted: now, ..Op::default() };
        match refused {
            Some(status) => self.finish(op, status),
            None if self.failure().is_some() => self.finish(op, Status::ReadOnly),
            None if !self.is_ready() => self.waiting.push_back(op),
            None => self.begin(op),
        }
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.now = now;
        self.ended(completion.take());
    }

    fn advance(&mut self, now: SimTime) {
        self.now = now;
    }

    fn next_event(&self) -> Option<SimTime> {
        None
    }

    fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    #[inline]
    fn answered(&self) -> usize {
        self.up.len()
    }

    fn failure(&self) -> Option<String> {
        self.start.failure()
    }

    fn is_ready(&self) -> bool {
        self.start.is_ready()
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        let block = Some(Interface::Block { sectors: self.sectors, handles: 1 });
        let config = BlockChunksConfig { format: false, ..self.config.clone() };
        let mut fresh =
            BlockChunks::new(&config, block, self.image_bytes).map_err(|error| error.to_string())?;
        self.now = now;
        let under_way = (0..).zip(self.ops.iter()).filter(|(_, op)| op.command.is_some());
        let under_way: Vec<u32> = under_way.map(|(op, _)| op).collect();
        for op in under_way {
            self.ops[op].stages = StageTimes::default();
            self.finish(op, Status::PowerLoss);
        }
        if !self.keeps_content() {
            // Counted sectors are exactly those that a start would find.
            for (fresh, chunk) in fresh.chunks.iter_mut().zip(&self.chunks) {
                let Chunk { state, written, generation, .. } = *chunk;
                let state = match state {
                    ChunkState::Offline => state,
                    _ => self.shape.state(written),
                };
                *fresh = Chunk { state, written, reserved: written, generation, ..Chunk::default() };
            }
            fresh.stamps = std::mem::take(&mut self.stamps);
        }
        fresh.up = std::mem::take(&mut self.up);
        fresh.now = now;
        *self = fresh;
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        let tables = self.table_sectors * u64::from(self.shape.chunks.sector_bytes);
        vec![
            Figure::count("commands", "Commands sent to the drive.", self.commands),
            Figure::bytes("table_bytes", "Bytes of tables written.", tables),
            Figure::bytes("memory_bytes", "Bytes of host memory for records.", self.memory_bytes()).gauge(),
        ]
    }
}

impl Layer for BlockChunks {
    fn interface(&self) -> Interface {
        Interface::OpenChannel(self.shape.chunks)
    }

    fn start_notice(&self) -> Option<&'static str> {
        let message = "tables of chunks are damaged or cannot be read: these chunks are offline, and what they held is lost";
        (self.start.lost() > 0).then_some(message)
    }
}
