//! Block layer of a host: a request queue above any drive, like that of Linux.
//!
//! ```text
//!  command ─► (processor) ─► joins a request ─┐
//!                  │                          ├─► queue, plugged or not ─► elevator ─► as many as the drive takes at once
//!                  │          a new request ──┘                                              │
//!                  └─ flush, trim, FUA, ... ────────────────────────► past the queue ────────┤
//!  answers, each with its own stages ◄── cut again ◄─────────────────────────────────────────┘
//! ```
//! *Merging.* Adjacent commands of one kind become one command of the drive. They have the same opcode,
//! placement handle and queue, are neither forced (FUA) nor vectors, and together have no more sectors than
//! the largest request. A larger command is split. A cache's clean and dirty writes therefore stay separate,
//! as the paper on Jasmine found necessary (3.2.2). When the queue is full, commands wait in front of it.
//!
//! *Nameless namespaces.* The drive chooses the place of a write, so all writes count as adjacent: virtual
//! and nameless writes join one request of a flash page, in order of arrival ([`Join::Newest`]), or where the
//! scheduler offers them a request ([`Join::LastMerge`]). Reads by name and reads of virtual sectors merge
//! only with their own kind.
//!
//! *Plugging.* An idle queue holds back its first requests until it has `plug` of them, or for `plug_ns`, so
//! that neighbours can merge. A command that bypasses the queue unplugs it.
//!
//! *Order.* The queue reorders outstanding commands, as every drive may. A flush covers the writes
//! acknowledged before it, and the queue acknowledges nothing before the drive does; so a flush waits for no
//! request.
//!
//! *Errors.* The failure of a merged request leaves the status of its parts open: each part is sent again
//! alone, and answered with its own status.
//!
//! *Depth.* The layer keeps as many commands in flight as the drive accepts. One more may be a free or an acknowledgement of a
//! nameless namespace: a write may be waiting for the space that these release, so they must not wait for that write.
//!
//! Invariants: every command is answered once; no more than `depth` commands are with the drive, or one more, as above.

mod machine;
mod queue;

pub use queue::{Elevator, Join};

use crate::{CpuCosts, Steps};
use pellucid_flash::slab::{List, Slab};
use pellucid_flash::{
    Command, Completion, Effect, Interface, Lba, NamelessGeometry, NamelessOp, Nanos, Notice, Opcode,
    SimTime, Stage, StageTimes, Status, Vector,
};
use pellucid_setting::Settings;
use queue::{Kind, Part, Queue};
use std::collections::VecDeque;

/// Configuration of the block layer.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct BlockLayerConfig {
    /// Block layer: namespace below.
    #[setting(kind = whole(0, 255), default = 0)]
    pub namespace: u16,
    /// Block layer: order in which requests go to the drive.
    #[setting(default = "deadline")]
    pub elevator: Elevator,
    /// Block layer: most requests in its queue (Linux: nr_requests).
    ///
    /// Further commands wait in front of the queue.
    #[setting(kind = few(1), default = 128)]
    pub requests: u32,
    /// Block layer: most commands in the drive.
    #[setting(kind = few(1), default = 32)]
    pub depth: u32,
    /// Block layer: largest request; larger commands are cut (Linux: max_sectors_kb).
    ///
    /// In sectors; a description says it in bytes.
    #[setting(kind = size(512, 1 << 30), default = "512KiB", made = 1024)]
    pub largest: u32,
    /// Block layer: requests that an idle queue gathers before it sends the first to the drive; 0: none.
    #[setting(kind = few(0), default = 4)]
    pub plug: u32,
    /// Block layer above a nameless namespace: request that a write without an adjacent request joins: the newest that has space, or only
    /// that of the last merge until it goes to the drive (Linux: last_merge).
    #[setting(default = "newest")]
    pub join: Join,
    /// Block layer: longest time for which an idle queue gathers requests; a single request waits for all of it.
    #[setting(key = "plug_time", default = "3ms")]
    pub plug_ns: Nanos,
    /// Block layer, deadline: age from which no request overtakes a read.
    #[setting(default = "500ms")]
    pub read_expire: Nanos,
    /// Block layer, deadline: age from which no request overtakes a write.
    #[setting(default = "5s")]
    pub write_expire: Nanos,
    /// Processor time of the layer's work.
    #[setting(beside = "cpu", table, shared, via = CpuCosts, by = CpuCosts::without_sectors)]
    pub cpu: CpuCosts,
}

