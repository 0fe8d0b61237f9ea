//! Reads: cached blocks come from the flash, the others from the backing store; those are filled into the
//! cache after the answer.
//!
//! The block backend knows its cached blocks. A solid-state cache is asked: a read that finds no block ends
//! with `Absent`; if some blocks may be cached, their states are asked for. A sequential stream reads only
//! dirty blocks from a solid-state cache. A fill needs exclusive use of the read's blocks, so no write comes
//! between the read of the backing store and the fill.

use super::{Backend, CacheManager, Op, Part, Purpose, Side, Step};
use pellucid_flash::slab::NIL;
use pellucid_flash::{CacheState, Command, Lba, Opcode, Status, copy_images};

impl CacheManager {
    pub(super) fn begin_read(&mut self, op: u32) {
        let (lba, sectors) = (self.command(op).lba.0, u64::from(self.command(op).sectors));
        if self.ops[op].bypass {
            self.counters.bypassed += self.ops[op].end - self.ops[op].first;
        }
        let end = lba + sectors;
        if self.is_detached() {
            return self.read_backing(op, lba, end);
        }
        match &self.backend {
            Backend::Block(_) => self.read_slots(op, lba, end),
            Backend::Ssc(_) if self.ops[op].bypass || self.read_only => self.read_known(op, lba, end),
            Backend::Ssc(_) => {
                // Sectors after the last block are never cached.
                let cached = end.min(self.blocks * self.block_sectors);
                if lba < cached {
                    self.read_flash(op, lba, cached, NIL);
                }
                if cached.max(lba) < end {
                    self.read_backing(op, cached.max(lba), end);
                }
            }
        }
    }

    /// Reads with the block backend: runs of adjacent slots, and runs of blocks that are not cached.
    fn read_slots(&mut self, op: u32, lba: u64, end: u64) {
        let mut at = lba;
        while at < end {
            let first = self.touch(at / self.block_sectors);
            let (from, mut next) = (at, at);
            loop {
                next = ((next / self.block_sectors + 1) * self.block_sectors).min(end);
                if next == end {
                    break;
                }
                let slot = self.touch(next / self.block_sectors);
                let follows = match (first, slot) {
                    (None, None) => true,
                    (Some(first), Some(slot)) => {
                        u64::from(slot - first.min(slot))
                            == next / self.block_sectors - from / self.block_sectors
                    }
                    _ => false,
                };
                if !follows {
                    break;
                }
            }
            match first {
                Some(slot) => self.read_flash(op, from, next, slot),
                None => self.read_backing(op, from, next),
            }
            at = next;
        }
    }

    #[inline]
    fn touch(&mut self, block: u64) -> Option<u32> {
        match &mut self.backend {
            Backend::Block(slots) => slots.touch(block),
            Backend::Ssc(_) => None,
        }
    }

    /// Reads with a solid-state cache: dirty blocks from the flash, the others from the backing store, which
    /// has them too.
    fn read_known(&mut self, op: u32, lba: u64, end: u64) {
        let mut at = lba;
        while at < end {
            let block = at / self.block_sectors;
            let blocks = (end - 1) / self.block_sectors + 1 - block;
            let (is_dirty, count) = self.dirty.run(block, blocks);
            let next = ((block + count) * self.block_sectors).min(end);
            match is_dirty {
                true => self.read_flash(op, at, next, NIL),
                false => self.read_backing(op, at, next),
            }
            at = next;
        }
    }

    fn read_flash(&mut self, op: u32, lba: u64, end: u64, slot: u32) {
        // A solid-state cache is read in whole blocks.
        let (from, to) = match &self.backend {
            Backend::Block(_) => (lba, end),
            Backend::Ssc(_) => {
                (lba / self.block_sectors * self.block_sectors, end.next_multiple_of(self.block_sectors))
            }
        };
        self.read(op, Side::Flash, from, to, slot);
    }

