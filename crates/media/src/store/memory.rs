//! Everything in memory, as blocks are first programmed. It serves two kinds of store: with an image of `sector_bytes` per sector it
//! keeps the data, with one of 4 bytes a stamp; of an image that is not stored it keeps nothing.
//!
//! Memory for a block (spare areas, and stamps if data are not stored) is allocated zeroed, kept across erases, and never cleared: the
//! block state tells which entries are valid. Data are stored unit by unit in separate slots, so that memory use follows the live data:
//!
//! ```text
//!  slots[unit] = 0: none, n: slot n - 1 of the arena      put ─► take a slot      erased, or forgotten ─► give it back
//!               LOST, ZEROS: forgotten, and what is found there since
//! ```

use super::arena::Arena;
use super::{Found, Remains, STAMP_BYTES, StoreShape};
use crate::error::StoreError;
use crate::state::BlockState;
use std::ops::Range;

const CACHE_LINE_BYTES: usize = 64;
/// Slots of units that were discarded before their block is erased, by the result of later reads, see [`Remains`].
const LOST: u32 = u32::MAX;
const ZEROS: u32 = u32::MAX - 1;

/// The memory store.
#[derive(Clone, Debug)]
pub(crate) struct MemoryStore {
    shape: StoreShape,
    states: Vec<BlockState>,
    /// Data of each block that has ever been programmed: metadata, the host's metadata, stamps.
    blocks: Vec<Option<Box<[u8]>>>,
    allocated_blocks: u64,
    data: Option<Data>,
    save: Vec<u8>,
}

/// Data of units.
#[derive(Clone, Debug)]
struct Data {
    slots: Vec<u32>,
    arena: Arena,
    bytes_max: u64,
}

/// Returns whether a slot has memory.
#[inline]
fn is_held(slot: u32) -> bool {
    slot.wrapping_sub(1) < ZEROS - 1
}

/// Allocates memory for a block that had none.
#[cold]
fn first_bytes(slot: &mut Option<Box<[u8]>>, bytes: usize) -> &mut [u8] {
    slot.insert(vec![0; bytes].into_boxed_slice())
}

