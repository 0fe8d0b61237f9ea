//! Shared blocks: pages in memory, shared with the writes that carry them to the media.
//!
//! [`WriteData`] copies data once, on arrival, before the file system is locked. A page that changes while a write holds it is copied.

use crate::node::Block;
use crate::types::BLOCK_BYTES;
use std::ops::Range;
use std::sync::Arc;

/// A block that may have several owners.
pub(crate) type SharedBlock = Arc<[u8; BLOCK_BYTES]>;

/// A copy of a block.
pub(crate) fn shared(bytes: &[u8; BLOCK_BYTES]) -> SharedBlock {
    // As a slice, the bytes are copied directly, without passing through the stack.
    match Arc::<[u8]>::from(&bytes[..]).try_into() {
        Ok(block) => block,
        Err(_) => unreachable!("the slice has the length of a block"),
    }
}

pub(crate) fn shared_zeros() -> SharedBlock {
    shared(&[0; BLOCK_BYTES])
}

/// Consecutive blocks to write. Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks(Arc<Vec<SharedBlock>>);

impl Blocks {
    pub(crate) fn new(blocks: Vec<SharedBlock>) -> Blocks {
        Blocks(Arc::new(blocks))
    }

    /// Copies of whole blocks.
    pub(crate) fn copied(bytes: &[u8]) -> Blocks {
        Blocks::new(bytes.as_chunks().0.iter().map(shared).collect())
    }

    /// Number of blocks.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Total bytes.
    pub fn bytes(&self) -> usize {
        self.count() * BLOCK_BYTES
    }

    /// Iterates over the blocks.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8; BLOCK_BYTES]> {
        self.0.iter().map(|block| &**block)
    }

    /// Copies all blocks into one buffer, for a drive that needs one.
    pub fn to_vec(&self) -> Vec<u8> {
        self.iter().flatten().copied().collect()
    }

    pub(crate) fn shared(&self) -> &[SharedBlock] {
        &self.0
    }
}

/// A block owned by the tree.
pub(crate) fn block_of(bytes: &[u8; BLOCK_BYTES]) -> Block {
    let mut block = crate::node::zero_block();
    block.copy_from_slice(bytes);
    block
}

/// Data for a range of a file. Fully covered blocks are copied and checksummed here, without the file system.
#[derive(Debug)]
pub struct WriteData<'a> {
    pub(crate) offset: u64,
    pub(crate) data: &'a [u8],
    /// The first fully covered block, if any.
    first: u64,
    whole: Vec<(SharedBlock, u32)>,
}

impl<'a> WriteData<'a> {
    /// Data to write at `offset`.
    pub fn new(offset: u64, data: &'a [u8]) -> WriteData<'a> {
        let first = offset.div_ceil(BLOCK_BYTES as u64);
        let head = (offset.wrapping_neg() % BLOCK_BYTES as u64) as usize;
        let blocks = data.get(head..).unwrap_or_default().as_chunks().0;
        let whole = blocks.iter().map(|bytes| (shared(bytes), crc32c::crc32c(bytes))).collect();
        WriteData { offset, data, first, whole }
    }

    /// A fully covered block, with its checksum.
    pub(crate) fn whole(&self, block: u64) -> Option<(SharedBlock, u32)> {
        self.whole.get(block.checked_sub(self.first)? as usize).cloned()
    }
}

/// Result of a read, in the file system's own blocks, so that it is assembled without the file system.
#[derive(Debug, Default)]
pub struct ReadData {
    /// Parts: a block, or zeros, and a range of its bytes.
    parts: Vec<(Option<SharedBlock>, Range<usize>)>,
}

impl ReadData {
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
    }

    pub(crate) fn push(&mut self, block: Option<SharedBlock>, part: Range<usize>) {
        self.parts.push((block, part));
    }

    /// Moves the bytes into a buffer, which is cleared first, and releases the blocks.
    pub fn take(&mut self, out: &mut Vec<u8>) {
        out.clear();
        for (block, part) in self.parts.drain(..) {
            match block {
                Some(block) => out.extend_from_slice(&block[part]),
                None => out.resize(out.len() + part.len(), 0),
            }
        }
    }
}
