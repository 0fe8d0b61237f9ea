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

use super::record::{self, JournalHead, Record};
use super::ring::Ring;
use pellucid_flash::{Command, Completion, Lba, Opcode, Status};
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

/// Sizes that decide on the format.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    pub sector_bytes: u32,
    pub image_bytes: usize,
    pub cluster_sectors: u32,
}

impl Sizes {
    /// Reports whether the drive keeps data, and not only stamps.
    pub fn keeps_content(&self) -> bool {
        self.image_bytes == self.sector_bytes as usize
    }
}

/// Effect of a step of the start.
#[derive(Debug)]
pub(in super::super) enum Effect {
    Nothing,
    /// A command goes to the drive; the start continues at its end.
    Send(Command),
    /// The buffer may run.
    Ready,
    /// The buffer cannot run.
    Failed,
}

/// State of the start.
#[derive(Clone, Debug, Default)]
pub(super) struct JournalStart {
    stage: Stage,
    sizes: Sizes,
    /// A journal is made if there is none.
    may_make: bool,
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

impl JournalStart {
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

impl JournalStart {
    /// Begins the start, if it has not begun.
    pub fn begin(&mut self, ring: &mut Ring, may_make: bool, sizes: Sizes) -> Effect {
        if self.stage != Stage::New {
            return Effect::Nothing;
        }
        (self.may_make, self.sizes) = (may_make, sizes);
        if !sizes.keeps_content() {
            // A drive that keeps no data keeps no records; the journal starts as after a record that names
            // nothing.
            ring.begin_blank();
            self.stage = Stage::Ready;
            return Effect::Ready;
        }
        self.read_head(ring, 0)
    }

    /// Continues after the end of a command.
    pub fn go_on(&mut self, ring: &mut Ring, completion: Completion) -> Effect {
        let stage = self.stage;
        let failed = completion.status != Status::Success;
        if failed && stage == Stage::Head(0) {
            self.unread = true;
            return self.read_head(ring, 1);
        }
        if failed && stage != Stage::Repair {
            let verb = if completion.opcode == Opcode::Read { "read" } else { "written" };
            return self.fail(format!("the journal at the end of the device cannot be {verb}"));
        }
        match stage {
            Stage::Head(which) => self.head_read(ring, which, &completion.data),
            Stage::Look(from) => self.look(ring, from, &completion.data),
            Stage::Repair => self.begin_search(ring),
            Stage::Search(unit) => self.search(ring, unit, &completion.data),
            Stage::Read => self.copy_read(completion.data),
            Stage::Write => self.copy_next(),
            Stage::Flush => self.write_empty(ring, false),
            Stage::Empty { then_head: true } => self.write_head(ring, Stage::MakeHead(0), 0),
            Stage::MakeHead(0) => self.write_head(ring, Stage::MakeHead(1), 1),
            Stage::Empty { then_head: false } | Stage::MakeHead(_) => self.ready(),
            Stage::New | Stage::Ready | Stage::Failed => Effect::Nothing,
        }
    }

    fn ask(&mut self, stage: Stage, opcode: Opcode, lba: u64, sectors: u32, mut data: Vec<u8>) -> Effect {
        assert!(!matches!(self.stage, Stage::Ready | Stage::Failed), "a start goes on after its end");
        self.stage = stage;
        data.resize(sectors as usize * self.sizes.image_bytes, 0);
        let fua = opcode == Opcode::Write;
        Effect::Send(Command { fua, ..Command::new(0, opcode, Lba(lba), sectors, data) })
    }

    fn fail(&mut self, why: String) -> Effect {
        (self.stage, self.why) = (Stage::Failed, Some(why));
        Effect::Failed
    }

    fn ready(&mut self) -> Effect {
        self.stage = Stage::Ready;
        Effect::Ready
    }

    // ---- heads

    fn read_head(&mut self, ring: &Ring, which: usize) -> Effect {
        self.ask(Stage::Head(which), Opcode::Read, ring.region().heads[which], 1, Vec::new())
    }

