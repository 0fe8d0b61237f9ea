//! Paths of programs: a superpage gets its place, and its program ends.
//!
//! ```text
//!  place ─► die (`place.rs`) ─► superpage ─► numbered, entered ─► map: new copies ─► ended ─┬─ ok ─────► old copies invalid
//!                                                                                           └─ failed ─► undone
//! ```
//! Invariant: a copy is invalidated, and its block erased, only when its successor's program has ended well.

use super::OWNER_SHIFT;
use super::copies::{invalidate, keep_until_saved};
use super::core::Core;
use super::place;
use super::programs::{Ended, ProgramUnit};
use super::table::Table;
use crate::block_manager::BlockState;
use crate::translation::{Outdated, Plan, ProgramId, Stream};
use pellucid_flash::{BlockId, DieId, Lpn, Ppa};

/// Plans the program of `lpns` (at most a superpage's worth, [`Lpn::NONE`] for units that lost their owner meanwhile).
/// The map points to the new copies at once. `near`: these are GC copies, which should go to this die; another if it is
/// full. `None`: no die can take data now; try again when a block was erased.
pub(super) fn place<T: Table>(
    core: &mut Core<T>,
    stream: Stream,
    near: Option<DieId>,
    lpns: &[Lpn],
) -> Option<Plan> {
    debug_assert!(!lpns.is_empty() && lpns.len() <= core.shape.layout.units_per_superpage as usize);
    core.placement.turn_to(lpns[0]);
    let (die, shared) = choose_die(core, stream, near, lpns[0])?;
    let (first, block) = place::take_superpage(core, die, stream, shared);
    let sequence = core.take_number();
    let units = lpns.len() as u32;
    if core.handles.count() > 1 {
        core.handles.wrote(stream);
    }
    core.slc.count(stream, shared, units);
    if near.is_some() {
        core.gc.counters_mut().add_copied(units);
    }
    let id = enter(core, first, sequence, lpns, stream.is_gc_copy(), block);
    let stored = sequence | u64::from(shared.owner()) << OWNER_SHIFT;
    Some(Plan { id, first, die, sequence: stored })
}

/// Returns the die for the next superpage of `stream`, and the stream whose open block takes it.
#[inline]
fn choose_die<T: Table>(
    core: &mut Core<T>,
    stream: Stream,
    near: Option<DieId>,
    page: Lpn,
) -> Option<(DieId, Stream)> {
    let own = near.and_then(|die| Some((die, core.space().of(die, stream)?)));
    if own.is_some() {
        return own;
    }
    let into_slc = near.is_none() && core.slc.takes(stream);
    let sequence = core.programs.sequence();
    let (placement, mut ground) = core.placing();
    if into_slc && let Some(die) = placement.choose_slc(&ground) {
        return Some((die, Stream::Cached));
    }
    match near {
        Some(_) => placement.choose_for_foreign(&mut ground, stream),
        None if stream == Stream::MetaMoved => placement.choose_for_map(&mut ground),
        None => placement.choose_for_new(&mut ground, stream, page, sequence),
    }
}

/// Enters the program of `lpns` at `first`, and points the map to the new copies.
#[inline]
fn enter<T: Table>(
    core: &mut Core<T>,
    first: Ppa,
    sequence: u64,
    lpns: &[Lpn],
    gc: bool,
    block: BlockId,
) -> ProgramId {
    let (id, units) = core.programs.enter(first, sequence, lpns.len() as u32, gc);
    let mut gained = 0;
    for ((ppa, &lpn), unit) in (first.0..).zip(lpns).zip(units) {
        let mut old = Ppa::NONE;
        if lpn != Lpn::NONE {
            let valid;
            (old, valid) = core.table.supersede(&mut core.valid, lpn, Ppa(ppa), gc);
            gained += u32::from(valid);
        }
        *unit = ProgramUnit { lpn, old };
    }
    core.blocks.add_valid(block, gained);
    if gc {
        for unit in core.programs.units(id) {
            core.gc.note_moving(unit.old, true);
        }
    }
    id
}

