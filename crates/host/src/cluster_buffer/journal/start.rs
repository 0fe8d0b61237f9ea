//! Start of a buffer with a journal: data that were flushed into the journal, and are not known to be on the
//! drive, are written there.
//!
//! ```text
//!   head, or the other one ──► ring, all of it ──► sectors of what the newest record names, in order ──► flush ──► a record that names nothing
//!     └─ neither ─► the ring is searched for records of any journal ─► none: a new ring begins with a record that names nothing, then
//!                                                                      both heads
//! ```
//! Records without a head may hold flushed data, so the start refuses them.
//!
//! A missing or unreadable head is written again from the other one. If that fails too, the other one is
//! enough.
//!
//! A power cut during a start changes nothing: the newest record stays the newest until all its data are on
//! the drive.

use super::super::{ClusterBuffer, Purpose};
use super::record::{self, JournalHead, Record};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Completion, Lba, Nanos, Opcode, Status};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of units that the search reads at once.
const SEARCH_UNITS: u32 = 64;

/// Progress of the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    New,
    /// Reading a head.
    Head(usize),
    /// Searching for records without a head, from this sector on.
    Look(u64),
    /// Writing the head in the last sector again.
    Repair,
    /// Searching the ring, from this unit on.
    Search(u32),
    Read,
    Write,
    Flush,
    /// Writing a record that names nothing, and then a new head if `then_head` is set.
    Empty {
        then_head: bool,
    },
    MakeHead(usize),
    Ready,
    Failed,
}

/// State of the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    stage: Stage,
    why: Option<String>,
    /// The head in the last sector is unreadable.
    unread: bool,
    records: Vec<Record>,
    /// Units that begin like a record but hold none.
    begun: BTreeSet<u32>,
    torn: bool,
    /// Sectors to write back: sector of the ring, sector of the device, and count.
    copies: VecDeque<(u64, u64, u32)>,
    replayed: u64,
    made: bool,
}

impl Start {
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    pub fn failure(&self) -> Option<String> {
        self.why.clone()
    }

    /// Returns the number of sectors that were written back.
    pub fn replayed(&self) -> u64 {
        self.replayed
    }

    /// Reports whether the journal is new.
    pub fn has_made(&self) -> bool {
        self.made
    }

    /// Reports whether an incomplete record follows the newest.
    pub fn is_torn(&self) -> bool {
        self.torn
    }
}

impl ClusterBuffer {
    pub(in super::super) fn begin_start(&mut self) {
        let keeps = self.keeps_content();
        let Some(journal) = &mut self.journal else { return };
        if journal.start.stage != Stage::New {
            return;
        }
        if !keeps {
            // A drive that keeps no data keeps no records; the journal starts as after a record that names
            // nothing.
            (journal.newest, journal.sequence, journal.next) = (1, 2, 1 % journal.region.units);
            journal.start.stage = Stage::Ready;
            return;
        }
        self.read_head(0);
    }

    fn read_head(&mut self, which: usize) {
        self.stage(Stage::Head(which));
        let at = self.journal.as_ref().expect("it starts").region.heads[which];
        self.ask_start(Opcode::Read, at, 1, Vec::new());
    }

    fn ask_start(&mut self, opcode: Opcode, lba: u64, sectors: u32, mut data: Vec<u8>) {
        data.resize(sectors as usize * self.image_bytes, 0);
        let fua = opcode == Opcode::Write;
        let command = Command { fua, ..Command::new(0, opcode, Lba(lba), sectors, data) };
        self.send(NIL, Purpose::Start, Nanos::ZERO, command);
    }

