//! Operations under way: commands from above arrive and are answered, and commands to the drives are sent and
//! end.

use super::locks::{Held, Hold};
use super::{Backend, CacheManager};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Completion, Lba, Opcode, SimTime, Stage, StageTimes, Status};

/// Kind of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Read,
    Write,
    /// Trims, and writes of zeros without a data transfer.
    Trim,
    Flush,
    /// Copies dirty blocks to the backing store.
    Clean,
}

/// Progress of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    /// Reads, or writes to the destination of the data.
    #[default]
    Data,
    /// Cleaning writes the copy to the backing store; a trim is sent to it.
    Backing,
    /// The backing store is flushed; a forced write waits for a commit.
    Flush,
    /// Records are written; copied blocks become clean; trimmed blocks are dropped.
    Mark,
    /// The command was answered, and the cache gets a copy.
    Fill,
}

/// Operation under way: a command from above, or cleaning.
#[derive(Clone, Debug, Default)]
pub(super) struct Op {
    pub kind: Kind,
    pub step: Step,
    pub command: Option<Command>,
    pub submitted: SimTime,
    /// First block of the operation; `end` is the first block after it.
    pub first: u64,
    pub end: u64,
    /// Number of parts under way.
    pub left: u32,
    pub status: Option<Status>,
    pub stages: StageTimes,
    /// The operation bypasses the cache.
    pub bypass: bool,
    /// Data for the cache after the answer: first sector, and data.
    pub fills: Vec<(u64, Vec<u8>)>,
    /// Data that wait for an eviction: first sector, and data.
    pub aside: Vec<(u64, Vec<u8>)>,
    /// Cleaning: bit mask of blocks, relative to the first, that were written meanwhile.
    pub touched: u64,
}

/// Purpose of a command to a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Purpose {
    #[default]
    ReadFlash,
    ReadBacking,
    /// Asks which blocks of a partly missed read are cached.
    ReadStates,
    /// Reads the block that a partial write changes.
    FetchFlash,
    FetchBacking,
    /// Writes data that become dirty; `true` if their blocks are dirty already.
    WriteFlash(bool),
    WriteBacking,
    /// Evicts blocks before newer data go to the backing store; `true` after a failed write to the flash.
    Evict(bool),
    Fill,
    TrimBacking,
    TrimFlush,
    TrimEvict,
    CleanRead,
    CleanWrite,
    CleanFlush,
    CleanMark,
    FlushFlash,
    FlushBacking,
    Record,
    Head,
    Start,
    Sweep,
}

/// Command to a drive: sectors of the backing store, and the purpose.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    pub op: u32,
    pub purpose: Purpose,
    pub lba: u64,
    pub sectors: u32,
    /// Block backend: the slot of the first block, or a record sector.
    pub slot: u32,
    /// The buffer is that of the command from above.
    pub direct: bool,
}

/// One of the two drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Flash,
    Backing,
}

impl CacheManager {
    // ---- commands from above

    /// Returns the status of a command that is refused at submission.
    #[inline]
    pub(super) fn refuse(&self, command: &Command) -> Option<Status> {
        if command.namespace != 0 {
            return Some(Status::InvalidField);
        }
        let images = command.sectors as usize * self.image_bytes;
        let sound = match command.opcode {
            Opcode::Flush => return None,
            Opcode::Read => command.data.is_empty() || command.data.len() == images,
            Opcode::Write => command.data.len() == images,
            Opcode::Trim | Opcode::WriteZeroes => true,
            _ => return Some(Status::InvalidOpcode),
        };
        match command.lba.0.checked_add(command.sectors.into()) {
            _ if !sound || command.sectors == 0 || command.vector.is_some() => Some(Status::InvalidField),
            Some(end) if end <= self.sectors => None,
            _ => Some(Status::LbaOutOfRange),
        }
    }

    /// Opens an operation for a command.
    #[inline]
    pub(super) fn open(&mut self, command: Command) -> u32 {
        let kind = match command.opcode {
            Opcode::Read => Kind::Read,
            Opcode::Write => Kind::Write,
            Opcode::Flush => Kind::Flush,
            _ => Kind::Trim,
        };
        let at = self.ops.take();
        let end = command.lba.0 + u64::from(command.sectors);
        let (first, end) = (command.lba.0 / self.block_sectors, end.div_ceil(self.block_sectors));
        let op = &mut self.ops[at];
        (op.kind, op.step, op.first, op.end) = (kind, Step::Data, first, end);
        (op.submitted, op.left, op.status, op.bypass, op.touched) = (self.now, 0, None, false, 0);
        op.stages = StageTimes::ZERO;
        op.command = Some(command);
        at
    }

    /// Begins a command, or queues it for its blocks.
    #[inline]
    pub(super) fn enter(&mut self, op: u32) {
        let Op { kind, first, end, ref command, .. } = self.ops[op];
        let command = command.as_ref().expect("a command under way");
        let hold = match kind {
            Kind::Flush => return self.commit.wait(op),
            Kind::Write | Kind::Trim if self.read_only => return self.end(op, Status::ReadOnly),
            Kind::Read => Hold::Read,
            Kind::Write => Hold::Write,
            Kind::Trim | Kind::Clean => Hold::Whole,
        };
        if kind != Kind::Trim {
            self.ops[op].bypass = self.streams.note(command.lba, command.sectors);
        }
        if self.locks.take(Held { first, end, hold, op }) {
            self.begin(op);
        }
    }

