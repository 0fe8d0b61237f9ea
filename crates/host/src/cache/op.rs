//! Operation: a command from above, or a run of cleaning, with the data that wait for its next step; and the
//! parts of an operation, which are commands to the drives.

use pellucid_flash::{Command, Completion, Opcode, SimTime, Stage, StageTimes, Status, copy_images};
use std::ops::Range;

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
    kind: Kind,
    step: Step,
    command: Option<Command>,
    submitted: SimTime,
    /// First block of the operation; `end` is the first block after it.
    first: u64,
    end: u64,
    /// Number of parts under way.
    left: u32,
    status: Option<Status>,
    stages: StageTimes,
    /// The operation bypasses the cache.
    bypass: bool,
    /// Data for the cache after the answer: first sector, and data.
    fills: Vec<(u64, Vec<u8>)>,
    /// Data that wait for an eviction, or that cleaning copies: first sector, and data.
    aside: Vec<(u64, Vec<u8>)>,
    /// Cleaning: bit mask of blocks, relative to the first, that were written meanwhile.
    touched: u64,
}

const UNDER_WAY: &str = "a command under way";

impl Op {
    /// Begins an operation in place of an earlier one, whose lists are empty and keep their memory. Cleaning has no command.
    #[inline]
    pub fn begin(&mut self, now: SimTime, command: Option<Command>, blocks: Range<u64>) {
        assert!(self.fills.is_empty() && self.aside.is_empty(), "an earlier operation left data behind");
        self.kind = match &command {
            None => Kind::Clean,
            Some(command) => match command.opcode {
                Opcode::Read => Kind::Read,
                Opcode::Write => Kind::Write,
                Opcode::Flush => Kind::Flush,
                _ => Kind::Trim,
            },
        };
        (self.step, self.first, self.end) = (Step::Data, blocks.start, blocks.end);
        (self.submitted, self.left, self.status, self.bypass, self.touched) = (now, 0, None, false, 0);
        self.stages = StageTimes::ZERO;
        self.command = command;
    }

    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    #[inline]
    pub fn step(&self) -> Step {
        self.step
    }

    /// Returns the blocks of the operation, also those that it covers in part.
    #[inline]
    pub fn blocks(&self) -> Range<u64> {
        self.first..self.end
    }

    /// Returns the first sector of the command, and the first sector after it.
    #[inline]
    pub fn sectors(&self) -> (u64, u64) {
        let command = self.command();
        (command.lba.0, command.lba.0 + u64::from(command.sectors))
    }

    /// Reports whether the operation bypasses the cache.
    #[inline]
    pub fn bypasses(&self) -> bool {
        self.bypass
    }

    #[inline]
    pub fn has_failed(&self) -> bool {
        self.status.is_some()
    }

    /// Reports whether the flash had no data to give, or wrong ones: its answer is about the block, and not about a crash.
    pub fn is_unreadable(&self) -> bool {
        self.status.is_some_and(is_loss)
    }

