//! A hard disk: one arm, a write cache, a read buffer, and a queue that it orders by itself.
//!
//! ```text
//!  submit ─► queue (NCQ) ─► controller ─► write: room in the cache ─► link ─► cache ─► acknowledged
//!                                 │                                             └─► arm ─► platters
//!                                 └─────► read: cached ─► link
//!                                               else arm ─► platters ─► link, and read on into the buffer
//! ```
//! The disk is one block namespace. Like every drive here it is sans-io, plain data, and clones. What it models: where sectors lie
//! ([`shape`]: zones, skew), seek curve and rotation, the choice of the nearest operation in time ([`arm`]: seek and rotation together),
//! reads before cached writes unless these are waited for, reading ahead, and the loss of the write cache at a power cut.
//! It does not model thermal recalibration, vibration, and reads that begin in the middle of a track.
//!
//! Durability: a flush ends when every write acknowledged before it is on the platters, a forced write when its data are. A power cut
//! loses the rest, including those sectors of the current write that have not yet passed under the head. Discards are refused, because
//! disks have none.

mod arm;
mod commands;
mod config;
mod read_buffer;
mod shape;
mod store;
#[cfg(test)]
mod tests;
mod write_cache;

pub use config::{DiskConfig, DiskFault, DiskStore};

use arm::{Arm, Operation, Task};
use pellucid_flash::{
    Command, Completion, Drive, Figure, Interface, Opcode, SimTime, Stage, StageTimes, Status,
};
use read_buffer::ReadBuffer;
use shape::Shape;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::ops::Range;
use store::Images;
use write_cache::WriteCache;

/// Counters of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Sectors read by the host.
    pub read_sectors: u64,
    /// Sectors written by the host.
    pub written_sectors: u64,
    /// Reads answered without the arm.
    pub read_hits: u64,
    /// Operations for which the arm was positioned.
    pub operations: u64,
    /// Sectors that went to the platters.
    pub destaged_sectors: u64,
    /// Time of seeks.
    pub seek_ns: u64,
    /// Time of waiting for the platter to turn.
    pub rotation_ns: u64,
    /// Time of transfers under the head.
    pub transfer_ns: u64,
    /// Reads that failed.
    pub unreadable: u64,
    /// Flushes.
    pub flushes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The controller has taken the command.
    Decoded(u32),
    /// Data have crossed the link.
    Moved(u32),
    /// The arm's operation has ended.
    Arm,
}

/// A command in the disk.
#[derive(Clone, Debug, Default)]
struct Slot {
    command: Option<Command>,
    submitted: SimTime,
    /// Since when its time goes to the next stage that is booked.
    since: SimTime,
    stages: StageTimes,
}

/// A hard disk. Clone it to fork its future.
#[derive(Clone, Debug)]
pub struct Disk {
    config: DiskConfig,
    shape: Shape,
    arm: Arm,
    cache: WriteCache,
    cache_sectors: u64,
    buffer: ReadBuffer,
    images: Images,
    now: SimTime,
    events: BinaryHeap<Reverse<(SimTime, u64, Event)>>,
    /// Events made so far.
    made: u64,
    slots: Vec<Slot>,
    idle_slots: Vec<u32>,
    /// Commands beyond the queue's depth.
    outside: VecDeque<u32>,
    inside: u32,
    controller_free: SimTime,
    link_free: SimTime,
    /// Writes that wait for space in the cache, and sectors promised to writes whose data are on their way.
    room: VecDeque<u32>,
    promised: u64,
    /// Commands that wait for the arm.
    ready: Vec<u32>,
    /// Flushes and forced writes, each with the number of the last write that it waits for.
    awaited: Vec<(u32, u64)>,
    /// Writes taken in so far.
    number: u64,
    unreadable: BTreeSet<u64>,
    dead: Vec<Range<u64>>,
    /// Acknowledged data could not be written, and no flush has said so.
    lost: bool,
    completed: VecDeque<Completion>,
    counters: DiskCounters,
}

impl Disk {
    /// A blank disk. The error is a sentence.
    pub fn new(config: &DiskConfig) -> Result<Disk, String> {
        if let Some(fault) = config.fault() {
            return Err(fault.sentence.into());
        }
        let config = config.clone();
        let shape = Shape::new(&config);
        let arm = Arm::new(&config, &shape);
        let blank = config.store == DiskStore::Nothing;
        let kept = if blank { 0 } else { config.image_bytes() };
        let sector = u64::from(config.sector_bytes);
        Ok(Disk {
            arm,
            shape,
            cache: WriteCache::new(kept),
            cache_sectors: config.write_cache_bytes / sector,
            buffer: ReadBuffer::new(config.segments, config.segment_bytes / sector),
            images: Images::new(config.image_bytes(), blank),
            now: SimTime::ZERO,
            events: BinaryHeap::new(),
            made: 0,
            slots: Vec::new(),
            idle_slots: Vec::new(),
            outside: VecDeque::new(),
            inside: 0,
            controller_free: SimTime::ZERO,
            link_free: SimTime::ZERO,
            room: VecDeque::new(),
            promised: 0,
            ready: Vec::new(),
            awaited: Vec::new(),
            number: 0,
            unreadable: BTreeSet::new(),
            dead: Vec::new(),
            lost: false,
            completed: VecDeque::new(),
            counters: DiskCounters::default(),
            config,
        })
    }

