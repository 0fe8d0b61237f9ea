//! End of a cache: a stop, after which the next start finds it warm, or a detach, after which the backing
//! store holds all data.
//!
//! ```text
//!  stop    commands and cleaning end ─► flushes and records ─► block backend: records of all slots ─► head: closed
//!  detach  new data go around, everything is cleaned ─► head: detached ─► all commands go to the backing store
//! ```
//! A command to a stopped cache opens it again first.

use super::head::Life;
use super::start::{DEPTH, RUN_SECTORS};
use super::{Backend, CacheManager};
use pellucid_flash::Status;

/// Reason that a cache cannot be detached if its flash takes no writes.
const NOT_TOLD: &str = "everything is written back, but the cache drive takes no writes and cannot be told so; use the backing store without \
                        it, and never start a cache with both again";

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

#[derive(Clone, Debug, Default)]
pub(super) struct Ending {
    phase: Phase,
    /// Reason that the last detach failed.
    failed: Option<&'static str>,
    /// Number of record writes under way.
    left: u32,
    next: u32,
    /// The cache cannot be stopped in order; the next start finds it as after a crash.
    broken: bool,
}

impl Ending {
    pub fn is_stopped(&self) -> bool {
        matches!(self.phase, Phase::Stopped | Phase::Detached)
    }

    /// Reports whether a stop is under way or complete; cleaning then begins nothing new.
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

    /// Notes that a dirty block could not be cleaned; a detach then fails.
    pub fn cannot_clean(&mut self, why: &'static str) {
        if self.phase == Phase::Draining {
            self.phase = Phase::None;
            self.failed = Some(why);
        }
    }
}

impl CacheManager {
    /// Begins to write back all dirty blocks, to put the cache out of use; commands are served meanwhile.
    /// [`CacheManager::detached`] returns the result.
    pub fn detach(&mut self) {
        if self.ending.phase == Phase::None {
            self.ending = Ending { phase: Phase::Draining, ..Ending::default() };
        }
    }

    /// Reports whether all commands go to the backing store.
    #[inline]
    pub fn is_detached(&self) -> bool {
        self.ending.is_detached()
    }

    /// Returns the result of [`CacheManager::detach`]; `None` while it is under way.
    pub fn detached(&self) -> Option<Result<(), String>> {
        match self.ending.phase {
            Phase::Detached => Some(Ok(())),
            Phase::Draining | Phase::Detaching => None,
            _ => self.ending.failed.map(|why| Err(self.with_what_is_dirty(why))),
        }
    }

    fn with_what_is_dirty(&self, why: &str) -> String {
        let Some(first) = self.dirty.next(0) else { return why.to_owned() };
        let at = first * self.block_sectors * u64::from(self.config.sector_bytes);
        format!("{why}; {} blocks are dirty still, the first at byte {at}", self.dirty.count())
    }

    pub(super) fn begin_stop(&mut self) {
        if matches!(self.ending.phase, Phase::None) && self.start.is_running() {
            self.ending.phase = Phase::Stopping;
            self.cleaner.rest();
        }
    }

    /// Opens a stopped cache again for a command.
    pub(super) fn reopen(&mut self) {
        if self.ending.phase == Phase::Stopped {
            self.ending = Ending::default();
            self.open_again();
        }
    }

    #[inline]
    pub(super) fn pump_ending(&mut self) {
        if self.ending.phase != Phase::None && self.ending.phase != Phase::Detached {
            self.go_on_ending();
        }
    }

    #[cold]
    fn go_on_ending(&mut self) {
        let is_idle = self.ops.in_use() == 0 && self.cleaner.is_idle() && self.commit.is_idle();
        match self.ending.phase {
            Phase::Stopping if is_idle => {
                self.ending.phase = Phase::Committing;
                self.commit.flush_all();
                self.pump_commit();
            }
            Phase::Committing if self.commit.is_idle() => self.record_all(),
            Phase::Draining if self.dirty.count() == 0 && self.unreadable_records() > 0 => {
                self.ending.cannot_clean(SOME_LOST);
            }
            Phase::Draining if self.dirty.count() == 0 && self.dirtying == 0 && self.cleaner.is_idle() => {
                self.ending.phase = Phase::Detaching;
                match self.keeps_content() {
                    true => self.write_head(Life::Detached),
                    false => self.ending.phase = Phase::Detached,
                }
            }
            _ => {}
        }
    }

    /// Begins to record all slots, once all data are on the drives.
    fn record_all(&mut self) {
        self.ending.broken |= self.commit.has_failed() || self.read_only;
        // From now on, commands wait.
        self.is_closed();
        self.ending.phase = Phase::Recording;
        self.record_on();
    }

    /// Writes more runs of records; after the last one, writes the head.
    fn record_on(&mut self) {
        let counts = !self.ending.broken && self.keeps_content();
        while let Backend::Block(slots) = &self.backend
            && counts
            && self.ending.left < DEPTH
        {
            let run = slots.next_to_record(self.ending.next, RUN_SECTORS);
            self.ending.next = run.end;
            if run.is_empty() {
                break;
            }
            self.ending.left += 1;
            self.write_records(run);
        }
        if self.ending.left == 0 {
            self.close_head();
        }
    }

    /// Continues a stop after a write of records.
    pub(super) fn records_of_stop(&mut self, written: bool) {
        if self.ending.phase != Phase::Recording {
            return;
        }
        self.ending.broken |= !written;
        self.ending.left -= 1;
        self.record_on();
    }

    fn close_head(&mut self) {
        self.ending.phase = Phase::Closing;
        match self.keeps_content() && !self.ending.broken {
            true => self.write_head(Life::Closed),
            false => self.ending_written(Life::Closed, Status::Success),
        }
    }

    pub(super) fn ending_written(&mut self, life: Life, status: Status) {
        let done = status == Status::Success;
        match (self.ending.phase, life) {
            (Phase::Closing, Life::Closed) => {
                self.ending.phase = Phase::Stopped;
                self.ending.broken |= !done;
                // Another command arrived meanwhile.
                if self.start.has_waiting() {
                    self.reopen();
                }
            }
            (Phase::Detaching, Life::Detached) if done => {
                self.ending.phase = Phase::Detached;
                self.read_only = false;
                self.cleaner.rest();
            }
            (Phase::Detaching, _) => {
                self.ending.phase = Phase::None;
                self.ending.failed = Some(NOT_TOLD);
            }
            _ => {}
        }
    }
}
