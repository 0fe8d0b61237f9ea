//! A modelled drive in this process, below a file system.
//!
//! ```text
//!   threads with jobs ─► begin: asked in order ─► end: a waiting thread lets the drive's time pass ─► answers, for others too
//! ```
//! An instant drive simulates its time, which advances while a thread waits. A paced drive follows wall time
//! since it was opened; its background work between two jobs is done when the next job arrives.

use crate::carrier::{Begun, Carrier};
use pellucid_flash::{Drive, SimTime};
use pellucid_fs::{Job, JobAnswer, JobId, Volume};
use pellucid_host::Stack;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Pace of a modelled drive's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as possible.
    Instant,
    /// Wall time per simulated time, above 0.
    Paced(f64),
}

/// One wait for an idle drive; a job fails after `WAITS_MAX` of them.
const WAIT: Duration = Duration::from_millis(100);
const WAITS_MAX: u32 = 100;

/// A modelled drive and the file system layer on it.
pub struct ModelledDrive<D> {
    path: PathBuf,
    running: Mutex<Running<D>>,
    /// Signals that the drive's time has advanced or that answers have come.
    moved: Condvar,
    pace: Pace,
    began: Instant,
    start: SimTime,
    /// The drive has lost its power; see [`Carrier::is_lost`].
    is_lost: AtomicBool,
    on_loss: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

struct Running<D> {
    stack: Stack<Volume, D>,
    answers: BTreeMap<JobId, JobAnswer>,
}

impl<D: Drive> ModelledDrive<D> {
    /// Starts the layer for a file system on a namespace of a drive that is at `now` and whose media are in
    /// the file at `path`.
    ///
    /// # Errors
    /// Returns one sentence if the drive cannot carry a file system.
    pub fn start(
        path: &Path,
        drive: D,
        namespace: u16,
        now: SimTime,
        pace: Pace,
    ) -> Result<ModelledDrive<D>, String> {
        ModelledDrive::start_by(path, drive, namespace, now, pace, |_, next| next)
    }

    /// Works like [`ModelledDrive::start`]; `wait` advances time as in [`Stack::call_by`].
    ///
    /// # Errors
    /// Returns one sentence if the drive cannot carry a file system.
    pub fn start_by(
        path: &Path,
        drive: D,
        namespace: u16,
        now: SimTime,
        pace: Pace,
        wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<ModelledDrive<D>, String> {
        let volume = Volume::new(&drive, namespace)?;
        let stack = Stack::start_by(volume, drive, now, wait)?;
        let start = stack.now();
        let running = Mutex::new(Running { stack, answers: BTreeMap::new() });
        let (moved, began) = (Condvar::new(), Instant::now());
        let (is_lost, on_loss) = (AtomicBool::new(false), OnceLock::new());
        Ok(ModelledDrive { path: path.to_owned(), running, moved, pace, began, start, is_lost, on_loss })
    }

    /// Inspects or changes the volume while no other thread uses it.
    pub fn with_volume<R>(&self, act: impl FnOnce(&mut Volume) -> R) -> R {
        act(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner).stack.layer)
    }

    /// Wakes the threads that wait for the drive, so that they check it again. `is_lost`: the drive has lost
    /// its power.
    pub fn woken(&self, is_lost: bool) {
        if is_lost
            && !self.is_lost.swap(true, Ordering::AcqRel)
            && let Some(call) = self.on_loss.get()
        {
            call();
        }
        // Taking the lock once ensures that a thread that has just found nothing is waiting by now.
        drop(self.running.lock());
        self.moved.notify_all();
    }

    /// Acts on the drive directly, beside its commands.
    pub fn act<R>(&self, act: impl FnOnce(&mut D) -> R) -> R {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let now = running.stack.now();
        running.stack.act_on_drive(now, act)
    }

    /// Time of the drive, never before the time it has already reached.
    fn now(&self, running: &Running<D>) -> SimTime {
        let now = running.stack.now();
        match self.pace {
            Pace::Instant => now,
            Pace::Paced(dilation) => {
                let passed = self.began.elapsed().as_nanos() as f64 / dilation;
                now.max(SimTime(self.start.0 + passed as u64))
            }
        }
    }

    /// Wall time until `next` on the drive's clock.
    fn until(&self, now: SimTime, next: SimTime) -> Duration {
        match self.pace {
            Pace::Instant => Duration::ZERO,
            Pace::Paced(dilation) => Duration::from_nanos((next.since(now).0 as f64 * dilation) as u64),
        }
    }
}

impl<D> Running<D>
where
    D: Drive,
{
    /// Gathers answers; returns true if any have come.
    fn gather(&mut self) -> bool {
        let before = self.answers.len();
        while let Some(answer) = self.stack.answer() {
            self.answers.insert(answer.id, answer);
        }
        self.answers.len() > before
    }
}

impl<D: Drive + Send> Carrier for ModelledDrive<D> {
    fn path(&self) -> &Path {
        &self.path
    }

    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    fn on_loss(&self, call: Box<dyn Fn() + Send + Sync>) {
        // The first user stays the only one.
        let _ = self.on_loss.set(call);
    }

    fn begin(&self, job: Job) -> Begun {
        let id = job.id();
        if let Ok(mut running) = self.running.lock() {
            let now = self.now(&running);
            running.stack.ask(now, job);
        }
        self.moved.notify_all();
        Begun::UnderWay(id)
    }

    fn end(&self, begun: Begun) -> JobAnswer {
        let Ok(mut running) = self.running.lock() else { return begun.failed() };
        let mut waits = 0;
        loop {
            if running.gather() {
                self.moved.notify_all();
            }
            if let Some(answer) = running.answers.remove(&begun.id()) {
                return answer;
            }
            let Some(next) = running.stack.next_event() else {
                // A nameless write may wait for an acknowledgement from another thread.
                waits += 1;
                match self.moved.wait_timeout(running, WAIT) {
                    Ok((woken, _)) if waits < WAITS_MAX => running = woken,
                    _ => return begun.failed(),
                }
                continue;
            };
            let now = self.now(&running);
            let wait = self.until(now, next);
            if wait > Duration::ZERO {
                let Ok((woken, _)) = self.moved.wait_timeout(running, wait) else { return begun.failed() };
                running = woken;
            }
            let now = match self.pace {
                Pace::Instant => next,
                Pace::Paced(_) => self.now(&running),
            };
            running.stack.advance(now);
        }
    }
}