/// Counters of the block layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockLayerCounters {
    /// Commands of the application that carry data.
    pub commands: u64,
    /// Sectors of the application's commands that carry data.
    pub command_sectors: u64,
    /// Requests with data that were sent to the drive.
    pub requests: u64,
    /// Sectors of the requests with data.
    pub request_sectors: u64,
    /// Requests that failed and were sent again in parts.
    pub split: u64,
}

/// Command of the application.
#[derive(Clone, Debug)]
struct Origin {
    command: Option<Command>,
    submitted: SimTime,
    /// Number of parts under way.
    left: u32,
    status: Status,
    unmapped: u32,
    result: u64,
    /// Sectors of a nameless write that have a name while other parts are under way. A move changes them: the caller does not know them yet.
    names: Vec<(u32, Lba)>,
}

impl Default for Origin {
    fn default() -> Origin {
        let (command, submitted, status) = (None, SimTime::ZERO, Status::Success);
        Origin { command, submitted, left: 0, status, unmapped: 0, result: 0, names: Vec::new() }
    }
}

impl Origin {
    fn command(&self) -> &Command {
        self.command.as_ref().expect("a command under way")
    }
}

/// Step of work of the host's processor.
#[derive(Clone, Copy, Debug)]
enum Step {
    Enter(u32),
    Send(u32),
    Done(u32),
}

/// Block layer. Clone it together with the drive below to fork the simulation.
#[derive(Clone, Debug)]
pub struct BlockLayer {
    config: BlockLayerConfig,
    interface: Interface,
    image_bytes: usize,
    now: SimTime,
    origins: Slab<Origin>,
    parts: Slab<Part>,
    queue: Queue,
    /// Requests that bypass the queue.
    urgent: VecDeque<u32>,
    /// Requests that give space, which bypass the depth, too.
    freeing: VecDeque<u32>,
    /// Commands that wait for space in the queue.
    outside: List,
    outside_len: usize,
    /// Completion of each request, until its parts are answered.
    ended: Vec<Option<Completion>>,
    /// Commands with the drive, besides those that give space.
    with_drive: u32,
    /// Commands with the drive that give space.
    giving: u32,
    plugged_until: Option<SimTime>,
    steps: Steps<Step>,
    down: VecDeque<Command>,
    up: VecDeque<Completion>,
    buffers: Vec<Vec<u8>>,
    /// Virtual address of the next write to a nameless namespace; writes are numbered as if they were
    /// adjacent, in order of arrival ([`Join::Newest`]). Else each has that of its command.
    log: Option<u64>,
    is_nameless: bool,
    #[expect(clippy::vec_box, reason = "the box is what commands carry")]
    vectors: Vec<Box<Vector>>,
    notices: VecDeque<Notice>,
    /// Commands that hold names.
    holding: u32,
    live: usize,
    counters: BlockLayerCounters,
}

impl BlockLayer {
    /// Creates the layer above a namespace of sectors. An error is a complete sentence.
    pub fn new(
        config: &BlockLayerConfig,
        interface: Option<Interface>,
        image_bytes: usize,
    ) -> Result<BlockLayer, String> {
        let interface = match interface {
            Some(interface @ (Interface::Block { .. } | Interface::Cache(_) | Interface::Nameless(_))) => {
                interface
            }
            Some(other) => {
                return Err(format!(
                    "the block layer needs a block, cache or nameless namespace; namespace {} is {}",
                    config.namespace,
                    other.name()
                ));
            }
            None => return Err(format!("the drive has no namespace {}", config.namespace)),
        };
        let page = match interface {
            Interface::Nameless(nameless) => Some(nameless.page_sectors),
            _ => None,
        };
        let expire = [config.read_expire, config.write_expire];
        Ok(BlockLayer {
            log: page.filter(|_| config.join == Join::Newest).map(|_| 0),
            is_nameless: page.is_some(),
            notices: VecDeque::new(),
            holding: 0,
            vectors: Vec::new(),
            interface,
            image_bytes,
            now: SimTime::ZERO,
            origins: Slab::default(),
            parts: Slab::default(),
            queue: Queue::new(config.elevator, config.largest, page, config.join, expire),
            urgent: VecDeque::new(),
            freeing: VecDeque::new(),
            outside: List::EMPTY,
            outside_len: 0,
            ended: Vec::new(),
            with_drive: 0,
            giving: 0,
            plugged_until: None,
            steps: Steps::new(config.cpu.cores),
            down: VecDeque::new(),
            up: VecDeque::new(),
            buffers: Vec::new(),
            live: 0,
            counters: BlockLayerCounters::default(),
            config: config.clone(),
        })
    }

