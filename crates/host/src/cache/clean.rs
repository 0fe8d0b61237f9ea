//! Cleaning: dirty blocks are written to the backing store, in the order of its addresses.
//!
//! ```text
//!  run of dirty blocks ─► read from the flash ─► written to the backing store ─► flush, for several runs ─► clean
//! ```
//! Blocks are cleaned in four cases: more blocks are dirty than the threshold allows, a region has been idle
//! for long, a command waits for space, or the cache is detached (then all of them). A block that is written
//! during its copy stays dirty.
//!
//! Runs start at a cursor, so the backing store sees ascending addresses. A dirty block takes its dirty neighbours within its set with it,
//! whatever is in flight, as in FlashCache (`flashcache_merge_writes`), which would otherwise write little at a time to a disk. So a turn
//! consists of several consecutive runs. Blocks that cannot be cleaned stay dirty and are retried after [`PAUSE`]; while no block is
//! cleaned, each pause is twice as long as the previous one, up to [`PAUSE_MAX`].

use super::core::{Core, Effect};
use super::op::{Part, Purpose, Side, Step};
use pellucid_flash::slab::NIL;
use pellucid_flash::{CacheOp, Command, Lba, Nanos, Opcode, SimTime, Status};
use std::ops::Range;

/// Maximum blocks in a run: an operation has a bit for each ([`Op::touch`](super::op::Op::touch)).
const RUN_MAX: u64 = 64;
/// Reasons that a detach fails.
const NOT_WRITTEN_BACK: &str =
    "a dirty block cannot be written back: the backing store or the cache drive answers with errors";
const NOT_READ: &str = "dirty blocks cannot be read from the cache drive; all others are written back";
/// Pause after a failure, and the longest after several: dirty blocks that can never be read are no work for every
/// second.
const PAUSE: Nanos = Nanos::from_secs(1);
const PAUSE_MAX: Nanos = Nanos::from_secs(3600);
/// Maximum number of locked runs that are skipped in one turn.
const TRIES: u32 = 8;

/// Fate of the writes that wait for cleaned blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Parked {
    Stay,
    /// Blocks were cleaned: they are tried again.
    Retry,
    /// No block will be cleaned soon: they fail.
    Fail,
}

/// Choice of the blocks to clean, and the runs that are under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Cleaner {
    /// Numbers of dirty blocks above which cleaning begins, and at which it ends.
    limits: [u64; 2],
    /// Number of dirty blocks at which the current cleaning ends.
    target: Option<u64>,
    /// Region that has not been written for long.
    region: Option<Range<u64>>,
    /// Time of the next check for such a region.
    fallow_at: Option<SimTime>,
    cursor: u64,
    /// Number of blocks in runs under way.
    busy: u64,
    /// Number of runs that are being read or written.
    copying: u32,
    /// Runs whose copies the backing store has, before their flush.
    copied: Vec<u32>,
    /// Runs covered by the flush under way.
    flushing: Vec<u32>,
    is_flushing: bool,
    /// End of the pause; no run begins before it. `pause`: its length; 0: blocks were cleaned since the last.
    paused: Option<SimTime>,
    pause: Nanos,
    /// A run has failed since the last successful one: blocks are tried one by one.
    troubled: bool,
    /// Number of blocks that the flash failed to read since that failure.
    unreadable: u64,
}

impl Cleaner {
    /// Creates the cleaner of a cache of `blocks` blocks, of which `percent` may be dirty.
    pub fn new(blocks: u64, percent: u32) -> Cleaner {
        let limit = (blocks * u64::from(percent) / 100).max(1);
        Cleaner { limits: [limit, limit - limit / 8], ..Cleaner::default() }
    }

    /// Returns the number of dirty blocks above which cleaning begins.
    pub fn limit(&self) -> u64 {
        self.limits[0]
    }

    /// Lowers the target after a command found no space.
    fn press(&mut self, dirty: u64) {
        let target = (dirty - dirty / 8).saturating_sub(1).min(self.limits[1]);
        self.target = Some(self.target.map_or(target, |before| before.min(target)));
    }

