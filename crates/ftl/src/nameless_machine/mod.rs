//! The FTL of nameless writes at work: below it, it needs only page reads, page writes and chunk resets ("Getting Real", 3.4).
//!
//! The machine accepts commands of a nameless namespace and issues commands of an open-channel one. A host runs it above a drive's line,
//! as the split FTL of the paper; a drive runs it below, over chunks of its own.
//!
//! ```text
//!   request of the block layer ─► flash pages of its own ─► one write at a time per parallel unit ─► drive
//!   reads: names are places; virtual sectors by the map ─────────────────────────────────────────►
//!   victims: live sectors ─► memory ─► new pages ─► Moved ─► acknowledged ─► checkpoint ─► reset
//! ```
//! [`Nameless`], the engine, makes the decisions; this layer carries them out. [`NamelessGeometry`] states the guarantees of each
//! command. `docs/explanation/nameless-writes.md` explains the central rule: a block is erased only after a checkpoint that needs nothing
//! in it. Each path has its file: `write`, `read`, `collect`, `checkpoint`, `start`.

mod checkpoint;
mod collect;
mod read;
mod saver;
mod shape;
mod start;
mod write;

use crate::{Nameless, NamelessConfig, NamelessCounters};
use pellucid_flash::slab::Slab;
use pellucid_flash::{
    Cause, Command, Completion, Figure, Interface, Lba, Lpn, NamelessGeometry, NamelessOp, Nanos, Opcode,
    Pauses, Ppa, SimTime, Stage, StageTimes, Status, Vector,
};
use saver::Saver;
use shape::Shape;
use std::collections::VecDeque;

/// A command of the application.
#[derive(Clone, Debug, Default)]
struct Request {
    command: Option<Command>,
    submitted: SimTime,
    /// Commands to the drive that the request waits for.
    left: u32,
    status: Option<Status>,
    stages: StageTimes,
    unmapped: u32,
    result: u64,
    /// Names of the written sectors: sector of the command, and place.
    names: Vec<(u32, Ppa)>,
}

impl Request {
    fn begin(&mut self, command: Command, submitted: SimTime, status: Option<Status>) {
        self.command = Some(command);
        (self.submitted, self.left, self.status) = (submitted, 0, status);
        (self.stages, self.unmapped, self.result) = (StageTimes::default(), 0, 0);
        self.names.clear();
    }
}

/// Owner of a completion: the upper bits of a tag.
const TAG_SHIFT: u32 = 56;
const TAG_WRITE: u64 = 1 << TAG_SHIFT;
const TAG_READ: u64 = 2 << TAG_SHIFT;
const TAG_RESET: u64 = 3 << TAG_SHIFT;
const TAG_SAVE: u64 = 4 << TAG_SHIFT;
const TAG_START: u64 = 5 << TAG_SHIFT;
const TAG_NUMBER: u64 = (1 << TAG_SHIFT) - 1;

/// Event counts of this layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamelessFtlCounters {
    /// Pages written for the application, and sectors of these that hold data.
    pub pages: u64,
    /// See `pages`.
    pub page_sectors: u64,
    /// Pages written with copies.
    pub copy_pages: u64,
    /// Pages of checkpoints, and checkpoints.
    pub checkpoint_pages: u64,
    /// See `checkpoint_pages`.
    pub checkpoints: u64,
    /// Writes that failed and were repeated elsewhere.
    pub write_failures: u64,
    /// Victims that have ended, by the time from their choice until their data lie elsewhere.
    pub pauses: Pauses,
    /// Event counts of the engine.
    pub engine: NamelessCounters,
}

/// The machine. Clone it, together with the drive below it, to fork its future.
#[derive(Clone, Debug)]
pub struct NamelessMachine {
    config: NamelessConfig,
    namespace: u16,
    interface: Option<Interface>,
    image_bytes: usize,
    now: SimTime,
    shape: Shape,
    engine: Nameless,
    saver: Saver,
    requests: Slab<Request>,
    writes: write::Writes,
    reads: Slab<read::Read>,
    gc: Option<collect::Gc>,
    flushes: checkpoint::Flushes,
    starting: Option<Box<start::Start>>,
    /// Commands that arrived before the layer was ready.
    early: VecDeque<u32>,
    /// Moves to be reported.
    moves: VecDeque<(Ppa, Ppa)>,
    stopping: bool,
    failure: Option<String>,
    read_only: bool,
    down: VecDeque<Command>,
    up: VecDeque<Completion>,
    /// Commands with the drive, or on their way to or from it.
    outstanding: u32,
    /// Something happened since the last call of `settle`.
    moved: bool,
    /// Since when writes wait for the host alone.
    awaiting: Option<SimTime>,
    buffers: Vec<Vec<u8>>,
    #[expect(clippy::vec_box, reason = "the box is what commands carry")]
    vectors: Vec<Box<Vector>>,
    counters: NamelessFtlCounters,
}

