//! Victim choice: the policy, and the GC reserve that lets every choice of it be carried out.
//!
//! ```text
//!  policy ─► candidate ─► does it fit into the GC streams' open blocks and the free blocks, beside the victims under way?
//!                           ├─ yes ─► victim
//!                           ├─ no, and a victim under way will give its block back ─► wait; the candidate stays
//!                           └─ no, and none will ─► emergency: the fewest valid units, whatever the policy says; counted
//! ```
//! A victim takes at most one block of its GC stream and gives one back. So a die can carry out any choice, a full block too, if
//! one free block is there when the victim is chosen and nothing else takes it:
//!
//! - host data and translation pages leave one free block in each die, and one for each victim in progress ([`Gc::reserve`]);
//! - a further victim is chosen only if it fits beside those in progress;
//! - a block with a failed program frees no block, so it is emptied only when a second block is free, or when the die has no other
//!   victim. While it waits, host data leave two.
//!
//! Wear levelling and refresh (upkeep) free no space, and a die under saturating writes never has any to spare. So upkeep takes every
//! other victim of the die ([`Gc::is_upkeeps_turn`]), which takes one block and frees one, like any full block.
//!
//! The emergency is left for dies that have lost their reserve: a program of a GC stream failed, the power was cut in the
//! middle of a victim, or translation pages that erases wait for had no other place.

use crate::block_manager::{BlockManager, BlockState};
use crate::gc::{Gc, Parts, levelled};
use crate::translation::{Load, Stream};
use crate::victims::Outgoing;
use crate::{Victim, VictimCandidate};
use pellucid_flash::{BlockId, Cause, DieId};

/// Returns the block of `die` to be emptied next and the reason; `None`: nothing to do, or a victim in progress
/// must end first.
pub(crate) fn choose(gc: &mut Gc, parts: &mut Parts<'_>, die: DieId, load: Load) -> Option<(BlockId, Cause)> {
    if let Some(block) = gc.empty_cached(parts.blocks, die) {
        return Some((block, Cause::Fold));
    }
    let failed = failed_closed(gc, parts.blocks, die);
    if let Some(block) = failed
        && fits(gc, parts.blocks, die, block, Cause::Retirement, 1)
    {
        return Some((block, Cause::Retirement));
    }
    if gc.is_upkeeps_turn(parts.blocks, die) {
        if let Some(victim) = choose_for_upkeep(gc, parts.blocks, die, load) {
            return Some(victim);
        }
        // Only emptier blocks fit beside the victims under way, and they would delay upkeep for ever.
        if gc.is_short(parts.blocks, die) && gc.upkeep(die).is_due() && waits_for_erase(gc, parts, die) {
            return None;
        }
    }
    if !gc.wants_space(parts.blocks, die, load) {
        return failed.filter(|_| gc.victims().of(die).is_empty()).map(|block| (block, Cause::Retirement));
    }
    match choose_for_space(gc, parts, die) {
        Some(victim) => Some((victim, Cause::Gc)),
        None => failed.filter(|_| !waits_for_erase(gc, parts, die)).map(|block| (block, Cause::Retirement)),
    }
}

/// A block with a failed program whose last programs have ended.
fn failed_closed(gc: &Gc, blocks: &BlockManager, die: DieId) -> Option<BlockId> {
    gc.upkeep(die).retiring().iter().copied().find(|&block| blocks.is_settled(block))
}

/// Chooses a victim for wear levelling or refresh, which free no space and take turns with GC, or for folding, which needs space to
/// spare.
fn choose_for_upkeep(gc: &mut Gc, blocks: &BlockManager, die: DieId, load: Load) -> Option<(BlockId, Cause)> {
    if gc.upkeep(die).wants_levelling() {
        match least_worn_closed(gc, blocks, die) {
            Some(block) if fits(gc, blocks, die, block, Cause::WearLevel, 0) => {
                gc.upkeep_mut(die).set_levelling(false);
                return Some((block, Cause::WearLevel));
            }
            Some(_) => {}
            None => gc.upkeep_mut(die).set_levelling(false),
        }
    }
    while let Some(block) = gc.upkeep(die).next_refresh() {
        // GC may have emptied it since it was found to need a refresh. Refresh even when it frees no space: data that nobody
        // overwrites need it most.
        if blocks.state(block) != BlockState::Closed {
            gc.upkeep_mut(die).drop_refresh(block);
        } else if fits(gc, blocks, die, block, Cause::Refresh, 0) {
            return Some((block, Cause::Refresh));
        } else {
            break;
        }
    }
    let cached = if gc.is_short(blocks, die) { None } else { gc.next_fold(blocks, die, load) };
    let cached = cached.filter(|&block| fits(gc, blocks, die, block, Cause::Fold, 1));
    cached.map(|block| (block, Cause::Fold))
}

