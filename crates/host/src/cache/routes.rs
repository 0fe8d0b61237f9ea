//! Routes between the objects: a completion goes to the path of its purpose, an operation continues when its parts have ended,
//! and effects go to the cleaner and the commits. Routes make no decisions; the order of calls is the order of events.

use super::clean::Parked;
use super::core::{Effect, Next};
use super::ends::{Activity, EndStep};
use super::head::Life;
use super::op::{Kind, Part, Purpose};
use super::records::COMMIT;
use super::{CacheConfig, CacheManager, CacheShape, clean, fill, read, trim, write};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Completion, Status};

impl CacheManager {
    // ---- operations

    /// Begins a command, or queues it for its blocks.
    #[inline]
    pub(super) fn enter(&mut self, op: u32) {
        match self.core.requests.op(op).kind() {
            Kind::Flush => self.commits.wait(op),
            Kind::Write | Kind::Trim if self.core.ends.is_read_only() => {
                self.core.requests.refuse(op, Status::ReadOnly);
            }
            _ if self.core.requests.admit(op, &self.core.blocks) => self.begin(op),
            _ => {}
        }
    }

    #[inline]
    fn begin(&mut self, op: u32) {
        let core = &mut self.core;
        match core.requests.op(op).kind() {
            Kind::Read => read::begin(core, op),
            Kind::Write => write::begin(core, op),
            Kind::Trim => trim::begin(core, op),
            Kind::Clean | Kind::Flush => unreachable!("only reads, writes and trims wait for blocks"),
        }
        self.pass_effects_on();
        self.went_on(op);
    }

    /// Continues `op` if none of its parts is in flight.
    #[inline]
    fn went_on(&mut self, op: u32) {
        let core = &mut self.core;
        if !core.requests.op(op).is_settled() {
            return;
        }
        let (mut next, mut parked) = (Next::Nothing, Parked::Stay);
        match core.requests.op(op).kind() {
            Kind::Read => read::goes_on(core, op),
            Kind::Write => next = write::goes_on(core, op),
            Kind::Trim => next = trim::goes_on(core, op),
            Kind::Clean => parked = self.cleaner.goes_on(core, op),
            Kind::Flush => unreachable!("a flush has no parts"),
        }
        self.pass_effects_on();
        self.unpark(parked);
        match next {
            Next::Nothing => {}
            Next::Commit => self.commits.wait(op),
            Next::Records => {
                self.records.queue_blocks_of(&mut self.core, op);
                self.went_on(op);
            }
        }
    }

    /// Passes the effects of the paths to the commits and the cleaner.
    #[inline]
    fn pass_effects_on(&mut self) {
        while let Some(effect) = self.core.next_effect() {
            self.commits.note(effect);
            self.start.note(effect);
            self.cleaner.note(effect, self.core.requests.now(), self.core.shape.config.fallow);
        }
    }

    /// Retries or fails the writes that wait for cleaned blocks, or neither.
    #[inline]
    fn unpark(&mut self, parked: Parked) {
        if parked != Parked::Stay {
            self.unpark_all(parked);
        }
    }

    fn unpark_all(&mut self, parked: Parked) {
        while let Some((part, data)) = self.core.requests.next_parked() {
            if parked == Parked::Retry {
                write::retry(&mut self.core, part, data);
            } else {
                write::give_up(&mut self.core, part, data);
                self.went_on(part.op);
            }
        }
    }

    // ---- completions

