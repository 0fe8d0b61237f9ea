//! Format of a new cache on a block drive: all record sectors are written before the head declares the cache.
//!
//! ```text
//!  blank head and copy ─► records are read ─┬─ blank ─┐
//!                                           └─ not ─► refused
//!  detached, or format ───────────────────────────────┴─► head: detached ─► empty records ─► flush ─► head: open
//! ```
//! An empty record sector has its checksum, so a start can tell it from a sector of zeros, which is damaged:
//! a discard, a hole and a lost write leave zeros. The detached head says that a crash meanwhile leaves no
//! cache.

use super::head::{Life, encode_records, is_records};
use super::start::{DEPTH, Phase, RUN_SECTORS};
use super::{Backend, CacheManager, Part, Purpose, Side};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Lba, Opcode, Status};

const HEADLESS: &str = "the cache drive holds a cache whose head is damaged, and the copy of the head as well; flushed data may be in it alone; \
                        allowed: another cache drive, or --format, which loses what is not written back";
pub(super) const FOREIGN: &str = "the cache drive holds something else than a cache; allowed: a blank one, or --format, which loses what it holds";

impl CacheManager {
    /// Searches the place of the records for content, if neither the head nor its copy is one. `blank`: both
    /// are blank.
    pub(super) fn look_at_records(&mut self, blank: bool) {
        (self.start.phase, self.start.next, self.start.blank) = (Phase::Looking, 0, blank);
        self.look_on();
    }

    fn look_on(&mut self) {
        while let Some((lba, sectors)) = self.next_run() {
            let data = self.buffer(sectors.into());
            self.send_start(Opcode::Read, lba, sectors, data);
        }
        match self.start.blank {
            _ if self.start.under_way > 0 => {}
            true => self.begin_new(None),
            false => self.refuse_start(FOREIGN),
        }
    }

    pub(super) fn records_looked_at(&mut self, status: Status, data: &[u8]) {
        if status != Status::Success {
            return self.fail_start("the cache drive cannot be read where a cache has its records");
        }
        if data.chunks_exact(self.image_bytes).any(is_records) {
            return self.refuse_start(HEADLESS);
        }
        self.start.blank &= data.iter().all(|&byte| byte == 0);
        self.look_on();
    }

    /// Writes all record sectors, with nothing recorded.
    pub(super) fn write_empty_records(&mut self) {
        (self.start.phase, self.start.next) = (Phase::Clearing, 0);
        self.clear_on();
    }

    fn clear_on(&mut self) {
        let Backend::Block(slots) = &self.backend else { return };
        let (first, all) = (slots.layout.record_lba(0), u64::from(slots.layout.record_sectors));
        while let Some((lba, sectors)) = self.next_run() {
            let mut data = self.buffer(sectors.into());
            for (number, image) in (lba - first..).zip(data.chunks_exact_mut(self.image_bytes)) {
                encode_records(image, self.start.epoch(), number as u32, std::iter::empty());
            }
            self.start.under_way += 1;
            let part = Part { op: NIL, purpose: Purpose::Start, lba, sectors, ..Part::default() };
            self.send(Side::Flash, part, Command::new(0, Opcode::Write, Lba(lba), sectors, data));
        }
        if self.start.under_way > 0 {
            return;
        }
        if self.start.next == all {
            self.start.next += 1;
            return self.send_start(Opcode::Flush, 0, 0, Vec::new());
        }
        self.write_head(Life::Open);
    }

    pub(super) fn records_cleared(&mut self, status: Status) {
        match status {
            Status::Success => self.clear_on(),
            _ => self.fail_start("the records of a new cache cannot be written to the cache drive"),
        }
    }

    /// Returns the next run of record sectors, as drive sector and count; `None` if none is left, or enough
    /// are under way.
    fn next_run(&mut self) -> Option<(u64, u32)> {
        let Backend::Block(slots) = &self.backend else { return None };
        let all = u64::from(slots.layout.record_sectors);
        if self.start.under_way >= DEPTH || self.start.next >= all {
            return None;
        }
        let sectors = u64::from(RUN_SECTORS).min(all - self.start.next);
        let lba = slots.layout.record_lba(0) + self.start.next;
        self.start.next += sectors;
        Some((lba, sectors as u32))
    }
}
