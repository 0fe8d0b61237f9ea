//! Commits: dirty pages and changed keys go to the log.
//!
//! A commit is built at one moment, so it holds the state after some operation. Its batches are written in any order; it is durable when
//! they and all before them have ended and a flush that began afterwards has ended. Before that is answered the sync record says so
//! (`record.rs`). When a write failed, the numbers of batches have a hole that no mount gets over: then only a checkpoint makes anything
//! durable.

use super::Fs;
use super::backend::Content;
use super::batch::{Batch, Owner};
use super::block::{Blocks, SharedBlock};
use super::jobs::{Job, JobError, JobId};
use super::key::{EXTENT_BLOCKS_MAX, Extent};
use super::log::{Log, Stream};
use super::record::SyncRecord;
use super::stop::Stop;
use super::types::{BLOCK_BYTES, Ino};
use std::collections::{BTreeMap, VecDeque};

/// A write that waits or is under way.
#[derive(Clone, Debug)]
struct Write {
    /// The batch's number; `None`: superblock or checkpoint.
    seq: Option<u64>,
    address: u64,
    data: Blocks,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Commits {
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
    pub hole: bool,
    /// The newest batch that could not be written.
    failed: u64,
    /// Batches up to this one are durable, and numbered without a hole since the newest checkpoint.
    flushed: u64,
    /// The sync record is to be written anew.
    record_due: bool,
    /// The write of the sync record under way, and the batch up to which it says that all is durable.
    recording: Option<(u64, u64)>,
    queue: VecDeque<(u64, u64, Blocks)>,
    under_way: BTreeMap<u64, Write>,
    /// The flush under way, and the batch through which it makes all durable.
    flush: Option<(u64, u64)>,
    pub bytes_under_way: usize,
    /// Changed keys and values, while a commit puts them together.
    entries: Vec<u8>,
}

impl Commits {
    pub fn wanted(&mut self, point: u64) {
        if point > self.durable && self.syncs.back().is_none_or(|&last| last < point) {
            self.syncs.push_back(point);
        }
    }

    pub fn want_now(&mut self) {
        self.now = true;
    }

    pub fn is_durable(&self, point: u64) -> bool {
        point <= self.durable
    }

    pub fn has_syncs(&self) -> bool {
        !self.syncs.is_empty()
    }

    /// All changes up to this number are durable.
    pub fn set_durable(&mut self, changes: u64) {
        self.durable = self.durable.max(changes);
        while self.syncs.front().is_some_and(|&point| point <= self.durable) {
            self.syncs.pop_front();
        }
    }

    /// A batch could not be written.
    pub fn failed(&mut self, seq: u64) {
        self.hole = true;
        self.failed = self.failed.max(seq);
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

    /// Returns true while superblock, checkpoint or sync record are being written.
    pub fn has_place_writes(&self) -> bool {
        self.under_way.values().any(|write| write.seq.is_none())
    }

    /// Returns whether something of a segment is not written yet.
    pub fn writes_to(&self, segment: u32, log: &Log) -> bool {
        let queued = self.queue.iter().map(|(_, address, _)| *address);
        let sent = self.under_way.values().filter(|write| write.seq.is_some()).map(|write| write.address);
        queued.chain(sent).any(|address| log.layout.segment_of(address) == segment)
    }

    /// Returns whether something is with the drive, or on its way there.
    pub fn is_writing(&self) -> bool {
        !self.under_way.is_empty() || self.flush.is_some()
    }

    /// A batch of the log has records of moves, and no other change.
    pub fn moves_recorded(&mut self, seq: u64) {
        self.pending.push_back((seq, self.built));
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.under_way.is_empty() && self.flush.is_none() && !self.record_due
    }
}

/// A run of blocks of a file that lie behind each other.
#[derive(Clone, Copy, Debug)]
struct Settled {
    ino: Ino,
    extent: Extent,
}

impl Fs {
    fn now_s(&self) -> u32 {
        (self.now.0 / 1_000_000_000).clamp(0, u32::MAX.into()) as u32
    }

    /// Returns whether a commit is due.
    fn commit_is_due(&self) -> bool {
        let commits = &self.commits;
        let asked = commits.syncs.back().is_some_and(|&point| point > commits.built);
        let old = self.dirty_since.is_some_and(|since| self.now.since(since) >= super::DIRTY_NS);
        asked || old || commits.now
    }