fn choose_for_space(gc: &mut Gc, parts: &mut Parts<'_>, die: DieId) -> Option<BlockId> {
    if parts.blocks.worth().giving(die) == 0 {
        return None;
    }
    // A random choice drawn anew at every call would end up as the emptiest block, since it has to fit; a policy from outside may
    // draw, too. Any other choice may be outdated.
    let drawn = gc.outside().is_some() || matches!(gc.config().victim, Victim::Random | Victim::DChoices(_));
    let kept = gc.candidate(die).take().filter(|&block| parts.blocks.may_be_victim(block));
    let choice = match kept {
        Some(block) if drawn => block,
        _ => policy_choice(gc, parts, die)?,
    };
    if fits(gc, parts.blocks, die, choice, Cause::Gc, 0) {
        return Some(choice);
    }
    if waits_for_erase(gc, parts, die) {
        *gc.candidate(die) = Some(choice);
        return None;
    }
    let emptiest = emptiest(gc, parts.blocks, die)?;
    if emptiest != choice {
        gc.counters_mut().add_emergency();
    }
    Some(emptiest)
}

fn policy_choice(gc: &mut Gc, parts: &mut Parts<'_>, die: DieId) -> Option<BlockId> {
    if let Some(chosen) = outside_choice(gc, parts, die) {
        return Some(chosen);
    }
    let blocks = &mut *parts.blocks;
    if let Some(kept) = parts.kept {
        // Units that are not needed cost no copy, but are worth keeping.
        let cached = |b: BlockId| (kept[b.0 as usize].max(blocks.valid(b)), blocks.record(b).closed_at());
        let may = |b: &BlockId| blocks.may_be_victim(*b) && blocks.frees_space(*b);
        return blocks.of_die(die).filter(may).min_by_key(|&b| cached(b));
    }
    match gc.config().victim {
        Victim::Greedy => match blocks.fewest_valid(die) {
            Some(block) if blocks.may_be_victim(block) && blocks.frees_space(block) => Some(block),
            _ => emptiest(gc, blocks, die),
        },
        Victim::Fifo => closed_min_by(blocks, die, |b| blocks.record(b).closed_at()),
        Victim::Lru => closed_min_by(blocks, die, |b| blocks.record(b).touched_at()),
        Victim::CostBenefit => {
            let (now, full) = (parts.sequence, u64::from(gc.layout().units_per_block));
            closed_min_by(blocks, die, |b| {
                let valid = u64::from(blocks.valid(b));
                let age = now - blocks.record(b).closed_at() + 1;
                // Highest age * (1 - u) / 2u first; whole numbers keep it exact and repeatable.
                let benefit = u128::from(age) * u128::from(full - valid);
                u128::MAX - (benefit << 32) / u128::from(2 * valid + 1)
            })
        }
        Victim::Random => random_closed(gc, parts, die, 1),
        Victim::DChoices(d) => random_closed(gc, parts, die, d),
    }
}

/// Choice of an external policy, if there is one; if copies are kept, it chooses among blocks that free space, like the built-in
/// policies.
fn outside_choice(gc: &mut Gc, parts: &Parts<'_>, die: DieId) -> Option<BlockId> {
    gc.outside()?;
    let units = gc.layout().units_per_block;
    let (blocks, kept) = (&*parts.blocks, parts.kept);
    let may = |b: &BlockId| blocks.may_be_victim(*b) && (kept.is_none() || blocks.frees_space(*b));
    let candidate = |block: BlockId| {
        let valid = blocks.valid(block);
        VictimCandidate {
            block,
            valid,
            units,
            cached: kept.map_or(valid, |kept| kept[block.0 as usize].max(valid)),
            erases: blocks.erases(block),
            closed_at: blocks.record(block).closed_at(),
            touched_at: blocks.record(block).touched_at(),
            holds_map: blocks.record(block).is_meta(),
        }
    };
    let candidates: Vec<VictimCandidate> = blocks.of_die(die).filter(may).map(candidate).collect();
    let policy = gc.outside().filter(|_| !candidates.is_empty())?;
    policy.choose(&candidates, parts.sequence)
}

/// The one with the fewest valid units among `d` random closed blocks.
fn random_closed(gc: &Gc, parts: &mut Parts<'_>, die: DieId, d: u32) -> Option<BlockId> {
    let first = gc.layout().first_block(die).0;
    let mut best: Option<BlockId> = None;
    let mut found = 0;
    // Rejection sampling; a die with hardly any candidate is searched in order instead.
    for _ in 0..8 * gc.layout().blocks_per_die {
        let block = BlockId(first + parts.rng.below(gc.layout().blocks_per_die.into()) as u32);
        if parts.blocks.may_be_victim(block) {
            if best.is_none_or(|b| parts.blocks.valid(block) < parts.blocks.valid(b)) {
                best = Some(block);
            }
            found += 1;
            if found == d.max(1) {
                break;
            }
        }
    }
    best.or_else(|| emptiest(gc, parts.blocks, die))
}

