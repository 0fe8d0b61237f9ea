//! Requests: the commands from above, what each waits for, and the answers.
//!
//! ```text
//!  open ─┬─ write: waiting for space ─► in the buffer ─► answered (forced: waits as a flush does)
//!        ├─ command that bypasses the buffer: waiting for evictions ─► with the drive ─► answered
//!        ├─ read: with the drive ─► answered
//!        └─ flush: waiting for evictions, or for a record ─► answered
//! ```
//! Invariants: a request is answered once; waiting ones go on in the order of their arrival; a read is under way from its first command to the
//! drive to its answer.

use super::config::BufferShape;
use pellucid_flash::slab::Slab;
use pellucid_flash::{Command, Completion, SimTime, Stage, StageTimes, Status};
use std::collections::VecDeque;

/// Command from above.
#[derive(Clone, Debug, Default)]
struct Op {
    command: Option<Command>,
    submitted: SimTime,
    stages: StageTimes,
    /// The write goes into the buffer, as was decided when it came.
    buffered: bool,
    /// Write: number of sectors in the buffer. Read: number of parts under way after a failed read of the
    /// drive.
    done: u32,
    /// Flush: number of the last write before it.
    barrier: u64,
    /// Read: number of the last write when it was sent to the drive.
    order: u64,
    /// Write: a refused cluster has already been retried for it.
    tried: bool,
    status: Option<Status>,
}

/// Commands from above.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    shape: BufferShape,
    ops: Slab<Op>,
    /// Writes that wait for space, and commands that wait for evictions or bypasses, in order.
    waiting: VecDeque<u32>,
    /// Reads under way in the drive.
    reads: Vec<u32>,
    /// Flushes that wait for evictions.
    flushes: VecDeque<u32>,
    up: VecDeque<Completion>,
}

impl Requests {
    pub fn new(shape: BufferShape) -> Requests {
        Requests {
            shape,
            ops: Slab::default(),
            waiting: VecDeque::new(),
            reads: Vec::new(),
            flushes: VecDeque::new(),
            up: VecDeque::new(),
        }
    }

    // ---- commands

    #[inline]
    pub fn open(&mut self, command: Command, submitted: SimTime, buffered: bool) -> u32 {
        self.ops.insert(Op { command: Some(command), submitted, buffered, ..Op::default() })
    }

    #[inline]
    pub fn command(&self, op: u32) -> &Command {
        self.ops[op].command.as_ref().expect("a command under way")
    }

    #[inline]
    pub fn command_mut(&mut self, op: u32) -> &mut Command {
        self.ops[op].command.as_mut().expect("a command under way")
    }

    /// Takes the buffer of a command.
    #[inline]
    pub fn take_data(&mut self, op: u32) -> Vec<u8> {
        std::mem::take(&mut self.command_mut(op).data)
    }

    /// Brings the buffer of a command back.
    #[inline]
    pub fn put_data(&mut self, op: u32, data: Vec<u8>) {
        let command = self.command_mut(op);
        assert!(command.data.is_empty(), "a command has two buffers");
        command.data = data;
    }

    /// Returns the first and the last cluster of a command.
    #[inline]
    pub fn clusters(&self, op: u32) -> (u64, u64) {
        let Command { lba, sectors, .. } = *self.command(op);
        self.shape.clusters_of(lba.0, sectors)
    }

    /// Reports whether a write goes into the buffer.
    #[inline]
    pub fn is_buffered(&self, op: u32) -> bool {
        self.ops[op].buffered
    }

    #[inline]
    pub fn set_stages(&mut self, op: u32, stages: StageTimes) {
        self.ops[op].stages = stages;
    }

    // ---- waiting for space

    #[inline]
    pub fn wait(&mut self, op: u32) {
        self.waiting.push_back(op);
    }

    #[inline]
    pub fn first_waiting(&self) -> Option<u32> {
        self.waiting.front().copied()
    }

    /// Notes that the first waiting request goes on.
    #[inline]
    pub fn first_goes_on(&mut self) {
        self.waiting.pop_front().expect("a request waits");
    }

    #[inline]
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Reports whether a write waits for space.
    pub fn has_waiting_write(&self) -> bool {
        self.waiting.iter().any(|&op| self.ops[op].buffered)
    }

    /// Returns the number of sectors of a write that are in the buffer.
    #[inline]
    pub fn done(&self, op: u32) -> u32 {
        self.ops[op].done
    }

