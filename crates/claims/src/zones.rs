//! B3: reads beside writes on zones, and on a block drive of the same media (ZNS).
//!
//! ```text
//!  writers:  a job is due ─► for each of its files, one or five: drawn ─► forgotten (reset, trim) ─► written, as fast as taken ─┐
//!        ▲──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//!  readers:  any sector of any file that no writer has, one after another
//! ```
//! Both drives get the same writers, readers, sizes of writes and pace in bytes. To the zoned drive a job brings one file. To a block
//! drive it brings what a compaction of the suite's store does: files of 128 MiB, one for a file of a level and four for those of the
//! next, four times larger level that it overlaps, which lie side by side. What differs is the drive: a zone is a file's own blocks,
//! while a page map puts what the writers bring together into the same blocks, and must collect them.
//!
//! The host is that of the publication (its authors' benchmark suite, zbdbench, `usenix_atc_2021_zns_eval`): a key-value store with
//! 32 threads that read and up to 8 that write files, each of which brings files as fast as the drive takes them; a limit, where
//! there is one, is on what users write, so on how often a job is due. The drive here has an eighth of the dies, so an eighth of
//! the readers, and of the bytes that writers have under way.

use super::bench::{Bench, ReproduceError};
use super::{Check, Figure, Limit, Outcome, vary};
use pellucid_device::Device;
use pellucid_flash::{
    Command, Drive, Interface, Lba, Nanos, Opcode, Rng, SimTime, Status, ZoneAction, ZoneOp,
};
use pellucid_lab::drive::{RunError, fill_images};
use pellucid_lab::experiment::prepare;
use pellucid_report::plot::{Axis, Plot, Unit};
use pellucid_report::{Latency, LatencyRecorder};
use pellucid_spec::Spec;
use std::collections::VecDeque;
use std::ops::Range;

/// Over-provisioning of the block drives.
const BLOCK_DRIVES: [f64; 2] = [0.07, 0.28];
/// Bytes in a second by which jobs are due: 7 to 30 % of what the dies can program, and without a limit.
const RATES: [Option<u64>; 5] =
    [Some(50_000_000), Some(100_000_000), Some(150_000_000), Some(200_000_000), None];
/// How many times lower the percentile is on zones.
const RANGE: Limit = Limit::Between(2.0, 4.0);
/// A drive keeps the pace if it takes this share of what is asked.
const PACE: f64 = 0.98;
/// An eighth of 32.
const READERS: u32 = 4;
/// Four writes of 256 KiB are under way at most, an eighth of eight of 1 MiB (what RocksDB hands out at once by default).
const WRITERS: usize = 4;
const WRITE_BYTES: u32 = 256 << 10;
/// Every file is written this many times on average before the measurement. The suite overwrites its store once, which its levels make some fifteen; behind
/// three a drive's write amplification hardly changes any more.
const WARM_UP_ROUNDS: u64 = 3;
/// Share of the files that is written at the measured pace first: the buffer that the warm-up has filled must drain.
const SETTLING_SHARE: u64 = 24;
/// Share of the files that is written during the measurement.
const MEASURED_SHARE: u64 = 6;
/// Levels of the store that hold files, each four times as large as the one before (the suite's `max_bytes_for_level_multiplier`). Its first has 4 GB
/// (`max_bytes_for_level_base`) of some 1.4 TB, so there are five.
const LEVELS: u32 = 5;
/// Times that a level is larger than the one before.
const LEVEL_FACTOR: u64 = 4;
/// Files of a job on the block drive that lie side by side; one more lies elsewhere (the suite's `max_bytes_for_level_multiplier`).
const NEIGHBOURS: u64 = LEVEL_FACTOR;
const READ: u64 = WRITERS as u64;