impl MemoryStore {
    /// Makes an empty store.
    ///
    /// # Errors
    /// The system has no memory for its tables.
    pub(crate) fn new(shape: StoreShape, bytes_max: Option<u64>) -> Result<MemoryStore, StoreError> {
        let blocks = shape.blocks as usize;
        let units = blocks * shape.units_per_block();
        let slots = if shape.image_bytes > STAMP_BYTES { units * size_of::<u32>() } else { 0 };
        let tables = slots + blocks * (size_of::<BlockState>() + size_of::<Option<Box<[u8]>>>());
        let mut probe: Vec<u8> = Vec::new();
        probe.try_reserve_exact(tables).map_err(|_| StoreError::Memory { needed_bytes: tables as u64 })?;
        // Zeros of the system cost no memory before they are written; the compiler must not leave out the attempt.
        drop(std::hint::black_box(probe));
        let data = (shape.image_bytes > STAMP_BYTES).then(|| Data {
            slots: vec![0; units],
            arena: Arena::new(units as u32, shape.unit_stored_bytes),
            bytes_max: bytes_max.unwrap_or(u64::MAX),
        });
        Ok(MemoryStore {
            states: vec![BlockState::default(); blocks],
            blocks: vec![None; blocks],
            allocated_blocks: 0,
            data,
            save: vec![0; shape.save_bytes],
            shape,
        })
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

    /// Allocates the memory of the block on its first program.
    #[inline(always)]
    pub(crate) fn meta_mut(&mut self, block: u32) -> &mut [u8] {
        let bytes = self.shape.meta.bytes;
        &mut self.bytes_mut(block)[..bytes]
    }

    /// Metadata of the block; data and the host's metadata of one unit. Inlined: it runs several times per program, and a call would cost
    /// more than its work.
    #[inline(always)]
    pub(crate) fn unit_mut(&mut self, block: u32, index: u32) -> (&mut [u8], &mut [u8], &mut [u8]) {
        let StoreShape { unit_metadata_bytes, unit_stored_bytes, .. } = self.shape;
        let (index, name) = (index as usize, self.name(block, index));
        let (meta_bytes, metadata_bytes) = (self.shape.meta.bytes, self.metadata_bytes());
        if self.blocks[block as usize].is_none() {
            self.allocate(block);
        }
        let held = self.blocks[block as usize].as_deref_mut().expect("it was allocated");
        let (meta, rest) = held.split_at_mut(meta_bytes);
        let (metadata, stamps) = rest.split_at_mut(metadata_bytes);
        let data = match &mut self.data {
            None => &mut stamps[index * unit_stored_bytes..][..unit_stored_bytes],
            Some(data) => {
                let slot = &mut data.slots[name];
                if !is_held(*slot) {
                    *slot = data.arena.take() + 1;
                }
                data.arena.get_mut(*slot - 1)
            }
        };
        (meta, data, &mut metadata[index * unit_metadata_bytes..][..unit_metadata_bytes])
    }

    /// Metadata of the block and the stamps of its units; `None`: data are kept, in slots.
    #[inline]
    pub(crate) fn stamps_mut(&mut self, block: u32) -> Option<(&mut [u8], &mut [u8])> {
        if self.keeps_data() {
            return None;
        }
        let (meta_bytes, metadata_bytes) = (self.shape.meta.bytes, self.metadata_bytes());
        let (meta, rest) = self.bytes_mut(block).split_at_mut(meta_bytes);
        Some((meta, &mut rest[metadata_bytes..]))
    }

    /// Sets age and reads of a block.
    pub(crate) fn count_read(&mut self, block: u32, history: (u64, u64)) {
        let meta = self.shape.meta;
        meta.set_history(self.meta_mut(block), history);
    }

    /// Fills a unit with zeros, which take no memory if data are stored.
    pub(crate) fn clear_unit(&mut self, block: u32, index: u32) {
        let (_, data, metadata) = self.unit_mut(block, index);
        data.fill(0);
        metadata.fill(0);
        self.give_back(block, index, 0);
    }

    /// Stored length of a unit.
    pub(crate) fn unit_bytes(&self) -> usize {
        self.shape.unit_stored_bytes
    }

    /// Data stored for a unit; `None` if they were discarded or never stored.
    #[inline(always)]
    pub(crate) fn unit(&self, block: u32, index: u32) -> Option<&[u8]> {
        match &self.data {
            None => {
                let bytes = self.shape.unit_stored_bytes;
                if bytes == 0 {
                    return None;
                }
                let from = self.shape.meta.bytes + self.metadata_bytes() + index as usize * bytes;
                Some(&self.bytes(block)[from..from + bytes])
            }
            Some(data) => match data.slots[self.name(block, index)] {
                slot if is_held(slot) => Some(data.arena.get(slot - 1)),
                _ => None,
            },
        }
    }

    /// Result of reading a unit that holds no data: it was never put, or was discarded.
    pub(crate) fn without_data(&self, block: u32, index: u32) -> Found {
        match self.data.as_ref().map(|data| data.slots[self.name(block, index)]) {
            Some(LOST) => Found::Damaged,
            Some(ZEROS) => Found::Zeros,
            _ => Found::Good,
        }
    }

    /// The host's metadata of a unit.
    pub(crate) fn metadata(&self, block: u32, index: u32) -> &[u8] {
        let bytes = self.shape.unit_metadata_bytes;
        &self.bytes(block)[self.shape.meta.bytes + index as usize * bytes..][..bytes]
    }

    /// The host's metadata of a unit, for writing.
    pub(crate) fn metadata_mut(&mut self, block: u32, index: u32) -> &mut [u8] {
        let bytes = self.shape.unit_metadata_bytes;
        let at = self.shape.meta.bytes + index as usize * bytes;
        &mut self.bytes_mut(block)[at..at + bytes]
    }

    /// Copies a unit into one of a begun superpage; copies the remainder of a discarded unit.
    pub(crate) fn copy_unit(&mut self, from: (u32, u32), to: (u32, u32)) {
        let found = self.without_data(from.0, from.1);
        let data = self.unit(from.0, from.1).map(<[u8]>::to_vec);
        let metadata = self.metadata(from.0, from.1).to_vec();
        let (_, target, target_metadata) = self.unit_mut(to.0, to.1);
        match data {
            Some(data) => target.copy_from_slice(&data),
            None => target.fill(0),
        }
        target_metadata.copy_from_slice(&metadata);
        match found {
            Found::Good => {}
            Found::Damaged => self.give_back(to.0, to.1, LOST),
            Found::Zeros => self.give_back(to.0, to.1, ZEROS),
        }
    }

    /// Returns whether data are kept, in slots.
    #[inline]
    pub(crate) fn keeps_data(&self) -> bool {
        self.data.is_some()
    }

    /// Discards the data of this unit.
    #[inline]
    pub(crate) fn forget(&mut self, block: u32, index: u32, remains: Remains) {
        let slot = match remains {
            Remains::Nothing => LOST,
            Remains::Zeros => ZEROS,
        };
        self.give_back(block, index, slot);
    }

    /// Frees the memory of a unit; `slot` is its remainder.
    #[inline]
    fn give_back(&mut self, block: u32, index: u32, slot: u32) {
        let name = self.name(block, index);
        if let Some(data) = &mut self.data {
            let held = std::mem::replace(&mut data.slots[name], slot);
            if is_held(held) {
                data.arena.give(held - 1);
            }
        }
    }

    /// Discards the data of a block.
    pub(crate) fn forget_block(&mut self, block: u32) {
        if self.data.is_some() {
            for index in 0..self.shape.units_per_block() as u32 {
                self.give_back(block, index, 0);
            }
        }
    }

    /// Returns whether data may take more memory.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.data.as_ref().is_none_or(|data| data.arena.taken_bytes() < data.bytes_max)
    }

