//! Writes, fills and trims.
//!
//! ```text
//!  block is       write-back                                 write-through, bypass, a full or failed flash
//!  dirty          flash, dirty                               flash, dirty
//!  clean, absent  flash, dirty                               drop the clean copy ─► backing store ─► (write-through: fill)
//!  a part of it   fetch the block, put the part in ─► flash  as above, without a fill
//! ```
//! If the flash refuses a block, it takes the path of the right column, unless it is dirty. If a cache full
//! of dirty blocks cannot even overwrite one, the write waits for cleaning.

use super::{Backend, CacheManager, CacheMode, Kind, Op, Part, Purpose, RecordWrites, Side, Step};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Lba, Opcode, Status, copy_images};

/// Path of a run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Writes to the flash: the slot of the first block, and whether it is dirty already.
    Flash(u32, bool),
    /// Writes a part of a block.
    Part,
    /// Writes to the backing store.
    Around,
}

impl CacheManager {
    /// Reports whether new data go to the backing store, and nothing is filled.
    pub(super) fn takes_nothing_new(&self) -> bool {
        self.degraded || self.read_only || self.ending.is_draining() || self.is_detached()
    }

    pub(super) fn begin_write(&mut self, op: u32) {
        let Op { first, end, bypass, .. } = self.ops[op];
        for held in self.locks.cleaning(first, end) {
            let run = &mut self.ops[held.op];
            (first.max(held.first)..end.min(held.end))
                .for_each(|block| run.touched |= 1 << (block - held.first));
        }
        if bypass {
            self.counters.bypassed += end - first;
        }
        let command = self.command(op);
        let (lba, last) = (command.lba.0, command.lba.0 + u64::from(command.sectors));
        let mut run: Option<(Way, u64)> = None;
        for block in first..end {
            let from = (block * self.block_sectors).max(lba);
            let way = self.way(op, block, from, last);
            run = match run {
                Some((before, start)) if self.joins(before, start, way, block) => Some((before, start)),
                Some((before, start)) => {
                    self.send_run(op, before, start, from);
                    Some((way, from))
                }
                None => Some((way, from)),
            };
        }
        let (way, start) = run.expect("a write has a block");
        self.send_run(op, way, start, last);
    }

    /// Chooses the path of a block of a write, which covers the sectors from `from` to before `last`.
    fn way(&mut self, op: u32, block: u64, from: u64, last: u64) -> Way {
        let is_dirty = self.dirty.contains(block);
        let around =
            self.ops[op].bypass || self.config.mode == CacheMode::WriteThrough || self.takes_nothing_new();
        if block >= self.blocks || (around && !is_dirty) {
            return Way::Around;
        }
        let is_whole = from == block * self.block_sectors && last >= from + self.block_sectors;
        if !is_whole {
            return Way::Part;
        }
        match self.take_slot(block) {
            Some(slot) => Way::Flash(slot, is_dirty),
            None => Way::Around,
        }
    }

    /// Returns a slot for a block; `None` if its set has none.
    fn take_slot(&mut self, block: u64) -> Option<u32> {
        let locks = &self.locks;
        let slot = match &mut self.backend {
            Backend::Ssc(_) => return Some(NIL),
            Backend::Block(slots) => slots.take(block, |other| locks.is_taken(other)),
        };
        if slot.is_none() {
            self.counters.full += 1;
            self.cleaner.press(self.dirty.count());
        }
        slot
    }

    /// Reports whether `block` with path `way` extends the run that begins at sector `start`.
    fn joins(&self, run: Way, start: u64, way: Way, block: u64) -> bool {
        match (run, way) {
            (Way::Around, Way::Around) => block != self.blocks,
            (Way::Flash(NIL, was), Way::Flash(_, is)) => was == is,
            (Way::Flash(first, was), Way::Flash(slot, is)) => {
                was == is && u64::from(first) + block - start / self.block_sectors == u64::from(slot)
            }
            _ => false,
        }
    }