/// Settings that the publication does not give and that decide how much the block drives collect, within what its suite and RocksDB's defaults leave open.
/// Argued for, with sources, before it was run: docs/explanation/papers/beyond.md.
#[derive(Clone, Copy, Debug)]
struct Assumed {
    /// Files of a block drive that are as large as a zone (1,077 MiB).
    files_of_zone: u64,
    /// Which files die together.
    by_levels: bool,
    /// The file system tells the drive what is free.
    trims: bool,
    /// Share of the file system that the store leaves free, on [`BLOCK_DRIVES`].
    free: [f64; 2],
    /// Overrides of all drives.
    sets: &'static [&'static str],
}

/// An eighth of the preset's buffer, as of its dies.
const EIGHTH_OF_BUFFER: &[&str] = &["buffer.entries=2048"];
const ASSUMED: Assumed =
    Assumed { files_of_zone: 64, by_levels: true, trims: false, free: [0.20, 0.05], sets: EIGHTH_OF_BUFFER };
const UNKNOWN: (&str, &str) = (
    "which files die together (levels of the store, or any), what the file system tells the drive (XFS as the suite mounts it, nothing; f2fs, what is free), how \
     full it is, how long files are (64 or 128 MiB), buffer and media of the drive",
    "levels, XFS, 128 MiB, 80 and 95 % full, an eighth of the preset's buffer",
);
const VARIED: [(&str, Assumed); 7] = [
    ("f2fs, which discards", Assumed { trims: true, ..ASSUMED }),
    ("98 % full", Assumed { free: [0.02, 0.02], ..ASSUMED }),
    ("90 % full", Assumed { free: [0.10, 0.10], ..ASSUMED }),
    ("any files, and four side by side", Assumed { by_levels: false, ..ASSUMED }),
    ("files of 64 MiB", Assumed { files_of_zone: 128, ..ASSUMED }),
    ("the preset's buffer", Assumed { sets: &[], ..ASSUMED }),
    (
        "programs of two planes in 1,720 us, as in CLUSTER 2023's fit",
        Assumed {
            sets: &[
                "buffer.entries=2048",
                "media.planes=2",
                "media.blocks=576",
                "media.timing.program=[\"1720us\"]",
            ],
            ..ASSUMED
        },
    ),
];

/// The files of a host: each a zone, or a run of sectors of a block drive.
#[derive(Clone, Debug)]
struct Files {
    zoned: bool,
    /// From one place's begin to the next.
    stride: u64,
    sectors: u64,
    /// Files that a job writes, one after another.
    of_job: u64,
    /// Where each file lies, and places without a file, the one that is used next first.
    places: Vec<u64>,
    free: VecDeque<u64>,
    /// Freed places are discarded.
    trims: bool,
    /// Numbers of the files of each level; one: all files.
    levels: Vec<Range<u64>>,
}

impl Files {
    fn new(zoned: bool, stride: u64, sectors: u64, places: u64, free: u64) -> Files {
        let count = places - free;
        Files {
            zoned,
            stride,
            sectors,
            of_job: 1,
            places: (0..count).collect(),
            free: (count..places).collect(),
            trims: true,
            levels: vec![0..count],
        }
    }

    /// Files of a store with levels, the smallest first.
    fn by_levels(self) -> Files {
        let count = self.count();
        let parts = (LEVEL_FACTOR.pow(LEVELS) - 1) / (LEVEL_FACTOR - 1);
        let end = |level: u32| (LEVEL_FACTOR.pow(level) - 1) / (LEVEL_FACTOR - 1) * count / parts;
        Files { levels: (0..LEVELS).map(|level| end(level)..end(level + 1)).collect(), ..self }
    }

    fn count(&self) -> u64 {
        self.places.len() as u64
    }

    fn begin_of(&self, file: u64) -> Lba {
        Lba(self.places[file as usize] * self.stride)
    }

    /// Gives a file a new place, if one is free. Returns what is to be forgotten: the old place, or nothing that the drive is told of.
    fn replace(&mut self, file: u64) -> Option<Lba> {
        let old = self.begin_of(file);
        if let Some(place) = self.free.pop_front() {
            let old = std::mem::replace(&mut self.places[file as usize], place);
            self.free.push_back(old);
        }
        self.trims.then_some(old)
    }
}