    /// Prefetches these bytes of a unit, which will be read soon.
    #[inline]
    pub(crate) fn prefetch(&self, block: u32, index: u32, bytes: Range<usize>) {
        match &self.data {
            Some(_) => {
                let Some(unit) = self.unit(block, index) else { return };
                for line in bytes.step_by(CACHE_LINE_BYTES) {
                    prefetch_index::prefetch_index(unit, line);
                }
            }
            None => {
                if let Some(held) = &self.blocks[block as usize] {
                    let start = self.shape.meta.bytes + self.metadata_bytes();
                    let place = start + index as usize * self.shape.unit_stored_bytes;
                    prefetch_index::prefetch_index(held, place);
                }
            }
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
        let slots = self.data.as_ref().map_or(0, |data| 4 * data.slots.len());
        let fixed = self.states.len() * (size_of::<BlockState>() + size_of::<Option<Box<[u8]>>>());
        let data = self.data.as_ref().map_or(0, |data| data.arena.taken_bytes());
        (fixed + slots + self.save.len()) as u64 + self.allocated_blocks * self.block_bytes() as u64 + data
    }

    /// Largest number of bytes that the store may come to hold.
    pub(crate) fn memory_bytes_max(&self) -> u64 {
        let fixed = self.states.len() * (size_of::<BlockState>() + size_of::<Option<Box<[u8]>>>());
        let data = self.data.as_ref().map_or(0, |data| {
            let units = data.slots.len() as u64;
            4 * units + (units * self.shape.unit_stored_bytes as u64).min(data.bytes_max)
        });
        (fixed + self.save.len() + self.states.len() * self.block_bytes()) as u64 + data
    }

    #[cold]
    fn allocate(&mut self, block: u32) {
        self.allocated_blocks += 1;
        let bytes = self.block_bytes();
        first_bytes(&mut self.blocks[block as usize], bytes);
    }

    #[inline(always)]
    fn bytes_mut(&mut self, block: u32) -> &mut [u8] {
        if self.blocks[block as usize].is_none() {
            self.allocate(block);
        }
        self.blocks[block as usize].as_deref_mut().expect("it was allocated")
    }

    #[inline]
    fn bytes(&self, block: u32) -> &[u8] {
        self.blocks[block as usize].as_deref().expect("a block with programmed superpages has memory")
    }

    /// Bytes held for a block.
    fn block_bytes(&self) -> usize {
        let stamps = if self.data.is_some() { 0 } else { self.shape.unit_stored_bytes };
        self.shape.meta.bytes + self.metadata_bytes() + stamps * self.shape.units_per_block()
    }

    #[inline]
    fn metadata_bytes(&self) -> usize {
        self.shape.unit_metadata_bytes * self.shape.units_per_block()
    }

    #[inline]
    fn name(&self, block: u32, index: u32) -> usize {
        block as usize * self.shape.units_per_block() + index as usize
    }
}
