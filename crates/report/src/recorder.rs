//! Requests of a run by direction: what the driver records at each completion.
//!
//! Invariants: the stage times of a direction sum to exactly the sum of its latencies, because those of each request do. Requests and bytes of all
//! jobs sum to those of the run, and mapped and unmapped reads to the reads, because the totals are computed from these parts.

use super::latency::{Distribution, Latency, LatencyRecorder};
use super::tables::ByStage;
use pellucid_flash::{Completion, Effect, Nanos, SimTime, Status};
use serde::Serialize;

/// One direction of traffic over the whole run. Latency, stages and throughput count successful requests only.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Direction {
    /// Requests completed, with and without success.
    pub requests: u64,
    /// Bytes of successful requests; for trims, the bytes named.
    pub bytes: u64,
    /// Requests that ended without success.
    pub errors: u64,
    /// Successful requests per simulated second.
    pub iops: f64,
    /// `bytes` per simulated second.
    pub throughput_bytes_per_second: f64,
    /// Latency from submission to completion.
    pub latency: Latency,
    /// Nanoseconds in each stage, summed over requests; the stages sum to the total latency.
    pub stage_ns: ByStage<u64>,
    /// `stage_ns` in percent of the total latency; all zero without requests.
    pub stage_percent: ByStage<f64>,
    /// Distribution of latencies.
    pub distribution: Distribution,
    /// `stage_ns` by latency, which shows where fast and slow requests spent their time. Bands without requests are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<LatencyBand>,
}

/// Requests whose latencies lie between two powers of two.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LatencyBand {
    /// Smallest latency of the band, inclusive, in nanoseconds.
    pub from_ns: u64,
    /// Largest latency of the band, inclusive.
    pub upper_ns: u64,
    /// Successful requests.
    pub requests: u64,
    /// Total nanoseconds of these requests in each stage.
    pub stage_ns: ByStage<u64>,
}

impl LatencyBand {
    fn of((digits, (requests, stage_ns)): (usize, &(u64, ByStage<u64>))) -> LatencyBand {
        let from_ns = if digits == 0 { 0 } else { 1 << (digits - 1) };
        let upper_ns = if digits == 0 { 0 } else { from_ns - 1 + from_ns };
        LatencyBand { from_ns, upper_ns, requests: *requests, stage_ns: *stage_ns }
    }
}

/// Every direction of traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Directions {
    /// Reads.
    pub read: Direction,
    /// Writes with data.
    pub write: Direction,
    /// Trims and write-zeroes: requests that name sectors without transferring them.
    pub trim: Direction,
    /// Flushes and other commands that move no data, such as queries for the state of chunks; no bytes.
    pub flush: Direction,
}

impl Directions {
    /// Returns the directions with their names, in the order of reports.
    pub fn named(&self) -> [(&'static str, &Direction); 4] {
        [("read", &self.read), ("write", &self.write), ("trim", &self.trim), ("flush", &self.flush)]
    }

    /// Returns the requests of all directions.
    pub fn requests(&self) -> u64 {
        self.named().iter().map(|(_, direction)| direction.requests).sum()
    }
}

/// Reads by whether the drive had data for them. Unmapped sectors were never written, or were trimmed: they read as zeros without a flash operation,
/// so such reads are faster than those of a drive in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReadsByMapping {
    /// Reads of sectors that all have data, and failed reads.
    pub mapped: Direction,
    /// Successful reads with at least one unmapped sector.
    pub unmapped: Direction,
    /// Unmapped sectors in `unmapped`.
    pub unmapped_sectors: u64,
    /// Share of `unmapped` in successful reads, 0 to 1; absent without reads.
    pub unmapped_share: Option<f64>,
}

/// Requests of one or more jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Requests {
    /// Requests completed with any status, all directions.
    pub requests: u64,
    /// By direction.
    pub directions: Directions,
    /// Reads again, by mapping.
    pub reads: ReadsByMapping,
}

#[derive(Clone, Debug, Default)]
struct DirectionRecorder {
    requests: u64,
    errors: u64,
    bytes: u64,
    latency: LatencyRecorder,
    /// Requests and their time by stage, indexed by the binary digits of the latency.
    bands: Vec<(u64, ByStage<u64>)>,
}