    /// Reports whether no part is in flight.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.left == 0
    }

    /// Reports whether there is a command that was not yet answered.
    #[inline]
    pub fn has_command(&self) -> bool {
        self.command.is_some()
    }

    #[inline]
    pub fn command(&self) -> &Command {
        self.command.as_ref().expect(UNDER_WAY)
    }

    #[inline]
    pub fn go_to(&mut self, step: Step) {
        self.step = step;
    }

    pub fn set_bypass(&mut self, bypass: bool) {
        self.bypass = bypass;
    }

    /// Makes the command a forced one: it is answered once all it has done is durable.
    pub fn force(&mut self) {
        self.command.as_mut().expect(UNDER_WAY).fua = true;
    }

    /// Notes an error; the first one is answered.
    #[inline]
    pub fn fail(&mut self, status: Status) {
        self.status.get_or_insert(status);
    }

    /// Notes that a crash lost the command, whatever it has met before.
    pub fn lose(&mut self) {
        self.status = Some(Status::PowerLoss);
    }

    /// Waits for one more part.
    #[inline]
    pub fn expect_part(&mut self) {
        self.left += 1;
    }

    /// Notes the end of a part.
    #[inline]
    pub fn part_ended(&mut self) {
        assert!(self.left > 0, "a part ends that nobody waits for");
        self.left -= 1;
    }

    /// Notes the end of a part with the stages of its time; those of the last part are answered.
    #[inline]
    pub fn part_answered(&mut self, stages: StageTimes) {
        self.part_ended();
        self.stages = stages;
    }

    /// Ends the command: returns its completion.
    #[inline]
    pub fn answer(&mut self, now: SimTime) -> Completion {
        let command = self.command.take().expect(UNDER_WAY);
        let status = self.status.unwrap_or(Status::Success);
        let stages = self.stages.summing_to(now - self.submitted, Stage::Host);
        command.ended(status, self.submitted, now, stages)
    }

    // ---- data

    /// Takes the buffer of the command; [`Op::put_data`] brings it back.
    #[inline]
    pub fn take_data(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.command.as_mut().expect(UNDER_WAY).data)
    }

    #[inline]
    pub fn put_data(&mut self, data: Vec<u8>) {
        self.command.as_mut().expect(UNDER_WAY).data = data;
    }

    /// Copies data that were read from sector `lba` on to their destination in the command; `image`: bytes of a sector.
    pub fn deliver(&mut self, lba: u64, sectors: u32, data: &[u8], image: usize) {
        let command = self.command.as_mut().expect(UNDER_WAY);
        if command.data.is_empty() {
            return;
        }
        let from = lba.max(command.lba.0);
        let to = (lba + u64::from(sectors)).min(command.lba.0 + u64::from(command.sectors));
        if from < to {
            let bytes = (to - from) as usize * image;
            let (target, source) = ((from - command.lba.0) as usize * image, (from - lba) as usize * image);
            copy_images(&mut command.data[target..target + bytes], &data[source..source + bytes]);
        }
    }

    /// Keeps data for a fill after the answer.
    pub fn keep_fill(&mut self, lba: u64, data: Vec<u8>) {
        self.fills.push((lba, data));
    }

    #[inline]
    pub fn has_fills(&self) -> bool {
        !self.fills.is_empty()
    }

    /// Returns the data for fills; [`Op::put_fills`] brings the empty list back.
    pub fn take_fills(&mut self) -> Vec<(u64, Vec<u8>)> {
        std::mem::take(&mut self.fills)
    }

    pub fn put_fills(&mut self, fills: Vec<(u64, Vec<u8>)>) {
        assert!(fills.is_empty() && self.fills.is_empty(), "all data are filled");
        self.fills = fills;
    }

    pub fn put_aside(&mut self, lba: u64, data: Vec<u8>) {
        self.aside.push((lba, data));
    }

    /// Returns the data that were put aside for the part that begins at sector `lba`.
    pub fn take_aside(&mut self, lba: u64) -> Vec<u8> {
        let at = self.aside.iter().position(|&(other, _)| other == lba).expect("put aside before");
        self.aside.swap_remove(at).1
    }

    /// Returns any data that were put aside.
    pub fn pop_aside(&mut self) -> Option<Vec<u8>> {
        self.aside.pop().map(|(_, data)| data)
    }

    // ---- cleaning

    /// Copies data that cleaning read from sector `lba` on into its run; `image`: bytes of a sector.
    pub fn gather(&mut self, lba: u64, data: &[u8], image: usize) {
        let (first, run) = &mut self.aside[0];
        let at = (lba - *first) as usize * image;
        copy_images(&mut run[at..at + data.len()], data);
    }

    /// Notes that blocks are written while they are copied; those outside the run are left out.
    pub fn touch(&mut self, first: u64, end: u64) {
        assert_eq!(self.kind, Kind::Clean, "only cleaning copies blocks");
        (first.max(self.first)..end.min(self.end))
            .for_each(|block| self.touched |= 1 << (block - self.first));
    }

    pub fn is_touched(&self, block: u64) -> bool {
        self.touched >> (block - self.first) & 1 == 1
    }
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
    /// Writes a lost block that is overwritten as a whole to the backing store.
    ReplaceLost,
    /// Evicts a lost block whose new data the backing store has.
    EvictReplaced,
    /// Evicts a lost block that was given up.
    EvictGivenUp,
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

/// Reports whether a read with this answer would lack the data that only the flash has.
pub(super) fn is_loss(status: Status) -> bool {
    matches!(status, Status::UnrecoveredRead | Status::Absent)
}