    /// Returns the data of a run, and whether they are the command's own buffer, which is used if the run is
    /// the whole command.
    fn data_of(&mut self, op: u32, from: u64, to: u64) -> (Vec<u8>, bool) {
        let image = self.image_bytes;
        let command = self.ops[op].command.as_mut().expect("a command under way");
        let lba = command.lba.0;
        if (from, to) == (lba, lba + u64::from(command.sectors)) {
            return (std::mem::take(&mut command.data), true);
        }
        let mut data = self.buffer(to - from);
        let source = &self.command(op).data[(from - lba) as usize * image..(to - lba) as usize * image];
        copy_images(&mut data, source);
        (data, false)
    }

    fn send_run(&mut self, op: u32, way: Way, from: u64, to: u64) {
        let part = Part { op, lba: from, sectors: (to - from) as u32, slot: NIL, ..Part::default() };
        match way {
            Way::Part => self.fetch(part),
            Way::Flash(slot, is_dirty) => {
                let (data, direct) = self.data_of(op, from, to);
                self.write_flash(Part { slot, direct, ..part }, is_dirty, data);
            }
            Way::Around => {
                let (data, direct) = self.data_of(op, from, to);
                self.go_around(Part { direct, ..part }, false, data);
            }
        }
    }

    pub(super) fn blocks_in(&self, part: Part) -> std::ops::Range<u64> {
        let end = (part.lba + u64::from(part.sectors)).div_ceil(self.block_sectors);
        part.lba / self.block_sectors..end.min(self.blocks)
    }

    // ---- to the flash

    fn write_flash(&mut self, part: Part, is_dirty: bool, data: Vec<u8>) {
        let lba = self.flash_lba(part.slot, part.lba);
        let (opcode, fua) = match (&self.backend, self.config.records) {
            (Backend::Ssc(_), _) => (Opcode::WriteDirty, false),
            (_, RecordWrites::EachWrite { force }) => (Opcode::Write, force),
            (_, RecordWrites::OnFlush) => (Opcode::Write, false),
        };
        self.dirtying += 1;
        let part = Part { purpose: Purpose::WriteFlash(is_dirty), ..part };
        let command = Command::new(0, opcode, lba, part.sectors, data);
        self.send(Side::Flash, part, Command { fua, ..command });
    }

    pub(super) fn flash_written(&mut self, part: Part, was_dirty: bool, status: Status, data: Vec<u8>) {
        self.dirtying -= 1;
        self.commit.flash_changed();
        if status == Status::Success {
            let blocks = self.blocks_in(part);
            self.counters.write_hits += blocks.end - blocks.start;
            let safe = matches!(self.config.records, RecordWrites::EachWrite { .. });
            if let Backend::Block(slots) = &mut self.backend {
                (part.slot..).zip(blocks.clone()).for_each(|(slot, _)| slots.set_dirty(slot, safe));
            }
            for block in blocks {
                self.counters.dirtied += u64::from(self.dirty.insert(self.now, block));
                self.doubtful.remove(block);
            }
            self.cleaner.dirtied(self.now, self.config.fallow);
            return self.take_back_write(part, data);
        }
        match status {
            Status::CacheFull => {
                self.counters.full += 1;
                self.cleaner.press(self.dirty.count());
            }
            _ => self.counters.flash_write_errors += 1,
        }
        self.degraded |= status == Status::ReadOnly;
        if !was_dirty {
            return self.go_around(part, status != Status::CacheFull, data);
        }
        if status == Status::CacheFull {
            // The write waits for cleaning.
            self.ops[part.op].left += 1;
            return self.cleaner.parked.push((part, data));
        }
        self.take_back_write(part, data);
        self.fail(part.op, status);
    }

    /// Retries the writes that wait for cleaning; without cleaned blocks they fail.
    pub(super) fn unpark(&mut self, cleaned: bool) {
        let mut parked = std::mem::take(&mut self.cleaner.parked);
        for (part, data) in parked.drain(..) {
            self.ops[part.op].left -= 1;
            if cleaned {
                self.write_flash(part, true, data);
            } else {
                self.take_back_write(part, data);
                self.fail(part.op, Status::WriteFault);
                self.went_on(part.op);
            }
        }
        self.cleaner.parked = parked;
    }

