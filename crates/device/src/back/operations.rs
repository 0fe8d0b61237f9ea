//! Flash operations of every origin: their path into the queue of their die, and what the media say of their beginning and end.

use crate::back::scheduler::OpKind;
use crate::config::DieOrder;
use crate::shared::Shared;
use pellucid_flash::{BlockId, Cause, Nanos, Ppa, Stage};
use pellucid_media::{Health, Outcome};

impl Shared {
    /// Adds an operation to the queue of its die.
    #[inline]
    pub(crate) fn issue(&mut self, op: u32) {
        self.scheduler.ops[op].book(Stage::Firmware, self.now);
        let ahead = self.may_go_ahead(op);
        self.scheduler.enqueue(self.now, op, ahead, &mut self.events);
    }

    /// Returns whether a read may overtake other operations of its die: only host reads and their mapping reads may, and only if the data
    /// are already programmed.
    #[inline]
    fn may_go_ahead(&self, op: u32) -> bool {
        let op = &self.scheduler.ops[op];
        self.config.scheduler.order == DieOrder::ReadFirst
            && op.kind == OpKind::Read
            && matches!(op.cause, Cause::Host | Cause::Map)
            && self.media.is_programmed(op.ppa)
    }

    /// Reads again, where the page lies now.
    pub(crate) fn retry(&mut self, op: u32, ppa: Ppa) {
        let record = &mut self.scheduler.ops[op];
        let namespace = record.owner.namespace;
        record.book(Stage::Media, self.now);
        record.attempts += 1;
        let moved = record.ppa != ppa;
        if moved {
            record.ppa = ppa;
            record.die = self.layout.die_of(ppa).0;
        }
        self.counts(namespace).read_retries += 1;
        if !moved {
            return self.scheduler.enqueue_again(self.now, op, &mut self.events);
        }
        // It moved: in line behind the program that takes it there.
        self.ask_issue(op);
    }

    /// The data of a read are in the controller, and the firmware knows.
    #[inline]
    pub(crate) fn data_arrives(&mut self, op: u32) {
        self.media.set_now(self.now);
        let record = &mut self.scheduler.ops[op];
        record.book(Stage::Firmware, self.now);
        let (cause, first, namespace) = (record.cause, record.attempts == 0, record.owner.namespace);
        let counters = self.counts(namespace);
        counters.reads[cause as usize] += u64::from(first);
        counters.media_operations += 1;
    }

    /// The array starts on a read. For how long.
    #[inline]
    pub(crate) fn begin_read(&mut self, op: u32) -> Nanos {
        let record = &self.scheduler.ops[op];
        let extra = if record.attempts > 0 { self.config.scheduler.retry_ns } else { Nanos::ZERO };
        self.media.read_ns(record.ppa) + extra
    }

    /// The array starts on the erase of the block that begins at `first`. For how long.
    pub(crate) fn begin_erase(&mut self, first: Ppa) -> Nanos {
        let block = self.layout.block_of(first);
        self.media.erase_begin(block).unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
        self.media.erase_ns(block)
    }

    /// The array has erased a block of a namespace; whether well.
    pub(crate) fn end_erase(&mut self, namespace: u16, block: BlockId, cause: Cause) -> bool {
        let was_good = self.media.health(block) == Health::Good;
        let ok = self.media.erase_end(block) == Outcome::Ok;
        self.counts(namespace).media_operations += 1;
        self.counts(namespace).erases[cause as usize] += u64::from(ok);
        self.counts(namespace).erase_failures += u64::from(!ok);
        match ok {
            true => self.tap_erase(block),
            false if was_good => self.tap_bad(block),
            false => {}
        }
        ok
    }

    /// A block is not to be used any more. What it holds stays readable.
    pub(crate) fn retire_block(&mut self, block: BlockId) {
        if self.media.health(block) == Health::Good {
            self.tap_bad(block);
        }
        self.media.retire(block);
    }

    /// The array has programmed a superpage that is full of data of one cause, for a namespace without a page map; whether well.
    pub(crate) fn end_full_superpage(&mut self, namespace: u16, first: Ppa, cause: Cause) -> bool {
        let ok = self.media.program_end(first) == Outcome::Ok;
        let sectors = self.layout.units_per_superpage * self.layout.sectors_per_unit;
        self.counts(namespace).media_operations += 1;
        self.counts(namespace).programs[cause as usize] += 1;
        self.counts(namespace).programmed_sectors[cause as usize] += u64::from(sectors);
        self.counts(namespace).program_failures += u64::from(!ok);
        ok
    }

    /// Its die is free and its number may be used again; until then the record can be read.
    #[inline]
    pub(crate) fn let_go(&mut self, op: u32) {
        self.scheduler.release(self.now, op, &mut self.events);
        self.tap_operation(op);
        self.scheduler.ops.release(op);
    }
}
