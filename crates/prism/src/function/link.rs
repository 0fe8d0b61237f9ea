//! Commands with the drive, and waiting writes.
//!
//! Invariant: a command with the drive has a record under its tag; a waiting write has one that holds its command.

use pellucid_flash::slab::{Linked, NIL, Slab};
use pellucid_flash::{Command, Completion, Tag, Vector};
use std::collections::VecDeque;

/// Purpose of a command to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The record is unused.
    #[default]
    Idle,
    Start,
    Read,
    Write,
    Erase,
    Level,
}

/// A command with the drive, or a waiting write.
#[derive(Clone, Debug, Default)]
pub(super) struct Op {
    next: u32,
    purpose: Purpose,
    /// The tag of the call.
    tag: Tag,
    block: u32,
    /// The command of a waiting write.
    command: Option<Command>,
}

impl Op {
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The tag of the call.
    pub fn tag(&self) -> Tag {
        self.tag
    }

    pub fn block(&self) -> u32 {
        self.block
    }
}

impl Linked for Op {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// Commands with the drive, and waiting writes.
#[derive(Clone, Debug)]
pub(super) struct Link {
    namespace: u16,
    ops: Slab<Op>,
    down: VecDeque<Command>,
    #[expect(clippy::vec_box, reason = "the box is what commands carry")]
    vectors: Vec<Box<Vector>>,
}

impl Link {
    /// Creates the link to this namespace of the drive.
    pub fn new(namespace: u16) -> Link {
        Link { namespace, ops: Slab::default(), down: VecDeque::new(), vectors: Vec::new() }
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        self.ops.memory_bytes()
    }

    /// Sends a command to the drive.
    pub fn send(&mut self, purpose: Purpose, tag: Tag, block: u32, command: Command) {
        let op = self.ops.insert(Op { next: NIL, purpose, tag, block, command: None });
        self.down.push_back(Command { tag: op.into(), namespace: self.namespace, ..command });
    }

    /// Stores a waiting write; returns its number.
    pub fn keep_write(&mut self, tag: Tag, block: u32, command: Command) -> u32 {
        self.ops.insert(Op { next: NIL, purpose: Purpose::Write, tag, block, command: Some(command) })
    }

    /// Sends a waiting write to the drive.
    pub fn send_write(&mut self, op: u32) {
        let command = self.ops[op].command.take().expect("a write that waits has its command");
        self.down.push_back(Command { tag: op.into(), namespace: self.namespace, ..command });
    }

    /// Drops a waiting write; returns its tag and data.
    pub fn drop_write(&mut self, op: u32) -> (Tag, Vec<u8>) {
        let Op { tag, command, .. } = std::mem::take(&mut self.ops[op]);
        self.ops.release(op);
        let Command { data, vector, .. } = command.expect("a write that waits has its command");
        if let Some(vector) = vector {
            self.put_back(vector);
        }
        (tag, data)
    }

    /// The records, for lists of waiting writes.
    pub fn records(&mut self) -> &mut Slab<Op> {
        &mut self.ops
    }

    /// Removes the record of a completed command.
    pub fn ended(&mut self, number: u32) -> Op {
        let op = std::mem::take(&mut self.ops[number]);
        self.ops.release(number);
        op
    }

    /// Tags of the application's unfinished reads and writes.
    pub fn asked(&self) -> impl Iterator<Item = Tag> {
        let asked = self.ops.iter().filter(|op| matches!(op.purpose, Purpose::Read | Purpose::Write));
        asked.map(|op| op.tag)
    }

    /// Reports whether a command waits to be taken.
    pub fn has_command(&self) -> bool {
        !self.down.is_empty()
    }

    /// Takes the next command for the drive.
    pub fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    /// An empty vector of addresses and metadata.
    pub fn vector(&mut self) -> Box<Vector> {
        self.vectors.pop().unwrap_or_default()
    }

    /// Takes back a vector.
    pub fn put_back(&mut self, mut vector: Box<Vector>) {
        vector.metadata.clear();
        vector.addresses.clear();
        self.vectors.push(vector);
    }

    /// Number of sectors of a completed write, from its out-of-band data.
    pub fn sectors_of(&mut self, completion: &mut Completion) -> u32 {
        let Some(vector) = completion.vector.take() else { return 0 };
        let sectors = vector.metadata.len() / Vector::METADATA_BYTES;
        self.put_back(vector);
        sectors as u32
    }
}
