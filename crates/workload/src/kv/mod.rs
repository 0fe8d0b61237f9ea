//! Key-value workloads: the published laws of keys and values, and requests drawn from them.
//!
//! [`laws`] has the distributions, [`Workload`] draws requests from them, [`KvReader`] reads requests from a trace; both implement [`Requests`].

pub mod laws;
mod requests;

pub use requests::{Workload, WorkloadConfig};

use crate::trace::TraceError;
use crate::trace::kv::{KvReader, KvRecord};
use pellucid_flash::Nanos;

/// Reaction of a client to a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum OnMiss {
    /// Do nothing.
    Nothing,
    /// Store the value, if its size is known. Obtaining it costs nothing.
    Store,
    /// Fetch the value from a database, and store it.
    Query(DatabaseConfig),
}

impl OnMiss {
    /// Its name, as in `on_miss`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The database behind a cache, as the cost of a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseConfig {
    /// Maximum number of simultaneous queries.
    pub servers: u32,
    /// Minimum time of a query.
    pub fixed: Nanos,
    /// Mean time beyond the minimum.
    pub variable: Nanos,
}

impl Default for DatabaseConfig {
    /// A dozen simultaneous queries, each with a mean of 200 us: assumed.
    fn default() -> DatabaseConfig {
        DatabaseConfig { servers: 12, fixed: Nanos::from_us(100), variable: Nanos::from_us(100) }
    }
}

/// Source of requests.
pub trait Requests {
    /// Reads the next one into `record`, and returns how many such requests one client makes in sequence; 0 at the end.
    fn next_into(&mut self, record: &mut KvRecord) -> Result<u64, TraceError>;

    /// Returns true if requests to one key must stay in order.
    fn are_ordered_by_key(&self) -> bool {
        false
    }
}

impl Requests for KvReader {
    fn next_into(&mut self, record: &mut KvRecord) -> Result<u64, TraceError> {
        KvReader::next_into(self, record)
    }

    fn are_ordered_by_key(&self) -> bool {
        true
    }
}
