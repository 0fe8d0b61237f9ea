//! Requests by column: the log of a run in memory, for tables in other formats.
//!
//! Invariant: every column has one entry per request. The stage columns of a request sum to its `latency_ns`.

use super::log::opcode_name;
use super::tables::key;
use pellucid_flash::{Completion, Lba, Stage};

/// A column of few distinct words: each entry is the index of its word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordColumn {
    /// Words in the order of their first entries; at most 256.
    pub words: Vec<&'static str>,
    /// Word index of each entry.
    pub indices: Vec<u8>,
}

impl WordColumn {
    /// Adds an entry.
    ///
    /// # Panics
    /// The column has more than 256 words.
    pub fn push(&mut self, word: &'static str) {
        let known = self.words.iter().position(|other| *other == word);
        let index = known.unwrap_or_else(|| {
            self.words.push(word);
            self.words.len() - 1
        });
        self.indices.push(u8::try_from(index).expect("operations and statuses are few"));
    }
}

/// Completed requests by column, in the order of completion. Times are simulated nanoseconds since the drive was switched on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestColumns {
    /// Submission.
    pub at_ns: Vec<u64>,
    /// Completion.
    pub completed_ns: Vec<u64>,
    /// Operation.
    pub op: WordColumn,
    /// First sector.
    pub lba: Vec<u64>,
    /// Sectors.
    pub sectors: Vec<u32>,
    /// Status.
    pub status: WordColumn,
    /// Time from submission to completion.
    pub latency_ns: Vec<u64>,
    /// Time in each [`Stage`].
    pub stages_ns: [Vec<u64>; Stage::COUNT],
    /// Sectors of a read that have no data.
    pub unmapped_sectors: Vec<u32>,
    /// Number of the job, from 1, or the device of a trace.
    pub job: Vec<u32>,
}

impl RequestColumns {
    /// Adds one completion, with the `lba` and `sectors` of its command.
    pub fn push(&mut self, lba: Lba, sectors: u32, job: u32, completion: &Completion) {
        let (at, end) = (completion.submitted, completion.completed);
        self.at_ns.push(at.0);
        self.completed_ns.push(end.0);
        self.op.push(opcode_name(completion.opcode));
        self.lba.push(lba.0);
        self.sectors.push(sectors);
        self.status.push(completion.status.name());
        self.latency_ns.push((end - at).0);
        for (column, time) in self.stages_ns.iter_mut().zip(completion.stages.0) {
            column.push(time);
        }
        self.unmapped_sectors.push(completion.unmapped);
        self.job.push(job);
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.at_ns.len()
    }

    /// Returns whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.at_ns.is_empty()
    }

    /// Returns the names of the stage columns, in the order of [`stages_ns`](RequestColumns::stages_ns).
    pub fn stage_names() -> [String; Stage::COUNT] {
        Stage::ALL.map(|stage| format!("{}_ns", key(stage.name())))
    }
}
