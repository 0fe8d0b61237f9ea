//! Commits: durable changes, and changes requested to become durable.
//!
//! ```text
//!   changes ─► built (a commit has them) ─► written ─► flushed ─► recorded ─► durable
//!                                                 └─► failed: a hole, until a checkpoint is durable that is made later
//! ```
//! Changes are numbered; a sync point is such a number. Batches of the log are numbered, too, and a commit is known by its last batch. A write
//! that failed leaves a hole in these numbers that no mount gets over: then only a checkpoint makes anything durable.
//!
//! Invariants: `durable` never falls; `pending` has both numbers in rising order; syncs that wait are above `durable`.

use crate::types::{SyncPoint, Time};
use std::collections::VecDeque;

/// Dirty data are written after this time.
pub(crate) const DIRTY_NS: u64 = 5_000_000_000;

/// Changes, and how far they are durable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commits {
    /// Changing operations so far.
    changes: u64,
    /// Since when something is dirty.
    dirty_since: Option<Time>,
    /// Sync points that wait.
    syncs: VecDeque<u64>,
    /// A commit is wanted at once.
    now: bool,
    /// Changes that the last commit built holds.
    built: u64,
    /// Commits that are not durable: number of the last batch, and changes.
    pending: VecDeque<(u64, u64)>,
    durable: u64,
    /// Only a checkpoint makes anything durable.
    hole: bool,
    /// The newest batch that could not be written.
    failed: u64,
    /// Batches up to this one are durable, and numbered without a hole since the newest checkpoint.
    flushed: u64,
    /// The sync record is to be written anew.
    record_due: bool,
    /// The write of the sync record in flight, and the batch up to which it records durability.
    recording: Option<(u64, u64)>,
    /// Commits that were built.
    count: u64,
}

impl Commits {
    /// Commits of a file system that was just made, with its root directory as the first change.
    pub fn of_format() -> Commits {
        Commits { changes: 1, hole: true, ..Commits::default() }
    }

    /// Begins the use after a mount: until its first checkpoint, only the data found are durable.
    pub fn mounted(&mut self) {
        let (changes, dirty_since) = (self.changes, self.dirty_since);
        *self = Commits { changes, dirty_since, durable: changes, hole: true, ..Commits::default() };
    }

    // ---- changes

    /// An operation has changed something.
    pub fn changed(&mut self) {
        self.changes += 1;
    }

    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Something is dirty.
    pub fn dirtied(&mut self, now: Time) {
        self.dirty_since.get_or_insert(now);
    }

    /// Returns when the next commit is due because something is dirty.
    pub fn due_at(&self) -> Option<Time> {
        self.dirty_since.map(|since| since.after(DIRTY_NS))
    }

    // ---- what is wanted

    /// Wants all changes so far to be durable.
    pub fn sync(&mut self) -> SyncPoint {
        self.want(self.changes);
        SyncPoint(self.changes)
    }

    fn want(&mut self, point: u64) {
        if point > self.durable && self.syncs.back().is_none_or(|&last| last < point) {
            self.syncs.push_back(point);
        }
    }

    /// Wants the changes of the last commit to be durable.
    pub fn want_built(&mut self) {
        self.want(self.built);
    }

    /// Wants a commit at once.
    pub fn want_now(&mut self) {
        self.now = true;
    }

    /// The commit that was wanted begins.
    pub fn begins(&mut self) {
        self.now = false;
    }

    /// Returns whether any change has been dirty for too long.
    pub fn is_overdue(&self, now: Time) -> bool {
        self.dirty_since.is_some_and(|since| now.since(since) >= DIRTY_NS)
    }

    pub fn is_due(&self, now: Time) -> bool {
        let asked = self.syncs.back().is_some_and(|&point| point > self.built);
        asked || self.is_overdue(now) || self.now
    }

    pub fn has_syncs(&self) -> bool {
        !self.syncs.is_empty()
    }

