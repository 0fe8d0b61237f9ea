//! A batch: the blocks written to a segment at once. A header describes them, with a checksum for each.
//!
//! ```text
//!   header   crc32c, magic, file system, epoch, sequence number, address, blocks, flags, lengths, durable
//!            runs: owners of the blocks   sums: their checksums    entries: changed keys and values
//!   blocks   data of files, nodes of the tree, or more entries, each block of these twice
//!   header   a copy of the first
//! ```
//! A *commit* is one or several batches; the last one says so. The entries of its batches together are the changes of the tree since the previous
//! commit. A commit counts only if all of its batches and all earlier batches are whole.
//! A header names the batch up to which everything was durable when it was written. If a batch up to there is not whole, it is damaged, not torn by a
//! power cut (`replay.rs`).

use crate::block::{Blocks, SharedBlock, shared, shared_zeros};
use crate::key::{Fields, Key};
use crate::types::BLOCK_BYTES;

const MAGIC: u32 = 0x424c_4c50;
const HEADER: usize = 64;
const RUN: usize = 20;
const LAST: u32 = 1;
const FIRST: u32 = 2;
const DELETED: u16 = u16::MAX;

/// Owner of a block in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Block of a file.
    Data { ino: u64, block: u64 },
    /// Node of the tree: lowest key, level.
    Node { low: Key, level: u8 },
    /// Entries.
    Entries,
    /// A copy of the preceding block of entries.
    EntriesCopy,
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
            Owner::EntriesCopy => (0, 0, 3, 0),
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
            3 => Owner::EntriesCopy,
            _ => return None,
        };
        Some(Run { owner, count })
    }
}

/// File system and mount of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub file_system: u64,
    pub epoch: u64,
}

