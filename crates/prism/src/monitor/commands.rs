//! Commands with the drive, and completions on their way up.
//!
//! ```text
//!   own        send ─► drive ─► take ─► its caller
//!   of an application   begin ─► drive ─────────────────────────────► end ─► up
//!                         ├ report: ask (parts) ─► answered ─► ... ──┤
//!                         └ reset that failed: ask (looks) ─► answered ─► ... ─► record on the media ─┘
//! ```
//! Invariant: an application's command has a record from `begin` to `end`; one of the monitor from `own` to `take`.

use pellucid_flash::slab::Slab;
use pellucid_flash::{Command, Completion, Opcode, SimTime, Stage};
use std::collections::VecDeque;

/// Purpose of a command to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum What {
    /// The record is unused.
    #[default]
    Nothing,
    /// An application's command.
    Command,
    /// A part of an application's report, in the record of the report.
    Part(u32),
    /// A report on a chunk that could not be erased, for the command in this record; its number in the command.
    Look { op: u32, at: u32 },
    /// One of the monitor's calls.
    Call(usize),
    /// Pages of a record of the state, or the reset before them.
    Record { ring: usize, pages: u32 },
    /// Command of a swap of two LUNs: its kind, or its chunk.
    Level(u32),
}

/// A command with the drive.
#[derive(Clone, Debug, Default)]
pub(super) struct Op {
    what: What,
    tag: u64,
    app: u16,
    opcode: Option<Opcode>,
    epoch: u32,
    /// The drive's number of its chunk, if any.
    chunk: u32,
    sectors: u32,
    submitted: SimTime,
    /// Unfinished commands that it depends on.
    left: u32,
    /// Completion of a report, or of a reset while its bad blocks are replaced.
    ended: Option<Completion>,
    /// The first chunk of a report.
    first: u32,
}

impl Op {
    pub fn app(&self) -> u16 {
        self.app
    }

    pub fn sectors(&self) -> u32 {
        self.sectors
    }

    /// The drive's number of its chunk, if any.
    pub fn chunk(&self) -> u32 {
        self.chunk
    }

    /// The first chunk of a report.
    pub fn first(&self) -> u32 {
        self.first
    }
}

/// Commands with the drive, and completions on their way up.
#[derive(Clone, Debug, Default)]
pub(super) struct Commands {
    ops: Slab<Op>,
    up: VecDeque<Completion>,
}

impl Commands {
    /// Adds a command of the monitor; returns its number.
    pub fn own(&mut self, what: What, sectors: u32) -> u32 {
        let op = self.ops.take();
        self.ops[op] = Op { what, sectors, ..Op::default() };
        op
    }

    /// Adds a command of an application, in a generation; returns its number.
    pub fn begin(&mut self, app: u16, command: &Command, submitted: SimTime, epoch: u32) -> u32 {
        let op = self.ops.take();
        self.ops[op] = Op {
            what: What::Command,
            tag: command.tag,
            app,
            opcode: Some(command.opcode),
            epoch,
            sectors: command.sectors,
            submitted,
            ..Op::default()
        };
        op
    }

    /// The record of a command.
    pub fn get(&self, op: u32) -> &Op {
        &self.ops[op]
    }

    /// Sets the drive's chunk that a command names.
    pub fn set_chunk(&mut self, op: u32, chunk: u32) {
        self.ops[op].chunk = chunk;
    }

    /// Sets the first chunk of a report, and the completion that its parts fill.
    pub fn set_report(&mut self, op: u32, first: u32, whole: Completion) {
        self.ops[op].first = first;
        self.ops[op].ended = Some(whole);
    }

    /// Keeps the completion of a reset until its bad blocks are replaced.
    pub fn keep(&mut self, op: u32, ended: Completion) {
        self.ops[op].ended = Some(ended);
    }

    /// Makes a command wait for this many others.
    pub fn ask(&mut self, op: u32, count: u32) {
        self.ops[op].left = count;
    }

    /// Notes the end of a command that another command waited for. Returns whether it was the last.
    pub fn answered(&mut self, op: u32) -> bool {
        self.ops[op].left -= 1;
        self.ops[op].left == 0
    }

    /// The completion kept for a command.
    pub fn kept(&self, op: u32) -> &Completion {
        self.ops[op].ended.as_ref().expect("a completion that is kept")
    }

    /// The completion kept for a command, for changes.
    pub fn kept_mut(&mut self, op: u32) -> &mut Completion {
        self.ops[op].ended.as_mut().expect("a completion that is kept")
    }

    /// Takes the completion kept for a command.
    pub fn take_kept(&mut self, op: u32) -> Completion {
        self.ops[op].ended.take().expect("a completion that is kept")
    }

    /// Handles a completion from the drive; returns purpose and sectors of its command. An application's command ends later, with [`Commands::end`].
    pub fn take(&mut self, op: u32) -> (What, u32) {
        let (what, sectors) = (self.ops[op].what, self.ops[op].sectors);
        if what != What::Command {
            self.ops[op].what = What::Nothing;
            self.ops.release(op);
        }
        (what, sectors)
    }

    /// Ends a command of an application, and passes its completion up; returns the application and the generation.
    pub fn end(&mut self, op: u32, now: SimTime, mut completion: Completion) -> (u16, u32) {
        let Op { app, tag, epoch, submitted, .. } = self.ops[op];
        self.ops[op].what = What::Nothing;
        self.ops.release(op);
        completion.tag = tag;
        // The time that it was held above the drive counts as the host's.
        let held = completion.submitted - submitted;
        completion.submitted = submitted;
        completion.stages.add(Stage::Host, held);
        let after = now - completion.completed;
        completion.completed = now;
        completion.stages.add(Stage::Host, after);
        self.up.push_back(completion);
        (app, epoch)
    }

    /// Passes up a completion of a command that has no record.
    pub fn put_up(&mut self, completion: Completion) {
        self.up.push_back(completion);
    }

    /// Takes the next completion.
    pub fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    /// Number of completions that can be taken.
    pub fn completed(&self) -> usize {
        self.up.len()
    }

    /// Reports whether a command is an application's, and with the drive.
    pub fn is_with_drive(&self, op: u32) -> bool {
        self.ops[op].what == What::Command && self.ops[op].ended.is_none()
    }

    /// Unfinished commands of applications: number, opcode, and submission time.
    pub fn lost(&self) -> Vec<(u32, Opcode, SimTime)> {
        let of_applications = (0..).zip(self.ops.iter()).filter(|(_, op)| op.what == What::Command);
        let told = |(at, op): (u32, &Op)| (at, op.opcode.expect("an application's"), op.submitted);
        of_applications.map(told).collect()
    }

    /// Drops all commands after a power cut.
    pub fn forget(&mut self) {
        self.ops.clear();
    }
}
