//! The arm: chooses its next operation, computes its time, and handles its end.

use super::shape::{SeekCurve, Shape};
use super::write_cache::Run;
use super::{Disk, DiskConfig};
use pellucid_flash::{Nanos, SimTime, Stage, Status};

/// The longest that a read waits while others, which are nearer, go first.
const PATIENCE: Nanos = Nanos::from_ms(500);
/// Cached writes that follow each other without a gap go to the platters together, up to this many bytes.
const RUN_BYTES: u64 = 1 << 20;

/// Task of the arm.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// A read command.
    Read(u32),
    /// A write command past the cache.
    Write(u32),
    /// Cached writes.
    Destage(Run),
}

/// The arm at work.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub task: Task,
    pub lba: u64,
    pub sectors: u64,
    /// The arm begins to move.
    pub begins: SimTime,
    /// The first sector passes the head.
    pub transfers: SimTime,
}

/// Reading on behind the last read.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    since: SimTime,
    from: u64,
    limit: u64,
}

/// The arm and what it is doing.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    pub operation: Option<Operation>,
    ahead: Option<Ahead>,
    /// Where the last operation ended.
    track: u64,
    lba: u64,
    curve: SeekCurve,
}

impl Arm {
    pub fn new(config: &DiskConfig, shape: &Shape) -> Arm {
        let curve = SeekCurve::new(config, shape.cylinders);
        Arm { operation: None, ahead: None, track: 0, lba: 0, curve }
    }

    /// The power was cut.
    pub fn stop(&mut self) {
        (self.operation, self.ahead) = (None, None);
    }
}

/// Time until the first sector passes the head: to the track, and until the platter has turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Positioning {
    pub total: Nanos,
    pub seek: Nanos,
}

/// A choice: where, how far away in time, and what.
type Choice = (Positioning, Chosen);

#[derive(Clone, Copy, Debug)]
enum Chosen {
    /// Position among the commands that wait for the arm.
    Command(usize),
    /// Address of a cached write.
    Cached(u64),
}

impl Disk {
    fn seek(&self, track: u64, write: bool) -> Nanos {
        let (here, there) = (self.shape.cylinder(self.arm.track), self.shape.cylinder(track));
        let settle = if write { self.config.write_settle } else { Nanos::ZERO };
        match here.abs_diff(there) {
            0 if self.arm.track == track => Nanos::ZERO,
            0 => self.config.head_switch + settle,
            distance => self.arm.curve.time(distance).max(self.config.head_switch) + settle,
        }
    }

    /// From now on until sector `lba` passes the head.
    fn positioning(&self, lba: u64, write: bool) -> Positioning {
        let place = self.shape.place(lba);
        let revolution = self.shape.revolution;
        let seek = self.seek(place.track, write);
        let arrives = (self.now.0 + seek.0) % revolution;
        let turn = (self.shape.angle(place) + revolution - arrives) % revolution;
        // An angle is rounded to nanoseconds: what follows the last sector is under the head now, not in a revolution.
        let turn = if revolution - turn < revolution / 2048 { 0 } else { turn };
        Positioning { total: seek + Nanos(turn), seek }
    }

    /// The end of reading ahead for a read that it reaches, if it runs.
    fn reached_ahead(&self, lba: u64, sectors: u64) -> Option<SimTime> {
        let Ahead { since, from, limit } = self.arm.ahead?;
        let end = lba + sectors;
        let done = from + self.shape.passed(from, limit - from, self.now.since(since));
        let segment = self.buffer.segment_sectors();
        let joins = lba <= done && from <= lba + segment && end > from && done < limit;
        joins.then(|| since + self.shape.transfer(from, end - from))
    }

    /// Takes what was read ahead by now into the buffer.
    pub(super) fn settle_ahead(&mut self) {
        if let Some(Ahead { since, from, limit }) = self.arm.ahead {
            let passed = self.shape.passed(from, limit - from, self.now.since(since));
            self.buffer.add(from..from + passed);
        }
    }