impl NamelessMachine {
    /// Creates the machine for the open-channel namespace `namespace`, which `interface` describes. It reads the state of a former run
    /// when it [starts](NamelessMachine::start). The error is a sentence.
    pub fn new(
        config: &NamelessConfig,
        namespace: u16,
        interface: Option<Interface>,
        image_bytes: usize,
    ) -> Result<NamelessMachine, String> {
        let shape = Shape::new(config, namespace, interface)?;
        let engine = Nameless::new(config, &shape.layout)?;
        let geometry = &shape.geometry;
        let images = (geometry.sector_bytes as usize, image_bytes);
        let places = [shape.place(0), shape.place(1)];
        let saver = Saver::new(places, geometry.write_min_sectors, geometry.chunk_sectors, images);
        Ok(NamelessMachine {
            config: config.clone(),
            namespace,
            interface,
            image_bytes,
            now: SimTime::ZERO,
            writes: write::Writes::new(shape.layout.dies),
            engine,
            saver,
            requests: Slab::default(),
            reads: Slab::default(),
            gc: None,
            flushes: checkpoint::Flushes::default(),
            starting: Some(Box::default()),
            early: VecDeque::new(),
            moves: VecDeque::new(),
            stopping: false,
            failure: None,
            read_only: false,
            down: VecDeque::new(),
            up: VecDeque::new(),
            outstanding: 0,
            moved: false,
            awaiting: None,
            buffers: Vec::new(),
            vectors: Vec::new(),
            counters: NamelessFtlCounters::default(),
            shape,
        })
    }

    /// Geometry of the nameless namespace.
    pub fn geometry(&self) -> NamelessGeometry {
        NamelessGeometry {
            capacity_sectors: self.engine.capacity().into(),
            virtual_sectors: self.engine.virtual_units().into(),
            name_sectors: self.shape.layout.units.into(),
            page_sectors: self.shape.layout.units_per_superpage,
            sector_bytes: self.shape.layout.sector_bytes,
        }
    }

    /// Event counts so far.
    pub fn counters(&self) -> NamelessFtlCounters {
        NamelessFtlCounters {
            engine: self.engine.counters(),
            checkpoint_pages: self.saver.pages_written,
            checkpoints: self.saver.saved,
            ..self.counters
        }
    }

    /// The engine that makes its decisions.
    pub fn engine(&self) -> &Nameless {
        &self.engine
    }

    /// Bytes of memory for tables and buffers.
    pub fn memory_bytes(&self) -> u64 {
        let buffers: usize = self.buffers.iter().map(Vec::capacity).sum();
        self.engine.memory_bytes()
            + self.saver.memory_bytes()
            + self.requests.memory_bytes()
            + self.reads.memory_bytes()
            + self.writes.memory_bytes()
            + buffers as u64
    }

    /// Walks every invariant and panics where one is broken. Cost: the whole namespace.
    pub fn check(&self) {
        if self.starting.is_none() && self.failure.is_none() {
            self.engine.check();
            self.writes.check();
        }
    }

    /// Reason for refusing a command, if any.
    pub fn refuse(&self, command: &Command) -> Option<Status> {
        let geometry = self.geometry();
        let (writes, limit) = match command.opcode {
            Opcode::Write | Opcode::Trim | Opcode::WriteZeroes => (true, geometry.virtual_sectors),
            Opcode::Read => (false, geometry.virtual_sectors),
            Opcode::Nameless(NamelessOp::Write) => (true, u64::MAX),
            Opcode::Nameless(NamelessOp::Free | NamelessOp::Acknowledge) => (true, geometry.name_sectors),
            Opcode::Nameless(NamelessOp::Read) | Opcode::Report => (false, geometry.name_sectors),
            Opcode::Flush => (false, u64::MAX),
            _ => return Some(Status::InvalidOpcode),
        };
        if self.failure.is_some() || (writes && self.read_only) {
            return Some(Status::ReadOnly);
        }
        if command.opcode == Opcode::Flush {
            return None;
        }
        let bytes = command.sectors as usize * self.image_bytes;
        let carries = match command.opcode {
            Opcode::Write | Opcode::Nameless(NamelessOp::Write) => true,
            Opcode::Read | Opcode::Nameless(NamelessOp::Read) => !command.data.is_empty(),
            _ => false,
        };
        let listed = command.vector.as_ref().map_or(&[][..], |vector| &vector.addresses);
        let may_list = matches!(command.opcode, Opcode::Nameless(_));
        let lists = listed.is_empty() || (may_list && listed.len() == command.sectors as usize);
        let named = command.opcode != Opcode::Nameless(NamelessOp::Write)
            || command.vector.is_some()
            || command.sectors == 1
            || (command.sectors <= geometry.page_sectors && !command.fua);
        let carried = !carries || command.data.len() == bytes;
        if command.sectors == 0 || !lists || !named || !carried {
            return Some(Status::InvalidField);
        }
        if command.opcode == Opcode::Nameless(NamelessOp::Write) {
            let known = |lba: &Lba| *lba == NamelessGeometry::NAMELESS || lba.0 < geometry.virtual_sectors;
            return (!listed.iter().all(known)).then_some(Status::LbaOutOfRange);
        }
        let inside = match listed.is_empty() {
            true => command.lba.0.checked_add(command.sectors.into()).is_some_and(|end| end <= limit),
            false => listed.iter().all(|lba| lba.0 < limit),
        };
        (!inside).then_some(Status::LbaOutOfRange)
    }

