//! Chunks made of zones: a zoned namespace in the form that a host FTL needs.
//!
//! ```text
//!  HostFtl          write of a superpage + out-of-band data      read of a vector      report      reset, finish
//!     │                        │                                    │                 │              │
//!  ZoneChunks       batches of data and trailer, forced       runs of sectors     zones, torn    the zone's
//!     ▼                        ▼                                and trailers      ones padded        ▼
//!  zoned drive      write at the write pointer                     reads             report      zone actions
//! ```
//! The log on zones is [`HostFtl`](crate::HostFtl), with its ring, map, rate limiter, victims and mount,
//! above this layer. Zones lack out-of-band data and vectors: a trailer in each batch replaces the former,
//! and several reads the latter.
//!
//! Guarantees: a write is acknowledged when it is on the media (force unit access), whatever write buffer the drive has. A write fault
//! is either a zone's failure or a refusal by a drive whose store is full: the layer queries the zone, and passes a refusal up as such,
//! to be retried. A batch is valid if its trailer can be read, or the next trailer, which repeats it. The writes of a zone are in order,
//! because the layer above has one write at a time in each parallel unit. This layer knows only three things about zones: which are
//! active ([`active`]), the out-of-band data that the next trailer repeats, and, if the drive keeps stamps instead of data, all
//! out-of-band data, because the drive could not return them.

mod active;
mod read;
mod shape;
mod trailer;

pub use shape::{ZoneChunksConfig, ZoneChunksError};

use crate::cpu::Steps;
use crate::{Layer, Machine};
use active::Active;
use pellucid_flash::slab::Slab;
use pellucid_flash::{
    ChunkAddress, ChunkOp, Command, Completion, Figure, Interface, Lba, Nanos, Opcode, SimTime, Stage,
    StageTimes, Status, Vector, ZoneAction, ZoneInfo, ZoneOp, ZoneState,
};
use read::Want;
use shape::ZoneShape;
use std::collections::{BTreeMap, VecDeque};

/// Command from above.
#[derive(Clone, Debug, Default)]
struct Op {
    command: Option<Command>,
    submitted: SimTime,
    /// Number of parts under way.
    left: u32,
    status: Option<Status>,
    /// Failed addresses, as a bit mask.
    failed: u64,
    stages: StageTimes,
    /// Zones as the drive reported them.
    infos: Vec<ZoneInfo>,
}

/// Purpose of a command to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Purpose {
    /// The whole of a command; its status is the command's.
    #[default]
    Whole,
    /// A read into the command's own buffer.
    Direct,
    /// A run of sectors of a read.
    Run,
    /// A report of the zones.
    Report,
    /// Padding of a torn batch of this zone.
    Pad(u32),
    /// A report of the zone of a command that ended with a write fault.
    Doubt,
}

/// Command to the drive.
#[derive(Clone, Debug, Default)]
struct Part {
    op: u32,
    purpose: Purpose,
    /// First sector of a run, and the sectors needed from it.
    first: u64,
    wants: Vec<Want>,
}

/// Step of work of the host's processor.
#[derive(Clone, Debug)]
enum Step {
    Send(Command),
    Ended(Completion),
}

/// Counters of the layer's work in addition to the commands from above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneChunksCounters {
    /// Commands sent to the drive.
    pub commands: u64,
    /// Sectors of trailers written.
    pub trailer_sectors: u64,
    /// Sectors written to pad torn batches.
    pub padded_sectors: u64,
    /// Sectors read beyond the requested ones, including trailers.
    pub gap_sectors: u64,
}

/// Zone layer. Clone it together with the drive below to fork the simulation.
#[derive(Clone, Debug)]
pub struct ZoneChunks {
    config: ZoneChunksConfig,
    shape: ZoneShape,
    image_bytes: usize,
    now: SimTime,
    steps: Steps<Step>,
    ops: Slab<Op>,
    parts: Slab<Part>,
    wants: Vec<Want>,
    active: Active,
    /// Number of commands with the drive, or on their way to or from it.
    under_way: u32,
    /// Out-of-band data of each zone, if the drive keeps stamps.
    stamps: Vec<Vec<u8>>,
    /// Number and out-of-band data of the last batch that is on the media of a zone; the next trailer repeats them.
    last: BTreeMap<u32, (u32, Vec<u8>)>,
    buffers: Vec<Vec<u8>>,
    down: VecDeque<Command>,
    up: VecDeque<Completion>,
    counters: ZoneChunksCounters,
}

