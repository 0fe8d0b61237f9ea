//! Cleaning: dirty blocks are written to the backing store, in the order of its addresses.
//!
//! ```text
//!  run of dirty blocks ─► read from the flash ─► written to the backing store ─► flush, for several runs ─► clean
//! ```
//! Blocks are cleaned in four cases: more blocks are dirty than the threshold allows, a region has been idle
//! for long, a command waits for space, or the cache is detached (then all of them). A block that is written
//! during its copy stays dirty.
//!
//! Runs start at a cursor, so the backing store sees ascending addresses. Blocks that cannot be cleaned stay
//! dirty, and are tried again after [`PAUSE`].

use super::{Backend, CacheManager, Kind, Op, Part, Purpose, Side, Step};
use crate::cache::locks::{Held, Hold};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Lba, Nanos, Opcode, SimTime, StageTimes, Status, copy_images};
use std::ops::Range;

/// Maximum blocks in a run: one bit of [`Op::touched`] for each.
const RUN_MAX: u64 = 64;
/// Pause after a failure.
const PAUSE: Nanos = Nanos::from_secs(1);
/// Maximum number of locked runs that are skipped in one turn.
const TRIES: u32 = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Cleaner {
    /// Dirty blocks above which cleaning begins, and at which it ends.
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
    /// End of the pause; no run begins before it.
    paused: Option<SimTime>,
    /// A run has failed since the last successful one: blocks are tried one by one.
    troubled: bool,
    /// Number of blocks that the flash failed to read since that failure.
    unreadable: u64,
    /// Writes that wait for cleaned blocks.
    pub parked: Vec<(Part, Vec<u8>)>,
}

impl Cleaner {
    pub fn set_threshold(&mut self, blocks: u64, percent: u32) {
        let limit = (blocks * u64::from(percent) / 100).max(1);
        self.limits = [limit, limit - limit / 8];
    }

    /// Returns the number of dirty blocks above which cleaning begins.
    pub fn limit(&self) -> u64 {
        self.limits[0]
    }

    /// Lowers the target after a command found no space.
    pub fn press(&mut self, dirty: u64) {
        let target = (dirty - dirty / 8).saturating_sub(1).min(self.limits[1]);
        self.target = Some(self.target.map_or(target, |before| before.min(target)));
    }

    #[inline]
    pub fn dirtied(&mut self, now: SimTime, fallow: Nanos) {
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

    /// Reports whether no run and no flush is under way.
    pub fn is_idle(&self) -> bool {
        self.busy == 0 && !self.is_flushing
    }

    /// Cancels all timers.
    pub fn rest(&mut self) {
        (self.paused, self.fallow_at, self.region) = (None, None, None);
    }
}

impl CacheManager {
    #[inline]
    pub(super) fn pump_cleaner(&mut self) {
        if self.cleaner.next_event().is_some_and(|at| at <= self.now) {
            self.look_at_the_time();
        }
        let count = self.dirty.count();
        if count > self.cleaner.limits[0] && self.cleaner.target.is_none() {
            self.cleaner.target = Some(self.cleaner.limits[1]);
        }
        let goes_on = self.start.is_running() && !self.ending.is_stopping();
        if count > 0 && self.cleaner.paused.is_none() && goes_on {
            self.begin_runs();
        }
        if !self.cleaner.copied.is_empty() && !self.cleaner.is_flushing {
            self.flush_copies();
        }
        // No space will appear, for instance because the waiting commands hold the dirty blocks.
        if !self.cleaner.parked.is_empty() && self.parts.in_use() == 0 && self.cleaner.paused.is_none() {
            self.unpark(false);
        }
    }

    #[cold]
    fn look_at_the_time(&mut self) {
        if self.cleaner.paused.is_some_and(|at| at <= self.now) {
            self.cleaner.paused = None;
        }
        if self.cleaner.fallow_at.is_some_and(|at| at <= self.now) {
            let fallow = self.config.fallow;
            self.cleaner.fallow_at = match self.dirty.oldest() {
                Some((region, changed)) if changed + fallow <= self.now => {
                    self.cleaner.region = Some(region);
                    Some(self.now + fallow)
                }
                Some((_, changed)) => Some(changed + fallow),
                None => None,
            };
        }
    }

    /// Returns the range to clean now, and the number of dirty blocks that may stay.
    fn wanted_clean(&mut self) -> Option<(Range<u64>, u64)> {
        let all = 0..self.blocks;
        if self.ending.is_draining() || self.read_only || !self.cleaner.parked.is_empty() {
            return Some((all, 0));
        }
        match self.cleaner.target {
            Some(target) if self.dirty.count() > target => return Some((all, target)),
            _ => self.cleaner.target = None,
        }
        let region = self.cleaner.region.clone()?;
        if self.dirty.next(region.start).is_some_and(|block| block < region.end) {
            return Some((region, 0));
        }
        // The next region is looked for at once.
        self.cleaner.region = None;
        self.cleaner.fallow_at = (self.dirty.count() > 0).then_some(self.now);
        self.look_at_the_time();
        None
    }

