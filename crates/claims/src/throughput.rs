//! C1 to C5: throughput over channels and ways (Fig. 21) and IOPS of small random requests (Fig. 22).

use super::bench::{Bench, Cosmos, Flow, Mode, ReproduceError};
use super::{Check, Figure, Limit, Outcome};
use pellucid_report::plot::{Axis, Plot, Unit};

/// Numbers of channels and ways that are measured.
const COUNTS: [u32; 4] = [1, 2, 4, 8];
/// The paper's largest configuration.
const MOST: u32 = 8;
pub(super) const LARGE: &str = "bs=128k,iodepth=16";
const LARGE_REQUESTS: u32 = 2_500;
/// Section 6.3. So many requests that the end, when fewer and fewer ways are busy, takes less than half a percent of the time.
const SMALL: &str = "bs=4k,iodepth=128";
const SMALL_REQUESTS: u32 = 64_000;
/// Section 6.2: 1,275 MB/s, in bytes per second.
const PUBLISHED_READ: f64 = 1275e6;
/// Section 6.2: what eight channels can transfer besides the spare area, in bytes per second.
const PUBLISHED_BOUND: f64 = 1440e6;
/// Gain of writes from a second way: a page's transfer takes a fifth of the shortest program, so only programs limit throughput.
const SECOND_WAY: Limit = Limit::Between(1.8, 2.05);
/// Reads of eight channels over those of one. More than proportional is as wrong as less: eight channels share what one has to itself. The margin
/// above 8 allows for noise.
const IN_PROPORTION: Limit = Limit::Between(7.5, 8.05);
/// Section 6.3: the mapping unit, the cost of a request of any smaller size.
const PAGE_BYTES: f64 = 16_384.0;

/// One configuration and its work.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    mode: Mode,
    flow: Flow,
    channels: u32,
    ways: u32,
}

/// The four series of both figures, in the paper's order.
const SERIES: [(Mode, Flow); 4] =
    [(Mode::Slc, Flow::Read), (Mode::Mlc, Flow::Read), (Mode::Slc, Flow::Write), (Mode::Mlc, Flow::Write)];

fn series_name(mode: Mode, flow: Flow) -> String {
    format!("{} {}", mode.name(), flow.name())
}

/// Measurements for Fig. 21.
#[derive(Debug)]
pub(super) struct ThroughputStudy {
    /// Bytes per second of each point.
    points: Vec<(Point, f64)>,
}

impl ThroughputStudy {
    /// Sequential requests of 128 KiB on every configuration.
    pub fn run(bench: &Bench) -> Result<ThroughputStudy, ReproduceError> {
        let points = all_points();
        let rates = bench.map_or(&points, f64::NAN, |point| {
            let drive = Cosmos::new(point.mode, point.channels, point.ways);
            let report = bench.sequential(&drive, point.flow, &bench.job(LARGE, LARGE_REQUESTS))?;
            Ok(point.flow.of(&report).throughput_bytes_per_second)
        })?;
        Ok(ThroughputStudy { points: points.into_iter().zip(rates).collect() })
    }

    fn rate(&self, (mode, flow): (Mode, Flow), channels: u32, ways: u32) -> f64 {
        value_at(&self.points, Point { mode, flow, channels, ways })
    }

    fn figures(&self) -> Vec<Figure> {
        let published = |series: (Mode, Flow)| {
            let bound = ("published bound of 8 channels", PUBLISHED_BOUND);
            match series.1 {
                Flow::Read => vec![("published, 8 channels", PUBLISHED_READ), bound],
                Flow::Write => vec![bound],
            }
        };
        let axis = || Axis::linear("throughput", Unit::BytesPerSecond).from(0.0);
        figures("Fig. 21", &self.points, published, axis, "128 KiB sequential, 16 outstanding")
    }
}

fn all_points() -> Vec<Point> {
    let ways = |(mode, flow), channels| COUNTS.map(|ways| Point { mode, flow, channels, ways });
    let channels = |series| COUNTS.into_iter().flat_map(move |channels| ways(series, channels));
    SERIES.into_iter().flat_map(channels).collect()
}

fn value_at(points: &[(Point, f64)], wanted: Point) -> f64 {
    points.iter().find(|(point, _)| *point == wanted).map_or(f64::NAN, |(_, value)| *value)
}

