//! A cache on the media: its translation pages and spare areas, and what a mount makes of them.

use super::cache::state_of;
use super::copies::keep_until_saved;
use super::core::Core;
use super::programs::Settled;
use crate::cached::mark_of;
use crate::sparse::SparseTable;
use pellucid_flash::{CacheState, Lpn, Ppa};

/// A copy that a mount has found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub lpn: Lpn,
    pub sequence: u64,
    pub ppa: Ppa,
    pub dirty: bool,
}

/// Entry for the spare area of a copy of `lpn`. `dirty`: state of the data when they arrived, whatever has become of the page since.
#[inline]
pub(super) fn mark(core: &Core, lpn: Lpn, dirty: bool) -> Lpn {
    mark_of(lpn, dirty && core.cache.is_some() && core.shape.is_hosts(lpn))
}

/// The content of the translation page of a region: its pages that have a copy on the media.
pub(super) fn write_region(core: &mut Core, settled: &Settled, region: u32, out: &mut Vec<u8>) {
    let Some(sparse) = core.table.sparse() else { return };
    for slot in sparse.of_region(region) {
        let ppa = core.settled_copy(settled, slot.lpn());
        if ppa != Ppa::NONE {
            let dirty = ppa == Ppa::LOST || core.table.is_valid(ppa);
            let page = mark_of(slot.lpn(), dirty);
            out.extend_from_slice(&page.0.to_le_bytes());
            out.extend_from_slice(&ppa.0.wrapping_add(1).to_le_bytes());
        }
    }
    if let Some(marks) = core.table.sparse_mut().and_then(SparseTable::marks_mut) {
        marks.imaged(region, settled.watermark());
    }
}

/// Adds, at a mount, the valid content of a translation page.
pub(super) fn found_in_region(
    core: &Core,
    entries: &[u32],
    counts: impl Fn(Ppa) -> bool,
) -> impl Iterator<Item = Found> {
    entries.as_chunks::<2>().0.iter().filter_map(move |&[mark, entry]| {
        let (mark, ppa) = (Lpn(mark), Ppa(entry.wrapping_sub(1)));
        let lpn = core.without_state(mark);
        let found = entry != 0 && core.shape.is_hosts(lpn) && counts(ppa);
        // Every copy that the replay finds is newer.
        found.then_some(Found { lpn, sequence: 0, ppa, dirty: mark != lpn })
    })
}

/// Keeps, at a mount, the newest copy of each page. After a power cut a mount may find more pages of a region than it has slots:
/// dirty ones have priority, then the newest. Returns the number of dirty ones without a slot, which is zero unless a translation
/// page was lost.
pub(super) fn restore_copies(core: &mut Core, mut found: Vec<Found>) -> u64 {
    found.sort_unstable_by_key(|copy| (copy.lpn, std::cmp::Reverse((copy.sequence, copy.ppa))));
    found.dedup_by_key(|copy| copy.lpn);
    found.sort_unstable_by_key(|copy| std::cmp::Reverse((copy.dirty, copy.sequence, copy.ppa)));
    let mut lost = 0;
    for Found { lpn, ppa, dirty, .. } in found {
        let Some(sparse) = core.table.sparse_mut() else { break };
        if sparse.has_slot_for(lpn) {
            sparse.replace(lpn, ppa);
            sparse.set_state(lpn, if dirty { CacheState::Dirty } else { CacheState::Clean });
            if dirty {
                sparse.mark(lpn);
            }
            continue;
        }
        lost += u64::from(dirty);
        // An older version must not come back when the block of this one is erased.
        core.pages.dirty(core.page_of(lpn), core.programs.sequence());
        keep_until_saved(core, ppa);
    }
    lost
}

/// Handles, at a mount, a page for which a trim is uncertain. A clean page is then absent; the data of others are lost.
pub(super) fn doubt(core: &mut Core, lpn: Lpn) {
    let clean = core.table.sparse().is_some_and(|sparse| sparse.state(lpn) == CacheState::Clean);
    core.table.set(lpn, if clean { Ppa::NONE } else { Ppa::LOST });
}

/// Returns, at a mount, whether the copy at `ppa` has to be kept.
pub(super) fn is_needed(core: &Core, lpn: Lpn, ppa: Ppa) -> bool {
    ppa.is_some()
        && (core.cache.is_none() || !core.shape.is_hosts(lpn) || state_of(core, lpn) == CacheState::Dirty)
}
