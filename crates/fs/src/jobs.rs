//! Jobs: requests of the file system to its drive.

use super::Fs;
use super::backend::Content;
use super::block::{Blocks, block_of, shared};
use super::stop::Stop;
use super::tree::Miss;
use super::types::{BLOCK_BYTES, Errno, Ino};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Name of a job that has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u64);

/// Something that the drive shall do. Jobs that are out at the same time may be done in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Read blocks.
    Read {
        /// Its name.
        id: JobId,
        /// First block of the drive.
        block: u64,
        /// How many.
        blocks: u32,
    },
    /// Write blocks. The data may stay in a volatile cache until the next flush.
    Write {
        /// Its name.
        id: JobId,
        /// First block of the drive.
        block: u64,
        /// The blocks; on flash, whole pages.
        data: Blocks,
        /// Content of the job.
        content: Content,
    },
    /// Make every write that has ended durable.
    Flush {
        /// Its name.
        id: JobId,
    },
    /// Discard all blocks of a segment, which are not needed any more. On a block drive it may be ignored; on flash the flash block is given
    /// back.
    Discard {
        /// Its name.
        id: JobId,
        /// First block of the drive.
        block: u64,
        /// How many.
        blocks: u32,
    },
    /// Hand out a flash block of the channel that has most of them; [`Fs::allocated`] is told instead of [`Fs::ended`]. On flash only.
    Allocate {
        /// Its name.
        id: JobId,
    },
    /// Write blocks wherever the drive likes; [`Fs::got_names`] is told instead of [`Fs::ended`]. Names only.
    NamelessWrite {
        /// Its name.
        id: JobId,
        /// The blocks.
        data: Blocks,
    },
    /// The data of these names are no longer needed. Names only.
    Free {
        /// Its name.
        id: JobId,
        /// The names of blocks.
        names: Vec<u64>,
    },
    /// The new names of these are kept. Names only.
    Acknowledge {
        /// Its name.
        id: JobId,
        /// The old names of blocks.
        names: Vec<u64>,
    },
    /// Ask for the present name of each name, or that it leads nowhere; [`Fs::got_names`] is told. Names only.
    Names {
        /// Its name.
        id: JobId,
    },
    /// Ends when the drive has moved something, or when nothing else is under way; [`Fs::polled`] is told. Names only.
    Moves {
        /// Its name.
        id: JobId,
    },
    /// The flash blocks that the file system goes on with after a mount; all others can be erased. On flash only.
    Keep {
        /// Its name.
        id: JobId,
        /// Their numbers.
        segments: Vec<u32>,
    },
}

impl Job {
    /// Its name.
    pub fn id(&self) -> JobId {
        match *self {
            Job::Read { id, .. }
            | Job::Write { id, .. }
            | Job::Flush { id }
            | Job::Discard { id, .. }
            | Job::Allocate { id }
            | Job::Keep { id, .. }
            | Job::NamelessWrite { id, .. }
            | Job::Free { id, .. }
            | Job::Acknowledge { id, .. }
            | Job::Names { id }
            | Job::Moves { id } => id,
        }
    }
}

/// Why a job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobError {
    /// The drive could not do it.
    Failed,
    /// The drive does not take writes any more.
    ReadOnly,
}

/// Purpose of a read.
#[derive(Clone, Debug)]
pub(super) enum ReadFor {
    Node(Miss),
    /// Blocks of a file from `block` on, and the checksums of those that have one.
    Data {
        ino: Ino,
        block: u64,
        sums: Vec<Option<u32>>,
    },
    /// Anything else; the data are kept for the operation that asked.
    Raw,
}

#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub address: u64,
    pub blocks: u32,
    pub what: ReadFor,
    /// The data are no longer wanted.
    pub cancelled: bool,
}

/// Reads that are wanted or under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    /// By their first block.
    pub at: BTreeMap<u64, u64>,
    pub under_way: BTreeMap<u64, Reading>,
    pub wanted: VecDeque<u64>,
    /// Blocks that could not be read. The next that asks is told so.
    bad: BTreeSet<u64>,
    /// Blocks of a run that could not be read: they are read one by one.
    fragile: BTreeSet<u64>,
    /// Blocks of data that the mount found damaged, where data have no checksums.
    pub damaged: BTreeSet<u64>,
    /// Blocks read for callers other than tree and pages.
    pub raw: BTreeMap<u64, Option<Vec<u8>>>,
}

impl Reads {
    /// Returns whether a read of a block is under way, even one whose data are no longer wanted.
    pub fn overlaps(&self, address: u64) -> bool {
        self.under_way.values().any(|r| (r.address..r.address + u64::from(r.blocks)).contains(&address))
    }

    /// Forgets a failed read of an address, which says nothing of later contents.
    pub fn forgive(&mut self, address: u64) {
        self.bad.remove(&address);
        self.damaged.remove(&address);
        self.fragile.remove(&address);
    }

    /// Returns whether a block is being read.
    fn has(&self, address: u64) -> bool {
        self.at.range(..=address).next_back().is_some_and(|(&first, id)| {
            self.under_way.get(id).is_some_and(|r| address < first + u64::from(r.blocks) && !r.cancelled)
        })
    }
}