    fn begin_runs(&mut self) {
        let (mut tries, mut laps) = (0, 0);
        while self.cleaner.busy < u64::from(self.config.clean_blocks) && tries < TRIES && laps < 2 {
            let Some((range, target)) = self.wanted_clean() else { return };
            if self.dirty.count() <= target + self.cleaner.busy {
                return;
            }
            let cursor = self.cleaner.cursor;
            let cursor = if range.contains(&cursor) { cursor } else { range.start };
            let Some(block) = self.dirty.next(cursor).filter(|&block| block < range.end) else {
                self.cleaner.cursor = range.start;
                laps += 1;
                continue;
            };
            // A run is not shortened to fit other runs or the number of blocks to clean; otherwise the
            // backing store would see many small writes.
            let most = RUN_MAX.min(range.end - block);
            let most = if self.cleaner.troubled { 1 } else { most };
            let (_, count) = self.dirty.run(block, most);
            let begun = self.begin_run(block, count) || (count > 1 && self.begin_run(block, 1));
            self.cleaner.cursor = block + if begun { count } else { 1 };
            tries += u32::from(!begun);
        }
    }

    fn begin_run(&mut self, block: u64, count: u64) -> bool {
        let op = self.ops.take();
        if !self.locks.try_take(Held { first: block, end: block + count, hold: Hold::Clean, op }) {
            self.ops.release(op);
            return false;
        }
        let record = &mut self.ops[op];
        (record.kind, record.step, record.first, record.end) =
            (Kind::Clean, Step::Data, block, block + count);
        (record.left, record.status, record.touched, record.bypass) = (0, None, 0, false);
        (record.command, record.stages) = (None, StageTimes::ZERO);
        self.cleaner.busy += count;
        self.cleaner.copying += 1;
        let buffer = self.buffer(count * self.block_sectors);
        self.ops[op].aside.push((block * self.block_sectors, buffer));
        let mut at = block;
        while at < block + count {
            let (slot, next) = self.side_by_side(at, block + count);
            let (lba, sectors) = (at * self.block_sectors, (next - at) * self.block_sectors);
            let part =
                Part { op, purpose: Purpose::CleanRead, lba, sectors: sectors as u32, slot, direct: false };
            let (from, buffer) = (self.flash_lba(slot, lba), self.buffer(sectors));
            self.send(Side::Flash, part, Command::new(0, Opcode::Read, from, sectors as u32, buffer));
            at = next;
        }
        true
    }

    /// Returns the slot of a dirty block, and the end of the blocks whose slots follow it in order.
    fn side_by_side(&self, block: u64, end: u64) -> (u32, u64) {
        let Backend::Block(slots) = &self.backend else { return (NIL, end) };
        let slot = slots.find(block).expect("a dirty block has a slot");
        let follows = |&other: &u64| slots.find(other) == Some(slot + (other - block) as u32);
        let count = (block + 1..end).take_while(follows).count() as u64;
        (slot, block + 1 + count)
    }

    pub(super) fn copied(&mut self, part: Part, status: Status, data: Vec<u8>) {
        let op = part.op;
        match (part.purpose, status) {
            (Purpose::CleanRead, Status::Success) => {
                let image = self.image_bytes;
                let (lba, run) = &mut self.ops[op].aside[0];
                let at = (part.lba - *lba) as usize * image;
                copy_images(&mut run[at..at + data.len()], &data);
            }
            (Purpose::CleanMark, Status::Success) => {
                self.commit.flash_changed();
                let first = part.lba / self.block_sectors;
                (first..first + u64::from(part.sectors) / self.block_sectors)
                    .for_each(|block| self.is_clean(block));
            }
            (Purpose::CleanWrite, Status::Success) => {}
            (Purpose::CleanRead, _) => self.counters.flash_read_errors += 1,
            (Purpose::CleanMark, _) => {
                self.counters.flash_write_errors += 1;
                for block in self.blocks_in(part) {
                    self.doubtful.insert(self.now, block);
                }
            }
            _ => self.counters.backing_write_errors += 1,
        }
        self.give_back(data);
        if status != Status::Success {
            self.fail(op, status);
        }
    }

    fn is_clean(&mut self, block: u64) {
        self.doubtful.remove(block);
        self.counters.cleaned += u64::from(self.dirty.remove(block));
        if let Backend::Block(slots) = &mut self.backend {
            slots.cleaned(block);
        }
    }

