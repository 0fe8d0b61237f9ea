//! Known cache whose flash takes no writes: its head cannot be written, or a solid-state cache cannot evict.
//!
//! No data are lost: dirty blocks are read from the flash, all others from the backing store, and dirty
//! blocks are written back at once. Nothing else changes on either drive, because the flash cannot record it:
//! a block that was written back is still dirty on the flash, and the next start writes the same data back
//! again. That would undo newer data in the backing store, so new data are refused. Clean copies in a
//! solid-state cache would have to be evicted, so they are not read.
//!
//! A detach ends this state if the head can be written by then; otherwise it reports that all data are
//! written back, and new data stay refused.
//!
//! A cache with unreadable records also begins read only. A block is not read at all if such a record may
//! have called it dirty and no other record names it, because the backing store may have older data. Such a
//! cache is never detached; a new one replaces it (`format`).

use super::{Backend, CacheManager};

impl CacheManager {
    /// Handles a write at the start that the flash refused. Reports whether the cache can go on read only; a
    /// new cache cannot.
    pub(super) fn begins_read_only(&mut self) -> bool {
        self.read_only = !self.start.fresh;
        self.read_only
    }

    /// Notes that the backing store has a block durably, although the flash cannot record it.
    pub(super) fn is_written_back(&mut self, block: u64) {
        self.counters.cleaned += u64::from(self.dirty.remove(block));
        if let Backend::Block(slots) = &mut self.backend {
            slots.written_back(block);
        }
    }

    /// Returns the number of record sectors that the start could not read.
    pub(super) fn unreadable_records(&self) -> u64 {
        match &self.backend {
            Backend::Block(slots) => slots.unreadable(),
            Backend::Ssc(_) => 0,
        }
    }

    /// Reports whether a sector from `lba` to before `end` may have newer data on the flash, under an
    /// unreadable record.
    pub(super) fn is_doubtful(&self, lba: u64, end: u64) -> bool {
        let Backend::Block(slots) = &self.backend else { return false };
        let blocks = lba / self.block_sectors..end.div_ceil(self.block_sectors).min(self.blocks);
        slots.unreadable() > 0 && blocks.into_iter().any(|block| slots.is_doubtful(block))
    }

    /// Reports whether the start refused the configuration, for instance another store; `false` if a drive
    /// failed.
    pub fn is_refused(&self) -> bool {
        self.start.is_refused()
    }
}
