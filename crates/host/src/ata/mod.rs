//! Disk interface: the commands of caches and nameless writes, carried by one that knows only reads and writes (ATA), as the prototypes on
//! Jasmine did ("Getting Real", 3.2 and 3.4.1). The drive below has the commands themselves (as over NVMe); this layer adds the price.
//!
//! ```text
//!   command ─► parts with one address each ─► (its address is asked for) ─► line ─► drive
//!                                                                                    │
//!   answer ◄── recovery of an error ◄──┬── data without use cross the link ◄─────────┘
//!   told   ◄── poll, or an error ◄── held moves ◄── notices
//! ```
//! *Types.* The type of a command stands in spare bits of its length, or in an opcode that the drive cannot queue ([`Carry`]). The I/O
//! scheduler above must not merge two types: [`BlockLayer`](crate::BlockLayer) does not.
//!
//! *Reads without data.* Commands that bring no data to the drive go as reads, so as much as they name crosses the link for nothing.
//!
//! *Answers.* An answer has no space for a miss or an address. A miss is either a pattern in place of the data, which crosses the link and
//! which a block may contain by chance ([`misses`]), or an error. An address either comes from a command before the write, READ NATIVE MAX
//! ADDRESS, which cannot be queued, or is also an error. After an error the host sends nothing for a while, and retries ([`line`]). The
//! other benign failures, of a full cache and of a full nameless namespace, are always errors.
//!
//! *Upcalls.* The host learns of moved sectors when it polls, or by an error ([`upcalls`]).
//!
//! *Lists.* A command has one address, so a list becomes as many commands as it has runs, and a nameless write one for each flash page.
//!
//! Not modelled: the order in which the host sends writes and the commands that ask for their addresses is one; data without use do not keep
//! the drive's own transfers waiting; failures of the media are answered as by any drive.
//!
//! Invariant: every command is answered once, when all its parts have ended.

mod config;
mod line;
mod misses;
mod parts;
mod upcalls;

pub use config::{AtaConfig, Carry, MissReply, NameReply, Upcalls};

use crate::{Layer, Machine};
use line::{Line, LineCounters};
use misses::Misses;
use parts::{Part, cut, is_alone, reads_for_nothing};
use pellucid_flash::slab::Slab;
use pellucid_flash::{
    CacheOp, Command, Completion, Figure, Interface, Lba, NamelessGeometry, NamelessOp, Nanos, Notice,
    Opcode, SimTime, Stage, StageTimes, Status,
};
use std::collections::VecDeque;
use std::ops::Range;
use upcalls::{HeldMoves, UpcallCounters};

/// Command from above.
#[derive(Clone, Debug)]
struct Request {
    command: Option<Command>,
    submitted: SimTime,
    /// Parts that have not ended.
    left: u32,
    /// Attempts that ended with an error.
    errors: u32,
    status: Status,
    stages: StageTimes,
    result: u64,
    /// First sector of those whose name is the result.
    named_at: u32,
    unmapped: u32,
}

impl Default for Request {
    fn default() -> Request {
        let (command, submitted, status) = (None, SimTime::ZERO, Status::Success);
        let stages = StageTimes::default();
        let (result, named_at, unmapped) = (0, u32::MAX, 0);
        Request { command, submitted, left: 0, errors: 0, status, stages, result, named_at, unmapped }
    }
}

impl Request {
    fn command(&mut self) -> &mut Command {
        self.command.as_mut().expect("a request has its command until it ends")
    }
}

/// Purpose of a command of the line.
#[derive(Clone, Copy, Debug, Default)]
enum Work {
    /// Asks for the address of a part of a request.
    Address(u32, Part),
    /// A part of a request.
    Part(u32, Part),
    /// Asks for moves.
    #[default]
    Poll,
}

/// Answer that does not go up yet.
#[derive(Clone, Debug)]
struct Answer {
    completion: Completion,
    /// Blocks that are clean from the moment at which the host has the answer.
    cleans: Range<u64>,
}

