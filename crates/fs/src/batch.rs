//! A batch: the blocks written to a segment at once. A header describes them, with a checksum for each.
//!
//! ```text
//!   header   crc32c, magic, file system, epoch, sequence number, address, blocks, flags, lengths
//!            runs: owners of the blocks   sums: their checksums    entries: changed keys and values
//!   blocks   data of files, nodes of the tree, or more entries
//! ```
//! A *commit* is one or several batches; the last one says so. The entries of all its batches together are the changes of the
//! tree since the commit before it. A commit counts when all of its batches, and all batches with lower numbers, are whole.

use super::block::{Blocks, SharedBlock, shared, shared_zeros};
use super::key::{Fields, Key};
use super::types::BLOCK_BYTES;

const MAGIC: u32 = 0x424c_4c50;
const HEADER: usize = 64;
const RUN: usize = 20;
const LAST: u32 = 1;
const DELETED: u16 = u16::MAX;

/// Owner of a block in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Block of a file.
    Data { ino: u64, block: u64 },
    /// Node of the tree: lowest key, level.
    Node { low: Key, level: u8 },
    /// Entries.
    Entries,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    owner: Owner,
    count: u16,
}

impl Run {
    fn encode(&self) -> [u8; RUN] {
        let (a, b, kind, level) = match self.owner {
            Owner::Data { ino, block } => (ino, block, 0, 0),
            Owner::Node { low, level } => (low.object(), low.0 as u64, 1, level),
            Owner::Entries => (0, 0, 2, 0),
        };
        let mut bytes = [0; RUN];
        bytes[..8].copy_from_slice(&a.to_le_bytes());
        bytes[8..16].copy_from_slice(&b.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.count.to_le_bytes());
        (bytes[18], bytes[19]) = (kind, level);
        bytes
    }

    fn decode(f: &mut Fields) -> Option<Run> {
        let (a, b, count, kind, level) = (f.u64()?, f.u64()?, f.u16()?, f.u8()?, f.u8()?);
        let owner = match kind {
            0 => Owner::Data { ino: a, block: b },
            1 => Owner::Node { low: Key(u128::from(a) << 64 | u128::from(b)), level },
            2 => Owner::Entries,
            _ => return None,
        };
        Some(Run { owner, count })
    }
}

/// File system and mount of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub file_system: u64,
    pub epoch: u64,
}

/// A batch that is being put together.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub seq: u64,
    pub address: u64,
    /// Blocks that it may have, with the header.
    limit: u32,
    runs: Vec<Run>,
    sums: Vec<u32>,
    entries: Vec<u8>,
    last: bool,
    /// Blocks behind the header.
    blocks: Vec<SharedBlock>,
}

impl Batch {
    pub fn new(seq: u64, address: u64, limit: u32) -> Batch {
        Batch {
            seq,
            address,
            limit,
            runs: Vec::new(),
            sums: Vec::new(),
            entries: Vec::new(),
            last: false,
            blocks: Vec::new(),
        }
    }

    /// Blocks, with the header.
    pub fn blocks(&self) -> u32 {
        1 + self.blocks.len() as u32
    }

    /// Bytes of entries that the header has space for.
    pub fn inline_space(&self) -> usize {
        BLOCK_BYTES - HEADER - RUN * self.runs.len() - 4 * self.sums.len() - self.entries.len()
    }

    pub fn has_space(&self) -> bool {
        self.blocks() < self.limit && self.inline_space() >= RUN + 4
    }

    /// Appends a copy of a block.
    pub fn push_copy(&mut self, owner: Owner, data: &[u8; BLOCK_BYTES]) {
        self.push(owner, shared(data), crc32c::crc32c(data));
    }

    /// Appends a block, of which the checksum is known, and gives its address.
    pub fn push(&mut self, owner: Owner, data: SharedBlock, sum: u32) -> u64 {
        let address = self.address + u64::from(self.blocks());
        let goes_on = self.runs.last_mut().filter(|run| match (run.owner, owner) {
            (Owner::Data { ino, block }, Owner::Data { ino: of, block: next }) => {
                ino == of && block + u64::from(run.count) == next
            }
            (Owner::Entries, Owner::Entries) => true,
            _ => false,
        });
        match goes_on {
            Some(run) => run.count += 1,
            None => self.runs.push(Run { owner, count: 1 }),
        }
        self.sums.push(sum);
        self.blocks.push(data);
        address
    }

    /// Puts entries into the header; there has to be space.
    pub fn put_inline(&mut self, entries: &[u8]) {
        debug_assert!(entries.len() <= self.inline_space());
        self.entries.extend_from_slice(entries);
    }

    pub fn end_commit(&mut self) {
        self.last = true;
    }