    /// Notes what a path did at `now`; `fallow`: time without writes after which a region is cleaned.
    #[inline]
    pub fn note(&mut self, effect: Effect, now: SimTime, fallow: Nanos) {
        match effect {
            Effect::Dirtied => self.dirtied(now, fallow),
            Effect::Full(dirty) => self.press(dirty),
            Effect::FlashChanged | Effect::BackingChanged | Effect::RecordsWanted => {}
        }
    }

    #[inline]
    fn dirtied(&mut self, now: SimTime, fallow: Nanos) {
        if self.fallow_at.is_none() && fallow > Nanos::ZERO {
            self.fallow_at = Some(now + fallow);
        }
    }

    #[inline]
    pub fn next_event(&self) -> Option<SimTime> {
        match (self.paused, self.fallow_at) {
            (Some(paused), Some(fallow)) => Some(paused.min(fallow)),
            (paused, fallow) => paused.or(fallow),
        }
    }

    /// Reports whether no run and no flush is in flight.
    pub fn is_idle(&self) -> bool {
        self.busy == 0 && !self.is_flushing
    }

    /// Cancels all timers.
    pub fn rest(&mut self) {
        (self.paused, self.fallow_at, self.region) = (None, None, None);
    }

    /// Starts all work that can start now; `goes_on`: new runs are allowed. Returns the fate of the parked
    /// writes.
    #[inline]
    pub fn pump(&mut self, core: &mut Core, goes_on: bool) -> Parked {
        if let Some(end) = &mut self.paused
            && (core.requests.has_parked() || core.ends.is_draining())
        {
            // Somebody waits for it.
            *end = (*end).min(core.requests.now() + PAUSE);
        }
        if self.next_event().is_some_and(|at| at <= core.requests.now()) {
            self.look_at_the_time(core);
        }
        let count = core.blocks.dirty_count();
        if count > self.limits[0] && self.target.is_none() {
            self.target = Some(self.limits[1]);
        }
        if count > 0 && self.paused.is_none() && goes_on && !core.ends.is_stopping() {
            self.begin_runs(core);
        }
        if !self.copied.is_empty() && !self.is_flushing {
            self.flush_copies(core);
        }
        // No space will appear, for instance because the waiting commands hold the dirty blocks.
        let is_stuck = core.requests.has_parked() && core.requests.is_quiet() && self.paused.is_none();
        if is_stuck { Parked::Fail } else { Parked::Stay }
    }

    #[cold]
    fn look_at_the_time(&mut self, core: &Core) {
        if self.paused.is_some_and(|at| at <= core.requests.now()) {
            self.paused = None;
        }
        if self.fallow_at.is_some_and(|at| at <= core.requests.now()) {
            let fallow = core.shape.config.fallow;
            self.fallow_at = match core.blocks.oldest_dirty() {
                Some((region, changed)) if changed + fallow <= core.requests.now() => {
                    self.region = Some(region);
                    Some(core.requests.now() + fallow)
                }
                Some((_, changed)) => Some(changed + fallow),
                None => None,
            };
        }
    }

    /// Returns the range to clean now, and the number of dirty blocks that may stay.
    fn wanted_clean(&mut self, core: &Core) -> Option<(Range<u64>, u64)> {
        let all = 0..core.shape.blocks;
        if core.ends.is_draining() || core.ends.is_read_only() || core.requests.has_parked() {
            return Some((all, 0));
        }
        match self.target {
            Some(target) if core.blocks.dirty_count() > target => return Some((all, target)),
            _ => self.target = None,
        }
        let region = self.region.clone()?;
        if core.blocks.next_dirty(region.start).is_some_and(|block| block < region.end) {
            return Some((region, 0));
        }
        // The next region is looked for at once.
        self.region = None;
        self.fallow_at = (core.blocks.dirty_count() > 0).then_some(core.requests.now());
        self.look_at_the_time(core);
        None
    }

