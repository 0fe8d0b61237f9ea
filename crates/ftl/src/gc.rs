//! Garbage collection (GC): which copies leave a die's victims, and which blocks are erased.
//!
//! A die collects by itself, into itself: a victim's valid units are moved one by one ([`PageMap::next_gc`]) and
//! programmed elsewhere in the die. When the last copy has ended, the block comes out of [`PageMap::next_erase`].
//! A block with an unreadable unit stays where it is (its readable data leave; reads of the rest keep failing honestly)
//! and is retired if the host ever overwrites what was lost.
//!
//! ```text
//!  wants_gc ─► victim (victim.rs) ─► Move, unit by unit ─► arrived ─┬─ Keep ─► is_current ─► place (of its stream)
//!                                                                   ├─ Metadata: written anew (translation_pages.rs)
//!                                                                   └─ Drop, Lost
//!  last valid unit gone ─► emptied ─► its trims are on the media? ─► Reclaim::Erase ─► erase_ended ─► free
//! ```

use crate::Isolation;
use crate::block_manager::BlockState;
use crate::page_map::PageMap;
use crate::translation::{Arrival, Arrived, GcJob, Move, Reclaim, Stream};
use pellucid_flash::{BlockId, Cause, DieId, Layout, Lpn, Ppa};
use std::ops::Range;

/// What GC keeps between steps.
#[derive(Clone, Debug)]
pub(crate) struct Gc {
    dies: Vec<DieGc>,
    /// Victims and cached blocks that hold nothing valid.
    pub emptied: Vec<BlockId>,
    /// The SLC cache is being folded.
    pub folding: bool,
    /// GC has made room that host data were turned away for.
    pub released: bool,
}

/// GC of one die.
#[derive(Clone, Debug, Default)]
struct DieGc {
    current: Option<Current>,
    /// Victims that data leave, or that wait for their erase.
    outgoing: Vec<Outgoing>,
    /// The policy's choice, while it waits for room.
    candidate: Option<BlockId>,
    /// Host data were turned away until GC has gone on.
    waited_for: bool,
    /// Blocks with a failed program, to be emptied and retired.
    retiring: Vec<BlockId>,
    /// Closed blocks that are to be written anew elsewhere.
    refreshing: Vec<BlockId>,
    /// Of these, the victims that are not erased yet.
    refreshed: Vec<BlockId>,
    /// Victims that have been read to their end and hold a valid unit again.
    again: Vec<BlockId>,
    /// Wear levelling is due.
    level: bool,
    /// Victims of wear levelling that are not erased yet.
    leveling: Vec<BlockId>,
}

/// A victim under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub block: BlockId,
    /// Valid units when it was chosen.
    pub valid: u32,
    /// Of its valid units, those whose programs elsewhere are planned, or that cannot be moved.
    pub planned: u32,
    /// Whose open block takes them.
    pub stream: Stream,
    /// It will come back as a free block.
    pub back: bool,
}

impl Outgoing {
    pub fn new(block: BlockId, valid: u32, stream: Stream, back: bool) -> Outgoing {
        Outgoing { block, valid, planned: 0, stream, back }
    }
}

/// The victim that is being read.
#[derive(Clone, Copy, Debug)]
struct Current {
    victim: BlockId,
    cursor: u32,
    cause: Cause,
}

impl Gc {
    pub fn new(layout: &Layout) -> Gc {
        Gc {
            dies: vec![DieGc::default(); layout.dies as usize],
            emptied: Vec::new(),
            folding: false,
            released: false,
        }
    }

    #[inline]
    fn die(&self, die: DieId) -> &DieGc {
        &self.dies[die.0 as usize]
    }

    #[inline]
    fn die_mut(&mut self, die: DieId) -> &mut DieGc {
        &mut self.dies[die.0 as usize]
    }

    /// Whether a block holds nothing valid any more and is not erased yet.
    #[inline]
    pub fn has_emptied(&self) -> bool {
        !self.emptied.is_empty()
    }

    /// A copy in this victim is its page's newest again, as the program of its successor has failed.
    pub fn revisit(&mut self, layout: &Layout, block: BlockId) {
        let again = &mut self.die_mut(layout.die_of_block(block)).again;
        if !again.contains(&block) {
            again.push(block);
        }
    }