/// Layer of a disk interface. Clone it together with the drive below to fork the simulation.
#[derive(Clone, Debug)]
pub struct Ata {
    config: AtaConfig,
    interface: Interface,
    image_bytes: usize,
    requests: Slab<Request>,
    sent: Slab<Work>,
    line: Line<Work>,
    moves: HeldMoves,
    misses: Misses,
    /// The link is busy with data without use until then.
    link_free: SimTime,
    /// Answers whose data without use cross the link, with their end.
    crossing: VecDeque<(SimTime, Answer)>,
    /// Answers that wait for the end of a recovery.
    recovering: VecDeque<Answer>,
    down: VecDeque<Command>,
    up: VecDeque<Completion>,
    notices: VecDeque<Notice>,
    /// Parts of the command that is submitted; kept for its capacity.
    parts: Vec<Part>,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    addresses: u64,
    misses: u64,
    false_misses: u64,
    wasted_sectors: u64,
}

impl Ata {
    /// Creates the layer above a namespace of sectors. An error is a complete sentence.
    pub fn new(config: &AtaConfig, interface: Option<Interface>, image_bytes: usize) -> Result<Ata, String> {
        let namespace = config.namespace;
        let interface = match interface {
            Some(interface @ (Interface::Block { .. } | Interface::Cache(_) | Interface::Nameless(_))) => {
                interface
            }
            Some(other) => {
                let name = other.name();
                return Err(format!(
                    "the disk interface needs a block, cache or nameless namespace; namespace {namespace} is {name}"
                ));
            }
            None => return Err(format!("the drive has no namespace {namespace}")),
        };
        Ok(Ata {
            interface,
            image_bytes,
            requests: Slab::default(),
            sent: Slab::default(),
            line: Line::new(config.slots, config.error_time_ns),
            moves: HeldMoves::default(),
            misses: Misses::new(config.false_misses, config.seed),
            link_free: SimTime::ZERO,
            crossing: VecDeque::new(),
            recovering: VecDeque::new(),
            down: VecDeque::new(),
            up: VecDeque::new(),
            notices: VecDeque::new(),
            parts: Vec::new(),
            counters: Counters::default(),
            config: config.clone(),
        })
    }

    /// Returns the bytes of host memory in use.
    pub fn memory_bytes(&self) -> u64 {
        self.requests.memory_bytes() + self.sent.memory_bytes() + self.misses.memory_bytes()
    }

    /// Returns the number of errors that the host has recovered from.
    pub fn errors(&self) -> u64 {
        self.line.counters().errors
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        let under_way = self.requests.iter().filter(|request| request.command.is_some());
        let (count, left) = under_way.fold((0, 0), |(count, left), request| (count + 1, left + request.left));
        assert_eq!(count, self.requests.in_use(), "requests that have not ended");
        let parts = self.line.waiting() + self.sent.in_use();
        assert!(left as usize <= parts, "{left} parts of requests, and {parts} waiting or sent");
    }

    /// Time for which sectors cross the link.
    fn crossing_time(&self, sectors: u32) -> Nanos {
        let bytes = u128::from(sectors) * u128::from(self.config.sector_bytes);
        Nanos((bytes * 1_000_000_000 / u128::from(self.config.link_bytes_per_second)) as u64)
    }

    fn nameless(&self) -> Option<NamelessGeometry> {
        if let Interface::Nameless(geometry) = self.interface { Some(geometry) } else { None }
    }

    /// Blocks of the cache that a command names.
    fn blocks(&self, lba: Lba, sectors: u32) -> Option<Range<u64>> {
        let Interface::Cache(geometry) = self.interface else { return None };
        let unit = u64::from(geometry.unit_sectors);
        Some(lba.0 / unit..(lba.0 / unit).saturating_add(u64::from(sectors) / unit))
    }

    /// Queues what is asked of the drive for a part.
    fn queue(&mut self, request: u32, part: Part) {
        if part.opcode == Opcode::Nameless(NamelessOp::Write)
            && self.config.address == NameReply::ReadNativeMax
        {
            return self.line.push(true, Work::Address(request, part));
        }
        self.line.push(is_alone(part.opcode, self.config.carry), Work::Part(request, part));
    }

    /// Sends as much as the line accepts now.
    fn dispatch(&mut self, now: SimTime) {
        while let Some(work) = self.line.send(now) {
            let command = match work {
                Work::Poll => self.question(),
                Work::Address(..) => {
                    self.counters.addresses += 1;
                    self.question()
                }
                Work::Part(request, part) => self.command_of(request, part),
            };
            let tag = self.sent.insert(work).into();
            self.down.push_back(Command { tag, namespace: self.config.namespace, ..command });
        }
    }

