//! The journal of the file system: transactions of metadata, and the threads that wait for their commit.

use super::{Commit, Files, Purpose, RequestKind, Step};
use crate::files::BLOCK_BYTES;
use crate::files::layout::Extent;
use crate::files::personality::Operation;

impl Files {
    /// Returns whether a write finds no blocks while freed ones wait for their transaction: as ext4 it waits for that, too.
    pub(super) fn waits_for_blocks(&mut self, thread: u32, operation: Operation) -> bool {
        let file = match operation {
            Operation::AppendLog => self.config.files,
            _ => self.threads[thread as usize].file.unwrap_or(self.config.files),
        };
        let bytes = match operation {
            Operation::WriteWhole => self.files[file as usize].wanted_bytes,
            _ => self.files[file as usize].bytes + self.config.append_bytes,
        };
        let wanted = bytes.div_ceil(BLOCK_BYTES);
        let more = wanted.saturating_sub(self.layout.blocks_of(file).into());
        if more <= self.layout.free_blocks() || self.layout.freed() == 0 {
            return false;
        }
        self.journal.waiting.push((thread, self.journal.number));
        self.start_commit();
        true
    }

    /// Fsync: no page of the file is on its way. Writes those that are dirty and waits again; then the journal commits.
    pub(super) fn sync(&mut self, thread: u32) {
        let Some(file) = self.threads[thread as usize].file else { return self.end(thread) };
        if self.threads[thread as usize].step == Step::Committing {
            return self.end(thread);
        }
        let mut blocks = std::mem::take(&mut self.threads[thread as usize].blocks);
        let mut dirty = false;
        for (at, &block) in blocks.iter().enumerate() {
            if self.may_write(block) {
                let follows = |(&next, step): (&u32, u32)| next == block + step;
                let count = blocks[at..].iter().zip(0..).take_while(|&pair| follows(pair)).count() as u32;
                self.write_run(Extent { block, count });
                dirty = true;
            }
        }
        blocks.clear();
        if dirty {
            self.needs(Operation::Fsync, file, &mut blocks);
        }
        let record = &mut self.threads[thread as usize];
        (record.blocks, record.looked) = (blocks, 0);
        if dirty {
            // Woken by the writes.
            self.has_waited(thread);
            return;
        }
        record.step = Step::Committing;
        let transaction = self.files[file as usize].transaction;
        if transaction <= self.journal.done {
            return self.end(thread);
        }
        self.journal.waiting.push((thread, transaction));
        if self.journal.state == Commit::Idle {
            self.start_commit();
        }
    }

    /// The running transaction goes to the journal, if there is one and none is on its way.
    pub(super) fn start_commit(&mut self) {
        if self.journal.state != Commit::Idle || self.journal.running.is_empty() {
            return;
        }
        // A descriptor in front of the blocks.
        let left = self.journal.running.len() as u32 + 1;
        self.journal.running.clear();
        self.journal.freed = self.layout.freed();
        self.journal.number += 1;
        self.journal.state = Commit::Blocks;
        self.write_journal(left);
    }

    fn write_journal(&mut self, mut left: u32) {
        let most = (self.config.host.write_bytes / BLOCK_BYTES).max(1) as u32;
        while left > 0 {
            let Extent { block, count } = self.journal.extent;
            let here = left.min(most).min(count - self.journal.head);
            let extent = Extent { block: block + self.journal.head, count: here };
            self.journal.head = (self.journal.head + here) % count;
            self.journal.outstanding += 1;
            self.request(Purpose::Journal, RequestKind::Write, extent);
            left -= here;
        }
    }

    pub(super) fn journal_ended(&mut self) {
        self.journal.outstanding -= 1;
        if self.journal.outstanding > 0 {
            return;
        }
        match self.journal.state {
            Commit::Blocks | Commit::Mark => {
                let next = if self.journal.state == Commit::Blocks { Commit::Before } else { Commit::Behind };
                self.journal.state = next;
                self.journal.outstanding = 1;
                self.request(Purpose::Journal, RequestKind::Flush, Extent { block: 0, count: 0 });
            }
            Commit::Before => {
                self.journal.state = Commit::Mark;
                self.write_journal(1);
            }
            Commit::Behind => {
                self.journal.state = Commit::Idle;
                self.journal.done = self.journal.number - 1;
                self.layout.reuse(std::mem::take(&mut self.journal.freed));
                self.meter.commits += u64::from(self.is_measured());
                let done = self.journal.done;
                let woken = &mut self.woken;
                self.journal.waiting.retain(|&(thread, transaction)| {
                    if transaction <= done {
                        woken.push_back(thread);
                    }
                    transaction > done
                });
                if !self.journal.waiting.is_empty() {
                    self.start_commit();
                }
            }
            Commit::Idle => unreachable!("a request of no commit"),
        }
    }
}
