//! Collection: which block of a die is emptied next, and one relocation after the other until it is empty.
//!
//! A die collects by itself, into itself: a victim's valid units are read one by one ([`PageMap::next_relocation`]) and
//! programmed elsewhere in the die. When the last copy has ended, the block comes out of [`PageMap::pop_emptied`].
//! A block with an unreadable unit stays where it is (its readable data leave; reads of the rest keep failing honestly)
//! and is retired if the host ever overwrites what was lost.

use crate::Isolation;
use crate::blocks::BlockState;
use crate::page_map::PageMap;
use crate::translation::Stream;
use pellucid_flash::{BlockId, Cause, DieId, Lpn, Ppa};
use std::ops::Range;

/// The collection of one die.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collection {
    current: Option<Current>,
    /// Victims that data leave, or that wait for their erase.
    outgoing: Vec<Outgoing>,
    /// The policy's choice, while it waits for room.
    candidate: Option<BlockId>,
    /// Host data were turned away until it has gone on.
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

#[derive(Clone, Copy, Debug)]
struct Current {
    victim: BlockId,
    cursor: u32,
    cause: Cause,
}

impl Collection {
    /// A copy in this victim is its page's newest again, as the program of its successor has failed.
    pub fn revisit(&mut self, block: BlockId) {
        if !self.again.contains(&block) {
            self.again.push(block);
        }
    }

    pub fn retire(&mut self, block: BlockId) {
        if !self.retiring.contains(&block) {
            self.retiring.push(block);
        }
    }
}

/// What to do with a block that holds nothing valid any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emptied {
    /// Erase it, then report [`PageMap::erase_ended`].
    Erase(BlockId, Cause),
    /// It has failed and was retired; mark it on the media.
    Retire(BlockId),
}

/// A unit to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Where it lies.
    pub from: Ppa,
    /// Why it moves.
    pub cause: Cause,
    /// Where it goes.
    pub stream: Stream,
}

impl PageMap {
    /// Whether `die` should collect: in the foreground when few blocks are free, in the background (`idle`) until
    /// `gc_high_blocks` are.
    pub(crate) fn wants_space(&self, die: DieId, idle: bool) -> bool {
        let coming = self.blocks.free_count(die) + self.coming_back(die);
        // What host data may not take must not keep them waiting.
        let short = self.blocks.free_total() <= self.live_dies + self.meta_reserve();
        let failed = u32::from(!self.retiring(die).is_empty());
        let low = 1 + failed + self.cut_reserve + if short { self.meta_reserve() } else { 0 };
        let wants = coming <= self.config.gc_low_blocks.max(low)
            || (idle && coming < self.config.gc_high_blocks)
            || (short && self.none_collects());
        wants && !self.waits_for_victims(die)
    }

    /// Whether no die makes room: where the data of most lie still, those that have free blocks must make it for all.
    fn none_collects(&self) -> bool {
        (0..self.layout.dies).all(|die| self.coming_back(DieId(die)) == 0)
    }

    /// Whether the victims that there are must be erased first, in `die` too. Each may take a free block, and before it is erased a map
    /// segment may have to be written: without a block for that no erase would give one back.
    fn waits_for_victims(&self, die: DieId) -> bool {
        let free = self.blocks.free_total();
        self.coming_back(die) > 0
            && free <= self.live_dies + self.meta_reserve()
            && free <= (0..self.layout.dies).map(|die| self.coming_back(DieId(die))).sum()
            && self.segments_need_block()
    }

    /// Whether `next_relocation` has something to do in `die`.
    #[inline]
    pub fn wants_collection(&self, die: DieId, idle: bool) -> bool {
        let collection = &self.collections[die.0 as usize];
        if self.dead[die.0 as usize] {
            return false;
        }
        collection.current.is_some()
            || !collection.again.is_empty()
            || !collection.retiring.is_empty()
            || (collection.level && self.blocks.free_count(die) > self.config.gc_low_blocks)
            || (!collection.refreshing.is_empty() && self.blocks.free_count(die) > self.config.gc_low_blocks)
            || self.wants_folding(die)
            || self.wants_space(die, idle)
    }

    /// A die without a free block gives back first what needs no relocation: its closed blocks without valid units.
    #[inline]
    pub fn reap(&mut self, die: DieId) {
        if self.dead[die.0 as usize] {
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
            let current = self.collections[die.0 as usize].current;
            self.start(die, block, Cause::Collection);
            self.collections[die.0 as usize].current = current;
        }
    }

