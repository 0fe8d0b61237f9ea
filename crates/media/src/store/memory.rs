//! Everything in memory, block by block as blocks are first programmed. It serves two kinds of store: with an image of
//! `sector_bytes` per sector it keeps the data, with one of 4 bytes a stamp; nothing else differs.
//!
//! A block's memory is allocated zeroed, kept across erases, and never cleared: validity is the block state's business.

use super::StoreShape;
use crate::state::BlockState;
use std::ops::Range;

const CACHE_LINE_BYTES: usize = 64;

/// The memory store.
#[derive(Clone, Debug)]
pub(crate) struct MemoryStore {
    shape: StoreShape,
    states: Vec<BlockState>,
    /// Metadata, then images, of each block that has ever been programmed.
    blocks: Vec<Option<Box<[u8]>>>,
    allocated_blocks: u64,
}

impl MemoryStore {
    pub(crate) fn new(shape: StoreShape) -> MemoryStore {
        MemoryStore {
            states: vec![BlockState::default(); shape.blocks as usize],
            blocks: vec![None; shape.blocks as usize],
            allocated_blocks: 0,
            shape,
        }
    }

    #[inline]
    pub(crate) fn state(&self, block: u32) -> BlockState {
        self.states[block as usize]
    }

    #[inline]
    pub(crate) fn set_state(&mut self, block: u32, state: BlockState) {
        self.states[block as usize] = state;
    }

    #[inline]
    pub(crate) fn meta(&self, block: u32) -> &[u8] {
        &self.bytes(block)[..self.shape.meta.bytes]
    }

    #[inline]
    pub(crate) fn images(&self, block: u32) -> &[u8] {
        &self.bytes(block)[self.shape.meta.bytes..]
    }

    /// Has the processor fetch `bytes` bytes of images from `start` on, which will be read soon.
    #[inline]
    pub(crate) fn prefetch(&self, block: u32, start: usize, bytes: usize) {
        if let Some(all) = &self.blocks[block as usize] {
            let images = &all[self.shape.meta.bytes..];
            for line in (start..start + bytes).step_by(CACHE_LINE_BYTES) {
                prefetch_index::prefetch_index(images, line);
            }
        }
    }

    /// Metadata and images; allocates the block on its first program.
    #[inline]
    pub(crate) fn both_mut(&mut self, block: u32) -> (&mut [u8], &mut [u8]) {
        let bytes = self.shape.meta.bytes + self.shape.image_bytes_per_block;
        let slot = &mut self.blocks[block as usize];
        if slot.is_none() {
            self.allocated_blocks += 1;
        }
        slot.get_or_insert_with(|| vec![0; bytes].into_boxed_slice()).split_at_mut(self.shape.meta.bytes)
    }

    pub(crate) fn copy_images(&mut self, from: (u32, Range<usize>), to: (u32, usize)) {
        let base = self.shape.meta.bytes;
        let (source, target) = (base + from.1.start..base + from.1.end, base + to.1);
        // The target is taken out for the copy, so that the two blocks can be borrowed at once.
        let mut bytes = self.blocks[to.0 as usize].take().expect("a begun stripe has memory");
        if from.0 == to.0 {
            bytes.copy_within(source, target);
        } else {
            bytes[target..target + source.len()].copy_from_slice(&self.bytes(from.0)[source]);
        }
        self.blocks[to.0 as usize] = Some(bytes);
    }

    /// Bytes of memory held, counting what has been allocated.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let per_block = size_of::<BlockState>() + size_of::<Option<Box<[u8]>>>();
        let allocated = self.shape.meta.bytes + self.shape.image_bytes_per_block;
        self.states.len() as u64 * per_block as u64 + self.allocated_blocks * allocated as u64
    }

    #[inline]
    fn bytes(&self, block: u32) -> &[u8] {
        self.blocks[block as usize].as_deref().expect("a block with programmed stripes has memory")
    }
}
