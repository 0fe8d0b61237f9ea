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

use super::{CacheStart, DEPTH, Phase, RUN_SECTORS};
use crate::cache::core::Core;
use crate::cache::head::{Life, encode_records, is_records};
use pellucid_flash::{Opcode, Status};

const HEADLESS: &str = "the cache drive holds a cache whose head is damaged, and the copy of the head as well; flushed data may be in it alone; \
                        allowed: another cache drive, or --format, which loses what is not written back";
pub(super) const FOREIGN: &str = "the cache drive holds something else than a cache; allowed: a blank one, or --format, which loses what it holds";

impl CacheStart {
    /// Searches the place of the records for content, if neither the head nor its copy is one. `blank`: both
    /// are blank.
    pub(super) fn look_at_records(&mut self, core: &mut Core, blank: bool) {
        (self.phase, self.next, self.blank) = (Phase::Looking, 0, blank);
        self.look_on(core);
    }

    fn look_on(&mut self, core: &mut Core) {
        while let Some((lba, sectors)) = self.next_run(core) {
            let data = core.requests.buffer(sectors.into());
            self.send(core, Opcode::Read, lba, sectors, data);
        }
        match self.blank {
            _ if self.under_way > 0 => {}
            true => self.begin_new(core, None),
            false => self.refuse(core, FOREIGN),
        }
    }

    pub(super) fn records_looked_at(&mut self, core: &mut Core, status: Status, data: &[u8]) {
        if status != Status::Success {
            return self.fail(core, "the cache drive cannot be read where a cache has its records");
        }
        if data.chunks_exact(core.shape.image_bytes).any(is_records) {
            return self.refuse(core, HEADLESS);
        }
        self.blank &= data.iter().all(|&byte| byte == 0);
        self.look_on(core);
    }

    /// Writes all record sectors, with nothing recorded.
    pub(super) fn write_empty_records(&mut self, core: &mut Core) {
        (self.phase, self.next) = (Phase::Clearing, 0);
        self.clear_on(core, Status::Success);
    }

    /// Continues after a write of empty records with this status.
    pub(super) fn clear_on(&mut self, core: &mut Core, status: Status) {
        if status != Status::Success {
            return self.fail(core, "the records of a new cache cannot be written to the cache drive");
        }
        let Some(layout) = core.shape.layout() else { return };
        let (first, all) = (layout.record_lba(0), u64::from(layout.record_sectors));
        while let Some((lba, sectors)) = self.next_run(core) {
            let mut data = core.requests.buffer(sectors.into());
            for (number, image) in (lba - first..).zip(data.chunks_exact_mut(core.shape.image_bytes)) {
                encode_records(image, self.epoch(), number as u32, std::iter::empty());
            }
            self.send(core, Opcode::Write, lba, sectors, data);
        }
        if self.under_way > 0 {
            return;
        }
        if self.next == all {
            self.next += 1;
            return self.send(core, Opcode::Flush, 0, 0, Vec::new());
        }
        self.write_head(core, Life::Open);
    }

    /// Returns the next run of record sectors, as drive sector and count; `None` if none is left, or enough
    /// are under way.
    pub(super) fn next_run(&mut self, core: &Core) -> Option<(u64, u32)> {
        let layout = core.shape.layout()?;
        let all = u64::from(layout.record_sectors);
        if self.under_way >= DEPTH || self.next >= all {
            return None;
        }
        let sectors = u64::from(RUN_SECTORS).min(all - self.next);
        let lba = layout.record_lba(0) + self.next;
        self.next += sectors;
        Some((lba, sectors as u32))
    }
}