    fn begin_runs(&mut self, core: &mut Core) {
        let (mut tries, mut laps) = (0, 0);
        while self.busy < u64::from(core.shape.config.clean_blocks) && tries < TRIES && laps < 2 {
            let Some((range, target)) = self.wanted_clean(core) else { return };
            if core.blocks.dirty_count() <= target + self.busy {
                return;
            }
            let cursor = self.cursor;
            let cursor = if range.contains(&cursor) { cursor } else { range.start };
            let Some(block) = core.blocks.next_dirty(cursor).filter(|&block| block < range.end) else {
                self.cursor = range.start;
                laps += 1;
                continue;
            };
            let begun = self.begin_turn(core, block, range.end);
            tries += u32::from(begun == 0);
            self.cursor = match begun {
                0 => block + core.blocks.dirty_run(block, RUN_MAX.min(range.end - block)).1,
                count => block + count,
            };
        }
    }

    /// Begins runs of the dirty blocks from `block` on, up to the end of its set or the first block that is not dirty or in use. Returns the
    /// number of their blocks.
    fn begin_turn(&mut self, core: &mut Core, block: u64, end: u64) -> u64 {
        let set = u64::from(core.shape.config.set_blocks);
        let end = end.min((block / set + 1) * set);
        let mut at = block;
        while at < end {
            // Behind a failure blocks are tried one by one.
            let most = if self.troubled { 1 } else { RUN_MAX.min(end - at) };
            let (is_dirty, mut count) = core.blocks.dirty_run(at, most);
            if !is_dirty {
                break;
            }
            while !self.begin_run(core, at, count) {
                if count == 1 {
                    return at - block;
                }
                count /= 2;
            }
            at += count;
            if self.troubled {
                break;
            }
        }
        at - block
    }

    fn begin_run(&mut self, core: &mut Core, block: u64, count: u64) -> bool {
        let Some(op) = core.requests.open_run(block..block + count) else { return false };
        self.busy += count;
        self.copying += 1;
        let buffer = core.requests.buffer(count * core.shape.block_sectors);
        core.requests.op_mut(op).put_aside(block * core.shape.block_sectors, buffer);
        let mut at = block;
        while at < block + count {
            let (slot, next) = side_by_side(core, at, block + count);
            let (lba, sectors) = core.shape.sectors_of(at..next);
            let part = Part { op, purpose: Purpose::CleanRead, lba, sectors, slot, direct: false };
            let (from, buffer) = (core.shape.flash_lba(slot, lba), core.requests.buffer(sectors.into()));
            core.requests.send(Side::Flash, part, Command::new(0, Opcode::Read, from, sectors, buffer));
            at = next;
        }
        true
    }

    /// Continues a run whose parts have ended. Returns what becomes of the parked writes.
    pub fn goes_on(&mut self, core: &mut Core, op: u32) -> Parked {
        let (step, failed) = (core.requests.op(op).step(), core.requests.op(op).has_failed());
        match step {
            Step::Data if failed => {
                self.copying_ended();
                self.run_unreadable(core, op)
            }
            Step::Backing if failed => {
                self.copying_ended();
                self.run_failed(core, op)
            }
            Step::Data => {
                let lba = core.requests.op(op).blocks().start * core.shape.block_sectors;
                let run = core.requests.op_mut(op);
                run.go_to(Step::Backing);
                let data = run.take_aside(lba);
                let sectors = (data.len() / core.shape.image_bytes) as u32;
                let part = Part { op, purpose: Purpose::CleanWrite, lba, sectors, slot: NIL, direct: false };
                let write = Command::new(0, Opcode::Write, Lba(lba), sectors, data);
                core.requests.send(Side::Backing, part, write);
                Parked::Stay
            }
            Step::Backing if core.shape.config.flush_cleaned => {
                core.requests.op_mut(op).go_to(Step::Flush);
                self.copying_ended();
                self.copied.push(op);
                Parked::Stay
            }
            Step::Backing => {
                self.copying_ended();
                self.mark_clean(core, op);
                self.some_cleaned()
            }
            _ if failed => self.run_failed(core, op),
            _ => {
                self.run_ends(core, op);
                Parked::Stay
            }
        }
    }

    fn copying_ended(&mut self) {
        assert!(self.copying > 0, "a run ends that did not begin");
        self.copying -= 1;
    }

