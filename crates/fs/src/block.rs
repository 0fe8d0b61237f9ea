//! Shared blocks: a page in memory, and the writes that carry it to the media.
//!
//! [`WriteData`] copies data once, when they come, before it locks the file system. A page that changes while a write holds it is copied.

use crate::node::Block;
use crate::types::BLOCK_BYTES;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a block that may have other owners.
pub(crate) type SharedBlock = Arc<[u8; BLOCK_BYTES]>;

/// A copy of a block.
pub(crate) fn shared(bytes: &[u8; BLOCK_BYTES]) -> SharedBlock {
    // As a slice the bytes go to their place at once, and not by way of the stack.
    match Arc::<[u8]>::from(&bytes[..]).try_into() {
        Ok(block) => block,
        Err(_) => unreachable!("the slice has the length of a block"),
    }
}

pub(crate) fn shared_zeros() -> SharedBlock {
    shared(&[0; BLOCK_BYTES])
}

/// Blocks that are written one behind the other. A clone shares them.
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

    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Bytes of all.
    pub fn bytes(&self) -> usize {
        self.count() * BLOCK_BYTES
    }

    /// Each block.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8; BLOCK_BYTES]> {
        self.0.iter().map(|block| &**block)
    }

    /// A copy of all of them, for a drive that wants them in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        self.iter().flatten().copied().collect()
    }

    pub(crate) fn shared(&self) -> &[SharedBlock] {
        &self.0
    }
}

/// A block of the tree's own.
pub(crate) fn block_of(bytes: &[u8; BLOCK_BYTES]) -> Block {
    let mut block = crate::node::zero_block();
    block.copy_from_slice(bytes);
    block
}

/// Data for a place in a file. Of blocks that they cover as a whole the copy and the checksum are made here, without the file system.
#[derive(Debug)]
pub struct WriteData<'a> {
    pub(crate) offset: u64,
    pub(crate) data: &'a [u8],
    /// The first block that is covered as a whole, if one is.
    first: u64,
    whole: Vec<(SharedBlock, u32)>,
}

impl<'a> WriteData<'a> {
    /// Data for an offset on.
    pub fn new(offset: u64, data: &'a [u8]) -> WriteData<'a> {
        let first = offset.div_ceil(BLOCK_BYTES as u64);
        let head = (offset.wrapping_neg() % BLOCK_BYTES as u64) as usize;
        let blocks = data.get(head..).unwrap_or_default().as_chunks().0;
        let whole = blocks.iter().map(|bytes| (shared(bytes), crc32c::crc32c(bytes))).collect();
        WriteData { offset, data, first, whole }
    }

    /// A block that is covered as a whole, and its checksum.
    pub(crate) fn whole(&self, block: u64) -> Option<(SharedBlock, u32)> {
        self.whole.get(block.checked_sub(self.first)? as usize).cloned()
    }
}

/// Result of a read, in the file system's own blocks: it is put together without the file system.
#[derive(Debug, Default)]
pub struct ReadData {
    /// A block, or zeros, and which of its bytes.
    parts: Vec<(Option<SharedBlock>, Range<usize>)>,
}

impl ReadData {
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
    }

    pub(crate) fn push(&mut self, block: Option<SharedBlock>, part: Range<usize>) {
        self.parts.push((block, part));
    }

    /// Puts the bytes into a buffer, which is cleared, and gives the blocks up.
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
