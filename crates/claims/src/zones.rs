//! B3: reads beside writes on zones, and on a block drive of the same media (ZNS).
//!
//! ```text
//!  writers:  a job is due ─► for each of its files, one or five: drawn ─► forgotten (reset, trim) ─► written, as fast as taken ─┐
//!        ▲──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//!  readers:  any sector of any file that no writer has, one after another
//! ```
//! Both drives get the same writers, readers, write sizes and byte rate. On the zoned drive a job writes one file. On a block drive it writes what a
//! compaction of the suite's store does: files of 128 MiB, one of a level and four adjacent ones of the next, four times larger level that it
//! overlaps. What differs is the drive: a zone is a file's own blocks, while a page map puts everything that arrives together into the same blocks,
//! and must collect them.
//!
//! The host follows the publication (its authors' benchmark suite, zbdbench, `usenix_atc_2021_zns_eval`): a key-value store with 32 reading threads
//! and up to 8 that write files, each as fast as the drive accepts them. A rate limit applies to users' writes, and so to how often a job is due. The
//! drive here has an eighth of the dies, so an eighth of the readers and of the bytes in flight from writers.

use super::bench::{Bench, ReproduceError};
use super::{Check, Figure, Limit, Outcome};
use pellucid_device::Device;
use pellucid_flash::{
    Command, Drive, Interface, Lba, Nanos, Opcode, Rng, SimTime, Status, ZoneAction, ZoneOp,
};
use pellucid_lab::drive::{RunError, fill_images};
use pellucid_lab::experiment::prepare;
use pellucid_report::plot::{Axis, Plot, Unit};
use pellucid_report::{Latency, LatencyRecorder};
use pellucid_spec::Spec;

/// Over-provisioning of the block drives.
const BLOCK_DRIVES: [f64; 2] = [0.07, 0.28];
/// Byte rates at which jobs are due: 7 to 30 % of what the dies can program, and unlimited.
const RATES: [Option<u64>; 5] =
    [Some(50_000_000), Some(100_000_000), Some(150_000_000), Some(200_000_000), None];
/// Factor by which the percentile is lower on zones.
const RANGE: Limit = Limit::Between(2.0, 4.0);
/// A drive keeps the pace if it accepts this share of the demand.
const PACE: f64 = 0.98;
/// An eighth of 32.
const READERS: u32 = 4;
/// At most four writes of 256 KiB are in flight, an eighth of eight of 1 MiB (RocksDB's default).
const WRITERS: usize = 4;
const WRITE_BYTES: u32 = 256 << 10;
/// Mean number of writes of each file before the measurement.
const WARM_UP_ROUNDS: u64 = 1;
/// Share of the files that is first written at the measured rate, to drain the buffer that the warm-up has filled.
const SETTLING_SHARE: u64 = 24;
/// Share of the files that is written during the measurement.
const MEASURED_SHARE: u64 = 6;
/// Number of the block drive's files that equal a zone (1,077 MiB): the suite's are 128 MiB.
const FILES_OF_ZONE: u64 = 8;
/// Adjacent files of a job on the block drive; one more lies elsewhere (the suite's `max_bytes_for_level_multiplier`).
const NEIGHBOURS: u64 = 4;
const READ: u64 = WRITERS as u64;

/// The files of a host: each a zone, or a run of sectors of a block drive.
#[derive(Clone, Debug)]
struct Files {
    zoned: bool,
    count: u64,
    /// Sectors from the start of one file to the start of the next.
    stride: u64,
    sectors: u64,
    /// Files that a job writes in sequence.
    of_job: u64,
}

/// One file being written.
#[derive(Clone, Copy, Debug)]
struct Writer {
    file: u64,
    /// Sectors written so far.
    at: u64,
    forgotten: bool,
    busy: bool,
    /// Remaining files of the job.
    left: u64,
}

/// A drive, its readers and its writers.
#[derive(Clone, Debug)]
struct Host {
    device: Device,
    files: Files,
    rng: Rng,
    writers: [Writer; WRITERS],
    reading: u32,
    version: u32,
    written: u64,
    recorder: LatencyRecorder,
}

impl Host {
    fn new(device: Device, files: Files, seed: u64) -> Host {
        let writer = |file| Writer { file, at: 0, forgotten: false, busy: false, left: 0 };
        Host {
            device,
            files,
            rng: Rng::stream(seed, "zones"),
            writers: [0, 1, 2, 3].map(writer),
            reading: 0,
            version: 0,
            written: 0,
            recorder: LatencyRecorder::new(),
        }
    }

