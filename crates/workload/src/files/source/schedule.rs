//! Time of the host: events to come, and processor cores.
//!
//! Invariant: events at one moment run in the order in which they were made.

use pellucid_flash::{Nanos, SimTime};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Event of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A thread begins its next operation.
    Begin(u32),
    /// Its processor time is over.
    Execute(u32),
    /// The processor has built this request.
    Submit(u32),
    /// The flusher looks at the age of dirty pages.
    Age,
    /// The journal commits.
    Commit,
}

/// Events to come, and when each core is free.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    due: BinaryHeap<Reverse<(SimTime, u64, Event)>>,
    made: u64,
    cores: Vec<SimTime>,
}

impl Schedule {
    /// Creates a schedule without events, for so many cores.
    pub fn new(cores: u32) -> Schedule {
        Schedule { due: BinaryHeap::new(), made: 0, cores: vec![SimTime::ZERO; cores.max(1) as usize] }
    }

    /// Adds an event.
    pub fn add(&mut self, at: SimTime, event: Event) {
        self.made += 1;
        self.due.push(Reverse((at, self.made, event)));
    }

    /// When the next event is due.
    pub fn next_at(&self) -> Option<SimTime> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next event.
    pub fn take(&mut self) -> Option<Event> {
        self.due.pop().map(|Reverse((.., event))| event)
    }

    /// Keeps a core busy for so long from `now` on, or from when it is free. Returns until when.
    pub fn compute(&mut self, now: SimTime, time: Nanos) -> SimTime {
        let core = self.cores.iter_mut().min().expect("there is a core");
        *core = now.max(*core) + time;
        *core
    }
}