    /// Commits if that is due.
    pub(super) fn commit_if_due(&mut self) -> Result<(), Stop> {
        if !self.commit_is_due() || self.commits.bytes_under_way > self.options.memory_bytes / 2 {
            return Ok(());
        }
        let old = self.dirty_since.is_some_and(|since| self.now.since(since) >= super::DIRTY_NS);
        self.commit()?;
        if old {
            self.commits.wanted(self.commits.built);
        }
        Ok(())
    }

    /// A batch at the head of a stream.
    pub(super) fn new_batch(&mut self, stream: Stream) -> Result<Batch, Stop> {
        let now_s = self.now_s();
        let Some((address, limit)) = self.log.place(stream, now_s) else {
            // What was accepted has room, so this is never seen; if it is, nothing more is accepted.
            self.degrade();
            return Err(Stop::Room);
        };
        self.log.seq += 1;
        Ok(Batch::new(self.log.seq - 1, address, limit))
    }

    /// Takes the batch's blocks at the head.
    pub(super) fn close_batch(&mut self, batch: Batch, closed: &mut Vec<Batch>) {
        let blocks = self.log.layout.padded(batch.blocks());
        self.log.took(batch.address, blocks);
        self.log.queue(batch.address, blocks.into(), true);
        self.log.unwritten.insert(batch.seq);
        self.counters.record_blocks += 2;
        closed.push(batch);
    }

    /// Hands batches to the drive; the last ends a commit.
    pub(super) fn send_batches(&mut self, mut batches: Vec<Batch>) {
        if let Some(first) = batches.first_mut() {
            first.begin_commit();
        }
        if let Some(last) = batches.last_mut() {
            last.end_commit();
        }
        for batch in batches {
            let (seq, address) = (batch.seq, batch.address);
            let padded = self.log.layout.padded(batch.blocks());
            let blocks = batch.seal(self.identity(), self.commits.flushed, padded);
            self.commits.bytes_under_way += blocks.bytes();
            self.commits.queue.push_back((seq, address, blocks));
        }
    }

    /// Brings what [`Fs::commit`] changes.
    fn prepare_commit(&mut self, pages: &[u32]) -> Result<(), Stop> {
        let mut at = 0;
        while at < pages.len() {
            let (ino, first) = (self.pages.page(pages[at]).ino, self.pages.page(pages[at]).block);
            let mut end = first;
            while at < pages.len() {
                let page = self.pages.page(pages[at]);
                if page.ino != ino || page.block != end {
                    break;
                }
                (end, at) = (end + 1, at + 1);
            }
            self.catalog.touch_cut(ino, first, end)?;
        }
        for at in 0..self.nameless.cuts.len() {
            self.catalog.find(self.nameless.cuts[at])?;
        }
        self.catalog.add_changed(&mut self.nameless.cuts);
        Ok(())
    }

    /// Writes everything that is dirty but the nodes of the tree.
    pub(super) fn commit(&mut self) -> Result<(), Stop> {
        self.commits.now = false;
        if !self.name_pages() {
            self.commits.now = true;
            return Err(Stop::Room);
        }
        let pages = self.pages.dirty_list();
        if pages.is_empty() && self.catalog.changed() == 0 {
            self.commits.built = self.changes;
            self.dirty_since = None;
            if self.commits.pending.is_empty() && !self.commits.hole {
                self.commits.set_durable(self.changes);
            } else if let Some(last) = self.commits.pending.back_mut() {
                last.1 = self.changes;
            }
            return Ok(());
        }
        if let Err(why) = self.prepare_commit(&pages) {
            self.commits.now = true;
            return Err(why);
        }
        let mut batches = Vec::new();
        let mut open = self.write_pages(&pages, &mut batches)?;
        self.pages.clear_list();
        self.write_entries(&mut open, &mut batches)?;
        if let Some(batch) = open {
            self.close_batch(batch, &mut batches);
        }
        self.send_batches(batches);
        self.dirty_since = None;
        (self.progress, self.done) = (true, true);
        self.commits.built = self.changes;
        self.commits.pending.push_back((self.log.seq - 1, self.changes));
        self.nameless.committed(self.log.seq - 1);
        self.counters.commits += 1;
        Ok(())
    }

