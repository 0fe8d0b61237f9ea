//! Requests: the commands of the application, those that wait, and the answers.
//!
//! ```text
//!  open ─┬─ arrived before the layer was ready: early ─┐
//!        └─────────────────────────────────────────────┴─► write: waits for space in the ring ─► taken in, sector by sector ─► answered
//!                                                          read: split into commands to the drive, the last of which answers it
//! ```
//! Invariants: a request is answered once; writes are taken into the ring in the order of their arrival.

use pellucid_flash::slab::Slab;
use pellucid_flash::{Command, Completion, Lpn, Nanos, Opcode, SimTime, Stage, StageTimes, Status};
use std::collections::VecDeque;

/// Command of the application.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    command: Option<Command>,
    submitted: SimTime,
    /// Number of sectors taken into the ring.
    done: u32,
    /// Number of commands to the drive that the request waits for.
    left: u32,
    status: Option<Status>,
    stages: StageTimes,
    /// Number of sectors of a read without a place on the drive.
    unmapped: u32,
}

impl Request {
    fn begin(&mut self, command: Command, submitted: SimTime) {
        self.command = Some(command);
        (self.submitted, self.done, self.left, self.status) = (submitted, 0, 0, None);
        self.unmapped = 0;
        self.stages = StageTimes::default();
    }

    #[inline]
    pub fn command(&self) -> &Command {
        self.command.as_ref().expect("a request has its command")
    }

    /// Returns the command, to fill its buffer.
    #[inline]
    pub fn command_mut(&mut self) -> &mut Command {
        self.command.as_mut().expect("a request has its command")
    }

    /// Returns the sectors of a write that the ring has not taken, and their pages.
    #[inline]
    pub fn rest(&self, image_bytes: usize) -> impl Iterator<Item = (Lpn, &[u8])> {
        let command = self.command();
        let images = command.data[self.done as usize * image_bytes..].chunks_exact(image_bytes);
        (command.lba.0 as u32 + self.done..).map(Lpn).zip(images)
    }

    /// Notes that the ring has accepted the given number of further sectors; returns `true` if it
    /// has all.
    #[inline]
    pub fn took(&mut self, sectors: u32) -> bool {
        self.done += sectors;
        let all = self.command().sectors;
        assert!(self.done <= all, "the ring has more sectors than the write brought");
        self.done == all
    }
}

/// Commands of the application.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    records: Slab<Request>,
    /// Writes that wait for space in the ring.
    waiting: VecDeque<u32>,
    /// Commands that arrived before the layer was ready.
    early: VecDeque<u32>,
    up: VecDeque<Completion>,
}

impl Requests {
    #[inline]
    pub fn open(&mut self, command: Command, now: SimTime) -> u32 {
        let request = self.records.take();
        self.records[request].begin(command, now);
        request
    }

    #[inline]
    pub fn command(&self, request: u32) -> &Command {
        self.records[request].command()
    }

    // ---- waiting

    pub fn wait_for_start(&mut self, request: u32) {
        self.early.push_back(request);
    }

    pub fn next_early(&mut self) -> Option<u32> {
        self.early.pop_front()
    }

    /// Lets a write wait for space in the ring.
    #[inline]
    pub fn wait(&mut self, request: u32) {
        self.waiting.push_back(request);
    }

    #[inline]
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the first write that waits for space in the ring.
    #[inline]
    pub fn first_waiting(&mut self) -> Option<&mut Request> {
        let &request = self.waiting.front()?;
        Some(&mut self.records[request])
    }

    /// Removes and returns the first write that waits.
    #[inline]
    pub fn next_waiting(&mut self) -> Option<u32> {
        self.waiting.pop_front()
    }

    // ---- reads

    /// Takes the command of a read, to fill its buffer; [`Requests::begin_read`] brings it back.
    #[inline]
    pub fn take_command(&mut self, request: u32) -> Command {
        self.records[request].command.take().expect("a request has its command")
    }

    /// Notes a read of `parts` commands to the drive. `lost`: a start has found no copy of one of its sectors. Returns the status of a
    /// read that needs no command.
    #[inline]
    pub fn begin_read(
        &mut self,
        request: u32,
        command: Command,
        parts: u32,
        unmapped: u32,
        lost: bool,
    ) -> Option<Status> {
        let record = &mut self.records[request];
        assert!(record.command.is_none() && record.left == 0, "a read begins twice");
        record.command = Some(command);
        (record.left, record.unmapped) = (parts, unmapped);
        record.status = lost.then_some(Status::UnrecoveredRead);
        (parts == 0).then(|| record.status.unwrap_or(Status::Success))
    }

    /// Returns the record of a read, whose buffer takes data.
    #[inline]
    pub fn record_mut(&mut self, request: u32) -> &mut Request {
        &mut self.records[request]
    }

    /// Notes that a command of a read has ended, with its failure. Returns the status of the read if it was the last one.
    #[inline]
    pub fn part_read(&mut self, request: u32, failure: Option<Status>, stages: StageTimes) -> Option<Status> {
        let record = &mut self.records[request];
        assert!(record.left > 0, "a read has more ends than commands");
        record.status = failure.or(record.status);
        record.stages = stages;
        record.left -= 1;
        (record.left == 0).then(|| record.status.unwrap_or(Status::Success))
    }

    // ---- answers

    /// Answers a request; returns the opcode and the sectors of its command.
    #[inline]
    pub fn finish(&mut self, request: u32, status: Status, now: SimTime) -> (Opcode, u32) {
        let record = &mut self.records[request];
        let command = record.command.take().expect("a request is answered once");
        let (opcode, sectors) = (command.opcode, command.sectors);
        let mut stages = record.stages;
        let total = now - record.submitted;
        stages.add(Stage::Host, Nanos(total.0 - stages.total().0));
        let ended = command.ended(status, record.submitted, now, stages);
        self.up.push_back(Completion { unmapped: record.unmapped, ..ended });
        self.records.release(request);
        (opcode, sectors)
    }

    /// Answers all requests of `before`, whose life has ended, as lost to a power cut, behind its earlier answers.
    pub fn inherit(&mut self, before: &mut Requests, now: SimTime) {
        assert!(self.up.is_empty(), "nothing was answered yet");
        self.up = std::mem::take(&mut before.up);
        for record in before.records.iter_mut() {
            let Some(command) = record.command.take() else { continue };
            let mut stages = StageTimes::default();
            stages.add(Stage::Host, now - record.submitted);
            self.up.push_back(command.ended(Status::PowerLoss, record.submitted, now, stages));
        }
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    #[inline]
    pub fn answered(&self) -> usize {
        self.up.len()
    }

    pub fn memory_bytes(&self) -> u64 {
        self.records.memory_bytes()
    }
}
