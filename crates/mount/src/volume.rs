//! A file system on an image. One lock guards the file system; I/O runs outside the lock.
//!
//! ```text
//!   requests (many threads) ─► lock ─► Fs ─► Done ───────────────────► answer
//!                                       └──► Wait ─► a job ─► begun ─► unlock ─► Carrier ─► lock ─► Fs ─► again
//!   keeper (one thread) ───────────────────► jobs of commits and the cleaner, when they are due
//! ```
//! A waiting request does the work itself: if it needs blocks that are not in memory, its own thread carries
//! out jobs until it can continue.
//!
//! A medium that fails makes the file system read-only. A drive that lost its power has lost changes that were
//! acknowledged, so everything is refused from then on, and the kernel's caches are dropped. Each is reported
//! once, when it happens.

use crate::carrier::Carrier;
use crate::convert::now;
use crate::target::Target;
use pellucid_flash::Figure;
use pellucid_fs::{Attributes, DirEntry, Errno, Fs, FsState, Ino, Step};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// State guarded by the lock.
struct Held {
    fs: Fs,
    /// Jobs that threads are carrying out.
    under_way: usize,
    /// Lookup count of each file: answers that named it, minus FORGETs. A file whose last name is gone stays
    /// until the count is zero.
    known: HashMap<Ino, u64>,
    /// The keeper waits for work.
    keeper_rests: bool,
    /// The keeper must end.
    ending: bool,
    /// True if changes were accepted at the last report.
    is_writable: bool,
    /// The loss of the drive was reported.
    loss_is_told: bool,
}

/// An opened file system and its carrier.
pub struct Volume {
    held: Mutex<Held>,
    carrier: Arc<dyn Carrier>,
    /// Signals that a job has ended.
    ended: Condvar,
    /// Signals that there may be work for the keeper.
    due: Condvar,
    /// Reports a change of the state, as one sentence.
    tell: Box<dyn Fn(String) + Send + Sync>,
}

impl Volume {
    /// Takes over an opened file system. `tell` reports when it starts to refuse changes, or everything.
    pub fn new(Target { fs, carrier }: Target, tell: impl Fn(String) + Send + Sync + 'static) -> Volume {
        let held = Held {
            is_writable: fs.state() == FsState::Ready,
            fs,
            under_way: 0,
            known: HashMap::new(),
            keeper_rests: false,
            ending: false,
            loss_is_told: false,
        };
        let (ended, due) = (Condvar::new(), Condvar::new());
        Volume { held: Mutex::new(held), carrier, ended, due, tell: Box::new(tell) }
    }

    /// Counters of the file system as figures; `None`: it is busy now, and the caller must not wait.
    pub(crate) fn figures(&self) -> Option<Vec<Figure>> {
        Some(self.held.try_lock().ok()?.fs.counters().figures())
    }

    /// Wakes the keeper when the drive loses its power.
    pub(crate) fn watch(self: &Arc<Volume>) {
        let volume = Arc::downgrade(self);
        self.carrier.on_loss(Box::new(move || {
            if let Some(volume) = volume.upgrade() {
                volume.due.notify_one();
            }
        }));
    }

    /// Last failure of the medium, in the words of the system.
    pub(crate) fn failure(&self) -> Option<String> {
        if self.carrier.is_lost() { Some(LOST.into()) } else { self.carrier.failure() }
    }

    /// Refuses everything after the drive lost its power.
    fn check_power(&self, held: &mut Held) -> Result<(), Errno> {
        if !self.carrier.is_lost() {
            return Ok(());
        }
        if !std::mem::replace(&mut held.loss_is_told, true) {
            let path = self.path().display();
            (self.tell)(format!("{path}: {LOST}; all is refused until it is unmounted and mounted again"));
            self.due.notify_one();
        }
        Err(Errno::Io)
    }

    /// Reports if the file system has become read-only by itself.
    fn check_writable(&self, held: &mut Held) {
        if !held.is_writable || held.ending || held.fs.state() != FsState::ReadOnly {
            return;
        }
        held.is_writable = false;
        if !self.carrier.is_lost() {
            let why = self.carrier.failure().unwrap_or_else(|| UNKNOWN.into());
            let path = self.path().display();
            (self.tell)(format!("{path}: {why}; it is read-only until it is unmounted and mounted again"));
        }
    }

