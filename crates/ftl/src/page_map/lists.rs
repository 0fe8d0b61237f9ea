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

use super::PageMap;
use super::programs::ProgramUnit;
use crate::block_manager::BlockState;
use crate::translation::{MapJob, Plan};
use crate::{FtlConfig, MapLog};
use pellucid_flash::{BlockId, Cause, Layout, Lpn, Ppa};
use std::collections::VecDeque;

/// Lists that are to be written, and regions that have changed.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    /// Full blocks without their list.
    due: VecDeque<BlockId>,
    /// Regions whose newest translation page is out of date; none where the caller does not ask.
    changed: Vec<bool>,
    /// The next region that an idle drive looks at.
    saving: Option<u32>,
    /// Content of one unit of a list.
    image: Vec<u8>,
}

impl Lists {
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
}

/// Lists.
impl PageMap {
    /// Records that a superpage of `block` was planned: its last one makes the list due.
    pub(super) fn note_full(&mut self, block: BlockId) {
        if self.blocks.state(block) == BlockState::Full {
            self.lists.due.push_back(block);
        }
    }

    /// Returns whether a list waits for its program.
    pub(crate) fn has_list(&self) -> bool {
        !self.lists.due.is_empty()
    }

    /// The program of the next list.
    pub(crate) fn next_list(&mut self) -> Option<MapJob> {
        let block = loop {
            let block = self.lists.due.pop_front()?;
            let die = self.layout.die_of_block(block);
            if !self.blocks.failed(block) && !self.blocks.is_dead(die) {
                break block;
            }
            // The block takes nothing more: its spare areas are read.
            self.blocks.settled(block, false, self.sequence);
            self.gc.went_on(&mut self.blocks, block);
        };
        let last = self.layout.superpages_per_block - 1;
        let first = self.layout.ppa(block, last * self.layout.units_per_superpage);
        let sequence = self.sequence;
        self.set_sequence(sequence + 1);
        let id = self.programs.plan(first, sequence, &[ProgramUnit { lpn: Lpn::NONE, old: Ppa::NONE }]);
        let mut by_cause = [0; Cause::COUNT];
        by_cause[Cause::Journal as usize] = 1;
        let plan = Plan { id, first, die: self.layout.die_of_block(block), sequence };
        Some(MapJob::Program { plan, units: 1, cause: Cause::Journal, by_cause })
    }

    /// The content of a unit of a list.
    pub(crate) fn list_image(&self) -> &[u8] {
        &self.lists.image
    }

    /// Spare areas that a mount reads of a block with this many superpages: only the list, if there is one.
    pub(crate) fn replay_reads(&self, superpages: u32, list_is_readable: bool) -> u64 {
        let has_list = self.config.cache.is_some_and(|cache| cache.log == MapLog::LastPage)
            && superpages == self.layout.superpages_per_block;
        match has_list && list_is_readable {
            true => 1,
            false => u64::from(superpages * self.layout.units_per_superpage),
        }
    }
}

/// Checkpoints.
impl PageMap {
    /// Returns whether the caller asks which regions have changed.
    #[inline]
    pub(super) fn has_regions(&self) -> bool {
        !self.lists.changed.is_empty()
    }

    /// Marks the translation page of `region` on the media as out of date.
    #[inline]
    pub(super) fn region_changed(&mut self, region: u32) {
        if let Some(changed) = self.lists.changed.get_mut(region as usize) {
            *changed = true;
        }
    }

    /// Records that the content of the translation page of `region` was taken.
    pub(crate) fn region_imaged(&mut self, region: u32) {
        if let Some(changed) = self.lists.changed.get_mut(region as usize) {
            *changed = false;
        }
    }

    /// Begins a checkpoint after the data that a flush waits for are on the media. If the table is written with each flush, its changed
    /// regions are awaited as trims are: then the flush needs another [`PageMap::flush_point`].
    pub fn begin_checkpoint(&mut self) -> bool {
        for region in 0..self.lists.changed.len() as u32 {
            if self.lists.changed[region as usize] {
                self.pages.dirty(region, self.sequence);
            }
        }
        !self.lists.changed.is_empty()
    }

    /// Writes the changes after the drive has been idle for a while. Go on with [`PageMap::next_map_job`].
    pub fn save_changed(&mut self) {
        if !self.lists.changed.is_empty() {
            self.lists.saving = Some(0);
        }
    }

    /// Returns whether there are changes that an idle drive would write.
    pub fn has_changed(&self) -> bool {
        self.lists.changed.contains(&true)
    }

    /// Wants the next regions written for an idle drive, as many as may be under way.
    pub(crate) fn go_on_saving(&mut self) {
        let Some(first) = self.lists.saving else { return };
        let regions = self.lists.changed.len() as u32;
        let mut space = self.map_pages_may_come();
        let mut region = first;
        while region < regions && space > 0 {
            if self.lists.changed[region as usize] {
                self.save_region(region);
                space -= 1;
            }
            region += 1;
        }
        self.lists.saving = (region < regions).then_some(region);
    }
}