    /// Handles a read that was answered by the buffer and ends at `end`. If it is within the current read-ahead, the read-ahead continues
    /// for a segment beyond it; if the read-ahead has ended, it restarts when the host has half a segment left.
    pub(super) fn read_on(&mut self, end: u64) {
        let Some(Ahead { since, from, limit }) = self.arm.ahead else { return };
        let segment = self.buffer.segment_sectors();
        let further = self.config.sectors.min(end + segment);
        if end + segment < from || end > limit || further <= limit {
            return;
        }
        let done = from + self.shape.passed(from, limit - from, self.now.since(since));
        let now_at = done.min(limit - 1);
        (self.arm.track, self.arm.lba) = (self.shape.place(now_at).track, now_at + 1);
        self.arm.ahead = if done < limit {
            // From the track that it is on, so that a long stream costs no more to follow than a short one.
            let is_later = self.shape.place(done).track > self.shape.place(from).track;
            let (passed, from) =
                if is_later { self.shape.until_track(from, done) } else { (Nanos::ZERO, from) };
            Some(Ahead { since: since + passed, from, limit: further })
        } else if 2 * (limit - end) <= segment {
            let since = self.now + self.positioning(limit, false).total;
            Some(Ahead { since, from: limit, limit: further })
        } else {
            return;
        };
    }

    /// Starts what is next, if the arm is free and there is something.
    pub(super) fn start_operation(&mut self) {
        if self.arm.operation.is_some() {
            return;
        }
        match self.choose() {
            None => {}
            Some((_, Chosen::Command(at))) => {
                let slot = self.ready.remove(at);
                let (lba, sectors, write) = self.range_of(slot);
                let task = if write { Task::Write(slot) } else { Task::Read(slot) };
                self.begin(task, lba, sectors, write);
            }
            Some((_, Chosen::Cached(lba))) => {
                let run = self.cache.take(lba, RUN_BYTES / u64::from(self.config.sector_bytes));
                let sectors = run.sectors;
                self.begin(Task::Destage(run), lba, sectors, true);
            }
        }
    }

    fn begin(&mut self, task: Task, lba: u64, sectors: u64, write: bool) {
        let reached = if write { None } else { self.reached_ahead(lba, sectors) };
        self.settle_ahead();
        self.arm.ahead = None;
        let (transfers, ends) = match reached {
            Some(ends) => (self.now, ends.max(self.now)),
            None => {
                let positioning = self.positioning(lba, write);
                self.counters.seek_ns += positioning.seek.0;
                self.counters.rotation_ns += positioning.total.0 - positioning.seek.0;
                self.counters.operations += 1;
                let transfers = self.now + positioning.total;
                (transfers, transfers + self.shape.transfer(lba, sectors))
            }
        };
        self.counters.transfer_ns += ends.since(transfers).0;
        let retried = !write && self.is_unreadable(lba, sectors);
        let ends = if retried { ends + self.config.retry } else { ends };
        self.arm.operation = Some(Operation { task, lba, sectors, begins: self.now, transfers });
        self.schedule(ends, super::Event::Arm);
    }

    /// The arm is where the operation ended; a read goes on into the buffer.
    pub(super) fn rest_behind(&mut self, operation: &Operation) {
        let end = operation.lba + operation.sectors;
        self.arm.track = self.shape.place(end - 1).track;
        self.arm.lba = end;
        let limit = self.config.sectors.min(end + self.buffer.segment_sectors());
        if matches!(operation.task, Task::Read(_)) && end < limit {
            self.arm.ahead = Some(Ahead { since: self.now, from: end, limit });
        }
    }

    /// Reads before cached writes, unless a command waits for these; of each kind the nearest in time.
    fn choose(&self) -> Option<Choice> {
        let command = self.nearest_command();
        if let Some((_, Chosen::Command(at))) = command {
            let slot = &self.slots[self.ready[at] as usize];
            if self.now.since(slot.since) > PATIENCE {
                return command;
            }
        }
        let awaited = self.awaited.iter().map(|&(_, number)| number).min();
        let crowded = !self.room.is_empty() || 4 * self.cache.sectors() > 3 * self.cache_sectors;
        if command.is_some() && awaited.is_none() && !crowded {
            return command;
        }
        let cached = self.nearest_cached(awaited.unwrap_or(u64::MAX));
        [command, cached].into_iter().flatten().min_by_key(|(positioning, _)| *positioning)
    }