    /// Routes a completion to the path that sent its command.
    pub(super) fn ended(&mut self, completion: &mut Completion) {
        let part = self.core.requests.ended(completion);
        let (status, result) = (completion.status, completion.result);
        let data = std::mem::take(&mut completion.data);
        let core = &mut self.core;
        match part.purpose {
            Purpose::ReadFlash => read::flash_read(core, part, status, result, data),
            Purpose::ReadBacking => read::backing_read(core, part, status, data),
            Purpose::ReadStates => read::states_read(core, part, status, data),
            Purpose::FetchFlash | Purpose::FetchBacking => write::fetched(core, part, status, data),
            Purpose::WriteFlash(was_dirty) => write::flash_written(core, part, was_dirty, status, data),
            Purpose::WriteBacking => write::backing_written(core, part, status, data),
            Purpose::Evict(after_failure) => write::evicted(core, part, after_failure, status),
            Purpose::Fill => fill::filled(core, part, status, data),
            Purpose::ReplaceLost => write::replaced(core, part, status, data),
            Purpose::EvictReplaced => write::replaced_evicted(core, part, status),
            Purpose::EvictGivenUp => clean::given_up_evicted(core, status),
            Purpose::TrimBacking | Purpose::TrimFlush | Purpose::TrimEvict => trim::ended(core, part, status),
            Purpose::CleanRead | Purpose::CleanWrite | Purpose::CleanMark => {
                clean::part_ended(core, part, status, data);
            }
            Purpose::CleanFlush => self.copies_flushed(status),
            Purpose::FlushFlash | Purpose::FlushBacking => {
                if self.commits.flushed(core, &mut self.records, part.purpose, status) {
                    self.commit_ended();
                }
            }
            Purpose::Record => self.record_written(part, status, data),
            Purpose::Head => self.head_written(part, status, data),
            Purpose::Start => {
                self.start.goes_on(core, part, status, result, &data);
                self.started();
                self.core.requests.give_back(data);
            }
            Purpose::Sweep => {
                self.start.swept(core, status);
                self.started();
            }
        }
        self.pass_effects_on();
        if part.op != NIL {
            self.went_on(part.op);
        }
    }

    fn copies_flushed(&mut self, status: Status) {
        let runs = self.cleaner.flush_ended(&mut self.core, status);
        for &op in &runs {
            let parked = self.cleaner.run_flushed(&mut self.core, op, status);
            self.unpark(parked);
        }
        let parked = self.cleaner.all_flushed(runs, status);
        self.unpark(parked);
    }

    fn record_written(&mut self, part: Part, status: Status, data: Vec<u8>) {
        self.core.requests.give_back(data);
        let of = part.slot..part.slot + part.sectors;
        self.records.written(&mut self.core, of.clone(), status);
        if self.core.ends.records_written(status == Status::Success) {
            self.record_on();
        }
        while let Some(who) = self.records.next_done(&of) {
            self.record_done(who, status);
        }
    }

    fn record_done(&mut self, who: u32, status: Status) {
        if who == COMMIT {
            if self.commits.record_written(status) {
                self.commit_ended();
            }
            return;
        }
        let op = self.core.requests.op_mut(who);
        op.part_ended();
        if status != Status::Success {
            op.fail(status);
        }
        self.went_on(who);
    }

    fn head_written(&mut self, part: Part, status: Status, data: Vec<u8>) {
        self.core.requests.give_back(data);
        let life = self.start.head_written(&mut self.core, part, status);
        self.started();
        if let Some(life) = life {
            self.end_written(life, status);
        }
    }

    // ---- what happens without a completion

    /// Runs all pending consequences until none is left.
    #[inline]
    pub(super) fn pump(&mut self) {
        loop {
            while let Some(op) = self.core.requests.next_granted() {
                self.begin(op);
            }
            let goes_on = self.start.is_running() || self.start.is_pressed();
            let parked = self.cleaner.pump(&mut self.core, goes_on);
            self.unpark(parked);
            if self.start.is_pressed() {
                self.press_on();
            }
            self.pump_commits();
            while let Some(sector) = self.records.next() {
                self.records.write(&mut self.core, self.start.epoch(), sector..sector + 1);
            }
            if self.core.ends.is_under_way() {
                self.end_goes_on();
            }
            if !self.core.requests.has_granted() {
                return;
            }
        }
    }

    #[inline]
    fn pump_commits(&mut self) {
        while self.commits.is_due() {
            if self.commits.begin(&mut self.core, &mut self.records) {
                self.commit_ended();
            }
        }
    }

    fn commit_ended(&mut self) {
        let (mut ops, failed) = self.commits.end();
        for op in ops.drain(..) {
            let record = self.core.requests.op_mut(op);
            if let Some(status) = failed {
                record.fail(status);
            }
            match record.kind() {
                Kind::Flush => self.core.requests.end(op),
                _ => self.went_on(op),
            }
        }
        self.commits.put_ops(ops);
    }