    fn run_ends(&mut self, core: &mut Core, op: u32) {
        let blocks = core.requests.op(op).blocks();
        let count = blocks.end - blocks.start;
        assert!(self.busy >= count, "more blocks end than were cleaned");
        self.busy -= count;
        while let Some(buffer) = core.requests.op_mut(op).pop_aside() {
            core.requests.give_back(buffer);
        }
        core.requests.close(op);
    }

    /// Ends a failed run; its blocks stay dirty.
    fn run_failed(&mut self, core: &mut Core, op: u32) -> Parked {
        self.run_ends(core, op);
        self.give_up(core, NOT_WRITTEN_BACK)
    }

    /// Ends a run that the flash could not read: its blocks are tried one by one, and unreadable blocks are
    /// skipped while others can be read, or given up by a detach that was told to.
    fn run_unreadable(&mut self, core: &mut Core, op: u32) -> Parked {
        let run = core.requests.op(op);
        let blocks = run.blocks();
        let is_lost = run.is_unreadable() && !run.is_touched(blocks.start);
        self.run_ends(core, op);
        self.troubled = true;
        if blocks.end - blocks.start > 1 {
            self.cursor = blocks.start;
        } else if is_lost && core.ends.gives_up() {
            give_up_lost(core, blocks.start);
            return Parked::Retry;
        } else {
            if is_lost {
                core.blocks.lose(core.requests.now(), blocks.start);
            }
            self.unreadable += 1;
        }
        match self.unreadable >= core.blocks.dirty_count() {
            true => self.give_up(core, NOT_READ),
            false => Parked::Stay,
        }
    }

    /// Pauses cleaning after a failure.
    fn give_up(&mut self, core: &mut Core, why: &'static str) -> Parked {
        (self.troubled, self.unreadable) = (true, 0);
        self.pause = Nanos(2 * self.pause.0).clamp(PAUSE, PAUSE_MAX);
        self.paused = Some(core.requests.now() + self.pause);
        core.ends.cannot_clean(why);
        Parked::Fail
    }

    fn some_cleaned(&mut self) -> Parked {
        (self.troubled, self.unreadable, self.pause) = (false, 0, Nanos::ZERO);
        Parked::Retry
    }

    /// Flushes the backing store once for all copied runs, unless more runs are being copied than wait.
    fn flush_copies(&mut self, core: &mut Core) {
        if self.copying as usize > self.copied.len() {
            return;
        }
        assert!(self.flushing.is_empty(), "one flush at a time");
        std::mem::swap(&mut self.copied, &mut self.flushing);
        self.is_flushing = true;
        let part = Part { op: NIL, purpose: Purpose::CleanFlush, ..Part::default() };
        core.requests.send_flush(Side::Backing, part);
    }

    /// Returns the runs of the flush that has ended, for [`Cleaner::run_flushed`] of each.
    pub fn flush_ended(&mut self, core: &mut Core, status: Status) -> Vec<u32> {
        assert!(self.is_flushing, "a flush ends that was not sent");
        self.is_flushing = false;
        if status != Status::Success {
            core.requests.count().backing_write_failed();
        }
        std::mem::take(&mut self.flushing)
    }

    /// Continues a run after its flush. Returns what becomes of the parked writes.
    pub fn run_flushed(&mut self, core: &mut Core, op: u32, status: Status) -> Parked {
        match status {
            Status::Success => {
                self.mark_clean(core, op);
                Parked::Stay
            }
            _ => self.run_failed(core, op),
        }
    }

    /// Ends a flush whose runs have gone on. Returns what becomes of the parked writes.
    pub fn all_flushed(&mut self, mut runs: Vec<u32>, status: Status) -> Parked {
        assert!(self.flushing.is_empty(), "the runs of a flush go on before another one begins");
        runs.clear();
        self.flushing = runs;
        match status {
            Status::Success => self.some_cleaned(),
            _ => Parked::Stay,
        }
    }