impl DirectionRecorder {
    #[inline]
    fn record(&mut self, completion: &Completion, bytes: u64) {
        self.requests += 1;
        if completion.status != Status::Success {
            self.errors += 1;
            return;
        }
        self.bytes += bytes;
        let latency = completion.completed - completion.submitted;
        self.latency.record(latency);
        let digits = (u64::BITS - latency.0.leading_zeros()) as usize;
        if digits >= self.bands.len() {
            self.widen(digits);
        }
        let (requests, stage_ns) = &mut self.bands[digits];
        *requests += 1;
        stage_ns.add(&completion.stages);
    }

    #[cold]
    fn widen(&mut self, digits: usize) {
        self.bands.resize_with(digits + 1, Default::default);
    }

    fn merge(&mut self, other: &DirectionRecorder) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
        self.bands.resize_with(self.bands.len().max(other.bands.len()), Default::default);
        for ((requests, stage_ns), (more, ns)) in self.bands.iter_mut().zip(&other.bands) {
            *requests += more;
            stage_ns.0.iter_mut().zip(ns.0).for_each(|(sum, ns)| *sum += ns);
        }
    }

    fn finish(&self, simulated: Nanos) -> Direction {
        let per_second = |n: u64| if simulated.0 == 0 { 0.0 } else { n as f64 / simulated.as_secs_f64() };
        let mut stage_ns = ByStage::default();
        for (_, band) in &self.bands {
            stage_ns.0.iter_mut().zip(band.0).for_each(|(sum, ns): (&mut u64, u64)| *sum += ns);
        }
        let total_ns = stage_ns.total().max(1) as f64;
        Direction {
            requests: self.requests,
            bytes: self.bytes,
            errors: self.errors,
            iops: per_second(self.requests - self.errors),
            throughput_bytes_per_second: per_second(self.bytes),
            latency: self.latency.summary(),
            stage_percent: stage_ns.map(|ns| ns as f64 * 100.0 / total_ns),
            stage_ns,
            distribution: self.latency.distribution(),
            bands: self
                .bands
                .iter()
                .enumerate()
                .filter(|(_, band)| band.0 > 0)
                .map(LatencyBand::of)
                .collect(),
        }
    }
}

/// Records completions of all directions in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct RequestRecorder {
    /// Reads of mapped sectors, writes, trims, flushes, reads with unmapped sectors.
    kinds: [DirectionRecorder; 5],
    unmapped_sectors: u64,
    last: SimTime,
}

const UNMAPPED: usize = 4;

impl RequestRecorder {
    /// Makes an empty recorder.
    pub fn new() -> RequestRecorder {
        RequestRecorder::default()
    }

    /// Counts one completion of a command of `bytes` bytes (sectors x sector size; 0 for a flush).
    #[inline]
    pub fn record(&mut self, completion: &Completion, bytes: u64) {
        self.last = self.last.max(completion.completed);
        let (kind, bytes) = match completion.opcode.effect() {
            Effect::Reads if completion.unmapped > 0 && completion.status == Status::Success => {
                self.unmapped_sectors += u64::from(completion.unmapped);
                (UNMAPPED, bytes)
            }
            Effect::Reads => (0, bytes),
            Effect::Writes => (1, bytes),
            Effect::Erases => (2, bytes),
            // A query names sectors without moving them.
            Effect::Asks | Effect::Manages => (3, 0),
        };
        self.kinds[kind].record(completion, bytes);
    }

