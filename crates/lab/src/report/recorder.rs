//! The requests of a run, by direction: what the driver records at each completion.
//!
//! Invariant: the stage times of a direction sum to exactly the sum of its latencies, because those of each
//! request do.

use super::latency::{Distribution, Latency, LatencyRecorder};
use super::tables::ByStage;
use pellucid_flash::{Completion, Nanos, Opcode, Status};
use serde::Serialize;

/// One direction of traffic over the whole run. Latency, stages and throughput count successful requests
/// only.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Direction {
    /// Requests completed, with and without success.
    pub requests: u64,
    /// Bytes of successful requests (for trims: bytes named, not transferred).
    pub bytes: u64,
    /// Requests that ended with a status other than success.
    pub errors: u64,
    /// Successful requests per simulated second.
    pub iops: f64,
    /// `bytes` per simulated second.
    pub throughput_bytes_per_second: f64,
    /// Latency: from submission to completion.
    pub latency: Latency,
    /// Nanoseconds in each stage, summed over requests; all stages together are the sum of the latencies.
    pub stage_ns: ByStage<u64>,
    /// `stage_ns` in percent of the sum of the latencies; all zero without requests.
    pub stage_percent: ByStage<f64>,
    /// The latency distribution.
    pub distribution: Distribution,
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
    /// Flushes.
    pub flush: Direction,
}

impl Directions {
    /// The directions with their names, in the order of reports.
    pub fn named(&self) -> [(&'static str, &Direction); 4] {
        [("read", &self.read), ("write", &self.write), ("trim", &self.trim), ("flush", &self.flush)]
    }

    /// Requests of all directions.
    pub fn requests(&self) -> u64 {
        self.named().iter().map(|(_, direction)| direction.requests).sum()
    }
}

#[derive(Clone, Debug, Default)]
struct DirectionRecorder {
    requests: u64,
    errors: u64,
    bytes: u64,
    latency: LatencyRecorder,
    stage_ns: ByStage<u64>,
}

impl DirectionRecorder {
    fn finish(self, simulated: Nanos) -> Direction {
        let per_second = |n: u64| if simulated.0 == 0 { 0.0 } else { n as f64 / simulated.as_secs_f64() };
        let total_ns = self.stage_ns.total().max(1) as f64;
        Direction {
            requests: self.requests,
            bytes: self.bytes,
            errors: self.errors,
            iops: per_second(self.requests - self.errors),
            throughput_bytes_per_second: per_second(self.bytes),
            latency: self.latency.summary(),
            stage_percent: self.stage_ns.map(|ns| ns as f64 * 100.0 / total_ns),
            stage_ns: self.stage_ns,
            distribution: self.latency.distribution(),
        }
    }
}

/// Records completions of all directions; bounded memory.
#[derive(Clone, Debug, Default)]
pub struct RequestRecorder {
    directions: [DirectionRecorder; 4],
}

impl RequestRecorder {
    /// An empty recorder.
    pub fn new() -> RequestRecorder {
        RequestRecorder::default()
    }

    /// Counts one completion of a command of `bytes` bytes (sectors x sector size; 0 for a flush).
    #[inline]
    pub fn record(&mut self, completion: &Completion, bytes: u64) {
        let direction = &mut self.directions[match completion.opcode {
            Opcode::Read => 0,
            Opcode::Write | Opcode::Append | Opcode::Copy => 1,
            Opcode::Trim | Opcode::WriteZeroes | Opcode::Reset | Opcode::Zone(_) => 2,
            Opcode::Flush | Opcode::Report | Opcode::NextUnit => 3,
        }];
        direction.requests += 1;
        if completion.status != Status::Success {
            direction.errors += 1;
            return;
        }
        direction.bytes += bytes;
        direction.latency.record(completion.completed - completion.submitted);
        direction.stage_ns.add(&completion.stages);
    }

    /// Completions recorded.
    pub fn requests(&self) -> u64 {
        self.directions.iter().map(|direction| direction.requests).sum()
    }

    /// The numbers for the report of a run that took `simulated` time.
    pub fn finish(self, simulated: Nanos) -> Directions {
        let [read, write, trim, flush] = self.directions.map(|direction| direction.finish(simulated));
        Directions { read, write, trim, flush }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::{SimTime, Stage, StageTimes};

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
        assert_eq!(recorder.requests(), 6);
        let directions = recorder.finish(Nanos::from_us(1));
        let read = &directions.read;
        assert_eq!((read.requests, read.errors, read.bytes), (3, 1, 8192));
        assert_eq!(read.latency.count, 2);
        assert_eq!(read.latency.mean_ns, Some(400.0));
        assert_eq!(read.stage_ns.total(), 800);
        assert_eq!(read.stage_percent[Stage::Queue], 12.5);
        assert_eq!(read.stage_percent[Stage::Media], 87.5);
        assert_eq!(read.iops, 2e6);
        assert_eq!(read.throughput_bytes_per_second, 8192e6);
        assert_eq!(directions.trim.requests, 2);
        assert_eq!(directions.flush.bytes, 0);
        assert_eq!(directions.write, Direction::default());
        assert_eq!(directions.requests(), 6);
    }
}