    pub(in super::super) fn start_goes_on(&mut self, completion: Completion) {
        let journal = self.journal.as_ref().expect("it starts");
        let stage = journal.start.stage;
        let failed = completion.status != Status::Success;
        if failed && stage == Stage::Head(0) {
            self.journal.as_mut().expect("it starts").start.unread = true;
            return self.read_head(1);
        }
        if failed && stage != Stage::Repair {
            let verb = if completion.opcode == Opcode::Read { "read" } else { "written" };
            return self.fail_start(format!("the journal at the end of the device cannot be {verb}"));
        }
        match stage {
            Stage::Head(which) => self.head_read(which, &completion.data),
            Stage::Look(from) => self.look(from, &completion.data),
            Stage::Repair => self.begin_search(),
            Stage::Search(unit) => self.search(unit, completion.data),
            Stage::Read => self.copy_read(completion.data),
            Stage::Write => self.copy_next(),
            Stage::Flush => self.write_empty(false),
            Stage::Empty { then_head: true } => self.write_head(Stage::MakeHead(0), 0),
            Stage::MakeHead(0) => self.write_head(Stage::MakeHead(1), 1),
            Stage::Empty { then_head: false } | Stage::MakeHead(_) => self.ready(),
            Stage::New | Stage::Ready | Stage::Failed => {}
        }
    }

    fn stage(&mut self, stage: Stage) {
        self.journal.as_mut().expect("it starts").start.stage = stage;
    }

    fn fail_start(&mut self, why: String) {
        let journal = self.journal.as_mut().expect("it starts");
        (journal.start.stage, journal.start.why) = (Stage::Failed, Some(why));
        for op in std::mem::take(&mut journal.early) {
            self.finish(op, Status::ReadOnly);
        }
    }

    /// Returns the head that this journal has, or would have.
    fn own_head(&self) -> JournalHead {
        let journal = self.journal.as_ref().expect("it starts");
        JournalHead {
            sector_bytes: self.config.sector_bytes,
            id: journal.id,
            ring: journal.region.ring,
            units: journal.region.units,
            unit_sectors: journal.region.unit_sectors,
            cluster_sectors: self.config.cluster_sectors,
            version: JournalHead::VERSION,
        }
    }

    fn head_read(&mut self, which: usize, data: &[u8]) {
        let own = self.own_head();
        let journal = self.journal.as_mut().expect("it starts");
        match JournalHead::parse(data) {
            Some(head) if JournalHead { id: own.id, ..head } == own => {
                journal.id = head.id;
                match which {
                    0 => self.begin_search(),
                    _ => self.write_head(Stage::Repair, 0),
                }
            }
            Some(head) if head.version != JournalHead::VERSION => self.fail_start(format!(
                "the journal of the device has format {}; this program knows format {}; allowed: to stop the program that made it, which \
                 empties it, and to make another one",
                head.version,
                JournalHead::VERSION
            )),
            Some(head) => {
                let bytes = |sectors: u32| u64::from(sectors) * u64::from(head.sector_bytes);
                self.fail_start(format!(
                    "the device has another journal: a ring of {} bytes at sector {}, units of {} bytes, clusters of {} bytes, sectors of {} \
                     bytes; allowed: the same settings",
                    head.ring_bytes(),
                    head.ring,
                    bytes(head.unit_sectors),
                    bytes(head.cluster_sectors),
                    head.sector_bytes
                ));
            }
            None if which == 0 => self.read_head(1),
            None if journal.start.unread => {
                self.fail_start("the journal at the end of the device cannot be read".into());
            }
            None => {
                let ring = journal.region.ring;
                self.look_from(ring);
            }
        }
    }

    fn look_from(&mut self, sector: u64) {
        let region = self.journal.as_ref().expect("it starts").region;
        let end = region.sector(region.units);
        if sector < end {
            self.stage(Stage::Look(sector));
            let most = u64::from(SEARCH_UNITS) * u64::from(region.unit_sectors);
            return self.ask_start(Opcode::Read, sector, most.min(end - sector) as u32, Vec::new());
        }
        let journal = self.journal.as_mut().expect("it starts");
        if journal.config.make.is_none() {
            return self.fail_start(
                "the device has no journal at its end; allowed: to make one, which overwrites what is there, or none".into(),
            );
        }
        (journal.sequence, journal.next, journal.start.made) = (1, 0, true);
        self.write_empty(true);
    }