    /// A command with only the drive's cost per command, without media work.
    fn question(&self) -> Command {
        Command::new(0, Opcode::Report, Lba(0), 1, Vec::new())
    }

    /// Makes the command of a part; the only part of a request takes its buffers.
    fn command_of(&mut self, request: u32, part: Part) -> Command {
        let image_bytes = self.image_bytes;
        let whole = self.requests[request].command();
        let (queue, fua, handle) = (whole.queue, whole.fua, whole.handle);
        let data = match part.is_whole || whole.data.is_empty() {
            true => std::mem::take(&mut whole.data),
            false => {
                whole.data[part.at as usize * image_bytes..][..part.sectors as usize * image_bytes].to_vec()
            }
        };
        let vector = match part.opcode {
            Opcode::Nameless(NamelessOp::Write) => (part.sectors > 1).then(Box::default),
            // A list has become addresses.
            Opcode::Nameless(_) => None,
            _ if whole.opcode == Opcode::Nameless(NamelessOp::Write) => None,
            _ => whole.vector.take(),
        };
        let command = Command::new(0, part.opcode, part.lba, part.sectors, data);
        Command { queue, fua, handle, vector, ..command }
    }

    /// Returns whether the host takes an answer for an error to recover from.
    fn is_error(&self, status: Status) -> bool {
        match status {
            Status::Absent => self.config.miss == MissReply::Error,
            Status::CacheFull | Status::CapacityExceeded => true,
            _ => false,
        }
    }

    fn part_ended(&mut self, now: SimTime, request: u32, part: Part, mut ended: Completion) {
        let is_error = self.is_error(ended.status);
        let (image_bytes, retries) = (self.image_bytes, self.config.error_retries);
        let record = &mut self.requests[request];
        let command = record.command();
        // Buffers go back to where they came from.
        if part.is_whole {
            command.data = std::mem::take(&mut ended.data);
        } else if ended.opcode.effect() == pellucid_flash::Effect::Reads && !ended.data.is_empty() {
            command.data[part.at as usize * image_bytes..][..ended.data.len()].copy_from_slice(&ended.data);
        }
        if !matches!(command.opcode, Opcode::Nameless(_)) {
            command.vector = ended.vector.take();
        }
        if is_error && record.errors < retries {
            record.errors += 1;
            self.line.ended(now, true);
            return self.line.push_again(is_alone(part.opcode, self.config.carry), Work::Part(request, part));
        }
        if ended.opcode == Opcode::Nameless(NamelessOp::Write) && ended.status == Status::Success {
            record.named(part, &ended);
        } else if ended.opcode != Opcode::Nameless(NamelessOp::Write) {
            record.result = if part.is_whole { ended.result } else { record.result + ended.result };
        }
        record.unmapped += ended.unmapped;
        record.stages = ended.stages;
        if ended.status != Status::Success && record.status == Status::Success {
            record.status = ended.status;
        }
        record.left -= 1;
        let is_last = record.left == 0;
        let is_address = ended.opcode == Opcode::Nameless(NamelessOp::Write)
            && ended.status == Status::Success
            && self.config.address == NameReply::Error;
        let tells_moves = is_last && self.config.upcalls == Upcalls::Piggyback && !self.moves.is_empty();
        self.line.ended(now, is_error || is_address || tells_moves);
        if is_last {
            self.end(now, request, is_error || is_address || tells_moves);
        }
    }

    /// Answers a request when its data without use have crossed the link, and after the recovery of an error.
    fn end(&mut self, now: SimTime, request: u32, recovers: bool) {
        let record = std::mem::take(&mut self.requests[request]);
        self.requests.release(request);
        let Request { command, submitted, status, stages, result, unmapped, .. } = record;
        let command = command.expect("a request has its command until it ends");
        let (opcode, lba, sectors) = (command.opcode, command.lba, command.sectors);
        let completion = Completion { result, unmapped, ..command.ended(status, submitted, now, stages) };
        let mut answer = Answer { completion, cleans: 0..0 };
        let wasted = self.judge(opcode, lba, sectors, &mut answer);
        if recovers {
            return self.recovering.push_back(answer);
        }
        if wasted == 0 {
            return self.answer(now, answer);
        }
        self.link_free = self.link_free.max(now) + self.crossing_time(wasted);
        self.crossing.push_back((self.link_free, answer));
    }

