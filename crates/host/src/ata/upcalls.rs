//! Moves of sectors that the host has not been told of, and when it asks for them.
//!
//! ```text
//!   notice of the drive ─► held ─► (a poll ends, or an error says so) ─► told
//!                            └───► the host has freed the old name: nothing to tell
//! ```
//! The drive keeps the old name of a held move, so reads by it go on. A free ends the move, and its name may come to mean other data.

use pellucid_flash::{Nanos, Notice, SimTime};
use std::collections::VecDeque;

/// Counters of upcalls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UpcallCounters {
    /// Polls.
    pub polls: u64,
    /// Polls that brought nothing.
    pub empty_polls: u64,
    /// Moves that the host was told of.
    pub told: u64,
    /// Sum of the times for which they were held.
    pub held_ns: u64,
}

/// Held moves.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldMoves {
    held: VecDeque<(SimTime, Notice)>,
    poll_at: Option<SimTime>,
    counters: UpcallCounters,
}

impl HeldMoves {
    pub fn counters(&self) -> UpcallCounters {
        self.counters
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub fn hold(&mut self, now: SimTime, notice: Notice) {
        self.held.push_back((now, notice));
    }

    /// Lets the host poll after `time`, unless a poll is due earlier.
    pub fn poll_after(&mut self, now: SimTime, time: Nanos) {
        self.poll_at.get_or_insert(now + time);
    }

    /// Returns the time of the next poll.
    pub fn next_event(&self) -> Option<SimTime> {
        self.poll_at
    }

    /// Begins a poll that is due; returns whether there is one.
    pub fn begin_poll(&mut self, now: SimTime) -> bool {
        let is_due = self.poll_at.is_some_and(|at| at <= now);
        if is_due {
            self.poll_at = None;
            self.counters.polls += 1;
        }
        is_due
    }

    /// Ends a poll, which reports everything held.
    pub fn end_poll(&mut self, now: SimTime, told: &mut VecDeque<Notice>) {
        self.counters.empty_polls += u64::from(self.held.is_empty());
        self.tell(now, told);
    }

    /// Tells all that is held.
    pub fn tell(&mut self, now: SimTime, told: &mut VecDeque<Notice>) {
        while let Some((since, notice)) = self.held.pop_front() {
            self.counters.told += 1;
            self.counters.held_ns += now.since(since).0;
            told.push_back(notice);
        }
    }

    /// The host has freed a name: a move of it has ended.
    pub fn freed(&mut self, name: u64) {
        self.held.retain(|(_, notice)| !matches!(notice, Notice::Moved { old, .. } if old.0 == name));
    }

    /// Forgets all: the drive tells its moves again after a power cut.
    pub fn clear(&mut self) {
        self.held.clear();
        self.poll_at = None;
    }
}
