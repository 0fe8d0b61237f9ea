//! Host FTL: a block drive on an open-channel one, like pblk, with the translation engine of the drives.
//!
//! ```text
//!  submit ─► processor ─► ring ─► superpages in rotation ─► one write at a time per parallel unit ─► drive
//!                          │ ▲                                                                     │
//!  reads: ring, else map ──┘ └── GC: valid sectors of the emptiest line, read as vectors ◄─┘
//! ```
//! This type only routes, like the drive's `Device`. Its parts are [`Ring`], [`Lines`], the engine's
//! `PageMap`, and a queue for each parallel unit. Each path has its own file: `write`, `read`, `gc`, `flush`,
//! `units`, `recover`, `stop`.
//!
//! Invariants: a sector that is covered by a flush, or was written with force unit access, is on the media,
//! or a newer version of it is; the line that holds it identifies itself; no sector that could be the newest
//! copy is reset.

mod config;
mod counters;
mod flush;
mod gc;
mod line;
mod meta;
mod rate;
mod read;
mod recover;
mod ring;
mod sizes;
mod stop;
mod units;
mod write;

pub use config::{HostFtlConfig, HostFtlError};
pub use counters::{HostCounters, HostHoldings};
pub use recover::MountCost;

use crate::cpu::Steps;
use crate::{Layer, Machine};
use line::Lines;
pub(crate) use line::open_chunks;
use pellucid_flash::slab::Slab;
use pellucid_flash::{
    BlockId, Command, Completion, Figure, Held, Interface, Lba, Lpn, Nanos, Opcode, SimTime, Stage,
    StageTimes, Status, Vector,
};
use pellucid_ftl::{Durability, FtlConfig, Located, PageMap, Separation, Soon};
use rate::RateLimiter;
use ring::Ring;
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
}

/// Task of the host's processor.
#[derive(Clone, Debug)]
enum Task {
    /// Handles a new command of the application.
    Arrived(u32),
    /// Sends a command to the drive.
    Send(Command),
    /// Handles a completion of the drive.
    Ended(Completion),
}

/// Number of the lowest bit of a tag's owner field.
const TAG_SHIFT: u32 = 56;
const TAG_UNIT: u64 = 1 << TAG_SHIFT;
const TAG_READ: u64 = 2 << TAG_SHIFT;
const TAG_START: u64 = 3 << TAG_SHIFT;
const TAG_FINISH: u64 = 4 << TAG_SHIFT;
const TAG_NUMBER: u64 = (1 << TAG_SHIFT) - 1;

/// Buffers for reuse.
#[derive(Clone, Debug, Default)]
struct Pools {
    images: Vec<Vec<u8>>,
    #[expect(clippy::vec_box, reason = "the box is what commands carry")]
    vectors: Vec<Box<Vector>>,
}

impl Pools {
    fn vector(&mut self) -> Box<Vector> {
        self.vectors.pop().unwrap_or_default()
    }

    fn put_back(&mut self, data: Vec<u8>, vector: Option<Box<Vector>>) {
        if data.capacity() > 0 {
            self.images.push(data);
        }
        if let Some(mut vector) = vector {
            vector.addresses.clear();
            vector.metadata.clear();
            self.vectors.push(vector);
        }
    }
}

/// Host FTL layer. Clone it together with the drive below to fork the simulation.
#[derive(Clone, Debug)]
pub struct HostFtl {
    config: HostFtlConfig,
    engine: FtlConfig,
    image_bytes: usize,
    now: SimTime,
    lines: Lines,
    ftl: PageMap,
    ring: Ring,
    rate: RateLimiter,
    steps: Steps<Task>,
    units: Vec<units::Unit>,
    programs: write::Programs,
    reads: Slab<read::Read>,
    gc: gc::Gc,
    flushes: flush::Flushes,
    requests: Slab<Request>,
    /// Writes that wait for space in the ring.
    waiting: VecDeque<u32>,
    /// Commands that arrived before the layer was ready.
    early: VecDeque<u32>,
    starting: Option<Box<recover::Start>>,
    stop: Option<stop::Stop>,
    failure: Option<HostFtlError>,
    mount: MountCost,
    read_only: bool,
    /// The drive refuses writes at present, so nothing is sent to it: see [`units`].
    drive_refuses: bool,
    down: VecDeque<Command>,
    up: VecDeque<Completion>,
    /// Number of commands with the drive, or on their way to or from it.
    outstanding: u32,
    /// State has changed since the last search for work.
    moved: bool,
    /// Writes were taken in, planned or sent in this round; earlier steps of the round need no repetition for
    /// that.
    passed: bool,
    pools: Pools,
    counters: HostCounters,
}