    fn arrived(&mut self, request: u32) {
        self.moved = true;
        let command = self.requests[request].command.as_ref().expect("a request has its command");
        match command.opcode {
            Opcode::Read | Opcode::Nameless(NamelessOp::Read) => self.start_read(request),
            Opcode::Write | Opcode::Nameless(NamelessOp::Write) => self.start_write(request),
            Opcode::Flush => self.flushes.wait(request),
            Opcode::Report => self.report(request),
            _ => self.change(request),
        }
    }

    /// Trims, frees and acknowledgements: they take effect at once, and are durable with the next checkpoint.
    fn change(&mut self, request: u32) {
        let command = self.requests[request].command.take().expect("a request has its command");
        let listed = command.vector.as_ref().map_or(&[][..], |vector| &vector.addresses);
        let count = if listed.is_empty() { command.sectors as usize } else { listed.len() };
        let mut known = 0;
        for i in 0..count {
            let address = if listed.is_empty() { command.lba.0 + i as u64 } else { listed[i].0 } as u32;
            known += u64::from(match command.opcode {
                Opcode::Nameless(NamelessOp::Free) => self.engine.free(Ppa(address)),
                Opcode::Nameless(NamelessOp::Acknowledge) => self.engine.acknowledge(Ppa(address)),
                _ => {
                    self.engine.trim(Lpn(address));
                    true
                }
            });
        }
        let missing = command.opcode == Opcode::Nameless(NamelessOp::Free) && known < count as u64;
        self.flushes.changed();
        let fua = command.fua;
        let record = &mut self.requests[request];
        (record.command, record.result) = (Some(command), known);
        record.status = missing.then_some(Status::Unwritten);
        if fua && !missing {
            self.flushes.wait(request);
        } else {
            self.finish(request);
        }
    }

    /// Answers a request for the current targets of names.
    fn report(&mut self, request: u32) {
        let mut command = self.requests[request].command.take().expect("a request has its command");
        command.data.clear();
        for name in command.lba.0..command.lba.0 + u64::from(command.sectors) {
            let now = match self.engine.name(Ppa(name as u32)) {
                crate::Name::Unknown => NamelessGeometry::NAMELESS.0,
                crate::Name::Virtual => NamelessGeometry::VIRTUAL.0,
                crate::Name::Here | crate::Name::Leaving => name,
                crate::Name::Moved(new) => new.0.into(),
            };
            command.data.extend_from_slice(&now.to_le_bytes());
        }
        self.requests[request].command = Some(command);
        self.finish(request);
    }

    /// Ends a command of the drive.
    fn ended(&mut self, completion: &mut Completion) {
        self.outstanding -= 1;
        self.moved = true;
        let number = (completion.tag & TAG_NUMBER) as u32;
        match completion.tag & !TAG_NUMBER {
            TAG_WRITE => self.written(number, completion),
            TAG_READ => self.read_ended(number, completion),
            TAG_RESET => self.reset_ended(number, completion),
            TAG_SAVE => self.save_ended(number, completion),
            _ => self.start_ended(number, completion),
        }
        self.put_back(std::mem::take(&mut completion.data), completion.vector.take());
    }

    fn put_back(&mut self, data: Vec<u8>, vector: Option<Box<Vector>>) {
        if data.capacity() > 0 {
            self.buffers.push(data);
        }
        if let Some(mut vector) = vector {
            vector.addresses.clear();
            self.vectors.push(vector);
        }
    }