/// A batch under construction.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub seq: u64,
    pub address: u64,
    /// Maximum blocks, headers included.
    limit: u32,
    runs: Vec<Run>,
    sums: Vec<u32>,
    entries: Vec<u8>,
    first: bool,
    last: bool,
    /// Blocks after the header.
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
            first: false,
            last: false,
            blocks: Vec::new(),
        }
    }

    /// Number of blocks, headers included.
    pub fn blocks(&self) -> u32 {
        2 + self.blocks.len() as u32
    }

    /// Address of the next block.
    pub fn next_address(&self) -> u64 {
        self.address + 1 + self.blocks.len() as u64
    }

    /// Bytes of entries that the header has space for.
    pub fn inline_space(&self) -> usize {
        BLOCK_BYTES - HEADER - RUN * self.runs.len() - 4 * self.sums.len() - self.entries.len()
    }

    /// Returns true if `blocks` more fit into the batch.
    pub fn has_space_for(&self, blocks: u32) -> bool {
        self.blocks() + blocks <= self.limit && self.inline_space() >= blocks as usize * (RUN + 4)
    }

    pub fn has_space(&self) -> bool {
        self.has_space_for(1)
    }

    /// Appends a copy of a block.
    pub fn push_copy(&mut self, owner: Owner, data: &[u8; BLOCK_BYTES]) {
        self.push(owner, shared(data), crc32c::crc32c(data));
    }

    /// Appends a block with a known checksum, and returns its address.
    pub fn push(&mut self, owner: Owner, data: SharedBlock, sum: u32) -> u64 {
        let address = self.next_address();
        let goes_on = self.runs.last_mut().filter(|run| match (run.owner, owner) {
            (Owner::Data { ino, block }, Owner::Data { ino: of, block: next }) => {
                ino == of && block + u64::from(run.count) == next
            }
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

    /// Puts entries into the header, which must have space for them.
    pub fn put_inline(&mut self, entries: &[u8]) {
        debug_assert!(entries.len() <= self.inline_space());
        self.entries.extend_from_slice(entries);
    }

    pub fn begin_commit(&mut self) {
        self.first = true;
    }

    pub fn end_commit(&mut self) {
        self.last = true;
    }

    /// Encodes the batch as `padded` blocks; the last ones may pad a page. Everything up to the batch `durable` is on the media.
    pub fn seal(self, identity: Identity, durable: u64, padded: u32) -> Blocks {
        let blocks = self.blocks();
        let mut header = Vec::with_capacity(BLOCK_BYTES);
        header.extend_from_slice(&[0; 4]);
        header.extend_from_slice(&MAGIC.to_le_bytes());
        for word in [identity.file_system, identity.epoch, self.seq, self.address] {
            header.extend_from_slice(&word.to_le_bytes());
        }
        header.extend_from_slice(&blocks.to_le_bytes());
        let flags = if self.first { FIRST } else { 0 } | if self.last { LAST } else { 0 };
        header.extend_from_slice(&flags.to_le_bytes());
        header.extend_from_slice(&(self.runs.len() as u16).to_le_bytes());
        header.extend_from_slice(&(self.entries.len() as u16).to_le_bytes());
        header.extend_from_slice(&durable.to_le_bytes());
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
        sealed.extend_from_within(..1);
        sealed.resize_with(padded as usize, shared_zeros);
        Blocks::new(sealed)
    }
}

/// A decoded header.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub identity: Identity,
    pub seq: u64,
    pub address: u64,
    /// Number of blocks, headers included.
    pub blocks: u32,
    /// True for the first batch of a commit.
    pub first: bool,
    /// True for the last batch of a commit.
    pub last: bool,
    /// The batch up to which everything was durable at the time.
    pub durable: u64,
    runs: Vec<Run>,
    sums: Vec<u32>,
    entries: Vec<u8>,
}

impl Header {
    /// Decodes the header at an address, if there is one.
    pub fn decode(block: &[u8], address: u64, file_system: u64) -> Option<Header> {
        Header::parse(block, file_system).filter(|header| header.address == address)
    }

    /// Decodes the header whose copy is at an address, if there is one.
    pub fn decode_copy(block: &[u8], address: u64, file_system: u64) -> Option<Header> {
        let ends_here = |header: &Header| header.address + u64::from(header.blocks) - 1 == address;
        Header::parse(block, file_system).filter(ends_here)
    }

    fn parse(block: &[u8], file_system: u64) -> Option<Header> {
        let block = block.get(..BLOCK_BYTES)?;
        let mut f = Fields(block);
        if f.u32()? != crc32c::crc32c(&block[4..]) || f.u32()? != MAGIC {
            return None;
        }
        let identity = Identity { file_system: f.u64()?, epoch: f.u64()? };
        let (seq, address, blocks, flags) = (f.u64()?, f.u64()?, f.u32()?, f.u32()?);
        let (runs, entries, durable) = (f.u16()?, f.u16()?, f.u64()?);
        if identity.file_system != file_system || blocks < 2 || durable >= seq {
            return None;
        }
        let mut f = Fields(&block[HEADER..]);
        let runs = (0..runs).map(|_| Run::decode(&mut f)).collect::<Option<Vec<Run>>>()?;
        let sums = (2..blocks).map(|_| f.u32()).collect::<Option<Vec<u32>>>()?;
        let counted = runs.iter().map(|run| u32::from(run.count)).sum::<u32>();
        let entries = f.bytes(entries.into())?.to_vec();
        let (first, last) = (flags & FIRST != 0, flags & LAST != 0);
        (counted == blocks - 2).then_some(Header {
            identity,
            seq,
            address,
            blocks,
            first,
            last,
            durable,
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

    /// Compares the data after the header with the written ones; an unreadable block is `None`.
    pub fn examine<'a>(&self, blocks: impl Iterator<Item = Option<&'a [u8]>>) -> Contents {
        let (mut bad, mut lost, mut entries) = (Vec::new(), false, Vec::new());
        let mut missing = false;
        for (((address, owner), sum), block) in self.owners().zip(&self.sums).zip(blocks) {
            let block = block.filter(|block| crc32c::crc32c(block) == *sum);
            bad.extend(block.is_none().then_some((address, owner)));
            match (owner, block) {
                (Owner::Entries, Some(block)) => entries.extend_from_slice(block),
                (Owner::EntriesCopy, Some(block)) if missing => entries.extend_from_slice(block),
                (Owner::EntriesCopy, None) if missing => lost = true,
                _ => {}
            }
            missing = owner == Owner::Entries && block.is_none();
        }
        entries.extend_from_slice(&self.entries);
        Contents { entries: (!lost).then_some(entries), bad }
    }
}

/// Content of a batch found in the log.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    /// Entries; `None`: both copies of some block are damaged.
    pub entries: Option<Vec<u8>>,
    /// Damaged or unreadable blocks.
    pub bad: Vec<(u64, Owner)>,
}

/// Appends a changed key and its value; `None`: the key was deleted.
pub(crate) fn put_entry(entries: &mut Vec<u8>, key: Key, value: Option<&[u8]>) {
    let length = value.map_or(DELETED, |value| value.len() as u16);
    entries.extend_from_slice(&key.0.to_le_bytes());
    entries.extend_from_slice(&length.to_le_bytes());
    entries.extend_from_slice(value.unwrap_or_default());
}

/// Returns the next entry. Blocks of entries are padded with zeros, which mark the end of a commit's
/// entries.
pub(crate) fn take_entry<'a>(f: &mut Fields<'a>) -> Option<(Key, Option<&'a [u8]>)> {
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
