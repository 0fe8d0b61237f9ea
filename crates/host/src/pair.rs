//! Pair of drives behind one port, for instance a flash drive and a backing store.
//!
//! ```text
//!   namespaces   0 .. n-1 of the first     n .. of the second
//! ```
//! Invariants: both drives are at the same time; completions come in the order in which their commands ended,
//! and at equal times those of the first drive come first. The division of namespace numbers is fixed when
//! the pair is made.

use pellucid_flash::{Command, Completion, Drive, Interface, Notice, SimTime, Status};
use std::collections::VecDeque;

/// Two drives as one. Clone it to fork both.
#[derive(Clone, Debug)]
pub struct Pair<A, B> {
    /// First drive. Nothing else submits to it.
    pub first: A,
    /// Second drive. Nothing else submits to it.
    pub second: B,
    /// Number of namespaces of the first drive.
    split: u16,
    now: SimTime,
    up: VecDeque<Completion>,
}

impl<A: Drive, B: Drive> Pair<A, B> {
    /// Combines two drives that are at `now` or earlier, with nothing in flight.
    ///
    /// The error is the reason that they do not fit together.
    pub fn new(first: A, second: B, now: SimTime) -> Result<Pair<A, B>, String> {
        let (one, other) = (first.image_bytes(), second.image_bytes());
        if one != other {
            return Err(format!(
                "two drives as one: sector images of {one} and {other} bytes; allowed: the same size and the same kind of store"
            ));
        }
        let split = first.namespaces();
        let mut pair = Pair { first, second, split, now, up: VecDeque::new() };
        pair.rest(now);
        Ok(pair)
    }

    /// Returns the simulated time of both drives.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Returns the pair's number of namespace `namespace` of the second drive.
    pub fn of_second(&self, namespace: u16) -> u16 {
        self.split + namespace
    }

    /// Runs an action on the drives at `now` that is not a command, and handles its effects.
    pub fn act<R>(&mut self, now: SimTime, act: impl FnOnce(&mut A, &mut B) -> R) -> R {
        Drive::advance(self, now);
        let result = act(&mut self.first, &mut self.second);
        self.collect();
        result
    }

    /// Continues after a drive lost power and came back at `now`; the other one runs until then.
    pub fn restart(&mut self, now: SimTime) {
        Drive::advance(self, self.now.max(now));
    }

    /// Returns the time of the next event of either drive.
    fn due(&self) -> Option<SimTime> {
        match (self.first.next_event(), self.second.next_event()) {
            (Some(first), Some(second)) => Some(first.min(second)),
            (first, second) => first.or(second),
        }
    }

    fn collect(&mut self) {
        self.up.extend(std::iter::from_fn(|| self.first.pop()));
        self.up.extend(std::iter::from_fn(|| self.second.pop()));
    }

    /// Brings both drives to `now`; neither has an earlier event left.
    fn rest(&mut self, now: SimTime) {
        self.now = now;
        self.first.advance(now);
        self.second.advance(now);
        self.collect();
    }
}

impl<A: Drive, B: Drive> Drive for Pair<A, B> {
    fn namespaces(&self) -> u16 {
        self.split + self.second.namespaces()
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        match namespace.checked_sub(self.split) {
            None => self.first.interface(namespace),
            Some(namespace) => self.second.interface(namespace),
        }
    }

    fn image_bytes(&self) -> usize {
        self.first.image_bytes()
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        Drive::advance(self, now);
        match command.namespace.checked_sub(self.split) {
            _ if self.interface(command.namespace).is_none() => {
                self.up.push_back(command.refused(now, Status::InvalidField));
            }
            None => self.first.submit(now, command),
            Some(namespace) => self.second.submit(now, Command { namespace, ..command }),
        }
        self.collect();
    }

    fn advance(&mut self, now: SimTime) {
        while let Some(next) = self.due().filter(|&next| next < now) {
            self.rest(self.now.max(next));
        }
        self.rest(now);
    }

    fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        Drive::advance(self, now);
        while self.up.is_empty()
            && let Some(next) = self.due().filter(|&next| next < limit)
        {
            self.rest(self.now.max(next));
        }
        self.now
    }

    fn next_event(&self) -> Option<SimTime> {
        // A drive in real time is also advanced by others; its completions then wait here.
        if self.up.is_empty() { self.due() } else { Some(self.now) }
    }

    fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    fn outstanding(&self) -> usize {
        self.first.outstanding() + self.second.outstanding()
    }

    fn completed(&self) -> usize {
        self.up.len() + self.first.completed() + self.second.completed()
    }

    fn notices(&self) -> usize {
        self.first.notices() + self.second.notices()
    }

    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        let of_second = |(namespace, notice)| (self.split + namespace, notice);
        self.first.pop_notice().or_else(|| self.second.pop_notice().map(of_second))
    }
}