    /// `block` is to be emptied and retired.
    pub fn retire(&mut self, layout: &Layout, block: BlockId) {
        let retiring = &mut self.die_mut(layout.die_of_block(block)).retiring;
        if !retiring.contains(&block) {
            retiring.push(block);
        }
    }

    /// The victims of `die` under way.
    #[inline]
    pub fn outgoing(&self, die: DieId) -> &[Outgoing] {
        &self.die(die).outgoing
    }

    /// How many of them will come back as free blocks.
    #[inline]
    pub fn coming_back(&self, die: DieId) -> u32 {
        self.outgoing(die).iter().filter(|victim| victim.back).count() as u32
    }

    /// The same of all dies.
    fn all_coming_back(&self) -> u32 {
        (0..self.dies.len() as u32).map(|die| self.coming_back(DieId(die))).sum()
    }

    /// The program of a copy that replaces the one at `old` in a victim was planned, or has ended.
    #[inline]
    pub fn note_moving(&mut self, layout: &Layout, old: Ppa, planned: bool) {
        if old.is_some() {
            let block = layout.block_of(old);
            let outgoing = &mut self.die_mut(layout.die_of_block(block)).outgoing;
            if let Some(victim) = outgoing.iter_mut().find(|victim| victim.block == block) {
                victim.planned = if planned { victim.planned + 1 } else { victim.planned.saturating_sub(1) };
            }
        }
    }

    #[inline]
    pub fn is_waited_for(&self, die: DieId) -> bool {
        self.die(die).waited_for
    }

    pub fn set_waited_for(&mut self, die: DieId, waited_for: bool) {
        self.die_mut(die).waited_for = waited_for;
    }

    /// Blocks of `die` with a failed program.
    #[inline]
    pub fn retiring(&self, die: DieId) -> &[BlockId] {
        &self.die(die).retiring
    }

    pub fn wants_levelling(&self, die: DieId) -> bool {
        self.die(die).level
    }

    pub fn set_levelling(&mut self, die: DieId, due: bool) {
        self.die_mut(die).level = due;
    }

    /// The closed block of `die` that is to be written anew next.
    pub fn next_refresh(&self, die: DieId) -> Option<BlockId> {
        self.die(die).refreshing.last().copied()
    }

    pub fn drop_refresh(&mut self, die: DieId, block: BlockId) {
        remove(&mut self.die_mut(die).refreshing, block);
    }

    /// Queues a closed block of `die` to be written anew; `false`: it is queued.
    pub fn queue_refresh(&mut self, die: DieId, block: BlockId) -> bool {
        let refreshing = &mut self.die_mut(die).refreshing;
        let new = !refreshing.contains(&block);
        if new {
            refreshing.push(block);
        }
        new
    }

    /// The policy's choice that waits until it fits.
    pub fn candidate(&mut self, die: DieId) -> &mut Option<BlockId> {
        &mut self.die_mut(die).candidate
    }

    /// The blocks of `die` that are to be retired and are settled.
    pub fn take_retiring(&mut self, die: DieId, is_settled: impl Fn(BlockId) -> bool) -> Vec<BlockId> {
        self.die_mut(die).retiring.extract_if(.., |block| is_settled(*block)).collect()
    }

    /// Nothing more is moved out of `die`.
    pub fn stop(&mut self, die: DieId) {
        let gc = self.die_mut(die);
        (gc.current, gc.candidate, gc.level) = (None, None, false);
        gc.again.clear();
        gc.refreshing.clear();
    }
}

impl PageMap {
    /// Whether `die` should collect: in the foreground when few blocks are free, in the background (`idle`) until
    /// `gc_high_blocks` are.
    pub(crate) fn wants_space(&self, die: DieId, idle: bool) -> bool {
        let coming = self.blocks.free_count(die) + self.gc.coming_back(die);
        // What host data may not take must not keep them waiting.
        let short = self.blocks.free_total() <= self.blocks.live_dies() + self.meta_reserve();
        let failed = u32::from(!self.gc.retiring(die).is_empty());
        let low = 1 + failed + self.cut_reserve + if short { self.meta_reserve() } else { 0 };
        let wants = coming <= self.config.gc_low_blocks.max(low)
            || (idle && coming < self.config.gc_high_blocks)
            // Where the data of most lie still, those that have free blocks must make space for all.
            || (short && self.gc.all_coming_back() == 0);
        wants && !self.waits_for_victims(die)
    }

