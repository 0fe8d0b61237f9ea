//! Names that end.
//!
//! ```text
//!   dropped by an operation ─► (its commit is durable) to free ─► being freed ─► gone
//! ```
//! The free of a name frees what the drive has moved it to, too. Invariant: dropped names are in the order of the commits that they wait for.

use super::owners::Owner;
use std::collections::{BTreeMap, VecDeque};

/// A name that no file has any more in memory.
#[derive(Clone, Copy, Debug)]
struct Dropped {
    name: u64,
    /// Its owner in what is durable.
    owner: Option<Owner>,
    /// The batch that has to be durable first; `None`: the next commit's.
    seq: Option<u64>,
}

/// Names that end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frees {
    dropped: VecDeque<Dropped>,
    to_free: Vec<u64>,
    /// Names that are being freed, and what they were moved to meanwhile.
    freeing: BTreeMap<u64, Option<u64>>,
    /// Jobs under way, and the names that each frees.
    jobs: BTreeMap<u64, Vec<u64>>,
    /// Names are short: those that are dropped should be freed.
    short: bool,
}

impl Frees {
    /// Names that end, and that the drive still counts.
    pub fn len(&self) -> usize {
        self.dropped.len() + self.freeing.len() + self.to_free.len()
    }

    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.to_free.is_empty()
    }

    /// Returns whether names are being freed.
    pub fn is_under_way(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Notes that names are short.
    pub fn be_short(&mut self) {
        self.short = true;
    }

    /// A name belongs to no file any more; it belonged to `owner`.
    pub fn drop_name(&mut self, name: u64, owner: Option<Owner>) {
        self.dropped.push_back(Dropped { name, owner, seq: None });
    }

    /// A name is found that no file has. It waits for a batch that is built already, and so comes before names that wait for a commit.
    pub fn drop_found(&mut self, name: u64, seq: u64) {
        self.dropped.push_front(Dropped { name, owner: None, seq: Some(seq) });
    }

    /// Frees a name that no extent ever had.
    pub fn free(&mut self, name: u64) {
        self.to_free.push(name);
    }

    pub fn is_dropped(&self, name: u64) -> bool {
        self.dropped.iter().any(|dropped| dropped.name == name)
    }

    /// Gives a dropped name its new name, by a record in a batch. Returns the owners that it has in what is durable.
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

    /// A commit is built, whose last batch has this number: what was dropped before it is free when it is durable.
    pub fn committed(&mut self, seq: u64) {
        self.dropped.iter_mut().rev().take_while(|d| d.seq.is_none()).for_each(|d| d.seq = Some(seq));
    }

    /// Everything up to a batch is durable.
    pub fn durable(&mut self, through: u64) {
        while self.is_free_by(through)
            && let Some(dropped) = self.dropped.pop_front()
        {
            self.to_free.push(dropped.name);
        }
        self.short &= self.dropped.iter().any(|dropped| dropped.seq.is_some());
    }

    /// Returns whether the first dropped name can be freed once everything up to a batch is durable.
    fn is_free_by(&self, through: u64) -> bool {
        self.dropped.front().and_then(|dropped| dropped.seq).is_some_and(|seq| seq <= through)
    }

    pub fn wants_flush(&self, through: u64) -> bool {
        self.short && self.is_free_by(through)
    }

    /// Returns whether names can be freed now.
    pub fn has_next(&self) -> bool {
        !self.to_free.is_empty()
    }

    /// Takes the names to free, for a job. `moved` has the new name of each moved one.
    pub fn begin(&mut self, id: u64, moved: impl Fn(u64) -> Option<u64>) -> Vec<u64> {
        let names = std::mem::take(&mut self.to_free);
        self.freeing.extend(names.iter().map(|&name| (name, moved(name))));
        self.jobs.insert(id, names.clone());
        names
    }

    pub fn is_freeing(&self, name: u64) -> bool {
        self.freeing.contains_key(&name)
    }

    /// The drive has moved a name. Returns false if it is not being freed.
    pub fn moved(&mut self, old: u64, new: u64) -> bool {
        let freeing = self.freeing.get_mut(&old);
        freeing.map(|moved| *moved = Some(new)).is_some()
    }

    /// A job has ended. Returns whether it freed names.
    pub fn ended(&mut self, id: u64, done: bool) -> bool {
        let Some(names) = self.jobs.remove(&id) else { return false };
        for name in names {
            let new = self.freeing.remove(&name).flatten();
            // A name that had ended with its move (prototype): its new one is to be freed.
            if !done {
                self.to_free.extend(new);
            }
        }
        true
    }
}