    /// Marks the blocks of a flushed run clean. Blocks that were written meanwhile stay dirty.
    fn mark_clean(&mut self, core: &mut Core, op: u32) {
        core.requests.op_mut(op).go_to(Step::Mark);
        let run = core.requests.op(op);
        let blocks = run.blocks();
        if core.ends.is_read_only() {
            let cleaned = blocks.filter(|&block| core.blocks.written_back(block)).count();
            core.requests.count().cleaned(cleaned as u64);
            return self.run_ends(core, op);
        }
        if !core.shape.is_ssc() {
            let whole = blocks.filter(|&block| !run.is_touched(block));
            let cleaned = whole.filter(|&block| core.blocks.cleaned(block)).count();
            core.requests.count().cleaned(cleaned as u64);
            core.emit(Effect::RecordsWanted);
            return self.run_ends(core, op);
        }
        core.requests.mark(op);
        let mut at = blocks.start;
        while at < blocks.end {
            let run = core.requests.op(op);
            let is_touched = run.is_touched(at);
            let next = (at..blocks.end).find(|&block| run.is_touched(block) != is_touched);
            let next = next.unwrap_or(blocks.end);
            if !is_touched {
                let (lba, sectors) = core.shape.sectors_of(at..next);
                let part = Part { op, purpose: Purpose::CleanMark, lba, sectors, slot: NIL, direct: false };
                let clean = Command::new(0, Opcode::Cache(CacheOp::Clean), Lba(lba), sectors, Vec::new());
                core.requests.send(Side::Flash, part, clean);
            }
            at = next;
        }
        if core.requests.op(op).is_settled() {
            self.run_ends(core, op);
        }
    }
}

/// Returns the slot of a dirty block, and the end of the blocks whose slots follow it in order.
fn side_by_side(core: &Core, block: u64, end: u64) -> (u32, u64) {
    if core.shape.is_ssc() {
        return (NIL, end);
    }
    let slot = core.blocks.find(block).expect("a dirty block has a slot");
    let follows = |&other: &u64| core.blocks.find(other) == Some(slot + (other - block) as u32);
    let count = (block + 1..end).take_while(follows).count() as u64;
    (slot, block + 1 + count)
}

/// Gives up a lost block, and has the flash note it, so that no later start finds it dirty.
fn give_up_lost(core: &mut Core, block: u64) {
    core.blocks.lose(core.requests.now(), block);
    core.blocks.give_up(block);
    core.requests.count().gave_up();
    if core.ends.is_read_only() {
        return;
    }
    if !core.shape.is_ssc() {
        return core.emit(Effect::RecordsWanted);
    }
    let (lba, sectors) = core.shape.sectors_of(block..block + 1);
    let part = Part { op: NIL, purpose: Purpose::EvictGivenUp, lba, sectors, ..Part::default() };
    let evict = Command::new(0, Opcode::Cache(CacheOp::Evict), Lba(lba), sectors, Vec::new());
    core.requests.send(Side::Flash, part, evict);
}

/// Handles the end of an eviction of a block that was given up. One that failed is not tried again: this program remembers the block.
pub(super) fn given_up_evicted(core: &mut Core, status: Status) {
    match status {
        Status::Success => core.emit(Effect::FlashChanged),
        _ => core.requests.count().flash_write_failed(),
    }
}

/// Handles the end of a part of a run.
pub(super) fn part_ended(core: &mut Core, part: Part, status: Status, data: Vec<u8>) {
    match (part.purpose, status) {
        (Purpose::CleanRead, Status::Success) => {
            core.requests.op_mut(part.op).gather(part.lba, &data, core.shape.image_bytes);
        }
        (Purpose::CleanMark, Status::Success) => {
            core.emit(Effect::FlashChanged);
            let cleaned = core.shape.blocks_in(part).filter(|&block| core.blocks.cleaned(block)).count();
            core.requests.count().cleaned(cleaned as u64);
        }
        (Purpose::CleanWrite, Status::Success) => {}
        (Purpose::CleanRead, _) => core.requests.count().flash_read_failed(),
        (Purpose::CleanMark, _) => {
            core.requests.count().flash_write_failed();
            let now = core.requests.now();
            core.shape.blocks_in(part).for_each(|block| core.blocks.doubt(now, block));
        }
        _ => core.requests.count().backing_write_failed(),
    }
    core.requests.give_back(data);
    if status != Status::Success {
        core.requests.op_mut(part.op).fail(status);
    }
}
