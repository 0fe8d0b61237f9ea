//! Port: commands to the drive and the processor that they pass, the clock, and the buffers of commands.
//!
//! ```text
//!  command ─► processor ─► down ─► drive ─► completion ─► processor ─► ended
//! ```
//! Invariant: a command that was sent is outstanding until its end was handled, wherever it is on the way.

use crate::CpuCosts;
use crate::cpu::Steps;
use pellucid_flash::{Command, Completion, Nanos, SimTime, Vector};
use std::collections::VecDeque;

/// Task of the host's processor.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// Handles a new command of the application.
    Arrived(u32),
    /// Sends a command to the drive.
    Send(Command),
    /// Handles a completion of the drive.
    Ended(Completion),
}

/// Number of the lowest bit of a tag's owner field.
const TAG_SHIFT: u32 = 56;
pub(crate) const TAG_UNIT: u64 = 1 << TAG_SHIFT;
pub(crate) const TAG_READ: u64 = 2 << TAG_SHIFT;
pub(crate) const TAG_START: u64 = 3 << TAG_SHIFT;
pub(crate) const TAG_FINISH: u64 = 4 << TAG_SHIFT;
pub(crate) const TAG_NUMBER: u64 = (1 << TAG_SHIFT) - 1;

/// Way to the drive and back.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    namespace: u16,
    costs: CpuCosts,
    now: SimTime,
    steps: Steps<Task>,
    down: VecDeque<Command>,
    /// Number of commands with the drive, or on their way to or from it.
    outstanding: u32,
    images: Vec<Vec<u8>>,
    #[expect(clippy::vec_box, reason = "the box is what commands carry")]
    vectors: Vec<Box<Vector>>,
}

impl Port {
    pub fn new(namespace: u16, costs: CpuCosts) -> Port {
        Port {
            namespace,
            costs,
            now: SimTime::ZERO,
            steps: Steps::new(costs.cores),
            down: VecDeque::new(),
            outstanding: 0,
            images: Vec::new(),
            vectors: Vec::new(),
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

    /// Queues a command of the application on the processor; returns the task if it costs nothing.
    #[inline]
    pub fn take_in(&mut self, request: u32, sectors: u32) -> Option<Task> {
        let cost = Nanos(self.costs.submit_ns.0 + self.costs.sector_ns.0 * u64::from(sectors));
        self.steps.give(self.now, cost, Task::Arrived(request))
    }

    /// Queues a completion on the processor; returns `false` if its handling costs nothing, so that the caller handles it.
    #[inline]
    pub fn take_back(&mut self, completion: &mut Completion) -> bool {
        let cost = self.costs.completion_ns;
        if cost == Nanos::ZERO {
            return false;
        }
        let task = self.steps.give(self.now, cost, Task::Ended(completion.take()));
        assert!(task.is_none(), "a step with a cost takes effect later");
        true
    }

    /// Removes and returns the next task that is due by `now`; the clock shows its time then.
    #[inline]
    pub fn due(&mut self, now: SimTime) -> Option<Task> {
        let (at, task) = self.steps.due(now)?;
        self.now = at;
        Some(task)
    }

    #[inline]
    pub fn next_event(&self) -> Option<SimTime> {
        self.steps.next_event()
    }

    pub fn busy(&self) -> Nanos {
        self.steps.busy()
    }

    // ---- commands

    /// Sends a command to the drive.
    #[inline]
    pub fn send(&mut self, mut command: Command) {
        command.namespace = self.namespace;
        self.outstanding += 1;
        match self.costs.command_ns {
            Nanos::ZERO => self.down.push_back(command),
            cost => {
                let task = self.steps.give(self.now, cost, Task::Send(command));
                assert!(task.is_none(), "a step with a cost takes effect later");
            }
        }
    }

    /// Passes a command on that the processor has sent.
    pub fn pass(&mut self, command: Command) {
        self.down.push_back(command);
    }

    #[inline]
    pub fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    /// Notes that the end of a command is handled.
    #[inline]
    pub fn ended(&mut self) {
        assert!(self.outstanding > 0, "a command ends that was not sent");
        self.outstanding -= 1;
    }

    /// Reports whether no command is in flight.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.outstanding == 0
    }

    // ---- buffers

    /// Returns a buffer with any content.
    #[inline]
    pub fn image(&mut self) -> Vec<u8> {
        self.images.pop().unwrap_or_default()
    }

    /// Returns an empty vector.
    #[inline]
    pub fn vector(&mut self) -> Box<Vector> {
        self.vectors.pop().unwrap_or_default()
    }

    /// Takes buffers back.
    #[inline]
    pub fn put_back(&mut self, data: Vec<u8>, vector: Option<Box<Vector>>) {
        if data.capacity() > 0 {
            self.images.push(data);
        }
        if let Some(mut vector) = vector {
            vector.addresses.clear();
            vector.metadata.clear();
            self.vectors.push(vector);
        }
    }
}
