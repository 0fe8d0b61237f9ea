//! Checkpoints: encoding and decoding of the whole state.
//!
//! ```text
//!   units of the virtual space u32, blocks u32
//!   each block: state u8, erases u32, live units (see below), virtual units (see below)
//!   virtual units written u32, each: address u32, place u32
//!   moves u32, each: old place u32, new place u32
//!
//!   units of a block: 0 none | 1, first n live: u32 | 2, a mask: one bit each
//! ```
//! Numbers are little endian.

use super::{Nameless, NamelessConfig};
use crate::block_manager::BlockState;
use pellucid_flash::{BlockId, Layout, Lpn, Ppa};
use std::collections::BTreeSet;

/// State of a chunk at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundChunk {
    /// Nothing was written.
    Free,
    /// Units that were written.
    Written(u32),
    /// The chunk is out of use.
    Offline,
}

const NONE: u8 = 0;
const FIRST: u8 = 1;
const MASK: u8 = 2;
/// States of a block.
const USED: u8 = 0;
const FREE: u8 = 1;
const FAILED: u8 = 2;
const BAD: u8 = 3;

/// Reads what was written.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes(&mut self, count: usize) -> Option<&[u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn word(&mut self) -> Option<u32> {
        self.bytes(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// Units of a block, as indices.
    fn units(&mut self, per_block: u32) -> Option<Vec<u32>> {
        match self.byte()? {
            NONE => Some(Vec::new()),
            FIRST => Some((0..self.word()?.min(per_block)).collect()),
            MASK => {
                let mask = self.bytes(per_block.div_ceil(8) as usize)?;
                Some((0..per_block).filter(|&i| mask[i as usize / 8] >> (i % 8) & 1 == 1).collect())
            }
            _ => None,
        }
    }
}

fn put(out: &mut Vec<u8>, word: u32) {
    out.extend_from_slice(&word.to_le_bytes());
}

fn put_units(out: &mut Vec<u8>, units: &[u32], per_block: u32) {
    let count = units.len() as u32;
    if count == 0 {
        out.push(NONE);
    } else if units[count as usize - 1] == count - 1 {
        out.push(FIRST);
        put(out, count);
    } else {
        out.push(MASK);
        let mut mask = vec![0u8; per_block.div_ceil(8) as usize];
        units.iter().for_each(|&unit| mask[unit as usize / 8] |= 1 << (unit % 8));
        out.extend_from_slice(&mask);
    }
}

/// Recovered state of one block.
struct Block {
    state: u8,
    erases: u32,
    live: Vec<u32>,
    of_map: Vec<u32>,
}

impl Nameless {
    /// Begins a checkpoint of the current state. Blocks that are not needed now may be erased when it is
    /// [saved](Nameless::checkpoint_saved).
    pub fn checkpoint(&mut self) -> Vec<u8> {
        self.covering = self.emptied.len();
        let mut out = Vec::new();
        put(&mut out, self.virtual_units);
        put(&mut out, self.layout.blocks);
        for block in (0..self.layout.blocks).map(BlockId) {
            out.push(match self.blocks.state(block) {
                BlockState::Bad => BAD,
                BlockState::Free => FREE,
                _ if self.blocks.failed(block) => FAILED,
                _ => USED,
            });
            put(&mut out, self.blocks.erases(block));
            let units: Vec<Ppa> = self.units.of(block).collect();
            let index = |ppa: &Ppa| self.layout.index_in_block(*ppa);
            let live: Vec<u32> = units.iter().map(index).collect();
            let of_map: Vec<u32> =
                units.iter().filter(|&&ppa| self.units.is_virtual(ppa)).map(index).collect();
            put_units(&mut out, &live, self.layout.units_per_block);
            put_units(&mut out, &of_map, self.layout.units_per_block);
        }
        put(&mut out, self.virtuals.iter().count() as u32);
        for (lpn, ppa) in self.virtuals.iter() {
            put(&mut out, lpn.0);
            put(&mut out, ppa.0);
        }
        put(&mut out, self.moved.len() as u32);
        for (&old, &new) in &self.moved {
            put(&mut out, old);
            put(&mut out, new);
        }
        out
    }

    /// Records that the checkpoint is on the media.
    pub fn checkpoint_saved(&mut self) {
        let covering = std::mem::take(&mut self.covering);
        self.covered.extend(self.emptied.drain(..covering));
    }

    /// Records that the checkpoint could not be written.
    pub fn checkpoint_failed(&mut self) {
        self.covering = 0;
    }

    /// Largest size of a checkpoint, in bytes.
    pub fn checkpoint_bytes(&self) -> u64 {
        let mask = u64::from(self.layout.units_per_block.div_ceil(8)) + 1;
        let pairs = u64::from(self.virtual_units) + self.moves_max();
        16 + u64::from(self.layout.blocks) * (5 + 2 * mask) + 8 * pairs
    }