    /// Returns the head that this journal has, or would have.
    fn own_head(&self, ring: &Ring) -> JournalHead {
        let region = ring.region();
        JournalHead {
            sector_bytes: self.sizes.sector_bytes,
            id: ring.id(),
            ring: region.ring,
            units: region.units,
            unit_sectors: region.unit_sectors,
            cluster_sectors: self.sizes.cluster_sectors,
            version: JournalHead::VERSION,
        }
    }

    fn head_read(&mut self, ring: &mut Ring, which: usize, data: &[u8]) -> Effect {
        let own = self.own_head(ring);
        match JournalHead::parse(data) {
            Some(head) if JournalHead { id: own.id, ..head } == own => {
                ring.set_id(head.id);
                match which {
                    0 => self.begin_search(ring),
                    _ => self.write_head(ring, Stage::Repair, 0),
                }
            }
            Some(head) if head.version != JournalHead::VERSION => self.fail(format!(
                "the journal of the device has format {}; this program knows format {}; allowed: to stop the program that made it, which \
                 empties it, and to make another one",
                head.version,
                JournalHead::VERSION
            )),
            Some(head) => {
                let bytes = |sectors: u32| u64::from(sectors) * u64::from(head.sector_bytes);
                self.fail(format!(
                    "the device has another journal: a ring of {} bytes at sector {}, units of {} bytes, clusters of {} bytes, sectors of {} \
                     bytes; allowed: the same settings",
                    head.ring_bytes(),
                    head.ring,
                    bytes(head.unit_sectors),
                    bytes(head.cluster_sectors),
                    head.sector_bytes
                ))
            }
            None if which == 0 => self.read_head(ring, 1),
            None if self.unread => self.fail("the journal at the end of the device cannot be read".into()),
            None => {
                let from = ring.region().ring;
                self.look_from(ring, from)
            }
        }
    }

    fn write_head(&mut self, ring: &Ring, stage: Stage, which: usize) -> Effect {
        let head = self.own_head(ring).encode(self.sizes.image_bytes);
        self.ask(stage, Opcode::Write, ring.region().heads[which], 1, head)
    }

    // ---- a device without a head

    fn look_from(&mut self, ring: &mut Ring, sector: u64) -> Effect {
        let region = ring.region();
        let end = region.sector(region.units);
        if sector < end {
            let most = u64::from(SEARCH_UNITS) * u64::from(region.unit_sectors);
            let sectors = most.min(end - sector) as u32;
            return self.ask(Stage::Look(sector), Opcode::Read, sector, sectors, Vec::new());
        }
        if !self.may_make {
            return self.fail(
                "the device has no journal at its end; allowed: to make one, which overwrites what is there, or none".into(),
            );
        }
        ring.begin_new();
        self.made = true;
        self.write_empty(ring, true)
    }

    /// Refuses records of a journal without a head. Units of another journal may have another size, so every
    /// sector may begin a record. The record of a journal whose making was interrupted does not count.
    fn look(&mut self, ring: &mut Ring, from: u64, data: &[u8]) -> Effect {
        let bytes = self.sizes.sector_bytes as usize;
        let unit_bytes = ring.region().unit_sectors as usize * bytes;
        let counts = |&at: &usize| {
            Record::begins_any(&data[at..]) && !data[at..].get(..unit_bytes).is_some_and(Record::is_first)
        };
        match (0..data.len()).step_by(bytes).find(counts) {
            None => self.look_from(ring, from + (data.len() / bytes) as u64),
            Some(at) => {
                let ring = ring.region().ring * bytes as u64;
                self.fail(format!(
                    "the device has records of a journal, from sector {} on, and both heads of the journal are damaged; flushed data may be in \
                     it alone; allowed: another device; to discard that journal, overwrite the device from byte {ring} to its end with zeros",
                    from + (at / bytes) as u64
                ))
            }
        }
    }

    // ---- records

    fn begin_search(&mut self, ring: &Ring) -> Effect {
        self.read_ring(ring, 0, SEARCH_UNITS)
    }

    fn read_ring(&mut self, ring: &Ring, unit: u32, units: u32) -> Effect {
        let region = ring.region();
        let units = units.min(region.units - unit);
        let sectors = units * region.unit_sectors;
        self.ask(Stage::Search(unit), Opcode::Read, region.sector(unit), sectors, Vec::new())
    }

