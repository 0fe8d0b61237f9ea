//! Port: commands to the drive and the processor that they pass, the clock, and buffers.
//!
//! Every call from outside only records an event; its consequences run after their processor time ([`Step`]).

use crate::CpuCosts;
use crate::cpu::Steps;
use pellucid_flash::slab::Slab;
use pellucid_flash::{Command, Completion, Nanos, SimTime};
use std::collections::VecDeque;

/// Purpose of a command to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Reads all sectors of a read.
    #[default]
    Read,
    /// Reads sectors that the buffer lacks, from this one of the read on.
    Missing(u32),
    /// Runs a command that bypasses the buffer.
    Bypass,
    /// Flushes the drive for a flush from above.
    Flush,
    /// Reads the missing sectors of this eviction's cluster.
    Pad(u32),
    /// Writes sectors of this eviction's cluster.
    Run(u32),
    /// Flushes the drive before a stop.
    Stop,
    /// Flushes the drive for a group of flushes that may journal.
    GroupFlush,
    /// Writes a record of the journal.
    Append,
    /// Reads or writes the journal during the start.
    Start,
}

/// Command to the drive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    pub op: u32,
    pub purpose: Purpose,
}

/// Step of work of the host's processor.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Begin(u32),
    Send(Command),
    Ended(Completion),
}

/// Way to the drive and back.
#[derive(Clone, Debug)]
pub(super) struct Port {
    namespace: u16,
    costs: CpuCosts,
    image_bytes: usize,
    now: SimTime,
    steps: Steps<Step>,
    parts: Slab<Part>,
    down: VecDeque<Command>,
    buffers: Vec<Vec<u8>>,
    /// Maximum number of buffers that are kept.
    buffers_max: usize,
}

impl Port {
    pub fn new(namespace: u16, costs: CpuCosts, image_bytes: usize, buffers_max: usize) -> Port {
        Port {
            namespace,
            costs,
            image_bytes,
            now: SimTime::ZERO,
            steps: Steps::new(costs.cores),
            parts: Slab::default(),
            down: VecDeque::new(),
            buffers: Vec::new(),
            buffers_max,
        }
    }

    #[inline]
    pub fn now(&self) -> SimTime {
        self.now
    }

    #[inline]
    pub fn set_now(&mut self, now: SimTime) {
        self.now = now;
    }

    // ---- processor

    /// Returns the cost of copying sectors.
    #[inline]
    pub fn sectors_cost(&self, sectors: u64) -> Nanos {
        Nanos(self.costs.sector_ns.0 * sectors)
    }

    /// Queues a request with the given number of copied sectors; returns the step if it is free.
    #[inline]
    pub fn take_in(&mut self, op: u32, sectors: u32) -> Option<Step> {
        let cost = self.costs.submit_ns + self.sectors_cost(sectors.into());
        self.steps.give(self.now, cost, Step::Begin(op))
    }

    /// Queues a completion with the given number of copied sectors; returns the step if it is free.
    #[inline]
    pub fn take_back(&mut self, completion: Completion, sectors: usize) -> Option<Step> {
        let cost = self.costs.completion_ns + self.sectors_cost(sectors as u64);
        self.steps.give(self.now, cost, Step::Ended(completion))
    }

    /// Removes and returns the next step that is due by `now`; the clock shows its time then.
    #[inline]
    pub fn due(&mut self, now: SimTime) -> Option<Step> {
        let (at, step) = self.steps.due(now)?;
        self.now = at;
        Some(step)
    }

    #[inline]
    pub fn next_event(&self) -> Option<SimTime> {
        self.steps.next_event()
    }

    pub fn busy(&self) -> Nanos {
        self.steps.busy()
    }

    // ---- commands

    /// Sends a command to the drive, with `cost` in addition to the usual cost.
    #[inline]
    pub fn send(&mut self, op: u32, purpose: Purpose, cost: Nanos, command: Command) {
        let part = self.parts.insert(Part { op, purpose });
        let command = Command { tag: part.into(), namespace: self.namespace, ..command };
        let cost = self.costs.command_ns + cost;
        if let Some(Step::Send(command)) = self.steps.give(self.now, cost, Step::Send(command)) {
            self.down.push_back(command);
        }
    }

    /// Passes a command on that the processor has sent.
    #[inline]
    pub fn pass(&mut self, command: Command) {
        self.down.push_back(command);
    }

    #[inline]
    pub fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    /// Ends the command of a completion, and returns what it was for.
    #[inline]
    pub fn ended(&mut self, completion: &Completion) -> Part {
        let at = completion.tag as u32;
        let part = self.parts[at];
        self.parts.release(at);
        part
    }

    // ---- buffers

    /// Returns a buffer of so many images, with any content.
    pub fn buffer(&mut self, images: usize) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.resize(images * self.image_bytes, 0);
        buffer
    }

    pub fn give_back(&mut self, buffer: Vec<u8>) {
        if self.buffers.len() < self.buffers_max {
            self.buffers.push(buffer);
        }
    }

    /// Returns the images that the kept buffers can hold.
    pub fn kept_images(&self) -> usize {
        self.buffers.iter().map(|buffer| buffer.capacity() / self.image_bytes).sum()
    }

    pub fn memory_bytes(&self) -> u64 {
        self.parts.memory_bytes()
    }
}
