//! Commands of the application: their parts, names and ends; moves that are told.
//!
//! Invariant: a request ends when all parts that it waits for have ended, with the first error among them; the names of a failed request
//! are freed, because it counts as unwritten.

use pellucid_flash::slab::Slab;
use pellucid_flash::{Command, Completion, Lba, Nanos, Opcode, Ppa, SimTime, Stage, StageTimes, Status};
use std::collections::VecDeque;

/// A command of the application.
#[derive(Clone, Debug, Default)]
struct Request {
    command: Option<Command>,
    /// Its stages count from then on.
    submitted: SimTime,
    /// When its host sent it: it can name only what it knew then.
    sent: SimTime,
    /// Commands to the drive that the request waits for.
    left: u32,
    status: Option<Status>,
    stages: StageTimes,
    unmapped: u32,
    result: u64,
    /// Names of the written sectors: sector of the command, and place.
    names: Vec<(u32, Ppa)>,
}

/// Moments of a command that its host has sent.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// When its host sent it: it can name only what the host knew then.
    pub sent: SimTime,
    /// The time from which on the machine counts the command's stages.
    pub counts_from: SimTime,
}

impl Sending {
    /// A command whose stages count from the moment at which it was sent.
    pub fn at(sent: SimTime) -> Sending {
        Sending { sent, counts_from: sent }
    }
}

/// Effect of the end of a part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It waits for other parts.
    Waits,
    /// It has ended.
    Ends,
    /// It ends with the next checkpoint.
    IsForced,
}

/// Commands of the application that have not ended, and what goes up.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    requests: Slab<Request>,
    /// Moves to be reported.
    moves: VecDeque<(Ppa, Ppa)>,
    up: VecDeque<Completion>,
}

impl Requests {
    /// Bytes of memory held by requests.
    pub fn memory_bytes(&self) -> u64 {
        self.requests.memory_bytes()
    }

    /// When the application sent a request.
    pub fn sent(&self, request: u32) -> SimTime {
        self.requests[request].sent
    }

    /// Takes a command up.
    pub fn begin(&mut self, command: Command, sending: Sending, status: Option<Status>) -> u32 {
        let request = self.requests.take();
        let record = &mut self.requests[request];
        record.command = Some(command);
        (record.sent, record.submitted) = (sending.sent, sending.counts_from);
        (record.left, record.status) = (0, status);
        (record.stages, record.unmapped, record.result) = (StageTimes::default(), 0, 0);
        record.names.clear();
        request
    }

    /// The command of a request.
    pub fn command(&self, request: u32) -> &Command {
        self.requests[request].command.as_ref().expect("a request has its command")
    }

    /// Takes the command of a request; [`Requests::put_command`] follows.
    pub fn take_command(&mut self, request: u32) -> Command {
        self.requests[request].command.take().expect("a request has its command")
    }

    /// Puts the command of a request back.
    pub fn put_command(&mut self, request: u32, command: Command) {
        self.requests[request].command = Some(command);
    }

    /// Makes a request wait for this many parts.
    pub fn awaits(&mut self, request: u32, parts: u32) {
        self.requests[request].left = parts;
    }

    /// Sets how a request will end.
    pub fn set_status(&mut self, request: u32, status: Option<Status>) {
        self.requests[request].status = status;
    }

    /// Sets the result of a request.
    pub fn set_result(&mut self, request: u32, result: u64) {
        self.requests[request].result = result;
    }

    /// Sets how many sectors of a read hold nothing.
    pub fn set_unmapped(&mut self, request: u32, sectors: u32) {
        self.requests[request].unmapped = sectors;
    }

    /// Gives the image of a sector to a read.
    pub fn give(&mut self, request: u32, sector: u32, image: &[u8]) {
        let command = self.requests[request].command.as_mut().expect("a request has its command");
        command.data[sector as usize * image.len()..][..image.len()].copy_from_slice(image);
    }

    /// Adds names of written sectors: sector of the command, and place.
    pub fn name(&mut self, request: u32, names: impl Iterator<Item = (u32, Ppa)>) {
        self.requests[request].names.extend(names);
    }

    /// Tells of a move. A unit that was moved before its write has ended gets the new name alone, as the host does not know the old one;
    /// `true`: it was one.
    pub fn tell_move(&mut self, old: Ppa, new: Ppa) -> bool {
        let under_way = self.requests.iter_mut().filter(|request| request.command.is_some());
        let mut names = under_way.flat_map(|request| &mut request.names);
        let known = names.find(|(_, name)| *name == old);
        match known {
            Some((_, name)) => {
                *name = new;
                true
            }
            None => {
                self.moves.push_back((old, new));
                false
            }
        }
    }

    /// Moves to be reported.
    pub fn moves(&self) -> usize {
        self.moves.len()
    }

    /// Takes the next move to be reported.
    pub fn next_move(&mut self) -> Option<(Ppa, Ppa)> {
        self.moves.pop_front()
    }

    /// Ends a part of a request.
    pub fn part_ended(&mut self, request: u32, status: Status, stages: &StageTimes) -> After {
        let record = &mut self.requests[request];
        if !matches!(status, Status::Success | Status::HighEcc) {
            record.status.get_or_insert(status);
        }
        record.left -= 1;
        if record.left > 0 {
            return After::Waits;
        }
        record.stages = *stages;
        let command = record.command.as_ref();
        let forced = command.is_some_and(|command| command.fua && command.opcode != Opcode::Read);
        if forced && record.status.is_none() { After::IsForced } else { After::Ends }
    }

    /// Names of sectors that a request has not written after all.
    pub fn unwritten(&self, request: u32) -> impl Iterator<Item = Ppa> {
        let record = &self.requests[request];
        let names = record.names.iter().filter(|_| record.status.is_some());
        names.map(|&(_, name)| name)
    }

    /// Completes a request.
    pub fn end(&mut self, request: u32, now: SimTime) {
        let record = &mut self.requests[request];
        let mut command = record.command.take().expect("a request has its command");
        if let (None, Some(vector)) = (record.status, &mut command.vector) {
            for &(sector, name) in &record.names {
                vector.addresses[sector as usize] = Lba(name.0.into());
            }
        }
        record.result = record.names.iter().min().map_or(record.result, |(_, name)| name.0.into());
        let mut stages = record.stages;
        let total = now - record.submitted;
        stages.add(Stage::Host, Nanos(total.0.saturating_sub(stages.total().0)));
        let (status, result, unmapped) = (record.status, record.result, record.unmapped);
        let ended = command.ended(status.unwrap_or(Status::Success), record.submitted, now, stages);
        self.up.push_back(Completion { result, unmapped, ..ended });
        self.requests.release(request);
    }

    /// The power was cut: everything that has not ended is lost. Returns what goes up.
    pub fn lose_all(&mut self, now: SimTime) -> VecDeque<Completion> {
        let mut up = std::mem::take(&mut self.up);
        for record in self.requests.iter_mut() {
            let Some(command) = record.command.take() else { continue };
            let mut stages = StageTimes::default();
            stages.add(Stage::Host, now.since(record.submitted));
            up.push_back(command.ended(Status::PowerLoss, record.submitted, now, stages));
        }
        up
    }

    /// A completion goes up of a command that was not taken up here.
    pub fn put_up(&mut self, completions: impl IntoIterator<Item = Completion>) {
        self.up.extend(completions);
    }

    /// Takes the next completion.
    pub fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    /// Completions that can be taken.
    pub fn answered(&self) -> usize {
        self.up.len()
    }
}