impl ZoneChunks {
    /// Creates the layer for the zoned namespace that `interface` describes.
    pub fn new(
        config: &ZoneChunksConfig,
        interface: Option<Interface>,
        image_bytes: usize,
    ) -> Result<ZoneChunks, ZoneChunksError> {
        let Some(Interface::Zoned(zones)) = interface else {
            return Err(ZoneChunksError::NotZoned(config.namespace));
        };
        let shape = ZoneShape::new(config, &zones)?;
        let stamps = if image_bytes == zones.sector_bytes as usize { 0 } else { zones.zones as usize };
        Ok(ZoneChunks {
            config: config.clone(),
            shape,
            image_bytes,
            now: SimTime::ZERO,
            steps: Steps::new(config.cpu.cores),
            ops: Slab::default(),
            parts: Slab::default(),
            wants: Vec::new(),
            active: Active::new(zones.zones, zones.active_max),
            under_way: 0,
            stamps: vec![Vec::new(); stamps],
            last: BTreeMap::new(),
            buffers: Vec::new(),
            down: VecDeque::new(),
            up: VecDeque::new(),
            counters: ZoneChunksCounters::default(),
        })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &ZoneChunksConfig {
        &self.config
    }

    /// Returns the counters.
    pub fn counters(&self) -> ZoneChunksCounters {
        self.counters
    }

    /// Returns the processor time spent so far.
    pub fn cpu_busy(&self) -> Nanos {
        self.steps.busy()
    }

    /// Returns the bytes of host memory for records of commands and zones, without the buffers of commands
    /// under way.
    pub fn memory_bytes(&self) -> u64 {
        let last: u64 = self.last.values().map(|(_, oob)| oob.capacity() as u64).sum();
        self.ops.memory_bytes() + self.parts.memory_bytes() + u64::from(self.shape.zones.zones) + last
    }

    fn keeps_content(&self) -> bool {
        self.stamps.is_empty()
    }

    fn refuse(&self, command: &Command) -> Option<Status> {
        let geometry = &self.shape.chunks;
        if command.namespace != 0 {
            return Some(Status::InvalidField);
        }
        let Some(address) = geometry.address(command.lba) else { return Some(Status::LbaOutOfRange) };
        let metadata = command.vector.as_ref().map_or(0, |v| v.metadata.len());
        let images = command.sectors as usize * self.image_bytes;
        let oob = command.sectors as usize * Vector::METADATA_BYTES;
        let listed = command.vector.as_ref().is_some_and(|v| !v.addresses.is_empty());
        let metadata_fits = metadata == 0 || metadata == oob;
        let good = match command.opcode {
            Opcode::Write => {
                let whole = address.sector.is_multiple_of(self.shape.data)
                    && command.sectors.is_multiple_of(self.shape.data)
                    && address.sector + command.sectors <= geometry.chunk_sectors;
                whole && command.sectors > 0 && command.data.len() == images && metadata_fits && !listed
            }
            Opcode::Read => {
                let data = command.data.is_empty() || command.data.len() == images;
                data && metadata_fits && command.sectors > 0
            }
            Opcode::Report => {
                let chunks = geometry.units * geometry.chunks;
                command.sectors > 0 && geometry.chunk_number(address) + command.sectors <= chunks
            }
            Opcode::Chunk(ChunkOp::Reset) | Opcode::Zone(ZoneOp::Change(ZoneAction::Finish)) => {
                command.sectors == 0 && command.vector.is_none()
            }
            _ => return Some(Status::InvalidOpcode),
        };
        (!good).then_some(Status::InvalidField)
    }

    #[inline]
    fn after(&mut self, cost: Nanos, step: Step) {
        if let Some(step) = self.steps.give(self.now, cost, step) {
            self.run(step);
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Send(command) => self.down.push_back(command),
            Step::Ended(completion) => self.ended(completion),
        }
    }

    /// Sends a part of `op` to the drive.
    fn send(&mut self, op: u32, part: u32, purpose: Purpose, command: Command) {
        self.ops[op].left += 1;
        self.under_way += 1;
        (self.parts[part].op, self.parts[part].purpose) = (op, purpose);
        self.counters.commands += 1;
        let command = Command { tag: part.into(), namespace: self.config.namespace, ..command };
        self.after(self.config.cpu.command_ns, Step::Send(command));
    }

    fn send_whole(&mut self, op: u32, command: Command) {
        let part = self.parts.take();
        self.send(op, part, Purpose::Whole, command);
    }

    fn command(&self, op: u32) -> &Command {
        self.ops[op].command.as_ref().expect("a command under way")
    }

    fn zone_of_op(&self, op: u32) -> u32 {
        self.shape.place(self.command(op).lba).expect("checked at submission").zone
    }

    fn start_write(&mut self, op: u32) {
        let mut data = self.buffers.pop().unwrap_or_default();
        data.clear();
        let Op { command: Some(command), .. } = &mut self.ops[op] else {
            unreachable!("a command under way")
        };
        let place = self.shape.place(command.lba).expect("checked at submission");
        let metadata = &mut command.vector.get_or_insert_default().metadata;
        // Missing out-of-band data are zeros.
        metadata.resize(command.sectors as usize * Vector::METADATA_BYTES, 0);
        let (images, oob) =
            (self.shape.data as usize * self.image_bytes, self.shape.data as usize * Vector::METADATA_BYTES);
        let batches = place.batch..place.batch + command.sectors / self.shape.data;
        let sectors = batches.len() as u32 * self.shape.batch;
        let parts = command.data.chunks_exact(images).zip(metadata.chunks_exact(oob));
        let last = self.last.get(&place.zone).filter(|(number, _)| number + 1 == place.batch);
        let mut before = last.map(|(_, oob)| &oob[..]);
        for (batch, (images, oob)) in batches.zip(parts) {
            data.extend_from_slice(images);
            self.counters.trailer_sectors += 1;
            match self.stamps.get_mut(place.zone as usize) {
                None => {
                    trailer::put(&mut data, self.image_bytes, (place.zone, batch), oob, before);
                    before = Some(oob);
                }
                Some(stamps) => {
                    let at = batch as usize * oob.len();
                    if stamps.len() < at + oob.len() {
                        stamps.resize(self.shape.chunks.chunk_sectors as usize * Vector::METADATA_BYTES, 0);
                    }
                    stamps[at..at + oob.len()].copy_from_slice(oob);
                    data.resize(data.len() + self.image_bytes, 0);
                }
            }
        }
        let lba = Lba(self.shape.lba(place));
        self.send_whole(op, Command { fua: true, ..Command::new(0, Opcode::Write, lba, sectors, data) });
    }

    /// The batches of a write are on the media: keeps what the next trailer repeats.
    fn written(&mut self, op: u32) {
        let command = self.ops[op].command.as_ref().expect("a command under way");
        let place = self.shape.place(command.lba).expect("checked at submission");
        let end = place.batch + command.sectors / self.shape.data;
        if end * self.shape.data == self.shape.chunks.chunk_sectors {
            self.last.remove(&place.zone);
        } else if self.stamps.is_empty() {
            let metadata = command.vector.as_ref().map_or(&[][..], |vector| &vector.metadata);
            let oob = &metadata[metadata.len() - self.shape.data as usize * Vector::METADATA_BYTES..];
            let last = self.last.entry(place.zone).or_default();
            last.0 = end - 1;
            last.1.clear();
            last.1.extend_from_slice(oob);
        }
    }

    fn start_action(&mut self, op: u32) {
        let command = self.command(op);
        let action = if command.opcode == Opcode::Chunk(ChunkOp::Reset) {
            ZoneAction::Reset
        } else {
            ZoneAction::Finish
        };
        let zone = self.shape.place(command.lba).expect("checked at submission").zone;
        self.last.remove(&zone);
        let start = Lba(self.shape.start(zone));
        self.send_whole(op, Command::new(0, Opcode::Zone(ZoneOp::Change(action)), start, 0, Vec::new()));
    }

    // ---- reports

    fn start_report(&mut self, op: u32) {
        let part = self.parts.take();
        let command = Command::new(0, Opcode::Report, Lba(0), self.shape.zones.zones, Vec::new());
        self.send(op, part, Purpose::Report, command);
    }

    /// Handles the report of the zones. A batch torn by a power cut is padded, so that its zone can be
    /// written further.
    fn reported(&mut self, op: u32, completion: &Completion) {
        let infos = completion.data.chunks_exact(ZoneInfo::BYTES);
        let infos: Option<Vec<ZoneInfo>> =
            infos.map(|bytes| ZoneInfo::decode(bytes.try_into().expect("exact chunks"))).collect();
        let infos = infos.filter(|infos| infos.len() == self.shape.zones.zones as usize);
        let Some(infos) = infos.filter(|_| completion.status == Status::Success) else {
            self.ops[op].status = Some(completion.status).filter(|&s| s != Status::Success);
            self.ops[op].status.get_or_insert(Status::InvalidField);
            return;
        };
        for (zone, info) in (0..).zip(&infos) {
            let torn = self.shape.torn(info);
            if torn == 0 {
                continue;
            }
            self.counters.padded_sectors += u64::from(torn);
            let data = vec![0; torn as usize * self.image_bytes];
            let command = Command::new(0, Opcode::Write, info.write_pointer, torn, data);
            let part = self.parts.take();
            self.send(op, part, Purpose::Pad(zone), Command { fua: true, ..command });
        }
        self.active.learn(&infos);
        self.ops[op].infos = infos;
    }

    fn padded(&mut self, op: u32, zone: u32, ok: bool) {
        let info = &mut self.ops[op].infos[zone as usize];
        match ok {
            true => info.write_pointer.0 += u64::from(self.shape.torn(info)),
            // The zone takes no more writes, which is the only meaning of read-only here.
            false => info.state = ZoneState::ReadOnly,
        }
    }

    /// Returns the descriptions of the requested chunks.
    fn describe(&mut self, op: u32) {
        let command = self.command(op);
        let geometry = &self.shape.chunks;
        let first = geometry.chunk_number(geometry.address(command.lba).expect("checked at submission"));
        let count = command.sectors;
        let mut data = std::mem::take(&mut self.ops[op].command.as_mut().expect("a command under way").data);
        data.clear();
        for number in first..first + count {
            let address: ChunkAddress = self.shape.chunks.chunk_at(number);
            let zone = &self.ops[op].infos[self.shape.zone_of(address) as usize];
            self.shape.info(address, zone).encode(&mut data);
        }
        self.ops[op].command.as_mut().expect("a command under way").data = data;
        self.ops[op].infos.clear();
    }

    // ---- ends

    fn ended(&mut self, completion: Completion) {
        let part = completion.tag as u32;
        let Part { op, purpose, .. } = self.parts[part];
        let status = completion.status;
        self.under_way -= 1;
        if purpose == Purpose::Whole && status == Status::WriteFault {
            return self.ask_zone(part, op, completion.data);
        }
        self.note_end(op, purpose, status);
        self.ops[op].stages = completion.stages;
        match purpose {
            Purpose::Run => return self.run_ended(part, op, completion),
            Purpose::Report => self.reported(op, &completion),
            Purpose::Pad(zone) => self.padded(op, zone, status == Status::Success),
            Purpose::Direct => {
                self.ops[op].command.as_mut().expect("a command under way").data = completion.data;
                self.ops[op].status = Some(status);
            }
            Purpose::Whole => {
                self.give_back(completion.data);
                if completion.opcode == Opcode::Write && status == Status::Success {
                    self.written(op);
                }
                self.ops[op].status = Some(translated(completion.opcode, status));
            }
            Purpose::Doubt => {
                let refused = self.is_refusal(op, &completion);
                let status = if refused { Status::WriteFault } else { self.failed(op) };
                self.ops[op].status = Some(status);
            }
        }
        self.parts.release(part);
        self.part_ended(op);
    }

    fn give_back(&mut self, data: Vec<u8>) {
        if data.capacity() > 0 {
            self.buffers.push(data);
        }
    }

    /// A command has ended with a write fault: the state of its zone tells why.
    fn ask_zone(&mut self, part: u32, op: u32, data: Vec<u8>) {
        self.give_back(data);
        self.parts.release(part);
        self.ops[op].left -= 1;
        let start = Lba(self.shape.start(self.zone_of_op(op)));
        let part = self.parts.take();
        self.send(op, part, Purpose::Doubt, Command::new(0, Opcode::Report, start, 1, Vec::new()));
    }

    /// Returns whether the drive has refused a command as a whole, or does not guarantee its result; in neither case has the zone failed.
    /// The state of a full zone does not tell which data filled it.
    fn is_refusal(&self, op: u32, report: &Completion) -> bool {
        let command = self.command(op);
        let info = report.data.first_chunk().and_then(ZoneInfo::decode);
        let Some(info) = info.filter(|_| report.status == Status::Success) else { return false };
        match (info.state, command.opcode) {
            (ZoneState::ReadOnly | ZoneState::Offline, _) => false,
            (ZoneState::Full, Opcode::Write) => false,
            (_, Opcode::Write) => {
                let from = self.shape.lba(self.shape.place(command.lba).expect("checked at submission"));
                let sectors = command.sectors / self.shape.data * self.shape.batch;
                [from, from + u64::from(sectors)].contains(&info.write_pointer.0)
            }
            _ => true,
        }
    }

    /// A zone has failed with a command; returns the status of that for its chunk.
    fn failed(&mut self, op: u32) -> Status {
        self.note_end(op, Purpose::Whole, Status::WriteFault);
        translated(self.command(op).opcode, Status::WriteFault)
    }

    fn part_ended(&mut self, op: u32) {
        self.ops[op].left -= 1;
        if self.ops[op].left > 0 {
            return;
        }
        let status = self.ops[op].status.unwrap_or(Status::Success);
        if self.command(op).opcode == Opcode::Report && status == Status::Success {
            self.describe(op);
        }
        self.finish(op, status);
    }

    fn finish(&mut self, op: u32, status: Status) {
        let record = &mut self.ops[op];
        let command = record.command.take().expect("a command under way");
        let mut stages = record.stages;
        let total = self.now - record.submitted;
        stages.add(Stage::Host, Nanos(total.0 - stages.total().0));
        let ended = command.ended(status, record.submitted, self.now, stages);
        self.up.push_back(Completion { result: record.failed, ..ended });
        self.ops.release(op);
    }
}

/// Returns the status of a chunk's command for that of its zone.
fn translated(opcode: Opcode, status: Status) -> Status {
    match (opcode, status) {
        (_, Status::Success | Status::PowerLoss) => status,
        // So a write that is tried again learns that it was carried out before.
        (Opcode::Write, Status::ZoneInvalidWrite) => Status::ChunkOutOfOrder,
        (Opcode::Write, _) => Status::ChunkWriteFailed,
        _ => Status::ChunkOffline,
    }
}

impl Machine for ZoneChunks {
    type Ask = Command;
    type Answer = Completion;

