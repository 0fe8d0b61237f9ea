//! Handling of flash that fails early, or wears unevenly.
//!
//! ```text
//!  refresh_block   its logical blocks are merged elsewhere, then it is erased
//!  retire_block    the same with what can be read, then it is retired (as after a failed program)
//!  level_wear      the least worn data block is merged onto the most worn free one
//!  kill_die        nothing moves: the die's logical blocks stay where they are, and take no more writes
//! ```

use super::blocks::Role;
use super::core::Core;
use super::write::fail_block;
use super::{cache, journal, merge};
use pellucid_flash::{BlockId, Cause, DieId};

/// Retires `block` after an uncorrectable read: readable data are moved out first. `false`: that was known, or it holds nothing.
pub(super) fn retire_block(core: &mut Core, block: BlockId) -> bool {
    let news = fail_block(core, block, Cause::Retirement);
    merge::step(core, core.shape.layout.die_of_block(block));
    news
}

/// Refreshes `block`: its data are rewritten elsewhere before they become unreadable. `false`: nothing to do, or known.
pub(super) fn refresh_block(core: &mut Core, block: BlockId) -> bool {
    let die = core.shape.layout.die_of_block(block);
    if core.die(die).is_dead() || core.blocks.failed(block) {
        return false;
    }
    let takes_more = |core: &Core| {
        let log = core.die(die).logs.of_block(block);
        log.is_some_and(|log| log.is_open() && !log.is_full(&core.shape))
    };
    let news = match core.blocks.role(block) {
        Role::Data(_) => merge::evacuate(core, block, Cause::Refresh),
        Role::Log if !takes_more(core) => merge::evacuate(core, block, Cause::Refresh),
        Role::Metadata => journal::empty_block(core, die, block, Cause::Refresh),
        _ => false,
    };
    merge::step(core, die);
    news
}

/// Marks `die` as dead: its programs and erases will fail, and its data cannot be read.
/// `false`: that was known.
pub(super) fn kill_die(core: &mut Core, die: DieId) -> bool {
    if !core.die_mut(die).kill() {
        return false;
    }
    core.die_mut(die).merges.clear_evacuations();
    merge::fail_merge(core, die);
    for block in core.blocks.of_die(die) {
        if core.blocks.role(block) == Role::Free {
            core.blocks.retire(block);
        }
    }
    core.tally.release();
    core.tally.set_map_jobs(true);
    true
}

/// Returns whether the drive must refuse writes: a die is dead, or has too few good blocks for its data plus the required minimum.
pub(super) fn worn_out(core: &Core) -> bool {
    let worn = |die: DieId| {
        let state = core.die(die);
        if core.cache.is_some() {
            return state.is_dead() || cache::is_worn_out(core, die);
        }
        state.is_dead() || state.merges.is_starved() || core.blocks.good(die) <= core.shape.least_blocks(die)
    };
    (0..core.shape.layout.dies).map(DieId).any(worn)
}

/// Levels wear after an erase in `die`: moves the data of the least worn block, if the most worn one has had too many more erases.
pub(super) fn level_wear(core: &mut Core, die: DieId) {
    let Some(gap) = core.shape.config.wear.static_gap else { return };
    let (state, blocks) = (core.die(die), &core.blocks);
    if state.is_dead() || state.merges.evacuates_for(Cause::WearLevel) {
        return;
    }
    let good = || blocks.of_die(die).filter(|&block| blocks.role(block) != Role::Bad);
    let most = good().map(|block| blocks.erases(block)).max().unwrap_or(0);
    let data = good().filter(|&block| matches!(blocks.role(block), Role::Data(_)));
    let least = data.min_by_key(|&block| blocks.erases(block));
    if let Some(block) = least.filter(|&block| most - blocks.erases(block) > gap) {
        core.tally.count_levelled();
        merge::evacuate(core, block, Cause::WearLevel);
    }
}
