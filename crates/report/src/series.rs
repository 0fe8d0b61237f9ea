//! The run over time, in a bounded number of intervals of equal length.
//!
//! A run starts with short intervals. When all of them are used, neighbours are merged and the length doubles, so any run has between half the
//! capacity and the full capacity of intervals, and memory stays below `capacity * 2 * 7.7 KiB` (2.5 KiB each where latencies stay below 10 ms).
//! Merging adds counts, takes the larger maximum and adds histograms, so only resolution is lost.
//!
//! Percentiles of an interval come from 16 bins per power of two: never below the exact value, at most 6.25 % above it.
//!
//! Counters kept by the drive (bytes programmed, free blocks) are [sampled](TimeSeries::sample) at interval ends.

use super::latency::Coarse;
use pellucid_flash::{Nanos, SimTime};
use serde::Serialize;
use std::io::{self, Write};
use std::mem::take;

/// Maximum number of intervals of the timelines of channels and dies.
const TIMELINE: usize = 128;

/// Number of intervals at which neighbours are merged.
const CAPACITY: usize = 1024;

/// Counters of the drive at one time. All but `free_blocks` and `cache_used_blocks` only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Bytes of successful host writes.
    pub host_written_bytes: u64,
    /// Bytes programmed because the host wrote them ([`pellucid_flash::Cause::Host`]).
    pub programmed_host_bytes: u64,
    /// Bytes programmed for every other cause.
    pub programmed_other_bytes: u64,
    /// Erased blocks ready for new data.
    pub free_blocks: u64,
    /// Blocks of the SLC cache that are not free; absent without one.
    pub cache_used_blocks: Option<u64>,
    /// Victim blocks chosen.
    pub victims: u64,
    /// Capacity of these victims in mapping units.
    pub victim_units: u64,
    /// Valid mapping units in them when they were chosen.
    pub victim_valid_units: u64,
    /// Busy nanoseconds of each channel.
    pub channel_busy_ns: Vec<u64>,
    /// Busy nanoseconds of each die.
    pub die_busy_ns: Vec<u64>,
}

/// One direction in one interval.
#[derive(Clone, Debug, Default)]
struct Flow {
    bytes: u64,
    max_ns: u64,
    stall_ns: u64,
    latency: Coarse,
}

impl Flow {
    #[inline]
    fn add(&mut self, bytes: u64, latency: Nanos, stall: Nanos) {
        self.bytes += bytes;
        self.stall_ns += stall.0;
        self.max_ns = self.max_ns.max(latency.0);
        self.latency.record(latency.0, 1);
    }

    fn merge(mut self, later: Flow) -> Flow {
        self.bytes += later.bytes;
        self.stall_ns += later.stall_ns;
        self.max_ns = self.max_ns.max(later.max_ns);
        self.latency.merge(&later.latency);
        self
    }

    /// Returns the median and the 99th percentile.
    fn quantiles_ns(&self) -> [Option<u64>; 2] {
        self.latency.quantiles([0.5, 0.99]).map(|found| found.map(|ns| ns.min(self.max_ns)))
    }
}

#[derive(Clone, Debug, Default)]
struct Interval {
    /// Reads and writes, in this order.
    flows: [Flow; 2],
    /// Counters at the end of the interval, once sampled.
    sample: Option<Sample>,
}

impl Interval {
    fn merge(self, later: Interval) -> Interval {
        let [read, write] = self.flows;
        let [later_read, later_write] = later.flows;
        Interval {
            flows: [read.merge(later_read), write.merge(later_write)],
            sample: later.sample.or(self.sample),
        }
    }
}

/// Records a run over time. See the module for bounds and resolution.
#[derive(Clone, Debug)]
pub struct TimeSeries {
    start_ns: u64,
    interval_ns: u64,
    intervals: Vec<Interval>,
    /// Interval of the last completion, and where it begins, which saves a division in the common case.
    current: usize,
    current_start_ns: u64,
    /// End of the interval whose counters are sampled next.
    due_ns: u64,
    baseline: Sample,
}

