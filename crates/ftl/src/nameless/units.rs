//! Units that begin to live, and end: the live units, the valid counts of blocks and the map change together.

use super::Nameless;
use crate::block_manager::BlockState;
use pellucid_flash::{BlockId, Lpn, Ppa};

/// A unit lives.
pub(super) fn begin(state: &mut Nameless, ppa: Ppa, is_virtual: bool) {
    state.units.set(ppa, is_virtual);
    state.blocks.add_valid(state.layout.block_of(ppa), 1);
}

/// A virtual unit has a new place.
pub(super) fn replace(state: &mut Nameless, lpn: Lpn, ppa: Ppa) {
    begin(state, ppa, true);
    let old = state.virtuals.set(lpn, ppa);
    kill_virtual(state, old);
}

/// A unit lives no more.
pub(super) fn kill(state: &mut Nameless, ppa: Ppa) {
    let block = state.layout.block_of(ppa);
    state.units.clear(ppa);
    state.blocks.remove_valid(block);
    note_if_empty(state, block);
}

/// Invalidates the outdated copy of a virtual unit at `old`.
pub(super) fn kill_virtual(state: &mut Nameless, old: Ppa) {
    if old.is_some() && !state.victim.as_mut().is_some_and(|victim| victim.discard(old)) {
        kill(state, old);
    }
}

/// Queues an empty block, which then waits for a checkpoint.
pub(super) fn note_if_empty(state: &mut Nameless, block: BlockId) {
    let kind = state.blocks.state(block);
    let settled = matches!(kind, BlockState::Closed | BlockState::Victim);
    if !settled || state.blocks.valid(block) > 0 || state.moves.is_held(block) {
        return;
    }
    if kind == BlockState::Closed {
        state.blocks.choose(block);
    }
    state.damage.forget(block);
    state.empty.push(block);
}
