//! Ends of a cache: a stop, after which the next start finds it warm; a detach, after which the backing store holds all
//! data; and a flash that refuses writes.
//!
//! ```text
//!  stop    commands and cleaning end, new commands wait ─► flushes and records ─► block backend: records of all slots ─► head: closed
//!  detach  new data go around, everything is cleaned ─► head: detached ─► all commands go to the backing store
//! ```
//! A command to a stopped cache opens it again first. A stop ends a detach that still writes back.
//!
//! # Degraded, and read only
//!
//! If the flash stops taking writes while the cache runs, the cache is *degraded*: new data go to the backing store.
//! A known cache is *read only* if its flash takes no writes at the start: its head cannot be written, or a solid-state
//! cache cannot evict.
//!
//! No data are lost: dirty blocks are read from the flash, all others from the backing store, and dirty
//! blocks are written back at once. Nothing else changes on either drive, because the flash cannot record it:
//! a block that was written back is still dirty on the flash, and the next start writes the same data back
//! again. That would undo newer data in the backing store, so new data are refused. Clean copies in a
//! solid-state cache would have to be evicted, so they are not read.
//!
//! A detach ends this state if the head can be written by then; otherwise it reports that all data are
//! written back, and new data stay refused.
//!
//! A cache with unreadable records also begins read only. A block is not read at all if such a record may
//! have called it dirty and no other record names it, because the backing store may have older data. Such a
//! cache is never detached; a new one replaces it (`format`).

use super::blocks::Blocks;
use super::head::Life;
use super::start::{DEPTH, RUN_SECTORS};
use pellucid_flash::Status;
use std::ops::Range;

/// Reason that a cache cannot be detached if its flash takes no writes.
const NOT_TOLD: &str = "everything is written back, but the cache drive takes no writes and cannot be told so; use the backing store without \
                        it, and never start a cache with both again";

/// As [`NOT_TOLD`], where the detach has given up blocks.
const REST_NOT_TOLD: &str = "everything that can be read is written back, but the cache drive takes no writes and cannot be told so; use the backing store \
                             without it, and never start a cache with both again";

/// Reason that a detach failed that a stop has ended.
const STOPPED: &str =
    "the cache was stopped before everything was written back, and keeps the rest for its next start";

/// Reason that a cache cannot be detached if some of its records are unreadable.
const SOME_LOST: &str = "what is known to be dirty is written back; records of the cache cannot be read, so what only they called dirty is lost; \
                         use the backing store without the cache, or make a new one (--format)";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The cache is in use.
    #[default]
    None,
    /// Waiting for commands and cleaning under way.
    Stopping,
    /// Flushing the drives and writing records.
    Committing,
    /// Writing the records of all slots, except where neither the old nor the new record has content.
    Recording,
    /// Writing the head.
    Closing,
    Stopped,
    /// Writing back all dirty blocks.
    Draining,
    /// Writing the head.
    Detaching,
    Detached,
}

/// Use of the cache: whether it is stopped or detached, and accepts new data.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    phase: Phase,
    /// Reason that the last detach failed.
    failed: Option<&'static str>,
    /// Number of record writes of a stop under way.
    left: u32,
    /// Next record sector that a stop writes.
    next: u32,
    /// The cache cannot be stopped in order; the next start finds it as after a crash.
    broken: bool,
    /// The flash has stopped taking writes.
    degraded: bool,
    /// The flash took no write at the start.
    read_only: bool,
    /// The detach under way drops blocks that the flash cannot read.
    gives_up: bool,
    /// A stop was asked for.
    stops: bool,
}

/// Activity of the rest of the cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activity {
    /// No operation, cleaning or commit is under way.
    pub is_idle: bool,
    pub commits_are_idle: bool,
    pub cleaner_is_idle: bool,
    /// A write is under way that makes blocks dirty.
    pub is_dirtying: bool,
    pub dirty: u64,
    /// Number of unreadable record sectors.
    pub unreadable: u64,
}

/// Next step of a stop or a detach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndStep {
    Nothing,
    /// Let commands wait, flush both drives, and write the records.
    FlushAll,
    /// Record all slots.
    Record,
    /// Write a detached head.
    Detach,
    /// No work is done until a command arrives.
    Stopped,
    /// All commands go to the backing store.
    Detached,
}

impl Ends {
    pub fn is_stopped(&self) -> bool {
        matches!(self.phase, Phase::Stopped | Phase::Detached)
    }

    /// Reports whether a stop is in progress or complete; cleaning then starts no new work.
    pub fn is_stopping(&self) -> bool {
        matches!(
            self.phase,
            Phase::Stopping | Phase::Committing | Phase::Recording | Phase::Closing | Phase::Stopped
        )
    }

