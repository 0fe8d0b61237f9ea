//! Refresh of aging flash below the chunks of a drive that manages its media itself (class c of LightNVM's Fig. 1).
//!
//! ```text
//!  refresh_begin ─► the data of `from` are copied to `to` ─► refresh_end ─► the block that is left over is erased
//!                                                                             └─► refresh_erased
//! ```
//! A copy has the sequence numbers of the original, so a mount can tell the two apart only by their length: it keeps the longer one
//! (`Chunks::mount`). That is right as long as no reset comes between: a reset waits until one of the two is erased.
//!
//! Invariants: only full chunks are refreshed; a refresh never takes a block that a free chunk may need.

use crate::chunks::{Chunks, Management};
use pellucid_flash::{BlockId, ChunkState};

/// A full chunk that is being refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkMove {
    /// Number of the chunk.
    pub chunk: u32,
    /// Block that holds its data.
    pub from: BlockId,
    /// Block to which they are being copied.
    pub to: BlockId,
}

impl Chunks {
    /// Begins a refresh of chunk `number`. `None`: the host manages the media, the chunk is not full or is being reset, its block is to
    /// be retired, or no block is to spare.
    pub fn refresh_begin(&mut self, number: u32) -> Option<ChunkMove> {
        if !self.can_be_left(number)
            || self.chunks[number as usize].written < self.layout.superpages_per_block
        {
            return None;
        }
        let die = self.die(number);
        let first = (die.0 * self.geometry.chunks) as usize;
        let of_die = &self.chunks[first..first + self.geometry.chunks as usize];
        let wanted = of_die.iter().filter(|chunk| chunk.state == ChunkState::Free).count() as u32;
        if self.pool.free_count(die) <= wanted {
            return None;
        }
        let to = self.pool.take(die)?;
        let chunk = &mut self.chunks[number as usize];
        chunk.moving = true;
        Some(ChunkMove { chunk: number, from: chunk.block, to })
    }

    /// Ends a refresh: the copy is complete and replaces the original from now on, or (not `copied`) is given up. Returns the block that
    /// is left over, which must be erased.
    pub fn refresh_end(&mut self, moved: ChunkMove, copied: bool) -> BlockId {
        if !copied {
            return moved.to;
        }
        self.chunks[moved.chunk as usize].block = moved.to;
        moved.from
    }

    /// Records the erase of the block that was left over; it has had `erases` erases now, or has failed.
    pub fn refresh_erased(&mut self, number: u32, block: BlockId, ok: bool, erases: u32) {
        self.chunks[number as usize].moving = false;
        if ok {
            self.pool.set_erases(block, erases);
            self.pool.give(block);
        } else {
            self.pool.retire(block);
        }
    }

    /// Distrusts the block of chunk `number` after an uncorrectable read: when the chunk is reset, the block is retired instead of
    /// erased, and another one replaces it. Returns the block. `None`: the host manages the media, the chunk is not closed, or the damage
    /// was known.
    pub fn distrust(&mut self, number: u32) -> Option<BlockId> {
        if !self.can_be_left(number) {
            return None;
        }
        let chunk = &mut self.chunks[number as usize];
        chunk.broken = true;
        Some(chunk.block)
    }

    /// Returns whether the drive may move the data of a chunk to another block.
    fn can_be_left(&self, number: u32) -> bool {
        let chunk = &self.chunks[number as usize];
        let at_rest = chunk.state == ChunkState::Closed && chunk.in_flight == 0;
        let shared = self.management() != Management::Host;
        shared && at_rest && !chunk.resetting && !chunk.broken && !chunk.moving
    }
}
