//! Start: reads the head, which tells whether the drive holds chunks, and the tables, which give the
//! written length of each chunk.

use super::chunk::Chunk;
use super::commands;
use super::core::Core;
use super::link::Purpose;
use super::shape::HEAD_SECTORS;
use super::table::{self, Header, Sector};
use pellucid_flash::slab::NIL;
use pellucid_flash::{ChunkState, Command, Completion, Lba, Opcode, Status};
use std::collections::{BTreeMap, VecDeque};

/// Table sectors that one command reads, and the number of commands in parallel.
const RUN_SECTORS: u64 = 64;
const DEPTH: u32 = 8;

/// Progress of the start.
#[derive(Clone, Debug, Default)]
enum Stage {
    /// Reading the head.
    #[default]
    Head,
    /// Reading the tables.
    Tables,
    /// Writing a new head.
    Format,
    Ready,
    Failed(String),
}

/// Start state, with the tables found so far.
#[derive(Clone, Debug, Default)]
pub(super) struct ChunkStart {
    stage: Stage,
    /// The head is missing: new chunks are made.
    fresh: bool,
    next: u64,
    under_way: u32,
    /// Table sectors: `None` if a sector holds no table, an error if it cannot be read or is damaged.
    found: Vec<Option<Result<Header, ()>>>,
    /// Images of table sectors that are not full, by number.
    partial: BTreeMap<u64, Vec<u8>>,
    /// Number of chunks that are offline because their tables cannot be read or are damaged.
    lost: u64,
    /// Commands that came meanwhile.
    waiting: VecDeque<u32>,
}

impl ChunkStart {
    /// Begins to read the head. A drive that keeps stamps instead of data has none.
    pub fn new(core: &mut Core) -> ChunkStart {
        if !core.tables.keep_content() {
            return ChunkStart { stage: Stage::Ready, ..ChunkStart::default() };
        }
        let data = vec![0; HEAD_SECTORS as usize * core.image_bytes];
        core.link.send(NIL, Purpose::Start(0), Command::new(0, Opcode::Read, Lba(0), HEAD_SECTORS, data));
        ChunkStart::default()
    }

    /// Keeps a command until the start has ended.
    pub fn keep(&mut self, op: u32) {
        self.waiting.push_back(op);
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }

    /// Number of chunks that the start has put offline.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub fn failure(&self) -> Option<String> {
        match &self.stage {
            Stage::Failed(sentence) => Some(sentence.clone()),
            _ => None,
        }
    }

    /// Continues the start after a read; `from` is the first table sector that was read.
    pub fn goes_on(&mut self, core: &mut Core, from: u64, completion: Completion) {
        match self.stage {
            Stage::Head => self.head_read(core, &completion),
            Stage::Tables => self.tables_read(core, from, &completion),
            Stage::Format if completion.status == Status::Success => self.ready(core),
            Stage::Format => {
                self.fail_start(core, "the head of the chunks cannot be written to the drive".into())
            }
            Stage::Ready | Stage::Failed(_) => {}
        }
    }

    fn fail_start(&mut self, core: &mut Core, sentence: String) {
        self.stage = Stage::Failed(sentence);
        while let Some(op) = self.waiting.pop_front() {
            core.finish(op, Status::ReadOnly);
        }
    }

    fn head_read(&mut self, core: &mut Core, completion: &Completion) {
        let format = core.config.format;
        let ok = completion.status == Status::Success;
        match table::parse_head(&completion.data).filter(|_| ok && !format) {
            Some((shape, epoch)) if shape == core.shape.words() => core.tables.set_epoch(epoch),
            Some(([groups, units, chunks, sectors, write, bytes], _)) => {
                return self.fail_start(core, format!(
                    "this drive holds chunks of another shape: {groups} groups of {units} units of {chunks} chunks of {sectors} \
                     sectors of {bytes} bytes, written {write} at a time; allowed: the same settings, or a blank drive"
                ));
            }
            None if format || (ok && completion.data.iter().all(|&byte| byte == 0)) => self.fresh = true,
            None if ok => {
                let sentence = "this drive holds something else than chunks; allowed: a blank one";
                return self.fail_start(core, sentence.into());
            }
            None => {
                return self.fail_start(core, "the head of the chunks cannot be read from the drive".into());
            }
        }
        self.stage = Stage::Tables;
        self.found = vec![None; core.shape.tables() as usize];
        self.read_tables(core);
    }

    fn read_tables(&mut self, core: &mut Core) {
        while self.under_way < DEPTH && self.next < core.shape.tables() {
            let from = self.next;
            let sectors = RUN_SECTORS.min(core.shape.tables() - from);
            self.next += sectors;
            self.read_table(core, from, sectors as u32);
        }
        if self.under_way == 0 {
            self.tables_known(core);
        }
    }

    fn read_table(&mut self, core: &mut Core, from: u64, sectors: u32) {
        self.under_way += 1;
        let data = vec![0; sectors as usize * core.image_bytes];
        let read = Command::new(0, Opcode::Read, core.shape.table(from), sectors, data);
        core.link.send(NIL, Purpose::Start(from), read);
    }

    fn tables_read(&mut self, core: &mut Core, from: u64, completion: &Completion) {
        self.under_way -= 1;
        let images = completion.data.chunks_exact(core.image_bytes);
        let count = images.len();
        match completion.status {
            Status::Success => {
                for (at, image) in (from..).zip(images) {
                    let chunk = (at / u64::from(core.shape.table_sectors)) as u32;
                    self.found[at as usize] = match table::parse(image, chunk, core.tables.epoch()) {
                        Sector::Other => None,
                        Sector::Damaged => Some(Err(())),
                        Sector::Table(header) => {
                            if (1..core.shape.per_sector).contains(&header.writes) {
                                self.partial.insert(at, image.to_vec());
                            }
                            Some(Ok(header))
                        }
                    };
                }
            }
            _ if count > 1 => (from..from + count as u64).for_each(|at| self.read_table(core, at, 1)),
            _ => self.found[from as usize] = Some(Err(())),
        }
        self.read_tables(core);
    }

    fn tables_known(&mut self, core: &mut Core) {
        let found = std::mem::take(&mut self.found);
        let mut partial = std::mem::take(&mut self.partial);
        if self.fresh && !core.config.format && found.iter().flatten().any(Result::is_ok) {
            let sentence =
                "this drive holds chunks whose head is zeroed; allowed: another drive, or a blank one";
            return self.fail_start(core, sentence.into());
        }
        if self.fresh {
            // The new epoch invalidates older tables.
            let newest = found.iter().flatten().flatten().map(|header| header.epoch).max();
            core.tables.set_epoch(newest.unwrap_or(0) + 1);
            let image = table::head(core.shape.words(), core.tables.epoch(), core.image_bytes);
            let write = Command::new(0, Opcode::Write, Lba(0), 1, image);
            self.stage = Stage::Format;
            return core.link.send(NIL, Purpose::Start(0), Command { fua: true, ..write });
        }
        for (number, tables) in found.chunks_exact(core.shape.table_sectors as usize).enumerate() {
            core.chunks[number] = ChunkStart::chunk_of(core, tables);
            self.lost += u64::from(core.chunks[number].state() == ChunkState::Offline);
            let writes = core.chunks[number].written() / core.shape.chunks.write_min_sectors;
            if !writes.is_multiple_of(core.shape.per_sector) {
                let at = core.shape.table_of(number as u32, writes);
                core.chunks[number].set_table(partial.remove(&at).unwrap_or_default());
            }
        }
        self.ready(core);
    }

    /// Derives a chunk's state from its tables.
    fn chunk_of(core: &Core, tables: &[Option<Result<Header, ()>>]) -> Chunk {
        let counts = |found: &Option<Result<Header, ()>>| match found {
            Some(Ok(header)) if header.epoch != core.tables.epoch() => None,
            found => *found,
        };
        let generation = match counts(&tables[0]) {
            None => return Chunk::default(),
            Some(Err(())) => return Chunk::found(ChunkState::Offline, 0, 0),
            Some(Ok(header)) => header.generation,
        };
        let (mut writes, mut ended, mut torn) = (0, false, false);
        for found in tables {
            match counts(found) {
                Some(Ok(header)) if header.generation == generation => {
                    torn |= ended;
                    writes += if ended { 0 } else { header.writes };
                    ended |= header.writes < core.shape.per_sector;
                }
                Some(Err(())) if !ended => {
                    return Chunk::found(ChunkState::Offline, 0, generation);
                }
                _ => ended = true,
            }
        }
        let written = (writes * core.shape.chunks.write_min_sectors).min(core.shape.chunks.chunk_sectors);
        // Without forced writes, a table sector may survive while an earlier one is lost; filling the gap
        // would make the later entries valid again.
        let state = if torn { ChunkState::Closed } else { core.shape.state(written) };
        Chunk::found(state, written, generation)
    }

    fn ready(&mut self, core: &mut Core) {
        self.stage = Stage::Ready;
        while let Some(op) = self.waiting.pop_front() {
            commands::begin(core, op);
        }
    }
}