    #[inline]
    pub fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining | Phase::Detaching)
    }

    #[inline]
    pub fn is_detached(&self) -> bool {
        self.phase == Phase::Detached
    }

    /// Reports whether a stop or a detach is in progress.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        self.phase != Phase::None && self.phase != Phase::Detached
    }

    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Reports whether new data go to the backing store, and nothing is filled.
    #[inline]
    pub fn takes_nothing_new(&self) -> bool {
        self.degraded || self.read_only || self.is_draining() || self.is_detached()
    }

    /// Notes that the flash failed a write.
    pub fn write_failed(&mut self, status: Status) {
        self.degraded |= status == Status::ReadOnly;
    }

    /// Notes that a cache starts with a flash that refuses writes. Returns whether it can continue read only: a `known` cache can, a
    /// new one cannot.
    pub fn begin_read_only(&mut self, known: bool) -> bool {
        self.read_only |= known;
        known
    }

    // ---- detach

    /// Begins a detach, unless a stop is under way; `give_up`: it drops dirty blocks that the flash cannot read.
    pub fn detach(&mut self, give_up: bool) {
        if self.phase == Phase::None {
            self.restart_as(Phase::Draining);
            self.gives_up = give_up;
        }
    }

    /// Reports whether a detach is in progress that drops blocks unreadable on the flash.
    pub fn gives_up(&self) -> bool {
        self.gives_up && self.phase == Phase::Draining
    }

    /// Notes that a dirty block could not be cleaned; a detach then fails.
    pub fn cannot_clean(&mut self, why: &'static str) {
        if self.phase == Phase::Draining {
            self.phase = Phase::None;
            self.failed = Some(why);
        }
    }

    /// Returns the result of the last detach; `None` while it is in progress, or if there was none.
    pub fn detached(&self) -> Option<Result<(), &'static str>> {
        match self.phase {
            Phase::Detached => Some(Ok(())),
            Phase::Draining | Phase::Detaching => None,
            _ => self.failed.map(Err),
        }
    }

    /// Goes on as after a detach, in a new life.
    pub fn stay_detached(&mut self) {
        self.phase = Phase::Detached;
    }

    /// Ends a detach of a cache that has no head.
    pub fn detach_without_head(&mut self) {
        assert_eq!(self.phase, Phase::Detaching, "a detach is under way");
        self.phase = Phase::Detached;
    }

    // ---- stop

    /// Begins a stop, which ends a detach that still writes back. Returns `false` if the cache ends already.
    pub fn stop(&mut self) -> bool {
        if self.phase == Phase::Draining {
            self.failed = Some(STOPPED);
            self.phase = Phase::None;
        }
        // A head on its way decides whether there is anything left to stop.
        self.stops = true;
        let begins = self.phase == Phase::None;
        if begins {
            self.phase = Phase::Stopping;
        }
        begins
    }

    /// Puts a stopped cache into use again. Returns `false` if it is not stopped.
    pub fn reopen(&mut self) -> bool {
        let is_stopped = self.phase == Phase::Stopped;
        if is_stopped {
            self.restart_as(Phase::None);
        }
        is_stopped
    }

    /// Begins another phase; forgets the remains of an earlier end, but not whether the flash
    /// accepts writes.
    fn restart_as(&mut self, phase: Phase) {
        assert_eq!(self.left, 0, "records are under way");
        *self = Ends { phase, degraded: self.degraded, read_only: self.read_only, ..Ends::default() };
    }

    /// Continues a stop or a detach; returns the next action.
    pub fn step(&mut self, now: Activity) -> EndStep {
        match self.phase {
            Phase::Stopping if now.is_idle => {
                self.phase = Phase::Committing;
                EndStep::FlushAll
            }
            Phase::Committing if now.commits_are_idle => EndStep::Record,
            Phase::Draining if now.dirty == 0 && now.unreadable > 0 => {
                self.cannot_clean(SOME_LOST);
                EndStep::Nothing
            }
            Phase::Draining if now.dirty == 0 && !now.is_dirtying && now.cleaner_is_idle => {
                self.phase = Phase::Detaching;
                EndStep::Detach
            }
            _ => EndStep::Nothing,
        }
    }

    /// Begins to record all slots, once all data are on the drives; `failed`: some may not be.
    pub fn begin_recording(&mut self, failed: bool) {
        assert!(self.phase == Phase::Committing && self.left == 0, "records follow a commit");
        self.broken |= failed || self.read_only;
        self.phase = Phase::Recording;
    }

    /// Returns the next run of record sectors to write; `None` if none is left, or enough are in flight.
    pub fn next_records(&mut self, blocks: &Blocks) -> Option<Range<u32>> {
        if self.broken || self.left >= DEPTH {
            return None;
        }
        let run = blocks.next_to_record(self.next, RUN_SECTORS);
        self.next = run.end;
        if run.is_empty() {
            return None;
        }
        self.left += 1;
        Some(run)
    }

    /// Notes the end of a write of records. Returns `false` if it was none of a stop.
    pub fn records_written(&mut self, written: bool) -> bool {
        if self.phase != Phase::Recording {
            return false;
        }
        assert!(self.left > 0, "records are written that a stop did not send");
        self.broken |= !written;
        self.left -= 1;
        true
    }

    /// Begins to write the head, if all records are written. Returns whether it may record that the cache was closed cleanly;
    /// `None` while records are in flight.
    pub fn close(&mut self) -> Option<bool> {
        assert_eq!(self.phase, Phase::Recording, "the head follows the records");
        (self.left == 0).then(|| {
            self.phase = Phase::Closing;
            !self.broken
        })
    }

    /// Notes the result of a write of the head.
    pub fn head_written(&mut self, life: Life, status: Status) -> EndStep {
        let done = status == Status::Success;
        match (self.phase, life) {
            (Phase::Closing, Life::Closed) => {
                self.phase = Phase::Stopped;
                self.broken |= !done;
                EndStep::Stopped
            }
            (Phase::Detaching, Life::Detached) if done => {
                self.phase = Phase::Detached;
                self.read_only = false;
                EndStep::Detached
            }
            (Phase::Detaching, _) => {
                self.phase = if self.stops { Phase::Stopping } else { Phase::None };
                self.failed = Some(if self.gives_up { REST_NOT_TOLD } else { NOT_TOLD });
                EndStep::Nothing
            }
            _ => EndStep::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Activity of an idle cache without dirty blocks.
    const REST: Activity = Activity {
        is_idle: true,
        commits_are_idle: true,
        cleaner_is_idle: true,
        is_dirtying: false,
        dirty: 0,
        unreadable: 0,
    };

    #[test]
    fn a_detach_ends_once_all_is_written_back_and_the_head_says_so() {
        let mut ends = Ends::default();
        assert!(!ends.begin_read_only(false) && ends.begin_read_only(true));
        ends.detach(false);
        for busy in [
            Activity { dirty: 1, ..REST },
            Activity { is_dirtying: true, ..REST },
            Activity { cleaner_is_idle: false, ..REST },
        ] {
            assert_eq!(ends.step(busy), EndStep::Nothing, "{busy:?}");
            assert!(ends.is_draining() && ends.detached().is_none());
        }
        assert_eq!(ends.step(REST), EndStep::Detach);
        assert_eq!(ends.head_written(Life::Detached, Status::WriteFault), EndStep::Nothing);
        assert_eq!(ends.detached(), Some(Err(NOT_TOLD)));
        ends.detach(false);
        assert_eq!((ends.detached(), ends.step(REST)), (None, EndStep::Detach), "it is tried once more");
        assert_eq!(ends.head_written(Life::Detached, Status::Success), EndStep::Detached);
        assert!(ends.is_detached() && !ends.is_read_only() && ends.takes_nothing_new());
    }

    #[test]
    fn a_stop_ends_a_detach_that_cannot_be_told() {
        let mut ends = Ends::default();
        ends.detach(true);
        assert_eq!(ends.step(REST), EndStep::Detach);
        assert!(!ends.stop(), "the head is on its way");
        assert_eq!(ends.head_written(Life::Detached, Status::WriteFault), EndStep::Nothing);
        assert_eq!((ends.detached(), ends.step(REST)), (Some(Err(REST_NOT_TOLD)), EndStep::FlushAll));
    }

    #[test]
    fn a_detach_fails_if_nobody_knows_what_is_dirty() {
        let mut ends = Ends::default();
        ends.detach(false);
        assert_eq!(ends.step(Activity { unreadable: 1, ..REST }), EndStep::Nothing);
        assert_eq!(ends.detached(), Some(Err(SOME_LOST)));
    }

    #[test]
    fn a_stopped_cache_that_is_opened_again_stays_degraded() {
        let mut ends = Ends::default();
        ends.write_failed(Status::WriteFault);
        assert!(!ends.takes_nothing_new());
        ends.write_failed(Status::ReadOnly);
        assert!(ends.stop() && !ends.stop());
        assert_eq!(ends.step(Activity { is_idle: false, ..REST }), EndStep::Nothing);
        assert_eq!(ends.step(REST), EndStep::FlushAll);
        assert_eq!(ends.step(Activity { commits_are_idle: false, ..REST }), EndStep::Nothing);
        assert_eq!(ends.step(REST), EndStep::Record);
        ends.begin_recording(true);
        assert_eq!(
            ends.close(),
            Some(false),
            "the commit failed, so the head cannot say that all is recorded"
        );
        assert_eq!(ends.head_written(Life::Closed, Status::Success), EndStep::Stopped);
        assert!(ends.is_stopped() && ends.reopen() && !ends.is_under_way());
        assert!(ends.is_degraded() && ends.takes_nothing_new());
    }
}