    /// Refuses records of a journal without a head. Units of another journal may have another size, so every
    /// sector may begin a record. The record of a journal whose making was interrupted does not count.
    fn look(&mut self, from: u64, data: &[u8]) {
        let bytes = self.config.sector_bytes as usize;
        let unit_bytes = self.journal.as_ref().expect("it starts").region.unit_sectors as usize * bytes;
        let counts = |&at: &usize| {
            Record::begins_any(&data[at..]) && !data[at..].get(..unit_bytes).is_some_and(Record::is_first)
        };
        match (0..data.len()).step_by(bytes).find(counts) {
            None => self.look_from(from + (data.len() / bytes) as u64),
            Some(at) => {
                let region = self.journal.as_ref().expect("it starts").region;
                let ring = region.ring * bytes as u64;
                self.fail_start(format!(
                    "the device has records of a journal, from sector {} on, and both heads of the journal are damaged; flushed data may be in \
                     it alone; allowed: another device; to discard that journal, overwrite the device from byte {ring} to its end with zeros",
                    from + (at / bytes) as u64
                ));
            }
        }
    }

    fn begin_search(&mut self) {
        self.stage(Stage::Search(0));
        self.read_ring(0, SEARCH_UNITS);
    }

    fn read_ring(&mut self, unit: u32, units: u32) {
        let region = self.journal.as_ref().expect("it starts").region;
        let units = units.min(region.units - unit);
        self.ask_start(Opcode::Read, region.sector(unit), units * region.unit_sectors, Vec::new());
    }

    /// Searches units from `unit` on for records.
    fn search(&mut self, mut unit: u32, data: Vec<u8>) {
        let bytes = self.config.sector_bytes as usize;
        let journal = self.journal.as_mut().expect("it starts");
        let unit_bytes = journal.region.unit_sectors as usize * bytes;
        let mut rest = &data[..];
        while !rest.is_empty() {
            let left = journal.region.units - unit;
            let longest = journal.region.largest.min(left);
            let units = Record::units_at(rest, journal.id).filter(|units| (1..=longest).contains(units));
            match units {
                Some(units) if units as usize * unit_bytes > rest.len() => {
                    self.stage(Stage::Search(unit));
                    return self.read_ring(unit, units.max(SEARCH_UNITS));
                }
                Some(units) => {
                    let record = Record::parse(&rest[..units as usize * unit_bytes], unit, bytes);
                    // A torn record may have older ones after its first unit.
                    let step = record.as_ref().map_or(1, |record| record.units);
                    if record.is_none() {
                        journal.start.begun.insert(unit);
                    }
                    journal.start.records.extend(record);
                    unit += step;
                    rest = &rest[step as usize * unit_bytes..];
                }
                None => {
                    if Record::begins(rest, journal.id) {
                        journal.start.begun.insert(unit);
                    }
                    unit += 1;
                    rest = &rest[unit_bytes..];
                }
            }
        }
        if unit < journal.region.units {
            self.stage(Stage::Search(unit));
            return self.read_ring(unit, SEARCH_UNITS);
        }
        self.searched();
    }

    /// Lists the sectors to write back, according to the newest record.
    fn searched(&mut self) {
        let size = u64::from(self.config.cluster_sectors);
        let journal = self.journal.as_mut().expect("it starts");
        let mut records = std::mem::take(&mut journal.start.records);
        records.sort_by_key(|record| record.sequence);
        let Some(newest) = records.last() else {
            return self
                .fail_start("the journal at the end of the device is damaged: it has no record".into());
        };
        let mut since: BTreeMap<u64, u64> = BTreeMap::new();
        for &(cluster, first) in &newest.named {
            let known = since.entry(cluster).or_insert(first);
            *known = (*known).min(first);
        }
        if let Some(lost) = missing(&records, since.values().min().copied().unwrap_or(newest.sequence)) {
            let newest = newest.sequence;
            let why = format!(
                "the journal at the end of the device is damaged: record {lost} is not there, which record {newest} needs"
            );
            return self.fail_start(why);
        }
        let is_there = |number: &u64| records.binary_search_by_key(number, |record| record.sequence).is_ok();
        if let Some(lost) = since.values().find(|number| !is_there(number)) {
            let why = format!("the journal at the end of the device is damaged: record {lost} is not there");
            return self.fail_start(why);
        }
        (journal.newest, journal.sequence) = (newest.sequence, newest.sequence + 1);
        journal.next = (newest.unit + newest.units) % journal.region.units;
        journal.tail = newest.unit;
        // A record that did not fit before the end of the ring began at the ring's first unit.
        let wraps = journal.next + journal.region.largest > journal.region.units;
        let begun = &journal.start.begun;
        journal.start.torn = begun.contains(&journal.next) || (wraps && begun.contains(&0));
        for record in &records {
            let mut from = journal.region.sector(record.unit) + u64::from(record.header_sectors);
            for &(first, count) in &record.extents {
                if since.get(&(first / size)).is_some_and(|&since| since <= record.sequence) {
                    journal.start.copies.push_back((from, first, count as u32));
                }
                from += count;
            }
        }
        if since.is_empty() { self.ready() } else { self.copy_next() }
    }

