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
