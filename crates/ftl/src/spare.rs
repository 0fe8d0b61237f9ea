//! Capacity that is not for the host: translation needs it so that GC can always go on.
//!
//! ```text
//!  good blocks = a free one of each die + open ones of each die + one for a translation page + those for the data
//! ```
//! When host data find no space, every block is free, open or closed, and GC must find a closed block that frees more than it takes.
//! Valid data move in whole superpages, so a closed block frees nothing only if it has more valid units than all of its superpages except
//! one can hold. If there are too few data to fill all closed blocks to that level, GC can empty one of them.
//!
//! The kind of data that finds no space has no open block in any die, so each die can keep a second free block: it does so once power has
//! been cut ([`PageMap::start`](crate::PageMap::start)).

use crate::config::{Durability, FtlConfig, Isolation, Separation};
use pellucid_flash::Layout;

/// Entries of a translation page.
pub(crate) fn entries_per_page(layout: &Layout) -> u32 {
    (layout.unit_bytes - crate::translation_pages::HEADER_BYTES) / 4
}

impl FtlConfig {
    /// Blocks open in each die: one for every kind of separated data.
    pub fn open_blocks(&self) -> u32 {
        let host_and_moved = match self.separation {
            Separation::Off => 1,
            Separation::GcCopies => 2,
            Separation::Frequency => 3,
        };
        let placed = u32::from(self.handles - 1);
        let moved = match (self.isolation, self.separation) {
            (Isolation::Initial, _) | (_, Separation::Off) => 0,
            (Isolation::Persistent, _) => placed,
        };
        host_and_moved
            + placed
            + moved
            + u32::from(self.wear.static_gap.is_some())
            + u32::from(self.durability != Durability::Volatile)
    }

    /// Blocks that each die needs in addition to those for data: open ones, and a free one for GC
    /// copies.
    pub fn working_blocks(&self) -> u32 {
        self.open_blocks() + 1
    }

    /// Blocks that the drive needs besides: one for a translation page that erases wait for.
    pub fn common_blocks(&self) -> u32 {
        u32::from(self.durability != Durability::Volatile)
    }

    /// Most units, of the host and of translation pages, on `good_blocks` blocks of `dies` dies, each of which keeps `working` blocks.
    pub(crate) fn units_max(&self, layout: &Layout, good_blocks: u32, dies: u32, working: u32) -> u64 {
        // The SLC cache holds nothing permanently.
        let kept =
            u64::from(dies) * u64::from(working + self.cache_blocks()) + u64::from(self.common_blocks());
        let lists = self.list_superpages() * layout.units_per_superpage;
        // None where a block has not even space for its lists.
        let least_full = (layout.units_per_block + 1).saturating_sub(lists + layout.units_per_superpage);
        u64::from(good_blocks).saturating_sub(kept) * u64::from(least_full)
    }

    /// Most host units on a drive of good blocks, each die of which keeps `working` of them, at least [`FtlConfig::working_blocks`].
    pub fn user_units_max(&self, layout: &Layout, working: u32) -> u64 {
        let all = self.units_max(layout, layout.blocks, layout.dies, working);
        match self.durability {
            Durability::Volatile => all,
            // A translation page is one more unit beside its entries.
            Durability::Journal { .. } if self.cache.is_some() => {
                // The translation pages of a cache are tables that are never full, and their number is odd.
                all - all.div_ceil(u64::from(entries_per_page(layout) / 3) + 1).min(all) - 2.min(all)
            }
            Durability::Journal { .. } => all - all.div_ceil(u64::from(entries_per_page(layout)) + 1),
        }
    }
}