/// A planned program has reached its die: prefetches what its end will touch.
#[inline]
pub(super) fn started<T: Table>(core: &Core<T>, id: ProgramId) {
    for unit in core.programs.units(id) {
        if core.valid.prefetch(unit.old) {
            core.blocks.prefetch(core.shape.layout.block_of(unit.old));
        }
    }
}

/// Ends a program. If it succeeded, the copies it replaced are invalid now. If it failed (`ok == false`), the map points back to the
/// old copies, and the block accepts no more data and is retired when empty. The caller still has the data, of GC copies and host
/// writes, and must plan them again; translation pages are planned again by `next_map_job`.
pub(super) fn ended<T: Table>(core: &mut Core<T>, id: ProgramId, ok: bool) {
    let Ended { first, units, gc } = core.programs.end(id);
    for i in 0..units {
        // A superpage may hold a page twice (moved twice from one copy): a failed one is undone from its end.
        let i = if ok { i } else { units - 1 - i };
        let ProgramUnit { lpn, old } = core.programs.unit(id, i);
        if lpn == Lpn::NONE {
            continue;
        }
        if gc {
            core.gc.note_moving(old, false);
        }
        if ok {
            if core.demand.is_some() {
                entry_changed(core, lpn, gc.then_some(if old.is_some() { old } else { first }));
            }
            invalidate(core, old, Outdated::Replaced);
            T::program_ended(core, lpn);
        } else {
            undo(core, lpn, Ppa(first.0 + i), old);
        }
        if !core.shape.is_hosts(lpn) {
            map_page_ended(core, lpn.0 - core.shape.user_units, ok);
        }
    }
    let (block, sequence) = (core.shape.layout.block_of(first), core.programs.sequence());
    core.blocks.settled(block, !ok, sequence);
    core.gc.went_on(&mut core.blocks, block);
    if !ok {
        fail_block(core, block);
    }
    core.programs.release(id);
}

/// A program of `lpn` has ended well. `left`: it is a GC copy of this one.
fn entry_changed<T: Table>(core: &mut Core<T>, lpn: Lpn, left: Option<Ppa>) {
    if let Some(demand) = core.demand.as_mut().filter(|_| core.shape.is_hosts(lpn)) {
        demand.entry_changed(lpn, left.map(|left| core.shape.layout.die_of(left)));
    }
}

#[cold]
fn map_page_ended<T: Table>(core: &mut Core<T>, page: u32, ok: bool) {
    core.pages.ended(page, ok);
    if ok {
        core.table.part_saved(page);
    }
}

/// Undoes the copy at `failed`, which does not exist: its successor replaces `old` instead.
fn undo<T: Table>(core: &mut Core<T>, lpn: Lpn, failed: Ppa, old: Ppa) {
    if core.copy_of(lpn) == failed {
        core.table.set(lpn, old);
        T::copy_is_back(core, lpn, old);
        // GC may have skipped it, as it had a successor.
        if old.is_some() && core.blocks.state(core.shape.layout.block_of(old)) == BlockState::Victim {
            core.gc.revisit(core.shape.layout.block_of(old));
        }
    } else if !core.programs.inherit(lpn, failed, old) {
        // Trimmed, or overwritten by a program that has ended: then the old copy is not needed either. (Until the trim is on the
        // media, a power cut brings the old copy back.)
        let trimmed = core.copy_of(lpn) == Ppa::NONE;
        keep_until_saved(core, old);
        invalidate(core, old, if trimmed { Outdated::Trimmed } else { Outdated::Replaced });
    }
    invalidate(core, failed, Outdated::Replaced);
}

/// Closes a block early: it accepts no more data, and is emptied and retired.
pub(super) fn fail_block<T: Table>(core: &mut Core<T>, block: BlockId) {
    core.blocks.close_failed(block, core.programs.sequence());
    core.gc.upkeep_mut(core.shape.layout.die_of_block(block)).retire(block);
    core.gc.went_on(&mut core.blocks, block);
}
