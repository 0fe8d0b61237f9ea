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

use super::Nameless;
use super::moves::Moves;
use super::units::note_if_empty;
use crate::block_manager::BlockState;
use pellucid_flash::{BlockId, Lpn, Ppa};

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
struct KnownBlock {
    state: u8,
    erases: u32,
    live: Vec<u32>,
    of_map: Vec<u32>,
}

/// Encodes the current state.
pub(super) fn encode(state: &Nameless) -> Vec<u8> {
    let layout = &state.layout;
    let mut out = Vec::new();
    put(&mut out, state.virtual_units);
    put(&mut out, layout.blocks);
    for block in (0..layout.blocks).map(BlockId) {
        out.push(match state.blocks.state(block) {
            BlockState::Bad => BAD,
            BlockState::Free => FREE,
            _ if state.blocks.failed(block) => FAILED,
            _ => USED,
        });
        put(&mut out, state.blocks.erases(block));
        let units: Vec<Ppa> = state.units.of(block).collect();
        let index = |ppa: &Ppa| layout.index_in_block(*ppa);
        let live: Vec<u32> = units.iter().map(index).collect();
        let of_map: Vec<u32> = units.iter().filter(|&&ppa| state.units.is_virtual(ppa)).map(index).collect();
        put_units(&mut out, &live, layout.units_per_block);
        put_units(&mut out, &of_map, layout.units_per_block);
    }
    put(&mut out, state.virtuals.iter().count() as u32);
    for (lpn, ppa) in state.virtuals.iter() {
        put(&mut out, lpn.0);
        put(&mut out, ppa.0);
    }
    put(&mut out, state.moves.count() as u32);
    for (old, new) in state.moves.iter() {
        put(&mut out, old.0);
        put(&mut out, new.0);
    }
    out
}

/// Largest size of a checkpoint, in bytes.
pub(super) fn largest(state: &Nameless) -> u64 {
    let mask = u64::from(state.layout.units_per_block.div_ceil(8)) + 1;
    let pairs = u64::from(state.virtual_units) + Moves::most(&state.layout);
    16 + u64::from(state.layout.blocks) * (5 + 2 * mask) + 8 * pairs
}

/// Decodes a checkpoint into the state of empty media, as they were found. The error is a sentence.
pub(super) fn decode(mut state: Nameless, bytes: &[u8], found: &[FoundChunk]) -> Result<Nameless, String> {
    let mut reader = Reader(bytes);
    let shape = (reader.word(), reader.word());
    if shape != (Some(state.virtual_units), Some(state.layout.blocks)) {
        return Err(format!(
            "the checkpoint is of {} blocks and {} virtual sectors, not {} and {}; allowed: the settings that it was made with",
            shape.1.unwrap_or(0),
            shape.0.unwrap_or(0),
            state.layout.blocks,
            state.virtual_units
        ));
    }
    take(&mut state, &mut reader, found)
        .ok_or("the checkpoint cannot be read, though its checksums are right")?;
    Ok(state)
}

fn take(state: &mut Nameless, reader: &mut Reader<'_>, found: &[FoundChunk]) -> Option<()> {
    let per_block = state.layout.units_per_block;
    let mut blocks = Vec::new();
    for &chunk in found {
        let (kind, erases) = (reader.byte()?, reader.word()?);
        let (mut live, of_map) = (reader.units(per_block)?, reader.units(per_block)?);
        // The data that the checkpoint needs are there, unless blocks are erased without one.
        let written = match chunk {
            FoundChunk::Free => 0,
            FoundChunk::Written(units) => units,
            FoundChunk::Offline => per_block,
        };
        state.tally.lost(live.iter().filter(|&&index| index >= written).count());
        live.retain(|&index| index < written);
        blocks.push(KnownBlock { state: kind, erases, live, of_map });
    }
    for _ in 0..reader.word()? {
        let (lpn, ppa) = (Lpn(reader.word()?), Ppa(reader.word()?));
        if lpn.0 >= state.virtual_units {
            return None;
        }
        state.virtuals.set(lpn, ppa);
    }
    for _ in 0..reader.word()? {
        let (old, new) = (Ppa(reader.word()?), Ppa(reader.word()?));
        state.moves.begin(&state.layout, old, new);
        state.moves.tell(old, new);
    }
    for (block, (known, &chunk)) in (0..state.layout.blocks).map(BlockId).zip(blocks.iter().zip(found)) {
        restore_block(state, block, known, chunk);
    }
    tie(state);
    Some(())
}

fn restore_block(state: &mut Nameless, block: BlockId, known: &KnownBlock, chunk: FoundChunk) {
    state.blocks.set_erases(block, known.erases);
    for &index in &known.live {
        let is_virtual = known.of_map.binary_search(&index).is_ok();
        state.units.set(state.layout.ppa(block, index), is_virtual);
        if !is_virtual {
            state.names.found();
        }
    }
    let needed = !known.live.is_empty() || state.moves.is_held(block);
    let gone = known.state == BAD || chunk == FoundChunk::Offline;
    if !needed && (gone || (known.state != FREE && known.state != USED && chunk == FoundChunk::Free)) {
        state.pages.lose_block();
        state.blocks.retire(block);
    } else if needed || chunk != FoundChunk::Free {
        state.pages.lose_block();
        state.blocks.restore(block, known.live.len() as u32, false, 0);
        if known.state == FAILED || gone {
            state.blocks.mark_failed(block);
            state.damage.fail(block);
        }
    }
}

/// Completes the state: the map agrees with the live units, and everything else is erased.
fn tie(state: &mut Nameless) {
    let lost = |&(_, ppa): &(Lpn, Ppa)| ppa.is_some() && !is_of_map(state, ppa);
    let gone: Vec<Lpn> = state.virtuals.iter().filter(lost).map(|(lpn, _)| lpn).collect();
    for lpn in gone {
        state.virtuals.set(lpn, Ppa::LOST);
    }
    for block in (0..state.layout.blocks).map(BlockId) {
        if state.blocks.state(block) == BlockState::Closed {
            note_if_empty(state, block);
        }
    }
    // The checkpoint that was read covers them.
    state.empty.release_all();
}

fn is_of_map(state: &Nameless, ppa: Ppa) -> bool {
    ppa.0 < state.layout.units && state.units.lives(ppa) && state.units.is_virtual(ppa)
}
