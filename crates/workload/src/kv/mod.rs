//! Key-value work: the published laws of keys and values, and the requests made of them.
//!
//! [`laws`] has the distributions, [`Workload`] makes requests of them, [`KvReader`] reads requests from a trace; both are [`Requests`].

pub mod laws;
mod requests;

pub use requests::{Workload, WorkloadConfig};

use crate::trace::TraceError;
use crate::trace::kv::{KvReader, KvRecord};

/// Where requests come from.
pub trait Requests {
    /// The next one into `record`; false when there is none.
    fn next_into(&mut self, record: &mut KvRecord) -> Result<bool, TraceError>;
}

impl Requests for KvReader {
    fn next_into(&mut self, record: &mut KvRecord) -> Result<bool, TraceError> {
        KvReader::next_into(self, record)
    }
}
