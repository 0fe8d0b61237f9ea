//! A cache on the media: its translation pages, lists and spare areas, and what a mount makes of them.

use super::pages::CachePages;
use crate::cached::{mark_of, page_of_mark};
use crate::page_map::copies::keep_until_saved;
use crate::page_map::core::Core;
use crate::page_map::journal::want_saved;
use crate::page_map::programs::{ProgramUnit, Settled};
use crate::page_map::table::Found;
use crate::translation::{MapJob, Plan};
use pellucid_flash::{Cause, Lpn, Ppa};

/// The content of the translation page of a region: its pages that have a copy on the media.
pub(super) fn write_region(core: &mut Core<CachePages>, settled: &Settled, region: u32, out: &mut Vec<u8>) {
    for slot in core.table.sparse().of_region(region) {
        let ppa = core.settled_copy(settled, slot.lpn());
        if ppa != Ppa::NONE {
            let dirty = ppa == Ppa::LOST || core.valid.has(ppa);
            let page = mark_of(slot.lpn(), dirty);
            out.extend_from_slice(&page.0.to_le_bytes());
            out.extend_from_slice(&ppa.0.wrapping_add(1).to_le_bytes());
        }
    }
    core.table.region_imaged(region, settled.watermark());
}

/// Notes, at a mount, the valid content of a translation page.
pub(super) fn load_region(core: &mut Core<CachePages>, entries: &[u32], counts: impl Fn(Ppa) -> bool) {
    let shape = &core.shape;
    let found = entries.as_chunks::<2>().0.iter().filter_map(|&[mark, entry]| {
        let (mark, ppa) = (Lpn(mark), Ppa(entry.wrapping_sub(1)));
        let lpn = page_of_mark(mark);
        let found = entry != 0 && shape.is_hosts(lpn) && counts(ppa);
        // Every copy that the replay finds is newer.
        found.then_some(Found { lpn, sequence: 0, ppa, dirty: mark != lpn })
    });
    core.table.note_found(found);
}

/// Keeps, at a mount, the newest copy of each page. After a power cut a mount may find more pages of a region than it has slots:
/// dirty ones have priority, then the newest. Returns the number of dirty ones without a slot, which is zero unless a translation
/// page was lost.
pub(super) fn restore_copies(core: &mut Core<CachePages>) -> u64 {
    let mut found = core.table.take_found();
    found.sort_unstable_by_key(|copy| (copy.lpn, std::cmp::Reverse((copy.sequence, copy.ppa))));
    found.dedup_by_key(|copy| copy.lpn);
    found.sort_unstable_by_key(|copy| std::cmp::Reverse((copy.dirty, copy.sequence, copy.ppa)));
    let mut lost = 0;
    for copy in found {
        if !core.table.restore(copy) {
            lost += u64::from(copy.dirty);
            // An older version must not come back when the block of this one is erased.
            core.pages.dirty(core.page_of(copy.lpn), core.programs.sequence());
            keep_until_saved(core, copy.ppa);
        }
    }
    lost
}

/// The program of the next list.
pub(super) fn next_list(core: &mut Core<CachePages>) -> Option<MapJob> {
    let layout = &core.shape.layout;
    let block = loop {
        let block = core.table.lists_mut().take_due()?;
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

/// Requests writes of the next regions for an idle drive, as many as may be in flight.
pub(super) fn go_on_saving(core: &mut Core<CachePages>) {
    let most = core.pages.may_come();
    for region in core.table.lists_mut().next_to_save(most) {
        // A region that has trims is left to the flush.
        if !core.pages.has_unsaved(region) {
            want_saved(core, region);
        }
    }
}