    /// Puts dirty pages into batches, and their places into the tree.
    fn write_pages(&mut self, pages: &[u32], batches: &mut Vec<Batch>) -> Result<Option<Batch>, Stop> {
        let mut open: Option<Batch> = None;
        let mut stream = Stream::New;
        let mut run: Option<Settled> = None;
        let mut sums = Vec::new();
        for &at in pages {
            let page = self.pages.page(at);
            let (ino, block) = (page.ino, page.block);
            let wanted = if page.moved { Stream::Moved } else { Stream::New };
            if wanted == Stream::Moved {
                self.counters.moved_blocks += 1;
            } else {
                self.counters.data_blocks += 1;
            }
            if let Some(batch) = open.take_if(|batch| stream != wanted || !batch.has_space()) {
                self.close_batch(batch, batches);
            }
            stream = wanted;
            let mut batch = match open.take() {
                Some(batch) => batch,
                None => self.new_batch(stream)?,
            };
            let (data, sum) = self.pages.with_sum(at);
            let address = batch.push(Owner::Data { ino: ino.0, block }, data, sum);
            self.pages.settle(at, batch.seq);
            open = Some(batch);
            let goes_on = run.as_mut().filter(|run| {
                run.ino == ino
                    && run.extent.last() + 1 == block
                    && run.extent.address + run.extent.count == address
                    && run.extent.count < EXTENT_BLOCKS_MAX
            });
            match goes_on {
                Some(run) => run.extent.count += 1,
                None => {
                    self.settle_run(run.take(), &sums);
                    sums.clear();
                    run = Some(Settled { ino, extent: Extent { first: block, count: 1, address } });
                }
            }
            if self.data_checksums {
                sums.push(sum);
            }
        }
        self.settle_run(run, &sums);
        Ok(open)
    }

    fn settle_run(&mut self, run: Option<Settled>, sums: &[u32]) {
        let Some(Settled { ino, extent }) = run else { return };
        self.catalog.cut(ino, extent.first, extent.last() + 1);
        self.catalog.put_extent(ino, extent, sums);
    }

    /// Puts the changed keys into the header of the open batch if they fit there, else into blocks of their own.
    fn write_entries(&mut self, open: &mut Option<Batch>, batches: &mut Vec<Batch>) -> Result<(), Stop> {
        let mut entries = std::mem::take(&mut self.commits.entries);
        entries.clear();
        self.catalog.take_changed(&mut entries);
        let batch = match open.take() {
            Some(batch) => batch,
            None => self.new_batch(Stream::New)?,
        };
        let mut batch = batch;
        if entries.len() <= batch.inline_space() {
            batch.put_inline(&entries);
        } else {
            for piece in entries.chunks(BLOCK_BYTES) {
                while !batch.has_space_for(2) {
                    batch = self.next_batch(batch, batches)?;
                }
                let mut block = [0; BLOCK_BYTES];
                block[..piece.len()].copy_from_slice(piece);
                batch.push_copy(Owner::Entries, &block);
                batch.push_copy(Owner::EntriesCopy, &block);
                self.counters.record_blocks += 2;
            }
        }
        *open = Some(batch);
        self.commits.entries = entries;
        Ok(())
    }

    fn next_batch(&mut self, full: Batch, batches: &mut Vec<Batch>) -> Result<Batch, Stop> {
        self.close_batch(full, batches);
        self.new_batch(Stream::New)
    }

    /// A write of superblock or checkpoint.
    pub(super) fn write_place(&mut self, address: u64, data: Vec<u8>) -> Job {
        let id = self.new_id();
        let data = Blocks::copied(&data);
        self.commits.under_way.insert(id, Write { seq: None, address, data: data.clone() });
        Job::Write { id: JobId(id), block: address, data, content: Content::Checkpoint }
    }

    pub(super) fn next_write(&mut self) -> Option<Job> {
        if let Some((seq, address, data)) = self.commits.queue.pop_front() {
            let id = self.new_id();
            self.commits.under_way.insert(id, Write { seq: Some(seq), address, data: data.clone() });
            return Some(Job::Write { id: JobId(id), block: address, data, content: Content::Log });
        }
        self.next_record().or_else(|| self.next_place_write())
    }

