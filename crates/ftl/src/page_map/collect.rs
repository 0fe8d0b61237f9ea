//! Paths of GC: the decisions of [`Gc`](crate::gc::Gc) applied to the table, the translation pages and the cached table.

use super::core::Core;
use super::journal;
use super::table::Table;
use crate::translation::{Arrival, Arrived, GcJob, Load, Move, Reclaim, Stream};
use pellucid_flash::{BlockId, DieId, Lpn, Ppa};

/// Returns whether [`next_gc`] has work in `die`.
#[inline]
pub(super) fn wants_gc<T: Table>(core: &Core<T>, die: DieId, load: Load) -> bool {
    core.gc.wants(&core.blocks, die, load)
}

/// Returns whether [`reap`] may have something to do.
#[inline]
pub(super) fn may_reap<T: Table>(core: &Core<T>, die: DieId) -> bool {
    let blocks = &core.blocks;
    blocks.has_dead_or_empty()
        && (blocks.is_dead(die) || (blocks.worth().empty(die) > 0 && blocks.free_count(die) == 0))
}

/// Frees, in a die without a free block, blocks that need no copy: its closed blocks without valid units.
pub(super) fn reap<T: Table>(core: &mut Core<T>, die: DieId) {
    if core.blocks.is_dead(die) {
        empty_dead(core, die);
    } else if T::DROPS_COPIES {
        // Blocks that hold nothing that is needed hold what is worth keeping: one block at a time is enough.
    } else if core.blocks.worth().empty(die) > 0 && core.blocks.free_count(die) == 0 {
        let (gc, mut parts) = core.collecting();
        gc.reap(&mut parts, die);
    }
}

/// Blocks of a dead die come out of [`next_erase`] once they hold nothing valid.
pub(super) fn empty_dead<T: Table>(core: &mut Core<T>, die: DieId) {
    let blocks = &core.blocks;
    for block in core.gc.upkeep_mut(die).take_retiring(|block| blocks.is_settled(block)) {
        core.blocks.choose(block);
        if core.blocks.valid(block) == 0 {
            core.gc.note_emptied(block);
        }
    }
}

/// The next copies that GC wants in `die`, choosing a victim first if need be. `None`: nothing to do now.
#[inline]
pub(super) fn next_gc<T: Table>(core: &mut Core<T>, die: DieId, load: Load) -> Option<GcJob<'_>> {
    // Called often, mostly without work.
    if wants_gc(core, die, load) { next_moves(core, die, load) } else { None }
}

fn next_moves<T: Table>(core: &mut Core<T>, die: DieId, load: Load) -> Option<GcJob<'_>> {
    let (gc, mut parts) = core.collecting();
    let to = gc.next_moves(&mut parts, die, load)?;
    // The die moves whole superpages.
    let is_whole = core.gc.moves().len() as u32 == core.shape.layout.units_per_superpage;
    let copies_back = core.shape.config.copyback && is_whole && to != Stream::Meta;
    if copies_back && core.space().of(die, to).is_some() {
        core.gc.move_inside();
    }
    Some(GcJob::Move(core.gc.moves()))
}

/// Ends the read of a unit of a victim and returns the fate of the unit. `named`: logical page in its spare area.
#[inline]
pub(super) fn arrived<T: Table>(
    core: &mut Core<T>,
    moved: &Move,
    named: Option<Lpn>,
    arrival: Arrival,
) -> Arrived {
    let of_map = moved.to == Stream::Meta;
    if of_map {
        core.pages.end_reading();
    }
    let page = named.map(|mark| core.named(mark));
    let outcome = match (arrival, page) {
        (Arrival::Outdated, _) => Arrived::Drop,
        (Arrival::Read, Some(lpn)) if core.shape.is_hosts(lpn) => return Arrived::Keep(lpn),
        // The content of a translation page is in memory.
        _ => match page.or_else(|| journal::map_page_at(core, moved.from)) {
            Some(lpn) if !core.shape.is_hosts(lpn) => {
                if core.copy_of(lpn) == moved.from {
                    journal::rewrite(core, lpn, moved.cause);
                }
                Arrived::Metadata
            }
            _ => {
                copy_lost(core, moved.from);
                Arrived::Lost
            }
        },
    };
    if of_map && outcome == Arrived::Drop { Arrived::Metadata } else { outcome }
}

/// A unit of a victim could not be read: its block stays, see the head of [`crate::gc`].
fn copy_lost<T: Table>(core: &mut Core<T>, from: Ppa) {
    let block = core.shape.layout.block_of(from);
    match core.blocks.failed(block) {
        false => core.gc.lose_victim(&mut core.blocks, block),
        true => core.gc.end_outgoing(&mut core.blocks, block),
    }
}

/// The next block without valid units, and without copies that only an unsaved trim made invalid.
#[inline]
pub(super) fn next_erase<T: Table>(core: &mut Core<T>) -> Option<Reclaim> {
    if core.gc.emptied().is_empty() { None } else { Some(reclaim(core)) }
}

fn reclaim<T: Table>(core: &mut Core<T>) -> Reclaim {
    if let Some(wait) = T::before_erase(core) {
        return wait;
    }
    let held = T::held_blocks(core);
    let (gc, mut parts) = core.collecting();
    let reclaim = gc.reclaim(&mut parts, &held);
    match reclaim {
        Reclaim::AwaitsTrims => journal::want_trimmed(core),
        Reclaim::Erase(block, _) | Reclaim::Retire(block) => {
            if let Some(demand) = &mut core.demand {
                demand.victim_left(core.shape.layout.die_of_block(block));
            }
            if matches!(reclaim, Reclaim::Retire(_)) {
                core.table.block_left(block);
            }
        }
        Reclaim::Evict(_) => {}
    }
    reclaim
}

/// The erase of a block has ended. If it failed, the block is retired.
pub(super) fn erase_ended<T: Table>(core: &mut Core<T>, block: BlockId, ok: bool) {
    if ok {
        core.blocks.erased(block);
    } else {
        core.blocks.retire(block);
        core.gc.counters_mut().add_grown_bad();
    }
    core.table.block_left(block);
    core.gc.erased(&mut core.blocks, block);
}