impl HostFtl {
    /// Creates the layer for the open-channel namespace that `interface` describes. Its first `advance` reads
    /// the state of the chunks and mounts the data of an earlier run.
    pub fn new(
        config: &HostFtlConfig,
        interface: Option<Interface>,
        image_bytes: usize,
    ) -> Result<HostFtl, HostFtlError> {
        let Some(Interface::OpenChannel(geometry)) = interface else {
            return Err(HostFtlError::NotOpenChannel(config.namespace));
        };
        let lines = Lines::new(config, &geometry)?;
        let engine = sizes::engine_config(config, &lines);
        let ftl = PageMap::new(&engine, lines.layout(), &[]).map_err(HostFtlError::Room)?;
        let superpage = lines.superpage_sectors;
        let buffer = sizes::buffer_sectors(config, &lines);
        // The ring must hold the sectors that the drive holds back in every chunk, and the writes that make
        // them readable.
        let least = match lines.held_rows {
            0 => 2 * superpage,
            held => (held + 2) * lines.units * superpage,
        };
        if buffer < least || buffer > 1 << 24 {
            let allowed = format!("0, or {least} to {} sectors", 1 << 24);
            return Err(HostFtlError::Setting { key: "host.ftl.buffer", value: buffer.into(), allowed });
        }
        let ring = Ring::new(buffer, image_bytes, config.separation != Separation::Off);
        let rate = sizes::rate_limiter(config, &lines, &ftl, ring.size())?;
        let units = vec![units::Unit::default(); lines.units as usize];
        Ok(HostFtl {
            steps: Steps::new(config.cpu.cores),
            config: config.clone(),
            engine,
            image_bytes,
            now: SimTime::ZERO,
            ftl,
            ring,
            rate,
            units,
            programs: write::Programs::new(superpage),
            reads: Slab::default(),
            gc: gc::Gc::default(),
            flushes: flush::Flushes::default(),
            requests: Slab::default(),
            waiting: VecDeque::new(),
            early: VecDeque::new(),
            starting: Some(Box::default()),
            stop: None,
            failure: None,
            mount: MountCost::default(),
            read_only: false,
            drive_refuses: false,
            down: VecDeque::new(),
            up: VecDeque::new(),
            outstanding: 0,
            moved: false,
            passed: false,
            pools: Pools::default(),
            counters: HostCounters::default(),
            lines,
        })
    }

    /// Returns the number of offered sectors.
    pub fn capacity_sectors(&self) -> u64 {
        self.ftl.user_units().into()
    }

    /// Returns the bytes of a sector.
    pub fn sector_bytes(&self) -> u32 {
        self.lines.geometry.sector_bytes
    }

    /// Returns the counters.
    pub fn counters(&self) -> HostCounters {
        self.counters
    }

    /// Returns the engine's counters.
    pub fn ftl_counters(&self) -> pellucid_ftl::FtlCounters {
        self.ftl.view().counters
    }

    /// Returns the processor time spent so far.
    pub fn cpu_busy(&self) -> Nanos {
        self.steps.busy()
    }

    /// Returns the number of data sectors in a line.
    pub fn units_per_line(&self) -> u32 {
        self.lines.layout().units_per_block
    }

    /// Reports whether the layer has stopped taking writes.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns the configuration.
    pub fn config(&self) -> &HostFtlConfig {
        &self.config
    }

    /// Returns the cost of the last mount.
    pub fn mount_cost(&self) -> MountCost {
        self.mount
    }

    /// Returns the number of free lines, and of all lines in service.
    pub fn free_lines(&self) -> (u32, u32) {
        (self.ftl.blocks().free(), self.lines.layout().blocks - self.ftl.blocks().bad())
    }

    /// Returns the bytes of host memory for map, line tables and write buffer.
    pub fn memory_bytes(&self) -> u64 {
        self.ftl.view().memory_bytes
            + self.lines.memory_bytes()
            + self.ring.memory_bytes(self.sector_bytes())
            + self.requests.memory_bytes()
            + self.reads.memory_bytes()
    }

    /// Checks all invariants of the whole target; panics with the name of a broken one.
    pub fn check(&self) {
        if self.starting.is_none() && self.failure.is_none() {
            self.ftl.check();
            self.ring.check();
            self.lines.check();
        }
    }