    fn read_backing(&mut self, op: u32, lba: u64, end: u64) {
        if self.is_doubtful(lba, end) {
            self.counters.flash_read_errors += 1;
            return self.fail(op, Status::UnrecoveredRead);
        }
        // A fill needs whole blocks.
        let (from, to) = match self.may_fill(op) {
            true => {
                let to = end.next_multiple_of(self.block_sectors).min(self.sectors);
                (lba / self.block_sectors * self.block_sectors, to)
            }
            false => (lba, end),
        };
        self.read(op, Side::Backing, from, to, NIL);
    }

    fn may_fill(&self, op: u32) -> bool {
        !self.ops[op].bypass && !self.takes_nothing_new()
    }

    fn read(&mut self, op: u32, side: Side, from: u64, to: u64, slot: u32) {
        let wants = side == Side::Backing && self.may_fill(op);
        let command = self.ops[op].command.as_mut().expect("a command under way");
        let is_all = (from, to) == (command.lba.0, command.lba.0 + u64::from(command.sectors));
        // The cache may need the data even if the caller does not.
        let direct = is_all && !(wants && command.data.is_empty());
        let data = if direct { std::mem::take(&mut command.data) } else { self.buffer(to - from) };
        let (lba, purpose) = match side {
            Side::Flash => (self.flash_lba(slot, from), Purpose::ReadFlash),
            Side::Backing => (Lba(from), Purpose::ReadBacking),
        };
        let sectors = (to - from) as u32;
        let part = Part { op, purpose, lba: from, sectors, slot, direct };
        self.send(side, part, Command::new(0, Opcode::Read, lba, sectors, data));
    }

    /// Copies the data of a part to their destination in the command.
    fn deliver(&mut self, part: Part, data: &[u8]) {
        let image = self.image_bytes;
        let command = self.ops[part.op].command.as_mut().expect("a command under way");
        if command.data.is_empty() {
            return;
        }
        let from = part.lba.max(command.lba.0);
        let to = (part.lba + u64::from(part.sectors)).min(command.lba.0 + u64::from(command.sectors));
        if from < to {
            let bytes = (to - from) as usize * image;
            let (target, source) =
                ((from - command.lba.0) as usize * image, (from - part.lba) as usize * image);
            copy_images(&mut command.data[target..target + bytes], &data[source..source + bytes]);
        }
    }

    fn blocks_of(&self, part: Part) -> u64 {
        let end = part.lba + u64::from(part.sectors);
        end.div_ceil(self.block_sectors) - part.lba / self.block_sectors
    }

    pub(super) fn flash_read(&mut self, part: Part, status: Status, first: u64, data: Vec<u8>) {
        if status == Status::Success {
            self.counters.read_hits += self.blocks_of(part);
            if !part.direct {
                self.deliver(part, &data);
            }
        }
        self.take_back(part, data);
        if status != Status::Success {
            self.not_from_flash(part, status, first);
        }
    }

    /// Handles a failed read from the flash.
    fn not_from_flash(&mut self, part: Part, status: Status, first: u64) {
        let op = part.op;
        let block = part.lba / self.block_sectors;
        let blocks = self.blocks_of(part);
        if status != Status::Absent {
            self.counters.flash_read_errors += 1;
        }
        if self.dirty.any(block, blocks) && (status != Status::Absent || blocks == 1) {
            // Only the flash has the data. If there are several blocks, each is tried alone.
            if blocks == 1 {
                let status = if status == Status::Absent { Status::UnrecoveredRead } else { status };
                return self.fail(op, status);
            }
            return self.read_each(part);
        }
        let (from, end) = self.wanted(part);
        if status == Status::Absent && blocks > 1 && first < blocks && self.ops[op].step == Step::Data {
            // The cache is asked which blocks it holds.
            let part = Part { purpose: Purpose::ReadStates, ..part };
            let (lba, mut data) =
                (self.flash_lba(part.slot, part.lba), self.buffers.pop().unwrap_or_default());
            data.clear();
            return self.send(Side::Flash, part, Command::new(0, Opcode::Exists, lba, part.sectors, data));
        }
        if status == Status::Absent {
            return self.read_backing(op, from, end);
        }
        // The backing store has the block too.
        if let Backend::Block(slots) = &mut self.backend {
            (block..block + blocks).for_each(|block| slots.forget(block));
        }
        self.read_backing(op, from, end);
    }