    /// Returns the counters.
    pub fn counters(&self) -> BlockLayerCounters {
        self.counters
    }

    /// Returns the processor time spent so far.
    pub fn cpu_busy(&self) -> Nanos {
        self.steps.busy()
    }

    /// Returns the bytes of host memory in use.
    pub fn memory_bytes(&self) -> u64 {
        self.origins.memory_bytes()
            + self.parts.memory_bytes()
            + self.queue.memory_bytes()
            + (self.ended.capacity() * size_of::<Option<Completion>>()) as u64
            + self.buffers.iter().map(|buffer| buffer.capacity() as u64).sum::<u64>()
    }

    /// Checks the queue; panics if an invariant is broken.
    pub fn check(&self) {
        self.queue.check(&self.parts);
        let with_drive = self.with_drive + self.giving.saturating_sub(1);
        assert!(with_drive <= self.config.depth, "{with_drive} commands with the drive");
        let space = self.queue.len < self.config.requests as usize;
        assert!(!space || self.outside.is_empty(), "commands wait in front of a queue with space");
    }

    fn take_step(&mut self, cost: Nanos, step: Step) {
        if let Some(step) = self.steps.give(self.now, cost, step) {
            self.run(step);
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Enter(origin) => self.enter(origin),
            Step::Send(request) => self.send(request),
            Step::Done(request) => self.done(request),
        }
    }

    /// Queues a command, split if it is larger than the largest request.
    fn enter(&mut self, origin: u32) {
        let mut rest = Part::whole(origin, self.origins[origin].command());
        self.origins[origin].left = 1;
        if self.is_nameless
            && let Some(kind) = &mut rest.kind
            && kind.is_write()
        {
            // Virtual or nameless, writes join.
            kind.opcode = Opcode::Nameless(NamelessOp::Write);
            if let Some(log) = &mut self.log {
                rest.lba = *log;
                *log += u64::from(rest.sectors);
            }
        }
        if rest.kind.is_none() {
            let part = self.parts.insert(rest);
            let request = self.queue.request_of(&mut self.parts, part, self.now, true);
            let line = match gives_space(self.origins[origin].command().opcode) {
                true => &mut self.freeing,
                false => &mut self.urgent,
            };
            line.push_back(request);
            self.plugged_until = None;
            return self.dispatch();
        }
        let largest = rest.kind.map_or(self.config.largest, |kind| self.queue.largest(kind));
        while rest.sectors > largest {
            let (first, others) = rest.cut(largest);
            self.origins[origin].left += 1;
            self.enter_part(first);
            rest = others;
        }
        self.enter_part(rest);
        self.dispatch();
    }

    fn enter_part(&mut self, part: Part) {
        let part = self.parts.insert(part);
        if !self.outside.is_empty() {
            self.wait_outside(part);
        } else if !self.queue.merge(&mut self.parts, part) {
            match self.queue.len < self.config.requests as usize {
                true => self.queue_up(part),
                false => self.wait_outside(part),
            }
        }
    }

    fn wait_outside(&mut self, part: u32) {
        self.outside.push_back(&mut self.parts, part);
        self.outside_len += 1;
    }

    fn queue_up(&mut self, part: u32) {
        let idle = self.queue.len == 0 && self.with_drive + self.giving == 0;
        if idle && self.config.plug > 1 && self.plugged_until.is_none() {
            self.plugged_until = Some(self.now + self.config.plug_ns);
        }
        let request = self.queue.request_of(&mut self.parts, part, self.now, false);
        self.queue.push(request);
        if self.queue.len >= self.config.plug as usize {
            self.plugged_until = None;
        }
    }

    /// Sends requests while the drive takes them, and refills the queue with waiting commands.
    fn dispatch(&mut self) {
        while self.giving == 0 || self.with_drive + self.giving < self.config.depth {
            let Some(request) = self.freeing.pop_front() else { break };
            self.giving += 1;
            self.take_step(self.config.cpu.command_ns, Step::Send(request));
        }
        while self.with_drive + self.giving < self.config.depth {
            let queued = |layer: &mut BlockLayer| {
                let plugged = layer.plugged_until.is_some();
                if plugged { None } else { layer.queue.pop(layer.now) }
            };
            let Some(request) = self.urgent.pop_front().or_else(|| queued(self)) else { break };
            self.with_drive += 1;
            self.take_step(self.config.cpu.command_ns, Step::Send(request));
            self.admit();
        }
    }

