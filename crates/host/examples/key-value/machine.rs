//! Key-value store as a state machine.

use super::log::{Answer, Ask, Log, Outcome, Record, SEGMENT, What};
use pellucid_flash::slab::Slab;
use pellucid_flash::{Command, Completion, SimTime, Status};
use pellucid_host::Machine;
use std::collections::VecDeque;

/// Purpose of a command to the drive.
#[derive(Clone, Debug, Default)]
enum Op {
    #[default]
    Mount,
    Write {
        tag: u64,
        position: u64,
    },
    Get {
        ask: u64,
        key: u64,
        position: u64,
    },
    Clean,
    Copy {
        position: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Mounting,
    Running,
    /// The log is low: writes under way end, and new ones wait.
    Draining,
    /// The oldest segment is being read.
    Reading,
    /// Its live records are being appended.
    Copying,
}

#[derive(Clone, Debug)]
pub struct KeyValue {
    log: Log,
    phase: Phase,
    now: SimTime,
    ops: Slab<Op>,
    writes: usize,
    /// Waiting asks: all of them during the mount, puts and deletes during cleaning.
    waiting: VecDeque<Ask>,
    down: VecDeque<Command>,
    up: VecDeque<Answer>,
}

impl KeyValue {
    pub fn new(sectors: u64, sector_bytes: usize) -> KeyValue {
        let mut log = Log::new(sectors, sector_bytes);
        let mut ops = Slab::default();
        let mount = log.read(ops.insert(Op::Mount).into(), 0, (log.segments() * SEGMENT) as u32);
        KeyValue {
            log,
            phase: Phase::Mounting,
            now: SimTime::ZERO,
            ops,
            writes: 0,
            waiting: VecDeque::new(),
            down: VecDeque::from([mount]),
            up: VecDeque::new(),
        }
    }

    pub fn check(&self) {
        self.log.check();
    }

    fn answer(&mut self, tag: u64, outcome: Outcome) {
        self.up.push_back(Answer { tag, at: self.now, outcome });
    }

    fn take(&mut self, ask: Ask) {
        let Ask { tag, key, what } = ask;
        match what {
            What::Get => self.get(tag, key),
            What::Put(_) if self.log.is_full(key) => self.answer(tag, Outcome::Full),
            What::Put(value) => self.write(|position| Op::Write { tag, position }, key, Some(&value)),
            What::Delete if self.log.place(key).is_none() => self.answer(tag, Outcome::Done),
            What::Delete => self.write(|position| Op::Write { tag, position }, key, None),
        }
    }

    fn get(&mut self, tag: u64, key: u64) {
        let Some(position) = self.log.place(key) else { return self.answer(tag, Outcome::Value(None)) };
        if let Some(value) = self.log.fresh(position) {
            let value = Some(value.to_vec());
            return self.answer(tag, Outcome::Value(value));
        }
        let op = self.ops.insert(Op::Get { ask: tag, key, position });
        let read = self.log.read(op.into(), position, 1);
        self.down.push_back(read);
    }

    fn write(&mut self, op: impl FnOnce(u64) -> Op, key: u64, value: Option<&[u8]>) {
        self.writes += 1;
        let op = self.ops.insert(op(self.log.head));
        let write = self.log.append(op.into(), key, value);
        self.down.push_back(write);
    }

    fn ended(&mut self, op: Op, completion: &Completion) {
        match op {
            Op::Mount => {
                self.log.mount(&completion.data);
                self.phase = Phase::Running;
            }
            Op::Write { tag, position } => {
                self.writes -= 1;
                self.log.written(position);
                match completion.status {
                    Status::Success => self.answer(tag, Outcome::Done),
                    status => self.answer(tag, Outcome::Failed(status)),
                }
            }
            Op::Get { ask, key, position } => match Record::decode(&completion.data) {
                Some(found) if found.position == position => self.answer(ask, Outcome::Value(found.value)),
                // The value was moved, and its old place was overwritten.
                _ if self.log.place(key) != Some(position) => self.get(ask, key),
                _ => self.answer(ask, Outcome::Failed(Status::UnrecoveredRead)),
            },
            Op::Clean => {
                for Record { key, value, .. } in self.log.live_of(&completion.data) {
                    self.write(|position| Op::Copy { position }, key, value.as_deref());
                }
                self.phase = Phase::Copying;
            }
            Op::Copy { position } => {
                self.writes -= 1;
                self.log.written(position);
            }
        }
    }

    /// Starts all work that is possible now.
    fn go_on(&mut self) {
        loop {
            match self.phase {
                Phase::Running if self.log.is_low() => self.phase = Phase::Draining,
                Phase::Running => match self.waiting.pop_front() {
                    Some(ask) => self.take(ask),
                    None => return,
                },
                Phase::Draining if self.writes == 0 => {
                    self.phase = Phase::Reading;
                    let op = self.ops.insert(Op::Clean);
                    let read = self.log.read(op.into(), self.log.tail / SEGMENT * SEGMENT, SEGMENT as u32);
                    self.down.push_back(read);
                }
                Phase::Copying if self.writes == 0 => {
                    self.log.tail = self.log.end_of_oldest();
                    self.phase = Phase::Running;
                }
                _ => return,
            }
        }
    }
}

impl Machine for KeyValue {
    type Ask = Ask;
    type Answer = Answer;

    fn namespaces(&self) -> &[u16] {
        &[0]
    }

    fn submit(&mut self, now: SimTime, ask: Ask) {
        self.now = now;
        match self.phase {
            Phase::Mounting => self.waiting.push_back(ask),
            _ if ask.what == What::Get => self.take(ask),
            _ => self.waiting.push_back(ask),
        }
        self.go_on();
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.now = now;
        let number = completion.tag as u32;
        let op = std::mem::take(&mut self.ops[number]);
        self.ops.release(number);
        self.ended(op, completion);
        self.log.images.push(std::mem::take(&mut completion.data));
        self.go_on();
    }

    fn advance(&mut self, now: SimTime) {
        self.now = now;
    }

    fn next_event(&self) -> Option<SimTime> {
        None
    }

    fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    fn pop(&mut self) -> Option<Answer> {
        self.up.pop_front()
    }

    fn answered(&self) -> usize {
        self.up.len()
    }

    fn is_ready(&self) -> bool {
        self.phase != Phase::Mounting
    }
}
