//! Eviction: clean pages leave the table to make space, or because their block is to be erased.

use super::pages::CachePages;
use crate::page_map::copies::{drop_copy, keep_until_saved};
use crate::page_map::core::Core;
use crate::page_map::journal;
use crate::translation::Reclaim;
use pellucid_flash::{BlockId, CacheState, Lpn, Ppa};

/// Makes space for marks in the region of `lpn`, in which a mount could find as many dirty pages as there are slots. Evicts some
/// clean pages, and requests a write of the region's translation page, which records these and earlier evictions.
pub(super) fn make_room_for_marks(core: &mut Core<CachePages>, lpn: Lpn) {
    let region = core.page_of(lpn);
    for _ in 0..(core.shape.entries / 16).max(1) {
        let Some(clean) = core.table.sparse().evictable(lpn) else { break };
        drop_clean(core, clean);
    }
    if core.table.sparse().marks().is_some_and(|marks| marks.any_departed(region)) {
        core.pages.dirty(region, core.programs.sequence());
        journal::want_trimmed(core);
    }
}

/// Drops a clean page from the table.
pub(super) fn drop_clean(core: &mut Core<CachePages>, lpn: Lpn) {
    let old = core.copy_of(lpn);
    core.table.drop_page(lpn);
    if must_say(core, lpn, core.programs.sequence()) {
        core.pages.dirty(core.page_of(lpn), core.programs.sequence());
        keep_until_saved(core, old);
    }
}

/// Drops a page of an emptied block, whose programs have numbers below `closed`.
pub(super) fn drop_of_block(core: &mut Core<CachePages>, lpn: Lpn, block: BlockId, closed: u64) {
    let region = core.page_of(lpn);
    let was_marked = core.table.sparse().is_marked(lpn);
    core.table.drop_page(lpn);
    if must_say(core, lpn, closed) {
        core.pages.dirty(region, core.programs.sequence());
        core.blocks.set_last_trim(block, core.pages.last_trim());
        return;
    }
    if !core.shape.is_volatile() {
        core.table.left_with_block(lpn, block);
    }
    if was_marked && !core.table.sparse().is_marked(lpn) {
        core.table.leaves_with_block(region, block);
    }
}

/// Returns whether the media still lack the fact that a page has no copy programmed before `sequence`: a mount would bring an older
/// one back.
fn must_say(core: &Core<CachePages>, lpn: Lpn, sequence: u64) -> bool {
    !core.shape.is_volatile() && core.pages.watermark(core.page_of(lpn)) < sequence
}

/// Evicts the clean units of emptied blocks. Returns the work to do before the next erase, if any.
pub(super) fn evict_emptied(core: &mut Core<CachePages>) -> Option<Reclaim> {
    if let Some(block) = core.table.begin_eviction(core.gc.emptied()) {
        return Some(Reclaim::Evict(block));
    }
    let waits = |&block: &BlockId| core.table.is_evicting(block) || is_being_replaced(core, block);
    core.gc.emptied().iter().all(waits).then_some(Reclaim::AwaitsTrims)
}

/// Emptied blocks that have to wait: a power cut would bring a copy in them back.
pub(super) fn held_blocks(core: &Core<CachePages>) -> Vec<BlockId> {
    core.gc.emptied().iter().copied().filter(|&block| is_being_replaced(core, block)).collect()
}

/// Returns whether a copy in `block` is being replaced by a program that has not ended.
fn is_being_replaced(core: &Core<CachePages>, block: BlockId) -> bool {
    let layout = &core.shape.layout;
    core.programs.replace_any(layout.ppa(block, 0), layout.units_per_block)
}

/// Handles a failed program, after which `lpn` is at `old` again. A clean page whose newest data are not in the buffer needs no
/// copy.
pub(super) fn cleaned_meanwhile(core: &mut Core<CachePages>, lpn: Lpn, old: Ppa) {
    let sparse = core.table.sparse();
    let clean = sparse.state(lpn) == CacheState::Clean && !sparse.is_pinned(lpn);
    if clean && old.is_some() && core.valid.has(old) {
        drop_copy(core, old);
    }
}
