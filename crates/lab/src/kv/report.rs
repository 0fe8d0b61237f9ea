//! Measurements of the clients.

use pellucid_flash::{Nanos, SimTime};
use pellucid_report::{Latency, LatencyRecorder};
use serde::Serialize;

/// Outcome of the requests of one run, in simulated time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KvSummary {
    /// Requests of clients; the set after a miss does not count as a separate request.
    pub requests: u64,
    /// Time from the first request to the last answer.
    pub seconds: f64,
    /// Requests per second.
    pub requests_per_second: f64,
    /// Hits per get; absent without gets.
    pub hit_ratio: Option<f64>,
    /// Gets that found a value of another key, or one that was never stored. Any number but 0 is an error of the cache.
    pub wrong_values: u64,
    /// Stores and other requests that failed: no room, wrong size, or a failure of the flash.
    pub failed: u64,
    /// Latencies by kind.
    pub operations: Operations,
}

/// Latencies by kind, each from the request to its answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Operations {
    /// Whole requests; after a miss, with the database and the set.
    pub request: Latency,
    /// Gets that hit.
    pub hit: Latency,
    /// Gets that missed, until the cache said so.
    pub miss: Latency,
    /// Sets, adds and other stores.
    pub store: Latency,
    /// Sets after a missed get.
    pub fill: Latency,
    /// Database queries, including their wait; none without a database.
    pub query: Latency,
    /// All other requests.
    pub other: Latency,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    Hit,
    Miss,
    Store,
    Fill,
    Query,
    Other,
}

#[derive(Clone, Debug)]
pub(super) struct Meter {
    kinds: Vec<LatencyRecorder>,
    begun: SimTime,
    pub wrong_values: u64,
    pub failed: u64,
}

impl Meter {
    pub fn new(begun: SimTime) -> Meter {
        let kinds = vec![LatencyRecorder::new(); Kind::Other as usize + 1];
        Meter { kinds, begun, wrong_values: 0, failed: 0 }
    }

    pub fn record(&mut self, kind: Kind, from: SimTime, to: SimTime) {
        self.kinds[kind as usize].record(Nanos(to.0 - from.0));
    }

    pub fn summary(&self, now: SimTime) -> KvSummary {
        let of = |kind: Kind| self.kinds[kind as usize].summary();
        let operations = Operations {
            request: of(Kind::Request),
            hit: of(Kind::Hit),
            miss: of(Kind::Miss),
            store: of(Kind::Store),
            fill: of(Kind::Fill),
            query: of(Kind::Query),
            other: of(Kind::Other),
        };
        let seconds = (now.0 - self.begun.0) as f64 / 1e9;
        let (requests, hits) = (operations.request.count, operations.hit.count);
        let gets = hits + operations.miss.count;
        KvSummary {
            requests,
            seconds,
            requests_per_second: if seconds > 0.0 { requests as f64 / seconds } else { 0.0 },
            hit_ratio: (gets > 0).then(|| hits as f64 / gets as f64),
            wrong_values: self.wrong_values,
            failed: self.failed,
            operations,
        }
    }
}