    /// Restores the state of a checkpoint on media as they were found. The error is a sentence.
    pub fn restore(
        config: &NamelessConfig,
        layout: &Layout,
        bytes: &[u8],
        found: &[FoundChunk],
    ) -> Result<Nameless, String> {
        let mut state = Nameless::new(config, layout)?;
        let mut reader = Reader(bytes);
        let shape = (reader.word(), reader.word());
        if shape != (Some(state.virtual_units), Some(layout.blocks)) {
            return Err(format!(
                "the checkpoint is of {} blocks and {} virtual sectors, not {} and {}; allowed: the settings that it was made with",
                shape.1.unwrap_or(0),
                shape.0.unwrap_or(0),
                layout.blocks,
                state.virtual_units
            ));
        }
        state
            .take_checkpoint(&mut reader, found)
            .ok_or("the checkpoint cannot be read, though its checksums are right")?;
        Ok(state)
    }

    fn take_checkpoint(&mut self, reader: &mut Reader<'_>, found: &[FoundChunk]) -> Option<()> {
        let per_block = self.layout.units_per_block;
        let mut blocks = Vec::new();
        for &chunk in found {
            let (state, erases) = (reader.byte()?, reader.word()?);
            let (live, of_map) = (reader.units(per_block)?, reader.units(per_block)?);
            blocks.push(Block { state, erases, live, of_map });
            // The data that the checkpoint needs are there, unless blocks are erased without one.
            let written = match chunk {
                FoundChunk::Free => 0,
                FoundChunk::Written(units) => units,
                FoundChunk::Offline => per_block,
            };
            let block = blocks.last_mut()?;
            self.counters.lost += block.live.iter().filter(|&&index| index >= written).count() as u64;
            block.live.retain(|&index| index < written);
        }
        for _ in 0..reader.word()? {
            let (lpn, ppa) = (Lpn(reader.word()?), Ppa(reader.word()?));
            if lpn.0 >= self.virtual_units {
                return None;
            }
            self.virtuals.set(lpn, ppa);
        }
        let mut held = BTreeSet::new();
        for _ in 0..reader.word()? {
            let (old, new) = (reader.word()?, reader.word()?);
            held.insert(self.layout.block_of(Ppa(old)).0);
            self.moved.insert(old, new);
            self.notices.push_back((Ppa(old), Ppa(new)));
        }
        for (block, (known, &chunk)) in (0..self.layout.blocks).map(BlockId).zip(blocks.iter().zip(found)) {
            self.restore_block(block, known, chunk, held.contains(&block.0));
        }
        self.tie();
        Some(())
    }

    fn restore_block(&mut self, block: BlockId, known: &Block, chunk: FoundChunk, held: bool) {
        self.blocks.set_erases(block, known.erases);
        for &index in &known.live {
            let is_virtual = known.of_map.binary_search(&index).is_ok();
            self.units.set(self.layout.ppa(block, index), is_virtual);
            self.named += u32::from(!is_virtual);
        }
        let needed = !known.live.is_empty() || held;
        let gone = known.state == BAD || chunk == FoundChunk::Offline;
        if !needed && (gone || (known.state != FREE && known.state != USED && chunk == FoundChunk::Free)) {
            self.pages -= self.layout.superpages_per_block;
            self.blocks.retire(block);
        } else if needed || chunk != FoundChunk::Free {
            self.pages -= self.layout.superpages_per_block;
            self.blocks.restore(block, known.live.len() as u32, false, 0);
            if known.state == FAILED || gone {
                self.blocks.mark_failed(block);
                self.failed.push(block);
            }
        }
    }

    /// Completes the state: the map and the moves agree with the live units, and everything else is erased.
    fn tie(&mut self) {
        let gone: Vec<Lpn> = self
            .virtuals
            .iter()
            .filter(|&(_, ppa)| ppa.is_some() && !self.is_of_map(ppa))
            .map(|(lpn, _)| lpn)
            .collect();
        for lpn in gone {
            self.virtuals.set(lpn, Ppa::LOST);
        }
        for (&old, &new) in &self.moved {
            *self.held.entry(self.layout.block_of(Ppa(old)).0).or_default() += 1;
            *self.fresh.entry(self.layout.block_of(Ppa(new)).0).or_default() += 1;
        }
        for block in (0..self.layout.blocks).map(BlockId) {
            if self.blocks.state(block) == BlockState::Closed {
                self.note_if_empty(block);
            }
        }
        // The checkpoint that was read covers them.
        self.covered.append(&mut self.emptied);
    }

    fn is_of_map(&self, ppa: Ppa) -> bool {
        ppa.0 < self.layout.units && self.units.lives(ppa) && self.units.is_virtual(ppa)
    }
}
