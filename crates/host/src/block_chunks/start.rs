//! Start: reads the head, which says whether the drive holds chunks, and the tables, which say how far each
//! chunk is written.

use super::shape::HEAD_SECTORS;
use super::table::{self, Header, Sector};
use super::{BlockChunks, Chunk, Purpose};
use pellucid_flash::slab::NIL;
use pellucid_flash::{ChunkState, Command, Completion, Lba, Opcode, Status};
use std::collections::BTreeMap;

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
pub(super) struct Start {
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
}

impl Start {
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
}

impl BlockChunks {
    pub(super) fn begin_start(&mut self) {
        if !self.keeps_content() {
            self.start.stage = Stage::Ready;
            return;
        }
        let data = vec![0; HEAD_SECTORS as usize * self.image_bytes];
        self.send_new(NIL, Purpose::Start(0), Command::new(0, Opcode::Read, Lba(0), HEAD_SECTORS, data));
    }

    /// Continues the start after a read; `from` is the first table sector that was read.
    pub(super) fn start_goes_on(&mut self, from: u64, completion: Completion) {
        match self.start.stage {
            Stage::Head => self.head_read(&completion),
            Stage::Tables => self.tables_read(from, &completion),
            Stage::Format if completion.status == Status::Success => self.ready(),
            Stage::Format => self.fail_start("the head of the chunks cannot be written to the drive".into()),
            Stage::Ready | Stage::Failed(_) => {}
        }
    }

    fn fail_start(&mut self, sentence: String) {
        self.start.stage = Stage::Failed(sentence);
        while let Some(op) = self.waiting.pop_front() {
            self.finish(op, Status::ReadOnly);
        }
    }

    fn head_read(&mut self, completion: &Completion) {
        let format = self.config.format;
        let ok = completion.status == Status::Success;
        match table::parse_head(&completion.data).filter(|_| ok && !format) {
            Some((shape, epoch)) if shape == self.shape.words() => self.epoch = epoch,
            Some(([groups, units, chunks, sectors, write, bytes], _)) => {
                return self.fail_start(format!(
                    "this drive holds chunks of another shape: {groups} groups of {units} units of {chunks} chunks of {sectors} \
                     sectors of {bytes} bytes, written {write} at a time; allowed: the same settings, or a blank drive"
                ));
            }
            None if format || (ok && completion.data.iter().all(|&byte| byte == 0)) => {
                self.start.fresh = true
            }
            None if ok => {
                let sentence = "this drive holds something else than chunks; allowed: a blank one";
                return self.fail_start(sentence.into());
            }
            None => return self.fail_start("the head of the chunks cannot be read from the drive".into()),
        }
        self.start.stage = Stage::Tables;
        self.start.found = vec![None; self.shape.tables() as usize];
        self.read_tables();
    }

    fn read_tables(&mut self) {
        while self.start.under_way < DEPTH && self.start.next < self.shape.tables() {
            let from = self.start.next;
            let sectors = RUN_SECTORS.min(self.shape.tables() - from);
            self.start.next += sectors;
            self.read_table(from, sectors as u32);
        }
        if self.start.under_way == 0 {
            self.tables_known();
        }
    }

    fn read_table(&mut self, from: u64, sectors: u32) {
        self.start.under_way += 1;
        let data = vec![0; sectors as usize * self.image_bytes];
        let read = Command::new(0, Opcode::Read, self.shape.table(from), sectors, data);
        self.send_new(NIL, Purpose::Start(from), read);
    }

    fn tables_read(&mut self, from: u64, completion: &Completion) {
        self.start.under_way -= 1;
        let images = completion.data.chunks_exact(self.image_bytes);
        let count = images.len();
        match completion.status {
            Status::Success => {
                for (at, image) in (from..).zip(images) {
                    let chunk = (at / u64::from(self.shape.table_sectors)) as u32;
                    self.start.found[at as usize] = match table::parse(image, chunk, self.epoch) {
                        Sector::Other => None,
                        Sector::Damaged => Some(Err(())),
                        Sector::Table(header) => {
                            if (1..self.shape.per_sector).contains(&header.writes) {
                                self.start.partial.insert(at, image.to_vec());
                            }
                            Some(Ok(header))
                        }
                    };
                }
            }
            _ if count > 1 => (from..from + count as u64).for_each(|at| self.read_table(at, 1)),
            _ => self.start.found[from as usize] = Some(Err(())),
        }
        self.read_tables();
    }

    fn tables_known(&mut self) {
        let found = std::mem::take(&mut self.start.found);
        let mut partial = std::mem::take(&mut self.start.partial);
        if self.start.fresh && !self.config.format && found.iter().flatten().any(Result::is_ok) {
            let sentence =
                "this drive holds chunks whose head is zeroed; allowed: another drive, or a blank one";
            return self.fail_start(sentence.into());
        }
        if self.start.fresh {
            // The new epoch invalidates older tables.
            let newest = found.iter().flatten().flatten().map(|header| header.epoch).max();
            self.epoch = newest.unwrap_or(0) + 1;
            let image = table::head(self.shape.words(), self.epoch, self.image_bytes);
            let write = Command::new(0, Opcode::Write, Lba(0), 1, image);
            self.start.stage = Stage::Format;
            return self.send_new(NIL, Purpose::Start(0), Command { fua: true, ..write });
        }
        for (number, tables) in found.chunks_exact(self.shape.table_sectors as usize).enumerate() {
            self.chunks[number] = self.chunk_of(tables);
            self.start.lost += u64::from(self.chunks[number].state == ChunkState::Offline);
            let writes = self.chunks[number].written / self.shape.chunks.write_min_sectors;
            if !writes.is_multiple_of(self.shape.per_sector) {
                let at = self.shape.table_of(number as u32, writes);
                self.chunks[number].table = partial.remove(&at).unwrap_or_default();
            }
        }
        self.ready();
    }

    /// Derives a chunk's state from its tables.
    fn chunk_of(&self, tables: &[Option<Result<Header, ()>>]) -> Chunk {
        let counts = |found: &Option<Result<Header, ()>>| match found {
            Some(Ok(header)) if header.epoch != self.epoch => None,
            found => *found,
        };
        let generation = match counts(&tables[0]) {
            None => return Chunk::default(),
            Some(Err(())) => return Chunk { state: ChunkState::Offline, ..Chunk::default() },
            Some(Ok(header)) => header.generation,
        };
        let (mut writes, mut ended, mut torn) = (0, false, false);
        for found in tables {
            match counts(found) {
                Some(Ok(header)) if header.generation == generation => {
                    torn |= ended;
                    writes += if ended { 0 } else { header.writes };
                    ended |= header.writes < self.shape.per_sector;
                }
                Some(Err(())) if !ended => {
                    return Chunk { state: ChunkState::Offline, generation, ..Chunk::default() };
                }
                _ => ended = true,
            }
        }
        let written = (writes * self.shape.chunks.write_min_sectors).min(self.shape.chunks.chunk_sectors);
        // Without forced writes, a table sector may survive while an earlier one is lost; filling the gap
        // would make the later entries valid again.
        let state = if torn { ChunkState::Closed } else { self.shape.state(written) };
        Chunk { state, written, reserved: written, generation, ..Chunk::default() }
    }

    fn ready(&mut self) {
        self.start.stage = Stage::Ready;
        while let Some(op) = self.waiting.pop_front() {
            self.begin(op);
        }
    }
}
