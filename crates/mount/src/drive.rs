//! A modelled drive in this process, under a file system.
//!
//! ```text
//!   threads with jobs ─► begin: asked in order ─► end: a waiting thread lets the drive's time pass ─► answers, for others too
//! ```
//! Instant: its time is simulated, and goes on while a thread waits. Paced: it is wall time since the drive was opened; what it does by itself
//! between two jobs is done when the next one comes.

use crate::carrier::{Begun, Carrier};
use pellucid_flash::{Drive, SimTime};
use pellucid_fs::{Job, JobAnswer, JobId, Volume};
use pellucid_host::Stack;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How the time of a modelled drive goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as possible.
    Instant,
    /// Wall time per simulated time, above 0.
    Paced(f64),
}

/// So long, and so often, a job waits for a drive in which nothing goes on.
const WAIT: Duration = Duration::from_millis(100);
const WAITS_MAX: u32 = 100;

/// A modelled drive and what stands on it.
pub struct ModelledDrive<D> {
    path: PathBuf,
    running: Mutex<Running<D>>,
    /// The drive's time has passed, or answers have come.
    moved: Condvar,
    pace: Pace,
    began: Instant,
    start: SimTime,
}

struct Running<D> {
    stack: Stack<Volume, D>,
    answers: BTreeMap<JobId, JobAnswer>,
}

impl<D: Drive> ModelledDrive<D> {
    /// Starts a file system's place on a namespace of a drive that is at `now` and whose media are in the file at `path`.
    ///
    /// # Errors
    /// Why there can be no file system on it, in a sentence.
    pub fn start(
        path: &Path,
        drive: D,
        namespace: u16,
        now: SimTime,
        pace: Pace,
    ) -> Result<ModelledDrive<D>, String> {
        ModelledDrive::start_by(path, drive, namespace, now, pace, |_, next| next)
    }

    /// As [`ModelledDrive::start`]; `wait` lets time pass as in [`Stack::call_by`].
    ///
    /// # Errors
    /// Why there can be no file system on it, in a sentence.
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
        Ok(ModelledDrive { path: path.to_owned(), running, moved, pace, began, start })
    }

    /// Looks at the volume, or changes it, while no job is under way.
    pub fn with_volume<R>(&self, act: impl FnOnce(&mut Volume) -> R) -> R {
        act(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner).stack.layer)
    }

    /// The drive has something: whoever waits for it looks again.
    pub fn woken(&self) {
        // A thread that has looked and found nothing waits by now.
        drop(self.running.lock());
        self.moved.notify_all();
    }

    /// Does something to the drive, beside its commands.
    pub fn act<R>(&self, act: impl FnOnce(&mut D) -> R) -> R {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let now = running.stack.now();
        running.stack.act_on_drive(now, act)
    }

    /// The drive's time, not before what it has done.
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

    /// Wall time until a moment of the drive.
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
    /// Whether answers have come.
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
                // A nameless write may wait for an acknowledgement, which another thread brings.
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