impl TimeSeries {
    /// Begins a series at `start`, with the drive's counters at `baseline` and intervals of 100 us.
    pub fn new(start: SimTime, baseline: Sample) -> TimeSeries {
        TimeSeries::with_interval(start, baseline, Nanos::from_us(100))
    }

    /// Like [`new`](TimeSeries::new) with another first interval length (at least 1 ns).
    pub fn with_interval(start: SimTime, baseline: Sample, interval: Nanos) -> TimeSeries {
        let interval_ns = interval.0.max(1);
        TimeSeries {
            start_ns: start.0,
            interval_ns,
            intervals: vec![Interval::default()],
            current: 0,
            current_start_ns: start.0,
            due_ns: start.0 + interval_ns,
            baseline,
        }
    }

    /// Counts a successful read or write that completed at `at`, including `stall`, its wait for space in the data buffer. Completions before the
    /// start count in the first interval.
    #[inline]
    pub fn complete(&mut self, at: SimTime, is_write: bool, bytes: u64, latency: Nanos, stall: Nanos) {
        if at.0.wrapping_sub(self.current_start_ns) >= self.interval_ns {
            self.seek(at.0);
        }
        self.intervals[self.current].flows[usize::from(is_write)].add(bytes, latency, stall);
    }

    /// Returns when the counters are to be sampled next. The driver calls [`sample`](TimeSeries::sample) before the first event at or after this
    /// time.
    #[inline]
    pub fn sample_due(&self) -> SimTime {
        SimTime(self.due_ns)
    }

    /// Stores the counters as they stand just before `at`. They belong to the interval that ends at [`sample_due`](TimeSeries::sample_due), so they
    /// must not have changed between then and `at`; if `at` is earlier (the end of the run), they belong to the interval in progress.
    pub fn sample(&mut self, at: SimTime, sample: Sample) {
        let last_ns = at.0.min(self.due_ns).saturating_sub(1);
        self.seek(last_ns);
        self.intervals[self.current].sample = Some(sample);
        let next = self.fold_until_within(at.0);
        self.due_ns = self.start_of(next).saturating_add(self.interval_ns);
    }

    /// Returns the recorded run up to `end`, normally the last completion. `channels` and `dies` scale the busy shares.
    ///
    /// A rest shorter than half an interval joins the interval before it: its rate would mean nothing and dwarf every other in a plot.
    pub fn finish(mut self, end: SimTime, channels: u32, dies: u32) -> Series {
        let end_ns = self.close(end.0);
        let mut series = Series { interval_ns: self.interval_ns, ..Series::default() };
        let mut before = &self.baseline;
        let mut timeline = Busy::default();
        for (i, interval) in self.intervals.iter().enumerate() {
            let start_ns = self.start_of(i);
            let is_last = i + 1 == self.intervals.len();
            let length_ns = if is_last { (end_ns - start_ns).max(1) } else { self.interval_ns };
            let now = interval.sample.as_ref().unwrap_or(before);
            series.begin_seconds.push((start_ns - self.start_ns) as f64 / 1e9);
            series.length_seconds.push(length_ns as f64 / 1e9);
            series.read.push(&interval.flows[0]);
            series.write.push(&interval.flows[1]);
            series.push_counters(before, now);
            let share =
                |busy_ns: u64, units: u32| busy_ns as f64 / (length_ns as f64 * f64::from(units.max(1)));
            let gained = |now: &[u64], before: &[u64]| now.iter().sum::<u64>() - before.iter().sum::<u64>();
            series
                .channel_busy_share
                .push(share(gained(&now.channel_busy_ns, &before.channel_busy_ns), channels));
            series.die_busy_share.push(share(gained(&now.die_busy_ns, &before.die_busy_ns), dies));
            if (i + 1) % self.intervals.len().div_ceil(TIMELINE).max(1) == 0 || is_last {
                timeline.push((start_ns + length_ns - self.start_ns) as f64 / 1e9, now);
            }
            before = now;
        }
        series.busy = timeline.since(&self.baseline);
        series
    }