    /// Admits waiting commands to the queue while it has space.
    fn admit(&mut self) {
        while self.queue.len < self.config.requests as usize {
            let Some(part) = self.outside.pop(&mut self.parts) else { return };
            self.outside_len -= 1;
            if !self.queue.merge(&mut self.parts, part) {
                self.queue_up(part);
            }
        }
    }

    /// Sends the command of a request to the drive.
    fn send(&mut self, request: u32) {
        let record = &self.queue.requests[request];
        let (lba, sectors, parts) = (record.lba, record.sectors, record.parts);
        let vector = self.addresses(parts);
        let first = self.parts[parts.first().expect("a request has parts")].origin;
        let model = self.origins[first].command.as_mut().expect("a command under way");
        let opcode = if vector.is_some() { Opcode::Nameless(NamelessOp::Write) } else { model.opcode };
        let vector = vector.or_else(|| model.vector.take());
        let mut command = Command {
            queue: model.queue,
            fua: model.fua,
            handle: model.handle,
            namespace: self.config.namespace,
            vector,
            ..Command::new(request.into(), opcode, Lba(lba), sectors, Vec::new())
        };
        if model.sectors == sectors && self.queue.requests[request].count == 1 {
            command.data = std::mem::take(&mut model.data);
        } else {
            let mut data = self.buffers.pop().unwrap_or_default();
            self.gather(parts, &mut data);
            command.data = data;
        }
        if Kind::of(&command).is_some() {
            self.counters.requests += 1;
            self.counters.request_sectors += u64::from(sectors);
        }
        self.down.push_back(command);
    }

    /// Returns the virtual address of each sector of a write to a nameless namespace, if it is one.
    fn addresses(&mut self, parts: List) -> Option<Box<Vector>> {
        let first = self.origins[self.parts[parts.first()?].origin].command();
        if !self.is_nameless || !matches!(first.opcode, Opcode::Write | Opcode::Nameless(NamelessOp::Write)) {
            return None;
        }
        let mut vector = self.vectors.pop().unwrap_or_default();
        vector.addresses.clear();
        let origins = &self.origins;
        parts.for_each(&mut self.parts, |part| {
            let command = origins[part.origin].command();
            let own = part.data_at..part.data_at + part.sectors;
            vector.addresses.extend(own.map(|sector| address(command, sector)));
        });
        Some(vector)
    }

    /// Concatenates the data of the parts; for a read, makes a buffer if any part wants its data.
    fn gather(&mut self, parts: List, data: &mut Vec<u8>) {
        data.clear();
        let (image_bytes, origins) = (self.image_bytes, &self.origins);
        let mut wanted = false;
        parts.for_each(&mut self.parts, |part| wanted |= !origins[part.origin].command().data.is_empty());
        parts.for_each(&mut self.parts, |part| {
            let from = &origins[part.origin].command().data;
            match from.is_empty() {
                true if wanted => data.resize(data.len() + part.sectors as usize * image_bytes, 0),
                true => {}
                false => data.extend_from_slice(&from[part.bytes(image_bytes)]),
            }
        });
    }

    /// Distributes the completion of a request to its parts.
    fn done(&mut self, request: u32) {
        let mut completion = self.ended[request as usize].take().expect("its end");
        match gives_space(completion.opcode) {
            true => self.giving -= 1,
            false => self.with_drive -= 1,
        }
        let record = &mut self.queue.requests[request];
        let (count, mut parts) = (record.count, record.parts.take());
        self.queue.requests.release(request);
        if count > 1 && !matches!(completion.status, Status::Success | Status::PowerLoss) {
            self.counters.split += 1;
            while let Some(part) = parts.pop(&mut self.parts) {
                let alone = self.queue.request_of(&mut self.parts, part, self.now, true);
                self.urgent.push_back(alone);
            }
        }
        let names = completion.vector.take_if(|_| completion.opcode == Opcode::Nameless(NamelessOp::Write));
        let (mut at, mut unmapped, mut sector) = (0, completion.unmapped, 0);
        while let Some(part) = parts.pop(&mut self.parts) {
            let Part { origin, sectors, data_at, .. } = self.parts[part];
            let range = self.parts[part].bytes(self.image_bytes);
            self.parts.release(part);
            let record = &mut self.origins[origin];
            let command = record.command.as_mut().expect("a command under way");
            if count == 1 && sectors == command.sectors {
                command.data = std::mem::take(&mut completion.data);
                command.vector =
                    if names.is_some() { command.vector.take() } else { completion.vector.take() };
            } else if completion.opcode.effect() == Effect::Reads && !command.data.is_empty() {
                command.data[range.clone()].copy_from_slice(&completion.data[at..at + range.len()]);
            }
            at += range.len();
            if let Some(names) = &names {
                let own = &names.addresses[sector..][..sectors as usize];
                if record.left == 1 && record.names.is_empty() {
                    take_names(command, data_at, own, &mut completion.result);
                } else {
                    self.holding += u32::from(record.names.is_empty());
                    record.names.extend((data_at..).zip(own.iter().copied()));
                }
                sector += sectors as usize;
            }
            // The drive reports only how many sectors of a merged read were unmapped. They are attributed to
            // the first parts, so that the sum is right.
            let own = if count == 1 { unmapped } else { unmapped.min(sectors) };
            unmapped -= own;
            record.unmapped += own;
            record.result = if data_at == 0 { completion.result } else { record.result };
            record.left -= 1;
            if record.status == Status::Success {
                record.status = completion.status;
            }
            if record.left == 0 {
                self.answer(origin, completion.stages);
            }
        }
        self.vectors.extend(names);
        if completion.data.capacity() > 0 {
            self.buffers.push(std::mem::take(&mut completion.data));
        }
        self.dispatch();
    }

