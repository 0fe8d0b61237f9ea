//! Everything in memory, block by block as blocks are first programmed. It serves two kinds of store: with an image of
//! `sector_bytes` per sector it keeps the data, with one of 4 bytes a stamp; nothing else differs.
//!
//! A block's memory is allocated zeroed, kept across erases, and never cleared: validity is the block state's business.
//! Data come first in it, and blocks begin on whole pages of memory, so that a unit of whole pages is just those.

use super::StoreShape;
use super::arena::Arena;
use crate::state::BlockState;
use std::ops::Range;

const CACHE_LINE_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;
/// The place of a block that has never been programmed.
const NOWHERE: u32 = u32::MAX;

/// The memory store.
#[derive(Clone, Debug)]
pub(crate) struct MemoryStore {
    states: Vec<BlockState>,
    /// The piece of the arena that belongs to each block.
    places: Vec<u32>,
    /// Images, then metadata, of each block that has ever been programmed.
    pieces: Arena,
    images_bytes: usize,
    meta_bytes: usize,
}

impl MemoryStore {
    pub(crate) fn new(shape: StoreShape) -> MemoryStore {
        let (images_bytes, meta_bytes) = (shape.image_bytes_per_block, shape.meta.bytes);
        // Stamps are too small for pages to matter.
        let align = if shape.unit_image_bytes < PAGE_BYTES { CACHE_LINE_BYTES } else { PAGE_BYTES };
        MemoryStore {
            states: vec![BlockState::default(); shape.blocks as usize],
            places: vec![NOWHERE; shape.blocks as usize],
            pieces: Arena::new(shape.blocks, (images_bytes + meta_bytes).next_multiple_of(align)),
            images_bytes,
            meta_bytes,
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
        &self.pieces.get(self.place(block))[self.images_bytes..][..self.meta_bytes]
    }

    #[inline]
    pub(crate) fn images(&self, block: u32) -> &[u8] {
        &self.pieces.get(self.place(block))[..self.images_bytes]
    }

    /// Has the processor fetch `bytes` bytes of images from `start` on, which will be read soon.
    #[inline]
    pub(crate) fn prefetch(&self, block: u32, start: usize, bytes: usize) {
        let place = self.places[block as usize];
        if place != NOWHERE {
            let images = self.pieces.get(place);
            for line in (start..start + bytes).step_by(CACHE_LINE_BYTES) {
                prefetch_index::prefetch_index(images, line);
            }
        }
    }

    /// Metadata and images; allocates the block on its first program.
    #[inline]
    pub(crate) fn both_mut(&mut self, block: u32) -> (&mut [u8], &mut [u8]) {
        let place = &mut self.places[block as usize];
        if *place == NOWHERE {
            *place = self.pieces.take();
        }
        let (images, rest) = self.pieces.get_mut(*place).split_at_mut(self.images_bytes);
        (&mut rest[..self.meta_bytes], images)
    }

    pub(crate) fn copy_images(&mut self, from: (u32, Range<usize>), to: (u32, usize)) {
        self.pieces.copy((self.place(from.0), from.1), (self.place(to.0), to.1));
    }

    /// Bytes of memory held, counting what has been handed out to blocks.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let per_block = size_of::<BlockState>() + size_of::<u32>();
        self.states.len() as u64 * per_block as u64 + self.pieces.bytes()
    }

    #[inline]
    fn place(&self, block: u32) -> u32 {
        let place = self.places[block as usize];
        assert!(place != NOWHERE, "a block with programmed stripes has memory");
        place
    }
}
