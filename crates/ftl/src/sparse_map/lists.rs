//! Metadata that a cache writes beside the rolling checkpoint: the list of a full block, in its last superpage, and at certain times
//! every region that has changed.
//!
//! ```text
//!  last superpage of data planned ─► due ─ next_list ─► MapJob::Program ─► ended ─► the block is closed
//!  changed region ─┬─ flush: begin_checkpoint ─► wanted, and awaited as trims are
//!                  └─ idle: save_changed ──────► wanted, this many at a time
//! ```
//! The simulated media store the logical page of each unit with the unit. So the content of a list is not kept twice: its program, its
//! space and its read at a mount are its only costs.

use crate::FtlConfig;
use pellucid_flash::{BlockId, Layout};
use std::collections::VecDeque;

/// Lists that are to be written, and regions that have changed.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    /// Full blocks without their list.
    due: VecDeque<BlockId>,
    /// Regions whose newest translation page is out of date; empty if the caller does not track
    /// them.
    changed: Vec<bool>,
    /// The next region that an idle drive looks at.
    saving: Option<u32>,
    /// Content of one unit of a list.
    image: Vec<u8>,
}

impl Lists {
    /// Creates the state for a table with this number of regions, none of which has changed.
    pub fn new(config: &FtlConfig, regions: u32, layout: &Layout) -> Lists {
        let regions = if config.checkpoints_on_flush() { regions } else { 0 };
        let image = if config.list_superpages() > 0 { layout.unit_bytes } else { 0 };
        Lists {
            due: VecDeque::new(),
            changed: vec![false; regions as usize],
            saving: None,
            image: vec![0; image as usize],
        }
    }

    /// Records that a block is full, and its list due.
    pub fn note_full(&mut self, block: BlockId) {
        self.due.push_back(block);
    }

    /// The next full block without its list, which is due no longer.
    pub fn take_due(&mut self) -> Option<BlockId> {
        self.due.pop_front()
    }

    /// Returns whether a list waits for its program.
    pub fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The content of a unit of a list.
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// Returns whether the caller tracks changed regions.
    pub fn has_regions(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Marks the translation page of `region` on the media as out of date.
    #[inline]
    pub fn region_changed(&mut self, region: u32) {
        if let Some(changed) = self.changed.get_mut(region as usize) {
            *changed = true;
        }
    }

    /// Records that the content of the translation page of `region` was taken.
    pub fn region_imaged(&mut self, region: u32) {
        if let Some(changed) = self.changed.get_mut(region as usize) {
            *changed = false;
        }
    }

    /// The regions that have changed.
    pub fn changed(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.changed).filter(|&(_, &changed)| changed).map(|(region, _)| region)
    }

    /// Begins to write the changed regions, as many at a time as may be in flight.
    pub fn begin_saving(&mut self) {
        if self.has_regions() {
            self.saving = Some(0);
        }
    }

    /// The next `most` changed regions to be written for an idle drive.
    pub fn next_to_save(&mut self, most: usize) -> Vec<u32> {
        let Some(first) = self.saving else { return Vec::new() };
        let regions = self.changed.len() as u32;
        let mut wanted = Vec::new();
        let mut region = first;
        while region < regions && wanted.len() < most {
            if self.changed[region as usize] {
                wanted.push(region);
            }
            region += 1;
        }
        self.saving = (region < regions).then_some(region);
        wanted
    }
}
