//! L1: reads beside writes on parallel units of their own, and on a block drive that mixes them (LightNVM, Fig. 3).

use super::bench::{Bench, ReproduceError};
use super::{Check, Figure, Limit, Outcome};
use pellucid_device::Device;
use pellucid_flash::{
    ChunkAddress, ChunkGeometry, Command, Drive, Interface, Lba, Nanos, Opcode, Rng, SimTime, Status,
};
use pellucid_lab::drive::{RunError, fill_images};
use pellucid_lab::experiment::prepare;
use pellucid_report::plot::{Axis, Plot, Unit};
use pellucid_report::{Latency, LatencyRecorder};
use pellucid_spec::Spec;

/// Writes for so many reads: 100/0, 80/20, 66/33, 50/50.
const MIXES: [(&str, f64); 4] = [("100/0", 0.0), ("80/20", 0.25), ("66/33", 0.5), ("50/50", 1.0)];
/// Section 4: five seconds.
const LENGTH: Nanos = Nanos::from_secs(5);
const WRITE_BYTES: u32 = 64 << 10;
/// On shared units a read waits for programs, which take many times as long as a read; for the writes' transfers alone it would wait less.
const SHARED: Limit = Limit::AtLeast(4.0);
/// Share of the block drive that holds data; reads and writes stay there. Far from full, so that GC has no part in the result.
const BLOCK_FILL: f64 = 1.0 / 16.0;

/// Where a stream's commands go.
enum Place {
    /// Any sector below this number.
    Block { sectors: u64 },
    /// Chunk 0 of each of these parallel units is read; the chunks behind it are written in turn.
    Units { geometry: ChunkGeometry, first: u32, count: u32, next: u64 },
}

impl Place {
    fn unit(geometry: &ChunkGeometry, unit: u32, chunk: u32, sector: u32) -> Lba {
        geometry.lba(ChunkAddress {
            group: unit / geometry.units,
            unit: unit % geometry.units,
            chunk,
            sector,
        })
    }

    fn read(&self, rng: &mut Rng) -> Lba {
        match self {
            Place::Block { sectors } => Lba(rng.below(*sectors)),
            Place::Units { geometry, first, count, .. } => {
                let unit = first + rng.below((*count).into()) as u32;
                Place::unit(geometry, unit, 0, rng.below(geometry.chunk_sectors.into()) as u32)
            }
        }
    }

    /// The next write, striped over the parallel units.
    fn write(&mut self, rng: &mut Rng, length: u32) -> Lba {
        match self {
            Place::Block { sectors } => Lba(rng.below(*sectors / u64::from(length)) * u64::from(length)),
            Place::Units { geometry, first, count, next } => {
                let (unit, round) = (*next % u64::from(*count), *next / u64::from(*count));
                *next += 1;
                let writes = u64::from(geometry.chunk_sectors / length);
                let (chunk, sector) = (1 + round / writes, round % writes);
                Place::unit(geometry, *first + unit as u32, chunk as u32, sector as u32 * length)
            }
        }
    }
}

/// The latencies of the reads of one mix.
fn run(
    device: &mut Device,
    reads: Place,
    mut writes: Place,
    mix: f64,
    bench: &Bench,
) -> Result<Latency, RunError> {
    let (seed, time) = (bench.seed(), Nanos(LENGTH.0 / u64::from(bench.shorter())));
    let sector_bytes = device.layout().sector_bytes;
    let length = WRITE_BYTES / sector_bytes;
    let (image, mut rng) = (device.image_bytes(), Rng::stream(seed, "predictable"));
    let start = device.now();
    let (mut now, mut owed, mut version) = (start, 0.0, 0);
    let (mut reading, mut writing) = (false, false);
    let mut recorder = LatencyRecorder::new();
    loop {
        if !reading {
            if now.since(start) >= time {
                return Ok(recorder.summary());
            }
            device.submit(now, Command::new(0, Opcode::Read, reads.read(&mut rng), 1, Vec::new()));
            (reading, owed) = (true, owed + mix);
        }
        if !writing && owed >= 1.0 {
            let lba = writes.write(&mut rng, length);
            version += 1;
            let mut data = vec![0; length as usize * image];
            fill_images(&mut data, image, lba, version);
            device.submit(now, Command::new(1, Opcode::Write, lba, length, data));
            (writing, owed) = (true, owed - 1.0);
        }
        let Some(next) = device.next_event() else {
            return Err(RunError::Host("the drive does not answer".into()));
        };
        now = next;
        device.advance(now);
        while let Some(completion) = device.pop() {
            if completion.status != Status::Success {
                return Err(RunError::Host(format!(
                    "{:?} ended with {:?}",
                    completion.opcode, completion.status
                )));
            }
            if completion.tag == 0 {
                reading = false;
                recorder.record(completion.completed - completion.submitted);
            } else {
                writing = false;
            }
        }
    }
}

