//! Threads that wait for the file, so that the serving thread does not.
//!
//! ```text
//!  submit ─► queue ─► thread ─► ended ─► take, by the drive's owner
//! ```
//! Nothing is allocated for an operation once the queues have grown to the depth that is used.

use super::medium::{Medium, Scratch, Trouble, What};
use mio::Waker;
use pellucid_flash::{Command, Opcode, SimTime, Status};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// An operation that has ended.
pub(super) struct Ended {
    pub command: Command,
    pub submitted: SimTime,
    pub status: Status,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<(Command, SimTime)>,
    /// Threads that have nothing to do.
    idle: usize,
    stopping: bool,
}

#[derive(Default)]
struct Outcome {
    ended: VecDeque<Ended>,
    /// Sentences for the log.
    sentences: Vec<String>,
    state: State,
    waker: Option<Arc<Waker>>,
}

/// What can be done with the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Good,
    /// A write failed for want of space, which may pass.
    Troubled,
    /// What was acknowledged may be lost.
    ReadOnly,
    Gone,
}

struct Shared {
    medium: Medium,
    waiting: Mutex<Waiting>,
    work: Condvar,
    outcome: Mutex<Outcome>,
    arrived: Condvar,
}

/// The threads of a file.
pub(super) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// A thread that panicked leaves queues as they are.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Workers {
    pub fn start(medium: Medium, threads: usize) -> std::io::Result<Workers> {
        let shared = Arc::new(Shared {
            medium,
            waiting: Mutex::default(),
            work: Condvar::new(),
            outcome: Mutex::default(),
            arrived: Condvar::new(),
        });
        let mut workers = Workers { shared, threads: Vec::new() };
        for _ in 0..threads {
            let shared = Arc::clone(&workers.shared);
            let thread = std::thread::Builder::new().name("file".into()).spawn(move || shared.work());
            workers.threads.push(thread?);
        }
        Ok(workers)
    }

    pub fn medium(&self) -> &Medium {
        &self.shared.medium
    }

    pub fn submit(&self, command: Command, submitted: SimTime) {
        let mut waiting = lock(&self.shared.waiting);
        waiting.jobs.push_back((command, submitted));
        if waiting.idle > 0 {
            drop(waiting);
            self.shared.work.notify_one();
        }
    }

    /// Exchanges `empty` for what has ended, with sentences for the log. Returns what the file is like.
    pub fn take(&self, empty: &mut VecDeque<Ended>, sentences: &mut Vec<String>) -> State {
        let mut outcome = lock(&self.shared.outcome);
        std::mem::swap(&mut outcome.ended, empty);
        sentences.append(&mut outcome.sentences);
        outcome.state
    }

    /// Waits until something has ended, so long at most. Returns whether something has.
    pub fn wait(&self, longest: Duration) -> bool {
        let outcome = lock(&self.shared.outcome);
        let nothing = |outcome: &mut Outcome| outcome.ended.is_empty();
        let waited = self.shared.arrived.wait_timeout_while(outcome, longest, nothing);
        let (outcome, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !outcome.ended.is_empty()
    }

    /// From now on `waker` is woken when something ends.
    pub fn wake_by(&self, waker: Arc<Waker>) {
        lock(&self.shared.outcome).waker = Some(waker);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        lock(&self.shared.waiting).stopping = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        let mut scratch = Scratch::new();
        while let Some((mut command, submitted)) = self.next() {
            let state = lock(&self.outcome).state;
            let status = match refused(state, command.opcode) {
                Some(status) => status,
                None => match self.medium.execute(&mut command, &mut scratch) {
                    Ok(()) => Status::Success,
                    Err(Trouble { status, what }) => {
                        self.note(what);
                        status
                    }
                },
            };
            self.end(Ended { command, submitted, status });
        }
    }

    fn next(&self) -> Option<(Command, SimTime)> {
        let mut waiting = lock(&self.waiting);
        loop {
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            }
            if waiting.stopping {
                return None;
            }
            waiting.idle += 1;
            waiting = self.work.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
    }

    /// One sentence for each way in which it gets worse.
    fn note(&self, what: What) {
        let (state, why) = match what {
            What::Passing(why) => (State::Troubled, why),
            What::Doubt(why) => (State::ReadOnly, why),
            What::Gone(why) => (State::Gone, why),
        };
        let mut outcome = lock(&self.outcome);
        if (outcome.state as u8) < state as u8 {
            outcome.state = state;
            outcome.sentences.push(why);
        }
    }

    fn end(&self, ended: Ended) {
        let mut outcome = lock(&self.outcome);
        outcome.ended.push_back(ended);
        // The woken owner takes all of them.
        if outcome.ended.len() == 1 {
            let waker = outcome.waker.clone();
            drop(outcome);
            self.arrived.notify_one();
            if let Some(waker) = waker {
                // Without the wake-up the next turn notices.
                let _ = waker.wake();
            }
        }
    }
}

/// What is not even tried.
fn refused(state: State, opcode: Opcode) -> Option<Status> {
    match (state, opcode) {
        (State::Gone, Opcode::Read) => Some(Status::UnrecoveredRead),
        (State::Gone, _) => Some(Status::WriteFault),
        (State::ReadOnly, Opcode::Read) => None,
        // What it would promise is not true.
        (State::ReadOnly, Opcode::Flush) => Some(Status::WriteFault),
        (State::ReadOnly, _) => Some(Status::ReadOnly),
        (State::Good | State::Troubled, _) => None,
    }
}
