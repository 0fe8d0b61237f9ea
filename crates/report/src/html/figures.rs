//! The drawings of the page. Reads have colour 0 and writes colour 1 wherever both are shown.

use super::super::plot::{Axis, BarChart, Bars, Drawing, HeatMap, Mark, Plot, Unit};
use super::super::{Direction, FlowSeries, LatencyBand, Report, SteadyState};
use pellucid_flash::{Cause, Stage};
use pellucid_text::format::{duration, percent};

/// Returns reads and writes, if there were any, each with its name and colour.
fn read_and_write(report: &Report) -> impl Iterator<Item = (&'static str, usize, &Direction)> {
    let both = [("read", 0, &report.directions.read), ("write", 1, &report.directions.write)];
    both.into_iter().filter(|(_, _, direction)| direction.latency.count > 0)
}

/// Distribution of latencies; the area under a curve represents all requests of its direction.
pub(super) fn distribution(report: &Report) -> Drawing {
    let mut plot = Plot::new("Latency distribution")
        .x_axis(Axis::log("latency", Unit::Nanos))
        .y_axis(Axis::linear("share of requests", Unit::Percent).from(0.0));
    for (name, colour, direction) in read_and_write(report) {
        plot = plot.series(name, Mark::Area, direction.distribution.density()).colour(colour);
    }
    plot.into()
}

/// Fraction of requests above each latency, on two logarithmic axes: it shows the tail that averages hide. Omitted if all latencies are in one bin.
pub(super) fn tail(report: &Report) -> Option<Drawing> {
    let mut plot = Plot::new("Latency tail")
        .x_axis(Axis::log("latency", Unit::Nanos))
        .y_axis(Axis::log("share of requests that took longer", Unit::Percent).to(1.0));
    let mut drawn = false;
    for (name, colour, direction) in read_and_write(report) {
        let above = direction.distribution.cumulative().into_iter().map(|(ns, below)| (ns, 1.0 - below));
        // Above the last bin only rounding errors remain.
        let least = 0.5 / direction.latency.count.max(1) as f64;
        let points: Vec<_> = above.filter(|(_, share)| *share > least).collect();
        drawn |= points.len() > 1;
        plot = plot.line(name, points).colour(colour);
    }
    drawn.then(|| plot.into())
}

/// Fraction of requests within each latency.
pub(super) fn cumulative(report: &Report) -> Drawing {
    let mut plot = Plot::new("Latency, cumulative")
        .x_axis(Axis::log("latency", Unit::Nanos))
        .y_axis(Axis::linear("share of requests", Unit::Percent).from(0.0).to(1.0));
    for (name, colour, direction) in read_and_write(report) {
        plot = plot.line(name, direction.distribution.cumulative()).colour(colour);
    }
    plot.into()
}

/// Time in each stage for fast and slow requests: one bar per band of latency, one part per stage.
pub(super) fn stages_by_latency(title: &str, direction: &Direction) -> Drawing {
    let bands = &direction.bands;
    let share = |requests: u64| percent(requests as f64 / direction.latency.count.max(1) as f64);
    let name = |band: &LatencyBand| {
        format!("to {}: {} of requests", duration(band.upper_ns as f64), share(band.requests))
    };
    let mut chart = BarChart::new(title, Bars::Stacked)
        .value_axis(Axis::linear("share of their latency", Unit::Percent).from(0.0).to(1.0))
        .categories(bands.iter().map(name));
    let taken = |stage| direction.stage_ns[stage] > 0;
    for (at, stage) in Stage::ALL.into_iter().enumerate().filter(|&(_, stage)| taken(stage)) {
        let of = |band: &LatencyBand| band.stage_ns[stage] as f64 / band.stage_ns.total().max(1) as f64;
        chart = chart.series(stage.name(), bands.iter().map(of).collect()).colour(at);
    }
    chart.into()
}

/// Returns the middle of each interval with its value; a gap if there is none.
pub(super) fn over_time<T: Copy>(
    report: &Report,
    values: &[T],
    value: impl Fn(T) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let series = &report.series;
    let times = series.begin_seconds.iter().zip(&series.length_seconds);
    let middles = times.map(|(begin, length)| begin + length / 2.0);
    middles.zip(values).map(|(at, v)| (at, value(*v).unwrap_or(f64::NAN))).collect()
}

fn time_plot(title: &str, report: &Report) -> Plot {
    let end = report.series.begin_seconds.last().zip(report.series.length_seconds.last());
    let end = end.map_or(1.0, |(begin, length)| begin + length);
    Plot::new(title).x_axis(Axis::linear("simulated time", Unit::Seconds).from(0.0).to(end))
}

