//! Records of dirty blocks on a block drive: the sectors to write, and who waits for them.
//!
//! Records are written sector by sector, with one write of a sector at a time; later changes go into the next
//! write.

use super::RecordWrites;
use super::core::Core;
use super::head::encode_records;
use super::op::{Part, Purpose, Side};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Lba, Opcode, Status};
use std::ops::Range;

/// Marker in place of an operation: the commit itself waits for the sector.
pub(super) const COMMIT: u32 = NIL;

/// Record sectors to write, each for an operation or for the commit.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    /// Sectors to write, and who waits for them.
    queued: Vec<(u32, u32)>,
    /// Sectors with a write in flight, and the operations waiting for them.
    writing: Vec<(u32, u32)>,
    /// Sectors with a write under way.
    under_way: Vec<u32>,
    /// Sectors whose last write failed; the next commit writes them again.
    failed: Vec<u32>,
    /// Sectors that a commit collects; empty otherwise.
    collected: Vec<u32>,
}

impl Records {
    /// Queues the records that a commit writes; `done`: its flushes succeeded. Returns the number of sectors.
    pub fn queue_commit(&mut self, core: &mut Core, done: bool) -> u32 {
        core.blocks.end_flush(done, &mut self.collected);
        self.collected.append(&mut self.failed);
        self.collected.sort_unstable();
        self.collected.dedup();
        let count = self.collected.len() as u32;
        self.queued.extend(self.collected.drain(..).map(|sector| (sector, COMMIT)));
        count
    }

    /// Queues writes of the records of blocks that `op` made dirty.
    pub fn queue_blocks_of(&mut self, core: &mut Core, op: u32) {
        let layout = core.shape.layout().expect("a block drive has records");
        let mut last = [None; 2];
        for block in core.requests.op(op).blocks() {
            let Some(slot) = core.blocks.find(block) else { continue };
            let sector = layout.record_sector_of(slot);
            let is_new = core.blocks.is_unrecorded(slot);
            let list = match is_new {
                true => &mut self.queued,
                // Another operation is already writing the record.
                false if self.under_way.contains(&sector) => &mut self.writing,
                false => continue,
            };
            if last[usize::from(is_new)].replace(sector) != Some(sector) {
                list.push((sector, op));
                core.requests.op_mut(op).expect_part();
            }
        }
    }

    /// Returns the next queued sector that can be written now. Operations that wait for the same sector share its write.
    #[inline]
    pub fn next(&mut self) -> Option<u32> {
        let is_free = |&(sector, _): &(u32, u32)| !self.under_way.contains(&sector);
        let at = self.queued.iter().position(is_free)?;
        let (sector, who) = self.queued.swap_remove(at);
        self.writing.push((sector, who));
        let mut other = at;
        while other < self.queued.len() {
            if self.queued[other].0 == sector {
                let shared = self.queued.swap_remove(other);
                self.writing.push(shared);
            } else {
                other += 1;
            }
        }
        Some(sector)
    }

    /// Writes record sectors of the cache with this epoch.
    pub fn write(&mut self, core: &mut Core, epoch: u64, of: Range<u32>) {
        let layout = core.shape.layout().expect("a block drive has records");
        let sectors = of.len() as u32;
        let mut data = core.requests.buffer(sectors.into());
        let (keeps, lba) = (core.shape.keeps_content(), layout.record_lba(of.start));
        for (sector, image) in of.clone().zip(data.chunks_exact_mut(core.shape.image_bytes)) {
            assert!(!self.under_way.contains(&sector), "record sector {sector} is written once at a time");
            let records = core.blocks.record(sector);
            match keeps {
                true => encode_records(image, epoch, sector, records),
                false => records.for_each(drop),
            }
        }
        self.under_way.extend(of.clone());
        core.requests.count().recorded(sectors);
        let fua = core.shape.config.records != RecordWrites::EachWrite { force: false };
        let part = Part { op: NIL, purpose: Purpose::Record, slot: of.start, sectors, ..Part::default() };
        let command = Command::new(0, Opcode::Write, Lba(lba), sectors, data);
        core.requests.send(Side::Flash, part, Command { fua, ..command });
    }

    /// Notes the result of a write of record sectors; [`Records::next_done`] returns those that waited for it.
    pub fn written(&mut self, core: &mut Core, of: Range<u32>, status: Status) {
        let written = status == Status::Success;
        of.clone().for_each(|sector| core.blocks.recorded(sector, written));
        self.under_way.retain(|other| !of.contains(other));
        if !written {
            core.requests.count().flash_write_failed();
            self.failed.extend(of);
        }
    }

    /// Returns the next that waited for one of these sectors: an operation, or [`COMMIT`].
    pub fn next_done(&mut self, of: &Range<u32>) -> Option<u32> {
        let at = self.writing.iter().position(|(sector, _)| of.contains(sector))?;
        Some(self.writing.swap_remove(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_is_written_once_at_a_time_for_all_that_wait_for_it() {
        let mut records = Records { queued: vec![(3, 1), (5, 2), (3, COMMIT)], ..Records::default() };
        assert_eq!(records.next(), Some(3));
        records.under_way.push(3);
        records.queued.push((3, 4));
        assert_eq!((records.next(), records.next()), (Some(5), None), "sector 3 is under way");
        let done = |records: &mut Records, of: Range<u32>| {
            std::iter::from_fn(|| records.next_done(&of)).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(done(&mut records, 3..4), [1, COMMIT].into());
        records.under_way.clear();
        assert_eq!(records.next(), Some(3));
        assert_eq!(done(&mut records, 3..6), [2, 4].into());
    }
}
