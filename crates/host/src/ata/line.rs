//! The line to the drive: commands wait for a slot, and some need the line for themselves.
//!
//! ```text
//!   waiting ─► with the drive, at most as many as there are slots ─► ended
//!
//!   open ─► draining (an error; what is with the drive ends) ─► recovering ─► open
//! ```
//! Invariants: commands leave in the order in which they came; a command that is *alone* is with the drive while no other is; nothing
//! is sent unless the line is open.

use pellucid_flash::{Nanos, SimTime};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Draining,
    Recovering(SimTime),
}

/// Counters of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineCounters {
    /// Commands sent.
    pub commands: u64,
    /// Commands that had the line for themselves.
    pub alone: u64,
    /// Time for which commands waited although there was a slot, because of a command that was alone.
    pub stalled_ns: u64,
    /// Errors.
    pub errors: u64,
    /// Time of recoveries.
    pub recovery_ns: u64,
}

/// The line, with commands `T`.
#[derive(Clone, Debug)]
pub(super) struct Line<T> {
    slots: u32,
    error_time: Nanos,
    /// Commands, and whether each needs the line for itself.
    waiting: VecDeque<(bool, T)>,
    with_drive: u32,
    is_alone: bool,
    state: State,
    stalled_since: Option<SimTime>,
    counters: LineCounters,
}

impl<T> Line<T> {
    pub fn new(slots: u32, error_time: Nanos) -> Line<T> {
        Line {
            slots,
            error_time,
            waiting: VecDeque::new(),
            with_drive: 0,
            is_alone: false,
            state: State::Open,
            stalled_since: None,
            counters: LineCounters::default(),
        }
    }

    pub fn counters(&self) -> LineCounters {
        self.counters
    }

    /// Returns the number of commands that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether no command waits or is with the drive.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.with_drive == 0
    }

    /// Queues a command.
    pub fn push(&mut self, alone: bool, command: T) {
        self.waiting.push_back((alone, command));
    }

    /// Queues a command again, in front of all others.
    pub fn push_again(&mut self, alone: bool, command: T) {
        self.waiting.push_front((alone, command));
    }

    /// Returns the next command that may go to the drive now.
    pub fn send(&mut self, now: SimTime) -> Option<T> {
        let &(alone, _) = self.waiting.front()?;
        if self.state != State::Open || self.with_drive == self.slots {
            return None;
        }
        if self.is_alone || (alone && self.with_drive > 0) {
            self.stalled_since.get_or_insert(now);
            return None;
        }
        if let Some(since) = self.stalled_since.take() {
            self.counters.stalled_ns += now.since(since).0;
        }
        self.with_drive += 1;
        self.is_alone = alone;
        self.counters.commands += 1;
        self.counters.alone += u64::from(alone);
        self.waiting.pop_front().map(|(_, command)| command)
    }

    /// A command has ended; `is_error`: in a way that the host recovers from.
    pub fn ended(&mut self, now: SimTime, is_error: bool) {
        self.with_drive -= 1;
        self.is_alone = false;
        if is_error {
            self.counters.errors += 1;
            self.state = State::Draining;
        }
        if self.state == State::Draining && self.with_drive == 0 {
            self.state = State::Recovering(now + self.error_time);
            self.counters.recovery_ns += self.error_time.0;
        }
    }

    /// Returns the end of the recovery.
    pub fn next_event(&self) -> Option<SimTime> {
        if let State::Recovering(until) = self.state { Some(until) } else { None }
    }

    /// Ends a recovery that is due; returns whether there was one.
    pub fn recover(&mut self, now: SimTime) -> bool {
        let is_due = self.next_event().is_some_and(|until| until <= now);
        if is_due {
            self.state = State::Open;
        }
        is_due
    }

    /// Forgets all commands: the drive has lost its power.
    pub fn clear(&mut self) {
        self.waiting.clear();
        (self.with_drive, self.is_alone, self.state) = (0, false, State::Open);
        self.stalled_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(line: &mut Line<u32>, now: u64) -> Vec<u32> {
        std::iter::from_fn(|| line.send(SimTime(now))).collect()
    }

    #[test]
    fn a_command_that_cannot_be_queued_waits_for_all_and_all_for_it() {
        let mut line = Line::new(2, Nanos(100));
        for (alone, command) in [(false, 0), (false, 1), (false, 2), (true, 3), (false, 4)] {
            line.push(alone, command);
        }
        assert_eq!(sent(&mut line, 0), [0, 1], "two slots");
        line.ended(SimTime(10), false);
        assert_eq!(sent(&mut line, 10), [2]);
        line.ended(SimTime(20), false);
        assert_eq!(sent(&mut line, 20), [], "2 is with the drive");
        line.ended(SimTime(25), false);
        assert_eq!(sent(&mut line, 25), [3]);
        line.ended(SimTime(40), false);
        assert_eq!(sent(&mut line, 40), [4], "after 3 alone");
        line.ended(SimTime(50), false);
        let LineCounters { commands, alone, stalled_ns, errors, .. } = line.counters();
        assert_eq!((commands, alone, stalled_ns, errors), (5, 1, 20, 0));
        assert!(line.is_idle());
    }

    #[test]
    fn after_an_error_nothing_is_sent_until_all_have_ended_and_the_host_has_recovered() {
        let mut line = Line::new(4, Nanos(100));
        (0..4).for_each(|command| line.push(false, command));
        assert_eq!(sent(&mut line, 0).len(), 4);
        line.push(false, 4);
        line.ended(SimTime(10), true);
        assert_eq!((sent(&mut line, 10), line.next_event()), (vec![], None), "three are with the drive");
        line.ended(SimTime(20), false);
        line.ended(SimTime(30), true);
        line.ended(SimTime(40), false);
        assert_eq!(line.next_event(), Some(SimTime(140)));
        assert!(!line.recover(SimTime(139)) && sent(&mut line, 139).is_empty());
        assert!(line.recover(SimTime(140)));
        assert_eq!(sent(&mut line, 140), [4]);
        let LineCounters { errors, recovery_ns, .. } = line.counters();
        assert_eq!((errors, recovery_ns), (2, 100), "one recovery for both");
    }
}
