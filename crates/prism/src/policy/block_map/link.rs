//! Commands with the drive, and buffers for reuse.
//!
//! Invariant: a command with the drive, or on its way there, has exactly one record, under its tag.

use super::chunks::Garbage;
use pellucid_flash::slab::Slab;
use pellucid_flash::{Command, Completion, Lba, Vector};
use std::collections::VecDeque;

/// Purpose of a command to the drive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Purpose {
    #[default]
    Idle,
    Start,
    /// Reads sectors of a request from this chunk to this place.
    Read {
        request: u32,
        chunk: u32,
        at: u32,
    },
    /// The writer of a block reads data that it needs from this chunk.
    Fetch {
        logical: u32,
        chunk: u32,
        what: Fetch,
    },
    /// The writer of a block writes copies, or its buffer.
    Store {
        logical: u32,
        copy: bool,
    },
    Erase(Garbage),
}

/// Use that the writer of a block makes of data it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fetch {
    /// Write them to the top piece.
    Copy,
    /// Prepend them to the buffer, which begins in mid-page.
    Before,
    /// Append them to the buffer, which ends in mid-page.
    Behind,
}

/// A command with the drive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Op {
    pub purpose: Purpose,
    pub lba: Lba,
    pub sectors: u32,
    /// Number of earlier attempts.
    pub tries: u32,
}

/// Commands with the drive.
#[derive(Clone, Debug)]
pub(super) struct Link {
    namespace: u16,
    ops: Slab<Op>,
    down: VecDeque<Command>,
    images: Vec<Vec<u8>>,
    #[expect(clippy::vec_box, reason = "the box is what commands carry")]
    vectors: Vec<Box<Vector>>,
}

impl Link {
    /// Creates the link to this namespace of the drive.
    pub fn new(namespace: u16) -> Link {
        Link {
            namespace,
            ops: Slab::default(),
            down: VecDeque::new(),
            images: Vec::new(),
            vectors: Vec::new(),
        }
    }

    /// Sends a command for the first time.
    pub fn send(&mut self, purpose: Purpose, command: Command) {
        self.send_again(purpose, 0, command);
    }

    /// Sends a command after this many attempts.
    pub fn send_again(&mut self, purpose: Purpose, tries: u32, command: Command) {
        let Command { lba, sectors, .. } = command;
        let op = self.ops.insert(Op { purpose, lba, sectors, tries });
        self.down.push_back(Command { tag: op.into(), namespace: self.namespace, ..command });
    }

    /// Removes the record of a completed command.
    pub fn ended(&mut self, number: u32) -> Op {
        let op = std::mem::take(&mut self.ops[number]);
        self.ops.release(number);
        op
    }

    /// Returns whether no command is in flight.
    pub fn is_idle(&self) -> bool {
        self.ops.in_use() == 0
    }

    /// Returns whether a command waits to be taken.
    pub fn has_command(&self) -> bool {
        !self.down.is_empty()
    }

    /// Takes the next command for the drive.
    pub fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    /// A buffer with old content, or an empty one.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.images.pop().unwrap_or_default()
    }

    /// An empty vector of addresses and metadata.
    pub fn vector(&mut self) -> Box<Vector> {
        self.vectors.pop().unwrap_or_default()
    }

    /// Takes back the buffers of a command.
    pub fn put_back(&mut self, completion: &mut Completion) {
        let data = std::mem::take(&mut completion.data);
        if data.capacity() > 0 {
            self.images.push(data);
        }
        if let Some(mut vector) = completion.vector.take() {
            vector.addresses.clear();
            vector.metadata.clear();
            self.vectors.push(vector);
        }
    }
}