    pub(super) fn clean_goes_on(&mut self, op: u32) {
        let Op { step, status, .. } = self.ops[op];
        match step {
            Step::Data if status.is_some() => {
                self.cleaner.copying -= 1;
                self.run_unreadable(op);
            }
            Step::Backing if status.is_some() => {
                self.cleaner.copying -= 1;
                self.run_failed(op);
            }
            Step::Data => {
                self.ops[op].step = Step::Backing;
                let (lba, data) = self.ops[op].aside.pop().expect("what was read");
                let sectors = (data.len() / self.image_bytes) as u32;
                let part = Part { op, purpose: Purpose::CleanWrite, lba, sectors, slot: NIL, direct: false };
                self.send(Side::Backing, part, Command::new(0, Opcode::Write, Lba(lba), sectors, data));
            }
            Step::Backing if self.config.flush_cleaned => {
                self.ops[op].step = Step::Flush;
                self.cleaner.copying -= 1;
                self.cleaner.copied.push(op);
            }
            Step::Backing => {
                self.cleaner.copying -= 1;
                self.mark_clean(op);
                self.some_cleaned();
            }
            _ if status.is_some() => self.run_failed(op),
            _ => self.run_ends(op),
        }
    }

    fn run_ends(&mut self, op: u32) {
        self.cleaner.busy -= self.ops[op].end - self.ops[op].first;
        while let Some((_, buffer)) = self.ops[op].aside.pop() {
            self.give_back(buffer);
        }
        self.close(op);
    }

    /// Ends a failed run; its blocks stay dirty.
    fn run_failed(&mut self, op: u32) {
        self.run_ends(op);
        self.give_up(
            "a dirty block cannot be written back: the backing store or the cache drive answers with errors",
        );
    }

    /// Ends a run that the flash could not read: its blocks are tried one by one, and unreadable blocks are
    /// skipped while others can be read.
    fn run_unreadable(&mut self, op: u32) {
        let (first, count) = (self.ops[op].first, self.ops[op].end - self.ops[op].first);
        self.run_ends(op);
        self.cleaner.troubled = true;
        match count {
            1 => self.cleaner.unreadable += 1,
            _ => self.cleaner.cursor = first,
        }
        if self.cleaner.unreadable >= self.dirty.count() {
            self.give_up("dirty blocks cannot be read from the cache drive; all others are written back");
        }
    }

    /// Pauses cleaning after a failure.
    fn give_up(&mut self, why: &'static str) {
        (self.cleaner.troubled, self.cleaner.unreadable) = (true, 0);
        self.cleaner.paused = Some(self.now + PAUSE);
        self.ending.cannot_clean(why);
        self.unpark(false);
    }

    fn some_cleaned(&mut self) {
        (self.cleaner.troubled, self.cleaner.unreadable) = (false, 0);
        self.unpark(true);
    }

    /// Flushes the backing store once for all copied runs, unless more runs are being copied than wait.
    fn flush_copies(&mut self) {
        let cleaner = &mut self.cleaner;
        if cleaner.copying as usize > cleaner.copied.len() {
            return;
        }
        std::mem::swap(&mut cleaner.copied, &mut cleaner.flushing);
        cleaner.is_flushing = true;
        let part = Part { op: NIL, purpose: Purpose::CleanFlush, ..Part::default() };
        self.send(Side::Backing, part, Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
    }

    pub(super) fn copies_flushed(&mut self, status: Status) {
        self.cleaner.is_flushing = false;
        let mut runs = std::mem::take(&mut self.cleaner.flushing);
        self.counters.backing_write_errors += u64::from(status != Status::Success);
        for op in runs.drain(..) {
            match status {
                Status::Success => self.mark_clean(op),
                _ => self.run_failed(op),
            }
        }
        self.cleaner.flushing = runs;
        if status == Status::Success {
            self.some_cleaned();
        }
    }

    /// Marks the blocks of a flushed run clean. Blocks that were written meanwhile stay dirty.
    fn mark_clean(&mut self, op: u32) {
        let Op { first, end, touched, .. } = self.ops[op];
        self.ops[op].step = Step::Mark;
        let is_touched = |block: u64| touched >> (block - first) & 1 == 1;
        if self.read_only {
            (first..end).for_each(|block| self.is_written_back(block));
            return self.run_ends(op);
        }
        if let Backend::Block(_) = &self.backend {
            (first..end).filter(|&block| !is_touched(block)).for_each(|block| self.is_clean(block));
            self.commit.want_records();
            return self.run_ends(op);
        }
        self.locks.mark(op);
        let mut at = first;
        while at < end {
            let next = (at..end).find(|&block| is_touched(block) != is_touched(at)).unwrap_or(end);
            if !is_touched(at) {
                let (lba, sectors) = (at * self.block_sectors, (next - at) * self.block_sectors);
                let part = Part {
                    op,
                    purpose: Purpose::CleanMark,
                    lba,
                    sectors: sectors as u32,
                    slot: NIL,
                    direct: false,
                };
                self.send(
                    Side::Flash,
                    part,
                    Command::new(0, Opcode::Clean, Lba(lba), sectors as u32, Vec::new()),
                );
            }
            at = next;
        }
        if self.ops[op].left == 0 {
            self.run_ends(op);
        }
    }
}