/// The drive's media and controller with a page map of its own in place of chunks, and with the write buffer that Fig. 1 puts
/// into a block drive: a write is acknowledged there, and leaves as soon as a superpage is full.
fn block_drive(bench: &Bench) -> Result<Spec, ReproduceError> {
    let fill = format!("precondition.fill={BLOCK_FILL:?}");
    let own =
        ["drive.namespace=[]", "host.layers=[]", "buffer.write=write-back", "buffer.dirty_high=0.0", &fill];
    let own: Vec<String> = own.map(String::from).into();
    bench.preset("open-channel", &own)
}

/// The drive below any layer: the measurement is its host.
fn open_channel_drive(bench: &Bench) -> Result<Spec, ReproduceError> {
    let own = ["host.layers=[]".to_string(), "precondition.fill=0.0".to_string()];
    bench.preset("open-channel", &own)
}

/// The first half of the parallel units gets a chunk each that is read.
fn write_chunks(device: &mut Device, geometry: &ChunkGeometry, units: u32) -> Result<(), RunError> {
    let (length, image) = (geometry.write_optimal_sectors, device.image_bytes());
    for sector in (0..geometry.chunk_sectors).step_by(length as usize) {
        for unit in 0..units {
            let lba = Place::unit(geometry, unit, 0, sector);
            let mut data = vec![0; length as usize * image];
            fill_images(&mut data, image, lba, 1);
            let now: SimTime = device.now();
            device.submit(now, Command::new(0, Opcode::Write, lba, length, data));
        }
        while let Some(next) = device.next_event() {
            device.advance(next);
        }
        while let Some(completion) = device.pop() {
            if completion.status != Status::Success {
                return Err(RunError::Host(format!("a first write ended with {:?}", completion.status)));
            }
        }
    }
    Ok(())
}

/// L1: Fig. 3.
pub(super) fn isolation(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let spec = open_channel_drive(bench)?;
    let mut open_channel = prepare(&spec, None)?;
    let Some(Interface::OpenChannel(geometry)) = Drive::interface(&open_channel, 0) else {
        return Err(RunError::Host("namespace 0 has no chunks".into()).into());
    };
    // Two ranges, as two targets would have: groups are not shared.
    let half = geometry.parallel_units() / 2;
    write_chunks(&mut open_channel, &geometry, half)?;
    let block = prepare(&block_drive(bench)?, None)?;
    let points: Vec<(usize, Streams)> =
        (0..MIXES.len()).flat_map(|mix| Streams::ALL.map(|streams| (mix, streams))).collect();
    let latencies = bench.map(&points, |&(mix, streams)| {
        let share = MIXES[mix].1;
        let units = |first| Place::Units { geometry, first, count: half, next: 0 };
        let place = || Place::Block { sectors: (block.capacity_sectors(0) as f64 * BLOCK_FILL) as u64 };
        let (mut device, reads, writes) = match streams {
            Streams::Apart => (open_channel.clone(), units(0), units(half)),
            Streams::Together => (open_channel.clone(), units(0), units(0)),
            Streams::Block => (block.clone(), place(), place()),
        };
        Ok(run(&mut device, reads, writes, share, bench)?)
    })?;
    let of = |streams: Streams| -> Vec<&Latency> {
        let all = points.iter().zip(&latencies);
        all.filter(|(point, _)| point.1 == streams).map(|(_, latency)| latency).collect()
    };
    let [apart, together, block] = Streams::ALL.map(of);
    let figures = vec![figure(&apart, &together, &block)];
    Ok(Outcome { checks: checks(&apart, &together, &block), figures })
}

