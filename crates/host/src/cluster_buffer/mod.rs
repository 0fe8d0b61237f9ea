//! Write clustering in front of poor flash: FlashFire's cluster buffer, over any block namespace.
//!
//! ```text
//!   write ─────────► buffer ── eviction: read what is missing, write the cluster ──► drive
//!   read ──────────► drive, then what the buffer holds replaces what came back
//!   forced write, trim, write zeroes ──► drive, past the buffer, which drops its older copies; so do writes into
//!                    ranges that the configuration names, and all writes while the buffer is paused
//!   flush ─────────► strict: evictions, then the drive, then the journal for the rest; paper: the drive
//! ```
//! Kim, Kim, Lee, Maeng, Ramachandran, "FlashFire: Overcoming the Performance Bottleneck of Flash Storage
//! Technology". Sectors are gathered in clusters. When space runs out, the least recently written cluster is
//! evicted as a whole, but a full one before all others. An eviction is one read, from the first to the last
//! missing sector, and one write. Idle time writes clusters too.
//!
//! Deviations from the paper, with their reasons:
//! - `strict` is the default; the paper's driver, like `paper`, passes flushes on without writing its buffer.
//!   A power cut then loses the buffer's data: at most [`ClusterBuffer::window_bytes`], none older than
//!   `age`, if that is set. It also loses data that left the buffer after the last flush, if the drive has a
//!   volatile write buffer, and trims in the buffer since then.
//! - A flush does not pad a cluster if the buffer has less than half of it: its runs of sectors are written
//!   alone, or into the [journal], if the device has one and it has been cheaper so far
//!   (docs/explanation/clustering.md).
//! - A read that the buffer covers completely does not go to the drive.
//! - The tables count as memory too: the layer takes no more than the configured size.
//!
//! Guarantees, beside the invariants of the table:
//! - *No stale reads.* The drive may be reading sectors while they are evicted: they stay in the buffer until
//!   every read that began before they reached the drive has ended.
//! - *No older copy overwrites a newer one.* A forced write or trim waits until no cluster of its range is
//!   being evicted. While it is under way, none of them is evicted or written from above.
//! - *Errors lose no data.* A cluster that the drive refuses to write stays readable. The next flush tries
//!   once more, and fails if that fails. If only such clusters could make space, a write also tries once
//!   more, and fails if that fails.

mod bypass;
mod config;
mod evict;
mod flush;
mod journal;
mod machine;
mod read;
mod table;
mod write;

pub use config::{ClusterBufferConfig, ClusterBufferError, FlushPolicy};
pub use journal::{JournalConfig, JournalHead, JournalUse};

use crate::cpu::Steps;
use bypass::Bypass;
use config::{Shape, joined};
use evict::Eviction;
use journal::Journal;
use pellucid_flash::slab::{NIL, Slab};
use pellucid_flash::{
    Command, Completion, Interface, Lba, Nanos, Opcode, SimTime, Stage, StageTimes, Status,
};
use std::collections::VecDeque;
use std::ops::Range;
use table::{State, Table};

/// Command from above.
#[derive(Clone, Debug, Default)]
struct Op {
    command: Option<Command>,
    submitted: SimTime,
    stages: StageTimes,
    /// The write goes into the buffer, as was decided when it came.
    buffered: bool,
    /// Write: number of sectors in the buffer. Read: number of parts under way after a failed read of the
    /// drive.
    done: u32,
    /// Flush: number of the last write before it.
    barrier: u64,
    /// Read: number of the last write when it was sent to the drive.
    order: u64,
    /// Write: a refused cluster has already been retried for it.
    tried: bool,
    status: Option<Status>,
}

/// Purpose of a command to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Purpose {
    /// Reads all sectors of a read.
    #[default]
    Read,
    /// Reads sectors that the buffer lacks, from this one of the read on.
    Missing(u32),
    /// Runs a command that bypasses the buffer.
    Bypass,
    /// Flushes the drive for a flush from above.
    Flush,
    /// Reads the missing sectors of this eviction's cluster.
    Pad(u32),
    /// Writes sectors of this eviction's cluster.
    Run(u32),
    /// Flushes the drive before a stop.
    Stop,
    /// Flushes the drive for a group of flushes that may journal.
    GroupFlush,
    /// Writes a record of the journal.
    Append,
    /// Reads or writes the journal during the start.
    Start,
}

/// Command to the drive.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    op: u32,
    purpose: Purpose,
}