    /// Notes that the buffer has so many sectors of a write; returns `true` if it has all.
    #[inline]
    pub fn set_done(&mut self, op: u32, done: u32) -> bool {
        let sectors = self.command(op).sectors;
        assert!(self.ops[op].done <= done && done <= sectors, "a write has more sectors than it brought");
        self.ops[op].done = done;
        done == sectors
    }

    /// Notes that a refused cluster is retried for a write; returns `false` if one was before.
    pub fn tries(&mut self, op: u32) -> bool {
        !std::mem::replace(&mut self.ops[op].tried, true)
    }

    // ---- reads

    /// Notes that a read goes to the drive, after the write `order`.
    #[inline]
    pub fn begin_read(&mut self, op: u32, order: u64) {
        self.ops[op].order = order;
        self.reads.push(op);
    }

    /// Splits a read into `parts`; the sectors in the buffer stay there until these have ended.
    pub fn split_read(&mut self, op: u32, parts: usize) {
        assert!(self.reads.contains(&op) && self.ops[op].done == 0, "a read is split that is not under way");
        (self.ops[op].done, self.ops[op].order) = (parts as u32, 0);
    }

    /// Notes the end of a part, with its failure; returns the status of the read after its last one.
    pub fn part_read(&mut self, op: u32, failure: Option<Status>) -> Option<Status> {
        let record = &mut self.ops[op];
        assert!(record.done > 0, "a read has more ends than parts");
        record.status = failure.or(record.status);
        record.done -= 1;
        (record.done == 0).then(|| record.status.unwrap_or(Status::Success))
    }

    /// Notes that a read is no longer under way.
    pub fn end_read(&mut self, op: u32) {
        let at = self.reads.iter().position(|&other| other == op).expect("it is under way");
        self.reads.swap_remove(at);
    }

    /// Reports whether a read of these clusters sent to the drive before `moment` is in flight.
    #[inline]
    pub fn is_read_since_before(&self, moment: u64, first: u64, last: u64) -> bool {
        self.reads.iter().any(|&op| {
            let (from, to) = self.clusters(op);
            self.ops[op].order < moment && from <= last && first <= to
        })
    }

    // ---- flushes

    /// Lets a request wait for all writes up to `barrier`.
    pub fn wait_for_flush(&mut self, op: u32, barrier: u64) {
        assert!(self.last_barrier().is_none_or(|last| last <= barrier), "barriers of flushes rise");
        self.ops[op].barrier = barrier;
        self.flushes.push_back(op);
    }

    /// Returns the number of flushes that wait.
    #[inline]
    pub fn flushes(&self) -> usize {
        self.flushes.len()
    }

    /// Returns the last write before the first flush that waits.
    #[inline]
    pub fn first_barrier(&self) -> Option<u64> {
        self.flushes.front().map(|&op| self.ops[op].barrier)
    }

    /// Returns the last write before the last flush that waits.
    #[inline]
    pub fn last_barrier(&self) -> Option<u64> {
        self.flushes.back().map(|&op| self.ops[op].barrier)
    }

    /// Removes and returns the first flush.
    pub fn next_flush(&mut self) -> Option<u32> {
        self.flushes.pop_front()
    }

    // ---- answers

    /// Answers a request.
    #[inline]
    pub fn finish(&mut self, op: u32, status: Status, now: SimTime, unmapped: u32) {
        let record = &mut self.ops[op];
        let command = record.command.take().expect("a command under way");
        let stages = record.stages.summing_to(now - record.submitted, Stage::Host);
        let ended = command.ended(status, record.submitted, now, stages);
        self.up.push_back(Completion { unmapped, ..ended });
        self.ops.release(op);
    }

    /// Answers all requests of `before`, whose life has ended, as lost to a power cut, behind its earlier answers.
    pub fn inherit(&mut self, before: &mut Requests, now: SimTime) {
        assert!(self.up.is_empty(), "nothing was answered yet");
        let under_way = (0..).zip(before.ops.iter()).filter(|(_, op)| op.command.is_some());
        let under_way: Vec<u32> = under_way.map(|(op, _)| op).collect();
        for op in under_way {
            before.set_stages(op, StageTimes::default());
            before.finish(op, Status::PowerLoss, now, 0);
        }
        self.up = std::mem::take(&mut before.up);
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    #[inline]
    pub fn answered(&self) -> usize {
        self.up.len()
    }

    pub fn memory_bytes(&self) -> u64 {
        self.ops.memory_bytes()
    }
}
