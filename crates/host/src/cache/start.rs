//! Start: the owner of the cache on the flash, and the blocks that are valid.
//!
//! ```text
//!  flushes ─► head, ─┬─ another store, size, shape or format ─► refused, nothing written
//!            or copy ├─ none, and not blank ─► refused
//!                    ├─ blank, detached, or format ─► new: empty records are written (format.rs), a ──┐
//!                    │                                solid-state cache is emptied                    │
//!                    └─ its own ─► block backend: records; solid-state cache: dirty blocks ─► head: open ─► running
//!                                                                        the flash takes no writes ─► running, read only
//! ```
//! Both drives are flushed first, so that a later power loss cannot undo the data that the start reads. (A
//! manager that starts again after the flash lost power knows the data of the backing store.) After a crash
//! only dirty blocks are valid (rule 5 of the [module above](super)); a solid-state cache with durable
//! commands keeps clean ones. If the drives keep stamps instead of data, there is no head; a solid-state
//! cache is still asked for its dirty blocks.

use super::head::{BLOCK_FORMAT, Head, Life, SSC_FORMAT, decode_records};
use super::slots::Slots;
use super::{Backend, CacheManager, Part, Purpose, Side};
use pellucid_flash::slab::NIL;
use pellucid_flash::{CacheGeometry, CacheState, Command, Interface, Lba, Opcode, SimTime, Status};
use std::collections::VecDeque;

/// Record sectors that one command reads at a start or writes at a stop, and the number of commands in
/// parallel.
pub(super) const RUN_SECTORS: u32 = 64;
pub(super) const DEPTH: u32 = 8;
/// Number of blocks whose states one command asks for.
const STATES: u64 = 1 << 16;
/// Number of block states that one command asks for after a dirty block.
const DIRTY_STATES: u64 = 1 << 12;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Flush,
    Head,
    /// Block backend: reading records.
    Records,
    /// Block backend: searching the place of the records, as there is no head.
    Looking,
    /// Block backend: writing the empty records of a new cache.
    Clearing,
    /// Solid-state cache: searching for dirty blocks.
    Dirty,
    /// Solid-state cache: asking for every block's state, and evicting invalid blocks.
    Sweep,
    /// Writing the head.
    Opening,
    Running,
    /// Failed, with the reason as a sentence; `true` if a drive failed, `false` if the configuration was
    /// refused.
    Failed(String, bool),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    pub phase: Phase,
    pub head: Head,
    /// State in the head that was found.
    pub was: Life,
    /// The flash holds no cache of this store yet.
    pub fresh: bool,
    /// Next record sector, or next block.
    pub next: u64,
    pub under_way: u32,
    /// State of the head and its copy, as far as they were read: both are readable, and both are blank.
    pub head_was: (bool, bool),
    /// The copy replaced the head.
    pub by_copy: bool,
    /// Nothing was found so far where a cache lies.
    pub blank: bool,
    /// Something about the start that its user should know.
    pub notice: Option<&'static str>,
    found: (u64, u64),
    waiting: VecDeque<u32>,
}

impl Start {
    #[inline]
    pub fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    pub fn is_ready(&self) -> bool {
        self.is_running()
    }

    pub fn failure(&self) -> Option<String> {
        match &self.phase {
            Phase::Failed(sentence, _) => Some(sentence.clone()),
            _ => None,
        }
    }

    pub fn is_refused(&self) -> bool {
        matches!(self.phase, Phase::Failed(_, false))
    }

    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub fn epoch(&self) -> u64 {
        self.head.epoch
    }

    /// Returns the number of clean and of dirty blocks that were found.
    pub fn found(&self) -> (u64, u64) {
        self.found
    }
}

