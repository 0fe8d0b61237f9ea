//! Commands with the drive, and buffers that commands no longer need.
//!
//! Invariant: a command is outstanding from its way to the drive until its completion is taken.

use pellucid_flash::{Command, Completion, Vector};
use std::collections::VecDeque;

/// Owner of a completion: the upper bits of a tag.
const TAG_SHIFT: u32 = 56;
pub(super) const TAG_WRITE: u64 = 1 << TAG_SHIFT;
pub(super) const TAG_READ: u64 = 2 << TAG_SHIFT;
pub(super) const TAG_RESET: u64 = 3 << TAG_SHIFT;
pub(super) const TAG_SAVE: u64 = 4 << TAG_SHIFT;
pub(super) const TAG_START: u64 = 5 << TAG_SHIFT;
pub(super) const TAG_NUMBER: u64 = (1 << TAG_SHIFT) - 1;

/// Commands with the drive.
#[derive(Clone, Debug)]
pub(super) struct Link {
    namespace: u16,
    down: VecDeque<Command>,
    /// Commands with the drive, or on their way to or from it.
    outstanding: u32,
    buffers: Vec<Vec<u8>>,
    #[expect(clippy::vec_box, reason = "the box is what commands carry")]
    vectors: Vec<Box<Vector>>,
}

impl Link {
    /// Creates the link to this namespace of the drive.
    pub fn new(namespace: u16) -> Link {
        Link { namespace, down: VecDeque::new(), outstanding: 0, buffers: Vec::new(), vectors: Vec::new() }
    }

    /// Namespace of the drive.
    pub fn namespace(&self) -> u16 {
        self.namespace
    }

    /// Hands a command to the drive.
    pub fn send(&mut self, mut command: Command) {
        command.namespace = self.namespace;
        self.outstanding += 1;
        self.down.push_back(command);
    }

    /// Takes the next command for the drive.
    pub fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    /// A command has ended.
    pub fn ended(&mut self) {
        self.outstanding -= 1;
    }

    /// Returns whether no command is outstanding.
    pub fn is_idle(&self) -> bool {
        self.outstanding == 0
    }

    /// A buffer with old content, or an empty one.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    /// A vector without addresses.
    pub fn vector(&mut self) -> Box<Vector> {
        self.vectors.pop().unwrap_or_default()
    }

    /// Takes back the buffers of a command.
    pub fn put_back(&mut self, completion: &mut Completion) {
        let data = std::mem::take(&mut completion.data);
        if data.capacity() > 0 {
            self.buffers.push(data);
        }
        if let Some(mut vector) = completion.vector.take() {
            vector.addresses.clear();
            self.vectors.push(vector);
        }
    }

    /// Bytes of memory held by buffers.
    pub fn memory_bytes(&self) -> u64 {
        self.buffers.iter().map(Vec::capacity).sum::<usize>() as u64
    }
}
