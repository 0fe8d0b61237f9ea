//! Requests: the operations under way with their blocks, the commands that they have sent to the drives, and the buffers of both.
//!
//! ```text
//!  submitted ─► open ─► admit ─► parts: send ─► ended ─► ... ─► answer ─► close ─► others are granted
//!                         └─► waits for its blocks ─► granted
//! ```
//! Invariants: an operation is closed once all of its parts have ended; every part is ended once; an operation
//! holds its blocks from its admission to its close. Commands and answers leave in the order in which they were made.

use super::blocks::Blocks;
use super::locks::{Held, Hold, Locks};
use super::op::{Kind, Op, Part, Purpose, Side};
use super::streams::Streams;
use super::{CacheConfig, CacheCounters};
use pellucid_flash::slab::{NIL, Slab};
use pellucid_flash::{Command, Completion, Lba, Opcode, SimTime, Status};
use std::collections::VecDeque;
use std::ops::Range;

/// Operations under way, and the commands that they have sent.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    /// Namespaces of the flash and of the backing store.
    namespaces: [u16; 2],
    image_bytes: usize,
    now: SimTime,
    ops: Slab<Op>,
    locks: Locks,
    /// Operations that waited for their blocks, and now hold them.
    granted: VecDeque<u32>,
    streams: Streams,
    parts: Slab<Part>,
    /// Number of writes under way that make blocks dirty on the flash.
    dirtying: u32,
    /// Writes that wait for cleaned blocks.
    parked: VecDeque<(Part, Vec<u8>)>,
    /// Buffers without a user.
    buffers: Vec<Vec<u8>>,
    counters: CacheCounters,
    down: VecDeque<Command>,
    up: VecDeque<Completion>,
}

impl Requests {
    pub fn new(config: &CacheConfig, image_bytes: usize) -> Requests {
        Requests {
            namespaces: [config.flash, config.backing],
            image_bytes,
            now: SimTime::ZERO,
            ops: Slab::default(),
            locks: Locks::default(),
            granted: VecDeque::new(),
            streams: Streams::new(config.sequential_bytes / u64::from(config.sector_bytes)),
            parts: Slab::default(),
            dirtying: 0,
            parked: VecDeque::new(),
            buffers: Vec::new(),
            counters: CacheCounters::default(),
            down: VecDeque::new(),
            up: VecDeque::new(),
        }
    }

    #[inline]
    pub fn namespaces(&self) -> &[u16] {
        &self.namespaces
    }

    #[inline]
    pub fn now(&self) -> SimTime {
        self.now
    }

    #[inline]
    pub fn set_now(&mut self, now: SimTime) {
        debug_assert!(now >= self.now, "time runs forward");
        self.now = now;
    }

    pub fn counters(&self) -> &CacheCounters {
        &self.counters
    }

    /// Returns the counters, to count an event.
    #[inline]
    pub fn count(&mut self) -> &mut CacheCounters {
        &mut self.counters
    }

    // ---- operations and their blocks

    #[inline]
    pub fn op(&self, op: u32) -> &Op {
        &self.ops[op]
    }

    #[inline]
    pub fn op_mut(&mut self, op: u32) -> &mut Op {
        &mut self.ops[op]
    }

    /// Opens an operation for a command.
    #[inline]
    pub fn open(&mut self, command: Command, blocks: Range<u64>) -> u32 {
        let op = self.ops.take();
        self.ops[op].begin(self.now, Some(command), blocks);
        op
    }

    /// Admits a command to its blocks, or queues it for them. Returns `true` if it is admitted.
    #[inline]
    pub fn admit(&mut self, op: u32, blocks: &Blocks) -> bool {
        let record = &mut self.ops[op];
        let hold = match record.kind() {
            Kind::Read => Hold::Read,
            // It goes to the backing store, past which no copy of older data may be on its way.
            Kind::Write if blocks.any_lost(record.blocks()) => Hold::Whole,
            Kind::Write => Hold::Write,
            Kind::Trim => Hold::Whole,
            Kind::Clean | Kind::Flush => unreachable!("only reads, writes and trims wait for blocks"),
        };
        if record.kind() != Kind::Trim {
            let command = record.command();
            let bypass = self.streams.note(command.lba, command.sectors);
            record.set_bypass(bypass);
        }
        let Range { start, end } = record.blocks();
        self.locks.take(Held { first: start, end, hold, op })
    }

