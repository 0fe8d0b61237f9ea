//! Two drives behind one port: a flash drive and a backing store, say.
//!
//! ```text
//!   namespaces   0 .. n-1 of the first     n .. of the second
//! ```
//! Invariants: both drives are at one time; completions come in the order in which the commands ended, at one moment those of the first
//! drive first. Which numbers are whose is settled when the pair is made.

use pellucid_flash::{Command, Completion, Drive, Interface, Notice, SimTime, Status};
use std::collections::VecDeque;

/// Two drives as one. Clone it to fork the future of both.
#[derive(Clone, Debug)]
pub struct Pair<A, B> {
    /// The first drive. No other caller submits to it.
    pub first: A,
    /// The second drive, as the first.
    pub second: B,
    /// Namespaces of the first drive.
    split: u16,
    now: SimTime,
    up: VecDeque<Completion>,
}

impl<A: Drive, B: Drive> Pair<A, B> {
    /// Puts two drives together that are at `now` at most, with nothing under way.
    ///
    /// The error says why they do not fit together.
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

    /// Simulated time of both.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// The number that namespace `namespace` of the second drive has here.
    pub fn of_second(&self, namespace: u16) -> u16 {
        self.split + namespace
    }

    /// Does something to the drives at `now`, beside their commands, and what follows from it.
    pub fn act<R>(&mut self, now: SimTime, act: impl FnOnce(&mut A, &mut B) -> R) -> R {
        Drive::advance(self, now);
        let result = act(&mut self.first, &mut self.second);
        self.collect();
        result
    }

    /// A drive that lost its power has come back at `now`; the other one goes on until then.
    pub fn restart(&mut self, now: SimTime) {
        Drive::advance(self, self.now.max(now));
    }

    /// When one of the drives next does something by itself.
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

    /// Both drives come to `now`, before which neither has an event left.
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
        // A drive in wall time is advanced by others, too: what that brought waits to be taken.
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

    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        let of_second = |(namespace, notice)| (self.split + namespace, notice);
        self.first.pop_notice().or_else(|| self.second.pop_notice().map(of_second))
    }
}
