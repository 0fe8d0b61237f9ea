//! Key-value work: the published laws of keys and values, and the requests made of them.
//!
//! [`laws`] has the distributions, [`Workload`] makes requests of them, [`KvReader`] reads requests from a trace; both are [`Requests`].

pub mod laws;
mod requests;

pub use requests::{Workload, WorkloadConfig};

use crate::trace::TraceError;
use crate::trace::kv::{KvReader, KvRecord};
use pellucid_flash::Nanos;

/// Reaction of a client to a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMiss {
    /// Do nothing.
    Nothing,
    /// The value is stored, if its size is known. It costs nothing to have.
    Store,
    /// The value comes from a database, and is stored.
    Query(DatabaseConfig),
}

impl OnMiss {
    /// Its name, as in `on_miss`.
    pub fn name(self) -> &'static str {
        match self {
            OnMiss::Nothing => "nothing",
            OnMiss::Store => "store",
            OnMiss::Query(_) => "query",
        }
    }
}

/// The database behind a cache, as the cost of a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseConfig {
    /// Queries served at the same time.
    pub servers: u32,
    /// Least time of a query.
    pub fixed: Nanos,
    /// The mean of what it takes beyond that.
    pub variable: Nanos,
}

impl Default for DatabaseConfig {
    /// One that answers a dozen queries at a time, each in 200 us in the mean: assumed.
    fn default() -> DatabaseConfig {
        DatabaseConfig { servers: 12, fixed: Nanos::from_us(100), variable: Nanos::from_us(100) }
    }
}

/// Where requests come from.
pub trait Requests {
    /// Reads the next one into `record`, and returns how many such requests one client makes, one after the other; 0 when there is none.
    fn next_into(&mut self, record: &mut KvRecord) -> Result<u64, TraceError>;

    /// Returns true if requests to one key follow one another.
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
