//! Processor of the host: costs of requests, commands and completions, and commands that wait for it.

use crate::{Ask, KvCosts};
use pellucid_flash::{Command, Completion, Nanos, Opcode, SimTime};
use pellucid_host::Steps;
use std::collections::VecDeque;

/// A unit of work.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Asked(Ask),
    Send(Command),
    Ended(Completion),
}

/// The processor's work.
#[derive(Clone, Debug)]
pub(crate) struct Processor {
    costs: KvCosts,
    steps: Steps<Step>,
    /// Commands whose cost has been charged.
    paid: VecDeque<Command>,
    /// Commands with the drive.
    outstanding: u32,
}

impl Processor {
    pub fn new(costs: KvCosts) -> Processor {
        Processor { costs, steps: Steps::new(costs.cores), paid: VecDeque::new(), outstanding: 0 }
    }

    /// Reports whether all costs are zero, because the host's processor is real.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.costs == KvCosts::FREE
    }

    fn moved(&self, bytes: usize) -> Nanos {
        Nanos(self.costs.kib_ns.0 * bytes as u64 / 1024)
    }

    /// Charges a request that moves `bytes`. Returns it if that takes no time.
    pub fn ask(&mut self, now: SimTime, ask: Ask, bytes: usize) -> Option<Ask> {
        let cost = self.costs.ask_ns + self.moved(bytes);
        match self.steps.give(now, cost, Step::Asked(ask)) {
            Some(Step::Asked(ask)) => Some(ask),
            _ => None,
        }
    }

    /// Charges a completion. Returns it if that takes no time.
    pub fn complete(&mut self, now: SimTime, completion: Completion) -> Option<Completion> {
        let bytes = if completion.opcode == Opcode::Read { completion.data.len() } else { 0 };
        let cost = self.costs.completion_ns + self.moved(bytes);
        match self.steps.give(now, cost, Step::Ended(completion)) {
            Some(Step::Ended(completion)) => Some(completion),
            _ => None,
        }
    }

    /// Charges a command. Returns it if that takes no time.
    pub fn send(&mut self, now: SimTime, command: Command) -> Option<Command> {
        let bytes = if command.opcode == Opcode::Write { command.data.len() } else { 0 };
        let cost = self.costs.command_ns + self.moved(bytes);
        match self.steps.give(now, cost, Step::Send(command)) {
            Some(Step::Send(command)) => Some(command),
            _ => None,
        }
    }

    /// The next work completed by `now`; commands are kept.
    pub fn due(&mut self, now: SimTime) -> Option<Step> {
        while let Some((_, step)) = self.steps.due(now) {
            match step {
                Step::Send(command) => self.paid.push_back(command),
                other => return Some(other),
            }
        }
        None
    }

    /// The next command to submit.
    pub fn next_sent(&mut self) -> Option<Command> {
        self.paid.pop_front()
    }

    #[inline]
    pub fn next_event(&self) -> Option<SimTime> {
        self.steps.next_event()
    }

    /// Counts a command submitted to the drive.
    #[inline]
    pub fn command_made(&mut self) {
        self.outstanding += 1;
    }

    /// Counts a command completed by the drive.
    #[inline]
    pub fn command_ended(&mut self) {
        self.outstanding -= 1;
    }

    /// Reports whether no command is with the drive.
    pub fn is_idle(&self) -> bool {
        self.outstanding == 0
    }
}