    /// Returns the next operation that has got its blocks.
    #[inline]
    pub fn next_granted(&mut self) -> Option<u32> {
        self.granted.pop_front()
    }

    #[inline]
    pub fn has_granted(&self) -> bool {
        !self.granted.is_empty()
    }

    /// Opens an operation that cleans blocks; `None` if others use them.
    pub fn open_run(&mut self, blocks: Range<u64>) -> Option<u32> {
        let op = self.ops.take();
        let held = Held { first: blocks.start, end: blocks.end, hold: Hold::Clean, op };
        if !self.locks.try_take(held) {
            self.ops.release(op);
            return None;
        }
        self.ops[op].begin(self.now, None, blocks);
        Some(op)
    }

    /// Begins to mark the copied blocks of `op` clean; writers wait from now on.
    pub fn mark(&mut self, op: u32) {
        self.locks.mark(op);
    }

    /// Makes `op` a writer if it alone holds its blocks and no request waits for them.
    pub fn upgrade(&mut self, op: u32) -> bool {
        self.locks.upgrade(op)
    }

    /// Tells the cleaning runs that share blocks with the write `op` which of them are written.
    pub fn touch_runs(&mut self, op: u32) {
        let Range { start, end } = self.ops[op].blocks();
        for held in self.locks.cleaning(start, end) {
            self.ops[held.op].touch(start, end);
        }
    }

    /// Reports whether cleaning copies this block.
    pub fn is_cleaned(&self, block: u64) -> bool {
        self.locks.cleaning(block, block + 1).next().is_some()
    }

    /// Reports whether a request holds this block, or waits for it.
    pub fn is_taken(&self, block: u64) -> bool {
        self.locks.is_taken(block)
    }

    /// Answers a command; its operation may keep its blocks.
    #[inline]
    pub fn answer(&mut self, op: u32) {
        let completion = self.ops[op].answer(self.now);
        self.counters.answered(completion.status);
        self.up.push_back(completion);
    }

    /// Ends `op` and releases its blocks. Its command is answered now, unless that was done before.
    #[inline]
    pub fn close(&mut self, op: u32) {
        assert!(self.ops[op].is_settled(), "an operation is closed with parts under way");
        if self.ops[op].has_command() {
            self.answer(op);
        }
        if self.ops[op].has_fills() {
            let mut fills = self.ops[op].take_fills();
            self.buffers.extend(fills.drain(..).map(|(_, buffer)| buffer));
            self.ops[op].put_fills(fills);
        }
        self.locks.release(op, &mut self.granted);
        self.ops.release(op);
    }

    /// Refuses a command that holds no blocks.
    pub fn refuse(&mut self, op: u32, status: Status) {
        self.ops[op].fail(status);
        self.end(op);
    }

    /// Answers and ends a command that holds no blocks.
    pub fn end(&mut self, op: u32) {
        self.answer(op);
        self.ops.release(op);
    }

    /// Answers all commands as lost to a crash. Returns the blocks of those that may have changed some.
    pub fn lose_all(&mut self) -> Vec<Range<u64>> {
        let ops = (0..).zip(self.ops.iter());
        let under_way: Vec<u32> = ops.filter(|(_, op)| op.has_command()).map(|(at, _)| at).collect();
        let mut changed = Vec::new();
        for op in under_way {
            if self.ops[op].kind() != Kind::Flush {
                changed.push(self.ops[op].blocks());
            }
            self.ops[op].lose();
            self.answer(op);
        }
        changed
    }

    /// Moves the answers of `before`, whose life has ended, here.
    pub fn inherit(&mut self, before: &mut Requests) {
        assert!(self.up.is_empty(), "nothing was answered yet");
        self.up = std::mem::take(&mut before.up);
        self.now = before.now;
    }

    // ---- commands to the drives

    /// Sends `command` to a drive for `part`.
    #[inline]
    pub fn send(&mut self, side: Side, part: Part, command: Command) {
        if part.op != NIL {
            self.ops[part.op].expect_part();
        }
        self.dirtying += u32::from(matches!(part.purpose, Purpose::WriteFlash(_)));
        self.counters.sent(side == Side::Flash, &command);
        let tag = self.parts.insert(part);
        let namespace = self.namespaces[usize::from(side == Side::Backing)];
        self.down.push_back(Command { tag: tag.into(), namespace, ..command });
    }