    /// Takes the lock. A thread that panicked while holding it may have left an inconsistent state, so every
    /// later call fails.
    fn lock(&self) -> Result<MutexGuard<'_, Held>, Errno> {
        self.held.lock().map_err(|_| Errno::Io)
    }

    /// Path of the medium.
    pub fn path(&self) -> &Path {
        self.carrier.path()
    }

    /// Carries out an operation and the jobs that it needs.
    pub fn run<T>(&self, mut operation: impl FnMut(&mut Fs) -> Result<Step<T>, Errno>) -> Result<T, Errno> {
        self.run_held(|held| operation(&mut held.fs))
    }

    /// Runs, like [`Volume::run`], an operation whose answer names a file, and increments the file's lookup
    /// count.
    pub fn named(
        &self,
        mut operation: impl FnMut(&mut Fs) -> Result<Step<Attributes>, Errno>,
    ) -> Result<Attributes, Errno> {
        self.run_held(|held| {
            let step = operation(&mut held.fs)?;
            if let Step::Done(named) = &step {
                held.learn(named.ino);
            }
            Ok(step)
        })
    }

    /// Subtracts FORGETs from a file's lookup count.
    pub fn forget(&self, ino: Ino, times: u64) {
        if let Ok(mut held) = self.lock() {
            held.forget(ino, times);
        }
    }

    /// Lists a directory from a cookie on, with attributes. `add` returns true if it took the entry; the
    /// lookup count of each taken entry except `.` and `..` is incremented.
    pub fn list(
        &self,
        ino: Ino,
        cookie: u64,
        count: usize,
        mut add: impl FnMut(&DirEntry, &Attributes) -> bool,
    ) -> Result<(), Errno> {
        let mut entries = Vec::new();
        self.run_held(|held| {
            let Step::Done(()) = held.fs.readdir(now(), ino, cookie, count, true, &mut entries)? else {
                return Ok(Step::Wait);
            };
            for entry in &entries {
                let of = entry.attributes.as_ref().ok_or(Errno::Io)?;
                if !add(entry, of) {
                    break;
                }
                if !matches!(&*entry.name, b"." | b"..") {
                    held.learn(entry.ino);
                }
            }
            Ok(Step::Done(()))
        })
    }

    /// Returns when all changes before the call are durable.
    pub fn sync(&self) -> Result<(), Errno> {
        let mut point = None;
        self.run_held(|held| {
            let point = *point.get_or_insert_with(|| held.fs.sync());
            Ok(if held.fs.is_synced(point)? { Step::Done(()) } else { Step::Wait })
        })
    }

    fn run_held<T>(
        &self,
        mut operation: impl FnMut(&mut Held) -> Result<Step<T>, Errno>,
    ) -> Result<T, Errno> {
        let mut held = self.lock()?;
        // Asking for a job may itself let the operation continue. If none results and none is running, none
        // ever will.
        let mut asked = 0;
        loop {
            self.check_power(&mut held)?;
            if let Step::Done(value) = operation(&mut held)? {
                if held.keeper_rests && held.fs.wants_time().is_some_and(|at| at <= now()) {
                    held.keeper_rests = false;
                    self.due.notify_one();
                }
                return Ok(value);
            }
            held = match self.work(held)? {
                (held, true) => held,
                // Other threads carry out the missing jobs.
                (held, false) if held.under_way > 0 => self.ended.wait(held).map_err(|_| Errno::Io)?,
                (_, false) if asked == ASKED_MAX => return Err(Errno::Io),
                (held, false) => {
                    asked += 1;
                    held
                }
            };
        }
    }

    /// Carries out the next job, if there is one.
    fn work<'a>(&'a self, mut held: MutexGuard<'a, Held>) -> Result<(MutexGuard<'a, Held>, bool), Errno> {
        let job = held.fs.next_job(now());
        self.check_writable(&mut held);
        let Some(job) = job else { return Ok((held, false)) };
        held.under_way += 1;
        // Begin under the lock: on flash, writes go to a block in order.
        let begun = self.carrier.begin(job);
        if held.keeper_rests && held.fs.wants_time().is_some_and(|at| at <= now()) {
            held.keeper_rests = false;
            self.due.notify_one();
        }
        drop(held);
        let answer = self.carrier.end(begun);
        let mut held = self.lock()?;
        held.under_way -= 1;
        held.fs.answered(now(), answer);
        self.check_writable(&mut held);
        self.ended.notify_all();
        Ok((held, true))
    }

    /// Carries out background jobs, commits and cleaning, when they are due, until [`Volume::end`]. After a
    /// loss of power it ends too, and has `forget` drop what the kernel caches of each file.
    pub(crate) fn keep(&self, forget: impl Fn(Ino)) {
        // An error means that another thread panicked or the drive lost its power; all other callers get it.
        let _ = self.keep_on();
        if self.carrier.is_lost()
            && let Ok(held) = self.lock()
        {
            let known: Vec<Ino> = held.known.keys().copied().chain([Ino::ROOT]).collect();
            drop(held);
            // The kernel may wait for other requests here, so no lock is held.
            known.into_iter().for_each(forget);
        }
    }

    fn keep_on(&self) -> Result<(), Errno> {
        let mut held = self.lock()?;
        while !held.ending {
            self.check_power(&mut held)?;
            held = match self.work(held)? {
                (held, true) => held,
                (held, false) => self.rest(held)?,
            };
        }
        Ok(())
    }

    /// Waits until a background job is due.
    fn rest<'a>(&'a self, mut held: MutexGuard<'a, Held>) -> Result<MutexGuard<'a, Held>, Errno> {
        held.keeper_rests = true;
        let until = held.fs.wants_time().map_or(REST, |at| Duration::from_nanos(at.since(now())).min(REST));
        let (mut held, _) = self.due.wait_timeout(held, until).map_err(|_| Errno::Io)?;
        held.keeper_rests = false;
        Ok(held)
    }

    /// Makes all changes durable and ends the keeper.
    pub fn end(&self) -> Result<(), Errno> {
        self.lock()?.ending = true;
        self.due.notify_all();
        self.sync()?;
        self.lock()?.fs.unmount();
        self.run(|fs| Ok(if fs.state() == FsState::Unmounted { Step::Done(()) } else { Step::Wait }))
    }
}

/// Requests for a job that yield none, after which an operation fails.
const ASKED_MAX: u32 = 100;
/// Reason of a loss.
const LOST: &str = "the drive has lost its power, and with it what was not durable";
/// Reason of a file system that became read-only although the system reported no failure.
const UNKNOWN: &str = "the drive takes no writes, or not all metadata can be read";
/// Longest sleep of the keeper.
const REST: Duration = Duration::from_secs(1);

impl Held {
    fn learn(&mut self, ino: Ino) {
        let times = self.known.entry(ino).or_insert(0);
        *times += 1;
        if *times == 1 {
            self.fs.hold(ino);
        }
    }

    fn forget(&mut self, ino: Ino, times: u64) {
        let Some(known) = self.known.get_mut(&ino) else { return };
        *known = known.saturating_sub(times);
        if *known == 0 {
            self.known.remove(&ino);
            self.fs.release(ino);
        }
    }
}