    fn refuse(&self, command: &Command) -> Option<Status> {
        let carries = match command.opcode {
            Opcode::Write => true,
            Opcode::Read => !command.data.is_empty(),
            Opcode::Flush | Opcode::Trim | Opcode::WriteZeroes => false,
            _ => return Some(Status::InvalidOpcode),
        };
        if self.failure.is_some() {
            return Some(Status::ReadOnly);
        }
        let bytes = command.sectors as usize * self.image_bytes;
        let foreign = command.namespace != 0 || command.vector.is_some();
        if foreign || (carries && command.data.len() != bytes) {
            return Some(Status::InvalidField);
        }
        if command.opcode == Opcode::Flush {
            return None;
        }
        if command.sectors == 0 {
            return Some(Status::InvalidField);
        }
        let end = command.lba.0.checked_add(command.sectors.into());
        if end.is_none_or(|end| end > self.capacity_sectors()) {
            return Some(Status::LbaOutOfRange);
        }
        (self.read_only && command.opcode != Opcode::Read).then_some(Status::ReadOnly)
    }

    /// Queues `task` on the host's processor; it runs after `cost`. Callers run a task without cost
    /// themselves.
    fn after(&mut self, cost: Nanos, task: Task) {
        if let Some(task) = self.steps.give(self.now, cost, task) {
            self.run(task);
        }
    }

    fn run(&mut self, task: Task) {
        match task {
            Task::Arrived(request) if self.starting.is_some() => self.early.push_back(request),
            Task::Arrived(request) => self.arrived(request),
            Task::Send(command) => self.down.push_back(command),
            Task::Ended(mut completion) => self.ended(&mut completion),
        }
    }

    /// Starts a command of the application.
    fn arrived(&mut self, request: u32) {
        let command = self.requests[request].command.as_ref().expect("a request has its command");
        let (opcode, lba, sectors) = (command.opcode, command.lba, command.sectors);
        // A write behind waiting ones waits for the same space, and there is no new work for it.
        self.moved |= opcode != Opcode::Write || self.waiting.is_empty() || self.gc.unfinished;
        match opcode {
            Opcode::Read => self.start_read(request),
            Opcode::Write if self.read_only => self.finish(request, Status::ReadOnly),
            Opcode::Write => self.waiting.push_back(request),
            Opcode::Trim | Opcode::WriteZeroes => {
                for lba in lba.0..lba.0 + u64::from(sectors) {
                    self.trim(Lpn(lba as u32));
                }
                self.finish(request, Status::Success);
            }
            _ => self.start_flush(request),
        }
    }

    /// Handles the end of a command of the drive.
    fn ended(&mut self, completion: &mut Completion) {
        self.outstanding -= 1;
        self.moved = true;
        let number = completion.tag & TAG_NUMBER;
        match completion.tag & !TAG_NUMBER {
            TAG_UNIT => self.unit_ended(number as u32, completion),
            TAG_READ => self.read_ended(number as u32, completion),
            TAG_FINISH => self.chunk_finished(BlockId(number as u32)),
            _ => self.start_ended(completion),
        }
    }

    /// Sends a command to the drive.
    #[inline]
    fn send(&mut self, mut command: Command) {
        command.namespace = self.config.namespace;
        self.outstanding += 1;
        match self.config.cpu.command_ns {
            Nanos::ZERO => self.down.push_back(command),
            cost => self.after(cost, Task::Send(command)),
        }
    }

    /// Completes a command of the application.
    fn finish(&mut self, request: u32, status: Status) {
        let record = &mut self.requests[request];
        let command = record.command.take().expect("a request has its command");
        let mut stages = record.stages;
        let total = self.now - record.submitted;
        stages.add(Stage::Host, Nanos(total.0 - stages.total().0));
        match (command.opcode, status) {
            (Opcode::Read, Status::Success) => self.counters.read_sectors += u64::from(command.sectors),
            (Opcode::Write, Status::Success) => self.counters.written_sectors += u64::from(command.sectors),
            _ => {}
        }
        let ended = command.ended(status, record.submitted, self.now, stages);
        self.up.push_back(Completion { unmapped: record.unmapped, ..ended });
        self.requests.release(request);
    }

    /// Runs all work that is possible now, until everything waits for the drive, the processor or the
    /// application.
    fn settle(&mut self) {
        while std::mem::take(&mut self.moved) {
            self.end_aborted();
            if self.starting.is_some() {
                self.continue_start();
                self.moved |= std::mem::take(&mut self.passed);
                continue;
            }
            self.passed = false;
            self.start_gc();
            self.admit();
            self.fill();
            self.continue_flush();
            self.continue_stop();
            // GC may find another victim on a second attempt, and the FTL may give up only after a complete
            // round.
            self.moved |= self.passed && (self.gc.unfinished || self.outstanding == 0);
            if !self.moved && self.outstanding == 0 {
                self.give_up();
            }
        }
    }

