//! The record of a policy level: its ranges, with their rows of chunks.
//!
//! ```text
//!   homes    the first chunk of the first LUN, and of the last one       a record is one write, with a number and a checksum
//!            [ 1 ][ 2 ][ 3 ]... full ─► [ n ][ n + 1 ]...                the highest readable number is valid
//! ```
//! A record fits into one sector. A home is erased only while the other one has the newest record. So at every moment one complete record is on the
//! flash.

use super::Gc;
use crate::{Mapping, Space};
use pellucid_flash::{
    ChunkAddress, ChunkInfo, ChunkOp, ChunkState, Command, Completion, Lba, Opcode, Status, Vector,
};
use std::collections::VecDeque;
use std::ops::Range;

const MAGIC: &[u8; 8] = b"PLUCPOLI";
const HEADER_BYTES: usize = 32;
const RANGE_BYTES: usize = 48;

/// Bytes of the longest record.
const RECORD_BYTES: usize = HEADER_BYTES + super::RANGES_MAX * RANGE_BYTES;

/// Maximum number of erases in flight during a format.
const ERASES_MAX: usize = 64;

/// A recorded range.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spec {
    /// Logical sectors.
    pub sectors: Range<u64>,
    pub mapping: Mapping,
    pub gc: Gc,
    pub over_provisioning: f64,
    /// Chunks of every LUN.
    pub rows: Range<u32>,
    /// Identifies the range in its data's metadata.
    pub id: u32,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    Report,
    /// Chunks still to be erased, and erases in flight.
    Format(Vec<Lba>, usize),
    /// Chunks to erase on rows without a range, and erases in flight, or the report on all chunks before.
    Sweep(Vec<Lba>, usize),
    SweepReport,
    /// Reads of the homes still to come.
    Read(VecDeque<(usize, u32)>),
    Ready,
    Erase,
    Write,
    Failed(String),
}

/// The record and its homes.
#[derive(Clone, Debug)]
pub(super) struct Record {
    space: Space,
    format: bool,
    homes: [ChunkAddress; 2],
    /// Position of the next record; `None`: the home is full, or accepts no more.
    pointers: [Option<u32>; 2],
    current: usize,
    phase: Phase,
    sequence: u64,
    /// Ranges on the flash, present or to come.
    pub specs: Vec<Spec>,
    /// True if a record must be written.
    dirty: bool,
    /// The home of the newest record on the flash.
    newest: Option<usize>,
    /// True if the other home has been tried for this record.
    moved: bool,
    /// Chunks that a format erases after the homes.
    others: Vec<Lba>,
    /// At a start: chunks other than homes that hold data.
    in_use: Vec<Lba>,
    /// True if a range was removed, so that chunks on rows without a range must be erased.
    sweep: bool,
    down: VecDeque<Command>,
}

impl Record {
    /// Chunks at the beginning of each LUN that are reserved for the record.
    pub fn rows(space: &Space) -> u32 {
        if space.geometry().luns() > 1 { 1 } else { 2 }
    }

    pub fn new(space: Space, format: bool) -> Record {
        let geometry = space.chunks;
        let last = match Record::rows(&space) {
            1 => ChunkAddress {
                group: geometry.groups - 1,
                unit: geometry.units - 1,
                ..ChunkAddress::default()
            },
            _ => ChunkAddress { chunk: 1, ..ChunkAddress::default() },
        };
        let first = geometry.lba(ChunkAddress::default());
        let report = Command::new(0, Opcode::Report, first, space.geometry().blocks(), Vec::new());
        Record {
            space,
            format,
            homes: [ChunkAddress::default(), last],
            pointers: [Some(0), Some(0)],
            current: 0,
            phase: Phase::Report,
            sequence: 0,
            specs: Vec::new(),
            dirty: false,
            newest: None,
            moved: false,
            others: Vec::new(),
            in_use: Vec::new(),
            sweep: false,
            down: VecDeque::from([report]),
        }
    }

    pub fn failure(&self) -> Option<&str> {
        match &self.phase {
            Phase::Failed(sentence) => Some(sentence),
            _ => None,
        }
    }

    /// Reports whether it has been read.
    pub fn is_read(&self) -> bool {
        matches!(
            self.phase,
            Phase::Ready | Phase::Erase | Phase::Write | Phase::Sweep(..) | Phase::SweepReport
        )
    }