impl Fs {
    fn want(&mut self, address: u64, blocks: u32, what: ReadFor) {
        // A read of the same block whose data are no longer wanted goes on under its own name only.
        let id = self.new_id();
        self.log.queue(address, blocks.into(), true);
        self.reads.at.insert(address, id);
        self.reads.under_way.insert(id, Reading { address, blocks, what, cancelled: false });
        self.reads.wanted.push_back(id);
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Asks for a node.
    pub(super) fn want_node(&mut self, miss: Miss) -> Result<(), Errno> {
        if self.reads.bad.remove(&miss.child.at) {
            return Err(Errno::Io);
        }
        if let Some(block) = self.log.lost(miss.child.at) {
            let right = self.catalog.arrived(miss, block_of(&block));
            return if right { Ok(()) } else { Err(Errno::Io) };
        }
        if !self.log.is_block(miss.child.at) {
            return Err(Errno::Io);
        }
        if !self.reads.has(miss.child.at) {
            self.want(miss.child.at, 1, ReadFor::Node(miss));
        }
        Ok(())
    }

    /// Asks for blocks of a file, from one that lies at `address` to `last` of the same run.
    pub(super) fn want_data(&mut self, ino: Ino, block: u64, address: u64, last: u64) -> Result<(), Stop> {
        if self.reads.bad.remove(&address) || self.reads.damaged.contains(&address) {
            return Err(Errno::Io.into());
        }
        if self.reads.has(address) {
            return Ok(());
        }
        if !self.log.holds_data(address) {
            return Err(Errno::Io.into());
        }
        if let Some(data) = self.log.lost(address) {
            self.pages.insert(ino, block, Some((data, None)));
            return Ok(());
        }
        let fragile = self.reads.fragile.contains(&address);
        let most = if fragile { 1 } else { last + 1 - block };
        let mut blocks = 1;
        while blocks < most
            && !self.pages.has(ino, block + blocks)
            && !self.reads.has(address + blocks)
            && self.log.holds_data(address + blocks)
            && !self.log.has_lost(address + blocks)
            && !self.reads.damaged.contains(&(address + blocks))
        {
            blocks += 1;
        }
        let sums = self.catalog.sums_of(ino, block, blocks)?;
        self.want(address, blocks as u32, ReadFor::Data { ino, block, sums });
        Ok(())
    }

    /// Asks for blocks that neither tree nor pages hold. Gives them when they have come; `None` in it: they cannot be read.
    pub(super) fn want_raw(&mut self, address: u64, blocks: u32) -> Option<Option<Vec<u8>>> {
        if let Some(data) = self.reads.raw.remove(&address) {
            return Some(data);
        }
        let asked = self
            .reads
            .under_way
            .values()
            .any(|r| !r.cancelled && r.address == address && matches!(r.what, ReadFor::Raw));
        if !asked {
            self.want(address, blocks, ReadFor::Raw);
        }
        None
    }

    /// Data that were read ahead, or are being read so, are no longer wanted.
    pub(super) fn forget_raw(&mut self) {
        self.reads.raw.clear();
        for read in self.reads.under_way.values_mut() {
            read.cancelled |= matches!(read.what, ReadFor::Raw);
        }
    }

    /// Cancels reads under way of these blocks of a file.
    pub(super) fn cancel_reads(&mut self, ino: Ino, from: u64, to: u64) {
        for read in self.reads.under_way.values_mut() {
            if let ReadFor::Data { ino: of, block, .. } = read.what
                && of == ino
                && block < to
                && block + u64::from(read.blocks) > from
            {
                read.cancelled = true;
            }
        }
    }

    pub(super) fn read_ended(&mut self, id: u64, outcome: Result<Vec<u8>, JobError>) {
        let Some(read) = self.reads.under_way.remove(&id) else { return };
        self.log.queue(read.address, read.blocks.into(), false);
        if self.reads.at.get(&read.address) == Some(&id) {
            self.reads.at.remove(&read.address);
        }
        if read.cancelled {
            return;
        }
        let whole = outcome.ok().filter(|data| data.len() == read.blocks as usize * BLOCK_BYTES);
        match (read.what, whole) {
            (ReadFor::Raw, data) => {
                self.reads.raw.insert(read.address, data);
            }
            (ReadFor::Node(miss), Some(data)) => {
                let block = data.first_chunk().map(block_of);
                if !block.is_some_and(|block| self.catalog.arrived(miss, block)) {
                    self.reads.bad.insert(read.address);
                }
            }
            (ReadFor::Data { ino, block, sums }, Some(data)) => {
                for (n, bytes) in data.as_chunks().0.iter().enumerate() {
                    let sum = sums.get(n).copied().flatten();
                    if !self.still_lies(ino, block + n as u64, read.address + n as u64) {
                        // It was moved meanwhile: the operation that asked looks there.
                    } else if sum.is_some_and(|sum| crc32c::crc32c(bytes) != sum) {
                        self.reads.bad.insert(read.address + n as u64);
                    } else if !self.pages.has(ino, block + n as u64) {
                        self.pages.insert(ino, block + n as u64, Some((shared(bytes), sum)));
                    }
                }
            }
            (ReadFor::Data { ino, block, .. }, None)
                if read.blocks == 1 && !self.still_lies(ino, block, read.address) => {}
            (_, None) if read.blocks > 1 => {
                self.reads.fragile.extend(read.address..read.address + u64::from(read.blocks));
            }
            (_, None) => {
                self.reads.bad.insert(read.address);
            }
        }
    }
}
