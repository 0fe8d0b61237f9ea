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

use super::core::{Core, Shape};
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
    /// Creates the state for a table of so many regions, none of which has changed.
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

    /// Returns whether a list waits for its program.
    pub fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The content of a unit of a list.
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// Returns whether the caller asks which regions have changed.
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

    /// Begins to write the changed regions, as many at a time as may be under way.
    pub fn begin_saving(&mut self) {
        if self.has_regions() {
            self.saving = Some(0);
        }
    }

    /// The next `most` changed regions to be written for an idle drive.
    fn next_to_save(&mut self, most: usize) -> Vec<u32> {
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

/// Records that a superpage of `block` was planned: its last one makes the list due.
pub(super) fn note_full(core: &mut Core, block: BlockId) {
    if core.blocks.state(block) == BlockState::Full
        && let Some(cache) = &mut core.cache
    {
        cache.lists.due.push_back(block);
    }
}

/// The program of the next list.
pub(super) fn next_list(core: &mut Core) -> Option<MapJob> {
    let layout = &core.shape.layout;
    let block = loop {
        let block = core.cache.as_mut()?.lists.due.pop_front()?;
        let die = layout.die_of_block(block);
        if !core.blocks.failed(block) && !core.blocks.is_dead(die) {
            break block;
        }
        // The block takes nothing more: its spare areas are read.
        core.blocks.settled(block, false, core.programs.sequence());
        core.gc.went_on(&mut core.blocks, block);
    };
    let last = layout.superpages_per_block - 1;
    let (first, die) = (layout.ppa(block, last * layout.units_per_superpage), layout.die_of_block(block));
    let sequence = core.take_number();
    let (id, units) = core.programs.enter(first, sequence, 1, false);
    units.fill(ProgramUnit { lpn: Lpn::NONE, old: Ppa::NONE });
    let mut by_cause = [0; Cause::COUNT];
    by_cause[Cause::Journal as usize] = 1;
    let plan = Plan { id, first, die, sequence };
    Some(MapJob::Program { plan, units: 1, cause: Cause::Journal, by_cause })
}

/// Wants the next regions written for an idle drive, as many as may be under way.
pub(super) fn go_on_saving(core: &mut Core) {
    let most = core.pages.may_come();
    let Some(cache) = &mut core.cache else { return };
    for region in cache.lists.next_to_save(most) {
        // A region that has trims is left to the flush.
        if !core.pages.has_unsaved(region) {
            super::journal::want_saved(core, region);
        }
    }
}

/// Spare areas that a mount reads of a block with this many superpages: only the list, if there is one.
pub(super) fn replay_reads(shape: &Shape, superpages: u32, list_is_readable: bool) -> u64 {
    let has_list = shape.config.cache.is_some_and(|cache| cache.log == MapLog::LastPage)
        && superpages == shape.layout.superpages_per_block;
    match has_list && list_is_readable {
        true => 1,
        false => u64::from(superpages * shape.layout.units_per_superpage),
    }
}
