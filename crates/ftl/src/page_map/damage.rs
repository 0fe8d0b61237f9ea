//! Handling of flash that fails early: blocks with data that could not be read, data that are about to become unreadable, dies that are
//! dead.
//!
//! ```text
//!  refresh_block  data leave the block, then it is erased
//!  retire_block   readable data leave the block, then it is retired (as after a failed program)
//!  kill_die       nothing leaves; its blocks are retired one by one as hosts overwrite or trim what was lost
//! ```
//! Invariant: a dead die has no free and no open block, so nothing is ever planned there again.

use super::collect::empty_dead;
use super::core::Core;
use super::table::Table;
use super::write::fail_block;
use crate::block_manager::BlockState;
use pellucid_flash::{BlockId, DieId};

/// Retires `block` after an uncorrectable read: readable data are moved out, and the block is retired when nothing valid is left.
/// `false`: that was known.
pub(super) fn retire_block<T: Table>(core: &mut Core<T>, block: BlockId) -> bool {
    let state = core.blocks.state(block);
    let holds_data = !matches!(state, BlockState::Free | BlockState::Erasing | BlockState::Bad);
    if !holds_data || core.blocks.failed(block) {
        return false;
    }
    if state == BlockState::Victim {
        core.gc.lose_victim(&mut core.blocks, block);
    } else {
        core.blocks.mark_failed(block);
        fail_block(core, block);
    }
    true
}

/// Refreshes `block`: rewrites its data elsewhere before they become unreadable. The data are copied as in GC, alternating with
/// victims for space if the die has none to spare. `false`: nothing to do, or already planned.
pub(super) fn refresh_block<T: Table>(core: &mut Core<T>, block: BlockId) -> bool {
    let closed = core.blocks.state(block) == BlockState::Closed;
    closed
        && !core.blocks.failed(block)
        && core.gc.upkeep_mut(core.shape.layout.die_of_block(block)).refresh(block)
}

/// Marks `die` as dead: its programs and erases will fail, and its data cannot be read. Programs that are planned there end as failed
/// ones do. `false`: that was known.
pub(super) fn kill_die<T: Table>(core: &mut Core<T>, die: DieId) -> bool {
    if !core.blocks.kill_die(die) {
        return false;
    }
    for block in core.blocks.of_die(die) {
        match core.blocks.state(block) {
            BlockState::Free => core.blocks.retire(block),
            BlockState::Erasing | BlockState::Bad => {}
            _ => {
                retire_block(core, block);
            }
        }
    }
    core.gc.stop(die);
    empty_dead(core, die);
    true
}

/// A failure in `block` affected one of several replaceable parts: the block is emptied and erased like any other victim instead of being
/// retired. Call right after the end of the program that failed.
pub(super) fn forgive<T: Table>(core: &mut Core<T>, block: BlockId) {
    debug_assert!(core.blocks.state(block) == BlockState::Full || core.blocks.is_settled(block));
    core.blocks.forgive(block);
}
