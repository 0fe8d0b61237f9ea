//! Commands to the drive.
//!
//! Invariant: a command to the drive has a record, under its tag, until it has ended.

use pellucid_flash::slab::Slab;
use pellucid_flash::{Command, Lba, Opcode};
use std::collections::VecDeque;

/// Purpose of a command to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The whole of a command; its status is the command's.
    #[default]
    Whole,
    /// A read into the command's own buffer.
    Direct,
    /// A run of sectors of a read.
    Run,
    /// The data of a write.
    Data,
    /// The table of a chunk.
    Table(u32),
    /// The flush before a reset; the table write follows, and then the trim.
    ResetFlush,
    /// The table write of a reset.
    ResetTable,
    /// The trim of a reset.
    ResetTrim,
    /// A read of the head, or of tables from this sector on, during the start.
    Start(u64),
}

/// Sector of the drive that a read needs, and its destination in the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Want {
    pub lba: u64,
    /// The read needs the sector's out-of-band data, from a table, instead of the sector.
    pub oob: bool,
    pub at: u32,
}

/// Command to the drive.
#[derive(Clone, Debug, Default)]
struct Part {
    op: u32,
    purpose: Purpose,
    /// Sectors that the read needs from this run.
    wants: Vec<Want>,
}

/// Commands to the drive.
#[derive(Clone, Debug)]
pub(super) struct Link {
    namespace: u16,
    parts: Slab<Part>,
    buffers: Vec<Vec<u8>>,
    down: VecDeque<Command>,
    commands: u64,
}

impl Link {
    /// Creates the link to this namespace of the drive.
    pub fn new(namespace: u16) -> Link {
        Link { namespace, parts: Slab::default(), buffers: Vec::new(), down: VecDeque::new(), commands: 0 }
    }

    /// Bytes of memory held by records.
    pub fn memory_bytes(&self) -> u64 {
        self.parts.memory_bytes()
    }

    /// Commands that were sent so far.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Sends a command for `op`, or for none ([`NIL`](pellucid_flash::slab::NIL)).
    pub fn send(&mut self, op: u32, purpose: Purpose, command: Command) {
        let part = self.parts.take();
        self.send_part(op, part, purpose, command);
    }

    /// Reads a run of sectors of the drive, into a buffer with `image_bytes` for each.
    pub fn send_run(&mut self, op: u32, wants: &[Want], image_bytes: usize) {
        let part = self.parts.take();
        self.parts[part].wants.clear();
        self.parts[part].wants.extend_from_slice(wants);
        let (first, last) = (wants[0].lba, wants[wants.len() - 1].lba);
        let sectors = (last - first + 1) as u32;
        let mut buffer = self.buffer();
        buffer.resize(sectors as usize * image_bytes, 0);
        self.send_part(op, part, Purpose::Run, Command::new(0, Opcode::Read, Lba(first), sectors, buffer));
    }

    fn send_part(&mut self, op: u32, part: u32, purpose: Purpose, command: Command) {
        (self.parts[part].op, self.parts[part].purpose) = (op, purpose);
        self.commands += 1;
        self.down.push_back(Command { tag: part.into(), namespace: self.namespace, ..command });
    }

    /// A command has ended: returns who it was for, and its purpose. A run ends with [`Link::end_run`].
    pub fn ended(&mut self, part: u32) -> (u32, Purpose) {
        let Part { op, purpose, .. } = self.parts[part];
        if purpose != Purpose::Run {
            self.parts.release(part);
        }
        (op, purpose)
    }

    /// Takes the sectors that are needed from a run; [`Link::end_run`] follows.
    pub fn take_wants(&mut self, part: u32) -> Vec<Want> {
        std::mem::take(&mut self.parts[part].wants)
    }

    /// Ends a run; its list is used again.
    pub fn end_run(&mut self, part: u32, wants: Vec<Want>) {
        self.parts[part].wants = wants;
        self.parts.release(part);
    }

    /// Takes the next command for the drive.
    pub fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    /// A buffer with old content, or an empty one.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > 0 {
            self.buffers.push(buffer);
        }
    }
}