    pub(super) fn take_back_write(&mut self, part: Part, data: Vec<u8>) {
        if part.direct {
            self.ops[part.op].command.as_mut().expect("a command under way").data = data;
        } else {
            self.give_back(data);
        }
    }

    // ---- around it

    /// Writes to the backing store; a solid-state cache evicts its blocks first. `after_failure`: it may hold
    /// newer data than the manager knows.
    fn go_around(&mut self, part: Part, after_failure: bool, data: Vec<u8>) {
        let blocks = self.blocks_in(part);
        let detached = self.is_detached();
        match &mut self.backend {
            Backend::Block(slots) => blocks.for_each(|block| slots.forget(block)),
            Backend::Ssc(_) if blocks.is_empty() || detached => {}
            Backend::Ssc(_) => {
                let (first, count) =
                    (blocks.start * self.block_sectors, (blocks.end - blocks.start) * self.block_sectors);
                let evict = Command::new(0, Opcode::Evict, Lba(first), count as u32, Vec::new());
                let part = Part { purpose: Purpose::Evict(after_failure), ..part };
                self.ops[part.op].aside.push((part.lba, data));
                return self.send(Side::Flash, part, evict);
            }
        }
        self.write_backing(part, data);
    }

    pub(super) fn evicted(&mut self, part: Part, after_failure: bool, status: Status) {
        let aside = &mut self.ops[part.op].aside;
        let at = aside.iter().position(|(lba, _)| *lba == part.lba).expect("put aside for the eviction");
        let (_, data) = aside.swap_remove(at);
        if status == Status::Success {
            return self.write_backing(part, data);
        }
        self.counters.flash_write_errors += 1;
        if after_failure {
            // The block may be dirty on the flash, or an older clean copy may be there.
            for block in self.blocks_in(part) {
                self.dirty.insert(self.now, block);
                self.doubtful.insert(self.now, block);
            }
        }
        self.take_back_write(part, data);
        self.fail(part.op, status);
    }

    /// Reports whether writes to the backing store are forced, because their clean copies outlive a crash.
    fn is_forced(&self) -> bool {
        self.keeps_clean() && self.config.mode == CacheMode::WriteThrough
    }

    /// Notes blocks newly written to the backing store. It is called once they are written, because a flush
    /// that began before may not cover them.
    fn backing_has_newer(&mut self, blocks: std::ops::Range<u64>) {
        self.commit.backing_changed();
        if self.keeps_clean() {
            for block in blocks {
                self.unflushed[0].insert(self.now, block);
            }
        }
    }

    fn write_backing(&mut self, part: Part, data: Vec<u8>) {
        let fua = self.is_forced();
        let part = Part { purpose: Purpose::WriteBacking, ..part };
        let command = Command::new(0, Opcode::Write, Lba(part.lba), part.sectors, data);
        self.send(Side::Backing, part, Command { fua, ..command });
    }

    pub(super) fn backing_written(&mut self, part: Part, status: Status, data: Vec<u8>) {
        let op = part.op;
        let blocks = self.blocks_in(part);
        if self.is_forced() && status == Status::Success {
            self.commit.backing_changed();
        } else {
            self.backing_has_newer(blocks.clone());
        }
        self.counters.write_arounds += blocks.end - blocks.start;
        if status != Status::Success {
            self.counters.backing_write_errors += 1;
            self.take_back_write(part, data);
            return self.fail(op, status);
        }
        let fills =
            self.config.mode == CacheMode::WriteThrough && !self.ops[op].bypass && !self.takes_nothing_new();
        if !fills {
            return self.take_back_write(part, data);
        }
        let mut copy = data;
        if part.direct {
            let mut whole = self.buffer(part.sectors.into());
            whole.copy_from_slice(&copy);
            std::mem::swap(&mut whole, &mut copy);
            self.take_back_write(part, whole);
        }
        self.ops[op].fills.push((part.lba, copy));
    }

