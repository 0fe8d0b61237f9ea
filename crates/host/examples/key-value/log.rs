//! Parts that both programs share: asks and answers, the records of the log, and the index.
//!
//! ```text
//!   position   tail .......................... head        counted up for ever; sector = position mod capacity
//!   segments   [ oldest | ... | ... | newest ]   free
//! ```
//! A record is one sector. It holds its position, its key, and the tail at the time of its write. A start
//! reads every record from the newest tail on; the highest position of a key wins. Cleaning appends the live
//! records of the oldest segment again. It drops the segment's tombstones, because no older record remains
//! for them to hide.

use pellucid_flash::{Command, Lba, Opcode, SimTime, Status};
use std::collections::BTreeMap;

/// Sectors of a segment.
pub const SEGMENT: u64 = 16;
/// Free segments below which the oldest one is cleaned.
pub const RESERVE: u64 = 2;
/// Bytes of a record before its value: checksum, position, tail, key and length.
const HEADER: usize = 40;
const TOMBSTONE: u64 = u64::MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Put(Vec<u8>),
    Get,
    Delete,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub tag: u64,
    pub key: u64,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The put or delete is on the drive.
    Done,
    /// Result of a get.
    Value(Option<Vec<u8>>),
    /// The log holds its maximum number of keys.
    Full,
    Failed(Status),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub tag: u64,
    pub at: SimTime,
    pub outcome: Outcome,
}

/// Record read from the log.
pub struct Record {
    pub position: u64,
    pub key: u64,
    pub value: Option<Vec<u8>>,
    tail: u64,
}

fn word(image: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(image[at * 8..][..8].try_into().expect("8 bytes"))
}

impl Record {
    /// Decodes a sector; returns `None` if it holds no record, or half of one.
    pub fn decode(image: &[u8]) -> Option<Record> {
        let [sum, position, tail, key, length] = std::array::from_fn(|at| word(image, at));
        if sum != u64::from(crc32c::crc32c(&image[8..])) || position == 0 {
            return None;
        }
        let value = (length != TOMBSTONE).then(|| image[HEADER..][..length as usize].to_vec());
        Some(Record { position, key, value, tail })
    }
}

/// The log and its index.
#[derive(Clone, Debug)]
pub struct Log {
    sector_bytes: usize,
    capacity: u64,
    index: BTreeMap<u64, u64>,
    /// Values of writes under way, by position.
    fresh: BTreeMap<u64, Vec<u8>>,
    pub head: u64,
    pub tail: u64,
    /// Buffers for reuse.
    pub images: Vec<Vec<u8>>,
}

impl Log {
    pub fn new(sectors: u64, sector_bytes: usize) -> Log {
        let capacity = sectors / SEGMENT * SEGMENT;
        // Position 0 marks a sector that was never written.
        let first = capacity;
        Log {
            sector_bytes,
            capacity,
            index: BTreeMap::new(),
            fresh: BTreeMap::new(),
            head: first,
            tail: first,
            images: Vec::new(),
        }
    }

    pub fn segments(&self) -> u64 {
        self.capacity / SEGMENT
    }

    pub fn place(&self, key: u64) -> Option<u64> {
        self.index.get(&key).copied()
    }

    pub fn is_low(&self) -> bool {
        self.capacity - (self.head - self.tail) < RESERVE * SEGMENT
    }

    /// Reports whether another key would leave cleaning nothing to free.
    pub fn is_full(&self, key: u64) -> bool {
        let most = self.capacity - (RESERVE + 2) * SEGMENT;
        !self.index.contains_key(&key) && self.index.len() as u64 >= most
    }

    pub fn read(&mut self, tag: u64, position: u64, sectors: u32) -> Command {
        let mut data = self.images.pop().unwrap_or_default();
        data.resize(sectors as usize * self.sector_bytes, 0);
        Command::new(tag, Opcode::Read, Lba(position % self.capacity), sectors, data)
    }

    /// Returns the write of the next record; `value` `None` writes a tombstone. The index is updated at once.
    pub fn append(&mut self, tag: u64, key: u64, value: Option<&[u8]>) -> Command {
        let position = self.head;
        self.head += 1;
        match value {
            Some(_) => self.index.insert(key, position),
            None => self.index.remove(&key),
        };
        if let Some(value) = value {
            let mut fresh = self.images.pop().unwrap_or_default();
            fresh.clear();
            fresh.extend_from_slice(value);
            self.fresh.insert(position, fresh);
        }
        let mut image = self.images.pop().unwrap_or_default();
        image.clear();
        image.resize(self.sector_bytes, 0);
        let length = value.map_or(TOMBSTONE, |value| value.len() as u64);
        for (at, word) in [position, self.tail, key, length].into_iter().enumerate() {
            image[8 + at * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        image[HEADER..][..value.map_or(0, <[u8]>::len)].copy_from_slice(value.unwrap_or(&[]));
        let sum = u64::from(crc32c::crc32c(&image[8..]));
        image[..8].copy_from_slice(&sum.to_le_bytes());
        let lba = Lba(position % self.capacity);
        Command { fua: true, ..Command::new(tag, Opcode::Write, lba, 1, image) }
    }

    /// Notes that the record at `position` is on the drive.
    pub fn written(&mut self, position: u64) {
        self.images.extend(self.fresh.remove(&position));
    }

    /// Returns the value at `position` if its write is under way.
    pub fn fresh(&self, position: u64) -> Option<&[u8]> {
        self.fresh.get(&position).map(Vec::as_slice)
    }

    /// Rebuilds the log from all sectors of the drive.
    pub fn mount(&mut self, sectors: &[u8]) {
        let records: Vec<Record> =
            sectors.chunks_exact(self.sector_bytes).filter_map(Record::decode).collect();
        self.tail = records.iter().map(|record| record.tail).max().unwrap_or(self.tail);
        let mut newest: BTreeMap<u64, &Record> = BTreeMap::new();
        for record in records.iter().filter(|record| record.position >= self.tail) {
            self.head = self.head.max(record.position + 1);
            let known = newest.entry(record.key).or_insert(record);
            if known.position < record.position {
                *known = record;
            }
        }
        let live = newest.values().filter(|record| record.value.is_some());
        self.index = live.map(|record| (record.key, record.position)).collect();
    }

    /// Returns the live records of the oldest segment.
    pub fn live_of(&self, segment: &[u8]) -> Vec<Record> {
        let records = segment.chunks_exact(self.sector_bytes).filter_map(Record::decode);
        records.filter(|record| self.place(record.key) == Some(record.position)).collect()
    }

    /// Returns the first position after the oldest segment.
    pub fn end_of_oldest(&self) -> u64 {
        (self.tail / SEGMENT + 1) * SEGMENT
    }

    /// Checks that every live record lies between tail and head, and that each key has one sector.
    pub fn check(&self) {
        assert!(
            self.index.values().all(|place| (self.tail..self.head).contains(place)),
            "a place is outside the log"
        );
        assert!(self.head - self.tail <= self.capacity, "the log has run into its tail");
    }
}