    fn begin_of(&self, file: u64) -> Lba {
        Lba(file * self.files.stride)
    }

    fn idle_file(&mut self) -> u64 {
        loop {
            let file = self.rng.below(self.files.count);
            if self.writers.iter().all(|writer| writer.file != file) {
                return file;
            }
        }
    }

    /// Moves a writer to the next file of its job, or to a new job.
    fn next_file(&mut self, number: usize) {
        let Writer { file, left, .. } = self.writers[number];
        let left = left.checked_sub(1).unwrap_or(self.files.of_job - 1);
        let next = (file + 1) % self.files.count;
        // The first file lies elsewhere; the second starts the adjacent ones.
        let beside = left + 2 < self.files.of_job && self.writers.iter().all(|writer| writer.file != next);
        let file = if beside { next } else { self.idle_file() };
        self.writers[number] = Writer { file, at: 0, forgotten: false, busy: false, left };
    }

    /// Submits the next command of a writer.
    fn write(&mut self, now: SimTime, number: usize) {
        if self.writers[number].at == self.files.sectors {
            self.next_file(number);
        }
        let Writer { file, at, forgotten, .. } = self.writers[number];
        let begin = self.begin_of(file);
        self.writers[number].busy = true;
        if !forgotten {
            self.writers[number].forgotten = true;
            let (opcode, sectors) = match self.files.zoned {
                true => (Opcode::Zone(ZoneOp::Change(ZoneAction::Reset)), 0),
                false => (Opcode::Trim, self.files.sectors as u32),
            };
            self.device.submit(now, Command::new(number as u64, opcode, begin, sectors, Vec::new()));
            return;
        }
        let (image, length) = (self.device.image_bytes(), self.length().min(self.files.sectors - at));
        let lba = Lba(begin.0 + at);
        let mut data = vec![0; length as usize * image];
        self.version += 1;
        fill_images(&mut data, image, lba, self.version);
        self.device.submit(now, Command::new(number as u64, Opcode::Write, lba, length as u32, data));
        self.writers[number].at += length;
        self.written += length;
    }

    /// Total sectors of all files.
    fn round(&self) -> u64 {
        self.files.count * self.files.sectors
    }

    /// Sectors of one write.
    fn length(&self) -> u64 {
        u64::from(WRITE_BYTES / self.device.layout().sector_bytes)
    }

    fn read(&mut self, now: SimTime) {
        let file = self.idle_file();
        let lba = Lba(self.begin_of(file).0 + self.rng.below(self.files.sectors));
        self.device.submit(now, Command::new(READ, Opcode::Read, lba, 1, Vec::new()));
        self.reading += 1;
    }

    /// Handles completed commands.
    fn take_ended(&mut self) -> Result<(), RunError> {
        while let Some(completion) = self.device.pop() {
            if completion.status != Status::Success {
                let message = format!("{:?} ended with {:?}", completion.opcode, completion.status);
                return Err(RunError::Host(message));
            }
            if completion.tag == READ {
                self.reading -= 1;
                self.recorder.record(completion.completed - completion.submitted);
            } else {
                self.writers[completion.tag as usize].busy = false;
            }
        }
        Ok(())
    }

    /// Writes every file once, in order.
    fn fill(&mut self) -> Result<(), RunError> {
        for file in 0..self.files.count {
            self.writers[0] = Writer { file, at: 0, forgotten: true, busy: false, left: 0 };
            while self.writers[0].at < self.files.sectors {
                self.write(self.device.now(), 0);
                while self.writers[0].busy {
                    self.step(None, SimTime(u64::MAX))?;
                }
            }
        }
        for (number, writer) in self.writers.iter_mut().enumerate() {
            *writer =
                Writer { file: number as u64, at: self.files.sectors, forgotten: true, busy: false, left: 0 };
        }
        Ok(())
    }

    /// Advances to the next event, or to the time a job is due; then, before `limit`, until a command completes.
    fn step(&mut self, due: Option<SimTime>, limit: SimTime) -> Result<SimTime, RunError> {
        let next = self.device.next_event().into_iter().chain(due).min();
        let next = next.ok_or_else(|| RunError::Host("the drive does not answer".into()))?;
        let now = self.device.advance_to_completion(next, limit.min(due.unwrap_or(limit)));
        self.take_ended()?;
        Ok(now)
    }

