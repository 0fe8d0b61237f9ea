//! The start: which blocks hold data, and whose.
//!
//! ```text
//!   report ─► probes: out-of-band data of the first sector of every block that holds data ─┐
//!      └ no data: free        └ not readable: of the first sector of its other pages ◄──────┘
//!   all known ─► of the copies of one content the oldest is found, the others are erased ─► ready ─► recover
//! ```

use super::blocks::State;
use super::mark::Oob;
use super::{Function, FunctionOutcome, Op, Purpose};
use crate::{FlashAddress, LevelError};
use pellucid_flash::{BlockId, ChunkInfo, ChunkState, Command, Completion, Lba, Opcode, Status, Vector};
use std::collections::BTreeMap;

/// Probes with the drive at a time.
const PROBES_MAX: u32 = 32;

/// A block that held data when the level started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The block.
    pub address: FlashAddress,
    /// The mark of the first sector that can be read; `None`: what is there was not written by this level, or cannot be read.
    pub mark: Option<u32>,
    /// Pages written. A crash may have torn the last ones: their write was not acknowledged.
    pub pages: u32,
    /// Erases of the block.
    pub erases: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Report,
    First,
    Others,
    Done,
}

/// The start under way, and what it found.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    phase: Phase,
    pub failure: Option<String>,
    /// Blocks to be probed; in the first round up to 64 with one read.
    probes: Vec<u32>,
    next: usize,
    under_way: u32,
    /// Blocks of the probes under way, by the tag of their command.
    known: BTreeMap<u32, Option<Oob>>,
    found: Vec<Found>,
}

impl Start {
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }
}

impl Function {
    /// Blocks that held data when the level started, and were not given back since. Empty before [`is_ready`](pellucid_host::Machine::is_ready).
    pub fn found(&self) -> impl Iterator<Item = &Found> {
        let blocks = &self.blocks;
        let is_left = move |found: &&Found| {
            let number = blocks.geometry.block_number(found.address);
            blocks[number].state == State::Found
        };
        self.start.found.iter().filter(is_left)
    }

    /// The application goes on with these blocks, as mapped; everything else that a former life has left is erased in the background.
    pub fn recover(&mut self, blocks: &[FlashAddress]) -> Result<(), LevelError> {
        if !self.start.is_done() {
            return Err(LevelError::NotReady);
        }
        let mut numbers = Vec::with_capacity(blocks.len());
        for &address in blocks {
            let number = self.number(address)?;
            if !matches!(self.blocks[number].state, State::Found | State::Mapped) {
                return Err(LevelError::NotMapped { address });
            }
            numbers.push(number);
        }
        numbers.into_iter().for_each(|number| self.blocks.set_state(number, State::Mapped));
        for found in std::mem::take(&mut self.start.found) {
            let number = self.geometry().block_number(found.address);
            if self.blocks[number].state == State::Found {
                self.give_back(number);
            }
        }
        Ok(())
    }

    pub(super) fn ask_for_chunks(&mut self) {
        let count = self.geometry().blocks();
        let command = Command::new(0, Opcode::Report, self.sector(0, 0), count, Vec::new());
        self.send(Purpose::Start, 0, 0, command);
    }

    pub(super) fn start_ended(&mut self, op: &Op, completion: &mut Completion) {
        match self.start.phase {
            Phase::Report => self.reported(completion),
            Phase::First | Phase::Others => self.probed(op, completion),
            Phase::Done => unreachable!("the start has ended"),
        }
        if self.start.failure.is_none() {
            self.go_on_starting();
        }
    }

    fn reported(&mut self, completion: &Completion) {
        let infos = completion.data.as_chunks::<{ ChunkInfo::BYTES }>().0.iter().map(ChunkInfo::decode);
        let infos: Option<Vec<ChunkInfo>> = infos.collect();
        let wanted = self.geometry().blocks() as usize;
        let Some(infos) = infos.filter(|i| completion.status == Status::Success && i.len() == wanted) else {
            let sentence = format!("the drive did not report its blocks: {:?}", completion.status);
            self.start.failure = Some(sentence);
            while let Some(ask) = self.early.pop_front() {
                self.refuse_early(ask);
            }
            return;
        };
        let held = self.space.chunks.cached_sectors;
        for (number, info) in (0..).zip(&infos) {
            match info.state {
                ChunkState::Free => self.blocks.set_state(number, State::Free),
                ChunkState::Offline => self.blocks.set_state(number, State::Bad),
                ChunkState::Open | ChunkState::Closed => {
                    let record = &mut self.blocks[number];
                    (record.written, record.taken) = (info.write_pointer, info.write_pointer);
                    record.dirty = true;
                    // One that a failure has closed early takes no more.
                    record.broken = info.state == ChunkState::Closed
                        && info.write_pointer < self.space.chunks.chunk_sectors;
                    let hidden = info.state == ChunkState::Open && info.write_pointer <= held;
                    if !hidden && info.write_pointer > 0 {
                        self.start.probes.push(number);
                    }
                }
            }
        }
        self.start.phase = Phase::First;
    }