    /// Sends a flush.
    pub fn send_flush(&mut self, side: Side, part: Part) {
        self.send(side, part, Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
    }

    /// Ends the part of a completion, and returns it.
    #[inline]
    pub fn ended(&mut self, completion: &Completion) -> Part {
        let at = completion.tag as u32;
        let part = self.parts[at];
        self.parts.release(at);
        if part.op != NIL {
            self.ops[part.op].part_answered(completion.stages);
        }
        if matches!(part.purpose, Purpose::WriteFlash(_)) {
            assert!(self.dirtying > 0, "a write to the flash ends that was not sent");
            self.dirtying -= 1;
        }
        part
    }

    /// Lets a write wait for cleaned blocks.
    pub fn park(&mut self, part: Part, data: Vec<u8>) {
        self.ops[part.op].expect_part();
        self.parked.push_back((part, data));
    }

    /// Returns the next write that waits for cleaned blocks.
    pub fn next_parked(&mut self) -> Option<(Part, Vec<u8>)> {
        let (part, data) = self.parked.pop_front()?;
        self.ops[part.op].part_ended();
        Some((part, data))
    }

    #[inline]
    pub fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Reports whether no command to a drive is in flight.
    pub fn is_quiet(&self) -> bool {
        self.parts.in_use() == 0
    }

    /// Reports whether no operation is in progress.
    pub fn is_idle(&self) -> bool {
        self.ops.in_use() == 0
    }

    /// Reports whether a write that makes blocks dirty on the flash is in flight.
    pub fn is_dirtying(&self) -> bool {
        self.dirtying > 0
    }

    #[inline]
    pub fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    #[inline]
    pub fn answered(&self) -> usize {
        self.up.len()
    }

    // ---- buffers

    /// Returns a buffer of `sectors` sectors.
    pub fn buffer(&mut self, sectors: u64) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.resize(sectors as usize * self.image_bytes, 0);
        buffer
    }

    pub fn give_back(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > 0 {
            self.buffers.push(buffer);
        }
    }

    /// Returns a buffer to its command, or to the pool.
    pub fn put_back(&mut self, part: Part, data: Vec<u8>) {
        if part.direct {
            self.ops[part.op].put_data(data);
        } else {
            self.give_back(data);
        }
    }

    // ---- checks

    pub fn memory_bytes(&self) -> u64 {
        self.locks.memory_bytes()
    }

    /// Checks the invariants; panics if one is broken.
    pub fn check(&self) {
        if self.is_idle() {
            assert!(self.locks.is_empty(), "nobody holds anything");
            assert_eq!(self.dirtying, 0, "nobody writes");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::build;
    use pellucid_flash::Interface;

    /// Blocks, none of which is lost.
    fn blocks() -> Blocks {
        let drive = |sectors| Some(Interface::Block { sectors, handles: 1 });
        Blocks::new(
            &build::shape(&CacheConfig::default(), drive(1024), drive(8192), 4096).expect("a sound cache"),
        )
    }

    /// Requests with an open read of the first block.
    fn open() -> (Requests, u32) {
        let mut requests = Requests::new(&CacheConfig::default(), 4096);
        let op = requests.open(Command::new(0, Opcode::Read, Lba(0), 1, Vec::new()), 0..1);
        assert!(requests.admit(op, &blocks()));
        (requests, op)
    }

    #[test]
    fn a_read_that_ends_grants_the_write_that_waits() {
        let (mut requests, read) = open();
        let write = requests.open(Command::new(0, Opcode::Write, Lba(0), 1, vec![7; 4096]), 0..1);
        assert!(!requests.admit(write, &blocks()) && !requests.has_granted());
        requests.close(read);
        assert_eq!((requests.answered(), requests.next_granted()), (1, Some(write)));
        assert_eq!(requests.pop().map(|answer| answer.status), Some(Status::Success));
        requests.close(write);
        assert!(requests.is_idle() && requests.is_quiet());
        requests.check();
    }

    #[test]
    #[should_panic(expected = "an operation is closed with parts under way")]
    fn an_operation_is_not_closed_before_its_parts_end() {
        let (mut requests, op) = open();
        requests.send_flush(Side::Backing, Part { op, ..Part::default() });
        requests.close(op);
    }
}