    // ---- start

    /// Lets the waiting commands begin, if the cache has begun to run.
    fn started(&mut self) {
        let Some(waiting) = self.start.take_begun() else { return };
        if self.core.blocks.dirty_count() > 0 && !self.core.ends.is_read_only() {
            self.core.emit(Effect::Dirtied);
            self.pass_effects_on();
        }
        for op in waiting {
            self.enter(op);
        }
    }

    /// Continues a start whose head waits until blocks are cleaned.
    #[cold]
    fn press_on(&mut self) {
        let cleans = !self.cleaner.is_idle();
        self.start.press_on(&mut self.core, cleans);
        self.started();
    }

    /// Opens a stopped cache again for a command.
    pub(super) fn reopen(&mut self) {
        if self.core.ends.reopen() {
            self.start.open_again(&mut self.core);
            self.started();
        }
    }

    /// Starts again after a crash; see [`crate::Machine::restart`].
    pub(super) fn start_again(&mut self) {
        let lost = self.core.requests.lose_all();
        if self.core.shape.keeps_clean() {
            // Writes under way may have reached the backing store, or its write cache.
            let (now, end) = (self.core.requests.now(), self.core.shape.blocks);
            lost.into_iter().for_each(|blocks| {
                self.core.blocks.newer_below(now, blocks.start..blocks.end.min(end));
            });
        }
        let before = &self.core.shape;
        let config = CacheConfig { format: false, ..before.config.clone() };
        let shape = CacheShape { config, ..before.clone() };
        // A detached cache has nothing on the flash that it would have to find.
        let mut fresh = match self.core.ends.is_detached() {
            true => CacheManager::detached_life(shape),
            false => CacheManager::begin_life(shape, true),
        };
        fresh.core.requests.inherit(&mut self.core.requests);
        fresh.core.blocks.inherit(&mut self.core.blocks);
        *self = fresh;
    }

    // ---- stop and detach

    #[cold]
    fn end_goes_on(&mut self) {
        let core = &mut self.core;
        let (commits_are_idle, cleaner_is_idle) = (self.commits.is_idle(), self.cleaner.is_idle());
        let step = core.ends.step(Activity {
            is_idle: core.requests.is_idle() && cleaner_is_idle && commits_are_idle,
            commits_are_idle,
            cleaner_is_idle,
            is_dirtying: core.requests.is_dirtying(),
            dirty: core.blocks.dirty_count(),
            unreadable: core.blocks.unreadable(),
        });
        match step {
            EndStep::FlushAll => {
                // What came now would be behind the flush, and its blocks in no record.
                self.start.close();
                self.commits.flush_all();
                self.pump_commits();
            }
            EndStep::Record => {
                core.ends.begin_recording(self.commits.has_failed());
                self.record_on();
            }
            EndStep::Detach if core.shape.keeps_content() => self.start.write_head(core, Life::Detached),
            EndStep::Detach => core.ends.detach_without_head(),
            EndStep::Nothing | EndStep::Stopped | EndStep::Detached => {}
        }
    }

    /// Writes more runs of records; after the last one, writes the head.
    fn record_on(&mut self) {
        let core = &mut self.core;
        let keeps_content = core.shape.keeps_content();
        while keeps_content
            && !core.shape.is_ssc()
            && let Some(run) = core.ends.next_records(&core.blocks)
        {
            self.records.write(core, self.start.epoch(), run);
        }
        match core.ends.close() {
            None => {}
            Some(true) if keeps_content => self.start.write_head(core, Life::Closed),
            Some(_) => self.end_written(Life::Closed, Status::Success),
        }
    }

    fn end_written(&mut self, life: Life, status: Status) {
        match self.core.ends.head_written(life, status) {
            // Another command arrived meanwhile.
            EndStep::Stopped if self.start.has_waiting() => self.reopen(),
            EndStep::Detached => self.cleaner.rest(),
            _ => {}
        }
    }
}
