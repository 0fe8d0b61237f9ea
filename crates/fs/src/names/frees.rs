//! Names that end.
//!
//! ```text
//!   dropped by an operation ─► (its commit is durable) to free ─► being freed ─► gone
//! ```
//! Freeing a name also frees the name to which the drive has moved it. Invariant: dropped names are in the order of the commits that they wait for.

use super::owners::Owner;
use std::collections::{BTreeMap, VecDeque};

/// A name that no file in memory has any more.
#[derive(Clone, Copy, Debug)]
struct Dropped {
    name: u64,
    /// Its owner in the durable state.
    owner: Option<Owner>,
    /// The batch that must be durable first; `None`: that of the next commit.
    seq: Option<u64>,
}

/// Names that end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frees {
    dropped: VecDeque<Dropped>,
    to_free: Vec<u64>,
    /// Names being freed, and the names to which they were moved meanwhile.
    freeing: BTreeMap<u64, Option<u64>>,
    /// Jobs in flight, with the names that each frees.
    jobs: BTreeMap<u64, Vec<u64>>,
    /// True if names are short, so that dropped ones should be freed.
    short: bool,
}

impl Frees {
    /// Number of ended names that the drive still counts.
    pub fn len(&self) -> usize {
        self.dropped.len() + self.freeing.len() + self.to_free.len()
    }

    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.to_free.is_empty()
    }

    /// Reports whether names are being freed.
    pub fn is_under_way(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Notes that names are short.
    pub fn be_short(&mut self) {
        self.short = true;
    }

    /// Drops a name that belonged to `owner`.
    pub fn drop_name(&mut self, name: u64, owner: Option<Owner>) {
        self.dropped.push_back(Dropped { name, owner, seq: None });
    }

    /// Drops a found name that no file has. It waits for a batch that is already built, and thus precedes names that wait for a commit.
    pub fn drop_found(&mut self, name: u64, seq: u64) {
        self.dropped.push_front(Dropped { name, owner: None, seq: Some(seq) });
    }

    /// Frees a name that never was in an extent.
    pub fn free(&mut self, name: u64) {
        self.to_free.push(name);
    }

    pub fn is_dropped(&self, name: u64) -> bool {
        self.dropped.iter().any(|dropped| dropped.name == name)
    }

    /// Renames a dropped name, with a record in a batch. Returns its owners in the durable state.
    pub fn rename(&mut self, old: u64, new: u64, batch: u64) -> Vec<Owner> {
        let renamed = self.dropped.iter_mut().filter(|dropped| dropped.name == old);
        renamed
            .filter_map(|dropped| {
                dropped.name = new;
                // The old name is acknowledged before the new one is freed.
                dropped.seq = dropped.seq.map(|seq| seq.max(batch));
                dropped.owner
            })
            .collect()
    }

    /// Notes a commit with last batch `seq`: names dropped before it are free once it is durable.
    pub fn committed(&mut self, seq: u64) {
        self.dropped.iter_mut().rev().take_while(|d| d.seq.is_none()).for_each(|d| d.seq = Some(seq));
    }

    /// Notes that everything up to a batch is durable.
    pub fn durable(&mut self, through: u64) {
        while self.is_free_by(through)
            && let Some(dropped) = self.dropped.pop_front()
        {
            self.to_free.push(dropped.name);
        }
        self.short &= self.dropped.iter().any(|dropped| dropped.seq.is_some());
    }

    /// Reports whether the first dropped name can be freed once everything up to a batch is durable.
    fn is_free_by(&self, through: u64) -> bool {
        self.dropped.front().and_then(|dropped| dropped.seq).is_some_and(|seq| seq <= through)
    }

    pub fn wants_flush(&self, through: u64) -> bool {
        self.short && self.is_free_by(through)
    }

    /// Reports whether names can be freed now.
    pub fn has_next(&self) -> bool {
        !self.to_free.is_empty()
    }

    /// Takes names to free, for a job. `moved` returns the new name of a moved one.
    pub fn begin(&mut self, id: u64, moved: impl Fn(u64) -> Option<u64>) -> Vec<u64> {
        let names = std::mem::take(&mut self.to_free);
        self.freeing.extend(names.iter().map(|&name| (name, moved(name))));
        self.jobs.insert(id, names.clone());
        names
    }

    pub fn is_freeing(&self, name: u64) -> bool {
        self.freeing.contains_key(&name)
    }

    /// Notes that the drive has moved a name. Returns false if it is not being freed.
    pub fn moved(&mut self, old: u64, new: u64) -> bool {
        let freeing = self.freeing.get_mut(&old);
        freeing.map(|moved| *moved = Some(new)).is_some()
    }

    /// Handles the end of a job. Returns whether it freed names.
    pub fn ended(&mut self, id: u64, done: bool) -> bool {
        let Some(names) = self.jobs.remove(&id) else { return false };
        for name in names {
            let new = self.freeing.remove(&name).flatten();
            // In the prototype, a name ended with its move: its new name must be freed.
            if !done {
                self.to_free.extend(new);
            }
        }
        true
    }
}