pub(super) fn percentiles(title: &str, report: &Report, flow: &FlowSeries) -> Drawing {
    let points = |values: &[Option<u64>]| over_time(report, values, |ns| ns.map(|ns| ns as f64));
    time_plot(title, report)
        .y_axis(Axis::log("latency", Unit::Nanos))
        .series("max", Mark::Dotted, points(&flow.max_ns))
        .colour(7)
        .line("p99", points(&flow.p99_ns))
        .colour(3)
        .line("p50", points(&flow.p50_ns))
        .colour(0)
        .into()
}

pub(super) fn throughput(report: &Report) -> Drawing {
    let rate = |flow: &FlowSeries| {
        let lengths = report.series.length_seconds.iter();
        let rates: Vec<f64> = flow.bytes.iter().zip(lengths).map(|(b, s)| *b as f64 / s).collect();
        over_time(report, &rates, Some)
    };
    let mut plot = time_plot("Throughput over time", report)
        .y_axis(Axis::linear("throughput", Unit::BytesPerSecond).from(0.0));
    for (name, colour, _) in read_and_write(report) {
        let flow = if name == "read" { &report.series.read } else { &report.series.write };
        plot = plot.line(name, rate(flow)).colour(colour);
    }
    plot.into()
}

pub(super) fn amplification_over_time(report: &Report) -> Drawing {
    let series = &report.series;
    let written = series.host_written_bytes.iter().zip(&series.programmed_host_bytes);
    let host: Vec<_> = written.map(|(w, p)| (*w > 0).then(|| *p as f64 / *w as f64)).collect();
    time_plot("Write amplification over time", report)
        .y_axis(Axis::linear("programmed per host byte", Unit::Plain).from(0.0))
        .series("all causes", Mark::Area, over_time(report, &series.write_amplification, |wa| wa))
        .colour(1)
        .dashed("host data alone", over_time(report, &host, |ratio| ratio))
        .colour(7)
        .into()
}

/// Value of each round of a run with a steady-state rule, and the average of the last window; `None` without rounds.
pub(super) fn rounds(steady: &SteadyState) -> Option<Drawing> {
    let (label, unit) = match steady.tracked.as_str() {
        "iops" => ("requests per second", Unit::Count),
        "bytes_per_second" => ("throughput", Unit::BytesPerSecond),
        _ => ("mean latency", Unit::Nanos),
    };
    let ends = (1..).map(|round| f64::from(round) * steady.round_seconds);
    let rounds: Vec<(f64, f64)> = ends.zip(steady.round_values.iter().copied()).collect();
    let judged = rounds.len().saturating_sub(steady.window_rounds as usize);
    let last = rounds.last()?;
    let average = steady.average.map(|average| vec![(rounds[judged].0, average), (last.0, average)]);
    let plot = Plot::new("Rounds until steady")
        .x_axis(Axis::linear("simulated time", Unit::Seconds).from(0.0).to(last.0))
        .y_axis(Axis::linear(label, unit).from(0.0))
        .points("round", rounds.clone())
        .colour(0)
        .dashed("average of the judged rounds", average.unwrap_or_default())
        .colour(7);
    Some(plot.into())
}

pub(super) fn free_blocks(report: &Report) -> Drawing {
    time_plot("Free blocks over time", report)
        .y_axis(Axis::linear("free blocks", Unit::Count).from(0.0))
        .series("", Mark::Area, over_time(report, &report.series.free_blocks, |n| Some(n as f64)))
        .colour(2)
        .into()
}

pub(super) fn victims(report: &Report) -> Drawing {
    time_plot("Valid data of victims over time", report)
        .y_axis(Axis::linear("valid share when chosen", Unit::Percent).from(0.0))
        .points("", over_time(report, &report.series.victim_valid_share, |share| share))
        .colour(3)
        .into()
}

/// Mean wait of reads and of writes for space in the data buffer.
pub(super) fn stalls(report: &Report) -> Drawing {
    let mut plot = time_plot("Stalls over time", report)
        .y_axis(Axis::linear("mean wait for the data buffer", Unit::Nanos).from(0.0));
    for (name, colour, _) in read_and_write(report) {
        let flow = if name == "read" { &report.series.read } else { &report.series.write };
        plot = plot.line(name, over_time(report, &mean_stalls(flow), |ns| ns)).colour(colour);
    }
    plot.into()
}

/// Returns the mean wait of a request for space in the data buffer, by interval; a gap without requests.
pub(super) fn mean_stalls(flow: &FlowSeries) -> Vec<Option<f64>> {
    let sums = flow.stall_ns.iter().zip(&flow.requests);
    sums.map(|(ns, requests)| (*requests > 0).then(|| *ns as f64 / *requests as f64)).collect()
}