    /// Searches units from `unit` on for records.
    fn search(&mut self, ring: &mut Ring, mut unit: u32, data: &[u8]) -> Effect {
        let bytes = self.sizes.sector_bytes as usize;
        let (region, id) = (ring.region(), ring.id());
        let unit_bytes = region.unit_sectors as usize * bytes;
        let mut rest = data;
        while !rest.is_empty() {
            let longest = region.largest.min(region.units - unit);
            let units = Record::units_at(rest, id).filter(|units| (1..=longest).contains(units));
            match units {
                Some(units) if units as usize * unit_bytes > rest.len() => {
                    return self.read_ring(ring, unit, units.max(SEARCH_UNITS));
                }
                Some(units) => {
                    let record = Record::parse(&rest[..units as usize * unit_bytes], unit, bytes);
                    // A torn record may have older ones after its first unit.
                    let step = record.as_ref().map_or(1, |record| record.units);
                    if record.is_none() {
                        self.begun.insert(unit);
                    }
                    self.records.extend(record);
                    unit += step;
                    rest = &rest[step as usize * unit_bytes..];
                }
                None => {
                    if Record::begins(rest, id) {
                        self.begun.insert(unit);
                    }
                    unit += 1;
                    rest = &rest[unit_bytes..];
                }
            }
        }
        if unit < region.units {
            return self.read_ring(ring, unit, SEARCH_UNITS);
        }
        self.searched(ring)
    }

    /// Lists the sectors to write back, according to the newest record.
    fn searched(&mut self, ring: &mut Ring) -> Effect {
        let size = u64::from(self.sizes.cluster_sectors);
        let mut records = std::mem::take(&mut self.records);
        records.sort_by_key(|record| record.sequence);
        let Some(newest) = records.last() else {
            return self.fail("the journal at the end of the device is damaged: it has no record".into());
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
            return self.fail(why);
        }
        let is_there = |number: &u64| records.binary_search_by_key(number, |record| record.sequence).is_ok();
        if let Some(lost) = since.values().find(|number| !is_there(number)) {
            let why = format!("the journal at the end of the device is damaged: record {lost} is not there");
            return self.fail(why);
        }
        let (next, or) = ring.begin_after(newest);
        self.torn = self.begun.contains(&next) || or.is_some_and(|unit| self.begun.contains(&unit));
        for record in &records {
            let mut from = ring.region().sector(record.unit) + u64::from(record.header_sectors);
            for &(first, count) in &record.extents {
                if since.get(&(first / size)).is_some_and(|&since| since <= record.sequence) {
                    self.copies.push_back((from, first, count as u32));
                }
                from += count;
            }
        }
        if since.is_empty() { self.ready() } else { self.copy_next() }
    }

    // ---- data

    fn copy_next(&mut self) -> Effect {
        match self.copies.front() {
            Some(&(from, _, count)) => self.ask(Stage::Read, Opcode::Read, from, count, Vec::new()),
            None => self.ask(Stage::Flush, Opcode::Flush, 0, 0, Vec::new()),
        }
    }

    fn copy_read(&mut self, data: Vec<u8>) -> Effect {
        let (_, to, count) = self.copies.pop_front().expect("it was read");
        self.replayed += u64::from(count);
        self.stage = Stage::Write;
        Effect::Send(Command::new(0, Opcode::Write, Lba(to), count, data))
    }

    /// Writes a record that names nothing.
    fn write_empty(&mut self, ring: &mut Ring, then_head: bool) -> Effect {
        let bytes = self.sizes.sector_bytes as usize;
        let header = record::header_sectors(0, bytes);
        let region = ring.region();
        let units = header.div_ceil(region.unit_sectors);
        // The whole ring except the newest record is free for the next one.
        let unit = ring.place_empty(units);
        let record = ring.take(unit, units, header, Vec::new(), Vec::new());
        let sectors = units * region.unit_sectors;
        let mut data = vec![0; sectors as usize * bytes];
        record.seal(ring.id(), &mut data);
        ring.appended(&record, None);
        self.ask(Stage::Empty { then_head }, Opcode::Write, region.sector(unit), sectors, data)
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