/// Step of work of the host's processor.
#[derive(Clone, Debug)]
enum Step {
    Begin(u32),
    Send(Command),
    Ended(Completion),
}

/// Progress of a stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stopping {
    #[default]
    No,
    Draining,
    Flushing,
    Stopped,
}

/// Counters of the cluster buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterBufferCounters {
    /// Writes taken into the buffer.
    pub writes: u64,
    /// Sectors of the writes taken into the buffer.
    pub written_sectors: u64,
    /// Writes, trims and writes of zeros that bypassed the buffer, whatever the reason.
    pub bypassed: u64,
    /// Clusters evicted.
    pub evictions: u64,
    /// Evictions of full clusters.
    pub full_evictions: u64,
    /// Writes of evictions to the drive.
    pub cluster_writes: u64,
    /// Sectors of the writes of evictions.
    pub cluster_sectors: u64,
    /// Reads of missing sectors of a cluster.
    pub padding_reads: u64,
    /// Sectors of the padding reads.
    pub padding_sectors: u64,
    /// Reads answered by the buffer alone.
    pub covered_reads: u64,
    /// Sectors that the buffer replaced in answers of the drive.
    pub overlaid_sectors: u64,
    /// Evictions that the drive refused.
    pub failed_evictions: u64,
    /// Sectors that the buffer held when the power was cut.
    pub lost_sectors: u64,
    /// Records written to the journal.
    pub journal_records: u64,
    /// Sectors of the records.
    pub journal_sectors: u64,
    /// Clusters with sectors in the records.
    pub journal_clusters: u64,
    /// Records that the drive refused.
    pub journal_failures: u64,
}

/// Cluster buffer layer. Clone it together with the drive below to fork the simulation.
#[derive(Clone, Debug)]
pub struct ClusterBuffer {
    config: ClusterBufferConfig,
    shape: Shape,
    image_bytes: usize,
    now: SimTime,
    table: Table,
    ops: Slab<Op>,
    parts: Slab<Part>,
    steps: Steps<Step>,
    /// Writes that wait for space, and commands that wait for evictions or bypasses, in order.
    waiting: VecDeque<u32>,
    /// Reads under way in the drive.
    reads: Vec<u32>,
    /// Commands that bypass the buffer.
    bypasses: Vec<Bypass>,
    /// Flushes that wait for evictions.
    flushes: VecDeque<u32>,
    evictions: Vec<Option<Eviction>>,
    journal: Option<Box<Journal>>,
    /// Logical clock: counts writes taken and arrivals of data on the drive.
    stamp: u64,
    /// Number of clusters that the drive refused.
    failed: u32,
    last_ask: SimTime,
    /// Idle time has found nothing left to evict since the last ask.
    rested: bool,
    /// Time at which the oldest cluster reaches its maximum age.
    aged_at: Option<SimTime>,
    stopping: Stopping,
    /// New writes bypass the buffer, which writes what it holds.
    paused: bool,
    /// Why the last pause did not end as it should.
    pause_failed: Option<&'static str>,
    /// Sectors whose writes bypass the buffer: in order, and apart.
    passes: Vec<Range<u64>>,
    buffers: Vec<Vec<u8>>,
    down: VecDeque<Command>,
    up: VecDeque<Completion>,
    counters: ClusterBufferCounters,
}