    fn copy_next(&mut self) {
        let journal = self.journal.as_ref().expect("it starts");
        match journal.start.copies.front() {
            Some(&(from, _, count)) => {
                self.stage(Stage::Read);
                self.ask_start(Opcode::Read, from, count, Vec::new());
            }
            None => {
                self.stage(Stage::Flush);
                self.send(
                    NIL,
                    Purpose::Start,
                    Nanos::ZERO,
                    Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()),
                );
            }
        }
    }

    fn copy_read(&mut self, data: Vec<u8>) {
        let start = &mut self.journal.as_mut().expect("it starts").start;
        let (_, to, count) = start.copies.pop_front().expect("it was read");
        start.replayed += u64::from(count);
        start.stage = Stage::Write;
        let write = Command::new(0, Opcode::Write, Lba(to), count, data);
        self.send(NIL, Purpose::Start, Nanos::ZERO, write);
    }

    /// Writes a record that names nothing.
    fn write_empty(&mut self, then_head: bool) {
        let bytes = self.config.sector_bytes as usize;
        let journal = self.journal.as_mut().expect("it starts");
        let header = record::header_sectors(0, bytes);
        let units = header.div_ceil(journal.region.unit_sectors);
        // The whole ring except the newest record is free for the next one.
        let unit = if journal.next + units > journal.region.units { 0 } else { journal.next };
        let record = journal.record(unit, units, header, Vec::new());
        let (id, sectors) = (journal.id, units * journal.region.unit_sectors);
        let mut data = vec![0; sectors as usize * bytes];
        record.seal(id, &mut data);
        journal.next = (unit + units) % journal.region.units;
        journal.appended(record.sequence, unit);
        journal.sequence += 1;
        journal.start.stage = Stage::Empty { then_head };
        let at = journal.region.sector(unit);
        self.ask_start(Opcode::Write, at, sectors, data);
    }

    fn write_head(&mut self, stage: Stage, which: usize) {
        let head = self.own_head().encode(self.image_bytes);
        let at = self.journal.as_ref().expect("it starts").region.heads[which];
        self.stage(stage);
        self.ask_start(Opcode::Write, at, 1, head);
    }

    fn ready(&mut self) {
        self.stage(Stage::Ready);
        let early = std::mem::take(&mut self.journal.as_mut().expect("it starts").early);
        for op in early {
            self.begin(op);
        }
    }

    /// Reports whether the start holds a request back until its end.
    pub(in super::super) fn is_early(&mut self, op: u32) -> bool {
        let Some(journal) = &mut self.journal else { return false };
        match journal.start.stage {
            Stage::Ready => return false,
            Stage::Failed => self.finish(op, Status::ReadOnly),
            _ => journal.early.push(op),
        }
        true
    }
}

/// Returns the first missing record on the way back from the newest to number `first`.
fn missing(records: &[Record], first: u64) -> Option<u64> {
    let mut at = records.last()?;
    while at.sequence > first {
        match records.binary_search_by_key(&at.before, |record| record.sequence) {
            Ok(before) => at = &records[before],
            Err(_) => return Some(at.before),
        }
    }
    None
}
