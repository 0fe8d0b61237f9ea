//! Start: the owner of the cache on the flash, and the blocks that are valid.
//!
//! ```text
//!  flushes ─► head, ─┬─ another store, size, shape or format ─► refused, nothing written
//!            or copy ├─ none, and not blank ─► refused
//!                    ├─ blank, detached, or format ─► new: empty records are written (format.rs), a ──┐
//!                    │                                solid-state cache is emptied                    │
//!                    └─ its own ─► block backend: records; solid-state cache: dirty blocks ─► head: open ─► running
//!                        no space for the head ─► dirty blocks are written back ─┘ (again)
//!                                                                        the flash takes no writes ─► running, read only
//! ```
//! Both drives are flushed first, so that a later power loss cannot undo the data that the start reads. (A
//! manager that starts again after the flash lost power knows the data of the backing store.) After a crash
//! only dirty blocks are valid (rule 5 of the [module above](super)); a solid-state cache with durable
//! commands keeps clean ones. A solid-state cache may find more dirty blocks than it may hold, because cleaned
//! blocks are dirty again; it takes no write, not even the head, before enough of them are cleaned. If the drives keep stamps instead of data, there is no head; a solid-state
//! cache is still asked for its dirty blocks.

use crate::cache::head::{BLOCK_FORMAT, Head, Life, SSC_FORMAT, decode_records};
mod format;
mod whose;

use crate::cache::blocks::{Layout, Loaded};
use crate::cache::core::{Core, Effect};
use crate::cache::op::{Part, Purpose, Side};
use pellucid_flash::slab::NIL;
use pellucid_flash::{CacheGeometry, CacheOp, CacheState, Command, Lba, Opcode, Status};
use std::collections::VecDeque;

/// Record sectors that one command reads at a start or writes at a stop, and the number of commands in
/// parallel.
pub(super) const RUN_SECTORS: u32 = 64;
pub(super) const DEPTH: u32 = 8;
const BEYOND_THE_STORE: &str = "the cache holds dirty blocks behind the end of the backing store";
const CONTRADICTION: &str =
    "the records of the cache contradict each other; allowed: --format, which loses what is not written back";

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
    /// Solid-state cache: the head found no space, and dirty blocks are written back to make some.
    Pressed,
    Running,
    /// Failed, with the reason as a sentence; `true` if a drive failed, `false` if the configuration was
    /// refused.
    Failed(String, bool),
}

#[derive(Clone, Debug, Default)]
pub(super) struct CacheStart {
    phase: Phase,
    /// Head of this cache.
    head: Head,
    /// State in the head that was found.
    was: Life,
    /// The flash holds no cache of this store yet.
    fresh: bool,
    /// Next record sector, or next block.
    next: u64,
    /// Number of commands under way.
    under_way: u32,
    /// State of the head and its copy, as far as they were read: both are readable, and both are blank.
    head_was: (bool, bool),
    /// Blocks were cleaned since the head was last sent.
    space_came: bool,
    /// The copy replaced the head.
    by_copy: bool,
    /// Flag: no trace of a cache has been found so far.
    blank: bool,
    /// Something about the start that its user should know.
    notice: Option<&'static str>,
    /// Numbers of clean and of dirty blocks that were found.
    found: (u64, u64),
    /// The cache runs, and nobody was told.
    begun: bool,
    /// Operations that wait until the cache runs.
    waiting: VecDeque<u32>,
}

impl CacheStart {
    #[inline]
    pub fn is_running(&self) -> bool {
        self.phase == Phase::Running
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

    /// Returns something about the start that its user should know.
    pub fn notice(&self) -> Option<&'static str> {
        self.notice
    }

    /// Lets an operation wait until the cache runs.
    pub fn wait(&mut self, op: u32) {
        assert!(!self.is_running(), "nobody waits for a running cache");
        self.waiting.push_back(op);
    }

    /// Returns the operations that have waited, once the cache runs; `None` if it has not begun to run since the last call.
    #[inline]
    pub fn take_begun(&mut self) -> Option<VecDeque<u32>> {
        std::mem::take(&mut self.begun).then(|| std::mem::take(&mut self.waiting))
    }

    /// Returns the start of a detached cache, which searches for nothing.
    pub fn of_detached() -> CacheStart {
        CacheStart { phase: Phase::Running, ..CacheStart::default() }
    }

