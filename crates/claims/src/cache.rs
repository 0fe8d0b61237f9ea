//! B2: the two streams of a flash cache on one drive: mixed in its blocks, or separated by placement handles.
//!
//! ```text
//!  utilised part of the drive:  [ small objects: random 4 KiB buckets ][ large objects: a log of regions, written round and round ]
//!                                 4 %, `SMALL_WRITES` of the bytes       96 %
//! A small-object cache is a set-associative table: an insertion rewrites the 4 KiB bucket that the key hashes to. A large-object cache evicts whole
//! regions in the order in which they were written. If both are mixed, a block's large objects are still live long after its buckets were rewritten,
//! and GC copies them. If they are separate, blocks of the log die as a whole, and the buckets have all spare space of the drive.
//! the drive.

use super::bench::{Bench, ReproduceError};
use super::collection::closed_form;
use super::{Check, Figure, Limit, Outcome};
use pellucid_device::{Device, Filler};
use pellucid_flash::{Lpn, Rng};
use pellucid_lab::drive::RunError;
use pellucid_report::plot::{Axis, Plot, Unit};

/// Share of the utilised space that holds small objects.
const SMALL_SPACE: f64 = 0.04;
/// Share of the written bytes that goes to small objects. The claim does not give it; fitted to the mixed figure at half utilisation, see
/// `docs/explanation/papers/beyond.md`.
const SMALL_WRITES: f64 = 0.7;
/// Units of a region: 16 MiB at 4 KiB. Bucket writes fall between consecutive units of a region.
const REGION_UNITS: u32 = 4096;
/// Writes of the large-object part, in multiples of its size, before the measurement and in it.
const SETTLE: f64 = 3.0;
const MEASURE: f64 = 2.0;
/// Over-provisioning, fitted to the mixed figure at full utilisation. It is so small that GC copies buckets too, though they have nearly all of it;
/// theory gives the amount.
const SPARE: f64 = 0.28;
const LITTLE_SPARE: f64 = 0.05;
/// Blocks that are not spare: one open per stream, one GC destination, one kept free.
const UNAVAILABLE: f64 = 4.0;
const UTILISATION: [f64; 6] = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// One die: timing does not matter, and a reclaim unit is then one block, 1/600 of the drive.
const DRIVE: &str = r#"
[drive.media]
channels = 1
ways = 1
blocks = 600
pages = 512
page_size = "4KiB"
sector_size = 4096
unit_size = "4KiB"
cell = "slc"
store = "none"
[drive.media.timing]
read = "75us"
program = "750us"
erase = "3.8ms"
channel_rate = "333MB/s"
[drive.ftl]
victim = "greedy"
separation = "off"
handles = 2
gc_low = 1
wear.dynamic = false
durability = "volatile"
[drive.buffer]
entries = 64
"#;

pub(super) fn streams(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let of = |apart| UTILISATION.map(|utilisation| Point { apart, utilisation, spare: SPARE });
    let scarce = Point { apart: true, utilisation: 1.0, spare: LITTLE_SPARE };
    let points: Vec<Point> = of(false).into_iter().chain(of(true)).chain([scarce]).collect();
    let absent = Measured { amplification: f64::NAN, blocks: [f64::NAN; 2] };
    let measured = bench.map_or(&points, absent, |point| amplification(bench, point))?;
    let (mixed, apart) = measured.split_at(UTILISATION.len());
    let (apart, scarce) = apart.split_at(UTILISATION.len());
    let (mixed, apart): (Vec<f64>, Vec<f64>) =
        (mixed.iter().map(|m| m.amplification).collect(), apart.iter().map(|m| m.amplification).collect());
    let (mixed, apart) = (&mixed[..], &apart[..]);
    let (half, full) = (0, UTILISATION.len() - 1);
    let separated = |what: &str, measured: f64| Check {
        published: Some(1.03),
        ..Check::bound(what, Unit::Plain, measured, Limit::Points(0.05))
    };
    let Measured { amplification, blocks } = scarce[0];
    let little = Check {
        published: Some(alone(blocks)),
        derived: true,
        ..Check::bound(
            "write amplification, streams apart, little spare space: that of the buckets alone",
            Unit::Plain,
            amplification,
            Limit::Points(0.05),
        )
    };
    let checks = vec![
        little,
        separated("write amplification, streams apart, 50 % utilisation", apart[half]),
        separated("write amplification, streams apart, 100 % utilisation", apart[full]),
        Check::within("write amplification, mixed, 50 % utilisation", Unit::Plain, 1.22, mixed[half], 0.15),
        Check::within("write amplification, mixed, 100 % utilisation", Unit::Plain, 3.22, mixed[full], 0.15),
    ];
    let line = |values: &[f64]| UTILISATION.into_iter().zip(values.iter().copied()).collect();
    let plot = Plot::new("A cache's two streams")
        .x_axis(Axis::linear("share of the drive in use", Unit::Percent).from(0.4).to(1.0))
        .y_axis(Axis::linear("programmed per host byte", Unit::Plain).from(0.0))
        .line("mixed", line(mixed))
        .line("apart, two placement handles", line(apart))
        .points("published", vec![(0.5, 1.22), (1.0, 3.22), (1.0, 1.03)]);
    let caption = "Buckets of small objects at random in 4 % of the space, regions of large objects in turn over the rest; \
                   steady state."
        .into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: plot.to_svg() }] })
}

