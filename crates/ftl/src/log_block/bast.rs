//! BAST, block-associative sector translation: a log block belongs to one logical block.
//!
//! A write goes to the log block of its logical block. If that is full, the two are merged first. If there is none and all log blocks are
//! in use, the least recently written one is merged away first.
//!
//! Source of the algorithm: J. Kim, J. M. Kim, S. H. Noh, S. L. Min, Y. Cho, "A space-efficient flash translation layer for CompactFlash
//! systems", IEEE Transactions on Consumer Electronics 48(2), 2002, section III. There, a first write goes to the data block itself; here
//! it goes to a log block, which becomes the data block (switch merge) if it was filled in order. The programs are the same, because
//! superpages of a block can only be programmed in order.

use super::core::Core;
use super::place::{append, open_log, takes_more, want_merge};
use crate::translation::Plan;
use pellucid_flash::{DieId, Lpn};

/// Places a superpage of logical block `lbn`.
pub(super) fn place(core: &mut Core, lbn: u32, lpns: &[Lpn]) -> Option<Plan> {
    let die = core.shape.die_of_lbn(lbn);
    if let Some(at) = core.die(die).logs.owned(lbn) {
        if takes_more(core, die, at) {
            return Some(append(core, die, at, lpns));
        }
        let full = core.die(die).logs.at(at).block();
        want_merge(core, full);
        return None;
    }
    let in_use = core.die(die).logs.all().len() as u32;
    if in_use < core.shape.log_blocks
        && let Some(at) = open_log(core, die, Some(lbn))
    {
        return Some(append(core, die, at, lpns));
    }
    if in_use >= core.shape.log_blocks || core.blocks.returning(die) == 0 {
        merge_least_recent(core, die);
    }
    None
}

fn merge_least_recent(core: &mut Core, die: DieId) {
    let victim = core.die(die).logs.all().iter().min_by_key(|log| log.used_at());
    if let Some(block) = victim.map(|log| log.block()) {
        want_merge(core, block);
    }
}
