//! A file system on an image: one lock around it, input and output outside of the lock.
//!
//! ```text
//!   requests (many threads) ─► lock ─► Fs ─► Done ───────────────────► answer
//!                                       └──► Wait ─► a job ─► begun ─► unlock ─► Carrier ─► lock ─► Fs ─► again
//!   keeper (one thread) ───────────────────► jobs of commits and the cleaner, when they are due
//! ```
//! A waiting request works: one that needs blocks which are not in memory carries out jobs itself, in its own thread, until it can go on.

use crate::carrier::Carrier;
use crate::convert::now;
use crate::target::Target;
use pellucid_fs::{Attributes, DirEntry, Errno, Fs, FsState, Ino, Step};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// What the lock guards.
struct Held {
    fs: Fs,
    /// Jobs that threads carry out now.
    under_way: usize,
    /// How often the kernel knows each file: answers that named it, less those it has forgotten. A file whose last name has gone stays
    /// until the kernel has forgotten it.
    known: HashMap<Ino, u64>,
    /// The keeper waits for something to do.
    keeper_rests: bool,
    /// The keeper has to end.
    ending: bool,
}

/// A file system, and where it lies.
pub struct Volume {
    held: Mutex<Held>,
    carrier: Arc<dyn Carrier>,
    /// A job has ended.
    ended: Condvar,
    /// There may be work for the keeper.
    due: Condvar,
}

impl Volume {
    /// A file system that was opened.
    pub fn new(Target { fs, carrier }: Target) -> Volume {
        let held = Held { fs, under_way: 0, known: HashMap::new(), keeper_rests: false, ending: false };
        Volume { held: Mutex::new(held), carrier, ended: Condvar::new(), due: Condvar::new() }
    }

    /// The lock; a thread that panicked with it may have left anything behind, so from then on everything fails.
    fn lock(&self) -> Result<MutexGuard<'_, Held>, Errno> {
        self.held.lock().map_err(|_| Errno::Io)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        self.carrier.path()
    }

    /// Carries out an operation, and the jobs that it needs.
    pub fn run<T>(&self, mut operation: impl FnMut(&mut Fs) -> Result<Step<T>, Errno>) -> Result<T, Errno> {
        self.run_held(|held| operation(&mut held.fs))
    }

    /// As [`Volume::run`], of an operation whose answer names a file, so that the kernel knows it from then on.
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

    /// The kernel has forgotten so many of the answers that named a file.
    pub fn forget(&self, ino: Ino, times: u64) {
        if let Ok(mut held) = self.lock() {
            held.forget(ino, times);
        }
    }

    /// Lists a directory from a cookie on, with attributes. `add` says whether the entry was taken; the kernel knows each that was,
    /// but `.` and `..`.
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
        // Asking for a job may be what lets the operation go on; if nothing comes of it and nothing is under way, nothing ever will.
        let mut asked = 0;
        loop {
            if let Step::Done(value) = operation(&mut held)? {
                if held.keeper_rests && held.fs.wants_time().is_some_and(|at| at <= now()) {
                    held.keeper_rests = false;
                    self.due.notify_one();
                }
                return Ok(value);
            }
            held = match self.work(held)? {
                (held, true) => held,
                // Others carry out what is missing.
                (held, false) if held.under_way > 0 => self.ended.wait(held).map_err(|_| Errno::Io)?,
                (_, false) if asked == ASKED_MAX => return Err(Errno::Io),
                (held, false) => {
                    asked += 1;
                    held
                }
            };
        }
    }

    /// Carries out a job, if there is one.
    fn work<'a>(&'a self, mut held: MutexGuard<'a, Held>) -> Result<(MutexGuard<'a, Held>, bool), Errno> {
        let Some(job) = held.fs.next_job(now()) else { return Ok((held, false)) };
        held.under_way += 1;
        // Under the lock: on flash writes go to a block in their order.
        let begun = self.carrier.begin(job);
        if held.keeper_rests && held.fs.wants_time().is_some_and(|at| at <= now()) {
            held.keeper_rests = false;
            self.due.notify_one();
        }
        drop(held);
        let answer = self.carrier.end(begun);
        let mut held = self.lock()?;
        held.under_way -= 1;
        answer.tell(&mut held.fs, now());
        self.ended.notify_all();
        Ok((held, true))
    }

    /// Carries out what is due by itself, commits and cleaning, until [`Volume::end`].
    pub fn keep(&self) {
        // It fails when another thread panicked, which all others are told.
        let _ = self.keep_on();
    }

    fn keep_on(&self) -> Result<(), Errno> {
        let mut held = self.lock()?;
        while !held.ending {
            held = match self.work(held)? {
                (held, true) => held,
                (held, false) => self.rest(held)?,
            };
        }
        Ok(())
    }

    /// Waits until something is due.
    fn rest<'a>(&'a self, mut held: MutexGuard<'a, Held>) -> Result<MutexGuard<'a, Held>, Errno> {
        held.keeper_rests = true;
        let until = held.fs.wants_time().map_or(REST, |at| Duration::from_nanos(at.since(now())).min(REST));
        let (mut held, _) = self.due.wait_timeout(held, until).map_err(|_| Errno::Io)?;
        held.keeper_rests = false;
        Ok(held)
    }

    /// Makes everything durable and ends the keeper.
    pub fn end(&self) -> Result<(), Errno> {
        self.lock()?.ending = true;
        self.due.notify_all();
        self.sync()?;
        self.lock()?.fs.unmount();
        self.run(|fs| Ok(if fs.state() == FsState::Unmounted { Step::Done(()) } else { Step::Wait }))
    }
}

/// So often an operation asks for a job in vain before it is given up.
const ASKED_MAX: u32 = 100;
/// The keeper looks at least so often.
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