    /// Hands a command to the drive.
    fn send(&mut self, mut command: Command) {
        command.namespace = self.namespace;
        self.outstanding += 1;
        self.down.push_back(command);
    }

    /// Ends one of a request's commands to the drive, or one of its own steps.
    fn part_ended(&mut self, request: u32, status: Status, stages: &StageTimes) {
        let record = &mut self.requests[request];
        if !matches!(status, Status::Success | Status::HighEcc) {
            record.status.get_or_insert(status);
        }
        record.left -= 1;
        if record.left == 0 {
            record.stages = *stages;
            let forced =
                record.command.as_ref().is_some_and(|command| command.fua && command.opcode != Opcode::Read);
            match forced && record.status.is_none() {
                true => self.flushes.wait(request),
                false => self.finish(request),
            }
        }
    }

    /// Takes the engine's moves. A unit that was moved before its write has ended gets the new name alone: the host does not know the old
    /// one.
    fn take_moves(&mut self) {
        while let Some((old, new)) = self.engine.next_move() {
            let under_way = self.requests.iter_mut().filter(|request| request.command.is_some());
            let mut names = under_way.flat_map(|request| &mut request.names);
            match names.find(|(_, name)| *name == old) {
                Some((_, name)) => {
                    *name = new;
                    self.engine.acknowledge(old);
                }
                None => self.moves.push_back((old, new)),
            }
        }
    }

    /// Completes the application's command.
    fn finish(&mut self, request: u32) {
        let record = &mut self.requests[request];
        let mut command = record.command.take().expect("a request has its command");
        for &(sector, name) in &record.names {
            match (record.status, &mut command.vector) {
                // A failed command has written nothing.
                (Some(_), _) => _ = self.engine.free(name),
                (None, Some(vector)) => vector.addresses[sector as usize] = Lba(name.0.into()),
                (None, None) => {}
            }
        }
        record.result = record.names.iter().min().map_or(record.result, |(_, name)| name.0.into());
        let mut stages = record.stages;
        let total = self.now - record.submitted;
        stages.add(Stage::Host, Nanos(total.0.saturating_sub(stages.total().0)));
        let (status, result, unmapped) = (record.status, record.result, record.unmapped);
        let ended = command.ended(status.unwrap_or(Status::Success), record.submitted, self.now, stages);
        self.up.push_back(Completion { result, unmapped, ..ended });
        self.requests.release(request);
    }

    /// Does all current work, until everything waits for the drive, the processor or the application.
    fn settle(&mut self) {
        self.take_moves();
        while std::mem::take(&mut self.moved) {
            if self.starting.is_some() {
                self.continue_start();
                continue;
            }
            self.continue_gc();
            self.fill();
            self.continue_checkpoint();
            self.erase();
            if !self.moved && self.outstanding == 0 {
                self.give_up();
            }
        }
        let awaits = self.starting.is_none() && self.outstanding == 0 && self.writes.is_waiting();
        self.awaiting = awaits.then(|| self.awaiting.unwrap_or(self.now));
    }
}

/// Commands and completions, above and below.
impl NamelessMachine {
    /// Accepts a command of the application, which it submitted at `submitted`. `refused`: the result of [`NamelessMachine::refuse`], or
    /// another reason.
    pub fn submit(&mut self, submitted: SimTime, now: SimTime, command: Command, refused: Option<Status>) {
        self.start(now);
        self.stopping = false;
        let request = self.requests.take();
        self.requests[request].begin(command, submitted, refused);
        match refused {
            Some(_) => self.finish(request),
            None if self.starting.is_some() => self.early.push_back(request),
            None => self.arrived(request),
        }
        self.settle();
    }

