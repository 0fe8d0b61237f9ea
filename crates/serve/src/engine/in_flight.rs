//! The in-flight table: maps the tags of requests to their owners.
//!
//! Invariants: a tag is in use from [`InFlight::enter`] to [`InFlight::leave`], and the backend knows the
//! request by it; `bytes` is the sum of the data of all requests in the table. Tags are reused, so their
//! number is at most the peak of concurrent requests.

use pellucid_target::connection::Route;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Destination of its answer.
    pub route: Route,
    /// Number chosen by the owner: for a drive, the namespace. The engine does not interpret it.
    pub namespace: usize,
    /// Bytes of data that the request was submitted with.
    pub bytes: usize,
    /// Cost charged to the [submission batch](super::submission) while the backend has it; 0 while it has
    /// not, or if it bypassed the batch.
    pub inside: usize,
}

/// The requests in flight.
#[derive(Default)]
pub(super) struct InFlight {
    entries: Vec<Entry>,
    idle: Vec<u32>,
    bytes: usize,
}

impl InFlight {
    /// Adds a request and returns its tag.
    #[inline]
    pub fn enter(&mut self, entry: Entry) -> u32 {
        self.bytes += entry.bytes;
        match self.idle.pop() {
            Some(tag) => {
                self.entries[tag as usize] = entry;
                tag
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        }
    }

    /// The request of a tag.
    #[inline]
    pub fn of(&self, tag: u32) -> &Entry {
        &self.entries[tag as usize]
    }

    /// Charges a cost to a request that enters its backend.
    #[inline]
    pub fn charge(&mut self, tag: u32, cost: usize) {
        self.entries[tag as usize].inside = cost;
    }

    /// Clears the cost of a request that has left its backend, and returns it.
    #[inline]
    pub fn discharge(&mut self, tag: u32) -> usize {
        std::mem::take(&mut self.entries[tag as usize].inside)
    }

    /// Removes an answered request.
    #[inline]
    pub fn leave(&mut self, tag: u32) -> Entry {
        let entry = self.entries[tag as usize];
        self.idle.push(tag);
        self.bytes -= entry.bytes;
        entry
    }

    /// Number of requests in flight.
    pub fn outstanding(&self) -> usize {
        self.entries.len() - self.idle.len()
    }

    /// Bytes of data of the requests in flight.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