    /// The sync record, if it is due.
    fn next_record(&mut self) -> Option<Job> {
        if !self.commits.record_due || self.commits.recording.is_some() {
            return None;
        }
        self.commits.record_due = false;
        let place = self.log.layout.record()?;
        let record = SyncRecord {
            file_system: self.file_system,
            epoch: self.log.epoch,
            checkpoint: self.checkpointing.durable,
            durable: self.commits.flushed,
        };
        let job = self.write_place(place, record.encode());
        self.commits.recording = Some((job.id().0, self.commits.flushed));
        Some(job)
    }

    /// The sync record is written, or not.
    fn record_ended(&mut self, through: u64, written: bool) {
        self.commits.recorded(through);
        if !written {
            self.degrade();
        }
    }

    /// A flush, if something waits for one and everything before it is written.
    pub(super) fn next_flush(&mut self) -> Option<Job> {
        if self.commits.flush.is_some() {
            return None;
        }
        let through = self.log.written_through();
        let wanted = self.commits.syncs.front().copied();
        let is_new = |seq: u64| seq <= through && seq > self.commits.flushed;
        let serves =
            |&(seq, changes): &(u64, u64)| wanted.is_some_and(|point| changes >= point && is_new(seq));
        let for_sync = !self.commits.hole && self.commits.pending.iter().any(serves);
        let for_names = self.nameless.wants_flush(through, self.commits.hole);
        if !for_sync && !self.checkpoint_wants_flush(through) && !for_names {
            return None;
        }
        self.nameless.flush_began();
        let id = self.new_id();
        self.commits.flush = Some((id, through));
        Some(Job::Flush { id: JobId(id) })
    }

    pub(super) fn write_ended(&mut self, id: u64, outcome: Result<Vec<u8>, JobError>) {
        if self.discard_ended(id) || self.upkeep_ended(id, &outcome) {
            return;
        }
        if let Some((_, through)) = self.commits.flush.filter(|(flush, _)| *flush == id) {
            self.commits.flush = None;
            match outcome {
                Ok(_) => self.flushed(through),
                Err(_) => self.degrade(),
            }
            return;
        }
        let Some(write) = self.commits.under_way.remove(&id) else { return };
        if let Some((_, through)) = self.commits.recording.take_if(|(recording, _)| *recording == id) {
            return self.record_ended(through, outcome.is_ok());
        }
        let Some(seq) = write.seq else {
            return self.place_written(write.address, outcome.is_ok());
        };
        self.commits.bytes_under_way -= write.data.bytes();
        self.log.queue(write.address, write.data.count() as u64, false);
        if let Err(why) = outcome {
            self.write_failed(seq, write.address, write.data.shared(), why);
        }
        self.log.unwritten.remove(&seq);
    }

    fn flushed(&mut self, through: u64) {
        self.nameless.flush_ended();
        if !self.commits.hole {
            self.nameless.durable(through);
            self.commits.flushed = self.commits.flushed.max(through);
            let has_new = self.commits.pending.front().is_some_and(|&(seq, _)| seq <= through);
            match self.log.layout.record() {
                Some(_) => self.commits.record_due |= has_new,
                None => self.commits.recorded(through),
            }
        }
        self.checkpoint_flushed(through);
    }

    /// A checkpoint made everything before a batch durable.
    pub(super) fn checkpointed(&mut self, seq: u64, changes: u64) {
        self.commits.hole = self.commits.failed >= seq;
        self.commits.record_due = self.log.layout.record().is_some();
        self.nameless.durable(seq - 1);
        self.commits.pending.retain(|pending| pending.0 >= seq);
        self.commits.set_durable(changes);
    }

    /// Keeps the blocks of a batch that could not be written, and has them moved.
    pub(super) fn keep_blocks(&mut self, address: u64, blocks: &[SharedBlock]) {
        for (n, block) in blocks.iter().enumerate() {
            self.log.keep(address + n as u64, SharedBlock::clone(block));
        }
    }

    /// Takes no changes from now on.
    pub(super) fn degrade(&mut self) {
        self.phase.degrade();
        self.commits.queue.clear();
    }
}
