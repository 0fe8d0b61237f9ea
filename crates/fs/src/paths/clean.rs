//! Cleaning: the live blocks of a segment become dirty, and so are written elsewhere (`cleaner.rs`).

use super::{fetch, room};
use crate::batch::Owner;
use crate::cleaner::Victim;
use crate::objects::Core;
use crate::options::CleanerPolicy;
use crate::space::State;
use crate::stop::Stop;
use crate::types::Ino;

/// Blocks per step.
const STEP: usize = 64;

/// A step of the cleaner: moves some blocks, or reads the victim's next header, or chooses a victim.
pub(crate) fn clean(core: &mut Core) -> Result<(), Stop> {
    for _ in 0..STEP {
        let Some((address, owner)) = core.cleaner.next_block() else { break };
        match move_block(core, address, owner) {
            // Unreadable data stay where they are.
            Ok(()) | Err(Stop::Errno(_)) => {
                core.turn.went_on();
                core.cleaner.block_done();
            }
            Err(Stop::Miss(miss)) => {
                if fetch::want_node(core, miss).is_err() {
                    core.cleaner.block_done();
                }
                return Ok(());
            }
            Err(other) => return Err(other),
        }
    }
    if core.cleaner.next_block().is_some() {
        return Ok(());
    }
    if core.cleaner.end_rescue() {
        core.turn.went_on();
        // Dirty blocks are kept by the pages.
        core.log.forget_lost();
        core.want_checkpoint();
    }
    match core.cleaner.victim() {
        Some(victim) => read_victim(core, victim),
        None => choose_victim(core),
    }
    Ok(())
}

/// Makes a block dirty if its live copy is at `address`.
fn move_block(core: &mut Core, address: u64, owner: Owner) -> Result<(), Stop> {
    match owner {
        Owner::Data { ino, block } => {
            let run = core.catalog.run_at(Ino(ino), block)?;
            if run.address != address {
                return Ok(());
            }
            let ino = Ino(ino);
            match core.pages.find(ino, block) {
                Some(page) => core.pages.make_dirty(page, true),
                None => {
                    fetch::want_data(core, ino, block, address, run.end - 1)?;
                    if !core.pages.has(ino, block) {
                        return Err(Stop::Data);
                    }
                    return move_block(core, address, owner);
                }
            }
            core.commits.dirtied(core.turn.now());
            Ok(())
        }
        Owner::Node { low, level } => Ok(core.catalog.move_node(low, level, address)?),
        Owner::Entries | Owner::EntriesCopy => Ok(()),
    }
}

/// Reads the next header of the victim.
fn read_victim(core: &mut Core, victim: Victim) {
    let segment = *core.space.segment(victim.segment);
    if victim.next >= segment.written || segment.live == 0 {
        core.turn.went_on();
        core.reads.forget_raw();
        core.cleaner.victim_done(core.turn.now());
        return;
    }
    let layout = *core.space.layout();
    let address = layout.address(victim.segment, victim.next);
    let mut ahead = victim.ahead;
    let Some(header) = fetch::want_header(core, address, segment.written - victim.next, &mut ahead) else {
        return core.cleaner.wait_for_header(ahead);
    };
    core.turn.went_on();
    match header {
        Some(header) => {
            core.cleaner.take_batch(header.owners(), victim.next + layout.padded(header.blocks));
        }
        None => {
            // Without the header and its copy, the owners of the blocks are unknown: the segment is retired.
            core.space.retire(victim.segment);
            core.cleaner.give_up();
        }
    }
}

/// Chooses a victim if empty segments are scarce; or first writes what frees some.
fn choose_victim(core: &mut Core) {
    let low = room::low_water(core);
    let unused = core.space.unused();
    if unused >= low || core.life.is_unmounting() || core.checkpoints.is_built() {
        return;
    }
    let dead = core.space.dead().count() + core.cleaner.cleaned().len();
    if dead >= (low / 2).max(2) {
        return core.want_checkpoint();
    }
    // With names, the cleaner makes no page dirty.
    if core.pages.dirty() > core.life.frames() / 8 && !core.space.has_names() {
        return core.commits.want_now();
    }
    let a_checkpoint_frees = dead > 0 || core.pages.dirty() + core.catalog.dirty() > 0;
    let Some(segment) = best_victim(core, unused < low / 2 + 1) else {
        if a_checkpoint_frees {
            core.want_checkpoint();
        }
        return;
    };
    let live = u64::from(core.space.segment(segment).live);
    let each = u64::from(core.space.layout().segment_blocks);
    if core.space.room() < room::need(core) + 2 * live + 2 * each + 8 && a_checkpoint_frees {
        core.want_checkpoint();
    } else {
        core.turn.went_on();
        core.cleaner.choose(segment, core.turn.now());
    }
}

/// The segment whose cleaning gains most. `scarce`: segments are needed at once.
fn best_victim(core: &Core, scarce: bool) -> Option<u32> {
    let layout = *core.space.layout();
    let each = layout.segment_blocks;
    let now_s = (core.turn.now().0 / 1_000_000_000).max(0) as u64;
    let score = |segment: u32| {
        let s = core.space.segment(segment);
        let used = f64::from(s.live) / f64::from(each);
        let age = if scarce || core.life.options().cleaner == CleanerPolicy::Greedy {
            1
        } else {
            1 + now_s.saturating_sub(s.age_s.into())
        };
        (1.0 - used) * age as f64 / (1.0 + used)
    };
    let eligible = (0..layout.segments).filter(|&segment| {
        let s = core.space.segment(segment);
        s.state == State::Closed
            && s.live > 0
            && s.live + 2 < each
            && !core.cleaner.cleaned().contains(&segment)
            && !core.writes.writes_to(segment, &layout)
    });
    eligible.max_by(|&a, &b| score(a).total_cmp(&score(b)))
}