    /// Whether the victims that there are must be erased first, in `die` too. Each may take a free block, and before it is erased a map
    /// segment may have to be written: without a block for that no erase would give one back.
    fn waits_for_victims(&self, die: DieId) -> bool {
        let free = self.blocks.free_total();
        self.gc.coming_back(die) > 0
            && free <= self.blocks.live_dies() + self.meta_reserve()
            && free <= self.gc.all_coming_back()
            && self.map_needs_block()
    }

    /// Whether [`PageMap::next_gc`] has something to do in `die`.
    #[inline]
    pub fn wants_gc(&self, die: DieId, idle: bool) -> bool {
        let gc = self.gc.die(die);
        if self.blocks.is_dead(die) {
            return false;
        }
        let spare = || self.blocks.free_count(die) > self.config.gc_low_blocks;
        gc.current.is_some()
            || !gc.again.is_empty()
            || !gc.retiring.is_empty()
            || (gc.level && spare())
            || (!gc.refreshing.is_empty() && spare())
            || self.wants_folding(die)
            || self.wants_space(die, idle)
    }

    /// A die without a free block gives back first what needs no relocation: its closed blocks without valid units.
    #[inline]
    pub fn reap(&mut self, die: DieId) {
        if self.blocks.is_dead(die) {
            self.empty_dead(die);
        } else if self.blocks.empty_closed(die) > 0 && self.blocks.free_count(die) == 0 {
            self.reap_empty(die);
        }
    }

    #[cold]
    fn reap_empty(&mut self, die: DieId) {
        let empty = |map: &PageMap, b: &BlockId| {
            map.blocks.state(*b) == BlockState::Closed && map.blocks.valid(*b) == 0
        };
        while let Some(block) = self.blocks.of_die(die).find(|b| empty(self, b)) {
            let current = self.gc.die(die).current;
            self.start(die, block, Cause::Collection);
            self.gc.die_mut(die).current = current;
        }
    }

    /// The next copy that GC wants in `die`, choosing a victim first if need be. `None`: nothing to do now.
    #[inline]
    pub fn next_gc(&mut self, die: DieId, idle: bool) -> Option<GcJob> {
        // Asked often, and mostly there is nothing to do.
        if self.wants_gc(die, idle) { self.next_copy(die, idle).map(GcJob::Move) } else { None }
    }

    fn next_copy(&mut self, die: DieId, idle: bool) -> Option<Move> {
        while self.gc.die(die).current.is_none() {
            let Some(victim) = self.gc.die_mut(die).again.pop() else { break };
            if self.blocks.state(victim) == BlockState::Victim {
                self.gc.die_mut(die).current = Some(Current { victim, cursor: 0, cause: Cause::Retirement });
            }
        }
        if self.gc.die(die).current.is_none() {
            let (victim, cause) = self.choose_victim(die, idle)?;
            self.start(die, victim, cause);
        }
        let Current { victim, cursor, cause } = self.gc.die(die).current.expect("started above");
        let Some(from) = self.next_valid(victim, cursor) else {
            // Everything is on its way. The next victim is chosen at the next call, if still needed.
            self.gc.die_mut(die).current = None;
            return None;
        };
        Some(self.move_next(die, from, cause))
    }

    /// The next unit of the victim of `die`, if there is one in `places`: what a sense brings anyhow.
    pub fn next_gc_in(&mut self, die: DieId, places: Range<Ppa>) -> Option<Move> {
        let Current { victim, cursor, cause } = self.gc.die(die).current?;
        let from = self.next_valid(victim, cursor).filter(|from| places.contains(from))?;
        Some(self.move_next(die, from, cause))
    }

