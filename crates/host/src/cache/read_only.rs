//! A known cache whose flash takes no writes: its head cannot be written, or a solid-state cache evicts nothing.
//!
//! What it holds is not lost: dirty blocks are read from it, all others from the backing store, and dirty blocks are written back at once.
//! Nothing else changes on either drive, because the flash cannot be told of it: a block that was written back is dirty there still, and the
//! next start writes the same data back again. Newer data in the backing store would be undone by that, so new data are refused. Clean copies
//! of a solid-state cache, which had to be evicted, are not looked at.
//!
//! Detach ends this if the head can be written by then; else it says that everything is written back, and new data stay refused.
//!
//! A cache some of whose records cannot be read begins like that as well: a block that they may have called dirty, and no other record names, is
//! not read at all, as the backing store may have older data of it. Such a cache is never detached; a new one takes its place (`format`).

use super::{Backend, CacheManager};

impl CacheManager {
    /// The flash did not take a write of the start. Says whether it goes on without: a new cache cannot.
    pub(super) fn begins_read_only(&mut self) -> bool {
        self.read_only = !self.start.fresh;
        self.read_only
    }

    /// The backing store has a block for good, and the flash cannot be told.
    pub(super) fn is_written_back(&mut self, block: u64) {
        self.counters.cleaned += u64::from(self.dirty.remove(block));
        if let Backend::Block(slots) = &mut self.backend {
            slots.written_back(block);
        }
    }

    /// Sectors of records that the start could not read.
    pub(super) fn unreadable_records(&self) -> u64 {
        match &self.backend {
            Backend::Block(slots) => slots.unreadable(),
            Backend::Ssc(_) => 0,
        }
    }

    /// Whether a sector from `lba` on, before `end`, may have newer data on the flash that nothing is known of.
    pub(super) fn is_doubtful(&self, lba: u64, end: u64) -> bool {
        let Backend::Block(slots) = &self.backend else { return false };
        let blocks = lba / self.block_sectors..end.div_ceil(self.block_sectors).min(self.blocks);
        slots.unreadable() > 0 && blocks.into_iter().any(|block| slots.is_doubtful(block))
    }

    /// Whether the start was refused because of what was asked for: another store, say. Else a drive has failed.
    pub fn is_refused(&self) -> bool {
        self.start.is_refused()
    }
}
