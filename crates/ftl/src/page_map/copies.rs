//! Paths of copies: lookup of a page, and release of copies that are no longer needed.

use super::core::Core;
use super::programs::ProgramUnit;
use super::table::Table;
use crate::Victim;
use crate::block_manager::BlockState;
use crate::translation::{Located, Outdated};
use pellucid_flash::{Lpn, Ppa};

/// Location of `lpn`, for an access of the host.
#[inline]
pub(crate) fn lookup<T: Table>(core: &mut Core<T>, lpn: Lpn) -> Located {
    if let Some(demand) = &mut core.demand
        && let Some(page) = demand.missing_page(&core.shape, &core.table, &core.pages, lpn)
    {
        return Located::NeedsMap(page);
    }
    peek(core, lpn)
}

/// Location of `lpn`, for any other purpose.
#[inline]
pub(crate) fn peek<T: Table>(core: &Core<T>, lpn: Lpn) -> Located {
    match core.copy_of(lpn) {
        Ppa::NONE => Located::Zero,
        Ppa::LOST => Located::Lost,
        ppa => Located::At(ppa),
    }
}

/// Address at which the data of the page at `ppa` can be read now: `ppa` itself or, until its program has ended, the copy that
/// it replaces. [`Ppa::NONE`]: the page has no copy on the media yet.
#[inline]
pub(crate) fn readable<T: Table>(core: &Core<T>, ppa: Ppa) -> Ppa {
    match core.blocks.in_flight(core.shape.layout.block_of(ppa)) {
        0 => ppa,
        _ => core.programs.replaced_by(ppa),
    }
}

/// Returns whether the copy at `from`, whose spare area names this page, is still needed and must be moved. Without a spare area, the
/// copy is unreadable, or overwritten and already being erased.
#[inline]
pub(crate) fn is_current<T: Table>(core: &Core<T>, from: Ppa, named: Option<Lpn>) -> bool {
    match named.map(|mark| core.named(mark)) {
        Some(lpn) => lpn.0 < core.shape.pages() && core.copy_of(lpn) == from,
        None => core.valid.has(from),
    }
}

/// Invalidates the copy at `ppa`, which is no longer needed for this reason.
#[inline]
pub(crate) fn invalidate<T: Table>(core: &mut Core<T>, ppa: Ppa, why: Outdated) {
    if !ppa.is_some() || !core.valid.has(ppa) {
        return;
    }
    // A dropped page comes back with its data, if the power is cut before that is on the media.
    let comes_back = why == Outdated::Trimmed && T::DROPS_COPIES;
    if !comes_back {
        core.outdated.note(ppa, why);
    }
    if core.shape.config.victim == Victim::Lru {
        core.blocks.touch(core.shape.layout.block_of(ppa), core.programs.sequence());
    }
    drop_copy(core, ppa);
}

/// Marks the valid copy at `ppa` as dispensable: it stays in place, and may be dropped at any time.
#[inline]
pub(crate) fn drop_copy<T: Table>(core: &mut Core<T>, ppa: Ppa) {
    core.valid.remove(ppa);
    let block = core.shape.layout.block_of(ppa);
    core.blocks.remove_valid(block);
    if core.blocks.state(block) == BlockState::Victim {
        if core.blocks.valid(block) == 0 {
            core.gc.note_emptied(block);
        }
        core.gc.went_on(&mut core.blocks, block);
    }
}

/// Discards `lpn`. Its old copy is invalid at once, but its block is not erased before the trim is on the media: a power
/// cut must not bring back a copy that is older still.
pub(crate) fn trim<T: Table>(core: &mut Core<T>, lpn: Lpn) {
    let old = core.copy_of(lpn);
    if old != Ppa::NONE {
        core.table.set(lpn, Ppa::NONE);
        if let Some(demand) = &mut core.demand {
            demand.entry_trimmed(lpn);
        }
        core.pages.dirty(core.page_of(lpn), core.programs.sequence());
        keep_until_saved(core, old);
        invalidate(core, old, Outdated::Trimmed);
    }
}

/// The block of `ppa` is not erased before the trims so far are on the media.
pub(crate) fn keep_until_saved<T: Table>(core: &mut Core<T>, ppa: Ppa) {
    if ppa.is_some() {
        core.blocks.set_last_trim(core.shape.layout.block_of(ppa), core.pages.last_trim());
    }
}

/// Panics unless valid units, blocks and map agree. Cost: the whole drive.
pub(crate) fn check<T: Table>(core: &Core<T>) {
    let Core { shape, table, valid, blocks, .. } = core;
    let mut counts = vec![0u32; shape.layout.blocks as usize];
    for unit in (0..shape.layout.units).filter(|&u| valid.has(Ppa(u))) {
        counts[shape.layout.block_of(Ppa(unit)).0 as usize] += 1;
    }
    for (block, &count) in (0..).map(pellucid_flash::BlockId).zip(&counts) {
        assert_eq!(blocks.valid(block), count, "valid units of block {}", block.0);
        let state = blocks.state(block);
        assert!(
            count == 0 || !matches!(state, BlockState::Free | BlockState::Erasing | BlockState::Bad),
            "block {} is {state:?} and holds {count} valid units",
            block.0
        );
    }
    let mut owners = std::collections::BTreeMap::new();
    for (lpn, ppa) in table.placed().filter(|(_, ppa)| ppa.is_some()) {
        if !T::DROPS_COPIES || !shape.is_hosts(lpn) {
            assert!(valid.has(ppa), "lpn {} points to an invalid unit {}", lpn.0, ppa.0);
        }
        let other = owners.insert(ppa, lpn);
        assert_eq!(other, None, "unit {} belongs to two logical pages", ppa.0);
    }
    owners.retain(|&ppa, _| valid.has(ppa));
    // Valid units without an owner wait for their successor's program.
    let old = |program: super::programs::Active<'_>| {
        program.units.iter().map(|unit: &ProgramUnit| unit.old).collect::<Vec<_>>()
    };
    let waiting: std::collections::BTreeSet<Ppa> = core.programs.active().flat_map(old).collect();
    let orphans = counts.iter().sum::<u32>() as usize - owners.len();
    let explained = |ppa: &&Ppa| ppa.is_some() && valid.has(**ppa) && !owners.contains_key(ppa);
    let explained = waiting.iter().filter(explained).count();
    assert_eq!(orphans, explained, "valid units that no page owns and no program replaces");
}