/// Where the two streams go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Streams {
    /// Open-channel, on parallel units of their own.
    Apart,
    /// Open-channel, on the same parallel units: the drive and its work are as before, so what the percentiles gain is due to the units.
    Together,
    /// A block drive, which puts them where it likes.
    Block,
}

impl Streams {
    const ALL: [Streams; 3] = [Streams::Apart, Streams::Together, Streams::Block];
}

type Percentile = (&'static str, fn(&Latency) -> Option<u64>);
const PERCENTILES: [Percentile; 2] = [("p95", |l| l.p95_ns), ("p99", |l| l.p99_ns)];

fn ratio(of: fn(&Latency) -> Option<u64>, latency: &Latency, base: &Latency) -> f64 {
    of(latency).zip(of(base)).map_or(f64::NAN, |(one, other)| one as f64 / other as f64)
}

fn checks(separate: &[&Latency], together: &[&Latency], block: &[&Latency]) -> Vec<Check> {
    let mut checks = Vec::new();
    for (mix, (name, _)) in MIXES.iter().enumerate().skip(1) {
        for (percentile, of) in PERCENTILES {
            let what = format!("open-channel, {percentile} of reads, {name} / 100/0");
            let measured = ratio(of, separate[mix], separate[0]);
            checks.push(Check::bound(what, Unit::Plain, measured, Limit::Between(0.95, 1.05)));
        }
    }
    let shared = ratio(PERCENTILES[1].1, together[1], together[0]);
    let what = "open-channel, same units, p99 of reads, 80/20 / 100/0";
    checks.push(Check::bound(what, Unit::Plain, shared, SHARED));
    for (percentile, of) in PERCENTILES {
        let what = format!("block drive, {percentile} of reads, 80/20 / 100/0");
        checks.push(Check::bound(what, Unit::Plain, ratio(of, block[1], block[0]), Limit::AtLeast(1.05)));
        let what = format!("block drive, {percentile} of reads, least step to more writes");
        let steps = block.windows(2).map(|pair| ratio(of, pair[1], pair[0]));
        checks.push(Check::bound(
            what,
            Unit::Plain,
            steps.fold(f64::INFINITY, f64::min),
            Limit::AtLeast(1.0),
        ));
    }
    checks
}

fn figure(separate: &[&Latency], together: &[&Latency], block: &[&Latency]) -> Figure {
    let mut plot = Plot::new("Fig. 3: 4 KiB reads beside 64 KiB writes")
        .x_axis(Axis::linear("writes among 100 requests", Unit::Count).from(0.0))
        .y_axis(Axis::log("read latency", Unit::Nanos));
    let shares = [0.0, 20.0, 33.0, 50.0];
    let series = [("open-channel", separate), ("block drive", block), ("open-channel, same units", together)];
    for (colour, (name, latencies)) in series.into_iter().enumerate() {
        let line = |of: fn(&Latency) -> Option<u64>| {
            shares.iter().zip(latencies).map(|(&x, l)| (x, of(l).unwrap_or(0) as f64)).collect::<Vec<_>>()
        };
        plot = plot.line(&format!("{name}, p99"), line(|l| l.p99_ns)).colour(colour);
        plot = plot.dashed(&format!("{name}, p95"), line(|l| l.p95_ns)).colour(colour);
    }
    let caption = "One read and one write outstanding; reads and writes of the open-channel drive on parallel units of their own, and for comparison on the same.";
    Figure { caption: caption.into(), svg: plot.to_svg() }
}