    /// Returns the sectors of a part that its command needs.
    fn wanted(&self, part: Part) -> (u64, u64) {
        let command = self.command(part.op);
        let end = command.lba.0 + u64::from(command.sectors);
        (part.lba.max(command.lba.0), (part.lba + u64::from(part.sectors)).min(end))
    }

    /// Returns a buffer to its command, or to the pool.
    fn take_back(&mut self, part: Part, data: Vec<u8>) {
        if part.direct {
            self.ops[part.op].command.as_mut().expect("a command under way").data = data;
        } else {
            self.give_back(data);
        }
    }

    /// Reads the blocks of a part one by one.
    fn read_each(&mut self, part: Part) {
        let (from, end) = self.wanted(part);
        let mut at = from;
        while at < end {
            let next = ((at / self.block_sectors + 1) * self.block_sectors).min(end);
            let block = at / self.block_sectors;
            let slot = match &self.backend {
                Backend::Block(slots) => slots.find(block),
                Backend::Ssc(_) => Some(NIL),
            };
            match slot {
                Some(slot) => self.read_flash(part.op, at, next, slot),
                None => self.read_backing(part.op, at, next),
            }
            at = next;
        }
    }

    /// Reads the blocks whose states a solid-state cache has returned. A clean block may have been evicted
    /// meanwhile; it is then looked up again.
    pub(super) fn states_read(&mut self, part: Part, status: Status, states: Vec<u8>) {
        let (from, end) = self.wanted(part);
        if status != Status::Success || states.len() as u64 != self.blocks_of(part) {
            self.counters.flash_read_errors += 1;
            self.give_back(states);
            // Each block is read alone, so that no further question is needed.
            return self.read_each(part);
        }
        let first = part.lba / self.block_sectors;
        let mut at = from;
        while at < end {
            let is_there =
                |at: u64| states[(at / self.block_sectors - first) as usize] != CacheState::Absent as u8;
            let there = is_there(at);
            let mut next = at;
            while next < end && is_there(next) == there {
                next = ((next / self.block_sectors + 1) * self.block_sectors).min(end);
            }
            match there {
                true => self.read_flash(part.op, at, next, NIL),
                false => self.read_backing(part.op, at, next),
            }
            at = next;
        }
        self.give_back(states);
    }

    pub(super) fn backing_read(&mut self, part: Part, status: Status, data: Vec<u8>) {
        let op = part.op;
        if status != Status::Success {
            self.counters.backing_read_errors += 1;
            self.take_back(part, data);
            return self.fail(op, status);
        }
        self.counters.read_misses += self.blocks_of(part);
        if !part.direct {
            self.deliver(part, &data);
        }
        if !self.may_fill(op) {
            return self.take_back(part, data);
        }
        let mut copy = data;
        if part.direct {
            let mut whole = self.buffer(part.sectors.into());
            whole.copy_from_slice(&copy);
            std::mem::swap(&mut whole, &mut copy);
            self.take_back(part, whole);
        }
        self.ops[op].fills.push((part.lba, copy));
    }

    pub(super) fn read_goes_on(&mut self, op: u32) {
        let Op { step, status, .. } = self.ops[op];
        if step == Step::Data {
            let fills = status.is_none() && !self.ops[op].fills.is_empty();
            if !(fills && self.config.await_fills) {
                self.answer(op);
            }
            if fills && !self.takes_nothing_new() && self.locks.upgrade(op) {
                self.ops[op].step = Step::Fill;
                self.begin_fills(op);
                if self.ops[op].left > 0 {
                    return;
                }
            }
        }
        self.answer_and_close(op);
    }
}