    /// Begins the start; `again`: this manager has seen all writes to the backing store.
    pub fn begin(core: &mut Core, again: bool) -> CacheStart {
        let shape = &core.shape;
        let head = Head {
            life: Life::Open,
            format: if shape.is_ssc() { SSC_FORMAT } else { BLOCK_FORMAT },
            epoch: shape.config.nonce,
            store: shape.config.store.id,
            store_sectors: shape.sectors,
            block_bytes: (shape.block_sectors * u64::from(shape.config.sector_bytes)) as u32,
            layout: shape.layout().map_or([0; 5], Layout::words),
            name: shape.config.store.name.clone(),
        };
        let mut start = CacheStart { head, ..CacheStart::default() };
        if !shape.is_ssc() && !shape.keeps_content() {
            start.phase = Phase::Running;
            return start;
        }
        start.send(core, Opcode::Flush, 0, 0, Vec::new());
        if !again {
            start.under_way += 1;
            let part = Part { op: NIL, purpose: Purpose::Start, ..Part::default() };
            core.requests.send_flush(Side::Backing, part);
        }
        start
    }

    /// Continues the start after the flushes; the content of the drives is stable from now on.
    fn drives_flushed(&mut self, core: &mut Core, status: Status) {
        if status != Status::Success {
            return self.fail(core, "the cache drive or the backing store cannot be flushed");
        }
        if self.under_way > 0 {
            return;
        }
        if !core.shape.keeps_content() {
            return self.look_for_dirty(core);
        }
        self.phase = Phase::Head;
        self.read_head(core, core.shape.head_place());
    }

    pub(super) fn send(&mut self, core: &mut Core, opcode: Opcode, lba: u64, sectors: u32, data: Vec<u8>) {
        self.under_way += 1;
        let part = Part { op: NIL, purpose: Purpose::Start, lba, sectors, ..Part::default() };
        core.requests.send(Side::Flash, part, Command::new(0, opcode, Lba(lba), sectors, data));
    }

    /// Fails the start because of a drive.
    pub(super) fn fail(&mut self, core: &mut Core, sentence: impl Into<String>) {
        self.fail_by(core, sentence.into(), true);
    }

    /// Refuses the start because the cache does not match the configuration.
    pub(super) fn refuse(&mut self, core: &mut Core, sentence: impl Into<String>) {
        self.fail_by(core, sentence.into(), false);
    }

    fn fail_by(&mut self, core: &mut Core, sentence: String, by_drive: bool) {
        self.phase = Phase::Failed(sentence, by_drive);
        while let Some(op) = self.waiting.pop_front() {
            core.requests.refuse(op, Status::ReadOnly);
        }
    }

    /// Continues the start after one of its commands.
    pub fn goes_on(&mut self, core: &mut Core, part: Part, status: Status, result: u64, data: &[u8]) {
        assert!(self.under_way > 0, "a command of the start ends that was not sent");
        self.under_way -= 1;
        match self.phase {
            Phase::Flush => self.drives_flushed(core, status),
            Phase::Head => self.head_read(core, part, status, data),
            Phase::Records => self.records_read(core, part, status, data),
            Phase::Looking => self.records_looked_at(core, status, data),
            Phase::Clearing => self.clear_on(core, status),
            Phase::Dirty => self.dirty_found(core, part, status, result, data),
            Phase::Sweep => self.states_swept(core, part, status, data),
            Phase::Opening | Phase::Pressed | Phase::Running | Phase::Failed(..) => {}
        }
    }

    // ---- block backend

    pub(super) fn read_records(&mut self, core: &mut Core) {
        while let Some((lba, sectors)) = self.next_run(core) {
            let data = core.requests.buffer(sectors.into());
            self.send(core, Opcode::Read, lba, sectors, data);
        }
        if self.under_way > 0 {
            return;
        }
        match core.blocks.unreadable() {
            0 => self.write_head(core, Life::Open),
            _ => {
                core.ends.begin_read_only(true);
                self.running();
            }
        }
    }

