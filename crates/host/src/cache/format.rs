//! Format of a new cache on a block drive: record sectors are zeroed before the head declares the cache.
//!
//! ```text
//!  (head of another cache: detached) ─► records are read ─► what is not zero becomes zero ─► flush ─► head: open
//! ```
//! A start can therefore tell a sector that was never written from a damaged one, whatever the drive held
//! before. A blank drive stays blank.

use super::head::Life;
use super::start::{DEPTH, Phase, RUN_SECTORS};
use super::{Backend, CacheManager, Part, Purpose, Side};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Lba, Opcode, Status};

/// Marker in place of a slot: the part writes zeros.
const ZEROS: u32 = 1;

impl CacheManager {
    pub(super) fn clear_records(&mut self) {
        (self.start.phase, self.start.next) = (Phase::Clearing, 0);
        self.clear_on();
    }

    fn clear_on(&mut self) {
        let Backend::Block(slots) = &self.backend else { return };
        let (first, all) = (slots.layout.record_lba(0), u64::from(slots.layout.record_sectors));
        while self.start.under_way < DEPTH && self.start.next < all {
            let from = self.start.next;
            let sectors = u64::from(RUN_SECTORS).min(all - from);
            self.start.next += sectors;
            let data = self.buffer(sectors);
            self.send_start(Opcode::Read, first + from, sectors as u32, data);
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

    pub(super) fn records_cleared(&mut self, part: Part, status: Status, data: &[u8]) {
        let good = status == Status::Success;
        let was_read = part.sectors > 0 && part.slot != ZEROS;
        if was_read && !(good && data.iter().all(|&byte| byte == 0)) {
            return self.write_zeros(part);
        }
        match good {
            true => self.clear_on(),
            false => self.fail_start("the records of a new cache cannot be written to the cache drive"),
        }
    }

    fn write_zeros(&mut self, of: Part) {
        let mut data = self.buffer(of.sectors.into());
        data.fill(0);
        self.start.under_way += 1;
        let part = Part { op: NIL, purpose: Purpose::Start, slot: ZEROS, ..of };
        self.send(Side::Flash, part, Command::new(0, Opcode::Write, Lba(of.lba), of.sectors, data));
    }
}
