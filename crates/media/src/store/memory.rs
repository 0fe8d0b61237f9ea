//! Everything in memory, block by block as blocks are first programmed. It serves two kinds of store: with an image of
//! `sector_bytes` per sector it keeps the data, with one of 4 bytes a stamp; nothing else differs.
//!
//! A block's memory is allocated zeroed, kept across erases, and never cleared: validity is the block state's business.
//! Images have an arena of their own, so that a unit of whole pages is whole pages in memory, too.

use super::StoreShape;
use super::arena::Arena;
use crate::state::BlockState;
use std::ops::Range;

const CACHE_LINE_BYTES: usize = 64;
/// The place of a block that has never been programmed.
const NOWHERE: u32 = u32::MAX;

/// The memory store.
#[derive(Clone, Debug)]
pub(crate) struct MemoryStore {
    states: Vec<BlockState>,
    /// The piece of both arenas that belongs to each block.
    places: Vec<u32>,
    metas: Arena,
    images: Arena,
}

impl MemoryStore {
    pub(crate) fn new(shape: StoreShape) -> MemoryStore {
        MemoryStore {
            states: vec![BlockState::default(); shape.blocks as usize],
            places: vec![NOWHERE; shape.blocks as usize],
            metas: Arena::new(shape.blocks, shape.meta.bytes),
            images: Arena::new(shape.blocks, shape.image_bytes_per_block),
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
        self.metas.get(self.place(block))
    }

    #[inline]
    pub(crate) fn images(&self, block: u32) -> &[u8] {
        self.images.get(self.place(block))
    }

    /// Has the processor fetch `bytes` bytes of images from `start` on, which will be read soon.
    #[inline]
    pub(crate) fn prefetch(&self, block: u32, start: usize, bytes: usize) {
        let place = self.places[block as usize];
        if place != NOWHERE {
            let images = self.images.get(place);
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
            *place = self.metas.take();
            let same = self.images.take();
            assert_eq!(*place, same, "both arenas go together");
        }
        (self.metas.get_mut(*place), self.images.get_mut(*place))
    }

    pub(crate) fn copy_images(&mut self, from: (u32, Range<usize>), to: (u32, usize)) {
        self.images.copy((self.place(from.0), from.1), (self.place(to.0), to.1));
    }

    /// Bytes of memory held, counting what has been handed out to blocks.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let per_block = size_of::<BlockState>() + size_of::<u32>();
        self.states.len() as u64 * per_block as u64 + self.metas.bytes() + self.images.bytes()
    }

    #[inline]
    fn place(&self, block: u32) -> u32 {
        let place = self.places[block as usize];
        assert!(place != NOWHERE, "a block with programmed stripes has memory");
        place
    }
}