/// The block with the fewest valid units that frees space.
fn emptiest(gc: &Gc, blocks: &BlockManager, die: DieId) -> Option<BlockId> {
    let may = |block: BlockId| blocks.may_be_victim(block) && blocks.frees_space(block);
    match gc.config().victim {
        Victim::Greedy => blocks.fewest_valid_where(die, may),
        _ => blocks.of_die(die).filter(|&b| may(b)).min_by_key(|&b| blocks.valid(b)),
    }
}

/// The least worn closed block of `die`, if it lags behind the most worn one by more than the gap. (The least worn of
/// all may be free or open; moving the data of others would not help it and would not end.)
fn least_worn_closed(gc: &Gc, blocks: &BlockManager, die: DieId) -> Option<BlockId> {
    let gap = gc.config().wear.static_gap?;
    let most = levelled(blocks, die).map(|b| blocks.erases(b)).max()?;
    let closed = blocks.of_die(die).filter(|&b| blocks.state(b) == BlockState::Closed);
    let least = closed.min_by_key(|&b| (blocks.erases(b), b));
    least.filter(|&b| most - blocks.erases(b) > gap)
}

/// Returns whether a victim of `die` will become a free block before another is chosen.
fn waits_for_erase(gc: &Gc, parts: &Parts<'_>, die: DieId) -> bool {
    let (blocks, saved) = (&parts.blocks, parts.pages.saved_before());
    let held = |block| {
        let emptied = blocks.valid(block) == 0 && blocks.state(block) == BlockState::Victim;
        emptied && blocks.record(block).last_trim() >= saved
    };
    gc.victims().of(die).iter().any(|victim| victim.back && !held(victim.block))
}

/// Returns whether the units still to be moved from the victims of `die` and from `block` fit into the open blocks of the GC streams
/// and the free blocks, leaving `leave` blocks free.
fn fits(gc: &Gc, blocks: &BlockManager, die: DieId, block: BlockId, cause: Cause, leave: u32) -> bool {
    let stream = gc.shared_stream(blocks, block, cause);
    let new = Outgoing::new(block, blocks.valid(block), stream, false);
    let victims = || gc.victims().of(die).iter().chain([&new]);
    let mut needed = leave;
    for (at, victim) in victims().enumerate() {
        let same = |other: &&Outgoing| other.stream == victim.stream;
        if victims().take(at).any(|other| same(&other)) {
            continue;
        }
        let superpages: u32 = victims().filter(same).map(|v| superpages_to_move(gc, blocks, v)).sum();
        needed += match victim.stream {
            Stream::Meta => blocks_for_map(gc, blocks, die, superpages),
            stream => blocks_for(gc, superpages, superpages_left(gc, blocks, die, stream), stream),
        };
    }
    // A single victim needs no more than one block, and units that fit into open blocks need none.
    needed <= blocks.free_count(die).max(leave)
}

fn superpages_to_move(gc: &Gc, blocks: &BlockManager, victim: &Outgoing) -> u32 {
    let units = blocks.valid(victim.block).saturating_sub(victim.planned);
    // Each translation page may be written in a superpage of its own.
    let packed = if victim.stream == Stream::Meta { 1 } else { gc.layout().units_per_superpage };
    units.div_ceil(packed).min(gc.superpages_of(victim.stream))
}

fn superpages_left(gc: &Gc, blocks: &BlockManager, die: DieId, stream: Stream) -> u32 {
    blocks.open().at(die, stream.place()).map_or(0, |open| gc.superpages_of(stream) - open.superpage)
}

fn blocks_for(gc: &Gc, superpages: u32, left: u32, stream: Stream) -> u32 {
    superpages.saturating_sub(left).div_ceil(gc.superpages_of(stream))
}

/// Blocks of `die` that its translation pages need: they may go to any die that has one to spare.
fn blocks_for_map(gc: &Gc, blocks: &BlockManager, die: DieId, superpages: u32) -> u32 {
    let dies = || (0..gc.layout().dies).map(DieId);
    let left = dies().map(|die| superpages_left(gc, blocks, die, Stream::Meta)).sum();
    let others = dies().filter(|&other| other != die);
    let spare: u32 = others.map(|d| blocks.free_count(d).saturating_sub(gc.reserve(d))).sum();
    blocks_for(gc, superpages, left, Stream::Meta).saturating_sub(spare)
}

/// Among the blocks of `die` that may be victims, the one with the lowest key.
fn closed_min_by<K: Ord>(blocks: &BlockManager, die: DieId, key: impl Fn(BlockId) -> K) -> Option<BlockId> {
    blocks.of_die(die).filter(|&b| blocks.may_be_victim(b)).min_by_key(|&b| key(b))
}
