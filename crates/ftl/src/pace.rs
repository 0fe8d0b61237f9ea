//! Pacing: while a die is under GC, host data use up its free space no faster than GC frees it.
//!
//! ```text
//!  space of a die, in units =  its free blocks, whole  +  what is left of its open blocks
//!                              +  of each victim: a whole block x the share of its valid units that have left it
//!
//!  host superpage      space - superpage                                             waits while there is too little space, or two
//!  GC copies           space - units + units x block / valid when it was chosen   superpages are before the die already
//! ```
//! Without it host data take a die's last blocks as fast as they come, and then none until GC has emptied whole victims. With
//! it each unit that leaves a victim with `valid` units admits `(block - valid) / valid` units of host data.
//!
//! Three blocks of space are enough: at most one is left in GC's open block (if GC has its own; otherwise two blocks are enough), and
//! less than one in the victim. So two are free when the host's open block is full, and the host may take one of them. This requires
//! that GC begins early enough, with `gc_low` of 2 or more; with 1, waits are shorter but not gone. Waits also remain if translation
//! pages, wear levelling or a second host stream take a block: its space is missing until GC has freed it again, while other dies
//! continue.
//!
//! Space is a level and no account of credits, so nothing is owed after a failure, a trim or a power cut.
//!
//! Invariants: a die keeps host superpages waiting only while one of its own victims is being emptied or erased, which needs no host
//! data, or for its own programs; so the wait ends. Data that were turned away are notified ([`crate::Translation::take_released`]).

use crate::Separation;
use crate::block_manager::BlockManager;
use crate::gc::Gc;
use crate::translation::Stream;
use pellucid_flash::{BlockId, DieId};

/// Host superpages that keep a die busy: one at work, and one that waits.
const TURNS: u32 = 2;

impl Gc {
    /// Returns whether the next host superpage for the open block of `shared` in `die` waits for GC.
    #[inline]
    pub(crate) fn outpaced(&self, blocks: &BlockManager, die: DieId, shared: Stream) -> bool {
        self.config().gc_pacing && waits(self, blocks, die, shared)
    }

    /// Records that `die` had no space for host data. While it is under GC this may change without a block coming free.
    #[inline]
    pub(crate) fn turned_away(&mut self, blocks: &BlockManager, die: DieId) {
        if self.config().gc_pacing {
            let until_gc = is_under_gc(self, blocks, die);
            self.away_mut().turn_away(die, until_gc);
        }
    }

    /// Records that a victim in the die of `block` has fewer valid units, that there is one more or less, or that a program has ended.
    #[inline]
    pub(crate) fn went_on(&mut self, blocks: &mut BlockManager, block: BlockId) {
        if self.config().gc_pacing {
            release(self, blocks, block);
        }
    }
}

// Separate, so that an unpaced drive does not pay for it.
#[inline(never)]
fn release(gc: &mut Gc, blocks: &mut BlockManager, block: BlockId) {
    let die = gc.layout().die_of_block(block);
    if gc.away_mut().went_on(die) {
        blocks.came_mut().add(die);
    }
}

#[inline(never)]
fn waits(gc: &Gc, blocks: &BlockManager, die: DieId, shared: Stream) -> bool {
    is_under_gc(gc, blocks, die) && (has_turns(blocks, die, shared) || is_short_of_space(gc, blocks, die))
}

fn is_under_gc(gc: &Gc, blocks: &BlockManager, die: DieId) -> bool {
    blocks.free_count(die) <= gc.config().gc_low_blocks && gc.victims().coming_back(die) > 0
}

/// More would only go ahead of erases and of translation pages, for which all wait.
fn has_turns(blocks: &BlockManager, die: DieId, shared: Stream) -> bool {
    let open = blocks.open().at(die, shared.place());
    open.is_some_and(|open| blocks.in_flight(open.block) >= TURNS)
}

fn is_short_of_space(gc: &Gc, blocks: &BlockManager, die: DieId) -> bool {
    let block = u64::from(gc.superpages_of(Stream::Host) * gc.layout().units_per_superpage);
    let mut space = u64::from(blocks.free_count(die)) * block + left_open(gc, blocks, die);
    let mut emptying = false;
    for victim in gc.victims().of(die).iter().filter(|victim| victim.back) {
        let valid = u64::from(blocks.valid(victim.block));
        emptying |= valid > 0;
        space += block - (block * valid).checked_div(victim.valid.into()).unwrap_or(0);
    }
    emptying && space < blocks_enough(gc) * block
}

/// Units of space with which the host need not stop. With fewer than `gc_low + 1` blocks a die is surely under GC.
fn blocks_enough(gc: &Gc) -> u64 {
    let shared = gc.config().separation == Separation::Off;
    (u64::from(gc.config().gc_low_blocks) + 1).min(if shared { 2 } else { 3 })
}

/// Units that the open blocks of `die` for host data, new or moved, can take.
fn left_open(gc: &Gc, blocks: &BlockManager, die: DieId) -> u64 {
    let others = [Stream::Worn.place(), Stream::Meta.place(), Stream::Cached.place()];
    let open = blocks.open().of_die(die).filter(|(place, _)| !others.contains(place));
    let superpages: u32 = open.map(|(_, open)| gc.superpages_of(Stream::Host) - open.superpage).sum();
    u64::from(superpages) * u64::from(gc.layout().units_per_superpage)
}