    /// Its description.
    pub fn config(&self) -> &DiskConfig {
        &self.config
    }

    /// Simulated time.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Bytes that can be addressed.
    pub fn capacity_bytes(&self) -> u64 {
        self.config.sectors * u64::from(self.config.sector_bytes)
    }

    /// Returns its counters.
    pub fn counters(&self) -> DiskCounters {
        self.counters
    }

    /// Bytes that the simulator keeps of its content.
    pub fn memory_bytes(&self) -> u64 {
        self.images.memory_bytes() + self.cache.sectors() * self.config.image_bytes() as u64
    }

    /// Acknowledged sectors that are not on the platters.
    pub fn cached_sectors(&self) -> u64 {
        self.cache.sectors()
    }

    /// One line: what it is.
    pub fn summary(&self) -> String {
        let DiskConfig { rpm, heads, outer_rate, write_cache_bytes, queue, .. } = self.config;
        format!(
            "disk, {rpm} rpm, {heads} heads, {} MB/s, write cache of {} MiB, queue of {queue}",
            outer_rate / 1_000_000,
            write_cache_bytes >> 20
        )
    }

    /// Returns its counters by name.
    pub fn figures(&self) -> Vec<Figure> {
        let (c, sector) = (self.counters, u64::from(self.config.sector_bytes));
        vec![
            Figure::bytes("read_bytes", "Bytes that the host read.", c.read_sectors * sector),
            Figure::bytes("written_bytes", "Bytes that the host wrote.", c.written_sectors * sector),
            Figure::bytes("destaged_bytes", "Bytes written to the platters.", c.destaged_sectors * sector),
            Figure::count("read_hits", "Reads answered without the arm.", c.read_hits),
            Figure::count("operations", "Operations for which the arm was positioned.", c.operations),
            Figure::nanos("seek_ns", "Time of seeks.", c.seek_ns),
            Figure::nanos("rotation_ns", "Time of waiting for the platter to turn.", c.rotation_ns),
            Figure::nanos("transfer_ns", "Time of transfers under the head.", c.transfer_ns),
            Figure::count("flushes", "Flushes.", c.flushes),
            Figure::count("unreadable", "Reads that failed.", c.unreadable),
        ]
    }

    /// Makes these sectors unreadable until they are written: writing assigns spare sectors.
    pub fn spoil(&mut self, sectors: Range<u64>) {
        self.buffer.clear();
        self.unreadable.extend(sectors);
    }

    /// Makes these sectors fail for good: reads and writes.
    pub fn kill(&mut self, sectors: Range<u64>) {
        self.buffer.clear();
        self.dead.push(sectors);
    }

    /// Reads these sectors as the platters hold them, without the write cache. For tests.
    pub fn on_platters(&self, lba: u64, images: &mut [u8]) {
        self.images.read(lba, images);
    }

    /// Puts images on the platters in no time.
    pub fn fill(&mut self, lba: u64, images: &[u8]) {
        self.images.write(lba, images);
    }

    /// Cuts the power now and switches the disk on again. The write cache is lost; of what is being written the sectors that have passed
    /// under the head stay. Outstanding commands end with [`Status::PowerLoss`].
    pub fn power_cut(&mut self) {
        if let Some(Operation { task, lba, sectors, transfers, .. }) = self.arm.operation.take() {
            let passed = match self.now > transfers {
                true => self.shape.passed(lba, sectors, self.now - transfers),
                false => 0,
            };
            let bytes = passed as usize * self.config.image_bytes();
            match &task {
                Task::Read(_) => {}
                Task::Write(slot) => {
                    let data = std::mem::take(&mut self.slots[*slot as usize].command).map(|c| c.data);
                    let data = data.unwrap_or_default();
                    self.images.write(lba, &data[..bytes.min(data.len())]);
                }
                Task::Destage(run) => self.images.write(lba, &run.images[..bytes.min(run.images.len())]),
            }
        }
        self.arm.stop();
        self.cache.clear();
        self.buffer.clear();
        self.events.clear();
        let now = self.now;
        for slot in &mut self.slots {
            if let Some(command) = slot.command.take() {
                let mut stages = slot.stages;
                stages.add(Stage::Queue, now.since(slot.since));
                self.completed.push_back(command.ended(Status::PowerLoss, slot.submitted, now, stages));
            }
        }
        self.slots.clear();
        self.idle_slots.clear();
        self.outside.clear();
        self.room.clear();
        self.ready.clear();
        self.awaited.clear();
        (self.inside, self.promised, self.lost) = (0, 0, false);
        (self.controller_free, self.link_free) = (now, now);
    }

