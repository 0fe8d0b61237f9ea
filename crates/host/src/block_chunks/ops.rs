//! Commands from above that have not ended.
//!
//! Invariant: a command has a record from `begin` to `finish`, and ends once.

use pellucid_flash::slab::Slab;
use pellucid_flash::{Command, Completion, SimTime, Stage, StageTimes, Status};
use std::collections::VecDeque;

/// Command from above.
#[derive(Clone, Debug, Default)]
struct Op {
    command: Option<Command>,
    submitted: SimTime,
    /// Number of parts under way.
    left: u32,
    status: Option<Status>,
    /// Failed addresses, as a bit mask.
    failed: u64,
    stages: StageTimes,
}

/// Commands from above, and completions on their way up.
#[derive(Clone, Debug, Default)]
pub(super) struct Ops {
    ops: Slab<Op>,
    up: VecDeque<Completion>,
}

impl Ops {
    /// Bytes of memory held by records.
    pub fn memory_bytes(&self) -> u64 {
        self.ops.memory_bytes()
    }

    /// Takes a command up.
    pub fn begin(&mut self, now: SimTime, command: Command) -> u32 {
        let op = self.ops.take();
        self.ops[op] = Op { command: Some(command), submitted: now, ..Op::default() };
        op
    }

    pub fn command(&self, op: u32) -> &Command {
        self.ops[op].command.as_ref().expect("a command under way")
    }

    pub fn command_mut(&mut self, op: u32) -> &mut Command {
        self.ops[op].command.as_mut().expect("a command under way")
    }

    /// A part of a command goes to the drive.
    pub fn begin_part(&mut self, op: u32) {
        self.ops[op].left += 1;
    }

    /// A part of a command has ended, with these times.
    pub fn set_stages(&mut self, op: u32, stages: StageTimes) {
        self.ops[op].stages = stages;
    }

    /// One of the parts of a read has ended: returns the command's status if it was the last one.
    pub fn end_part(&mut self, op: u32) -> Option<Status> {
        self.ops[op].left -= 1;
        (self.ops[op].left == 0).then(|| self.ops[op].status.unwrap_or(Status::Success))
    }

    /// Sector `at` of a command has failed.
    pub fn fail(&mut self, op: u32, at: u32, status: Status) {
        self.ops[op].failed |= 1u64.checked_shl(at).unwrap_or(0);
        self.ops[op].status = Some(status);
    }

    /// Ends a command.
    pub fn finish(&mut self, now: SimTime, op: u32, status: Status) {
        let record = &mut self.ops[op];
        let command = record.command.take().expect("a command under way");
        let stages = record.stages.summing_to(now - record.submitted, Stage::Host);
        let ended = command.ended(status, record.submitted, now, stages);
        self.up.push_back(Completion { result: record.failed, ..ended });
        self.ops.release(op);
    }

    /// Handles a power cut: ends all operations in flight, and returns the completions to pass up.
    pub fn lose_all(&mut self, now: SimTime) -> VecDeque<Completion> {
        let under_way = (0..).zip(self.ops.iter()).filter(|(_, op)| op.command.is_some());
        let under_way: Vec<u32> = under_way.map(|(op, _)| op).collect();
        for op in under_way {
            self.ops[op].stages = StageTimes::default();
            self.finish(now, op, Status::PowerLoss);
        }
        std::mem::take(&mut self.up)
    }

    /// Completions go up that a former life of the layer has left.
    pub fn put_up(&mut self, completions: VecDeque<Completion>) {
        self.up.extend(completions);
    }

    /// Takes the next completion.
    pub fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    /// Completions that can be taken.
    #[inline]
    pub fn answered(&self) -> usize {
        self.up.len()
    }
}