    /// `from`, in the victim of `die`, is the unit that moves.
    #[inline]
    fn move_next(&mut self, die: DieId, from: Ppa, cause: Cause) -> Move {
        let (victim, cursor) = (self.layout.block_of(from), self.layout.index_in_block(from) + 1);
        self.gc.die_mut(die).current = Some(Current { victim, cursor, cause });
        if self.blocks.is_meta(victim) {
            self.pages.reading += 1;
            return Move { from, cause, to: Stream::Meta, inside: false };
        }
        let to = self.relocation_stream(victim, cause);
        // The die moves whole stripes.
        let inside =
            self.config.copyback && self.layout.units_per_stripe == 1 && self.room(die, to).is_some();
        Move { from, cause, to, inside }
    }

    /// Where data of `block` go when they are moved.
    fn relocation_stream(&self, block: BlockId, cause: Cause) -> Stream {
        match self.blocks.owner(block) {
            handle if handle > 0 && self.config.isolation == Isolation::Persistent => {
                Stream::PlacedCollected(handle)
            }
            _ if cause == Cause::WearLevel => Stream::Worn,
            _ => Stream::Collected,
        }
    }

    /// Whose open block takes what leaves `block`.
    pub(crate) fn gc_stream(&self, block: BlockId, cause: Cause) -> Stream {
        match self.blocks.is_meta(block) {
            true => Stream::Meta,
            false => self.shared(self.relocation_stream(block, cause)),
        }
    }

    /// Whether the victim of `die` has been read to its end, so that a partial stripe of GC copies should not wait.
    pub fn gc_rests(&self, die: DieId) -> bool {
        match self.gc.die(die).current {
            Some(current) => self.next_valid(current.victim, current.cursor).is_none(),
            None => true,
        }
    }

    /// Whether the copy at `from`, whose spare area names this page, is still needed; if not, there is nothing to move. Without a
    /// spare area it is unreadable, or overwritten and already being erased.
    #[inline]
    pub fn is_current(&self, from: Ppa, named: Option<Lpn>) -> bool {
        match named.map(|mark| self.named(mark)) {
            Some(lpn) => lpn.0 < self.table.pages() && self.copy_of(lpn) == from,
            None => self.is_valid(from),
        }
    }

    /// The read of a unit of a victim has ended: what becomes of it. `named`: what its spare area says.
    #[inline]
    pub fn arrived(&mut self, moved: &Move, named: Option<Lpn>, arrival: Arrival) -> Arrived {
        let of_map = moved.to == Stream::Meta;
        self.pages.reading -= u32::from(of_map);
        let page = named.map(|mark| self.named(mark));
        let outcome = match (arrival, page) {
            (Arrival::Outdated, _) => Arrived::Drop,
            (Arrival::Read, Some(lpn)) if lpn.0 < self.user_units => return Arrived::Keep(lpn),
            // The content of a translation page is in memory.
            _ => match page.or_else(|| self.map_page_at(moved.from)) {
                Some(lpn) if lpn.0 >= self.user_units => {
                    if self.copy_of(lpn) == moved.from {
                        self.rewrite_map_page(lpn, moved.cause);
                    }
                    Arrived::Metadata
                }
                _ => {
                    self.relocation_lost(moved.from);
                    Arrived::Lost
                }
            },
        };
        if of_map && outcome == Arrived::Drop { Arrived::Metadata } else { outcome }
    }

    /// GC copies were placed; for callers that do not say so to [`PageMap::place`].
    pub fn count_relocated(&mut self, units: u32) {
        self.counters.relocated_units += u64::from(units);
    }

    /// A unit of a victim could not be read: its block stays, see the module's head.
    fn relocation_lost(&mut self, from: Ppa) {
        let block = self.layout.block_of(from);
        if !self.blocks.failed(block) {
            self.lose_victim(block);
        } else {
            self.end_outgoing(block);
        }
    }

    /// A victim will not come back as a free block.
    pub(crate) fn lose_victim(&mut self, block: BlockId) {
        self.blocks.mark_failed(block);
        self.end_outgoing(block);
    }

    /// A victim has come back as a free block or is retired, or it stays where it is, as not all of it can be read.
    fn end_outgoing(&mut self, block: BlockId) {
        let outgoing = &mut self.gc.die_mut(self.layout.die_of_block(block)).outgoing;
        if let Some(at) = outgoing.iter().position(|victim| victim.block == block) {
            outgoing.swap_remove(at);
            // The reserve may be smaller now.
            self.blocks.space_came();
        }
        self.gc_went_on(block);
    }

