//! Time of the host: future events, and processor cores.
//!
//! Invariant: simultaneous events run in the order of their creation.

use pellucid_flash::{Nanos, SimTime};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Event of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A thread starts its next operation.
    Begin(u32),
    /// A thread's processor time is over.
    Execute(u32),
    /// A request's processor time is over.
    Submit(u32),
    /// The flusher checks the age of dirty pages.
    Age,
    /// The journal commits.
    Commit,
}

/// Future events, and the time at which each core becomes free.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    due: BinaryHeap<Reverse<(SimTime, u64, Event)>>,
    made: u64,
    cores: Vec<SimTime>,
}

impl Schedule {
    /// Creates a schedule without events, for this many cores.
    pub fn new(cores: u32) -> Schedule {
        Schedule { due: BinaryHeap::new(), made: 0, cores: vec![SimTime::ZERO; cores.max(1) as usize] }
    }

    /// Adds an event.
    pub fn add(&mut self, at: SimTime, event: Event) {
        self.made += 1;
        self.due.push(Reverse((at, self.made, event)));
    }

    /// Time of the next event.
    pub fn next_at(&self) -> Option<SimTime> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next event.
    pub fn take(&mut self) -> Option<Event> {
        self.due.pop().map(|Reverse((.., event))| event)
    }

    /// Keeps a core busy for `time`, starting at `now` or when it becomes free. Returns the end.
    pub fn compute(&mut self, now: SimTime, time: Nanos) -> SimTime {
        let core = self.cores.iter_mut().min().expect("there is a core");
        *core = now.max(*core) + time;
        *core
    }
}
