//! Moves: blocks that the drive has put elsewhere, and its report on all names at a mount.
//!
//! ```text
//!   told ─► recorded in a batch ─► (durable, and not being read) acknowledged
//! ```
//! Nothing is recorded before the report of a mount was taken.

use crate::key::Key;
use std::collections::{BTreeSet, VecDeque};

/// Knowledge of the drive's names after a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Report {
    /// It was taken, the drive has no names, or nothing is changed.
    #[default]
    Done,
    Wanted,
    /// A job asks for it.
    Asked(u64),
}

/// Moves of the drive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    /// Old and new name of each move that is not recorded.
    told: VecDeque<(u64, u64)>,
    /// Moves that the report at the mount has told, so that they are not told twice.
    reported: BTreeSet<(u64, u64)>,
    /// Records that are not durable: number of the batch, and the old names.
    records: VecDeque<(u64, Vec<u64>)>,
    to_acknowledge: Vec<u64>,
    /// Jobs that acknowledge.
    acknowledging: BTreeSet<u64>,
    report: Report,
    /// The job that ends when the drive has moved something.
    poll: Option<u64>,
    /// Keys whose present content the next commit has to name.
    cuts: Vec<Key>,
    /// Blocks moved since the mount.
    count: u64,
}

impl Moves {
    pub fn is_idle(&self) -> bool {
        let asks = self.poll.is_some() || matches!(self.report, Report::Asked(_));
        !asks && self.acknowledging.is_empty() && self.to_acknowledge.is_empty() && self.records.is_empty()
    }

    /// Returns whether moves are on their way to be acknowledged.
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

    /// After a mount or a format the drive is asked for its names.
    pub fn want_report(&mut self) {
        self.report = Report::Wanted;
    }

    pub fn wants_report(&self) -> bool {
        self.report == Report::Wanted
    }

    /// A job asks for the report.
    pub fn asking(&mut self, id: u64) {
        self.report = Report::Asked(id);
    }

    /// Returns whether the report was taken.
    pub fn is_reported(&self) -> bool {
        self.report == Report::Done
    }

    /// A job has ended. Returns whether it asked for the report.
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

    /// The report tells a move.
    pub fn add_reported(&mut self, old: u64, new: u64) {
        self.reported.insert((old, new));
    }

    /// Returns whether the report has told a move, and forgets it.
    pub fn was_reported(&mut self, old: u64, new: u64) -> bool {
        self.reported.remove(&(old, new))
    }

    // ---- moves that were told

    pub fn tell(&mut self, old: u64, new: u64) {
        self.told.push_back((old, new));
    }

    /// Moves that are not recorded.
    pub fn waiting(&self) -> usize {
        self.told.len()
    }

    pub fn next(&mut self) -> Option<(u64, u64)> {
        self.told.pop_front()
    }

    /// The new name of a name that was moved, and not recorded.
    pub fn new_name(&self, name: u64) -> Option<u64> {
        self.told.iter().find(|(old, _)| *old == name).map(|&(_, new)| new)
    }

    /// Forgets moves of names that end.
    pub fn retain(&mut self, keeps: impl Fn(u64) -> bool) {
        self.told.retain(|&(old, _)| keeps(old));
    }

    // ---- records and acknowledgements

    /// A batch has the records of these old names.
    pub fn recorded(&mut self, seq: u64, olds: Vec<u64>) {
        self.count += olds.len() as u64;
        self.records.push_back((seq, olds));
    }

    /// The records of these old names are in the log already, up to a batch: only the acknowledgement was lost.
    pub fn found_recorded(&mut self, seq: u64, olds: Vec<u64>) {
        self.records.push_back((seq, olds));
    }

    /// Everything up to a batch is durable.
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

    /// Takes the old names whose move is recorded durably, and that are `free` of reads.
    pub fn take_acknowledged(&mut self, free: impl Fn(u64) -> bool) -> Vec<u64> {
        self.to_acknowledge.extract_if(.., |name| free(*name)).collect()
    }

    /// A job acknowledges moves.
    pub fn acknowledging(&mut self, id: u64) {
        self.reported.clear();
        self.acknowledging.insert(id);
    }

    /// A job has ended. Returns whether it acknowledged moves.
    pub fn acknowledged(&mut self, id: u64) -> bool {
        self.acknowledging.remove(&id)
    }

    // ---- keys that a commit has to name

    /// The next commit has to name the present content of a key.
    pub fn add_cut(&mut self, key: Key) {
        self.cuts.push(key);
    }

    /// Keys whose present content the next commit has to name.
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

    /// A job ends when the drive has moved something.
    pub fn polling(&mut self, id: u64) {
        self.poll = Some(id);
    }

    /// A job has ended: it may have been that one.
    pub fn polled(&mut self, id: u64) {
        self.poll.take_if(|poll| *poll == id);
    }
}