    fn go_on_starting(&mut self) {
        while self.start.under_way < PROBES_MAX && self.start.next < self.start.probes.len() {
            self.send_probe();
        }
        if self.start.under_way > 0 {
            return;
        }
        match self.start.phase {
            Phase::First => {
                self.start.phase = Phase::Others;
                let known = &self.start.known;
                self.start.probes.retain(|number| !known.contains_key(number));
                self.start.next = 0;
                self.go_on_starting();
            }
            _ => self.all_known(),
        }
    }

    /// Reads out-of-band data: the first sector of many blocks, or that of many pages of one.
    fn send_probe(&mut self) {
        let at = self.start.next;
        let mut vector = self.vector();
        let left = &self.start.probes[at..];
        match self.start.phase {
            Phase::First => {
                let blocks = left.iter().take(Vector::ADDRESSES_MAX);
                vector.addresses.extend(blocks.map(|&number| self.sector(number, 0)));
                self.start.next += vector.addresses.len();
            }
            _ => {
                let pages = self.readable(left[0]) / self.space.page_sectors();
                let pages = (0..pages).take(Vector::ADDRESSES_MAX);
                let sector = |page: u32| self.sector(left[0], page * self.space.page_sectors());
                vector.addresses.extend(pages.map(sector));
                self.start.next += 1;
            }
        }
        let sectors = vector.addresses.len() as u32;
        vector.metadata.resize(sectors as usize * Vector::METADATA_BYTES, 0);
        self.start.under_way += 1;
        let command =
            Command { vector: Some(vector), ..Command::new(0, Opcode::Read, Lba(0), sectors, Vec::new()) };
        self.send(Purpose::Start, 0, at as u32, command);
    }

    fn probed(&mut self, op: &Op, completion: &mut Completion) {
        self.start.under_way -= 1;
        let Some(mut vector) = completion.vector.take() else { return };
        let ok = matches!(completion.status, Status::Success | Status::HighEcc);
        // A failed command that names no sector has failed for all of them.
        let read = |i: usize| ok || (completion.result != 0 && completion.result >> i & 1 == 0);
        let oob = vector.metadata.as_chunks::<{ Vector::METADATA_BYTES }>().0;
        let mut answers =
            oob.iter().enumerate().filter(|&(i, _)| read(i)).map(|(i, oob)| (i, Oob::decode(oob)));
        let first = op.block as usize;
        match self.start.phase {
            Phase::First => {
                let known = answers.map(|(i, oob)| (self.start.probes[first + i], oob));
                self.start.known.extend(known);
            }
            _ => {
                let known = answers.find_map(|(_, oob)| oob);
                self.start.known.insert(self.start.probes[first], known);
            }
        }
        vector.addresses.clear();
        vector.metadata.clear();
        self.vectors.push(vector);
    }

    fn all_known(&mut self) {
        self.start.phase = Phase::Done;
        let known = std::mem::take(&mut self.start.known);
        self.start.probes = Vec::new();
        let known: BTreeMap<u32, Oob> = known.into_iter().filter_map(|(n, oob)| Some((n, oob?))).collect();
        let mut oldest: BTreeMap<u32, (u32, Oob)> = BTreeMap::new();
        for (&number, oob) in &known {
            let best = oldest.entry(oob.content).or_insert((number, *oob));
            if oob.is_older(&best.1) {
                *best = (number, *oob);
            }
            self.next_content = self.next_content.max(oob.content.wrapping_add(1));
        }
        self.set_erase_counts(&known);
        for number in self.blocks.numbers() {
            let oob = known.get(&number).copied();
            if self.blocks[number].state != State::Found {
                continue;
            }
            if oob.is_some_and(|oob| oldest[&oob.content].0 != number) {
                self.give_back(number);
                continue;
            }
            let record = &mut self.blocks[number];
            (record.content, record.copy) = oob.map_or((0, 0), |oob| (oob.content, oob.copy));
            let pages = record.written / self.space.page_sectors();
            let address = self.geometry().block_at(number);
            let erases = self.blocks.erases(number);
            self.start.found.push(Found { address, mark: oob.map(|oob| oob.mark), pages, erases });
        }
        while let Some(ask) = self.early.pop_front() {
            self.take(ask);
        }
    }

    /// Blocks that do not say how often they were erased are taken to be like the others.
    fn set_erase_counts(&mut self, known: &BTreeMap<u32, Oob>) {
        let sum: u64 = known.values().map(|oob| u64::from(oob.erases)).sum();
        let mean = sum.checked_div(known.len() as u64).unwrap_or(0) as u32;
        for number in self.blocks.numbers() {
            let erases = known.get(&number).map_or(mean, |oob| oob.erases);
            self.blocks.pool.set_erases(BlockId(number), erases);
        }
    }

    pub(super) fn refuse_early(&mut self, ask: super::FunctionAsk) {
        let data = ask.call.into_data();
        self.answer(ask.tag, FunctionOutcome::Refused(LevelError::NotReady), data);
    }
}
