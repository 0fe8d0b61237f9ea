//! The log: its identity, the numbers of its batches, and blocks that could not be written to it.
//!
//! Batches are numbered without gaps. A batch is *written* when the drive has completed its write; a block of a failed batch stays here
//! until it has been written elsewhere. `space.rs` decides where batches go.

use crate::batch::Identity;
use crate::block::SharedBlock;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks put into batches since the mount, by content.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub data: u64,
    /// Data moved by the cleaner.
    pub moved: u64,
    pub nodes: u64,
    /// Headers and entries.
    pub records: u64,
}

/// Identity and batches of the log.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    file_system: u64,
    data_checksums: bool,
    /// Number of this mount.
    epoch: u64,
    /// Number of the next batch.
    seq: u64,
    /// Batches that are not on the media yet.
    unwritten: BTreeSet<u64>,
    /// Blocks whose write failed, until they are written elsewhere.
    lost: BTreeMap<u64, SharedBlock>,
    counts: Counts,
}

impl Log {
    /// The log of a new file system, or of one whose identity is still to be read.
    pub fn new(file_system: u64, data_checksums: bool) -> Log {
        Log {
            file_system,
            data_checksums,
            epoch: 1,
            seq: 1,
            unwritten: BTreeSet::new(),
            lost: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// Continues in a mount with this number, at this batch.
    pub fn resume(&mut self, epoch: u64, seq: u64) {
        (self.epoch, self.seq) = (epoch, seq);
    }

    pub fn file_system(&self) -> u64 {
        self.file_system
    }

    /// Returns whether every data block has a checksum.
    pub fn data_checksums(&self) -> bool {
        self.data_checksums
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub fn identity(&self) -> Identity {
        Identity { file_system: self.file_system, epoch: self.epoch }
    }

    /// Number of the next batch.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Number of the newest batch.
    pub fn newest(&self) -> u64 {
        self.seq - 1
    }

    /// Returns the number of a new batch.
    pub fn begin_batch(&mut self) -> u64 {
        self.seq += 1;
        self.seq - 1
    }

    /// Notes a batch with its two headers; it is not written yet.
    pub fn batch_closed(&mut self, seq: u64) {
        self.counts.records += 2;
        self.unwritten.insert(seq);
    }

    /// Notes the end of a batch's write.
    pub fn batch_ended(&mut self, seq: u64) {
        self.unwritten.remove(&seq);
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Counts a block of data. `moved`: by the cleaner.
    pub fn count_data(&mut self, moved: bool) {
        let count = if moved { &mut self.counts.moved } else { &mut self.counts.data };
        *count += 1;
    }

    pub fn count_node(&mut self) {
        self.counts.nodes += 1;
    }

    /// Counts blocks of entries.
    pub fn count_entries(&mut self, blocks: u64) {
        self.counts.records += blocks;
    }

    /// The newest batch up to which everything is written.
    pub fn written_through(&self) -> u64 {
        self.unwritten.first().map_or(self.seq - 1, |first| first - 1)
    }

    /// Keeps blocks whose write failed.
    pub fn keep(&mut self, address: u64, blocks: &[SharedBlock]) {
        self.lost.extend((address..).zip(blocks.iter().map(SharedBlock::clone)));
    }

    /// A block whose write failed, if it is one.
    pub fn lost(&self, address: u64) -> Option<SharedBlock> {
        self.lost.get(&address).cloned()
    }

    pub fn has_lost(&self, address: u64) -> bool {
        self.lost.contains_key(&address)
    }

    pub fn forget_lost(&mut self) {
        self.lost.clear();
    }
}