    /// Returns the number of completions.
    pub fn requests(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.requests).sum()
    }

    /// Returns the time of the last completion; zero without one.
    pub fn last(&self) -> SimTime {
        self.last
    }

    /// Adds all completions of `other`.
    pub fn merge(&mut self, other: &RequestRecorder) {
        for (own, kind) in self.kinds.iter_mut().zip(&other.kinds) {
            own.merge(kind);
        }
        self.unmapped_sectors += other.unmapped_sectors;
        self.last = self.last.max(other.last);
    }

    /// Returns the numbers for the report of work that took `simulated` time.
    pub fn finish(&self, simulated: Nanos) -> Requests {
        let [mapped, write, trim, flush, unmapped] = &self.kinds;
        let mut read = mapped.clone();
        read.merge(unmapped);
        let succeeded = read.requests - read.errors;
        Requests {
            requests: self.requests(),
            directions: Directions {
                read: read.finish(simulated),
                write: write.finish(simulated),
                trim: trim.finish(simulated),
                flush: flush.finish(simulated),
            },
            reads: ReadsByMapping {
                mapped: mapped.finish(simulated),
                unmapped: unmapped.finish(simulated),
                unmapped_sectors: self.unmapped_sectors,
                unmapped_share: (succeeded > 0).then(|| unmapped.requests as f64 / succeeded as f64),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::{Opcode, SimTime, Stage, StageTimes};

    fn completion(opcode: Opcode, status: Status, queue_ns: u64, media_ns: u64) -> Completion {
        let mut stages = StageTimes::default();
        stages.add(Stage::Queue, Nanos(queue_ns));
        stages.add(Stage::Media, Nanos(media_ns));
        Completion {
            tag: 0,
            opcode,
            status,
            submitted: SimTime(500),
            completed: SimTime(500) + stages.total(),
            stages,
            data: Vec::new(),
            result: 0,
            unmapped: 0,
            vector: None,
        }
    }

    #[test]
    fn stages_sum_to_the_latencies_and_errors_stay_out_of_both() {
        let mut recorder = RequestRecorder::new();
        recorder.record(&completion(Opcode::Read, Status::Success, 100, 300), 4096);
        recorder.record(&completion(Opcode::Read, Status::Success, 0, 400), 4096);
        recorder.record(&completion(Opcode::Read, Status::UnrecoveredRead, 9_000, 9_000), 4096);
        recorder.record(&completion(Opcode::WriteZeroes, Status::Success, 5, 0), 512);
        recorder.record(&completion(Opcode::Trim, Status::Success, 5, 0), 512);
        recorder.record(&completion(Opcode::Flush, Status::Success, 0, 7), 0);
        // A query names sectors without moving them.
        recorder.record(&completion(Opcode::Report, Status::Success, 0, 7), 4096);
        assert_eq!(recorder.requests(), 7);
        let directions = recorder.finish(Nanos::from_us(1)).directions;
        let read = &directions.read;
        assert_eq!((read.requests, read.errors, read.bytes), (3, 1, 8192));
        assert_eq!(read.latency.count, 2);
        assert_eq!(read.latency.mean_ns, Some(400.0));
        assert_eq!(read.stage_ns.total(), 800);
        let [band] = &read.bands[..] else { panic!("{:?}", read.bands) };
        assert_eq!((band.from_ns, band.upper_ns, band.requests), (256, 511, 2));
        assert_eq!(band.stage_ns, read.stage_ns);
        assert_eq!(read.stage_percent[Stage::Queue], 12.5);
        assert_eq!(read.stage_percent[Stage::Media], 87.5);
        assert_eq!(read.iops, 2e6);
        assert_eq!(read.throughput_bytes_per_second, 8192e6);
        assert_eq!(directions.trim.requests, 2);
        assert_eq!((directions.flush.requests, directions.flush.bytes), (2, 0));
        assert_eq!(directions.write, Direction::default());
        assert_eq!(directions.requests(), 7);
    }

    #[test]
    fn reads_without_data_are_counted_apart_and_are_part_of_the_reads() {
        let read = |unmapped, ns| Completion { unmapped, ..completion(Opcode::Read, Status::Success, 0, ns) };
        let mut recorder = RequestRecorder::new();
        recorder.record(&read(0, 70_000), 4096);
        recorder.record(&read(3, 4_000), 4096);
        let requests = recorder.finish(Nanos::from_us(1));
        let (all, reads) = (&requests.directions.read, &requests.reads);
        assert_eq!((all.requests, all.bytes, all.latency.mean_ns), (2, 8192, Some(37_000.0)));
        assert_eq!((reads.mapped.requests, reads.mapped.latency.mean_ns), (1, Some(70_000.0)));
        assert_eq!((reads.unmapped.requests, reads.unmapped.latency.mean_ns), (1, Some(4_000.0)));
        assert_eq!((reads.unmapped_sectors, reads.unmapped_share), (3, Some(0.5)));
        assert_eq!(RequestRecorder::new().finish(Nanos::ZERO).reads.unmapped_share, None);
    }
}