    /// Extends the intervals to `end_ns`; returns the end, which is never before the last interval's begin.
    fn close(&mut self, end_ns: u64) -> u64 {
        let last = self.fold_until_within(end_ns.saturating_sub(1));
        let len = self.intervals.len().max(last + 1);
        self.intervals.resize_with(len, Interval::default);
        let end_ns = end_ns.max(self.start_of(len - 1));
        let rest_ns = end_ns - self.start_of(len - 1);
        if len > 1 && rest_ns < self.interval_ns.div_ceil(2) {
            let rest = self.intervals.pop().unwrap_or_default();
            let before = self.intervals.pop().unwrap_or_default();
            self.intervals.push(before.merge(rest));
        }
        end_ns
    }

    fn start_of(&self, index: usize) -> u64 {
        self.start_ns.saturating_add((index as u64).saturating_mul(self.interval_ns))
    }

    #[cold]
    fn seek(&mut self, at_ns: u64) {
        let index = self.fold_until_within(at_ns);
        if index >= self.intervals.len() {
            self.intervals.resize_with(index + 1, Interval::default);
        }
        self.current = index;
        self.current_start_ns = self.start_of(index);
    }

    /// Merges neighbours until `at_ns` lies within the capacity; returns the index of its interval.
    fn fold_until_within(&mut self, at_ns: u64) -> usize {
        let offset_ns = at_ns.saturating_sub(self.start_ns);
        while offset_ns / self.interval_ns >= CAPACITY as u64 {
            self.fold();
        }
        (offset_ns / self.interval_ns) as usize
    }

    fn fold(&mut self) {
        let merged = self.intervals.len().div_ceil(2);
        for i in 0..merged {
            let first = take(&mut self.intervals[2 * i]);
            let second = self.intervals.get_mut(2 * i + 1).map(take).unwrap_or_default();
            self.intervals[i] = first.merge(second);
        }
        self.intervals.truncate(merged);
        self.interval_ns *= 2;
        self.current /= 2;
        self.current_start_ns = self.start_of(self.current);
        let due_intervals = (self.due_ns - self.start_ns).div_ceil(self.interval_ns);
        self.due_ns = self.start_of(due_intervals as usize);
    }
}

/// One direction over time: every list has one entry per interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowSeries {
    /// Requests completed successfully.
    pub requests: Vec<u64>,
    /// Bytes of these requests.
    pub bytes: Vec<u64>,
    /// Mean latency in nanoseconds, exact; absent without requests.
    pub mean_ns: Vec<Option<f64>>,
    /// Median latency in nanoseconds, at most 6.25 % above the exact value; absent without requests.
    pub p50_ns: Vec<Option<u64>>,
    /// 99th percentile in nanoseconds, at most 6.25 % above the exact value; absent without requests.
    pub p99_ns: Vec<Option<u64>>,
    /// Largest latency in nanoseconds, exact; absent without requests.
    pub max_ns: Vec<Option<u64>>,
    /// Total nanoseconds that these requests waited for space in the data buffer, in any stage.
    pub stall_ns: Vec<u64>,
}

impl FlowSeries {
    fn push(&mut self, flow: &Flow) {
        let requests = flow.latency.total();
        let any = requests > 0;
        self.requests.push(requests);
        self.bytes.push(flow.bytes);
        self.mean_ns.push(any.then(|| flow.latency.sum() as f64 / requests as f64));
        let [p50_ns, p99_ns] = flow.quantiles_ns();
        self.p50_ns.push(p50_ns);
        self.p99_ns.push(p99_ns);
        self.max_ns.push(any.then_some(flow.max_ns));
        self.stall_ns.push(flow.stall_ns);
    }
}