    /// Accepts the completion of a command of the drive.
    pub fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.now = now;
        self.ended(completion);
        self.settle();
    }

    /// Ends writes that wait for an acknowledgement with [`Status::CapacityExceeded`]: the host that should acknowledge is out of reach.
    pub fn give_up_waiting(&mut self) {
        self.drop_waiting();
        self.settle();
    }

    /// When the longest time ends for which writes wait for the host; `None`: none waits.
    pub fn next_event(&self) -> Option<SimTime> {
        self.awaiting.map(|since| since + self.config.acknowledge_within_ns)
    }

    /// Gives up writes whose longest wait has ended by `now`. Returns whether there were some.
    pub fn advance(&mut self, now: SimTime) -> bool {
        let due = self.next_event().is_some_and(|at| at <= now);
        if due {
            self.now = now;
            self.give_up_waiting();
        }
        due
    }

    /// Starts: reads the state of a former run, unless that is done or under way.
    pub fn start(&mut self, now: SimTime) {
        self.now = now;
        if self.starting.as_ref().is_some_and(|start| start.is_new()) {
            self.moved = true;
            self.settle();
        }
    }

    /// The next command for the drive.
    pub fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    /// Cause of a command for the drive.
    pub fn cause(&self, command: &Command) -> Cause {
        let number = (command.tag & TAG_NUMBER) as u32;
        match command.tag & !TAG_NUMBER {
            TAG_WRITE if self.writes_copies(number) => Cause::Gc,
            TAG_READ if self.reads_victim(number) => Cause::Gc,
            TAG_RESET => Cause::Gc,
            TAG_SAVE => Cause::Journal,
            _ => Cause::Host,
        }
    }

    /// Takes the next completion.
    pub fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    /// Completions that wait to be taken.
    pub fn answered(&self) -> usize {
        self.up.len()
    }

    /// Reason why the machine cannot work at all.
    pub fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    /// Returns whether the start has ended.
    pub fn is_ready(&self) -> bool {
        self.starting.is_none()
    }

    /// Stops: no more commands follow, so a checkpoint of all unsaved changes is written.
    pub fn stop(&mut self, now: SimTime) {
        self.now = now;
        (self.stopping, self.moved) = (true, true);
        self.settle();
    }

    /// Returns whether a stop has completed.
    pub fn is_stopped(&self) -> bool {
        self.stopping && self.starting.is_none() && self.is_saved()
    }

    /// Restarts after a power cut: everything that was only in memory is lost. Commands under way end with [`Status::PowerLoss`].
    pub fn restart(&mut self, now: SimTime) -> Result<(), String> {
        let mut fresh = NamelessMachine::new(&self.config, self.namespace, self.interface, self.image_bytes)?;
        fresh.keep(self.take_kept());
        fresh.now = now;
        fresh.up = std::mem::take(&mut self.up);
        for record in self.requests.iter_mut() {
            let Some(command) = record.command.take() else { continue };
            let mut stages = StageTimes::default();
            stages.add(Stage::Host, now.since(record.submitted));
            fresh.up.push_back(command.ended(Status::PowerLoss, record.submitted, now, stages));
        }
        *self = fresh;
        Ok(())
    }

    /// Ends a command that had not arrived when the power was cut.
    pub fn lose(&mut self, completion: Completion) {
        self.up.push_back(completion);
    }

    /// Takes the newest checkpoint, if the drive keeps stamps instead of data: the caller hands it to the next machine for the drive.
    pub fn take_kept(&mut self) -> Option<Vec<u8>> {
        self.saver.take_kept()
    }

    /// Sets the result of [`NamelessMachine::take_kept`], before the start.
    pub fn keep(&mut self, kept: Option<Vec<u8>>) {
        self.saver.keep(kept);
    }

    /// The next move to be reported: old name and new one.
    pub fn next_move(&mut self) -> Option<(Lba, Lba)> {
        self.moves.pop_front().map(|(old, new)| (Lba(old.0.into()), Lba(new.0.into())))
    }

    /// Returns whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.read_only || self.failure.is_some()
    }

    /// Event counts, with readable names.
    pub fn figures(&self) -> Vec<Figure> {
        let counters = self.counters();
        let count = Figure::count;
        let mut figures = vec![
            count("nameless_pages", "Flash pages written for the application.", counters.pages),
            count("nameless_page_sectors", "Sectors of these that hold data.", counters.page_sectors),
            count("nameless_copied_sectors", "Sectors copied by garbage collection.", counters.engine.copied),
            count("nameless_moves", "Moves told to the application.", counters.engine.moves),
            count("nameless_erases", "Chunks reset.", counters.engine.erases),
            count("nameless_checkpoints", "Checkpoints written.", counters.checkpoints),
            count("nameless_checkpoint_pages", "Flash pages of these.", counters.checkpoint_pages),
            count("nameless_write_failures", "Writes done again elsewhere.", counters.write_failures),
            count("nameless_unacknowledged", "Moves not acknowledged.", self.engine.unacknowledged() as u64)
                .gauge(),
            count("nameless_free_chunks", "Free chunks.", self.engine.free_blocks().into()).gauge(),
            count("nameless_memory_bytes", "Memory for tables and buffers.", self.memory_bytes()).gauge(),
        ];
        figures.extend(counters.pauses.figures([
            "nameless_gc_pauses",
            "nameless_gc_pause_sum_ns",
            "nameless_gc_pause_p50_ns",
            "nameless_gc_pause_p99_ns",
            "nameless_gc_pause_max_ns",
        ]));
        figures
    }
}