impl CacheManager {
    pub(super) fn begin_start(&mut self, again: bool) {
        let layout = match &self.backend {
            Backend::Block(slots) => slots.layout.words(),
            Backend::Ssc(_) => [0; 5],
        };
        self.start.head = Head {
            life: Life::Open,
            format: match self.backend {
                Backend::Block(_) => BLOCK_FORMAT,
                Backend::Ssc(_) => SSC_FORMAT,
            },
            epoch: self.config.nonce,
            store: self.config.store.id,
            store_sectors: self.sectors,
            block_bytes: (self.block_sectors * u64::from(self.config.sector_bytes)) as u32,
            layout,
            name: self.config.store.name.clone(),
        };
        match (&self.backend, self.keeps_content()) {
            (Backend::Block(_), false) => self.start.phase = Phase::Running,
            _ => {
                self.send_start(Opcode::Flush, 0, 0, Vec::new());
                if again {
                    return;
                }
                self.start.under_way += 1;
                let part = Part { op: NIL, purpose: Purpose::Start, ..Part::default() };
                self.send(Side::Backing, part, Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
            }
        }
    }

    /// Continues the start after the flushes; the content of the drives is stable from now on.
    fn drives_flushed(&mut self, status: Status) {
        if status != Status::Success {
            return self.fail_start("the cache drive or the backing store cannot be flushed");
        }
        if self.start.under_way > 0 {
            return;
        }
        if !self.keeps_content() {
            return self.look_for_dirty();
        }
        self.start.phase = Phase::Head;
        self.read_head(self.head_place());
    }

    pub(super) fn wait_for_start(&mut self, op: u32) {
        self.start.waiting.push_back(op);
        self.reopen();
    }

    pub(super) fn send_start(&mut self, opcode: Opcode, lba: u64, sectors: u32, data: Vec<u8>) {
        self.start.under_way += 1;
        let part = Part { op: NIL, purpose: Purpose::Start, lba, sectors, ..Part::default() };
        self.send(Side::Flash, part, Command::new(0, opcode, Lba(lba), sectors, data));
    }

    /// Fails the start because of a drive.
    pub(super) fn fail_start(&mut self, sentence: impl Into<String>) {
        self.fail_start_by(sentence.into(), true);
    }

    /// Refuses the start because the cache does not match the configuration.
    pub(super) fn refuse_start(&mut self, sentence: impl Into<String>) {
        self.fail_start_by(sentence.into(), false);
    }

    fn fail_start_by(&mut self, sentence: String, by_drive: bool) {
        self.start.phase = Phase::Failed(sentence, by_drive);
        while let Some(op) = self.start.waiting.pop_front() {
            self.end(op, Status::ReadOnly);
        }
    }

    pub(super) fn start_goes_on(&mut self, part: Part, status: Status, result: u64, data: Vec<u8>) {
        self.start.under_way -= 1;
        match self.start.phase {
            Phase::Flush => self.drives_flushed(status),
            Phase::Head => self.head_read(part, status, &data),
            Phase::Records => self.records_read(part, status, &data),
            Phase::Looking => self.records_looked_at(status, &data),
            Phase::Clearing => self.records_cleared(status),
            Phase::Dirty => self.dirty_found(part, status, result, &data),
            Phase::Sweep => self.states_swept(part, status, &data),
            _ => {}
        }
        self.give_back(data);
    }

    // ---- block backend

    pub(super) fn read_records(&mut self) {
        let Backend::Block(slots) = &self.backend else { return };
        let all = slots.layout.record_sectors;
        while self.start.under_way < DEPTH && self.start.next < u64::from(all) {
            let from = self.start.next as u32;
            let sectors = RUN_SECTORS.min(all - from);
            self.start.next += u64::from(sectors);
            let Backend::Block(slots) = &self.backend else { return };
            let lba = slots.layout.record_lba(from);
            let data = self.buffer(sectors.into());
            self.send_start(Opcode::Read, lba, sectors, data);
        }
        if self.start.under_way > 0 {
            return;
        }
        match self.unreadable_records() {
            0 => self.write_head(Life::Open),
            _ => {
                self.read_only = true;
                self.running();
            }
        }
    }

    fn records_read(&mut self, part: Part, status: Status, data: &[u8]) {
        let Backend::Block(slots) = &mut self.backend else { return };
        let first = (part.lba - slots.layout.record_lba(0)) as u32;
        match status {
            Status::Success => {}
            _ if part.sectors == 1 => {
                slots.doubt(first);
                return self.read_records();
            }
            // Each sector is read alone, to find the unreadable ones.
            _ => {
                for lba in part.lba..part.lba + u64::from(part.sectors) {
                    let data = self.buffer(1);
                    self.send_start(Opcode::Read, lba, 1, data);
                }
                return;
            }
        }
        let (clean_counts, epoch) = (self.start.was == Life::Closed, self.start.head.epoch);
        let mut good = true;
        for (sector, image) in (first..).zip(data.chunks_exact(self.image_bytes)) {
            let slots_of = slots.layout.slots_of(sector);
            let Some(records) = decode_records(image, epoch, sector) else {
                slots.doubt(sector);
                continue;
            };
            for (at, key, state) in records {
                slots.is_written(sector);
                let slot = slots_of.start + at;
                let counts = Slots::says_dirty(state) || clean_counts;
                if slot >= slots_of.end || !counts {
                    continue;
                }
                match slots.load(slot, key, state, self.blocks) {
                    Some((block, true)) => {
                        self.start.found.1 += 1;
                        good &= self.dirty.insert(self.now, block);
                    }
                    Some((_, false)) => self.start.found.0 += 1,
                    None => good = false,
                }
            }
        }
        if !good {
            return self.fail_start("the records of the cache contradict each other; allowed: --format, which loses what is not written back");
        }
        self.read_records();
    }

    // ---- solid-state cache

    /// Asks for the next dirty block, and for the states from there on.
    pub(super) fn look_for_dirty(&mut self) {
        self.start.phase = Phase::Dirty;
        let mut data = self.buffer(0);
        data.clear();
        self.send_start(Opcode::Exists, self.start.next, 0, data);
    }

    fn dirty_found(&mut self, part: Part, status: Status, result: u64, data: &[u8]) {
        if status != Status::Success {
            return self.fail_start("the cache drive does not tell what is dirty");
        }
        let unit = self.block_sectors;
        let head = self.heads_from();
        if part.sectors == 0 {
            let next = result;
            if next == CacheGeometry::NO_DIRTY || next >= head {
                return self.all_dirty_found();
            }
            if self.start.fresh {
                return self.refuse_start(
                    "the cache drive holds dirty blocks and no head; allowed: an empty one, or --format, which loses what it holds",
                );
            }
            if next / unit >= self.blocks {
                return self.fail_start("the cache holds dirty blocks behind the end of the backing store");
            }
            let count = DIRTY_STATES.min(self.blocks - next / unit);
            let mut data = self.buffer(0);
            data.clear();
            return self.send_start(Opcode::Exists, next, (count * unit) as u32, data);
        }
        let first = part.lba / unit;
        for (block, &state) in (first..).zip(data) {
            if state == CacheState::Dirty as u8 {
                self.start.found.1 += 1;
                self.dirty.insert(self.now, block);
            }
            self.start.found.0 += u64::from(state == CacheState::Clean as u8);
        }
        self.start.next = part.lba + u64::from(part.sectors);
        self.look_for_dirty();
    }

    fn all_dirty_found(&mut self) {
        match self.start.fresh {
            // Clean blocks of an earlier cache are swept.
            true => self.sweep(),
            false if self.keeps_content() => self.write_head(Life::Open),
            // Without a head, the end of the last run is unknown.
            false if !self.config.durable_commands && self.start.was != Life::Closed => {
                self.start.was = Life::Closed;
                self.dirty.clear();
                self.sweep();
            }
            false => self.running(),
        }
    }

    pub(super) fn sweep(&mut self) {
        self.start.phase = Phase::Sweep;
        self.start.next = 0;
        self.start.found = (0, 0);
        self.sweep_on();
    }

    fn sweep_on(&mut self) {
        let unit = self.block_sectors;
        let head = self.heads_from();
        // Blocks after the store's end are never read, and clean ones there are evicted as needed; a format
        // drops dirty ones too.
        let end = match self.keeps_content() && !self.config.format {
            true => head.min(self.blocks * unit),
            false => head,
        };
        if self.start.next < end {
            let sectors = (STATES * unit).min(end - self.start.next) as u32;
            let mut data = self.buffer(0);
            data.clear();
            return self.send_start(Opcode::Exists, self.start.next, sectors, data);
        }
        if self.start.under_way > 0 {
            return;
        }
        match self.keeps_content() && !self.read_only {
            true => self.write_head(Life::Open),
            false => self.running(),
        }
    }

    fn states_swept(&mut self, part: Part, status: Status, states: &[u8]) {
        if status != Status::Success {
            return self.fail_start("the cache drive does not tell what it holds");
        }
        let unit = self.block_sectors;
        let first = part.lba / unit;
        let goes = |state: u8| match self.start.fresh {
            true => state != CacheState::Absent as u8,
            false => state == CacheState::Clean as u8,
        };
        let goes: Vec<bool> = states.iter().map(|&state| goes(state)).collect();
        if !self.start.fresh {
            for (block, _) in (first..).zip(states).filter(|&(_, &state)| state == CacheState::Dirty as u8) {
                if block >= self.blocks {
                    return self
                        .fail_start("the cache holds dirty blocks behind the end of the backing store");
                }
                self.start.found.1 += 1;
                self.dirty.insert(self.now, block);
            }
        }
        let mut at = 0;
        while at < goes.len() {
            let length = goes[at..].iter().take_while(|&&other| other == goes[at]).count();
            if goes[at] && !self.read_only {
                self.start.under_way += 1;
                let (lba, sectors) = ((first + at as u64) * unit, (length as u64 * unit) as u32);
                let part = Part { op: NIL, purpose: Purpose::Sweep, lba, sectors, ..Part::default() };
                self.send(Side::Flash, part, Command::new(0, Opcode::Evict, Lba(lba), sectors, Vec::new()));
            }
            at += length;
        }
        self.start.next = part.lba + u64::from(part.sectors);
        self.sweep_on();
    }

    pub(super) fn swept(&mut self, status: Status) {
        self.start.under_way -= 1;
        if status != Status::Success && !self.begins_read_only() {
            return self.fail_start("the cache drive does not evict what it holds");
        }
        if self.start.under_way == 0 && self.start.phase == Phase::Sweep {
            self.sweep_on();
        }
    }

    // ---- running

    pub(super) fn running(&mut self) {
        self.start.phase = Phase::Running;
        self.start.fresh = false;
        if self.dirty.count() > 0 && !self.read_only {
            self.cleaner.dirtied(self.now, self.config.fallow);
        }
        while let Some(op) = self.start.waiting.pop_front() {
            self.enter(op);
        }
    }

    /// Opens a closed cache again.
    pub(super) fn open_again(&mut self) {
        self.start.phase = Phase::Opening;
        match self.keeps_content() && !self.read_only {
            true => self.write_head(Life::Open),
            false => self.running(),
        }
    }

    /// Closes the cache: commands wait.
    pub(super) fn is_closed(&mut self) {
        self.start.phase = Phase::Opening;
    }

    // ---- after a crash

    /// Starts again after a crash; see [`crate::Machine::restart`].
    pub(super) fn start_again(&mut self, now: SimTime) -> Result<(), String> {
        if !self.keeps_content() && matches!(self.backend, Backend::Block(_)) {
            return Err("the cache drive keeps stamps instead of data, so records cannot come back; allowed: media.store ram, file".into());
        }
        self.now = now;
        // Writes under way may have reached the backing store, or its write cache.
        let ops = (0..).zip(self.ops.iter());
        let under_way: Vec<(u32, u64, u64)> =
            ops.filter(|(_, op)| op.command.is_some()).map(|(at, op)| (at, op.first, op.end)).collect();
        for (op, first, end) in under_way {
            if self.keeps_clean() && self.ops[op].kind != super::Kind::Flush {
                for block in first..end.min(self.blocks) {
                    self.unflushed[0].insert(now, block);
                }
            }
            self.ops[op].status = Some(Status::PowerLoss);
            self.answer(op);
        }
        let flash = match &self.backend {
            Backend::Ssc(geometry) => Interface::Cache(*geometry),
            Backend::Block(_) => Interface::Block { sectors: self.flash_sectors, handles: 1 },
        };
        let backing = Interface::Block { sectors: self.sectors, handles: 1 };
        let config = super::CacheConfig { format: false, ..self.config.clone() };
        let fresh = CacheManager::build(&config, Some(flash), Some(backing), self.image_bytes, true);
        let mut fresh = fresh.map_err(|error| error.to_string())?;
        (fresh.up, fresh.now) = (std::mem::take(&mut self.up), now);
        std::mem::swap(&mut fresh.unflushed, &mut self.unflushed);
        *self = fresh;
        Ok(())
    }
}
