//! Flushes: the data and records they make durable, and the order of their steps.
//!
//! ```text
//!  flush ─► flush of the flash and of the backing store ─► block backend: records, by force ─► answered
//! ```
//! One commit runs at a time; flushes that arrive meanwhile share the next. Records of blocks that became
//! clean have their own commit, which needs no flush before it.
//!
//! Records are written sector by sector, with one write of a sector at a time; later changes go into the next
//! write.

use super::head::encode_records;
use super::{Backend, CacheManager, Flushes, Kind, Part, Purpose, RecordWrites, Side};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Lba, Opcode, Status};
use std::ops::Range;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Flush,
    Records,
}

#[derive(Clone, Debug)]
pub(super) struct Commit {
    phase: Phase,
    /// Operations that wait for the next commit.
    waiting: Vec<u32>,
    ops: Vec<u32>,
    left: u32,
    failed: Option<Status>,
    /// True for the flash, and for the backing store, if it was written since its last flush began.
    changed: [bool; 2],
    /// Slots to record as dirty after the flush.
    slots: Vec<u32>,
    /// Records of clean blocks need writing.
    wanted: bool,
    /// The next commit flushes both drives, for a stop.
    everything: bool,
}

impl Default for Commit {
    fn default() -> Commit {
        Commit {
            phase: Phase::Idle,
            waiting: Vec::new(),
            ops: Vec::new(),
            left: 0,
            failed: None,
            // Writes of an earlier life may not be on the media.
            changed: [true; 2],
            slots: Vec::new(),
            wanted: false,
            everything: false,
        }
    }
}

impl Commit {
    pub fn wait(&mut self, op: u32) {
        self.waiting.push(op);
    }

    #[inline]
    pub fn flash_changed(&mut self) {
        self.changed[0] = true;
    }

    #[inline]
    pub fn backing_changed(&mut self) {
        self.changed[1] = true;
    }

    pub fn want_records(&mut self) {
        self.wanted = true;
    }

    /// Makes the next commit flush both drives, for a stop.
    pub fn flush_all(&mut self) {
        (self.everything, self.changed, self.failed) = (true, [true; 2], None);
    }

    /// Reports whether the last commit failed.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Reports whether no commit runs or waits.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && self.waiting.is_empty() && !self.wanted && !self.everything
    }
}

/// Record sectors to write, each for an operation or for the commit.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    queued: Vec<(u32, u32)>,
    writing: Vec<(u32, u32)>,
    /// Sectors with a write under way.
    under_way: Vec<u32>,
    /// Sectors whose last write failed.
    failed: Vec<u32>,
}

/// Marker in place of an operation: the commit itself waits for the sector.
const COMMIT: u32 = NIL;

impl CacheManager {
    #[inline]
    pub(super) fn pump_commit(&mut self) {
        while self.commit.phase == Phase::Idle && !self.commit.is_idle() {
            self.begin_commit();
        }
    }

