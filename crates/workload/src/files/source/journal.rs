//! The journal of the file system: transactions of metadata, and the threads that wait for their commit.
//!
//! ```text
//!   Idle ─► Blocks: metadata ─► Before: flush ─► Mark: commit block ─► Behind: flush ─► Idle; transactions before the running one are done
//! ```

use super::requests::Purpose;
use super::{Files, RequestKind};
use crate::files::BLOCK_BYTES;
use crate::files::layout::Extent;
use std::collections::BTreeSet;

/// Progress of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commit {
    Idle,
    /// Writing metadata to the journal.
    Blocks,
    /// Flushing before the commit block.
    Before,
    /// Writing the commit block.
    Mark,
    /// Flushing after it.
    Behind,
}

/// The journal. Invariant: one commit is in progress at a time, of the transaction before the running one.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    extent: Extent,
    head: u32,
    /// Metadata blocks of the running transaction, and its number.
    running: BTreeSet<u32>,
    number: u64,
    /// Durable transactions.
    done: u64,
    state: Commit,
    outstanding: u32,
    /// Waiting threads, each with its transaction.
    waiting: Vec<(u32, u64)>,
    /// Number of extents freed up to the transaction being written.
    freed: usize,
}

impl Journal {
    /// Creates an empty journal in these blocks.
    pub fn new(extent: Extent) -> Journal {
        Journal {
            extent,
            head: 0,
            running: BTreeSet::new(),
            number: 1,
            done: 0,
            state: Commit::Idle,
            outstanding: 0,
            waiting: Vec::new(),
            freed: 0,
        }
    }

    /// Number of the running transaction.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Adds a changed metadata block to the running transaction.
    pub fn change(&mut self, block: u32) {
        self.running.insert(block);
    }

    /// Reports whether a transaction is durable.
    pub fn is_done(&self, transaction: u64) -> bool {
        transaction <= self.done
    }

    /// Makes a thread wait for a transaction.
    pub fn wait(&mut self, thread: u32, transaction: u64) {
        self.waiting.push((thread, transaction));
    }

    /// Takes the next blocks of the journal, at most `most`.
    fn take(&mut self, most: u32) -> Extent {
        let Extent { block, count } = self.extent;
        let here = most.min(count - self.head);
        let extent = Extent { block: block + self.head, count: here };
        self.head = (self.head + here) % count;
        self.outstanding += 1;
        extent
    }

    /// Starts to commit the running transaction, unless it is empty or a commit is in progress; `freed`: extents that it and earlier ones have freed.
    /// Returns the number of blocks, including a descriptor.
    fn begin_commit(&mut self, freed: usize) -> Option<u32> {
        if self.state != Commit::Idle || self.running.is_empty() {
            return None;
        }
        let blocks = self.running.len() as u32 + 1;
        self.running.clear();
        (self.freed, self.state) = (freed, Commit::Blocks);
        self.number += 1;
        Some(blocks)
    }

    /// Ends the commit; returns the threads that waited for it.
    fn end_commit(&mut self) -> Vec<u32> {
        self.state = Commit::Idle;
        self.done = self.number - 1;
        let done = self.done;
        let woken = self.waiting.extract_if(.., |&mut (_, transaction)| transaction <= done);
        woken.map(|(thread, _)| thread).collect()
    }
}

/// Writes the running transaction to the journal, if there is one and no commit is in progress.
pub(super) fn start_commit(files: &mut Files) {
    if let Some(blocks) = files.journal.begin_commit(files.layout.freed()) {
        write_journal(files, blocks);
    }
}

fn write_journal(files: &mut Files, mut left: u32) {
    let most = (files.config.host.write_bytes / BLOCK_BYTES).max(1) as u32;
    while left > 0 {
        let extent = files.journal.take(left.min(most));
        left -= extent.count;
        files.request(Purpose::Journal, RequestKind::Write, extent);
    }
}

/// Handles the end of a request of the journal.
pub(super) fn journal_ended(files: &mut Files) {
    files.journal.outstanding -= 1;
    if files.journal.outstanding > 0 {
        return;
    }
    match files.journal.state {
        Commit::Blocks | Commit::Mark => {
            let blocks = files.journal.state == Commit::Blocks;
            files.journal.state = if blocks { Commit::Before } else { Commit::Behind };
            files.journal.outstanding = 1;
            files.request(Purpose::Journal, RequestKind::Flush, Extent { block: 0, count: 0 });
        }
        Commit::Before => {
            files.journal.state = Commit::Mark;
            write_journal(files, 1);
        }
        Commit::Behind => {
            let woken = files.journal.end_commit();
            files.layout.reuse(std::mem::take(&mut files.journal.freed));
            files.meter.commits += u64::from(files.is_measured());
            woken.into_iter().for_each(|thread| files.waits.wake(thread));
            if !files.journal.waiting.is_empty() {
                start_commit(files);
            }
        }
        Commit::Idle => unreachable!("a request of no commit"),
    }
}
