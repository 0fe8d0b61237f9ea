//! Reads: requests each missing block once, and delivers it to everyone who needs it.
//!
//! A failed read is reported to the next caller. If a run of blocks could not be read, it is read block by block. Data that are no longer
//! needed when they arrive are dropped.

use crate::tree::Miss;
use crate::types::Ino;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Purpose of a read.
#[derive(Clone, Debug)]
pub(crate) enum ReadFor {
    Node(Miss),
    /// Blocks of a file from `block` on, with their checksums if known.
    Data {
        ino: Ino,
        block: u64,
        sums: Vec<Option<u32>>,
    },
    /// Anything else; the data are kept for the operation that asked.
    Raw,
}

/// A read that is wanted or in flight.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub address: u64,
    pub blocks: u32,
    pub what: ReadFor,
    /// True if the data are no longer wanted.
    pub cancelled: bool,
}

/// Reads that are wanted or in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// By first block.
    at: BTreeMap<u64, u64>,
    under_way: BTreeMap<u64, Reading>,
    wanted: VecDeque<u64>,
    /// Unreadable blocks, to be reported to the next caller.
    bad: BTreeSet<u64>,
    /// Blocks of a failed multi-block read: they are read one by one.
    fragile: BTreeSet<u64>,
    /// Data blocks that the mount found damaged, if data have no checksums.
    damaged: BTreeSet<u64>,
    /// Blocks read for callers other than tree and pages.
    raw: BTreeMap<u64, Option<Vec<u8>>>,
    /// Blocks read since the mount.
    blocks: u64,
}

impl Reads {
    /// Returns whether a read of a block is in flight, even if its data are no longer needed.
    pub fn overlaps(&self, address: u64) -> bool {
        self.under_way.values().any(|r| (r.address..r.address + u64::from(r.blocks)).contains(&address))
    }

    /// Clears a failed read of an address, which says nothing about later contents.
    pub fn forgive(&mut self, address: u64) {
        self.bad.remove(&address);
        self.damaged.remove(&address);
        self.fragile.remove(&address);
    }

    /// Requests blocks. An earlier read of the same block whose data are no longer needed continues separately.
    pub fn ask(&mut self, id: u64, address: u64, blocks: u32, what: ReadFor) {
        self.at.insert(address, id);
        self.under_way.insert(id, Reading { address, blocks, what, cancelled: false });
        self.wanted.push_back(id);
    }

    /// The next read for the drive: its job, first block, and length. `None`: there is none.
    pub fn next(&mut self) -> Option<(u64, u64, u32)> {
        let id = self.wanted.pop_front()?;
        let read = self.under_way.get(&id)?;
        self.blocks += u64::from(read.blocks);
        Some((id, read.address, read.blocks))
    }

    /// Returns whether a job is a read.
    pub fn is_under_way(&self, id: u64) -> bool {
        self.under_way.contains_key(&id)
    }

    /// Ends a read.
    pub fn end(&mut self, id: u64) -> Option<Reading> {
        let read = self.under_way.remove(&id)?;
        if self.at.get(&read.address) == Some(&id) {
            self.at.remove(&read.address);
        }
        Some(read)
    }

    /// Notes a failed read: of one block, or of several, which are then read one by one.
    pub fn failed(&mut self, address: u64, blocks: u32) {
        if blocks > 1 {
            self.fragile.extend(address..address + u64::from(blocks));
        } else {
            self.bad.insert(address);
        }
    }

    /// Returns whether the read of a block failed. The failure is reported once.
    pub fn take_failure(&mut self, address: u64) -> bool {
        self.bad.remove(&address)
    }

    /// Reports whether a block belongs to a failed multi-block read and is read alone.
    pub fn is_fragile(&self, address: u64) -> bool {
        self.fragile.contains(&address)
    }

    /// Returns whether the mount found the data at an address damaged.
    pub fn is_damaged(&self, address: u64) -> bool {
        self.damaged.contains(&address)
    }

    /// Blocks read since the mount.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Restarts the count of blocks read.
    pub fn count_anew(&mut self) {
        self.blocks = 0;
    }

    /// Returns whether data at an address are known to be unreadable, either from a failed read, which is reported once,
    /// or from damage.
    pub fn is_unreadable(&mut self, address: u64) -> bool {
        self.bad.remove(&address) || self.damaged.contains(&address)
    }

    /// Notes that the mount found the data at an address damaged.
    pub fn add_damaged(&mut self, address: u64) {
        self.damaged.insert(address);
    }

    /// Takes blocks read for callers other than tree and pages; an inner `None` means unreadable.
    pub fn take_raw(&mut self, address: u64) -> Option<Option<Vec<u8>>> {
        self.raw.remove(&address)
    }

    /// Keeps blocks for the operation that asked.
    pub fn keep_raw(&mut self, address: u64, data: Option<Vec<u8>>) {
        self.raw.insert(address, data);
    }

    /// Returns whether such blocks are being read.
    pub fn reads_raw(&self, address: u64) -> bool {
        let is_it = |r: &Reading| !r.cancelled && r.address == address && matches!(r.what, ReadFor::Raw);
        self.under_way.values().any(is_it)
    }

    /// Drops raw data that were read ahead or are being read.
    pub fn forget_raw(&mut self) {
        self.raw.clear();
        for read in self.under_way.values_mut() {
            read.cancelled |= matches!(read.what, ReadFor::Raw);
        }
    }

    /// Cancels reads of these blocks of a file.
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
    pub fn has(&self, address: u64) -> bool {
        self.at.range(..=address).next_back().is_some_and(|(&first, id)| {
            self.under_way.get(id).is_some_and(|r| address < first + u64::from(r.blocks) && !r.cancelled)
        })
    }
}
