//! L1: reads beside writes on parallel units of their own, and on a block drive that mixes them (LightNVM, Fig. 3).

use super::bench::{Bench, ReproduceError};
use super::{Check, Figure, Limit, Outcome};
use pellucid_lab::drive::Unwatched;
use pellucid_lab::experiment::{execute, jobs, parse_job};
use pellucid_report::Latency;
use pellucid_report::plot::{Axis, Plot, Unit};
use pellucid_spec::Spec;

/// The experiment as users run it: both streams on an open-channel drive, each on its own target.
const OPEN_CHANNEL: (&str, &str) =
    (include_str!("../../../examples/papers/lightnvm-fig3.toml"), "lightnvm-fig3.toml");
/// Both streams on a block drive.
const BLOCK: (&str, &str) =
    (include_str!("../../../examples/papers/lightnvm-fig3-block.toml"), "lightnvm-fig3-block.toml");

/// Reads and writes per 100 requests, and the weights of the two jobs; the first mix has no writes.
const MIXES: [(&str, u32, u32); 4] = [("100/0", 1, 0), ("80/20", 4, 1), ("66/33", 2, 1), ("50/50", 1, 1)];
/// Section 4: five seconds.
const LENGTH_MS: u32 = 5000;
/// On shared units a read waits for programs, which take many times as long as a read; waiting for the writes' transfers alone would cost less.
const SHARED: Limit = Limit::AtLeast(4.0);

/// The description of an experiment with this mix of its two jobs.
fn mixed(spec: &Spec, streams: Streams, mix: usize, bench: &Bench) -> Spec {
    let (_, reads, writes) = MIXES[mix];
    let mut spec = spec.clone();
    let mut set = |job: usize, words: String| {
        spec.jobs[job].pairs.extend(parse_job(&words, "the claim's job").pairs);
    };
    let runtime = format!("runtime={}ms", LENGTH_MS / bench.shorter());
    set(0, format!("flow={reads},{runtime}"));
    set(1, format!("flow={writes},{runtime}"));
    if streams == Streams::Together {
        set(1, "target=reads".into());
    }
    if writes == 0 {
        // A single job keeps no ratio.
        spec.jobs.truncate(1);
        spec.jobs[0].pairs.retain(|pair| pair.key != "flow");
    }
    spec
}

/// Latencies of the reads of one run.
fn reads(spec: &Spec) -> Result<Latency, ReproduceError> {
    let (_, report) = execute(spec, &jobs(spec)?, &|| 0.0, &mut Unwatched)?;
    Ok(report.jobs[0].requests.directions.read.latency)
}

/// L1: Fig. 3.
pub(super) fn isolation(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let open_channel = bench.drive(OPEN_CHANNEL.0, OPEN_CHANNEL.1, &[])?;
    let block = bench.drive(BLOCK.0, BLOCK.1, &[])?;
    let points: Vec<(usize, Streams)> =
        (0..MIXES.len()).flat_map(|mix| Streams::ALL.map(|streams| (mix, streams))).collect();
    let latencies = bench.map(&points, |&(mix, streams)| {
        let spec = if streams == Streams::Block { &block } else { &open_channel };
        reads(&mixed(spec, streams, mix, bench))
    })?;
    let of = |streams: Streams| -> Vec<&Latency> {
        let all = points.iter().zip(&latencies);
        all.filter(|(point, _)| point.1 == streams).map(|(_, latency)| latency).collect()
    };
    let [apart, together, block] = Streams::ALL.map(of);
    let figures = vec![figure(&apart, &together, &block)];
    Ok(Outcome { checks: checks(&apart, &together, &block), figures })
}

/// Placement of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Streams {
    /// Open-channel, on separate parallel units.
    Apart,
    /// Open-channel, on the same parallel units: drive and work are unchanged, so any gain in the percentiles is due to the units.
    Together,
    /// A block drive, which places them itself.
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
    for (mix, (name, ..)) in MIXES.iter().enumerate().skip(1) {
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