/// One file being written.
#[derive(Clone, Debug)]
struct Writer {
    file: u64,
    /// Sectors written so far.
    at: u64,
    /// The place that the file had, if the drive is to be told that it is free.
    forgets: Option<Lba>,
    busy: bool,
    /// Files of the job that come after this one.
    left: u64,
    /// Files among which the others of the job are.
    next: Range<u64>,
}

impl Writer {
    /// A writer of this file that has written all of it.
    fn idle(file: u64, sectors: u64) -> Writer {
        Writer { file, at: sectors, forgets: None, busy: false, left: 0, next: 0..1 }
    }
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
        let writer = |file| Writer::idle(file, files.sectors);
        Host {
            device,
            writers: [0, 1, 2, 3].map(writer),
            files,
            rng: Rng::stream(seed, "zones"),
            reading: 0,
            version: 0,
            written: 0,
            recorder: LatencyRecorder::new(),
        }
    }

    /// A file of these that nobody writes.
    fn idle_file(&mut self, files: &Range<u64>) -> u64 {
        loop {
            let file = files.start + self.rng.below(files.end - files.start);
            if self.writers.iter().all(|writer| writer.file != file) {
                return file;
            }
        }
    }

    /// A writer goes on to the next file of its job, or begins a job: with a file of a level, and others of the next level.
    fn next_file(&mut self, number: usize) {
        let Writer { file, left, ref next, .. } = self.writers[number];
        let (file, left, next) = match left.checked_sub(1) {
            None => {
                let levels = self.files.levels.len();
                let level = self.rng.below((levels as u64 - 1).max(1)) as usize;
                let (first, next) =
                    (&self.files.levels[level], &self.files.levels[(level + 1).min(levels - 1)]);
                let (first, next) = (first.clone(), next.clone());
                (self.idle_file(&first), self.files.of_job - 1, next)
            }
            Some(left) => {
                let next = next.clone();
                let beside = if file + 1 < next.end { file + 1 } else { next.start };
                // The first lies elsewhere, and the second is where the others begin.
                let is_beside =
                    left + 2 < self.files.of_job && self.writers.iter().all(|writer| writer.file != beside);
                (if is_beside { beside } else { self.idle_file(&next) }, left, next)
            }
        };
        let forgets = self.files.replace(file);
        self.writers[number] = Writer { file, at: 0, forgets, busy: false, left, next };
    }

    /// The next command of a writer.
    fn write(&mut self, now: SimTime, number: usize) {
        if self.writers[number].at == self.files.sectors {
            self.next_file(number);
        }
        let Writer { file, at, .. } = self.writers[number];
        self.writers[number].busy = true;
        if let Some(begin) = self.writers[number].forgets.take() {
            let (opcode, sectors) = match self.files.zoned {
                true => (Opcode::Zone(ZoneOp::Change(ZoneAction::Reset)), 0),
                false => (Opcode::Trim, self.files.sectors as u32),
            };
            self.device.submit(now, Command::new(number as u64, opcode, begin, sectors, Vec::new()));
            return;
        }
        let (image, length) = (self.device.image_bytes(), self.length().min(self.files.sectors - at));
        let lba = Lba(self.files.begin_of(file).0 + at);
        let mut data = vec![0; length as usize * image];
        self.version += 1;
        fill_images(&mut data, image, lba, self.version);
        self.device.submit(now, Command::new(number as u64, Opcode::Write, lba, length as u32, data));
        self.writers[number].at += length;
        self.written += length;
    }

    /// Sectors of all files.
    fn round(&self) -> u64 {
        self.files.count() * self.files.sectors
    }

    /// Sectors of a write.
    fn length(&self) -> u64 {
        u64::from(WRITE_BYTES / self.device.layout().sector_bytes)
    }

    fn read(&mut self, now: SimTime) {
        let file = self.idle_file(&(0..self.files.count()));
        let lba = Lba(self.files.begin_of(file).0 + self.rng.below(self.files.sectors));
        self.device.submit(now, Command::new(READ, Opcode::Read, lba, 1, Vec::new()));
        self.reading += 1;
    }

    /// Takes the commands that have ended.
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

    /// Writes every file once, in order; and places without a file before, unless the drive is told that they are free.
    fn fill(&mut self) -> Result<(), RunError> {
        let stale = if self.files.trims { VecDeque::new() } else { self.files.free.clone() };
        // The first file lies in each of the free places for a time.
        let stale = stale.into_iter().map(|place| (0, place));
        for (file, place) in stale.chain((0..self.files.count()).map(|file| (file, file))) {
            self.files.places[file as usize] = place;
            self.writers[0] = Writer::idle(file, 0);
            while self.writers[0].at < self.files.sectors {
                self.write(self.device.now(), 0);
                while self.writers[0].busy {
                    self.step(None, SimTime(u64::MAX))?;
                }
            }
        }
        self.writers = [0, 1, 2, 3].map(|file| Writer::idle(file, self.files.sectors));
        Ok(())
    }

    /// Goes on to the next event, or to when a job is due; and from there, as long as it is before `limit`, until something ends.
    fn step(&mut self, due: Option<SimTime>, limit: SimTime) -> Result<SimTime, RunError> {
        let next = self.device.next_event().into_iter().chain(due).min();
        let next = next.ok_or_else(|| RunError::Host("the drive does not answer".into()))?;
        let now = self.device.advance_to_completion(next, limit.min(due.unwrap_or(limit)));
        self.take_ended()?;
        Ok(now)
    }

    /// Writes `sectors` beside `readers`. Jobs are due every `pace` nanoseconds; 0: one after another.
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
            // What is measured ends with the event after the last write came.
            let limit = if self.written < until { SimTime(u64::MAX) } else { now };
            now = self.step(waits.then(|| due(begun)), limit)?;
        }
        Ok(())
    }
}

