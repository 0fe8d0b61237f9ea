//! Host machines as backends: serves the pump of `host` behind a socket.

use super::{Answered, Backend};
use pellucid_flash::{Completion, Drive, SimTime};
use pellucid_host::{Machine, Stack};

/// An answer with the tag of its request and its time.
pub trait Reply {
    /// Tag that the caller gave the request.
    fn tag(&self) -> u32;
    /// Time of the answer.
    fn at(&self) -> SimTime;
}

impl Reply for Completion {
    fn tag(&self) -> u32 {
        self.tag as u32
    }

    fn at(&self) -> SimTime {
        self.completed
    }
}

/// A machine on its drive. Each request carries its own tag.
impl<M: Machine<Answer: Reply>, D: Drive> Backend for Stack<M, D> {
    type Ask = M::Ask;
    type Answer = M::Answer;

    fn now(&self) -> SimTime {
        Stack::now(self)
    }

    fn submit(&mut self, at: SimTime, _: u32, ask: M::Ask) {
        self.ask(at, ask);
    }

    fn next_event(&self) -> Option<SimTime> {
        Stack::next_event(self)
    }

    fn advance(&mut self, now: SimTime) {
        Stack::advance(self, now);
    }

    fn outstanding(&self) -> usize {
        self.asked() - self.layer.answered()
    }

    fn completed(&self) -> usize {
        self.layer.answered()
    }

    fn pop(&mut self) -> Option<Answered<M::Answer>> {
        let answer = self.answer()?;
        Some(Answered { tag: answer.tag(), at: answer.at(), answer })
    }
}

#[cfg(test)]
mod tests;