pub(super) fn slc_cache(report: &Report) -> Drawing {
    let used = over_time(report, &report.series.slc_cache_used_blocks, |n| Some(n as f64));
    time_plot("SLC cache over time", report)
        .y_axis(Axis::linear("blocks in use", Unit::Count).from(0.0))
        .series("", Mark::Area, used)
        .colour(5)
        .into()
}

/// One row per channel or die, one column per interval.
pub(super) fn timeline(title: &str, word: &str, report: &Report, busy: &[Vec<f64>]) -> Drawing {
    let ends = report.series.busy.end_seconds.clone();
    HeatMap::new(title, word, "until", busy.to_vec()).columns(Unit::Seconds, ends).into()
}

/// One cell per die, one row per channel.
pub(super) fn wear_map(report: &Report) -> Drawing {
    HeatMap::new("Wear of the dies", "channel", "way", report.wear.die_mean_erases.clone())
        .unit(Unit::Plain)
        .into()
}

pub(super) fn busy_over_time(report: &Report) -> Drawing {
    time_plot("Busy share over time", report)
        .y_axis(Axis::linear("busy", Unit::Percent).from(0.0).to(1.0))
        .line("channels", over_time(report, &report.series.channel_busy_share, Some))
        .colour(4)
        .line("dies", over_time(report, &report.series.die_busy_share, Some))
        .colour(2)
        .into()
}

/// One bar per direction, one part per stage.
pub(super) fn stages(used: &[(&'static str, &Direction)]) -> Drawing {
    let mut chart = BarChart::new("Stages of a request", Bars::Stacked)
        .value_axis(Axis::linear("share of the summed latency", Unit::Percent).from(0.0).to(1.0))
        .categories(used.iter().map(|(name, _)| *name));
    let taken = |stage| used.iter().any(|(_, direction)| direction.stage_ns[stage] > 0);
    for (at, stage) in Stage::ALL.into_iter().enumerate().filter(|&(_, stage)| taken(stage)) {
        let shares = used.iter().map(|(_, direction)| direction.stage_percent[stage] / 100.0);
        chart = chart.series(stage.name(), shares.collect()).colour(at);
    }
    chart.into()
}

/// One bar, one part per cause.
pub(super) fn amplification(report: &Report) -> Drawing {
    let mut chart = BarChart::new("Write amplification by cause", Bars::Stacked)
        .value_axis(Axis::linear("programmed per host byte", Unit::Plain).from(0.0))
        .categories(["writes"]);
    for (at, cause) in Cause::ALL.into_iter().enumerate() {
        let ratio = report.write_amplification.ratio[cause].unwrap_or(0.0);
        if ratio > 0.0 {
            chart = chart.series(cause.name(), vec![ratio]).colour(at);
        }
    }
    chart.into()
}

/// One cell per die, one row per channel.
pub(super) fn dies(report: &Report) -> Drawing {
    HeatMap::new("Busy share of the dies", "channel", "way", report.utilisation.dies.clone()).into()
}

pub(super) fn channels(report: &Report) -> Drawing {
    let channels = &report.utilisation.channels;
    BarChart::new("Busy share of the channels", Bars::Grouped)
        .value_axis(Axis::linear("busy", Unit::Percent).from(0.0).to(1.0))
        .categories((0..channels.len()).map(|channel| format!("channel {channel}")))
        .series("", channels.clone())
        .into()
}

/// Fraction of victims whose garbage collection took at most each time.
pub(super) fn pauses(report: &Report) -> Drawing {
    Plot::new("Pauses of garbage collection, cumulative")
        .x_axis(Axis::log("from choice to erase", Unit::Nanos))
        .y_axis(Axis::linear("share of victims", Unit::Percent).from(0.0).to(1.0))
        .series("", Mark::Line, report.gc.pauses.distribution.cumulative())
        .colour(3)
        .into()
}

pub(super) fn wear(report: &Report) -> Drawing {
    let histogram = &report.wear.histogram;
    let bins = histogram.from_erases.iter().zip(&histogram.blocks);
    let mut points: Vec<(f64, f64)> = bins.map(|(&from, &n)| (f64::from(from), n as f64)).collect();
    if let Some(&(last, _)) = points.last() {
        points.push((last + f64::from(histogram.bin_erases), 0.0));
    }
    Plot::new("Wear")
        .x_axis(Axis::linear("erase count", Unit::Count))
        .y_axis(Axis::linear("blocks", Unit::Count).from(0.0))
        .series("", Mark::Columns, points)
        .into()
}