    /// Fails waiting commands when nothing is under way: no space is left and GC can free none, or the drive
    /// takes no writes. Sectors in the ring stay there and can be read.
    fn give_up(&mut self) {
        if self.waiting.is_empty() && !self.is_awaited() {
            return;
        }
        // A drive that takes no writes now may take some later.
        self.read_only |= !self.drive_refuses;
        while let Some(request) = self.waiting.pop_front() {
            self.finish(request, Status::WriteFault);
        }
        self.fail_flushes();
    }
}

impl Machine for HostFtl {
    type Ask = Command;
    type Answer = Completion;

    #[inline]
    fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.config.namespace)
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.advance(now);
        // A new command cancels the stop.
        self.moved |= self.stop.take().is_some();
        if command.opcode != Opcode::Read {
            self.try_again();
        }
        let status = self.refuse(&command);
        let cost =
            Nanos(self.config.cpu.submit_ns.0 + self.config.cpu.sector_ns.0 * u64::from(command.sectors));
        let request = self.requests.take();
        self.requests[request].begin(command, now);
        match status {
            Some(status) => self.finish(request, status),
            None if cost == Nanos::ZERO => self.run(Task::Arrived(request)),
            None => self.after(cost, Task::Arrived(request)),
        }
        self.settle();
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.now = now;
        match self.config.cpu.completion_ns {
            Nanos::ZERO => self.ended(completion),
            cost => self.after(cost, Task::Ended(completion.take())),
        }
        self.settle();
    }

    fn advance(&mut self, now: SimTime) {
        while let Some((at, task)) = self.steps.due(now) {
            self.now = at;
            self.run(task);
            self.settle();
        }
        self.now = now;
        if self.starting.as_ref().is_some_and(|start| start.is_new()) {
            self.moved = true;
            self.settle();
        }
    }

    fn next_event(&self) -> Option<SimTime> {
        self.steps.next_event()
    }

    fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    fn failure(&self) -> Option<String> {
        self.failure.as_ref().map(HostFtlError::to_string)
    }

    fn is_ready(&self) -> bool {
        self.starting.is_none()
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        *self = self.restarted(now).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn stop(&mut self, now: SimTime) {
        self.now = now;
        self.begin_stop();
        self.settle();
    }

    fn is_stopped(&self) -> bool {
        self.stop == Some(stop::Stop::Done)
    }

    #[inline]
    fn answered(&self) -> usize {
        self.up.len()
    }

    fn figures(&self) -> Vec<Figure> {
        let (free_lines, lines) = self.free_lines();
        self.counters.figures(&HostHoldings {
            sector_bytes: self.sector_bytes(),
            capacity_sectors: self.capacity_sectors(),
            free_lines,
            lines,
            memory_bytes: self.memory_bytes(),
        })
    }
}

impl Layer for HostFtl {
    fn interface(&self) -> Interface {
        Interface::Block { sectors: self.capacity_sectors(), handles: 1 }
    }

    /// Prefetches the entries of ring and map for the command.
    #[inline]
    fn prefetch(&self, lba: Lba) {
        if let Ok(lpn) = u32::try_from(lba.0) {
            self.ftl.prefetch(Soon::Lookup(Lpn(lpn)));
            self.ring.touch(Lpn(lpn));
        }
    }

    fn is_read_only(&self) -> bool {
        self.read_only || self.failure.is_some()
    }

    /// Without translation pages, a start finds the written data but undoes trims.
    fn keeps_flushed(&self) -> bool {
        self.config.durability != Durability::Volatile
    }

    fn unsaved_sectors(&self) -> u64 {
        self.ring.unsaved()
    }

    fn holding(&self, lba: Lba) -> Held {
        // The content is unknown until the map is loaded.
        if self.starting.is_some() || self.failure.is_some() {
            return Held { holds: true, until: u64::MAX, looks: 1 };
        }
        let one = Held { holds: false, until: lba.0 + 1, looks: 1 };
        let Some(lpn) = u32::try_from(lba.0).ok().filter(|&lpn| lpn < self.ftl.user_units()).map(Lpn) else {
            return one;
        };
        match (self.ring.find(lpn), self.ftl.untouched_until(lpn)) {
            (Some(at), _) => Held { holds: !self.ring.entry(at).trimmed, ..one },
            (None, Some(until)) => {
                let (in_ring, looks) = self.ring.next(lpn);
                let until = in_ring.map_or(until, |next| next.min(until));
                Held { until: until.0.into(), looks, ..one }
            }
            (None, None) => Held { holds: self.ftl.peek(lpn) != Located::Zero, ..one },
        }
    }

    fn start_figures(&self) -> Vec<Figure> {
        self.mount.figures()
    }
}

/// Line, which the engine calls a block.
type LineId = BlockId;