/// Busy shares of each channel and each die over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Busy {
    /// End of each interval in simulated seconds since the measurement began.
    pub end_seconds: Vec<f64>,
    /// Busy share (0 to 1) of each channel, in each interval.
    pub channels: Vec<Vec<f64>>,
    /// Busy share (0 to 1) of each die, in each interval; the dies of the first channel first.
    pub dies: Vec<Vec<f64>>,
}

impl Busy {
    /// Adds the busy nanoseconds at the end of an interval.
    fn push(&mut self, end_seconds: f64, sample: &Sample) {
        self.end_seconds.push(end_seconds);
        for (all, now) in
            [(&mut self.channels, &sample.channel_busy_ns), (&mut self.dies, &sample.die_busy_ns)]
        {
            all.resize_with(now.len().max(all.len()), Vec::new);
            all.iter_mut().zip(now).for_each(|(one, busy_ns)| one.push(*busy_ns as f64));
        }
    }

    /// Converts cumulative busy nanoseconds to shares, given their values at the beginning.
    fn since(mut self, beginning: &Sample) -> Busy {
        let begins = std::iter::once(0.0).chain(self.end_seconds.iter().copied());
        let lengths: Vec<f64> = begins.zip(&self.end_seconds).map(|(begin, end)| end - begin).collect();
        for (all, first) in
            [(&mut self.channels, &beginning.channel_busy_ns), (&mut self.dies, &beginning.die_busy_ns)]
        {
            for (one, first) in all.iter_mut().zip(first.iter().chain(std::iter::repeat(&0))) {
                let mut before = *first as f64;
                for (value, length) in one.iter_mut().zip(&lengths) {
                    let gained = *value - before;
                    before = std::mem::replace(value, gained / 1e9 / length.max(1e-9));
                }
            }
        }
        self
    }
}

/// The run over time, by column: every list has one entry per interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// Length of an interval in simulated nanoseconds.
    pub interval_ns: u64,
    /// Begin of each interval in simulated seconds since the measurement began.
    pub begin_seconds: Vec<f64>,
    /// Length of each interval in simulated seconds. Only the last may differ from `interval_ns`: from half of it to one and a half.
    pub length_seconds: Vec<f64>,
    /// Reads.
    pub read: FlowSeries,
    /// Writes.
    pub write: FlowSeries,
    /// Bytes of host writes completed, as the drive counts them.
    pub host_written_bytes: Vec<u64>,
    /// Bytes programmed because the host wrote them.
    pub programmed_host_bytes: Vec<u64>,
    /// Bytes programmed for every other cause.
    pub programmed_other_bytes: Vec<u64>,
    /// Bytes programmed / bytes of host writes completed in the interval; absent if the host wrote nothing.
    pub write_amplification: Vec<Option<f64>>,
    /// Erased blocks ready for new data at the end of the interval.
    pub free_blocks: Vec<u64>,
    /// Blocks of the SLC cache that are not free, at the end of the interval; empty without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slc_cache_used_blocks: Vec<u64>,
    /// Victim blocks chosen.
    pub victims: Vec<u64>,
    /// Valid share (0 to 1) of these victims when they were chosen; absent without any.
    pub victim_valid_share: Vec<Option<f64>>,
    /// Mean busy share (0 to 1) over all channels.
    pub channel_busy_share: Vec<f64>,
    /// Mean busy share (0 to 1) over all dies.
    pub die_busy_share: Vec<f64>,
    /// Each channel and die separately, in at most 128 longer intervals.
    pub busy: Busy,
}

impl Series {
    fn push_counters(&mut self, before: &Sample, now: &Sample) {
        let written = now.host_written_bytes - before.host_written_bytes;
        let host = now.programmed_host_bytes - before.programmed_host_bytes;
        let other = now.programmed_other_bytes - before.programmed_other_bytes;
        self.host_written_bytes.push(written);
        self.programmed_host_bytes.push(host);
        self.programmed_other_bytes.push(other);
        self.write_amplification.push((written > 0).then(|| (host + other) as f64 / written as f64));
        self.free_blocks.push(now.free_blocks);
        self.slc_cache_used_blocks.extend(now.cache_used_blocks);
        self.victims.push(now.victims - before.victims);
        let (units, valid) =
            (now.victim_units - before.victim_units, now.victim_valid_units - before.victim_valid_units);
        self.victim_valid_share.push((units > 0).then(|| valid as f64 / units as f64));
    }

