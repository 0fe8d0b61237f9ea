//! Moves: blocks that the drive has put elsewhere, and its report on all names at a mount.
//!
//! ```text
//!   told ─► recorded in a batch ─► (durable, and not being read) acknowledged
//! ```
//! Nothing is recorded before the report of a mount has arrived.

use crate::key::Key;
use std::collections::{BTreeSet, VecDeque};

/// State of the drive's report after a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Report {
    /// It has arrived, or is not needed: the drive has no names, or nothing is changed.
    #[default]
    Done,
    Wanted,
    /// A job asks for it.
    Asked(u64),
}

/// Moves of the drive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    /// Old and new name of each unrecorded move.
    told: VecDeque<(u64, u64)>,
    /// Moves told by the mount's report, so that they are not handled twice.
    reported: BTreeSet<(u64, u64)>,
    /// Records that are not durable: batch, and old names.
    records: VecDeque<(u64, Vec<u64>)>,
    to_acknowledge: Vec<u64>,
    /// Acknowledging jobs.
    acknowledging: BTreeSet<u64>,
    report: Report,
    /// The job that ends when the drive has moved something.
    poll: Option<u64>,
    /// Keys whose present content belongs into the next commit.
    cuts: Vec<Key>,
    /// Blocks moved since the mount.
    count: u64,
}

impl Moves {
    pub fn is_idle(&self) -> bool {
        let asks = self.poll.is_some() || matches!(self.report, Report::Asked(_));
        !asks && self.acknowledging.is_empty() && self.to_acknowledge.is_empty() && self.records.is_empty()
    }

    /// Reports whether acknowledgements are pending.
    pub fn acknowledges(&self) -> bool {
        let waiting = !self.told.is_empty() || !self.records.is_empty() || !self.to_acknowledge.is_empty();
        waiting || !self.acknowledging.is_empty()
    }

    pub fn is_asked(&self, id: u64) -> bool {
        self.poll == Some(id) || self.report == Report::Asked(id)
    }

    /// Blocks moved since the mount.
    pub fn count(&self) -> u64 {
        self.count
    }

    // ---- the report of a mount

    /// Requests the drive's report, after a mount or a format.
    pub fn want_report(&mut self) {
        self.report = Report::Wanted;
    }

    pub fn wants_report(&self) -> bool {
        self.report == Report::Wanted
    }

    /// Notes the job that asks for the report.
    pub fn asking(&mut self, id: u64) {
        self.report = Report::Asked(id);
    }

    /// Reports whether the report has arrived.
    pub fn is_reported(&self) -> bool {
        self.report == Report::Done
    }

    /// Handles the end of a job. Returns whether it asked for the report.
    pub fn report_came(&mut self, id: u64) -> bool {
        let came = self.report == Report::Asked(id);
        if came {
            self.report = Report::Done;
        }
        came
    }

    /// Clears the reported moves: the drive's report contains them, too.
    pub fn forget_told(&mut self) {
        self.told.clear();
    }

    /// Adds a move from the report.
    pub fn add_reported(&mut self, old: u64, new: u64) {
        self.reported.insert((old, new));
    }

    /// Reports whether the report contained a move, and removes it.
    pub fn was_reported(&mut self, old: u64, new: u64) -> bool {
        self.reported.remove(&(old, new))
    }

    // ---- moves that were told

    pub fn tell(&mut self, old: u64, new: u64) {
        self.told.push_back((old, new));
    }

    /// Number of unrecorded moves.
    pub fn waiting(&self) -> usize {
        self.told.len()
    }

    pub fn next(&mut self) -> Option<(u64, u64)> {
        self.told.pop_front()
    }

    /// The new name of a name with an unrecorded move.
    pub fn new_name(&self, name: u64) -> Option<u64> {
        self.told.iter().find(|(old, _)| *old == name).map(|&(_, new)| new)
    }

    /// Drops moves of names that end.
    pub fn retain(&mut self, keeps: impl Fn(u64) -> bool) {
        self.told.retain(|&(old, _)| keeps(old));
    }

    // ---- records and acknowledgements

    /// Notes a batch with records of these old names.
    pub fn recorded(&mut self, seq: u64, olds: Vec<u64>) {
        self.count += olds.len() as u64;
        self.records.push_back((seq, olds));
    }

    /// Notes old names whose records already are in the log, up to a batch: only their acknowledgement was lost.
    pub fn found_recorded(&mut self, seq: u64, olds: Vec<u64>) {
        self.records.push_back((seq, olds));
    }

    /// Notes that everything up to a batch is durable.
    pub fn durable(&mut self, through: u64) {
        while self.wants_flush(through)
            && let Some((_, olds)) = self.records.pop_front()
        {
            self.to_acknowledge.extend(olds);
        }
    }

    pub fn wants_flush(&self, through: u64) -> bool {
        self.records.front().is_some_and(|(seq, _)| *seq <= through)
    }

    /// Takes the old names whose moves are durably recorded and that are `free` of reads.
    pub fn take_acknowledged(&mut self, free: impl Fn(u64) -> bool) -> Vec<u64> {
        self.to_acknowledge.extract_if(.., |name| free(*name)).collect()
    }

    /// Notes an acknowledging job.
    pub fn acknowledging(&mut self, id: u64) {
        self.reported.clear();
        self.acknowledging.insert(id);
    }

    /// Handles the end of a job. Returns whether it acknowledged moves.
    pub fn acknowledged(&mut self, id: u64) -> bool {
        self.acknowledging.remove(&id)
    }

    // ---- keys that a commit has to name

    /// Adds a key whose present content belongs into the next commit.
    pub fn add_cut(&mut self, key: Key) {
        self.cuts.push(key);
    }

    /// Keys whose present content belongs into the next commit.
    pub fn cuts(&self) -> &[Key] {
        &self.cuts
    }

    /// Takes these keys.
    pub fn take_cuts(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.cuts)
    }

    // ---- the poll

    pub fn is_polling(&self) -> bool {
        self.poll.is_some()
    }

    /// Notes the job that ends when the drive has moved something.
    pub fn polling(&mut self, id: u64) {
        self.poll = Some(id);
    }

    /// Handles the end of a job, in case it was the poll.
    pub fn polled(&mut self, id: u64) {
        self.poll.take_if(|poll| *poll == id);
    }
}