    fn start(&mut self, die: DieId, victim: BlockId, cause: Cause) {
        let valid = self.blocks.valid(victim);
        self.counters.victims[cause as usize] += 1;
        if cause != Cause::Fold {
            self.counters.victim_valid_units += u64::from(valid);
        }
        if valid > 0 && self.handles.count() > 1 {
            self.handles.moved(self.blocks.owner(victim), valid);
        }
        let cached = self.blocks.is_cache(victim);
        let back = !self.blocks.failed(victim) && !cached;
        let outgoing = Outgoing::new(victim, valid, self.gc_stream(victim, cause), back);
        self.blocks.choose(victim);
        if !back {
            // The reserve may be smaller now.
            self.blocks.space_came();
        }
        let gc = self.gc.die_mut(die);
        // What of the cache holds nothing needs no room.
        if !cached || valid > 0 {
            gc.outgoing.push(outgoing);
        }
        gc.retiring.retain(|&b| b != victim);
        gc.refreshing.retain(|&b| b != victim);
        gc.current = Some(Current { victim, cursor: 0, cause });
        match cause {
            Cause::WearLevel => gc.leveling.push(victim),
            Cause::Refresh => gc.refreshed.push(victim),
            _ => {}
        }
        if valid == 0 {
            self.gc.emptied.push(victim);
        }
        self.gc_went_on(victim);
    }

    /// Blocks of `die` that static wear levelling compares: good ones whose cells hold all their bits.
    pub(crate) fn levelled(&self, die: DieId) -> impl Iterator<Item = BlockId> + '_ {
        let good = |b: &BlockId| self.blocks.state(*b) != BlockState::Bad && !self.blocks.is_cache(*b);
        self.blocks.of_die(die).filter(good)
    }

    /// The next block that holds nothing valid any more, and no copy that only an unsaved trim made invalid.
    #[inline]
    pub fn next_erase(&mut self) -> Option<Reclaim> {
        if self.gc.has_emptied() { Some(self.take_emptied()) } else { None }
    }

    fn take_emptied(&mut self) -> Reclaim {
        let saved = self.pages.saved_before();
        let Some(at) = self.gc.emptied.iter().rposition(|&b| self.blocks.last_trim(b) < saved) else {
            self.want_trimmed();
            return Reclaim::AwaitsTrims;
        };
        let block = self.gc.emptied.remove(at);
        let die = self.layout.die_of_block(block);
        let current = &mut self.gc.die_mut(die).current;
        if current.is_some_and(|c| c.victim == block) {
            *current = None;
        }
        self.victim_left(die);
        if self.blocks.failed(block) {
            self.blocks.retire(block);
            self.counters.grown_bad += 1;
            self.end_outgoing(block);
            return Reclaim::Retire(block);
        }
        self.blocks.erasing(block);
        let gc = self.gc.die_mut(die);
        let cause = if remove(&mut gc.leveling, block) {
            Cause::WearLevel
        } else if remove(&mut gc.refreshed, block) {
            self.counters.refreshed += 1;
            Cause::Refresh
        } else if self.blocks.is_cache(block) {
            Cause::Fold
        } else {
            Cause::Collection
        };
        Reclaim::Erase(block, cause)
    }

    /// The erase of a block ended. Failed: the block is retired.
    pub fn erase_ended(&mut self, block: BlockId, ok: bool) {
        let die = self.layout.die_of_block(block);
        if ok {
            self.blocks.erased(block);
        } else {
            self.blocks.retire(block);
            self.counters.grown_bad += 1;
        }
        self.end_outgoing(block);
        if let Some(gap) = self.config.wear.static_gap {
            let good = || self.levelled(die);
            let most = good().map(|b| self.blocks.erases(b)).max().unwrap_or(0);
            let least = good().map(|b| self.blocks.erases(b)).min().unwrap_or(0);
            self.gc.set_levelling(die, most - least > gap);
        }
    }
}

/// Takes `block` out of a short list; whether it was there.
fn remove(list: &mut Vec<BlockId>, block: BlockId) -> bool {
    let at = list.iter().position(|&b| b == block);
    at.inspect(|&at| _ = list.swap_remove(at)).is_some()
}