/// Differences of B3's drive to the preset: blocks of full size, and the controller and the even media beside which `scheduler.suspensions` was
/// fitted to measurements of two drives (docs/explanation/papers/beyond.md). It is that of another drive of the class.
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

/// Four of the preset's 32 dies, so that a round over all files is short. Blocks are as large as the preset's: reads meet erases as
/// often. There are three times as many, as the block or two that a die keeps free for GC weigh less the more it has; a
/// die of 64 GB has 900.
fn drive(bench: &Bench, over_provisioning: Option<f64>, assumed: &Assumed) -> Result<Spec, ReproduceError> {
    let mut own: Vec<String> = ["media.channels=2", "media.ways=2", "media.blocks=288"]
        .into_iter()
        .chain(CONTROLLER)
        .chain(assumed.sets.iter().copied())
        .map(String::from)
        .collect();
    if let Some(share) = over_provisioning {
        own.push("drive.namespace=[]".into());
        own.push(format!("ftl.over_provisioning={share:?}"));
    }
    bench.preset("zoned", &own)
}

/// A drive that has been written over and over, which is the same at every rate; `None`: the zoned one.
fn aged(bench: &Bench, which: Option<usize>, assumed: &Assumed) -> Result<Host, ReproduceError> {
    let zones = prepare(&drive(bench, None, assumed)?, None)?;
    let Some(Interface::Zoned(geometry)) = Drive::interface(&zones, 0) else {
        return Err(RunError::Host("namespace 0 has no zones".into()).into());
    };
    let sectors = geometry.capacity_sectors;
    let (device, files) = match which {
        None => (zones, Files::new(true, geometry.zone_sectors, sectors, geometry.zones.into(), 0)),
        Some(which) => {
            let block = prepare(&drive(bench, Some(BLOCK_DRIVES[which]), assumed)?, None)?;
            let sectors = sectors / assumed.files_of_zone;
            let places = block.namespace(0).capacity_sectors() / sectors;
            let free = (places as f64 * assumed.free[which]) as u64;
            let files = Files::new(false, sectors, sectors, places, free);
            let files = if assumed.by_levels { files.by_levels() } else { files };
            (block, Files { of_job: 1 + NEIGHBOURS, trims: assumed.trims, ..files })
        }
    };
    let mut host = Host::new(device, files, bench.seed());
    host.fill()?;
    host.work(WARM_UP_ROUNDS * host.round(), 0, 0.0)?;
    Ok(host)
}