    // ---- commits

    /// A commit is built that ends with this batch.
    pub fn was_built(&mut self, seq: u64) {
        self.dirty_since = None;
        self.built = self.changes;
        self.pending.push_back((seq, self.changes));
        self.count += 1;
    }

    /// A commit would be empty: all changes are in the one before it.
    pub fn was_empty(&mut self) {
        self.dirty_since = None;
        self.built = self.changes;
        if self.pending.is_empty() && !self.hole {
            self.set_durable(self.changes);
        } else if let Some(last) = self.pending.back_mut() {
            last.1 = self.changes;
        }
    }

    /// A batch of the log has records of moves, and no other change.
    pub fn moves_recorded(&mut self, seq: u64) {
        self.pending.push_back((seq, self.built));
    }

    /// Number of commits since the mount.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// A batch could not be written.
    pub fn failed(&mut self, seq: u64) {
        self.hole = true;
        self.failed = self.failed.max(seq);
    }

    /// Returns whether only a checkpoint makes anything durable.
    pub fn has_hole(&self) -> bool {
        self.hole
    }

    // ---- what is durable

    fn set_durable(&mut self, changes: u64) {
        self.durable = self.durable.max(changes);
        while self.syncs.front().is_some_and(|&point| point <= self.durable) {
            self.syncs.pop_front();
        }
    }

    pub fn is_durable(&self, SyncPoint(point): SyncPoint) -> bool {
        point <= self.durable
    }

    /// Batches up to this one are durable.
    pub fn flushed_through(&self) -> u64 {
        self.flushed
    }

    /// Returns whether a flush serves a sync, when all batches up to `through` are written.
    pub fn wants_flush(&self, through: u64) -> bool {
        let wanted = self.syncs.front().copied();
        let is_new = |seq: u64| seq <= through && seq > self.flushed;
        let serves =
            |&(seq, changes): &(u64, u64)| wanted.is_some_and(|point| changes >= point && is_new(seq));
        !self.hole && self.pending.iter().any(serves)
    }

    /// Handles the end of a flush that began when all batches up to `through` were written. Returns false if a gap makes it useless. If the
    /// drive has a sync record, changes are durable only once that is written.
    pub fn flush_ended(&mut self, through: u64, has_record: bool) -> bool {
        if self.hole {
            return false;
        }
        self.flushed = self.flushed.max(through);
        let has_new = self.pending.front().is_some_and(|&(seq, _)| seq <= through);
        match has_record {
            true => self.record_due |= has_new,
            false => self.recorded(through),
        }
        true
    }

    /// Everything up to a batch is durable, and a mount will know it.
    fn recorded(&mut self, through: u64) {
        while let Some(&(seq, changes)) = self.pending.front()
            && seq <= through
        {
            self.pending.pop_front();
            self.set_durable(changes);
        }
    }

    /// A checkpoint is durable that has all batches before `seq`, and these changes.
    pub fn checkpointed(&mut self, seq: u64, changes: u64, has_record: bool) {
        self.hole = self.failed >= seq;
        self.record_due = has_record;
        self.pending.retain(|pending| pending.0 >= seq);
        self.set_durable(changes);
    }

    // ---- the sync record

    /// Returns whether the sync record must be written, and clears the flag.
    pub fn take_record(&mut self) -> bool {
        self.recording.is_none() && std::mem::take(&mut self.record_due)
    }

    pub fn has_record_due(&self) -> bool {
        self.record_due
    }

    /// The sync record is being written by a job.
    pub fn recording(&mut self, id: u64) {
        self.recording = Some((id, self.flushed));
    }

    /// A job has ended. Returns whether it was the write of the sync record.
    pub fn record_ended(&mut self, id: u64) -> bool {
        let record = self.recording.take_if(|(recording, _)| *recording == id);
        record.inspect(|&(_, through)| self.recorded(through)).is_some()
    }
}
