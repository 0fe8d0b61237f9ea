//! Everything in memory, block by block as blocks are first programmed. It serves two kinds of store: with an image of
//! `sector_bytes` per sector it keeps the data, with one of 4 bytes a stamp; nothing else differs.
//!
//! A block's memory is allocated zeroed, kept across erases, and never cleared: validity is the block state's business.

use super::arena::Arena;
use super::{STAMP_BYTES, StoreShape};
use crate::state::BlockState;
use std::ops::Range;

const CACHE_LINE_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;
/// Less data than this are left to the allocator: small drives are made and copied often.
const ARENA_BYTES_MIN: usize = 4 << 20;
/// The place of a block that has never been programmed.
const NOWHERE: u32 = u32::MAX;

/// Images, then metadata, of each block that has ever been programmed.
#[derive(Clone, Debug)]
enum Blocks {
    /// Stamps, and data of small drives.
    Apart(Vec<Option<Box<[u8]>>>),
    /// Data: the piece of an arena that belongs to each block. It begins on a whole page of memory, so that a unit of
    /// whole pages is just those.
    Together { places: Vec<u32>, arena: Arena },
}

/// The memory of a block that had none.
#[cold]
fn first_bytes(slot: &mut Option<Box<[u8]>>, bytes: usize) -> &mut [u8] {
    slot.insert(vec![0; bytes].into_boxed_slice())
}

/// The memory store.
#[derive(Clone, Debug)]
pub(crate) struct MemoryStore {
    shape: StoreShape,
    states: Vec<BlockState>,
    blocks: Blocks,
    allocated_blocks: u64,
    save: Vec<u8>,
}

impl MemoryStore {
    pub(crate) fn new(shape: StoreShape) -> MemoryStore {
        let blocks = shape.blocks as usize;
        let piece_bytes = (shape.image_bytes_per_block + shape.meta.bytes).next_multiple_of(PAGE_BYTES);
        let together =
            shape.image_bytes > STAMP_BYTES && piece_bytes.saturating_mul(blocks) >= ARENA_BYTES_MIN;
        MemoryStore {
            states: vec![BlockState::default(); blocks],
            blocks: match together {
                true => Blocks::Together {
                    places: vec![NOWHERE; blocks],
                    arena: Arena::new(shape.blocks, piece_bytes),
                },
                false => Blocks::Apart(vec![None; blocks]),
            },
            allocated_blocks: 0,
            save: vec![0; shape.save_bytes],
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
        &self.bytes(block)[self.shape.image_bytes_per_block..][..self.shape.meta.bytes]
    }

    #[inline]
    pub(crate) fn images(&self, block: u32) -> &[u8] {
        &self.bytes(block)[..self.shape.image_bytes_per_block]
    }

    /// Has the processor fetch `bytes` bytes of images from `start` on, which will be read soon.
    #[inline]
    pub(crate) fn prefetch(&self, block: u32, start: usize, bytes: usize) {
        if let Some(images) = self.find(block) {
            for line in (start..start + bytes).step_by(CACHE_LINE_BYTES) {
                prefetch_index::prefetch_index(images, line);
            }
        }
    }

    /// Metadata and images; allocates the block on its first program. Three times a program: as a call it would cost more than
    /// what it does.
    #[inline(always)]
    pub(crate) fn both_mut(&mut self, block: u32) -> (&mut [u8], &mut [u8]) {
        let (images_bytes, meta_bytes) = (self.shape.image_bytes_per_block, self.shape.meta.bytes);
        let all = match &mut self.blocks {
            Blocks::Apart(blocks) => match &mut blocks[block as usize] {
                Some(bytes) => &mut bytes[..],
                slot => {
                    self.allocated_blocks += 1;
                    first_bytes(slot, images_bytes + meta_bytes)
                }
            },
            Blocks::Together { places, arena } => {
                let place = &mut places[block as usize];
                if *place == NOWHERE {
                    *place = arena.take();
                    self.allocated_blocks += 1;
                }
                arena.get_mut(*place)
            }
        };
        let (images, rest) = all.split_at_mut(images_bytes);
        (&mut rest[..meta_bytes], images)
    }

    /// Copies images from one block to another, or inside one; both have memory.
    pub(crate) fn copy_images(&mut self, from: (u32, Range<usize>), to: (u32, usize)) {
        let (source, target) = (from.1, to.1);
        match &mut self.blocks {
            Blocks::Together { places, arena } => {
                arena.copy((places[from.0 as usize], source), (places[to.0 as usize], target));
            }
            Blocks::Apart(blocks) => match blocks.get_disjoint_mut([from.0 as usize, to.0 as usize]) {
                Ok([Some(from), Some(to)]) => {
                    to[target..target + source.len()].copy_from_slice(&from[source]);
                }
                Ok(_) => panic!("a begun stripe has memory"),
                Err(_) => {
                    let block = blocks[to.0 as usize].as_mut().expect("a begun stripe has memory");
                    block.copy_within(source, target);
                }
            },
        }
    }

    /// Bytes of the save area.
    pub(crate) fn save_read(&self, at: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.save[at..at + out.len()]);
    }

    /// Puts bytes into the save area.
    pub(crate) fn save_write(&mut self, at: usize, bytes: &[u8]) {
        self.save[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Bytes of memory held, counting what has been allocated.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let (per_block, allocated) = match &self.blocks {
            Blocks::Apart(_) => {
                (size_of::<Option<Box<[u8]>>>(), self.shape.meta.bytes + self.shape.image_bytes_per_block)
            }
            Blocks::Together { arena, .. } => (size_of::<u32>(), arena.piece_bytes()),
        };
        let per_block = size_of::<BlockState>() + per_block;
        self.states.len() as u64 * per_block as u64
            + self.allocated_blocks * allocated as u64
            + self.save.len() as u64
    }

    #[inline]
    fn find(&self, block: u32) -> Option<&[u8]> {
        match &self.blocks {
            Blocks::Apart(blocks) => blocks[block as usize].as_deref(),
            Blocks::Together { places, arena } => {
                let place = places[block as usize];
                (place != NOWHERE).then(|| arena.get(place))
            }
        }
    }

    #[inline]
    fn bytes(&self, block: u32) -> &[u8] {
        self.find(block).expect("a block with programmed stripes has memory")
    }
}