    /// Returns the number of intervals.
    pub fn len(&self) -> usize {
        self.begin_seconds.len()
    }

    /// Returns whether the series is empty.
    pub fn is_empty(&self) -> bool {
        self.begin_seconds.is_empty()
    }

    /// Columns of [`write_csv`](Series::write_csv).
    pub const CSV_HEADER: &str = "begin_seconds,length_seconds,\
        read_requests,read_bytes,read_mean_ns,read_p50_ns,read_p99_ns,read_max_ns,\
        write_requests,write_bytes,write_mean_ns,write_p50_ns,write_p99_ns,write_max_ns,\
        host_written_bytes,programmed_host_bytes,programmed_other_bytes,write_amplification,\
        free_blocks,channel_busy_share,die_busy_share,\
        victims,victim_valid_share,write_stall_ns,slc_cache_used_blocks";

    /// Writes a header and one line per interval; an absent value is an empty field.
    pub fn write_csv(&self, mut out: impl Write) -> io::Result<()> {
        writeln!(out, "{}", Series::CSV_HEADER)?;
        for i in 0..self.len() {
            write!(out, "{},{}", self.begin_seconds[i], self.length_seconds[i])?;
            for flow in [&self.read, &self.write] {
                write!(out, ",{},{}", flow.requests[i], flow.bytes[i])?;
                write!(out, ",{}", cell(flow.mean_ns[i]))?;
                for column in [&flow.p50_ns, &flow.p99_ns, &flow.max_ns] {
                    write!(out, ",{}", cell(column[i]))?;
                }
            }
            for column in
                [&self.host_written_bytes, &self.programmed_host_bytes, &self.programmed_other_bytes]
            {
                write!(out, ",{}", column[i])?;
            }
            write!(out, ",{},{}", cell(self.write_amplification[i]), self.free_blocks[i])?;
            write!(out, ",{},{}", self.channel_busy_share[i], self.die_busy_share[i])?;
            write!(out, ",{},{}", self.victims[i], cell(self.victim_valid_share[i]))?;
            writeln!(out, ",{},{}", self.write.stall_ns[i], cell(self.slc_cache_used_blocks.get(i)))?;
        }
        Ok(())
    }
}

