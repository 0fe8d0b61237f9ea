//! Ring of a journal: positions and numbers of records, and the space for the next one.
//!
//! Invariants: records that the newest durable one needs are not overwritten; space for a record without sectors is always left.

use super::Region;
use super::record::Record;

/// Space of a journal.
#[derive(Clone, Debug)]
pub(in super::super) struct Ring {
    region: Region,
    id: u64,
    /// Number of the newest durable record.
    newest: u64,
    /// Number of the next record.
    sequence: u64,
    /// Unit at which the next record may begin.
    next: u32,
    /// Unit of the oldest record that the newest durable one needs, itself included.
    tail: u32,
}

impl Ring {
    pub fn new(id: u64, region: Region) -> Ring {
        Ring { region, id, newest: 0, sequence: 1, next: 0, tail: 0 }
    }

    pub fn region(&self) -> Region {
        self.region
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Returns the number of the next record.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    // ---- start

    /// Takes over the id that was found on the device.
    pub fn set_id(&mut self, id: u64) {
        self.id = id;
    }

    /// Begins as after a record that names nothing.
    pub fn begin_blank(&mut self) {
        (self.newest, self.sequence, self.next) = (1, 2, 1 % self.region.units);
    }

    /// Begins a new journal.
    pub fn begin_new(&mut self) {
        (self.sequence, self.next) = (1, 0);
    }

    /// Begins after the newest record that was found. Returns the units of which one may hold a torn record after it.
    pub fn begin_after(&mut self, newest: &Record) -> (u32, Option<u32>) {
        assert_eq!(self.newest, 0, "a journal begins once");
        (self.newest, self.sequence) = (newest.sequence, newest.sequence + 1);
        self.next = (newest.unit + newest.units) % self.region.units;
        self.tail = newest.unit;
        // A record that did not fit before the end of the ring began at the ring's first unit.
        let wraps = self.next + self.region.largest > self.region.units;
        (self.next, wraps.then_some(0))
    }

    /// Returns the unit of a record of `units` units that names nothing, while no record but the newest is needed.
    pub fn place_empty(&self, units: u32) -> u32 {
        if self.next + units > self.region.units { 0 } else { self.next }
    }

    // ---- space

    /// Returns the units between the tail and the next record. A newest record always exists, so a distance
    /// of zero means the whole ring.
    fn used(&self) -> u32 {
        match (self.next + self.region.units - self.tail) % self.region.units {
            0 => self.region.units,
            used => used,
        }
    }

    /// Returns the unit where a record of `units` units would begin; `None` if there is no space for it.
    pub fn place(&self, units: u32) -> Option<u32> {
        let wraps = self.next + units > self.region.units;
        let skipped = if wraps { self.region.units - self.next } else { 0 };
        let fits = self.used() + skipped + units <= self.region.units;
        fits.then_some(if wraps { 0 } else { self.next })
    }

    /// Reports whether a record with sectors might take the space reserved for a record without.
    pub fn is_short(&self) -> bool {
        self.used() + 2 * (self.region.largest + self.region.reserve) > self.region.units
    }

    /// Reports whether a record at this unit is in the oldest part of a ring of which more than half is in use; then its
    /// clusters leave the buffer.
    pub fn presses(&self, unit: u32) -> bool {
        let units = self.region.units;
        self.used() > units / 2 && (self.next + units - unit) % units > units / 4
    }

    // ---- records

    /// Makes a record beginning at `unit`, and takes its number and space.
    pub fn take(
        &mut self,
        unit: u32,
        units: u32,
        header_sectors: u32,
        named: Vec<(u64, u64)>,
        extents: Vec<(u64, u64)>,
    ) -> Record {
        assert!(unit + units <= self.region.units, "a record goes over the end of the ring");
        let record = Record {
            sequence: self.sequence,
            before: self.newest,
            unit,
            units,
            header_sectors,
            named,
            extents,
        };
        self.sequence += 1;
        self.next = (unit + units) % self.region.units;
        record
    }

    /// Notes that a record is durable, and the unit of the oldest other record that it needs.
    pub fn appended(&mut self, record: &Record, oldest: Option<u32>) {
        assert!(
            self.newest < record.sequence && record.sequence < self.sequence,
            "records are numbered in order"
        );
        self.newest = record.sequence;
        self.tail = oldest.unwrap_or(record.unit);
    }

    /// Goes on after a record at `unit` that failed: the next one goes after the suspect place, if there is space.
    pub fn skip(&mut self, unit: u32) {
        if self.place(self.region.reserve).is_none() {
            self.next = unit;
        }
    }

    /// Checks the invariants with the needed records, each by its unit; panics if one is broken.
    pub fn check(&self, needed: impl Iterator<Item = u32>) {
        assert!(
            self.newest < self.sequence && self.next < self.region.units && self.used() <= self.region.units
        );
        for unit in needed {
            let from_tail = (unit + self.region.units - self.tail) % self.region.units;
            assert!(from_tail < self.used(), "the record at unit {unit} is not kept");
        }
    }
}