impl ClusterBuffer {
    /// Creates the layer for the block namespace that `interface` describes.
    ///
    /// # Errors
    /// The error names the reason and the allowed values.
    pub fn new(
        config: &ClusterBufferConfig,
        interface: Option<Interface>,
        image_bytes: usize,
    ) -> Result<ClusterBuffer, ClusterBufferError> {
        let shape = Shape::new(config, interface)?;
        Ok(ClusterBuffer {
            config: config.clone(),
            shape,
            image_bytes,
            now: SimTime::ZERO,
            table: Table::new(shape, image_bytes),
            ops: Slab::default(),
            parts: Slab::default(),
            steps: Steps::new(config.cpu.cores),
            waiting: VecDeque::new(),
            reads: Vec::new(),
            bypasses: Vec::new(),
            flushes: VecDeque::new(),
            journal: config
                .journal
                .zip(shape.journal)
                .map(|(asked, region)| Box::new(Journal::new(asked, region))),
            evictions: vec![None; config.evictions.clamp(1, u32::BITS) as usize],
            stamp: 0,
            failed: 0,
            last_ask: SimTime::ZERO,
            rested: true,
            aged_at: None,
            stopping: Stopping::No,
            paused: false,
            pause_failed: None,
            passes: joined(&config.bypass, shape.sectors)?,
            buffers: Vec::new(),
            down: VecDeque::new(),
            up: VecDeque::new(),
            counters: ClusterBufferCounters::default(),
        })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &ClusterBufferConfig {
        &self.config
    }

    /// Returns the counters.
    pub fn counters(&self) -> ClusterBufferCounters {
        self.counters
    }

    /// Returns the number of addressable sectors.
    pub fn capacity_sectors(&self) -> u64 {
        self.shape.sectors
    }

    /// Returns the maximum bytes of data in the buffer, which are the most that a power cut takes.
    pub fn window_bytes(&self) -> u64 {
        u64::from(self.shape.buffers) * u64::from(self.config.sector_bytes)
    }

    /// Returns the number of sectors in the buffer.
    pub fn held_sectors(&self) -> u32 {
        self.table.held()
    }

    /// Returns the sectors in the buffer.
    pub fn held(&self) -> impl Iterator<Item = Lba> {
        self.table.held_sectors().map(Lba)
    }

    /// Returns the bytes of host memory: data, tables, buffers of evictions and of reads that failed on the
    /// drive, and records.
    pub fn memory_bytes(&self) -> u64 {
        // A sector counts in full, even if only a stamp represents it.
        let nominal =
            |images: usize| (images / self.image_bytes) as u64 * u64::from(self.config.sector_bytes);
        let cluster = u64::from(self.shape.cluster_sectors) * u64::from(self.config.sector_bytes);
        let of_evictions = self.evictions.len() as u64 * cluster;
        let beyond: u64 = self.buffers.iter().map(|buffer| nominal(buffer.capacity())).sum();
        let record = self.shape.journal.zip(self.config.journal);
        let record =
            record.map_or(0, |(region, asked)| u64::from(region.largest) * u64::from(asked.unit_bytes));
        self.table.memory_bytes(self.config.sector_bytes)
            + record
            + self.journal.as_ref().map_or(0, |journal| journal.memory_bytes())
            + of_evictions.max(beyond)
            + self.ops.memory_bytes()
            + self.parts.memory_bytes()
    }

    /// Has all later writes bypass the buffer, writes what it holds, and empties the journal; [`ClusterBuffer::paused`] reports the
    /// end. Its guarantees stay: a flush still covers every write before it.
    pub fn pause(&mut self, now: SimTime) {
        self.now = now;
        (self.paused, self.pause_failed) = (true, None);
        self.retry_failed();
        self.go_on();
    }

    /// Takes writes into the buffer again.
    pub fn resume(&mut self) {
        self.paused = false;
    }

    /// Reports whether writes bypass the buffer.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Returns the outcome of [`ClusterBuffer::pause`] once it is known: the buffer is empty, or a sentence
    /// says what it still holds.
    pub fn paused(&self) -> Option<Result<(), String>> {
        if !self.paused {
            return Some(Err("the buffer was resumed before it was empty".into()));
        }
        if let Some(why) = self.pause_failed {
            return Some(Err(why.into()));
        }
        let waits = self.waiting.iter().any(|&op| self.ops[op].buffered);
        if waits
            || self.evictions.iter().any(Option::is_some)
            || self.table.used().count() > self.failed as usize
        {
            return None;
        }
        if self.failed == 0 {
            let is_clean = self.journal.as_ref().is_none_or(|journal| !journal.brings_back(0, u64::MAX));
            return is_clean.then_some(Ok(()));
        }
        let bytes = u64::from(self.table.held()) * u64::from(self.config.sector_bytes);
        Some(Err(format!(
            "the device refuses writes: {bytes} bytes stay in the buffer, where reads find them"
        )))
    }

    /// Returns the processor time spent so far.
    pub fn cpu_busy(&self) -> Nanos {
        self.steps.busy()
    }

    /// Checks the invariants; panics if one is broken.
    pub fn check(&self) {
        self.table.check();
        let evicting: Vec<u32> = self.evictions.iter().flatten().map(|eviction| eviction.slot).collect();
        let mut failed = 0;
        for (slot, cluster) in self.table.used() {
            let is = evicting.iter().filter(|&&other| other == slot).count();
            assert_eq!(is, usize::from(cluster.state == State::Evicting), "evictions of slot {slot}");
            failed += u32::from(cluster.state == State::Failed);
            let passed_by = self.bypasses.iter().any(|bypass| bypass.has(cluster.number));
            assert!(is == 0 || !passed_by, "cluster {} on two ways", cluster.number);
        }
        assert_eq!(failed, self.failed, "clusters that the drive refused");
        if let Some(journal) = &self.journal {
            journal.check(|cluster| self.table.has_journalled(cluster));
        }
        assert!(self.table.held() == 0 || self.stopping != Stopping::Stopped, "stopped, and not empty");
    }

    /// Returns the status of a command that is refused at submission.
    fn refuse(&self, command: &Command) -> Option<Status> {
        let images = command.sectors as usize * self.image_bytes;
        let good = match command.opcode {
            Opcode::Write => command.data.len() == images,
            Opcode::Read => command.data.is_empty() || command.data.len() == images,
            Opcode::Trim | Opcode::WriteZeroes => true,
            Opcode::Flush => return None,
            _ => return Some(Status::InvalidOpcode),
        };
        let inside =
            command.lba.0.checked_add(command.sectors.into()).is_some_and(|end| end <= self.shape.sectors);
        if !good || command.sectors == 0 || command.vector.is_some() {
            return Some(Status::InvalidField);
        }
        (!inside).then_some(Status::LbaOutOfRange)
    }

    fn do_step(&mut self, step: Step) {
        match step {
            Step::Begin(op) => self.begin(op),
            Step::Send(command) => self.down.push_back(command),
            Step::Ended(completion) => self.ended(completion),
        }
    }

    fn give(&mut self, cost: Nanos, step: Step) {
        if let Some(step) = self.steps.give(self.now, cost, step) {
            self.do_step(step);
        }
    }

    #[inline]
    fn begin(&mut self, op: u32) {
        if self.is_early(op) {
            return;
        }
        let Command { opcode, sectors, .. } = *self.command(op);
        match opcode {
            Opcode::Read => self.start_read(op),
            Opcode::Flush => self.start_flush(op),
            Opcode::Write if self.ops[op].buffered => {
                self.counters.writes += 1;
                self.counters.written_sectors += u64::from(sectors);
                self.stamp += 1;
                self.waiting.push_back(op);
            }
            _ => self.waiting.push_back(op),
        }
        self.go_on();
    }

    /// Starts all work that is possible now.
    fn go_on(&mut self) {
        self.decide_way();
        loop {
            self.admit();
            if !self.start_eviction() {
                break;
            }
        }
        self.flushes_go_on();
        self.stop_goes_on();
    }

    /// Sends a command to the drive.
    fn send(&mut self, op: u32, purpose: Purpose, cost: Nanos, command: Command) {
        let part = self.parts.insert(Part { op, purpose });
        let command = Command { tag: part.into(), namespace: self.config.namespace, ..command };
        self.give(self.config.cpu.command_ns + cost, Step::Send(command));
    }

    fn command(&self, op: u32) -> &Command {
        self.ops[op].command.as_ref().expect("a command under way")
    }

    fn ended(&mut self, completion: Completion) {
        let part = completion.tag as u32;
        let Part { op, purpose } = self.parts[part];
        self.parts.release(part);
        if op != NIL {
            self.ops[op].stages = completion.stages;
        }
        match purpose {
            Purpose::Read => self.read_ended(op, completion),
            Purpose::Missing(at) => self.missing_ended(op, at, completion),
            Purpose::Bypass => self.bypass_ended(op, completion),
            Purpose::Flush => self.finish(op, completion.status),
            Purpose::Pad(eviction) => self.padded(eviction, completion),
            Purpose::Run(eviction) => self.run_written(eviction, completion),
            Purpose::Stop => self.stop_flushed(completion.status),
            Purpose::GroupFlush => self.group_flushed(completion.status),
            Purpose::Append => self.append_ended(completion),
            Purpose::Start => self.start_goes_on(completion),
        }
        self.go_on();
    }

    fn buffer(&mut self, images: usize) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.resize(images * self.image_bytes, 0);
        buffer
    }

    fn give_back(&mut self, buffer: Vec<u8>) {
        if self.buffers.len() < self.evictions.len() {
            self.buffers.push(buffer);
        }
    }

    fn finish(&mut self, op: u32, status: Status) {
        self.finish_unmapped(op, status, 0);
    }

    fn finish_unmapped(&mut self, op: u32, status: Status, unmapped: u32) {
        let record = &mut self.ops[op];
        let command = record.command.take().expect("a command under way");
        let stages = record.stages.summing_to(self.now - record.submitted, Stage::Host);
        let ended = command.ended(status, record.submitted, self.now, stages);
        self.up.push_back(Completion { unmapped, ..ended });
        self.ops.release(op);
    }
}
