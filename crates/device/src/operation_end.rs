//! The end of a flash operation, whoever asked for it: the media say how it went, it is counted, and its place is given back.

use crate::device::Device;
use pellucid_flash::{BlockId, Cause, Ppa, StageTimes};
use pellucid_media::{Health, Outcome};

impl Device {
    /// The array has erased a block; whether well.
    pub(crate) fn end_erase(&mut self, block: BlockId, cause: Cause) -> bool {
        let was_good = self.media.health(block) == Health::Good;
        let ok = self.media.erase_end(block) == Outcome::Ok;
        self.counters.media_operations += 1;
        self.counters.erases[cause as usize] += u64::from(ok);
        self.counters.erase_failures += u64::from(!ok);
        match ok {
            true => self.tap_erase(block),
            false if was_good => self.tap_bad(block),
            false => {}
        }
        ok
    }

    /// As [`Device::end_erase`], of a block of a namespace without a page map.
    pub(crate) fn end_direct_erase(&mut self, block: BlockId, cause: Cause) -> bool {
        let ok = self.end_erase(block, cause);
        self.placement.beside.erases += u64::from(ok);
        ok
    }

    /// A block is not to be used any more. What it holds stays readable.
    pub(crate) fn retire_block(&mut self, block: BlockId) {
        if self.media.health(block) == Health::Good {
            self.tap_bad(block);
        }
        self.media.retire(block);
    }

    /// The array has programmed a stripe that is full of data of one cause, for a namespace without a page map; whether well.
    pub(crate) fn end_full_stripe(&mut self, first: Ppa, cause: Cause) -> bool {
        let ok = self.media.program_end(first) == Outcome::Ok;
        let sectors = self.layout.units_per_stripe * self.layout.sectors_per_unit;
        self.counters.media_operations += 1;
        self.counters.programs[cause as usize] += 1;
        self.counters.programmed_sectors[cause as usize] += u64::from(sectors);
        self.placement.beside.programmed_sectors += u64::from(sectors);
        self.counters.program_failures += u64::from(!ok);
        ok
    }

    /// Its die is free and its number may be used again. Gives where its time went.
    #[inline]
    pub(crate) fn let_go(&mut self, op: u32) -> StageTimes {
        self.scheduler.release(self.now, op, &mut self.events);
        self.tap_operation(op);
        let stages = self.scheduler.ops[op].stages;
        self.scheduler.ops.release(op);
        stages
    }
}
