//! Threads that wait for the file, so that the serving thread does not.
//!
//! ```text
//!  submit ─► queue ─► thread ─► ended ─► take, by the drive's owner
//! ```
//! No operation allocates once the queues have grown to the depth in use.

use super::medium::{Medium, Scratch, Trouble, What};
use mio::Waker;
use pellucid_flash::{Command, Opcode, SimTime, Status};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A completed operation.
pub(super) struct Ended {
    pub command: Command,
    pub submitted: SimTime,
    pub status: Status,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<(Command, SimTime)>,
    /// Number of idle threads.
    idle: usize,
    stopping: bool,
}

#[derive(Default)]
struct Outcome {
    ended: VecDeque<Ended>,
    /// Messages for the log.
    sentences: Vec<String>,
    state: State,
    waker: Option<Arc<Waker>>,
}

/// State of the file, from best to worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Good,
    /// A write failed, for example for lack of space; this may pass.
    Troubled,
    /// Acknowledged data may be lost.
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

/// Locks a mutex, even after a panic: a thread that panicked leaves the queues intact.
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

    /// Exchanges `empty` for the completed operations, and adds messages for the log. Returns the state of
    /// the file.
    pub fn take(&self, empty: &mut VecDeque<Ended>, sentences: &mut Vec<String>) -> State {
        let mut outcome = lock(&self.shared.outcome);
        std::mem::swap(&mut outcome.ended, empty);
        sentences.append(&mut outcome.sentences);
        outcome.state
    }

    /// Waits until an operation has ended, at most `longest`. Returns true if one has.
    pub fn wait(&self, longest: Duration) -> bool {
        let outcome = lock(&self.shared.outcome);
        let nothing = |outcome: &mut Outcome| outcome.ended.is_empty();
        let waited = self.shared.arrived.wait_timeout_while(outcome, longest, nothing);
        let (outcome, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !outcome.ended.is_empty()
    }

    /// Sets the waker to wake when an operation ends.
    pub fn wake_by(&self, waker: Arc<Waker>) {
        lock(&self.shared.outcome).waker = Some(waker);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        lock(&self.shared.waiting).stopping = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has already reported it.
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

    /// Records a failure; adds a message if the state gets worse.
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
        // A single wake-up suffices: the owner takes all completions.
        if outcome.ended.len() == 1 {
            let waker = outcome.waker.clone();
            drop(outcome);
            self.arrived.notify_one();
            if let Some(waker) = waker {
                // If the wake-up fails, the next turn takes the completions.
                let _ = waker.wake();
            }
        }
    }
}

/// Status of operations that are refused in this state.
fn refused(state: State, opcode: Opcode) -> Option<Status> {
    match (state, opcode) {
        (State::Gone, Opcode::Read) => Some(Status::UnrecoveredRead),
        (State::Gone, _) => Some(Status::WriteFault),
        (State::ReadOnly, Opcode::Read) => None,
        // A successful flush would be a false promise.
        (State::ReadOnly, Opcode::Flush) => Some(Status::WriteFault),
        (State::ReadOnly, _) => Some(Status::ReadOnly),
        (State::Good | State::Troubled, _) => None,
    }
}