    /// The batch as it is written: so many blocks, of which the last may be there to fill up a page.
    pub fn seal(self, identity: Identity, padded: u32) -> Blocks {
        let blocks = self.blocks();
        let mut header = Vec::with_capacity(BLOCK_BYTES);
        header.extend_from_slice(&[0; 4]);
        header.extend_from_slice(&MAGIC.to_le_bytes());
        for word in [identity.file_system, identity.epoch, self.seq, self.address] {
            header.extend_from_slice(&word.to_le_bytes());
        }
        header.extend_from_slice(&blocks.to_le_bytes());
        header.extend_from_slice(&(if self.last { LAST } else { 0 }).to_le_bytes());
        header.extend_from_slice(&(self.runs.len() as u16).to_le_bytes());
        header.extend_from_slice(&(self.entries.len() as u16).to_le_bytes());
        header.resize(HEADER, 0);
        for run in &self.runs {
            header.extend_from_slice(&run.encode());
        }
        for sum in &self.sums {
            header.extend_from_slice(&sum.to_le_bytes());
        }
        header.extend_from_slice(&self.entries);
        header.resize(BLOCK_BYTES, 0);
        let crc = crc32c::crc32c(&header[4..]);
        header[..4].copy_from_slice(&crc.to_le_bytes());
        let mut sealed = Vec::with_capacity(padded as usize);
        sealed.extend(header.as_chunks().0.iter().map(shared));
        sealed.extend(self.blocks);
        sealed.resize_with(padded as usize, shared_zeros);
        Blocks::new(sealed)
    }
}

/// A header that was read.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub identity: Identity,
    pub seq: u64,
    pub address: u64,
    pub blocks: u32,
    pub last: bool,
    runs: Vec<Run>,
    sums: Vec<u32>,
    entries: Vec<u8>,
}

impl Header {
    /// The header at an address, if there is one.
    pub fn decode(block: &[u8], address: u64, file_system: u64) -> Option<Header> {
        let block = block.get(..BLOCK_BYTES)?;
        let mut f = Fields(block);
        if f.u32()? != crc32c::crc32c(&block[4..]) || f.u32()? != MAGIC {
            return None;
        }
        let identity = Identity { file_system: f.u64()?, epoch: f.u64()? };
        let (seq, own, blocks, flags) = (f.u64()?, f.u64()?, f.u32()?, f.u32()?);
        let (runs, entries) = (f.u16()?, f.u16()?);
        if identity.file_system != file_system || own != address || blocks == 0 {
            return None;
        }
        let mut f = Fields(&block[HEADER..]);
        let runs = (0..runs).map(|_| Run::decode(&mut f)).collect::<Option<Vec<Run>>>()?;
        let sums = (1..blocks).map(|_| f.u32()).collect::<Option<Vec<u32>>>()?;
        let counted = runs.iter().map(|run| u32::from(run.count)).sum::<u32>();
        let entries = f.bytes(entries.into())?.to_vec();
        let last = flags & LAST != 0;
        (counted == blocks - 1).then_some(Header {
            identity,
            seq,
            address,
            blocks,
            last,
            runs,
            sums,
            entries,
        })
    }

    /// The owners of the blocks, with their addresses.
    pub fn owners(&self) -> impl Iterator<Item = (u64, Owner)> {
        let owners = self.runs.iter().flat_map(|run| {
            (0..u64::from(run.count)).map(|n| match run.owner {
                Owner::Data { ino, block } => Owner::Data { ino, block: block + n },
                other => other,
            })
        });
        owners.enumerate().map(|(n, owner)| (self.address + 1 + n as u64, owner))
    }

    /// Returns whether the blocks are those that were written; appends the batch's entries.
    pub fn is_whole(&self, blocks: &[u8], entries: &mut Vec<u8>) -> bool {
        let data = blocks.chunks_exact(BLOCK_BYTES);
        if data.len() < self.sums.len()
            || data.zip(&self.sums).any(|(data, sum)| crc32c::crc32c(data) != *sum)
        {
            return false;
        }
        for (address, owner) in self.owners() {
            if owner == Owner::Entries {
                let at = (address - self.address - 1) as usize * BLOCK_BYTES;
                entries.extend_from_slice(&blocks[at..at + BLOCK_BYTES]);
            }
        }
        entries.extend_from_slice(&self.entries);
        true
    }
}

/// Appends a changed key and its value; `None`: it is gone.
pub(super) fn put_entry(entries: &mut Vec<u8>, key: Key, value: Option<&[u8]>) {
    let length = value.map_or(DELETED, |value| value.len() as u16);
    entries.extend_from_slice(&key.0.to_le_bytes());
    entries.extend_from_slice(&length.to_le_bytes());
    entries.extend_from_slice(value.unwrap_or_default());
}

/// The next entry. Blocks of entries are filled up with zeros, which is where a commit's entries end.
pub(super) fn take_entry<'a>(f: &mut Fields<'a>) -> Option<(Key, Option<&'a [u8]>)> {
    let key = Key(f.u128()?);
    let length = f.u16()?;
    if key == Key::MIN && length == 0 {
        return None;
    }
    if length == DELETED {
        return Some((key, None));
    }
    Some((key, Some(f.bytes(length.into())?)))
}
