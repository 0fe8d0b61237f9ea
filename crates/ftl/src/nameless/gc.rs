//! Garbage collection: chooses victims, the units to copy, and the blocks that may be erased.

use super::moves::Moves;
use super::units::note_if_empty;
use super::victim::Victim;
use super::{Nameless, Taker};
use crate::block_manager::BlockState;
use pellucid_flash::{BlockId, DieId, Lpn, Migration, Ppa};
use std::collections::BTreeMap;

/// Chooses the next victim, with its live units, when few blocks are free.
pub(super) fn next_victim(state: &mut Nameless) -> Option<(BlockId, Vec<Ppa>)> {
    if state.victim.is_some() {
        return None;
    }
    let block = failed_block(state).or_else(|| victim_for_space(state))?;
    let fruitless = state.damage.fruitless(block);
    state.damage.forget(block);
    let (owners, live) = (owners(state, block), state.blocks.valid(block));
    state.blocks.choose(block);
    state.tally.victim();
    state.victim = Some(Victim::new(block, owners, live, fruitless));
    Some((block, state.units.of(block).collect()))
}

/// A block with a failed program, whose data should leave it.
fn failed_block(state: &Nameless) -> Option<BlockId> {
    let may = |block: &BlockId| state.blocks.state(*block) == BlockState::Closed && may_move(state, *block);
    state.damage.failed().find(may)
}

fn victim_for_space(state: &Nameless) -> Option<BlockId> {
    let blocks = &state.blocks;
    let coming = state.empty.count() + state.moves.held_blocks();
    if blocks.free_total() + coming as u32 > state.config.gc_low {
        return None;
    }
    let may = |block| blocks.may_be_victim(block) && blocks.frees_space(block) && may_move(state, block);
    // Every block of a die that can give space: a victim is chosen once for a whole block, so an index would only cost memory.
    let dies = (0..state.layout.dies).map(DieId).filter(|&die| blocks.worth().giving(die) > 0);
    let found = dies.flat_map(|die| blocks.of_die(die)).filter(|&block| may(block));
    found.min_by_key(|&block| (blocks.valid(block), blocks.erases(block), block))
}

/// Returns whether the live units of `block` may be moved now: they were not moved lately, there is space, and, if some could not be
/// read, there was an occasion to try again.
fn may_move(state: &Nameless, block: BlockId) -> bool {
    let valid = state.blocks.valid(block);
    let pages = valid.div_ceil(state.layout.units_per_superpage);
    !state.moves.is_fresh(block)
        && state.damage.may_read(block)
        && pages <= state.pages.left()
        && state.moves.count() as u64 + u64::from(valid) <= Moves::most(&state.layout)
}

/// Virtual addresses of the units of `block`, by place.
fn owners(state: &Nameless, block: BlockId) -> BTreeMap<u32, Lpn> {
    if !state.units.has_virtual(block) {
        return BTreeMap::new();
    }
    let here = |&(_, ppa): &(Lpn, Ppa)| ppa.is_some() && state.layout.block_of(ppa) == block;
    state.virtuals.iter().filter(here).map(|(lpn, ppa)| (ppa.0, lpn)).collect()
}

/// Takes every live unit of the victim off the media: the caller has them in memory, erases the block and writes them again.
pub(super) fn take_out(state: &mut Nameless) {
    let victim = state.victim.as_mut().expect("a victim");
    let block = victim.block();
    let units: Vec<Ppa> = state.units.of(block).collect();
    for ppa in units {
        victim.take_out(ppa);
        state.units.clear(ppa);
        state.blocks.remove_valid(block);
    }
    note_if_empty(state, block);
}

/// Ends a victim: every copy has ended, or was unreadable and stays in place. In the latter case the block is closed again, and becomes a
/// victim again after the next occasion, because a failed read may succeed later. If none of its units could be moved, it waits for more
/// occasions, twice as many each time. Returns whether its block was erased, so that its names are given out again.
pub(super) fn victim_done(state: &mut Nameless) -> bool {
    let victim = state.victim.take().expect("a victim");
    let block = victim.block();
    if let Some(ok) = victim.erase() {
        erased(state, block, ok);
    } else if state.blocks.valid(block) > 0 && state.config.migration == Migration::Acknowledged {
        // The prototype has given old names up by now: moving the rest once more would mistake them for others.
        state.blocks.put_back(block);
        state.damage.cannot_read(block, victim.fruitless_with(state.blocks.valid(block)));
        if state.blocks.failed(block) {
            state.damage.fail(block);
        }
    }
    victim.erase().is_some()
}

/// Returns whether free blocks are running short, so that a checkpoint should be written to release some.
pub(super) fn is_short(state: &Nameless) -> bool {
    state.blocks.free_total() <= state.config.gc_low / 2 || !state.pages.has(Taker::Nameless)
}

/// The next block to be erased; `false`: it is to be retired, and that is done.
pub(super) fn next_erase(state: &mut Nameless) -> Option<(BlockId, bool)> {
    if state.config.migration == Migration::Prototype {
        state.empty.release_all();
    }
    let block = state.empty.take_next()?;
    if state.blocks.failed(block) {
        state.blocks.retire(block);
        return Some((block, false));
    }
    state.blocks.erasing(block);
    Some((block, true))
}

/// Records that the erase of `block` has ended.
pub(super) fn erased(state: &mut Nameless, block: BlockId, ok: bool) {
    if let Some(victim) = state.victim.as_mut().filter(|victim| victim.block() == block) {
        victim.erased(ok);
    } else if ok {
        state.tally.erased();
        state.damage.read_again();
        state.blocks.erased(block);
        state.pages.gain_block();
    } else {
        state.blocks.retire(block);
    }
}