#[derive(Debug)]
struct Point {
    apart: bool,
    utilisation: f64,
    spare: f64,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    amplification: f64,
    /// Blocks filled by buckets, and blocks without live data.
    blocks: [f64; 2],
}

/// Write amplification of both streams if the regions, which die block by block, cost nothing and leave all spare blocks to the buckets. GC copies
/// buckets as greedy GC copies any data of their size (the closed form of B1). Blocks that are open or kept free are not spare.
fn alone([used, unused]: [f64; 2]) -> f64 {
    1.0 + SMALL_WRITES * (closed_form((unused - UNAVAILABLE) / used) - 1.0)
}

fn amplification(bench: &Bench, point: &Point) -> Result<Measured, ReproduceError> {
    let &Point { apart, utilisation, spare } = point;
    let sets = [format!("ftl.over_provisioning={spare:?}")];
    let spec = bench.drive(DRIVE, "the drive of B2", &sets)?;
    let mut device = Device::new(&spec.drive).map_err(RunError::Device)?;
    let units = device.namespace(0).capacity_sectors() as f64 * utilisation;
    let small = (units * SMALL_SPACE) as u32;
    let regions = (units as u32 - small) / REGION_UNITS;
    let mut cache = Cache {
        small,
        large: regions * REGION_UNITS,
        next: 0,
        image: vec![0; device.image_bytes()],
        rng: Rng::stream(bench.seed(), "reproduce cache"),
        buckets: Filler::default(),
        regions: Filler::new(0).placed(u16::from(apart).min(spec.drive.ftl.handles - 1)),
    };
    let round = f64::from(cache.large) / (1.0 - SMALL_WRITES);
    cache.write(&mut device, (round * SETTLE) as u64)?;
    let before = device.ftl_counters().victim_valid_units;
    let writes = (round * MEASURE) as u64;
    cache.write(&mut device, writes)?;
    let moved = device.ftl_counters().victim_valid_units - before;
    let geometry = &spec.drive.media.geometry;
    // A unit is one page here.
    let blocks = |units: u32| f64::from(units) / f64::from(geometry.pages);
    let used = blocks(cache.small);
    let unused = f64::from(geometry.blocks) - used - blocks(cache.large);
    Ok(Measured { amplification: 1.0 + moved as f64 / writes as f64, blocks: [used, unused] })
}

/// Writes of a cache, unit by unit.
struct Cache {
    /// Units of small objects, from 0.
    small: u32,
    /// Units of large objects behind them, and the next one to write.
    large: u32,
    next: u32,
    image: Vec<u8>,
    rng: Rng,
    buckets: Filler,
    regions: Filler,
}

impl Cache {
    fn write(&mut self, device: &mut Device, writes: u64) -> Result<(), ReproduceError> {
        for _ in 0..writes {
            let done = if self.rng.chance(SMALL_WRITES) {
                let bucket = Lpn(self.rng.below(self.small.into()) as u32);
                device.fill_unit(&mut self.buckets, bucket, &self.image)
            } else {
                let unit = Lpn(self.small + self.next);
                self.next = (self.next + 1) % self.large;
                device.fill_unit(&mut self.regions, unit, &self.image)
            };
            done.map_err(RunError::Precondition)?;
        }
        Ok(())
    }
}