    // ---- a part of a block

    /// Reads the block that a partial write changes.
    fn fetch(&mut self, part: Part) {
        self.counters.partial_writes += 1;
        let block = part.lba / self.block_sectors;
        let slot = match &mut self.backend {
            Backend::Block(slots) => slots.touch(block),
            Backend::Ssc(_) => Some(NIL),
        };
        let buffer = self.buffer(self.block_sectors);
        let (side, purpose, lba) = match slot {
            Some(slot) => {
                (Side::Flash, Purpose::FetchFlash, self.flash_lba(slot, block * self.block_sectors))
            }
            None => (Side::Backing, Purpose::FetchBacking, Lba(block * self.block_sectors)),
        };
        let part = Part { purpose, ..part };
        self.send(side, part, Command::new(0, Opcode::Read, lba, self.block_sectors as u32, buffer));
    }

    pub(super) fn fetched(&mut self, part: Part, status: Status, mut data: Vec<u8>) {
        let block = part.lba / self.block_sectors;
        let is_dirty = self.dirty.contains(block);
        let first = block * self.block_sectors;
        if status != Status::Success {
            let errors = match part.purpose {
                Purpose::FetchFlash => &mut self.counters.flash_read_errors,
                _ => &mut self.counters.backing_read_errors,
            };
            *errors += u64::from(status != Status::Absent);
            if is_dirty || part.purpose == Purpose::FetchBacking {
                self.give_back(data);
                let status = if status == Status::Absent { Status::UnrecoveredRead } else { status };
                return self.fail(part.op, status);
            }
            let part = Part { purpose: Purpose::FetchBacking, ..part };
            return self.send(
                Side::Backing,
                part,
                Command::new(0, Opcode::Read, Lba(first), self.block_sectors as u32, data),
            );
        }
        let image = self.image_bytes;
        let (at, bytes) = ((part.lba - first) as usize * image, part.sectors as usize * image);
        let command = self.command(part.op);
        let from = (part.lba - command.lba.0) as usize * image;
        match command.data.get(from..from + bytes) {
            Some(source) => copy_images(&mut data[at..at + bytes], source),
            // Writes of zeros transfer no data.
            None => data[at..at + bytes].fill(0),
        }
        let part = Part { lba: first, sectors: self.block_sectors as u32, ..part };
        match self.take_slot(block) {
            Some(slot) => self.write_flash(Part { slot, ..part }, is_dirty, data),
            None => self.go_around(part, false, data),
        }
    }

    // ---- on the way

    pub(super) fn write_goes_on(&mut self, op: u32) {
        let Op { step, status, .. } = self.ops[op];
        let fua = |layer: &CacheManager| layer.command(op).fua;
        match step {
            Step::Data if self.records_each_write() => {
                self.ops[op].step = Step::Mark;
                self.record_blocks_of(op);
                if self.ops[op].left == 0 {
                    self.write_goes_on(op);
                }
            }
            Step::Data | Step::Mark if status.is_none() && fua(self) => {
                self.ops[op].step = Step::Flush;
                self.commit.wait(op);
            }
            Step::Data | Step::Mark | Step::Flush => {
                let fills = status.is_none() && self.ops[op].kind == Kind::Write;
                if !(fills && self.config.await_fills) {
                    self.answer(op);
                }
                self.ops[op].step = Step::Fill;
                if fills {
                    self.begin_fills(op);
                }
                if self.ops[op].left == 0 {
                    self.answer_and_close(op);
                }
            }
            _ => self.answer_and_close(op),
        }
    }

    // ---- fills

    /// Fills whole blocks that the backing store has and the cache lacks.
    pub(super) fn begin_fills(&mut self, op: u32) {
        let mut fills = std::mem::take(&mut self.ops[op].fills);
        for (lba, data) in fills.drain(..) {
            let sectors = (data.len() / self.image_bytes) as u64;
            let blocks =
                lba.div_ceil(self.block_sectors)..((lba + sectors) / self.block_sectors).min(self.blocks);
            let mut at = blocks.start;
            while at < blocks.end {
                at = self.fill_run(op, at, blocks.end, lba, &data);
            }
            self.give_back(data);
        }
        self.ops[op].fills = fills;
    }