    /// Answers a command after its last part, which had these stages.
    fn answer(&mut self, origin: u32, mut stages: StageTimes) {
        let record = &mut self.origins[origin];
        let mut command = record.command.take().expect("a command under way");
        self.holding -= u32::from(!record.names.is_empty());
        record.names.sort_unstable_by_key(|&(sector, _)| std::cmp::Reverse(sector));
        // The first nameless sector comes last, and its name is the result.
        for (sector, name) in record.names.drain(..) {
            take_names(&mut command, sector, &[name], &mut record.result);
        }
        let Origin { submitted, status, unmapped, result, .. } = *record;
        self.origins.release(origin);
        // Time with the drive before a repeated send counts as the layer's time.
        let total = self.now.since(submitted);
        stages.add(Stage::Host, Nanos(total.0 - stages.total().0));
        let ended = command.ended(status, submitted, self.now, stages);
        self.up.push_back(Completion { result, unmapped, ..ended });
        self.live -= 1;
    }

    /// Names that were given and not told yet follow a move.
    fn moved(&mut self, old: Lba, new: Lba) {
        let follow = |name: &mut Lba| {
            if *name == old {
                *name = new;
            }
        };
        if self.holding > 0 {
            self.origins.iter_mut().for_each(|origin| {
                origin.names.iter_mut().for_each(|(_, name)| follow(name));
            });
        }
        // Only where the end of a command costs time does one wait here.
        if self.config.cpu.completion_ns > Nanos::ZERO {
            let ended = self.ended.iter_mut().flatten();
            let named = ended.filter(|ended| ended.opcode == Opcode::Nameless(NamelessOp::Write));
            let vectors = named.filter_map(|ended| ended.vector.as_mut());
            vectors.for_each(|vector| vector.addresses.iter_mut().for_each(follow));
        }
    }

    fn unplug_if_due(&mut self, now: SimTime) {
        if self.plugged_until.is_some_and(|until| until <= now) {
            self.plugged_until = None;
            self.dispatch();
        }
    }
}

/// Returns whether a command gives space for which writes may be waiting.
fn gives_space(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Nameless(NamelessOp::Free | NamelessOp::Acknowledge))
}

/// Returns the virtual address of a sector of a write to a nameless namespace, if it has one.
fn address(command: &Command, sector: u32) -> Lba {
    let listed = || command.vector.as_ref().and_then(|vector| vector.addresses.get(sector as usize).copied());
    match command.opcode {
        Opcode::Write => Lba(command.lba.0 + u64::from(sector)),
        _ => listed().unwrap_or(NamelessGeometry::NAMELESS),
    }
}

/// Stores the names of a command's sectors from `first` on; `result` receives the name of its first nameless
/// sector.
fn take_names(command: &mut Command, first: u32, names: &[Lba], result: &mut u64) {
    let mut sectors = (first..).zip(names);
    if let Some((_, name)) =
        sectors.find(|&(sector, _)| address(command, sector) == NamelessGeometry::NAMELESS)
    {
        *result = name.0;
    }
    if command.opcode == Opcode::Nameless(NamelessOp::Write)
        && let Some(vector) = &mut command.vector
    {
        vector.addresses.resize(command.sectors as usize, NamelessGeometry::NAMELESS);
        vector.addresses[first as usize..][..names.len()].copy_from_slice(names);
    }
}