/// One drawing per series: a line per number of channels, over the ways.
fn figures(
    name: &str,
    points: &[(Point, f64)],
    published: impl Fn((Mode, Flow)) -> Vec<(&'static str, f64)>,
    axis: impl Fn() -> Axis,
    work: &str,
) -> Vec<Figure> {
    let one = |series: (Mode, Flow)| {
        let title = format!("{name}: {}", series_name(series.0, series.1));
        let mut plot =
            Plot::new(&title).x_axis(Axis::doubling("ways per channel", Unit::Count)).y_axis(axis());
        for channels in COUNTS {
            let at = |ways| {
                let point = Point { mode: series.0, flow: series.1, channels, ways };
                (f64::from(ways), value_at(points, point))
            };
            let line = COUNTS.map(at).to_vec();
            plot = plot.line(&format!("{channels} channel{}", if channels == 1 { "" } else { "s" }), line);
        }
        for (name, value) in published(series) {
            plot = plot.points(name, vec![(f64::from(MOST), value)]).colour(COUNTS.len() - 1);
        }
        Figure { caption: format!("Measured here: {work}."), svg: plot.to_svg() }
    };
    SERIES.into_iter().map(one).collect()
}

/// C1: the number of section 6.2.
pub(super) fn maximum(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.throughput()?;
    let check = |mode: Mode| {
        let measured = study.rate((mode, Flow::Read), MOST, MOST);
        let what = format!("{} read, 8 x 8", mode.name());
        Check::within(what, Unit::BytesPerSecond, PUBLISHED_READ, measured, 0.05)
    };
    Ok(Outcome { checks: vec![check(Mode::Slc), check(Mode::Mlc)], figures: study.figures() })
}

/// C2: eight channels against one.
pub(super) fn over_channels(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.throughput()?;
    let check = |mode: Mode| {
        let series = (mode, Flow::Read);
        let measured = study.rate(series, 8, MOST) / study.rate(series, 1, MOST);
        let what = format!("{} read, 8 channels / 1 channel", mode.name());
        Check::bound(what, Unit::Plain, measured, IN_PROPORTION)
    };
    Ok(Outcome { checks: vec![check(Mode::Slc), check(Mode::Mlc)], figures: Vec::new() })
}

/// C3: no step to more ways loses throughput. Each series is represented by its worst step.
pub(super) fn over_ways(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.throughput()?;
    let worst_step = |series| {
        let steps = COUNTS.into_iter().flat_map(|channels| {
            let step = move |pair: &[u32]| {
                study.rate(series, channels, pair[1]) / study.rate(series, channels, pair[0])
            };
            COUNTS.windows(2).map(step).collect::<Vec<_>>()
        });
        steps.fold(f64::INFINITY, f64::min)
    };
    let check = |series: (Mode, Flow)| {
        let what = format!("{}, least step to twice the ways", series_name(series.0, series.1));
        Check::bound(what, Unit::Plain, worst_step(series), Limit::AtLeast(0.99))
    };
    let second_way = |mode: Mode| {
        let series = (mode, Flow::Write);
        let steps = COUNTS.map(|channels| study.rate(series, channels, 2) / study.rate(series, channels, 1));
        let what = format!("{}, least step from 1 way to 2", series_name(mode, Flow::Write));
        Check::bound(what, Unit::Plain, steps.into_iter().fold(f64::INFINITY, f64::min), SECOND_WAY)
    };
    let mut checks = SERIES.map(check).to_vec();
    checks.extend([Mode::Slc, Mode::Mlc].map(second_way));
    Ok(Outcome { checks, figures: Vec::new() })
}

/// C4: MLC against SLC writes.
pub(super) fn mlc_writes(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.throughput()?;
    let [mlc, slc] = [Mode::Mlc, Mode::Slc].map(|mode| study.rate((mode, Flow::Write), MOST, MOST));
    let check =
        Check::bound("MLC write / SLC write, 8 x 8", Unit::Plain, mlc / slc, Limit::Between(0.4, 0.6));
    Ok(Outcome { checks: vec![check], figures: Vec::new() })
}

/// C5: small random requests. Reads find data that was written before; writes go to an empty drive, as the drive erases its blocks at start.
pub(super) fn small_random(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.throughput()?;
    let points = all_points();
    let rates = bench.map_or(&points, f64::NAN, |point| {
        let drive = Cosmos::new(point.mode, point.channels, point.ways);
        let job = bench.job(SMALL, SMALL_REQUESTS);
        let report = match point.flow {
            Flow::Read => bench.read(&drive, "randread", &job)?,
            Flow::Write => bench.write(&drive, 0.0, "randwrite", &job)?,
        };
        Ok(point.flow.of(&report).iops)
    })?;
    let points: Vec<(Point, f64)> = points.into_iter().zip(rates).collect();
    let check = |(mode, flow): (Mode, Flow)| {
        let expected = study.rate((mode, flow), MOST, MOST) / PAGE_BYTES;
        let measured = value_at(&points, Point { mode, flow, channels: MOST, ways: MOST });
        let what = format!("{} IOPS against throughput / 16 KiB", series_name(mode, flow));
        Check::derived(what, Unit::Count, expected, measured, 0.10)
    };
    let axis = || Axis::linear("requests per second", Unit::Count).from(0.0);
    let work = "4 KiB random, 128 outstanding; writes to addresses that held no data";
    let expected = |series| vec![("derived, 8 channels", study.rate(series, MOST, MOST) / PAGE_BYTES)];
    let figures = figures("Fig. 22", &points, expected, axis, work);
    Ok(Outcome { checks: SERIES.map(check).to_vec(), figures })
}