    /// Walks the invariants.
    ///
    /// # Panics
    /// If one is broken.
    pub fn check(&self) {
        self.cache.check();
        assert!(self.inside <= self.config.queue, "{} commands in a queue", self.inside);
        let promised = self.cache.sectors() + self.promised;
        let alone = self.promised == 0 || self.cache.is_empty();
        assert!(promised <= self.cache_sectors || alone, "{promised} sectors in the write cache");
        let in_use = self.slots.iter().filter(|slot| slot.command.is_some()).count();
        assert_eq!(in_use + self.idle_slots.len(), self.slots.len(), "slots");
        assert!(self.outside.is_empty() || self.inside == self.config.queue, "commands wait for nothing");
    }

    fn schedule(&mut self, at: SimTime, event: Event) {
        self.made += 1;
        self.events.push(Reverse((at, self.made, event)));
    }

    fn book(&mut self, slot: u32, stage: Stage) {
        let record = &mut self.slots[slot as usize];
        record.stages.add(stage, self.now.since(record.since));
        record.since = self.now;
    }

    fn command(&self, slot: u32) -> &Command {
        self.slots[slot as usize].command.as_ref().expect("a slot in use has a command")
    }

    /// First sector, sectors, and whether they are written.
    fn range_of(&self, slot: u32) -> (u64, u64, bool) {
        let command = self.command(slot);
        (command.lba.0, command.sectors.into(), command.opcode != Opcode::Read)
    }

    fn is_unreadable(&self, lba: u64, sectors: u64) -> bool {
        self.unreadable.range(lba..lba + sectors).next().is_some() || self.is_dead(lba, sectors)
    }

    fn is_dead(&self, lba: u64, sectors: u64) -> bool {
        self.dead.iter().any(|range| range.start < lba + sectors && lba < range.end)
    }

    fn refusal(&self, command: &Command) -> Option<Status> {
        let bytes = command.sectors as usize * self.config.image_bytes();
        let fits = match command.opcode {
            Opcode::Flush => return None,
            Opcode::Read => command.data.is_empty() || command.data.len() == bytes,
            Opcode::Write => command.data.len() == bytes,
            Opcode::WriteZeroes => true,
            _ => return Some(Status::InvalidOpcode),
        };
        let end = command.lba.0.checked_add(command.sectors.into());
        if command.sectors == 0 || !fits || command.vector.is_some() || command.namespace != 0 {
            return Some(Status::InvalidField);
        }
        end.is_none_or(|end| end > self.config.sectors).then_some(Status::LbaOutOfRange)
    }

    fn run(&mut self, event: Event) {
        match event {
            Event::Decoded(slot) => self.decoded(slot),
            Event::Moved(slot) => self.moved(slot),
            Event::Arm => self.arm_ended(),
        }
    }

    fn next_time(&self) -> Option<SimTime> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }
}

impl Drive for Disk {
    fn namespaces(&self) -> u16 {
        1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        (namespace == 0).then_some(Interface::Block { sectors: self.config.sectors, handles: 1 })
    }

    fn image_bytes(&self) -> usize {
        self.config.image_bytes()
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        Drive::advance(self, now);
        if let Some(status) = self.refusal(&command) {
            return self.completed.push_back(command.refused(now, status));
        }
        let slot = self.idle_slots.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let record = &mut self.slots[slot as usize];
        *record = Slot { command: Some(command), submitted: now, since: now, stages: StageTimes::ZERO };
        if self.inside < self.config.queue {
            self.enter(slot);
        } else {
            self.outside.push_back(slot);
        }
    }

    fn advance(&mut self, now: SimTime) {
        while let Some(at) = self.next_time().filter(|&at| at <= now) {
            self.now = at;
            if let Some(Reverse((_, _, event))) = self.events.pop() {
                self.run(event);
            }
        }
        self.now = self.now.max(now);
    }

    fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        Drive::advance(self, now);
        while self.completed.is_empty()
            && let Some(next) = self.next_time().filter(|&next| next < limit)
        {
            Drive::advance(self, next);
        }
        self.now
    }

    fn next_event(&self) -> Option<SimTime> {
        self.next_time()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.completed.pop_front()
    }

    fn outstanding(&self) -> usize {
        self.inside as usize + self.outside.len()
    }

    fn completed(&self) -> usize {
        self.completed.len()
    }
}
