//! The in-flight table: whose request is whose.
//!
//! Invariants: a tag is in use from [`InFlight::enter`] to [`InFlight::leave`], and is the backend's name for the request in between;
//! `bytes` is the sum of the data of all that are in use. Tags are reused, so there are never more than requests at one time.

use super::Route;

/// A request that has not been answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Where its answer goes.
    pub route: Route,
    /// The owner's number of what it is for: a namespace of a drive. The engine does not look at it.
    pub namespace: usize,
    /// Of the data it was submitted with.
    pub bytes: usize,
    /// What it counts in the [submission batch](super::submission) while it is inside; 0: it is not, or went past it.
    pub inside: usize,
}

/// The requests that have not been answered.
#[derive(Default)]
pub(super) struct InFlight {
    entries: Vec<Entry>,
    idle: Vec<u32>,
    bytes: usize,
}

impl InFlight {
    /// Takes a request in and gives it its tag.
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

    /// The request of a tag goes into its backend, where it counts so much.
    #[inline]
    pub fn charge(&mut self, tag: u32, cost: usize) {
        self.entries[tag as usize].inside = cost;
    }

    /// It has come out of the backend; what it counted.
    #[inline]
    pub fn discharge(&mut self, tag: u32) -> usize {
        std::mem::take(&mut self.entries[tag as usize].inside)
    }

    /// The request of a tag has been answered.
    #[inline]
    pub fn leave(&mut self, tag: u32) -> Entry {
        let entry = self.entries[tag as usize];
        self.idle.push(tag);
        self.bytes -= entry.bytes;
        entry
    }

    /// Requests that have not been answered.
    pub fn outstanding(&self) -> usize {
        self.entries.len() - self.idle.len()
    }

    /// Bytes of their data.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
