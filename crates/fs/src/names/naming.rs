//! Pages being named.
//!
//! ```text
//!   dirty, queued ─► a nameless write ─► written, with names ─► in extents ─► flushed
//! ```

use super::owners::Owner;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of nameless writes in flight.
const WRITES_MAX: usize = 16;
/// Number of consecutive failed nameless writes after which writing stops.
const FAILURES_MAX: u32 = 16;

/// Pages being named.
#[derive(Clone, Debug, Default)]
pub(crate) struct Naming {
    /// Pages to name, in order.
    queue: VecDeque<Owner>,
    /// Nameless writes in flight.
    writes: BTreeMap<u64, Vec<Owner>>,
    /// Completed writes: owners of the blocks, and their names.
    written: VecDeque<(Vec<Owner>, Vec<u64>)>,
    /// Consecutive failed nameless writes.
    failures: u32,
    /// True while pages of a commit are being named.
    active: bool,
    /// True if names were given since the last flush of data.
    unflushed: bool,
    /// True if the flush in flight makes all names in extents durable.
    flushes_data: bool,
    /// Blocks sent since the mount.
    blocks: u64,
}

impl Naming {
    /// Number of names that are being given, or are in no extent yet.
    pub fn len(&self) -> usize {
        let under_way = self.writes.values().map(Vec::len).sum::<usize>();
        under_way + self.written.iter().map(|(_, names)| names.len()).sum::<usize>()
    }

    pub fn is_idle(&self) -> bool {
        self.writes.is_empty() && self.written.is_empty()
    }

    /// Returns whether pages of a commit are being named.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Reports whether all pages have their names.
    pub fn is_named(&self) -> bool {
        self.queue.is_empty() && self.writes.is_empty() && self.written.is_empty()
    }

    /// Returns whether names were given since the last flush of data.
    pub fn is_unflushed(&self) -> bool {
        self.unflushed
    }

    /// Blocks sent since the mount.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Starts to name the pages of a commit.
    pub fn begin(&mut self, pages: impl Iterator<Item = Owner>) {
        self.active = true;
        self.queue = pages.collect();
    }

    /// Notes that all pages of a commit have names; a flush makes them durable.
    pub fn await_flush(&mut self) {
        self.active = true;
    }

    /// Notes that the names of a commit are durable.
    pub fn end(&mut self) {
        self.active = false;
    }

    // ---- nameless writes

    /// Returns whether one more nameless write may be started.
    pub fn may_send(&self) -> bool {
        self.writes.len() < WRITES_MAX
    }

    /// The next page to name.
    pub fn next(&mut self) -> Option<Owner> {
        self.queue.pop_front()
    }

    /// Notes the job that writes these blocks.
    pub fn sending(&mut self, id: u64, owners: Vec<Owner>) {
        self.blocks += owners.len() as u64;
        self.writes.insert(id, owners);
    }

    pub fn is_sending(&self) -> bool {
        !self.writes.is_empty()
    }

    pub fn is_asked(&self, id: u64) -> bool {
        self.writes.contains_key(&id)
    }

    /// Handles the end of a job. If it was a nameless write, returns the blocks.
    pub fn sent(&mut self, id: u64) -> Option<Vec<Owner>> {
        self.writes.remove(&id)
    }

    /// Takes the names that a nameless write has given.
    pub fn got_names(&mut self, owners: Vec<Owner>, names: Vec<u64>) {
        self.failures = 0;
        self.written.push_back((owners, names));
    }

    /// Handles a failed nameless write: its pages stay dirty and will get new names. `space_comes`: it may have failed for lack of space
    /// that will become free. Returns whether too many have failed in a row.
    pub fn failed(&mut self, space_comes: bool) -> bool {
        self.failures += u32::from(!space_comes);
        self.failures > FAILURES_MAX
    }

    // ---- names

    /// Returns whether a name is in no extent yet.
    pub fn has_name(&self, name: u64) -> bool {
        self.written.iter().any(|(_, names)| names.contains(&name))
    }

    /// The next blocks whose names go into extents.
    pub fn take_written(&mut self) -> Option<(Vec<Owner>, Vec<u64>)> {
        self.written.pop_front()
    }

    /// Takes back blocks whose names cannot go into extents yet.
    pub fn give_back(&mut self, owners: Vec<Owner>, names: Vec<u64>) {
        self.written.push_front((owners, names));
    }

    /// Notes that names went into extents.
    pub fn settled(&mut self) {
        self.unflushed = true;
    }

    // ---- flushes

    pub fn wants_flush(&self) -> bool {
        self.active && self.unflushed && self.is_named()
    }

    pub fn flush_began(&mut self) {
        self.flushes_data = self.wants_flush();
    }

    pub fn flush_ended(&mut self) {
        if std::mem::take(&mut self.flushes_data) {
            self.unflushed = false;
        }
    }
}