fn cell(value: Option<impl ToString>) -> String {
    value.map(|v| v.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;

    fn series() -> TimeSeries {
        TimeSeries::with_interval(SimTime(1_000), Sample::default(), Nanos(100))
    }

    #[test]
    fn folding_keeps_sums_and_maxima_and_bounds_the_intervals() {
        let mut recorder = series();
        let mut rng = Rng::new(5);
        let (mut at, mut bytes, mut max) = (1_000, [0u64; 2], [0u64; 2]);
        for _ in 0..300_000 {
            at += rng.below(50);
            let write = rng.chance(0.3);
            let (size, latency) = (rng.below(65_536), rng.below(1 << 30));
            recorder.complete(SimTime(at), write, size, Nanos(latency), Nanos::ZERO);
            bytes[usize::from(write)] += size;
            max[usize::from(write)] = max[usize::from(write)].max(latency);
        }
        let series = recorder.finish(SimTime(at + 1), 1, 1);
        assert!((CAPACITY / 2..=CAPACITY).contains(&series.len()), "{} intervals", series.len());
        assert_eq!(series.interval_ns % 100, 0);
        assert!((series.interval_ns / 100).is_power_of_two());
        let requests = |flow: &FlowSeries| flow.requests.iter().sum::<u64>();
        assert_eq!(requests(&series.read) + requests(&series.write), 300_000);
        for (flow, i) in [(&series.read, 0), (&series.write, 1)] {
            assert_eq!(flow.bytes.iter().sum::<u64>(), bytes[i]);
            assert_eq!(flow.max_ns.iter().flatten().max(), Some(&max[i]));
        }
        let seconds: f64 = series.length_seconds.iter().sum();
        assert!((seconds - (at + 1 - 1_000) as f64 / 1e9).abs() < 1e-12);
    }

    #[test]
    fn interval_percentiles_are_within_a_sixteenth_of_sorted_data_after_folding() {
        let mut recorder = series();
        let mut rng = Rng::new(9);
        let mut exact: Vec<(u64, u64)> = Vec::new();
        for i in 0..100_000u64 {
            let latency = 1 << rng.below(30);
            let latency = latency + rng.below(latency);
            let at = 1_000 + i * 13;
            recorder.complete(SimTime(at), false, 1, Nanos(latency), Nanos::ZERO);
            exact.push((at, latency));
        }
        let series = recorder.finish(SimTime(1_000 + 1_300_000), 1, 1);
        for i in (0..series.len()).step_by(37) {
            let begin = 1_000 + i as u64 * series.interval_ns;
            let inside = |at: u64| (begin..begin + series.interval_ns).contains(&at);
            let mut sorted: Vec<u64> = exact.iter().filter(|e| inside(e.0)).map(|e| e.1).collect();
            sorted.sort_unstable();
            assert_eq!(series.read.requests[i], sorted.len() as u64);
            for (q, got) in [(0.5, series.read.p50_ns[i]), (0.99, series.read.p99_ns[i])] {
                let want = sorted[(q * sorted.len() as f64).ceil() as usize - 1];
                let got = got.unwrap();
                assert!(got >= want && got as f64 <= want as f64 * 1.0625, "q {q}: {got} for {want}");
            }
            assert_eq!(series.read.max_ns[i], sorted.last().copied());
        }
    }

    #[test]
    fn samples_belong_to_the_interval_that_just_ended() {
        let mut recorder = series();
        let sample = |written, other| Sample {
            host_written_bytes: written,
            programmed_host_bytes: written,
            programmed_other_bytes: other,
            free_blocks: 9,
            victims: other,
            victim_units: other * 4,
            victim_valid_units: other,
            cache_used_blocks: None,
            channel_busy_ns: vec![0, written],
            die_busy_ns: vec![0],
        };
        assert_eq!(recorder.sample_due(), SimTime(1_100));
        recorder.sample(SimTime(1_100), sample(50, 0));
        assert_eq!(recorder.sample_due(), SimTime(1_200));
        // Nothing happens until 1,430: the counters held from 1,200 on.
        recorder.sample(SimTime(1_430), sample(70, 10));
        assert_eq!(recorder.sample_due(), SimTime(1_500));
        recorder.sample(SimTime(1_450), sample(100, 20));
        let series = recorder.finish(SimTime(1_450), 2, 1);
        assert_eq!(series.host_written_bytes, [50, 20, 0, 0, 30]);
        assert_eq!(series.programmed_other_bytes, [0, 10, 0, 0, 10]);
        assert_eq!(series.write_amplification[1], Some(1.5));
        assert_eq!(series.write_amplification[2], None);
        assert_eq!(series.free_blocks, [9; 5]);
        assert_eq!(series.channel_busy_share[0], 0.25);
        assert_eq!(series.victims, [0, 10, 0, 0, 10]);
        assert_eq!(series.victim_valid_share[..2], [None, Some(0.25)]);
        assert!(series.slc_cache_used_blocks.is_empty());
        assert_eq!(series.busy.channels[0], [0.0; 5]);
        assert_eq!(
            series.busy.channels[1].iter().map(|share| (share * 100.0).round()).collect::<Vec<_>>(),
            [50.0, 20.0, 0.0, 0.0, 60.0]
        );
        assert_eq!((series.busy.end_seconds.len(), series.busy.dies.len()), (5, 1));
        assert_eq!(series.length_seconds[4], 50e-9);
        assert_eq!(series.channel_busy_share[4], 0.3, "a short last interval is scaled by its own length");
    }

    #[test]
    fn folding_keeps_the_counters_and_long_silence_costs_nothing() {
        let mut recorder = series();
        let mut written = 0;
        for step in 1..5_000u64 {
            let at = SimTime(1_000 + step * 77);
            if at >= recorder.sample_due() {
                recorder.sample(at, Sample { host_written_bytes: written, ..Sample::default() });
            }
            recorder.complete(at, true, 512, Nanos(5), Nanos::ZERO);
            written += 512;
        }
        let end = SimTime(3_600_000_000_000);
        recorder.sample(end, Sample { host_written_bytes: written, ..Sample::default() });
        recorder.complete(end, true, 512, Nanos(5), Nanos::ZERO);
        let series = recorder.finish(end + Nanos(1), 1, 1);
        assert!(series.len() <= CAPACITY);
        assert_eq!(series.host_written_bytes.iter().sum::<u64>(), written);
        assert_eq!(series.write.requests.iter().sum::<u64>(), 5_000);
    }

    #[test]
    fn timelines_are_short_and_keep_the_busy_time() {
        let mut recorder = series();
        let mut busy = 0;
        for step in 1..=1_000 {
            let at = 1_000 + step * 100;
            busy += step % 90;
            recorder.sample(SimTime(at), Sample { die_busy_ns: vec![busy, 0], ..Sample::default() });
        }
        let series = recorder.finish(SimTime(101_000), 1, 2);
        let Busy { end_seconds, dies, channels } = &series.busy;
        assert!((TIMELINE / 2..=TIMELINE).contains(&end_seconds.len()), "{} intervals", end_seconds.len());
        assert!(channels.is_empty() && dies.iter().all(|die| die.len() == end_seconds.len()));
        let begins = std::iter::once(&0.0).chain(end_seconds);
        let lengths = begins.zip(end_seconds).map(|(begin, end)| end - begin);
        let whole: f64 = dies[0].iter().zip(lengths).map(|(share, length)| share * length * 1e9).sum();
        assert!((whole - busy as f64).abs() < 1e-3, "{whole} of {busy}");
    }

    #[test]
    fn a_short_rest_joins_the_interval_before_it() {
        let mut recorder = series();
        for at in [1_050, 1_150, 1_200] {
            recorder.complete(SimTime(at), false, 1_000, Nanos(1), Nanos::ZERO);
        }
        let series = recorder.clone().finish(SimTime(1_200), 1, 1);
        assert_eq!(
            series.read.bytes,
            [1_000, 2_000],
            "a completion at the very end has no interval of its own"
        );
        assert_eq!(series.length_seconds, [100e-9, 100e-9]);
        let series = recorder.clone().finish(SimTime(1_249), 1, 1);
        assert_eq!(series.length_seconds, [100e-9, 149e-9]);
        let series = recorder.finish(SimTime(1_250), 1, 1);
        assert_eq!(series.length_seconds, [100e-9, 100e-9, 50e-9]);
        assert_eq!(series.read.bytes, [1_000, 1_000, 1_000]);
    }

    #[test]
    fn csv_has_one_field_per_column_in_every_line() {
        let mut recorder = series();
        recorder.complete(SimTime(1_010), false, 4096, Nanos(80), Nanos::ZERO);
        recorder.complete(SimTime(1_310), true, 512, Nanos(7), Nanos::ZERO);
        let mut csv = Vec::new();
        recorder.finish(SimTime(1_350), 1, 1).write_csv(&mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(columns, [25; 5]);
        assert!(csv.lines().nth(1).unwrap().contains(",1,4096,80,80,80,80,0,0,,,,,"), "{csv}");
    }
}
