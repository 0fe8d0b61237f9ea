//! Reads: what is missing in memory is asked for once, and given to who needs it when it has come.
//!
//! A read that failed is told to the next that asks. A run of blocks that could not be read is read block by block. Data that are no longer
//! wanted when they come are dropped.

use super::Fs;
use super::block::{block_of, shared};
use super::jobs::JobError;
use super::stop::Stop;
use super::tree::Miss;
use super::types::{BLOCK_BYTES, Errno, Ino};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Purpose of a read.
#[derive(Clone, Debug)]
enum ReadFor {
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
struct Reading {
    address: u64,
    blocks: u32,
    what: ReadFor,
    /// The data are no longer wanted.
    cancelled: bool,
}

/// Reads that are wanted or under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    /// By their first block.
    at: BTreeMap<u64, u64>,
    under_way: BTreeMap<u64, Reading>,
    wanted: VecDeque<u64>,
    /// Blocks that could not be read. The next that asks is told so.
    bad: BTreeSet<u64>,
    /// Blocks of a run that could not be read: they are read one by one.
    fragile: BTreeSet<u64>,
    /// Blocks of data that the mount found damaged, where data have no checksums.
    damaged: BTreeSet<u64>,
    /// Blocks read for callers other than tree and pages.
    raw: BTreeMap<u64, Option<Vec<u8>>>,
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

    /// Asks for blocks. A read of the same block whose data are no longer wanted goes on under its own name only.
    fn ask(&mut self, id: u64, address: u64, blocks: u32, what: ReadFor) {
        self.at.insert(address, id);
        self.under_way.insert(id, Reading { address, blocks, what, cancelled: false });
        self.wanted.push_back(id);
    }

    /// The next read for the drive: its job, first block, and length. `None`: there is none.
    pub fn next(&mut self) -> Option<(u64, u64, u32)> {
        let id = self.wanted.pop_front()?;
        let read = self.under_way.get(&id)?;
        Some((id, read.address, read.blocks))
    }

    /// Returns whether a job is a read.
    pub fn is_under_way(&self, id: u64) -> bool {
        self.under_way.contains_key(&id)
    }

    /// A read ended.
    fn end(&mut self, id: u64) -> Option<Reading> {
        let read = self.under_way.remove(&id)?;
        if self.at.get(&read.address) == Some(&id) {
            self.at.remove(&read.address);
        }
        Some(read)
    }

    /// A read of one block failed, or of several, which are read one by one from now on.
    fn failed(&mut self, address: u64, blocks: u32) {
        if blocks > 1 {
            self.fragile.extend(address..address + u64::from(blocks));
        } else {
            self.bad.insert(address);
        }
    }

    /// Returns whether data at an address are known to be unreadable: by a failed read, which is told once, or by damage.
    fn is_unreadable(&mut self, address: u64) -> bool {
        self.bad.remove(&address) || self.damaged.contains(&address)
    }

    /// The mount found the data at an address damaged.
    pub fn add_damaged(&mut self, address: u64) {
        self.damaged.insert(address);
    }

    /// Takes blocks that were read for callers other than tree and pages; `None` in it: they cannot be read.
    fn take_raw(&mut self, address: u64) -> Option<Option<Vec<u8>>> {
        self.raw.remove(&address)
    }

    /// Keeps blocks for the operation that asked.
    pub fn keep_raw(&mut self, address: u64, data: Option<Vec<u8>>) {
        self.raw.insert(address, data);
    }

    /// Returns whether such blocks are being read.
    fn reads_raw(&self, address: u64) -> bool {
        let is_it = |r: &Reading| !r.cancelled && r.address == address && matches!(r.what, ReadFor::Raw);
        self.under_way.values().any(is_it)
    }

    /// Data that were read ahead, or are being read so, are no longer wanted.
    pub fn forget_raw(&mut self) {
        self.raw.clear();
        for read in self.under_way.values_mut() {
            read.cancelled |= matches!(read.what, ReadFor::Raw);
        }
    }

    /// Cancels reads under way of these blocks of a file.
    pub fn cancel(&mut self, ino: Ino, from: u64, to: u64) {
        for read in self.under_way.values_mut() {
            if let ReadFor::Data { ino: of, block, .. } = read.what
                && of == ino
                && block < to
                && block + u64::from(read.blocks) > from
            {
                read.cancelled = true;
            }
        }
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
        let id = self.new_id();
        self.log.queue(address, blocks.into(), true);
        self.reads.ask(id, address, blocks, what);
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
        if self.reads.is_unreadable(address) {
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
        let come = self.reads.take_raw(address);
        if come.is_none() && !self.reads.reads_raw(address) {
            self.want(address, blocks, ReadFor::Raw);
        }
        come
    }

    pub(super) fn read_ended(&mut self, id: u64, outcome: Result<Vec<u8>, JobError>) {
        let Some(read) = self.reads.end(id) else { return };
        self.log.queue(read.address, read.blocks.into(), false);
        if read.cancelled {
            return;
        }
        let whole = outcome.ok().filter(|data| data.len() == read.blocks as usize * BLOCK_BYTES);
        match (read.what, whole) {
            (ReadFor::Raw, data) => self.reads.keep_raw(read.address, data),
            (ReadFor::Node(miss), Some(data)) => {
                let block = data.first_chunk().map(block_of);
                if !block.is_some_and(|block| self.catalog.arrived(miss, block)) {
                    self.reads.failed(read.address, 1);
                }
            }
            (ReadFor::Data { ino, block, sums }, Some(data)) => {
                for (n, bytes) in data.as_chunks().0.iter().enumerate() {
                    let sum = sums.get(n).copied().flatten();
                    if !self.still_lies(ino, block + n as u64, read.address + n as u64) {
                        // It was moved meanwhile: the operation that asked looks there.
                    } else if sum.is_some_and(|sum| crc32c::crc32c(bytes) != sum) {
                        self.reads.failed(read.address + n as u64, 1);
                    } else if !self.pages.has(ino, block + n as u64) {
                        self.pages.insert(ino, block + n as u64, Some((shared(bytes), sum)));
                    }
                }
            }
            (ReadFor::Data { ino, block, .. }, None)
                if read.blocks == 1 && !self.still_lies(ino, block, read.address) => {}
            (_, None) => self.reads.failed(read.address, read.blocks),
        }
    }
}
