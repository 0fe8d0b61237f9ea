//! Writes and flushes, queued or with the drive.

use crate::backend::Content;
use crate::block::Blocks;
use crate::jobs::{Job, JobId};
use crate::layout::Layout;
use std::collections::{BTreeMap, VecDeque};

/// A write in flight.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// The batch's number; `None`: superblock, checkpoint or sync record.
    pub seq: Option<u64>,
    pub address: u64,
    pub data: Blocks,
}

/// Writes and the flush.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writes {
    /// Batches without a job yet: number, address, blocks.
    queue: VecDeque<(u64, u64, Blocks)>,
    under_way: BTreeMap<u64, Write>,
    /// The flush in flight, and the last batch that it makes durable.
    flush: Option<(u64, u64)>,
    /// Bytes of all these batches.
    bytes: usize,
    failures: u64,
}

impl Writes {
    /// Queues a batch for the drive.
    pub fn send(&mut self, seq: u64, address: u64, blocks: Blocks) {
        self.bytes += blocks.bytes();
        self.queue.push_back((seq, address, blocks));
    }

    /// Reports whether a batch waits for its job.
    pub fn has_next(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The job of the next batch.
    pub fn next(&mut self, id: u64) -> Option<Job> {
        let (seq, address, data) = self.queue.pop_front()?;
        self.under_way.insert(id, Write { seq: Some(seq), address, data: data.clone() });
        Some(Job::Write { id: JobId(id), block: address, data, content: Content::Log })
    }

    /// The job of a write of superblock, checkpoint or sync record.
    pub fn place(&mut self, id: u64, address: u64, data: &[u8]) -> Job {
        let data = Blocks::copied(data);
        self.under_way.insert(id, Write { seq: None, address, data: data.clone() });
        Job::Write { id: JobId(id), block: address, data, content: Content::Checkpoint }
    }

    /// Ends a write.
    pub fn ended(&mut self, id: u64) -> Option<Write> {
        let write = self.under_way.remove(&id)?;
        if write.seq.is_some() {
            self.bytes -= write.data.bytes();
        }
        Some(write)
    }

    /// Starts a flush that makes all batches up to `through` durable.
    pub fn begin_flush(&mut self, id: u64, through: u64) {
        self.flush = Some((id, through));
    }

    pub fn is_flushing(&self) -> bool {
        self.flush.is_some()
    }

    /// Handles the end of a job. If it was the flush, returns the batch through which everything is durable.
    pub fn flush_ended(&mut self, id: u64) -> Option<u64> {
        self.flush.take_if(|(flush, _)| *flush == id).map(|(_, through)| through)
    }

    /// Drops writes without a job.
    pub fn stop(&mut self) {
        self.queue.clear();
    }

    /// Bytes of unwritten batches.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true while a superblock, checkpoint or sync record is being written.
    pub fn has_place_writes(&self) -> bool {
        self.under_way.values().any(|write| write.seq.is_none())
    }

    /// Reports whether a write to a segment is outstanding.
    pub fn writes_to(&self, segment: u32, layout: &Layout) -> bool {
        let queued = self.queue.iter().map(|(_, address, _)| *address);
        let sent = self.under_way.values().filter(|write| write.seq.is_some()).map(|write| write.address);
        queued.chain(sent).any(|address| layout.segment_of(address) == segment)
    }

    /// Reports whether the drive has something to write or flush.
    pub fn is_writing(&self) -> bool {
        !self.under_way.is_empty() || self.flush.is_some()
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.is_writing()
    }

    /// Counts a failed write.
    pub fn count_failure(&mut self) {
        self.failures += 1;
    }

    /// Failed writes since the mount.
    pub fn failures(&self) -> u64 {
        self.failures
    }
}