    fn begin_commit(&mut self) {
        let commit = &mut self.commit;
        commit.wanted = false;
        commit.failed = None;
        std::mem::swap(&mut commit.waiting, &mut commit.ops);
        commit.phase = Phase::Flush;
        let everything = std::mem::take(&mut commit.everything);
        if commit.ops.is_empty() && !everything {
            return self.commit_records();
        }
        if let Backend::Block(slots) = &mut self.backend {
            slots.begin_flush(&mut self.commit.slots);
        }
        let changed = std::mem::take(&mut self.commit.changed);
        for (side, purpose) in [(Side::Flash, Purpose::FlushFlash), (Side::Backing, Purpose::FlushBacking)] {
            let is_frozen = self.read_only && side == Side::Flash;
            if !changed[usize::from(side == Side::Backing)] || is_frozen {
                continue;
            }
            let reached = match self.config.flushes {
                Flushes::Both => true,
                Flushes::Flash => side == Side::Flash,
                Flushes::None => false,
            };
            if !reached && !everything {
                self.commit.changed[usize::from(side == Side::Backing)] = true;
                continue;
            }
            if side == Side::Backing {
                let [since, before] = &mut self.unflushed;
                before.add_all(self.now, since);
                since.clear();
            }
            self.commit.left += 1;
            let part = Part { op: NIL, purpose, ..Part::default() };
            self.send(side, part, Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
        }
        if self.commit.left == 0 {
            self.commit_records();
        }
    }

    pub(super) fn flushed(&mut self, purpose: Purpose, status: Status) {
        let is_backing = purpose == Purpose::FlushBacking;
        if status != Status::Success {
            self.commit.failed.get_or_insert(status);
            self.commit.changed[usize::from(is_backing)] = true;
        }
        match (is_backing, status) {
            (true, Status::Success) => self.unflushed[1].clear(),
            (true, _) => self.counters.backing_write_errors += 1,
            (false, Status::Success) => {}
            (false, _) => self.counters.flash_write_errors += 1,
        }
        self.commit.left -= 1;
        if self.commit.left == 0 {
            self.commit_records();
        }
    }

    /// Writes the records of data that both drives have flushed.
    fn commit_records(&mut self) {
        self.commit.phase = Phase::Records;
        if let Backend::Block(slots) = &mut self.backend
            && !self.read_only
        {
            slots.end_flush(&mut self.commit.slots, self.commit.failed.is_none());
            let stale = slots.stale.drain(..);
            let sectors =
                self.commit.slots.drain(..).chain(stale).map(|slot| slots.layout.record_sector_of(slot));
            let first = self.records.queued.len();
            self.records
                .queued
                .extend(sectors.chain(self.records.failed.drain(..)).map(|sector| (sector, COMMIT)));
            self.records.queued[first..].sort_unstable();
            let mut last = None;
            let mut at = 0;
            self.records.queued.retain(|&queued| {
                at += 1;
                at <= first || last.replace(queued) != Some(queued)
            });
            self.commit.left = (self.records.queued.len() - first) as u32;
        }
        if self.commit.left == 0 {
            self.end_commit();
        }
    }

    fn end_commit(&mut self) {
        self.commit.phase = Phase::Idle;
        let failed = self.commit.failed;
        let mut ops = std::mem::take(&mut self.commit.ops);
        for op in ops.drain(..) {
            if let Some(status) = failed {
                self.fail(op, status);
            }
            if self.ops[op].kind == Kind::Flush {
                self.answer(op);
                self.ops.release(op);
            } else {
                self.went_on(op);
            }
        }
        self.commit.ops = ops;
    }

    // ---- records

    pub(super) fn records_each_write(&self) -> bool {
        let each = matches!(self.config.records, RecordWrites::EachWrite { .. });
        each && matches!(self.backend, Backend::Block(_))
    }

    /// Queues writes of the records of blocks that `op` made dirty.
    pub(super) fn record_blocks_of(&mut self, op: u32) {
        let (first, end) = (self.ops[op].first, self.ops[op].end);
        let Backend::Block(slots) = &self.backend else { return };
        let mut last = [None; 2];
        for block in first..end {
            let Some(slot) = slots.find(block) else { continue };
            let sector = slots.layout.record_sector_of(slot);
            let records = &mut self.records;
            let is_new = slots.is_unrecorded(slot);
            let list = match is_new {
                true => &mut records.queued,
                // Another operation is already writing the record.
                false if records.under_way.contains(&sector) => &mut records.writing,
                false => continue,
            };
            if last[usize::from(is_new)].replace(sector) != Some(sector) {
                list.push((sector, op));
                self.ops[op].left += 1;
            }
        }
    }

    #[inline]
    pub(super) fn pump_records(&mut self) {
        let mut at = 0;
        while at < self.records.queued.len() {
            let (sector, who) = self.records.queued[at];
            if self.records.under_way.contains(&sector) {
                at += 1;
                continue;
            }
            self.records.queued.swap_remove(at);
            self.records.writing.push((sector, who));
            // Operations that wait for the same sector share its write.
            let mut other = at;
            while other < self.records.queued.len() {
                if self.records.queued[other].0 == sector {
                    let shared = self.records.queued.swap_remove(other);
                    self.records.writing.push(shared);
                } else {
                    other += 1;
                }
            }
            self.write_records(sector..sector + 1);
        }
    }

    pub(super) fn write_records(&mut self, of: Range<u32>) {
        let sectors = of.len() as u32;
        let mut data = self.buffer(sectors.into());
        let (keeps, epoch) = (self.keeps_content(), self.start.epoch());
        let Backend::Block(slots) = &mut self.backend else { unreachable!("a block drive has records") };
        let lba = slots.layout.record_lba(of.start);
        for (sector, image) in of.clone().zip(data.chunks_exact_mut(self.image_bytes)) {
            slots.is_written(sector);
            let records = slots.layout.slots_of(sector).map(|slot| slots.record(slot));
            match keeps {
                true => encode_records(image, epoch, sector, records),
                false => records.for_each(drop),
            }
        }
        self.records.under_way.extend(of.clone());
        self.counters.record_sectors += u64::from(sectors);
        let fua = self.config.records != RecordWrites::EachWrite { force: false };
        let part = Part { op: NIL, purpose: Purpose::Record, slot: of.start, sectors, ..Part::default() };
        let command = Command::new(0, Opcode::Write, Lba(lba), sectors, data);
        self.send(Side::Flash, part, Command { fua, ..command });
    }

    pub(super) fn record_written(&mut self, part: Part, status: Status, data: Vec<u8>) {
        self.give_back(data);
        let of = part.slot..part.slot + part.sectors;
        let written = status == Status::Success;
        if let Backend::Block(slots) = &mut self.backend {
            for sector in of.clone() {
                slots.layout.slots_of(sector).for_each(|slot| slots.recorded(slot, written));
            }
        }
        self.records.under_way.retain(|other| !of.contains(other));
        if !written {
            self.counters.flash_write_errors += 1;
            self.records.failed.extend(of.clone());
        }
        self.records_of_stop(written);
        let mut at = 0;
        while at < self.records.writing.len() {
            let (other, who) = self.records.writing[at];
            if !of.contains(&other) {
                at += 1;
                continue;
            }
            self.records.writing.swap_remove(at);
            self.record_done(who, status);
        }
    }

    fn record_done(&mut self, who: u32, status: Status) {
        let written = status == Status::Success;
        if who != COMMIT {
            self.ops[who].left -= 1;
            if !written {
                self.fail(who, status);
            }
            return self.went_on(who);
        }
        if !written {
            self.commit.failed.get_or_insert(status);
        }
        if self.commit.phase == Phase::Records {
            self.commit.left -= 1;
            if self.commit.left == 0 {
                self.end_commit();
            }
        }
    }
}