    /// Reports whether the record on the flash is current.
    pub fn is_kept(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Sweep(..) | Phase::SweepReport) && !self.dirty
    }

    /// Reports whether the record is idle, and rows without a range hold no data.
    pub fn rests(&self) -> bool {
        self.phase == Phase::Ready && !self.dirty && !self.sweep
    }

    pub fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    pub fn has_command(&self) -> bool {
        !self.down.is_empty()
    }

    /// Adds a range, and writes the record.
    pub fn add(&mut self, spec: Spec) {
        self.specs.push(spec);
        self.save();
    }

    /// Removes a range, writes the record, and erases the range's chunks.
    pub fn remove(&mut self, id: u32) {
        self.specs.retain(|spec| spec.id != id);
        self.sweep = true;
        self.save();
    }

    /// Writes the record as it is.
    pub fn save(&mut self) {
        self.dirty = true;
        self.go_on();
    }

    fn lba(&self, home: usize, sector: u32) -> Lba {
        self.space.chunks.lba(ChunkAddress { sector, ..self.homes[home] })
    }

    /// Sectors of one write: the record, and the padding needed to make it readable.
    fn write_sectors(&self) -> u32 {
        let unit = self.space.page_sectors();
        unit + self.space.chunks.cached_sectors.next_multiple_of(unit)
    }

    pub fn complete(&mut self, completion: &mut Completion) {
        match std::mem::replace(&mut self.phase, Phase::Ready) {
            Phase::Report => self.reported(completion),
            Phase::Format(left, under_way) => {
                // A chunk that cannot be erased goes offline: it is never read.
                self.phase = Phase::Format(left, under_way - 1);
                self.go_on_formatting();
            }
            Phase::Sweep(left, under_way) => {
                self.phase = Phase::Sweep(left, under_way - 1);
                self.go_on_sweeping();
            }
            Phase::SweepReport => {
                let infos = self.infos(completion);
                // Without a report the rows are swept at the next start.
                let in_use = infos.map(|infos| self.in_use(&infos)).unwrap_or_default();
                self.phase = Phase::Sweep(self.nobodys(in_use), 0);
                self.go_on_sweeping();
            }
            Phase::Read(left) => self.read(left, completion),
            Phase::Erase => {
                let erased = completion.status == Status::Success;
                self.pointers[self.current] = erased.then_some(0);
                self.go_on();
            }
            Phase::Write => self.written(completion.status == Status::Success),
            phase @ (Phase::Ready | Phase::Failed(_)) => self.phase = phase,
        }
    }

    fn fail(&mut self, sentence: &str) {
        self.phase = Phase::Failed(sentence.into());
    }

    /// Decodes a report on every chunk.
    fn infos(&self, completion: &Completion) -> Option<Vec<ChunkInfo>> {
        let infos = completion.data.as_chunks::<{ ChunkInfo::BYTES }>().0.iter().map(ChunkInfo::decode);
        let infos: Option<Vec<ChunkInfo>> = infos.collect();
        let wanted = self.space.geometry().blocks() as usize;
        infos.filter(|i| completion.status == Status::Success && i.len() == wanted)
    }

    fn homes(&self) -> [Lba; 2] {
        [0, 1].map(|home| self.lba(home, 0))
    }

    /// The chunks other than homes that hold data.
    fn in_use(&self, infos: &[ChunkInfo]) -> Vec<Lba> {
        let homes = self.homes();
        let holds = |info: &&ChunkInfo| matches!(info.state, ChunkState::Open | ChunkState::Closed);
        infos.iter().filter(holds).map(|info| info.start).filter(|lba| !homes.contains(lba)).collect()
    }

    /// Selects the chunks that lie on rows of no range.
    fn nobodys(&self, mut chunks: Vec<Lba>) -> Vec<Lba> {
        let row = |lba: &Lba| self.space.chunks.address(*lba).map(|address| address.chunk);
        chunks.retain(|lba| {
            row(lba).is_some_and(|row| !self.specs.iter().any(|spec| spec.rows.contains(&row)))
        });
        chunks
    }

    fn reported(&mut self, completion: &Completion) {
        let Some(infos) = self.infos(completion) else {
            return self.fail("the drive did not report its chunks");
        };
        let homes = self.homes();
        self.in_use = self.in_use(&infos);
        if self.format {
            // The homes come first: without a record, nothing counts as a range.
            let holds = |info: &&ChunkInfo| matches!(info.state, ChunkState::Open | ChunkState::Closed);
            let first =
                infos.iter().filter(holds).map(|info| info.start).filter(|lba| homes.contains(lba)).collect();
            self.others = std::mem::take(&mut self.in_use);
            for (home, lba) in homes.into_iter().enumerate() {
                let offline = infos.iter().any(|i| i.start == lba && i.state == ChunkState::Offline);
                self.pointers[home] = (!offline).then_some(0);
            }
            self.phase = Phase::Format(first, 0);
            return self.go_on_formatting();
        }
        let mut reads = VecDeque::new();
        for (home, lba) in homes.into_iter().enumerate() {
            let info = infos.iter().find(|info| info.start == lba).expect("every chunk is reported");
            let open = matches!(info.state, ChunkState::Open | ChunkState::Free);
            self.pointers[home] = open.then_some(info.write_pointer);
            let held = if info.state == ChunkState::Open { self.space.chunks.cached_sectors } else { 0 };
            let readable = info.write_pointer.saturating_sub(held);
            let unit = self.space.page_sectors();
            reads.extend((0..readable / unit).map(|row| (home, row * unit)));
        }
        self.phase = Phase::Read(reads);
        self.read_next();
    }

    /// Starts erases; returns whether none is left or in flight.
    fn erase_more(down: &mut VecDeque<Command>, left: &mut Vec<Lba>, under_way: &mut usize) -> bool {
        while *under_way < ERASES_MAX
            && let Some(lba) = left.pop()
        {
            down.push_back(Command::new(0, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new()));
            *under_way += 1;
        }
        *under_way == 0
    }

    fn go_on_sweeping(&mut self) {
        let Phase::Sweep(left, under_way) = &mut self.phase else { return };
        if Record::erase_more(&mut self.down, left, under_way) {
            self.phase = Phase::Ready;
            self.go_on();
        }
    }

    fn go_on_formatting(&mut self) {
        let Phase::Format(left, under_way) = &mut self.phase else { return };
        if Record::erase_more(&mut self.down, left, under_way) {
            if self.others.is_empty() {
                self.phase = Phase::Ready;
            } else {
                self.phase = Phase::Format(std::mem::take(&mut self.others), 0);
                self.go_on_formatting();
            }
        }
    }

    fn read_next(&mut self) {
        let Phase::Read(left) = &self.phase else { return };
        let Some(&(home, sector)) = left.front() else { return self.all_read() };
        let data = vec![0; self.space.image_bytes];
        self.down.push_back(Command::new(0, Opcode::Read, self.lba(home, sector), 1, data));
    }

    fn read(&mut self, mut left: VecDeque<(usize, u32)>, completion: &Completion) {
        let home = left.pop_front().map_or(0, |(home, _)| home);
        if matches!(completion.status, Status::Success | Status::HighEcc)
            && let Some((sequence, specs)) = decode(&completion.data)
            && sequence >= self.sequence
        {
            (self.sequence, self.specs, self.current, self.newest) = (sequence, specs, home, Some(home));
        }
        self.phase = Phase::Read(left);
        self.read_next();
    }

    fn all_read(&mut self) {
        let in_use = std::mem::take(&mut self.in_use);
        self.phase = Phase::Ready;
        if self.newest.is_none() && !in_use.is_empty() {
            return self.fail(
                "the flash holds something that no policy level has written; it has to be formatted first",
            );
        }
        self.phase = Phase::Sweep(self.nobodys(in_use), 0);
        self.go_on_sweeping();
    }

    /// Starts pending work.
    fn go_on(&mut self) {
        if self.phase != Phase::Ready {
            return;
        }
        if !self.dirty {
            if std::mem::take(&mut self.sweep) {
                let first = self.space.chunks.lba(ChunkAddress::default());
                let blocks = self.space.geometry().blocks();
                self.phase = Phase::SweepReport;
                self.down.push_back(Command::new(0, Opcode::Report, first, blocks, Vec::new()));
            }
            return;
        }
        let sectors = self.write_sectors();
        let room = |pointer: &u32| pointer + sectors <= self.space.chunks.chunk_sectors;
        match self.pointers[self.current].filter(room) {
            Some(at) => self.write(at, sectors),
            None if self.moved || self.newest == Some(1 - self.current) => {
                self.fail("the chunks that hold the record of the ranges take no more");
            }
            None => {
                self.moved = true;
                self.current = 1 - self.current;
                if self.pointers[self.current] == Some(0) {
                    return self.go_on();
                }
                self.phase = Phase::Erase;
                let lba = self.lba(self.current, 0);
                self.down.push_back(Command::new(0, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new()));
            }
        }
    }

    fn write(&mut self, at: u32, sectors: u32) {
        self.dirty = false;
        self.sequence += 1;
        let mut data = encode(self.sequence, &self.specs);
        // A drive that keeps no data keeps no record either.
        data.resize(sectors as usize * self.space.image_bytes, 0);
        let metadata = vec![0xFF; sectors as usize * Vector::METADATA_BYTES];
        let vector = Some(Box::new(Vector { metadata, ..Vector::default() }));
        self.phase = Phase::Write;
        let lba = self.lba(self.current, at);
        self.down.push_back(Command { vector, ..Command::new(0, Opcode::Write, lba, sectors, data) });
    }

    fn written(&mut self, ok: bool) {
        let sectors = self.write_sectors();
        match ok {
            true => {
                (self.moved, self.newest) = (false, Some(self.current));
                self.pointers[self.current] = self.pointers[self.current].map(|at| at + sectors);
            }
            false => {
                self.pointers[self.current] = None;
                self.dirty = true;
            }
        }
        self.go_on();
    }
}