    #[inline]
    fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.config.namespace)
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.advance(now);
        let refused = self.refuse(&command);
        let opcode = command.opcode;
        let op = self.ops.take();
        let infos = std::mem::take(&mut self.ops[op].infos);
        self.ops[op] = Op { command: Some(command), submitted: now, infos, ..Op::default() };
        match (refused, opcode) {
            (Some(status), _) => self.finish(op, status),
            (_, Opcode::Read) => self.start_read(op),
            (_, Opcode::Write) => self.write_or_hold(op),
            (_, Opcode::Report) => self.start_report(op),
            _ => self.start_action(op),
        }
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.now = now;
        self.after(self.config.cpu.completion_ns, Step::Ended(completion.take()));
    }

    fn advance(&mut self, now: SimTime) {
        while let Some((at, step)) = self.steps.due(now) {
            self.now = at;
            self.run(step);
        }
        self.now = now;
        if self.active.gives_up.is_some_and(|at| at <= now) {
            self.give_up();
        }
    }

    fn next_event(&self) -> Option<SimTime> {
        self.steps.next_event().into_iter().chain(self.active.gives_up).min()
    }

    fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    #[inline]
    fn answered(&self) -> usize {
        self.up.len()
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        let zones = Some(Interface::Zoned(self.shape.zones));
        let fresh =
            ZoneChunks::new(&self.config, zones, self.image_bytes).map_err(|error| error.to_string())?;
        self.now = now;
        let under_way = (0..).zip(self.ops.iter()).filter(|(_, op)| op.command.is_some());
        let under_way: Vec<u32> = under_way.map(|(op, _)| op).collect();
        for op in under_way {
            self.ops[op].stages = StageTimes::default();
            self.finish(op, Status::PowerLoss);
        }
        let up = std::mem::take(&mut self.up);
        *self = ZoneChunks { now, up, counters: self.counters, ..fresh };
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        let sectors = |sectors: u64| sectors * u64::from(self.shape.zones.sector_bytes);
        let ZoneChunksCounters { commands, trailer_sectors, padded_sectors, gap_sectors } = self.counters;
        vec![
            Figure::count("commands", "Commands sent to the drive.", commands),
            Figure::bytes("trailer_bytes", "Bytes of trailers written.", sectors(trailer_sectors)),
            Figure::bytes("padded_bytes", "Bytes written behind torn batches.", sectors(padded_sectors)),
            Figure::bytes("gap_bytes", "Bytes read that no command asked for.", sectors(gap_sectors)),
            Figure::bytes("memory_bytes", "Bytes of host memory for records.", self.memory_bytes()).gauge(),
        ]
    }
}

impl Layer for ZoneChunks {
    fn interface(&self) -> Interface {
        Interface::OpenChannel(self.shape.chunks)
    }
}