    /// Fills a run of blocks from `block` on; returns its end.
    fn fill_run(&mut self, op: u32, block: u64, end: u64, lba: u64, data: &[u8]) -> u64 {
        let is_doubtful = |layer: &CacheManager, block| {
            layer.dirty.contains(block) || layer.unflushed.iter().any(|map| map.contains(block))
        };
        if is_doubtful(self, block) {
            return block + 1;
        }
        let Some(slot) = self.take_slot(block) else { return block + 1 };
        let mut next = block + 1;
        while next < end && !is_doubtful(self, next) {
            match self.take_slot(next) {
                Some(other) if slot == NIL || u64::from(other) == u64::from(slot) + next - block => next += 1,
                // The block already has a slot, and finds it again.
                _ => break,
            }
        }
        let sectors = (next - block) * self.block_sectors;
        let mut buffer = self.buffer(sectors);
        let from = (block * self.block_sectors - lba) as usize * self.image_bytes;
        let bytes = buffer.len();
        copy_images(&mut buffer, &data[from..from + bytes]);
        let opcode = if slot == NIL { Opcode::WriteClean } else { Opcode::Write };
        let lba = block * self.block_sectors;
        let part = Part { op, purpose: Purpose::Fill, lba, sectors: sectors as u32, slot, direct: false };
        let to = self.flash_lba(slot, lba);
        self.send(Side::Flash, part, Command::new(0, opcode, to, sectors as u32, buffer));
        next
    }

    pub(super) fn filled(&mut self, part: Part, status: Status, data: Vec<u8>) {
        self.give_back(data);
        let blocks = self.blocks_in(part);
        if status == Status::Success {
            self.counters.fills += blocks.end - blocks.start;
        } else {
            self.counters.flash_write_errors += u64::from(status != Status::CacheFull);
            self.degraded |= status == Status::ReadOnly;
        }
        if let Backend::Block(slots) = &mut self.backend {
            for (slot, block) in (part.slot..).zip(blocks) {
                match status {
                    Status::Success => slots.set_clean(slot),
                    _ => slots.forget(block),
                }
            }
        }
    }

    // ---- trims

    /// Begins a trim: parts of dirty blocks are zeroed, clean copies are dropped, and the backing store is
    /// trimmed.
    pub(super) fn begin_trim(&mut self, op: u32) {
        let Op { first, end, .. } = self.ops[op];
        let (from, to) = self.trim_range(op);
        let command = self.command(op);
        let (lba, last) = (command.lba.0, command.lba.0 + u64::from(command.sectors));
        let part = Part { op, slot: NIL, ..Part::default() };
        if lba < from {
            self.fetch(Part { lba, sectors: (from.min(last) - lba) as u32, ..part });
        }
        if to < last && to >= from {
            self.fetch(Part { lba: to, sectors: (last - to) as u32, ..part });
        }
        if from >= to {
            return;
        }
        let (first, end) = (
            (from / self.block_sectors).max(first),
            to.div_ceil(self.block_sectors).min(end).min(self.blocks),
        );
        self.evict(op, first, end, false);
        self.evict_doubtful(op, first, end);
    }

    /// Drops the doubtful blocks of a range, which only a solid-state cache has.
    fn evict_doubtful(&mut self, op: u32, first: u64, end: u64) {
        let mut at = first;
        while let Some(block) = self.doubtful.next(at).filter(|&block| block < end) {
            at = block + 1;
            if !self.ending.is_detached() {
                let (lba, sectors) = (block * self.block_sectors, self.block_sectors as u32);
                let part = Part { op, purpose: Purpose::TrimEvict, lba, sectors, ..Part::default() };
                self.send(Side::Flash, part, Command::new(0, Opcode::Evict, Lba(lba), sectors, Vec::new()));
            }
        }
    }