fn encode(sequence: u64, specs: &[Spec]) -> Vec<u8> {
    let mut out = Vec::with_capacity(RECORD_BYTES);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(specs.len() as u32).to_le_bytes());
    out.extend_from_slice(&sequence.to_le_bytes());
    out.resize(HEADER_BYTES, 0);
    for spec in specs {
        for value in [spec.sectors.start, spec.sectors.end, spec.over_provisioning.to_bits()] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        for value in [spec.rows.start, spec.rows.end, spec.id] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&[spec.mapping as u8, spec.gc as u8]);
        out.resize(out.len() + RANGE_BYTES - 38, 0);
    }
    let sum = crc32c::crc32c(&out[12..]);
    out[8..12].copy_from_slice(&sum.to_le_bytes());
    out
}

fn decode(bytes: &[u8]) -> Option<(u64, Vec<Spec>)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let count = word(12)? as usize;
    let length = HEADER_BYTES + count.min(super::RANGES_MAX) * RANGE_BYTES;
    let good = bytes.starts_with(MAGIC) && word(8)? == crc32c::crc32c(bytes.get(12..length)?);
    good.then_some(())?;
    let spec = |at: usize| {
        Some(Spec {
            sectors: long(at)?..long(at + 8)?,
            over_provisioning: f64::from_bits(long(at + 16)?),
            rows: word(at + 24)?..word(at + 28)?,
            id: word(at + 32)?,
            mapping: if bytes[at + 36] == Mapping::Page as u8 { Mapping::Page } else { Mapping::Block },
            gc: Gc::ALL.into_iter().find(|gc| *gc as u8 == bytes[at + 37])?,
        })
    };
    let specs = (0..count).map(|i| spec(HEADER_BYTES + i * RANGE_BYTES));
    Some((long(16)?, specs.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_damage_is_seen() {
        let spec = Spec {
            sectors: 8..1 << 40,
            mapping: Mapping::Block,
            gc: Gc::CostBenefit,
            over_provisioning: 0.25,
            rows: 1..9,
            id: 3,
        };
        let specs = vec![spec.clone(), Spec { mapping: Mapping::Page, gc: Gc::Lru, ..spec }];
        let bytes = encode(77, &specs);
        assert_eq!(bytes.len(), HEADER_BYTES + 2 * RANGE_BYTES);
        assert_eq!(decode(&bytes), Some((77, specs)));
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            assert_eq!(decode(&bad), None, "byte {at}");
        }
        const { assert!(RECORD_BYTES <= 512, "a record fits into any sector") };
    }
}
