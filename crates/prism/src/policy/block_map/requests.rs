//! Commands of the application: what they wait for, and their ends.
//!
//! Invariant: a request ends when all parts that it waits for have ended, with the first error among them.

use pellucid_flash::slab::Slab;
use pellucid_flash::{Command, Completion, Nanos, Opcode, SimTime, Stage, StageTimes, Status};
use std::collections::VecDeque;

/// Part of an application's command in one logical block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub request: u32,
    /// First sector of the block.
    pub first: u32,
    pub sectors: u32,
    /// Position of its data in those of the request, in sectors.
    pub at: u32,
}

/// A command of the application.
#[derive(Clone, Debug, Default)]
struct Request {
    command: Option<Command>,
    submitted: SimTime,
    /// Number of parts that it waits for.
    left: u32,
    status: Option<Status>,
    stages: StageTimes,
    unmapped: u32,
}

/// Unfinished commands of the application, and completions on their way up.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    requests: Slab<Request>,
    up: VecDeque<Completion>,
    /// Sectors read and written by successful commands.
    read: u64,
    written: u64,
}

impl Requests {
    /// Bytes of memory held by requests.
    pub fn memory_bytes(&self) -> u64 {
        self.requests.memory_bytes()
    }

    /// Sectors read and written.
    pub fn sectors(&self) -> (u64, u64) {
        (self.read, self.written)
    }

    /// Adds a command; returns its number.
    pub fn take(&mut self, now: SimTime, command: Command) -> u32 {
        let request = self.requests.take();
        self.requests[request] = Request { command: Some(command), submitted: now, ..Request::default() };
        request
    }

    /// Refuses a command.
    pub fn refuse(&mut self, now: SimTime, command: Command, status: Status) {
        self.up.push_back(command.refused(now, status));
    }

    /// The command of a request.
    pub fn command(&self, request: u32) -> &Command {
        self.requests[request].command.as_ref().expect("a request has its command")
    }

    /// Images of the sectors of a part of a write.
    pub fn images(&self, part: Part, image: usize) -> &[u8] {
        &self.command(part.request).data[part.at as usize * image..][..part.sectors as usize * image]
    }

    /// Reports whether a read wants data.
    pub fn wants_data(&self, request: u32) -> bool {
        !self.command(request).data.is_empty()
    }

    /// Makes a request wait for one more part.
    pub fn awaits(&mut self, request: u32) {
        self.requests[request].left += 1;
    }

    /// Makes a request end with an error.
    pub fn fail(&mut self, request: u32, status: Status) {
        let record = &mut self.requests[request];
        record.status = record.status.or(Some(status));
    }

    /// Buffer for this many bytes of a read, at `byte`; `None`: the read wants no data.
    fn place(&mut self, request: u32, byte: usize, bytes: usize) -> Option<&mut [u8]> {
        let command = self.requests[request].command.as_mut().expect("a request has its command");
        (!command.data.is_empty()).then(|| &mut command.data[byte..][..bytes])
    }

    /// Copies images of sectors into a read, at `byte` of its data.
    pub fn give(&mut self, request: u32, byte: usize, images: &[u8]) {
        if let Some(place) = self.place(request, byte, images.len()) {
            place.copy_from_slice(images);
        }
    }

    /// Fills a read with zeros for `sectors` without data, whose images have `bytes`, at `byte` of
    /// its data.
    pub fn give_nothing(&mut self, request: u32, sectors: u32, byte: usize, bytes: usize) {
        self.requests[request].unmapped += sectors;
        if let Some(place) = self.place(request, byte, bytes) {
            place.fill(0);
        }
    }

    /// Sets the time that a read spent in each stage.
    pub fn set_stages(&mut self, request: u32, stages: StageTimes) {
        self.requests[request].stages = stages;
    }

    /// Handles the end of a part of a request, successful or not.
    pub fn part_done(&mut self, now: SimTime, request: u32, status: Option<Status>) {
        let record = &mut self.requests[request];
        record.status = record.status.or(status);
        record.left -= 1;
        if record.left > 0 {
            return;
        }
        let command = record.command.take().expect("a request has its command");
        let (submitted, unmapped) = (record.submitted, record.unmapped);
        let status = record.status.unwrap_or(Status::Success);
        let mut stages = record.stages;
        let total = now - submitted;
        stages.add(Stage::Host, Nanos(total.0.saturating_sub(stages.total().0)));
        match (command.opcode, status) {
            (Opcode::Read, Status::Success) => self.read += u64::from(command.sectors),
            (Opcode::Write, Status::Success) => self.written += u64::from(command.sectors),
            _ => {}
        }
        self.requests.release(request);
        let ended = command.ended(status, submitted, now, stages);
        self.up.push_back(Completion { unmapped, ..ended });
    }

    /// Takes the next completion.
    pub fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    /// Number of completions that can be taken.
    pub fn answered(&self) -> usize {
        self.up.len()
    }
}
