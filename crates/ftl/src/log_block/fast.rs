//! FAST, fully-associative sector translation: log blocks are shared.
//!
//! ```text
//!  a superpage from the beginning of a logical block on ──► sequential log block (merging the one before away)
//!  one that continues there ──────────────────────────────► the same
//!  all others ────────────────────────────────────────────► random log blocks, one after the other; when all are full, the oldest one is
//!                                                           merged away: a full merge for each logical block that has a copy in it
//! ```
//! Source of the algorithm: S.-W. Lee, D.-J. Park, T.-S. Chung, D.-H. Lee, S. Park, H.-J. Song, "A log buffer-based flash translation layer
//! using fully-associative sector translation", ACM Transactions on Embedded Computing Systems 6(3), 2007, section 3. There a write into
//! the block of the sequential log that does not continue it ends that log; here it goes to the random log, and the sequential one waits.
//! A die has one sequential log block and a number of random ones. Superpages of one unit are those of the paper; larger ones enter the
//! sequential log only as a whole.

use super::core::{Core, Shape};
use super::place::{append, open_log, takes_more, want_merge};
use crate::translation::Plan;
use pellucid_flash::{DieId, Lpn};

/// Streams of a die: the random one, and two sequential ones that take turns, so that the end of one run and the beginning of the next
/// do not share a superpage.
pub(super) const STREAMS: u32 = 3;

/// The stream of a write of `lpn`.
pub(super) fn stream(core: &mut Core, lpn: Lpn) -> u32 {
    let (lbn, at) = core.shape.lbn(lpn);
    let die = core.shape.die_of_lbn(lbn);
    let turn = core.dies[die.0 as usize].logs.run(&core.shape, lpn, at);
    die.0 * STREAMS + turn.map_or(0, |turn| 1 + turn)
}

/// Places a superpage of stream `group`.
pub(super) fn place(core: &mut Core, group: u32, lpns: &[Lpn]) -> Option<Plan> {
    let die = DieId(group / STREAMS);
    if group.is_multiple_of(STREAMS) || !is_whole_run(&core.shape, lpns) {
        return place_random(core, die, lpns);
    }
    let (lbn, at) = core.shape.lbn(lpns[0]);
    let logs = core.die(die).logs.all();
    let sequential = logs.iter().position(|log| log.owner().is_some());
    let continues = |&log: &usize| {
        let log = &logs[log];
        log.owner() == Some(lbn) && log.next() * core.shape.layout.units_per_superpage == at
    };
    if let Some(log) = sequential.filter(continues)
        && takes_more(core, die, log)
    {
        return Some(append(core, die, log, lpns));
    }
    if at > 0 {
        return place_random(core, die, lpns);
    }
    if let Some(log) = sequential {
        let block = core.die(die).logs.at(log).block();
        want_merge(core, block);
        return None;
    }
    match open_log(core, die, Some(lbn)) {
        Some(log) => Some(append(core, die, log, lpns)),
        None if core.blocks.returning(die) > 0 => None,
        None => place_random(core, die, lpns),
    }
}

/// Returns whether `lpns` fill a superpage with consecutive pages, starting at its place in their logical block.
fn is_whole_run(shape: &Shape, lpns: &[Lpn]) -> bool {
    let Some(&first) = lpns.first().filter(|&&first| first != Lpn::NONE) else { return false };
    let (_, at) = shape.lbn(first);
    let follow = (first.0..).zip(lpns).all(|(expected, lpn)| lpn.0 == expected);
    let per_superpage = shape.layout.units_per_superpage;
    lpns.len() == per_superpage as usize && at.is_multiple_of(per_superpage) && follow
}

fn place_random(core: &mut Core, die: DieId, lpns: &[Lpn]) -> Option<Plan> {
    let logs = core.die(die).logs.all();
    let mut random = logs.iter().enumerate().filter(|(_, log)| log.owner().is_none());
    let (in_use, last) = (random.clone().count() as u32, random.next_back().map(|(at, _)| at));
    if let Some(at) = last.filter(|&at| takes_more(core, die, at)) {
        return Some(append(core, die, at, lpns));
    }
    if in_use < core.shape.log_blocks
        && let Some(at) = open_log(core, die, None)
    {
        return Some(append(core, die, at, lpns));
    }
    if in_use >= core.shape.log_blocks || core.blocks.returning(die) == 0 {
        let logs = core.die(die).logs.all();
        let oldest = logs.iter().find(|log| log.owner().is_none()).or(logs.first());
        if let Some(block) = oldest.map(|log| log.block()) {
            want_merge(core, block);
        }
    }
    None
}