    fn records_read(&mut self, core: &mut Core, part: Part, status: Status, data: &[u8]) {
        let Some(layout) = core.shape.layout() else { return };
        let first = (part.lba - layout.record_lba(0)) as u32;
        match status {
            Status::Success => {}
            _ if part.sectors == 1 => {
                core.blocks.lose_records(first);
                return self.read_records(core);
            }
            // Each sector is read alone, to find the unreadable ones.
            _ => {
                for lba in part.lba..part.lba + u64::from(part.sectors) {
                    let data = core.requests.buffer(1);
                    self.send(core, Opcode::Read, lba, 1, data);
                }
                return;
            }
        }
        let (clean_counts, now) = (self.was == Life::Closed, core.requests.now());
        for (sector, image) in (first..).zip(data.chunks_exact(core.shape.image_bytes)) {
            let Some(records) = decode_records(image, self.head.epoch, sector) else {
                core.blocks.lose_records(sector);
                continue;
            };
            for record in records {
                match core.blocks.load(now, sector, record, clean_counts) {
                    Loaded::Ignored => {}
                    Loaded::Clean => self.found.0 += 1,
                    Loaded::Dirty => self.found.1 += 1,
                    Loaded::Contradiction => return self.fail(core, CONTRADICTION),
                }
            }
        }
        self.read_records(core);
    }

    // ---- solid-state cache

    /// Asks for the next dirty block, and for the states from there on.
    pub(super) fn look_for_dirty(&mut self, core: &mut Core) {
        self.phase = Phase::Dirty;
        let data = core.requests.buffer(0);
        self.send(core, Opcode::Cache(CacheOp::Exists), self.next, 0, data);
    }

    fn dirty_found(&mut self, core: &mut Core, part: Part, status: Status, result: u64, data: &[u8]) {
        if status != Status::Success {
            return self.fail(core, "the cache drive does not tell what is dirty");
        }
        let unit = core.shape.block_sectors;
        let head = core.shape.heads_from();
        if part.sectors == 0 {
            let next = result;
            if next == CacheGeometry::NO_DIRTY || next >= head {
                return self.all_dirty_found(core);
            }
            if self.fresh {
                return self.refuse(
                    core,
                    "the cache drive holds dirty blocks and no head; allowed: an empty one, or --format, which loses what it holds",
                );
            }
            if next / unit >= core.shape.blocks {
                return self.fail(core, BEYOND_THE_STORE);
            }
            let count = DIRTY_STATES.min(core.shape.blocks - next / unit);
            let data = core.requests.buffer(0);
            return self.send(core, Opcode::Cache(CacheOp::Exists), next, (count * unit) as u32, data);
        }
        let first = part.lba / unit;
        for (block, &state) in (first..).zip(data) {
            if state == CacheState::Dirty as u8 && !core.blocks.is_given_up(block) {
                self.found.1 += 1;
                core.blocks.found_dirty(core.requests.now(), block);
            }
            self.found.0 += u64::from(state == CacheState::Clean as u8);
        }
        self.next = part.lba + u64::from(part.sectors);
        self.look_for_dirty(core);
    }

    fn all_dirty_found(&mut self, core: &mut Core) {
        match self.fresh {
            // Clean blocks of an earlier cache are swept.
            true => self.sweep(core),
            false if core.shape.keeps_content() => self.write_head(core, Life::Open),
            // Without a head, the end of the last run is unknown.
            false if !core.shape.config.durable_commands && self.was != Life::Closed => {
                self.was = Life::Closed;
                core.blocks.forget_dirty();
                self.sweep(core);
            }
            false => self.running(),
        }
    }

    pub(super) fn sweep(&mut self, core: &mut Core) {
        self.phase = Phase::Sweep;
        self.next = 0;
        self.found = (0, 0);
        self.sweep_on(core);
    }

    fn sweep_on(&mut self, core: &mut Core) {
        let unit = core.shape.block_sectors;
        let head = core.shape.heads_from();
        // Blocks after the store's end are never read, and clean ones there are evicted as needed; a format
        // drops dirty ones too.
        let end = match core.shape.keeps_content() && !core.shape.config.format {
            true => head.min(core.shape.blocks * unit),
            false => head,
        };
        if self.next < end {
            let sectors = (STATES * unit).min(end - self.next) as u32;
            let data = core.requests.buffer(0);
            return self.send(core, Opcode::Cache(CacheOp::Exists), self.next, sectors, data);
        }
        if self.under_way > 0 {
            return;
        }
        match core.shape.keeps_content() && !core.ends.is_read_only() {
            true => self.write_head(core, Life::Open),
            false => self.running(),
        }
    }