    /// The next unit that `die` should move, choosing a victim first if need be. `None`: nothing to move now.
    pub fn next_relocation(&mut self, die: DieId, idle: bool) -> Option<Relocation> {
        while self.collections[die.0 as usize].current.is_none() {
            let Some(victim) = self.collections[die.0 as usize].again.pop() else { break };
            if self.blocks.state(victim) == BlockState::Victim {
                let current = Current { victim, cursor: 0, cause: Cause::Retirement };
                self.collections[die.0 as usize].current = Some(current);
            }
        }
        if self.collections[die.0 as usize].current.is_none() {
            let (victim, cause) = self.choose_victim(die, idle)?;
            self.start(die, victim, cause);
        }
        let Current { victim, cursor, cause } =
            self.collections[die.0 as usize].current.expect("started above");
        let Some(from) = self.next_valid(victim, cursor) else {
            // Everything is on its way. The next victim is chosen at the next call, if still needed.
            self.collections[die.0 as usize].current = None;
            return None;
        };
        Some(self.move_next(die, from, cause))
    }

    /// The next unit of the victim of `die`, if there is one in `places`: what a sense brings anyhow.
    pub fn next_relocation_in(&mut self, die: DieId, places: Range<Ppa>) -> Option<Relocation> {
        let Current { victim, cursor, cause } = self.collections[die.0 as usize].current?;
        let from = self.next_valid(victim, cursor).filter(|from| places.contains(from))?;
        Some(self.move_next(die, from, cause))
    }

    /// `from`, in the victim of `die`, is the unit that moves.
    fn move_next(&mut self, die: DieId, from: Ppa, cause: Cause) -> Relocation {
        let (victim, cursor) = (self.layout.block_of(from), self.layout.index_in_block(from) + 1);
        self.collections[die.0 as usize].current = Some(Current { victim, cursor, cause });
        Relocation { from, cause, stream: self.relocation_stream(victim, cause) }
    }

    /// Where data of `block` go when they are moved.
    pub fn relocation_stream(&self, block: BlockId, cause: Cause) -> Stream {
        match self.blocks.owner(block) {
            handle if handle > 0 && self.config.isolation == Isolation::Persistent => {
                Stream::PlacedCollected(handle)
            }
            _ if cause == Cause::WearLevel => Stream::Worn,
            _ => Stream::Collected,
        }
    }

    /// Whether the victim of `die` has been read to its end, so that a partial stripe of relocated data should not wait.
    pub fn victim_exhausted(&self, die: DieId) -> bool {
        match self.collections[die.0 as usize].current {
            Some(current) => self.next_valid(current.victim, current.cursor).is_none(),
            None => true,
        }
    }

    /// Whether `die` wants to collect but has no victim that would free anything.
    pub fn next_victim_is_missing(&mut self, die: DieId) -> bool {
        match self.choose_victim(die, false) {
            Some((victim, cause)) => {
                self.start(die, victim, cause);
                false
            }
            None => true,
        }
    }

    /// Whether the copy of `lpn` read from `from` is still its newest; if not, there is nothing to move.
    #[inline]
    pub fn is_current(&self, lpn: Lpn, from: Ppa) -> bool {
        lpn.0 < self.map_length() && self.lookup(lpn) == from
    }

    /// A relocation was planned.
    pub fn count_relocated(&mut self, units: u32) {
        self.counters.relocated_units += u64::from(units);
    }

    /// A unit of a victim could not be read: its block stays, see the module's head.
    pub fn relocation_lost(&mut self, from: Ppa) {
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
        let outgoing = &mut self.collections[self.layout.die_of_block(block).0 as usize].outgoing;
        if let Some(at) = outgoing.iter().position(|victim| victim.block == block) {
            outgoing.swap_remove(at);
            // The reserve may be smaller now.
            self.blocks.room_has_come();
        }
        self.collection_went_on(block);
    }

    /// The victims of `die` under way.
    #[inline]
    pub(crate) fn outgoing(&self, die: DieId) -> &[Outgoing] {
        &self.collections[die.0 as usize].outgoing
    }

    /// How many of them will come back as free blocks.
    #[inline]
    pub(crate) fn coming_back(&self, die: DieId) -> u32 {
        self.outgoing(die).iter().filter(|victim| victim.back).count() as u32
    }

    /// The program of a copy that replaces the one at `old` in a victim was planned, or has ended.
    #[inline]
    pub(crate) fn note_moving(&mut self, old: Ppa, planned: bool) {
        if old.is_some() {
            let block = self.layout.block_of(old);
            let outgoing = &mut self.collections[self.layout.die_of_block(block).0 as usize].outgoing;
            if let Some(victim) = outgoing.iter_mut().find(|victim| victim.block == block) {
                victim.planned = if planned { victim.planned + 1 } else { victim.planned.saturating_sub(1) };
            }
        }
    }

    #[inline]
    pub(crate) fn is_waited_for(&self, die: DieId) -> bool {
        self.collections[die.0 as usize].waited_for
    }

    pub(crate) fn set_waited_for(&mut self, die: DieId, waited_for: bool) {
        self.collections[die.0 as usize].waited_for = waited_for;
    }

    /// The blocks of `die` that are to be retired and whose last programs have ended.
    pub(crate) fn take_retiring(&mut self, die: DieId) -> Vec<BlockId> {
        let blocks = &self.blocks;
        let ready = |b: &mut BlockId| blocks.is_settled(*b);
        self.collections[die.0 as usize].retiring.extract_if(.., ready).collect()
    }