    /// Writes `sectors` while `readers` read. Jobs are due every `pace` nanoseconds; 0: back to back.
    fn work(&mut self, sectors: u64, readers: u32, pace: f64) -> Result<(), RunError> {
        let (start, mut now, mut begun) = (self.device.now(), self.device.now(), 0u64);
        let until = self.written + sectors;
        while self.written < until {
            let due = |begun: u64| start + Nanos((pace * begun as f64) as u64);
            for number in 0..WRITERS {
                let Writer { at, busy, left, .. } = self.writers[number];
                let ended = at == self.files.sectors && left == 0;
                if !busy && (!ended || due(begun) <= now) {
                    self.write(now, number);
                    begun += u64::from(ended);
                }
            }
            while self.reading < readers {
                self.read(now);
            }
            let waits = self.writers.iter().any(|writer| !writer.busy);
            // The measurement ends with the event after the arrival of the last write.
            let limit = if self.written < until { SimTime(u64::MAX) } else { now };
            now = self.step(waits.then(|| due(begun)), limit)?;
        }
        Ok(())
    }
}

/// Differences of B3's drive from the preset: full-size blocks, the controller and the uniform media beside which `scheduler.suspensions` was fitted
/// to measurements of two drives (docs/explanation/papers/beyond.md). The controller is that of another drive of the class.
const CONTROLLER: [&str; 13] = [
    "media.pages=1152",
    "media.timing.erase=4.5ms",
    "media.independent_plane_reads=false",
    "media.timing.read=[\"50us\", \"50us\", \"50us\"]",
    "media.variation.layer=0",
    "media.variation.block=0",
    "media.retry.enabled=false",
    "firmware.fetch.fixed=0",
    "firmware.issue.fixed=0",
    "firmware.complete.fixed=0",
    "host.fetch=800ns",
    "host.complete=500ns",
    "scheduler.decode=3us",
];

/// Four of the preset's 32 dies, so that a round over all files is short. Blocks are as large as the preset's, so that reads meet erases as often.
/// There are three times as many, as the one or two blocks that a die keeps free for GC weigh less the more it has; a die of 64 GB has 900.
fn drive(bench: &Bench, over_provisioning: Option<f64>) -> Result<Spec, ReproduceError> {
    let mut own: Vec<String> = ["media.channels=2", "media.ways=2", "media.blocks=288"]
        .into_iter()
        .chain(CONTROLLER)
        .map(String::from)
        .collect();
    if let Some(share) = over_provisioning {
        own.push("drive.namespace=[]".into());
        own.push(format!("ftl.over_provisioning={share:?}"));
    }
    bench.preset("zoned", &own)
}

/// A drive that was overwritten repeatedly; the same at every rate.
fn aged(bench: &Bench, over_provisioning: Option<f64>) -> Result<Host, ReproduceError> {
    let zones = prepare(&drive(bench, None)?, None)?;
    let Some(Interface::Zoned(geometry)) = Drive::interface(&zones, 0) else {
        return Err(RunError::Host("namespace 0 has no zones".into()).into());
    };
    let sectors = geometry.capacity_sectors;
    let (device, files) = match over_provisioning {
        None => {
            let stride = geometry.zone_sectors;
            (zones, Files { zoned: true, count: geometry.zones.into(), stride, sectors, of_job: 1 })
        }
        Some(_) => {
            let block = prepare(&drive(bench, over_provisioning)?, None)?;
            let sectors = sectors / FILES_OF_ZONE;
            let count = block.namespace(0).capacity_sectors() / sectors;
            (block, Files { zoned: false, count, stride: sectors, sectors, of_job: 1 + NEIGHBOURS })
        }
    };
    let mut host = Host::new(device, files, bench.seed());
    host.fill()?;
    host.work(WARM_UP_ROUNDS * host.round(), 0, 0.0)?;
    Ok(host)
}