    fn states_swept(&mut self, core: &mut Core, part: Part, status: Status, states: &[u8]) {
        if status != Status::Success {
            return self.fail(core, "the cache drive does not tell what it holds");
        }
        let unit = core.shape.block_sectors;
        let first = part.lba / unit;
        let is_dirty =
            |block: u64, state: u8| state == CacheState::Dirty as u8 && !core.blocks.is_given_up(block);
        let goes = |(block, &state): (u64, &u8)| match self.fresh {
            true => state != CacheState::Absent as u8,
            false => state != CacheState::Absent as u8 && !is_dirty(block, state),
        };
        let goes: Vec<bool> = (first..).zip(states).map(goes).collect();
        if !self.fresh {
            let dirty = (first..).zip(states).filter(|&(block, &state)| is_dirty(block, state));
            let dirty: Vec<u64> = dirty.map(|(block, _)| block).collect();
            for block in dirty {
                if block >= core.shape.blocks {
                    return self.fail(core, BEYOND_THE_STORE);
                }
                self.found.1 += 1;
                core.blocks.found_dirty(core.requests.now(), block);
            }
        }
        let mut at = 0;
        while at < goes.len() {
            let length = goes[at..].iter().take_while(|&&other| other == goes[at]).count();
            if goes[at] && !core.ends.is_read_only() {
                self.under_way += 1;
                let (lba, sectors) = ((first + at as u64) * unit, (length as u64 * unit) as u32);
                let part = Part { op: NIL, purpose: Purpose::Sweep, lba, sectors, ..Part::default() };
                core.requests.send(
                    Side::Flash,
                    part,
                    Command::new(0, Opcode::Cache(CacheOp::Evict), Lba(lba), sectors, Vec::new()),
                );
            }
            at += length;
        }
        self.next = part.lba + u64::from(part.sectors);
        self.sweep_on(core);
    }

    pub(super) fn swept(&mut self, core: &mut Core, status: Status) {
        assert!(self.under_way > 0, "an eviction ends that was not sent");
        self.under_way -= 1;
        if status != Status::Success && !core.ends.begin_read_only(!self.fresh) {
            return self.fail(core, "the cache drive does not evict what it holds");
        }
        if self.under_way == 0 && self.phase == Phase::Sweep {
            self.sweep_on(core);
        }
    }

    // ---- running

    /// Lets the cache run.
    pub(super) fn running(&mut self) {
        assert!(self.under_way == 0, "the start has ended its commands");
        (self.phase, self.begun) = (Phase::Running, true);
        self.fresh = false;
    }

    /// Opens a closed cache again.
    pub fn open_again(&mut self, core: &mut Core) {
        self.phase = Phase::Opening;
        match core.shape.keeps_content() && !core.ends.is_read_only() {
            true => self.write_head(core, Life::Open),
            false => self.running(),
        }
    }

    // ---- a head that finds no space

    /// Reports whether the head waits until dirty blocks are cleaned.
    #[inline]
    pub fn is_pressed(&self) -> bool {
        self.phase == Phase::Pressed
    }

    /// Notes what the cleaner did while the head waits, or is being written.
    #[inline]
    pub fn note(&mut self, effect: Effect) {
        if effect == Effect::FlashChanged && !self.is_running() {
            self.space_came = true;
        }
    }

    /// Lets the head wait until blocks are cleaned.
    pub(super) fn press(&mut self, core: &mut Core) {
        self.phase = Phase::Pressed;
        core.requests.count().found_full();
        core.emit(Effect::Full(core.blocks.dirty_count()));
    }

    /// Continues a waiting head: it is written again once blocks were cleaned. `cleans`: the cleaner is at work; if it cannot clean, the
    /// cache runs read only.
    pub fn press_on(&mut self, core: &mut Core, cleans: bool) {
        assert!(self.is_pressed(), "no head waits for space");
        if std::mem::take(&mut self.space_came) {
            self.write_head(core, Life::Open);
        } else if !cleans {
            core.ends.begin_read_only(true);
            self.running();
        }
    }

    /// Closes the cache: commands wait.
    pub fn close(&mut self) {
        assert!(self.is_running(), "only a running cache is closed");
        self.phase = Phase::Opening;
    }
}