    /// Returns the sectors of a trim for the backing store, without parts of dirty blocks.
    fn trim_range(&self, op: u32) -> (u64, u64) {
        let command = self.command(op);
        let (lba, last) = (command.lba.0, command.lba.0 + u64::from(command.sectors));
        let size = self.block_sectors;
        let is_part =
            |block: u64| (lba > block * size || last < (block + 1) * size) && self.dirty.contains(block);
        let (first, end) = (lba / size, (last - 1) / size);
        let from = if is_part(first) { (first + 1) * size } else { lba };
        let to = if is_part(end) { (end * size).max(from) } else { last };
        (from, to)
    }

    /// Drops the dirty blocks of a range, or all others, as `dirty` says.
    fn evict(&mut self, op: u32, first: u64, end: u64, dirty: bool) {
        let mut at = first;
        while at < end {
            let (is_dirty, count) = self.dirty.run(at, end - at);
            if is_dirty == dirty {
                let sectors = (count * self.block_sectors) as u32;
                let lba = at * self.block_sectors;
                match &mut self.backend {
                    Backend::Block(slots) => {
                        for block in at..at + count {
                            slots.forget(block);
                            self.dirty.remove(block);
                        }
                    }
                    Backend::Ssc(_) if self.ending.is_detached() => {}
                    Backend::Ssc(_) => {
                        let part = Part { op, purpose: Purpose::TrimEvict, lba, sectors, ..Part::default() };
                        self.send(
                            Side::Flash,
                            part,
                            Command::new(0, Opcode::Evict, Lba(lba), sectors, Vec::new()),
                        );
                    }
                }
            }
            at += count;
        }
    }

    pub(super) fn trimmed(&mut self, part: Part, status: Status) {
        if part.purpose == Purpose::TrimBacking {
            self.backing_has_newer(self.blocks_in(part));
        }
        match part.purpose {
            Purpose::TrimEvict if status == Status::Success => {
                self.commit.flash_changed();
                for block in self.blocks_in(part) {
                    self.dirty.remove(block);
                    self.doubtful.remove(block);
                }
            }
            Purpose::TrimEvict => self.counters.flash_write_errors += 1,
            _ if status != Status::Success => self.counters.backing_write_errors += 1,
            _ => {}
        }
        if status != Status::Success {
            self.fail(part.op, status);
        }
    }

    pub(super) fn trim_goes_on(&mut self, op: u32) {
        let Op { step, status, .. } = self.ops[op];
        if status.is_some() || step == Step::Fill {
            self.answer(op);
            return self.close(op);
        }
        let (from, to) = self.trim_range(op);
        let whole = from.div_ceil(self.block_sectors)..(to / self.block_sectors).min(self.blocks);
        let part = Part { op, lba: from, sectors: 0, slot: NIL, ..Part::default() };
        match step {
            Step::Data if from < to => {
                self.ops[op].step = Step::Backing;
                let opcode = self.command(op).opcode;
                let part = Part { purpose: Purpose::TrimBacking, sectors: (to - from) as u32, ..part };
                let command = Command::new(0, opcode, Lba(from), (to - from) as u32, Vec::new());
                self.send(Side::Backing, part, command);
            }
            Step::Backing
                if whole.start < whole.end && self.dirty.any(whole.start, whole.end - whole.start) =>
            {
                self.ops[op].step = Step::Flush;
                let flush = Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new());
                self.send(Side::Backing, Part { purpose: Purpose::TrimFlush, ..part }, flush);
            }
            Step::Flush => {
                self.ops[op].step = Step::Mark;
                self.evict(op, whole.start, whole.end, true);
                if self.ops[op].left == 0 {
                    self.trim_goes_on(op);
                }
            }
            _ if self.command(op).fua => {
                self.ops[op].step = Step::Fill;
                self.commit.wait(op);
            }
            _ => {
                self.answer(op);
                self.close(op);
            }
        }
    }
}
