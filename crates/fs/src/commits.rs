//! Commits: which changes are durable, and which are requested to be.
//!
//! ```text
//!   changes ─► built (a commit has them) ─► written ─► flushed ─► recorded ─► durable
//!                                                 └─► failed: a hole, until a checkpoint is durable that is made later
//! ```
//! Changes are numbered; a sync point is such a number. Batches of the log are numbered too, and a commit is identified by its last batch. A failed
//! write leaves a hole in these numbers at which every mount stops: from then on only a checkpoint makes anything durable.
//!
//! Invariants: `durable` never decreases; `pending` ascends in both numbers; waiting syncs are above `durable`.

use crate::types::{SyncPoint, Time};
use std::collections::VecDeque;

/// Age at which dirty data are written.
pub(crate) const DIRTY_NS: u64 = 5_000_000_000;

/// Changes, and their progress towards durability.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commits {
    /// Number of changing operations so far.
    changes: u64,
    /// Time since when something is dirty.
    dirty_since: Option<Time>,
    /// Waiting sync points.
    syncs: VecDeque<u64>,
    /// True if a commit is wanted at once.
    now: bool,
    /// Changes in the last commit built.
    built: u64,
    /// Commits that are not durable: last batch, and changes.
    pending: VecDeque<(u64, u64)>,
    durable: u64,
    /// True if only a checkpoint makes anything durable.
    hole: bool,
    /// The newest batch whose write failed.
    failed: u64,
    /// Batches up to this one are durable, and numbered without a hole since the newest checkpoint.
    flushed: u64,
    /// True if the sync record must be rewritten.
    record_due: bool,
    /// The write of the sync record in flight, and the batch up to which it records durability.
    recording: Option<(u64, u64)>,
    /// Number of commits built.
    count: u64,
}

impl Commits {
    /// Commits of a new file system, whose first change is its root directory.
    pub fn of_format() -> Commits {
        Commits { changes: 1, hole: true, ..Commits::default() }
    }

    /// Starts the use after a mount: until its first checkpoint, only the data found are durable.
    pub fn mounted(&mut self) {
        let (changes, dirty_since) = (self.changes, self.dirty_since);
        *self = Commits { changes, dirty_since, durable: changes, hole: true, ..Commits::default() };
    }

    // ---- changes

    /// Counts a changing operation.
    pub fn changed(&mut self) {
        self.changes += 1;
    }

    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Notes that something is dirty.
    pub fn dirtied(&mut self, now: Time) {
        self.dirty_since.get_or_insert(now);
    }

    /// Time at which the next commit is due because something is dirty.
    pub fn due_at(&self) -> Option<Time> {
        self.dirty_since.map(|since| since.after(DIRTY_NS))
    }

    // ---- what is wanted

    /// Requests that all changes so far become durable.
    pub fn sync(&mut self) -> SyncPoint {
        self.want(self.changes);
        SyncPoint(self.changes)
    }

    fn want(&mut self, point: u64) {
        if point > self.durable && self.syncs.back().is_none_or(|&last| last < point) {
            self.syncs.push_back(point);
        }
    }

    /// Requests that the changes of the last commit become durable.
    pub fn want_built(&mut self) {
        self.want(self.built);
    }

    /// Requests a commit at once.
    pub fn want_now(&mut self) {
        self.now = true;
    }

    /// Notes that the requested commit begins.
    pub fn begins(&mut self) {
        self.now = false;
    }

    /// Reports whether something has been dirty for too long.
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

    /// Notes a commit that ends with batch `seq`.
    pub fn was_built(&mut self, seq: u64) {
        self.dirty_since = None;
        self.built = self.changes;
        self.pending.push_back((seq, self.changes));
        self.count += 1;
    }

    /// Notes that a commit would be empty: the previous one has all changes.
    pub fn was_empty(&mut self) {
        self.dirty_since = None;
        self.built = self.changes;
        if self.pending.is_empty() && !self.hole {
            self.set_durable(self.changes);
        } else if let Some(last) = self.pending.back_mut() {
            last.1 = self.changes;
        }
    }

    /// Notes a batch that has records of moves and no other change.
    pub fn moves_recorded(&mut self, seq: u64) {
        self.pending.push_back((seq, self.built));
    }

    /// Number of commits since the mount.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Notes a batch whose write failed.
    pub fn failed(&mut self, seq: u64) {
        self.hole = true;
        self.failed = self.failed.max(seq);
    }

    /// Reports whether only a checkpoint makes anything durable.
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

    /// Reports whether a flush would serve a sync, if all batches up to `through` are written.
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

    /// Notes that everything up to a batch is durable, and that a mount will know.
    fn recorded(&mut self, through: u64) {
        while let Some(&(seq, changes)) = self.pending.front()
            && seq <= through
        {
            self.pending.pop_front();
            self.set_durable(changes);
        }
    }

    /// Notes a durable checkpoint that has all batches before `seq`, and these changes.
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

    /// Notes the job that writes the sync record.
    pub fn recording(&mut self, id: u64) {
        self.recording = Some((id, self.flushed));
    }

    /// Handles the end of a job. Returns whether it wrote the sync record.
    pub fn record_ended(&mut self, id: u64) -> bool {
        let record = self.recording.take_if(|(recording, _)| *recording == id);
        record.inspect(|&(_, through)| self.recorded(through)).is_some()
    }
}