    /// Records the meaning of an answer for a cache; returns the sectors that cross the link needlessly, in addition to the drive's
    /// transfers.
    fn judge(&mut self, opcode: Opcode, lba: Lba, sectors: u32, answer: &mut Answer) -> u32 {
        let Answer { completion: answer, cleans } = answer;
        if opcode == Opcode::Nameless(NamelessOp::Free)
            && matches!(answer.status, Status::Success | Status::Unwritten)
        {
            match answer.vector.as_ref().map_or(&[][..], |vector| &vector.addresses) {
                [] => (lba.0..lba.0 + u64::from(sectors)).for_each(|name| self.moves.freed(name)),
                names => names.iter().for_each(|name| self.moves.freed(name.0)),
            }
        }
        let wasted = match (opcode, answer.status) {
            _ if reads_for_nothing(opcode) => sectors.max(1),
            (Opcode::Read, Status::Absent) => {
                self.counters.misses += 1;
                if self.config.miss == MissReply::InBand { sectors } else { 0 }
            }
            _ => 0,
        };
        self.counters.wasted_sectors += u64::from(wasted);
        let Some(blocks) = self.blocks(lba, sectors) else { return wasted };
        match (opcode, answer.status) {
            (Opcode::Cache(CacheOp::WriteClean | CacheOp::Clean), Status::Success) => *cleans = blocks,
            (Opcode::Read, Status::Success) if self.config.miss == MissReply::InBand => {
                if let Some(first) = self.misses.first_false(blocks, &answer.data) {
                    (answer.status, answer.result) = (Status::Absent, first);
                    self.counters.false_misses += 1;
                    self.counters.wasted_sectors += u64::from(sectors);
                }
            }
            _ => {}
        }
        wasted
    }

    fn answer(&mut self, now: SimTime, Answer { completion: mut answer, cleans }: Answer) {
        self.misses.set_clean(cleans, true);
        answer.completed = now;
        let known = answer.stages.total();
        answer.stages.add(Stage::Host, Nanos(now.since(answer.submitted).0.saturating_sub(known.0)));
        self.up.push_back(answer);
    }
}

impl Request {
    /// Takes the names of a part's sectors.
    fn named(&mut self, part: Part, ended: &Completion) {
        let command = self.command.as_mut().expect("a request has its command until it ends");
        let sectors = command.sectors as usize;
        let name = |i: usize| match &ended.vector {
            Some(vector) if !vector.addresses.is_empty() => vector.addresses[i],
            _ => Lba(ended.result + i as u64),
        };
        if let Some(vector) = &mut command.vector {
            vector.addresses.resize(sectors, NamelessGeometry::NAMELESS);
            (0..part.sectors as usize).for_each(|i| vector.addresses[part.at as usize + i] = name(i));
        }
        if part.at < self.named_at {
            (self.named_at, self.result) = (part.at, name(0).0);
        }
    }
}

impl Machine for Ata {
    type Ask = Command;
    type Answer = Completion;

    fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.config.namespace)
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        let page = self.nameless().map_or(0, |geometry| geometry.page_sectors);
        let may_dirty = matches!(command.opcode, Opcode::Cache(CacheOp::WriteDirty | CacheOp::Evict));
        if let Some(blocks) = self.blocks(command.lba, command.sectors).filter(|_| may_dirty) {
            self.misses.set_clean(blocks, false);
        }
        let mut parts = std::mem::take(&mut self.parts);
        cut(&command, page, |part| parts.push(part));
        let (command, left) = (Some(command), parts.len() as u32);
        let request = self.requests.insert(Request { command, submitted: now, left, ..Request::default() });
        parts.drain(..).for_each(|part| self.queue(request, part));
        self.parts = parts;
        if page > 0 && self.config.upcalls == Upcalls::Poll {
            self.moves.poll_after(now, self.config.poll_ns);
        }
        self.dispatch(now);
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        let tag = completion.tag as u32;
        let work = std::mem::take(&mut self.sent[tag]);
        self.sent.release(tag);
        match work {
            Work::Poll => {
                self.line.ended(now, false);
                self.moves.end_poll(now, &mut self.notices);
                if self.requests.in_use() > 0 {
                    self.moves.poll_after(now, self.config.poll_ns);
                }
            }
            Work::Address(request, part) => {
                self.line.ended(now, false);
                self.line.push(is_alone(part.opcode, self.config.carry), Work::Part(request, part));
            }
            Work::Part(request, part) => self.part_ended(now, request, part, completion.take()),
        }
        self.dispatch(now);
    }

    fn notice(&mut self, now: SimTime, _namespace: u16, notice: Notice) {
        if !matches!(notice, Notice::Moved { .. }) {
            return self.notices.push_back(notice);
        }
        self.moves.hold(now, notice);
        if self.config.upcalls == Upcalls::Poll {
            self.moves.poll_after(now, self.config.poll_ns);
        }
    }

    fn advance(&mut self, now: SimTime) {
        while self.crossing.front().is_some_and(|(at, _)| *at <= now) {
            let (_, answer) = self.crossing.pop_front().expect("it is there");
            self.answer(now, answer);
        }
        if self.moves.begin_poll(now) {
            self.line.push(self.config.carry == Carry::SlowPath, Work::Poll);
        }
        if self.line.recover(now) {
            while let Some(answer) = self.recovering.pop_front() {
                self.answer(now, answer);
            }
            if self.config.upcalls == Upcalls::Piggyback {
                self.moves.tell(now, &mut self.notices);
            }
        }
        self.dispatch(now);
    }

    fn next_event(&self) -> Option<SimTime> {
        let crossed = self.crossing.front().map(|(at, _)| *at);
        [crossed, self.moves.next_event(), self.line.next_event()].into_iter().flatten().min()
    }

    fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    fn answered(&self) -> usize {
        self.up.len()
    }

    fn is_stopped(&self) -> bool {
        self.line.is_idle() && self.crossing.is_empty() && self.recovering.is_empty()
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        self.line.clear();
        self.moves.clear();
        self.misses.clear();
        self.sent.clear();
        self.down.clear();
        self.notices.clear();
        self.link_free = now;
        let crossing = std::mem::take(&mut self.crossing).into_iter().map(|(_, answer)| answer);
        let ended = crossing.chain(std::mem::take(&mut self.recovering)).map(|answer| answer.completion);
        for completion in ended.collect::<Vec<_>>() {
            let completion = Completion { status: Status::PowerLoss, ..completion };
            self.answer(now, Answer { completion, cleans: 0..0 });
        }
        for Request { command, submitted, .. } in std::mem::take(&mut self.requests).iter_mut() {
            let Some(command) = command.take() else { continue };
            let completion = command.ended(Status::PowerLoss, *submitted, now, StageTimes::default());
            self.answer(now, Answer { completion, cleans: 0..0 });
        }
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        let LineCounters { commands, alone, stalled_ns, errors, recovery_ns } = self.line.counters();
        let UpcallCounters { polls, empty_polls, told, held_ns } = self.moves.counters();
        let Counters { addresses, misses, false_misses, wasted_sectors } = self.counters;
        let count = Figure::count;
        vec![
            count("ata_commands", "Commands sent over the disk interface.", commands),
            count("ata_unqueued", "Commands that could not be queued: all others had to end first.", alone),
            Figure::nanos(
                "ata_stalled_ns",
                "Time for which commands waited for these beside free slots.",
                stalled_ns,
            ),
            count("ata_addresses", "Commands that asked for the address of a nameless write.", addresses),
            count("ata_misses", "Reads that a cache answered with a miss.", misses),
            count("ata_false_misses", "Reads of cached data that looked like a miss.", false_misses),
            count("ata_wasted_sectors", "Sectors that crossed the link without use.", wasted_sectors),
            count("ata_errors", "Answers that the host took for errors.", errors),
            Figure::nanos(
                "ata_recovery_ns",
                "Time for which the host recovered and sent nothing.",
                recovery_ns,
            ),
            count("ata_polls", "Polls for moved sectors.", polls),
            count("ata_empty_polls", "Polls that brought none.", empty_polls),
            count("ata_upcalls", "Moved sectors that the host was told of.", told),
            Figure::nanos(
                "ata_upcall_wait_ns",
                "Sum of the times from a move until the host was told.",
                held_ns,
            ),
            count("ata_waiting", "Commands that wait.", self.line.waiting() as u64).gauge(),
        ]
    }
}

impl Layer for Ata {
    fn interface(&self) -> Interface {
        self.interface
    }

    fn notices(&self) -> usize {
        self.notices.len()
    }

    fn pop_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}