/// Measures the host of an aged drive while jobs are due at `rate`, or continuously.
fn point(mut host: Host, rate: Option<u64>) -> Result<Point, RunError> {
    let sector_bytes = u64::from(host.device.layout().sector_bytes);
    let pace = rate.map_or(0.0, |rate| {
        (host.files.of_job * host.files.sectors * sector_bytes) as f64 * 1e9 / rate as f64
    });
    host.work(host.round() / SETTLING_SHARE, READERS, pace)?;
    host.recorder = LatencyRecorder::new();
    let before = host.device.counters();
    let (written, start) = (host.written, host.device.now());
    host.work(host.round() / MEASURED_SHARE, READERS, pace)?;
    let bytes = (host.written - written) * sector_bytes;
    let rate = bytes as f64 * 1e9 / (host.device.now() - start).0 as f64;
    let after = host.device.counters();
    let programmed = |counters: &pellucid_device::Counters| counters.programmed_sectors.iter().sum::<u64>();
    let amplification = (programmed(&after) - programmed(&before)) as f64 / (host.written - written) as f64;
    Ok(Point { read: host.recorder.summary(), rate, amplification })
}

struct Point {
    read: Latency,
    /// Bytes written per second.
    rate: f64,
    amplification: f64,
}

pub(super) fn tail(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let drives: Vec<Option<f64>> = [None].into_iter().chain(BLOCK_DRIVES.map(Some)).collect();
    let hosts = bench.map(&drives, |&drive| aged(bench, drive))?;
    let numbers: Vec<(usize, Option<u64>)> =
        (0..drives.len()).flat_map(|drive| RATES.map(|rate| (drive, rate))).collect();
    let measured = bench.map(&numbers, |&(drive, rate)| Ok(point(hosts[drive].clone(), rate)?))?;
    let (zones, blocks) = measured.split_at(RATES.len());
    let mut checks = vec![Check::bound(
        "zones, write amplification, largest",
        Unit::Plain,
        zones.iter().map(|point| point.amplification).fold(0.0, f64::max),
        Limit::AtMost(1.01),
    )];
    for (point, rate) in zones.iter().zip(RATES) {
        let what = format!("zones, {}: p99.9 of reads", asked(rate));
        checks.push(Check::shown(what, Unit::Nanos, None, tail_of(point)));
    }
    for (share, points) in BLOCK_DRIVES.iter().zip(blocks.chunks(RATES.len())) {
        let name = format!("block drive, {:.0} % over-provisioning", share * 100.0);
        let mut ratios = Vec::new();
        for ((block, zones), rate) in points.iter().zip(zones).zip(RATES) {
            let ratio = tail_of(block) / tail_of(zones);
            let what = format!(
                "{name}, {}, {:.0} and {:.0} written, amplification {:.2}: p99.9 of reads / zones",
                asked(rate),
                block.rate / 1e6,
                zones.rate / 1e6,
                block.amplification
            );
            let limit = if rate.is_some() { Limit::AtLeast(1.0) } else { RANGE };
            checks.push(Check::bound(what, Unit::Plain, ratio, limit));
            let keeps_pace = |point: &Point| rate.is_some_and(|rate| point.rate >= PACE * rate as f64);
            ratios.extend((keeps_pace(block) && keeps_pace(zones)).then_some(ratio));
        }
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let what = format!("{name}, p99.9 of reads / zones, geometric mean where both keep the pace");
        checks.push(Check::bound(what, Unit::Plain, mean, RANGE));
    }
    Ok(Outcome { checks, figures: vec![figure(&drives, &measured)] })
}

fn asked(rate: Option<u64>) -> String {
    rate.map_or("no limit".to_string(), |rate| format!("{} MB/s asked", rate / 1_000_000))
}

fn tail_of(point: &Point) -> f64 {
    point.read.p99_9_ns.map_or(f64::NAN, |ns| ns as f64)
}

fn figure(drives: &[Option<f64>], measured: &[Point]) -> Figure {
    let mut plot = Plot::new("4 KiB random reads beside writers of whole files")
        .x_axis(Axis::linear("written", Unit::BytesPerSecond).from(0.0))
        .y_axis(Axis::log("99.9th percentile of reads", Unit::Nanos));
    for (drive, measured) in drives.iter().zip(measured.chunks(RATES.len())) {
        let name = match drive {
            None => "zones, 0 %".to_string(),
            Some(share) => format!("block drive, {:.0} %", share * 100.0),
        };
        plot = plot.line(&name, measured.iter().map(|point| (point.rate, tail_of(point))).collect());
    }
    let caption = "Four reads outstanding; four writers, each with one write of 256 KiB outstanding at most. The last points: no limit.";
    Figure { caption: caption.into(), svg: plot.to_svg() }
}