    #[inline]
    pub(super) fn begin(&mut self, op: u32) {
        match self.ops[op].kind {
            Kind::Read => self.begin_read(op),
            Kind::Write => self.begin_write(op),
            _ => self.begin_trim(op),
        }
        self.went_on(op);
    }

    /// Continues `op` if none of its parts is under way.
    #[inline]
    pub(super) fn went_on(&mut self, op: u32) {
        if self.ops[op].left > 0 {
            return;
        }
        match self.ops[op].kind {
            Kind::Read => self.read_goes_on(op),
            Kind::Write => self.write_goes_on(op),
            Kind::Trim => self.trim_goes_on(op),
            Kind::Clean => self.clean_goes_on(op),
            Kind::Flush => unreachable!("a flush has no parts"),
        }
    }

    /// Answers a command; its operation may keep its blocks.
    #[inline]
    pub(super) fn answer(&mut self, op: u32) {
        let record = &mut self.ops[op];
        let command = record.command.take().expect("a command under way");
        let status = record.status.unwrap_or(Status::Success);
        let stages = record.stages.summing_to(self.now - record.submitted, Stage::Host);
        self.counters.failed += u64::from(status != Status::Success);
        self.up.push_back(command.ended(status, record.submitted, self.now, stages));
    }

    /// Ends `op` and releases its blocks.
    #[inline]
    pub(super) fn close(&mut self, op: u32) {
        for (_, buffer) in self.ops[op].fills.drain(..) {
            self.buffers.push(buffer);
        }
        self.locks.release(op, &mut self.granted);
        self.ops.release(op);
    }

    /// Ends `op`, and answers its command if that waited for a fill.
    #[inline]
    pub(super) fn answer_and_close(&mut self, op: u32) {
        if self.ops[op].command.is_some() {
            self.answer(op);
        }
        self.close(op);
    }

    /// Refuses a command, or ends one that never held blocks.
    pub(super) fn end(&mut self, op: u32, status: Status) {
        self.ops[op].status = Some(status);
        self.answer(op);
        self.ops.release(op);
    }

    #[inline]
    pub(super) fn fail(&mut self, op: u32, status: Status) {
        self.ops[op].status.get_or_insert(status);
    }

    pub(super) fn command(&self, op: u32) -> &Command {
        self.ops[op].command.as_ref().expect("a command under way")
    }

    // ---- commands to the drives

    /// Sends `command` to a drive for `part`.
    #[inline]
    pub(super) fn send(&mut self, side: Side, part: Part, command: Command) {
        if part.op != NIL {
            self.ops[part.op].left += 1;
        }
        self.counters.sent(side == Side::Flash, &command);
        let tag = self.parts.insert(part);
        let namespace = self.namespaces[usize::from(side == Side::Backing)];
        self.down.push_back(Command { tag: tag.into(), namespace, ..command });
    }

    pub(super) fn buffer(&mut self, sectors: u64) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.resize(sectors as usize * self.image_bytes, 0);
        buffer
    }

    pub(super) fn give_back(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > 0 {
            self.buffers.push(buffer);
        }
    }

    /// Returns the flash address of sector `lba` of the backing store.
    #[inline]
    pub(super) fn flash_lba(&self, slot: u32, lba: u64) -> Lba {
        match &self.backend {
            Backend::Block(slots) => Lba(slots.layout.slot_lba(slot) + lba % self.block_sectors),
            Backend::Ssc(_) => Lba(lba),
        }
    }

    pub(super) fn ended(&mut self, completion: &mut Completion) {
        let at = completion.tag as u32;
        let part = self.parts[at];
        self.parts.release(at);
        let (op, status) = (part.op, completion.status);
        if op != NIL {
            self.ops[op].left -= 1;
            self.ops[op].stages = completion.stages;
        }
        let data = std::mem::take(&mut completion.data);
        match part.purpose {
            Purpose::ReadFlash => self.flash_read(part, status, completion.result, data),
            Purpose::ReadBacking => self.backing_read(part, status, data),
            Purpose::ReadStates => self.states_read(part, status, data),
            Purpose::FetchFlash | Purpose::FetchBacking => self.fetched(part, status, data),
            Purpose::WriteFlash(was_dirty) => self.flash_written(part, was_dirty, status, data),
            Purpose::WriteBacking => self.backing_written(part, status, data),
            Purpose::Evict(after_failure) => self.evicted(part, after_failure, status),
            Purpose::Fill => self.filled(part, status, data),
            Purpose::TrimBacking | Purpose::TrimFlush | Purpose::TrimEvict => self.trimmed(part, status),
            Purpose::CleanRead | Purpose::CleanWrite | Purpose::CleanMark => self.copied(part, status, data),
            Purpose::CleanFlush => self.copies_flushed(status),
            Purpose::FlushFlash | Purpose::FlushBacking => self.flushed(part.purpose, status),
            Purpose::Record => self.record_written(part, status, data),
            Purpose::Head => self.head_written(part, status, data),
            Purpose::Start => self.start_goes_on(part, status, completion.result, data),
            Purpose::Sweep => self.swept(status),
        }
        if op != NIL {
            self.went_on(op);
        }
    }
}