    /// Queues a closed block to be written anew; `false`: it is queued.
    pub(crate) fn queue_refresh(&mut self, block: BlockId) -> bool {
        let die = self.layout.die_of_block(block);
        let refreshing = &mut self.collections[die.0 as usize].refreshing;
        let new = !refreshing.contains(&block);
        if new {
            refreshing.push(block);
        }
        new
    }

    /// Nothing more is moved out of `die`.
    pub(crate) fn stop_collection(&mut self, die: DieId) {
        let collection = &mut self.collections[die.0 as usize];
        collection.current = None;
        collection.candidate = None;
        collection.again.clear();
        collection.refreshing.clear();
        collection.level = false;
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
            self.blocks.room_has_come();
        }
        let collection = &mut self.collections[die.0 as usize];
        // What of the cache holds nothing needs no room.
        if !cached || valid > 0 {
            collection.outgoing.push(outgoing);
        }
        collection.retiring.retain(|&b| b != victim);
        collection.refreshing.retain(|&b| b != victim);
        collection.current = Some(Current { victim, cursor: 0, cause });
        match cause {
            Cause::WearLevel => collection.leveling.push(victim),
            Cause::Refresh => collection.refreshed.push(victim),
            _ => {}
        }
        if valid == 0 {
            self.emptied.push(victim);
        }
        self.collection_went_on(victim);
    }

    #[inline]
    pub(crate) fn retiring(&self, die: DieId) -> &[BlockId] {
        &self.collections[die.0 as usize].retiring
    }

    pub(crate) fn wants_levelling(&self, die: DieId) -> bool {
        self.collections[die.0 as usize].level
    }

    pub(crate) fn set_levelling(&mut self, die: DieId, due: bool) {
        self.collections[die.0 as usize].level = due;
    }

    /// The closed block of `die` that is to be written anew next.
    pub(crate) fn next_refresh(&self, die: DieId) -> Option<BlockId> {
        self.collections[die.0 as usize].refreshing.last().copied()
    }

    pub(crate) fn drop_refresh(&mut self, die: DieId, block: BlockId) {
        remove(&mut self.collections[die.0 as usize].refreshing, block);
    }

    /// The policy's choice that waits until it fits.
    pub(crate) fn candidate(&mut self, die: DieId) -> &mut Option<BlockId> {
        &mut self.collections[die.0 as usize].candidate
    }

    /// Blocks of `die` that static wear levelling compares: good ones whose cells hold all their bits.
    pub(crate) fn levelled(&self, die: DieId) -> impl Iterator<Item = BlockId> + '_ {
        let good = |b: &BlockId| self.blocks.state(*b) != BlockState::Bad && !self.blocks.is_cache(*b);
        self.blocks.of_die(die).filter(good)
    }

    /// A block that holds nothing valid any more, and no copy that only an unsaved trim made invalid.
    #[inline]
    pub fn pop_emptied(&mut self) -> Option<Emptied> {
        if self.emptied.is_empty() { None } else { self.take_emptied() }
    }

    fn take_emptied(&mut self) -> Option<Emptied> {
        let saved = self.segments.saved_before();
        let at = self.emptied.iter().rposition(|&b| self.blocks.last_trim(b) < saved)?;
        let block = self.emptied.remove(at);
        let die = self.layout.die_of_block(block);
        let current = &mut self.collections[die.0 as usize].current;
        if current.is_some_and(|c| c.victim == block) {
            *current = None;
        }
        if self.blocks.failed(block) {
            self.blocks.retire(block);
            self.counters.grown_bad += 1;
            self.end_outgoing(block);
            return Some(Emptied::Retire(block));
        }
        self.blocks.erasing(block);
        let collection = &mut self.collections[die.0 as usize];
        let cause = if remove(&mut collection.leveling, block) {
            Cause::WearLevel
        } else if remove(&mut collection.refreshed, block) {
            self.counters.refreshed += 1;
            Cause::Refresh
        } else if self.blocks.is_cache(block) {
            Cause::Fold
        } else {
            Cause::Collection
        };
        Some(Emptied::Erase(block, cause))
    }

    /// Whether a block holds nothing valid any more, and has not been given by [`PageMap::pop_emptied`].
    #[inline]
    pub fn has_emptied(&self) -> bool {
        !self.emptied.is_empty()
    }

    /// Whether empty blocks wait until trims are on the media: write the segments of [`PageMap::next_flush_segment`].
    #[inline]
    pub fn erases_wait_for_trims(&self) -> bool {
        !self.emptied.is_empty()
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
            self.collections[die.0 as usize].level = most - least > gap;
        }
    }
}

/// Takes `block` out of a short list; whether it was there.
fn remove(list: &mut Vec<BlockId>, block: BlockId) -> bool {
    let at = list.iter().position(|&b| b == block);
    at.inspect(|&at| _ = list.swap_remove(at)).is_some()
}