/// Measures the host of an aged drive while jobs are due at `rate`, or always.
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
    /// Bytes that were written in a second.
    rate: f64,
    amplification: f64,
}

/// B3.
pub(super) fn tail(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let measured = measure(bench, &ASSUMED)?;
    let mut checks = checks(&measured);
    vary(bench, &mut checks, UNKNOWN, &VARIED, |assumed| Ok(self::checks(&measure(bench, assumed)?)))?;
    Ok(Outcome { checks, figures: vec![figure(&measured)] })
}

/// Every drive at every rate: first the zoned one.
const DRIVES: [Option<usize>; 3] = [None, Some(0), Some(1)];

fn measure(bench: &Bench, assumed: &Assumed) -> Result<Vec<Point>, ReproduceError> {
    let hosts = bench.map(&DRIVES, |&drive| aged(bench, drive, assumed))?;
    let numbers: Vec<(usize, Option<u64>)> =
        (0..DRIVES.len()).flat_map(|drive| RATES.map(|rate| (drive, rate))).collect();
    bench.map(&numbers, |&(drive, rate)| Ok(point(hosts[drive].clone(), rate)?))
}

fn checks(measured: &[Point]) -> Vec<Check> {
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
        let mut shown = Vec::new();
        for ((block, zones), rate) in points.iter().zip(zones).zip(RATES) {
            let ratio = tail_of(block) / tail_of(zones);
            let what = format!("{name}, {}: p99.9 of reads / zones", asked(rate));
            let limit = if rate.is_some() { Limit::AtLeast(1.0) } else { RANGE };
            checks.push(Check::bound(what, Unit::Plain, ratio, limit).even_at(1.0));
            let what = format!(
                "{name}, {}: {:.0} MB/s written, zones {:.0}; amplification",
                asked(rate),
                block.rate / 1e6,
                zones.rate / 1e6
            );
            shown.push(Check::shown(what, Unit::Plain, None, block.amplification));
            let keeps_pace = |point: &Point| rate.is_some_and(|rate| point.rate >= PACE * rate as f64);
            ratios.extend((keeps_pace(block) && keeps_pace(zones)).then_some(ratio));
        }
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let what = format!("{name}, p99.9 of reads / zones, geometric mean where both keep the pace");
        checks.push(Check::bound(what, Unit::Plain, mean, RANGE).even_at(1.0));
        checks.extend(shown);
    }
    checks
}

fn asked(rate: Option<u64>) -> String {
    rate.map_or("no limit".to_string(), |rate| format!("{} MB/s asked", rate / 1_000_000))
}

fn tail_of(point: &Point) -> f64 {
    point.read.p99_9_ns.map_or(f64::NAN, |ns| ns as f64)
}

fn figure(measured: &[Point]) -> Figure {
    let mut plot = Plot::new("4 KiB random reads beside writers of whole files")
        .x_axis(Axis::linear("written", Unit::BytesPerSecond).from(0.0))
        .y_axis(Axis::log("99.9th percentile of reads", Unit::Nanos));
    for (drive, measured) in DRIVES.iter().zip(measured.chunks(RATES.len())) {
        let name = match drive {
            None => "zones, 0 %".to_string(),
            Some(which) => format!("block drive, {:.0} %", BLOCK_DRIVES[*which] * 100.0),
        };
        plot = plot.line(&name, measured.iter().map(|point| (point.rate, tail_of(point))).collect());
    }
    let caption = "Four reads outstanding; four writers, each with one write of 256 KiB outstanding at most. The last points: no limit.";
    Figure { caption: caption.into(), svg: plot.to_svg() }
}