    fn nearest_command(&self) -> Option<Choice> {
        let mut best: Option<Choice> = None;
        for (at, &slot) in self.ready.iter().enumerate() {
            let (lba, sectors, write) = self.range_of(slot);
            let late = self.now.since(self.slots[slot as usize].since) > PATIENCE;
            let positioning = match self.reached_ahead(lba, sectors).filter(|_| !write) {
                Some(ends) => Positioning { total: ends.since(self.now), seek: Nanos::ZERO },
                None => self.positioning(lba, write),
            };
            if late {
                return Some((positioning, Chosen::Command(at)));
            }
            if best.is_none_or(|(least, _)| positioning < least) {
                best = Some((positioning, Chosen::Command(at)));
            }
        }
        best
    }

    /// Returns the nearest in time of the cached writes on both sides of the arm, among those with numbers up to `newest`.
    fn nearest_cached(&self, newest: u64) -> Option<Choice> {
        let mut best: Option<Choice> = None;
        let mut weigh = |(lba, since): (u64, u64)| {
            if since > newest {
                return true;
            }
            let track = self.shape.place(lba).track;
            if best.is_some_and(|(least, _)| self.seek(track, true) >= least.total) {
                return false;
            }
            let positioning = self.positioning(lba, true);
            if best.is_none_or(|(least, _)| positioning < least) {
                best = Some((positioning, Chosen::Cached(lba)));
            }
            true
        };
        let most = self.config.candidates.max(1) as usize;
        let _ = self.cache.above(self.arm.lba).take(most).all(&mut weigh);
        let _ = self.cache.below(self.arm.lba).take(most).all(&mut weigh);
        // All that are near may be younger than what is waited for.
        best.or_else(|| {
            let lba = self.cache.oldest_lba()?;
            Some((self.positioning(lba, true), Chosen::Cached(lba)))
        })
    }

    // ---- the end of an operation

    pub(super) fn arm_ended(&mut self) {
        let Some(operation) = self.arm.operation.take() else { return };
        self.rest_behind(&operation);
        let Operation { task, lba, sectors, begins, .. } = operation;
        match task {
            Task::Read(slot) => self.read_ended(slot, begins),
            Task::Write(slot) => {
                self.book_arm(slot, begins);
                let ok = self.reach_platters(lba, sectors);
                let data = self.written_data(slot);
                if ok {
                    self.images.write(lba, &data);
                }
                if let Some(command) = &mut self.slots[slot as usize].command {
                    command.data = data;
                }
                self.finish(slot, if ok { Status::Success } else { Status::WriteFault });
            }
            Task::Destage(run) => {
                if self.reach_platters(lba, sectors) {
                    self.images.write(lba, &run.images);
                } else {
                    self.lost = true;
                }
                self.cache.give_back(run);
                self.tell_awaited();
                self.admit_writes();
            }
        }
        self.start_operation();
    }

    /// Sectors have been written; says whether they hold.
    fn reach_platters(&mut self, lba: u64, sectors: u64) -> bool {
        self.counters.destaged_sectors += sectors;
        while let Some(&spoilt) = self.unreadable.range(lba..lba + sectors).next() {
            self.unreadable.remove(&spoilt);
        }
        !self.is_dead(lba, sectors)
    }

    /// Books what a command spent with the arm: waiting for it, then seek, rotation and its sectors under the head.
    fn book_arm(&mut self, slot: u32, begins: SimTime) {
        let record = &mut self.slots[slot as usize];
        record.stages.add(Stage::WaitWay, begins.since(record.since));
        record.since = record.since.max(begins);
        self.book(slot, Stage::Media);
    }

    fn read_ended(&mut self, slot: u32, begins: SimTime) {
        self.book_arm(slot, begins);
        let (lba, sectors, _) = self.range_of(slot);
        // Cached data newer than a spoilt sector are still good.
        if self.is_unreadable(lba, sectors) && !self.cache.covers(lba, sectors) {
            self.counters.unreadable += 1;
            return self.finish(slot, Status::UnrecoveredRead);
        }
        self.buffer.add(lba..lba + sectors);
        self.fill_read(slot);
        self.transfer(slot);
    }
}
