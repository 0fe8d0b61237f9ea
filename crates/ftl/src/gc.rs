//! Garbage collection (GC): chooses the copies that leave a die's victims, and the blocks to erase.
//!
//! GC of a die is independent and stays in the die: a victim's valid units are moved one by one and programmed elsewhere in the die. When
//! the last copy has ended, the block can be erased. A block with an unreadable unit stays where it is (its readable data leave; reads of
//! the rest keep failing honestly) and is retired once the host has overwritten the lost data.
//!
//! [`Gc`] owns the data read from victims, and decides; each call gets the valid units, the block manager and other state that it needs.
//! [`Victims`] are the victims in progress, [`Upkeep`] the blocks that are emptied although this frees no space; `victim.rs` chooses,
//! `pace.rs` keeps the host from outrunning GC, and `page_map/collect.rs` applies the decisions to the rest of the map.
//!
//! ```text
//!  wants_gc ─► victim (victim.rs) ─► Move, unit by unit ─► arrived ─┬─ Keep ─► is_current ─► place (of its stream)
//!                                                                   ├─ Metadata: written anew (translation_pages.rs)
//!                                                                   └─ Drop, Lost
//!  last valid unit gone ─► emptied ─► its trims are on the media? ─► Reclaim::Erase ─► erased ─► free
//! ```

use crate::block_manager::{BlockManager, BlockState};
use crate::handles::Handles;
use crate::policy::Forked;
use crate::translation::{Load, Move, Reclaim, Stream};
use crate::translation_pages::TranslationPages;
use crate::turned_away::TurnedAway;
use crate::upkeep::Upkeep;
use crate::valid_units::ValidUnits;
use crate::victim;
use crate::victims::{Outgoing, Victims};
use crate::{FtlConfig, Isolation, VictimPolicy};
use pellucid_flash::{BlockId, Cause, DieId, Divisor, Layout, Pauses, Ppa, Rng, SimTime};

/// Garbage collection of a page map.
#[derive(Clone, Debug)]
pub(crate) struct Gc {
    config: FtlConfig,
    layout: Layout,
    dies: Vec<DieGc>,
    victims: Victims,
    /// Victims and cached blocks that hold nothing valid.
    emptied: Vec<BlockId>,
    /// Units per sense, and the units that move next.
    sense: Divisor,
    moves: Vec<Move>,
    /// The policy from outside that chooses victims, or what a cache gives up.
    outside: Option<Forked<dyn VictimPolicy>>,
    /// Blocks of each die that host data leave free beside the one for GC, because power was cut.
    cut_reserve: u32,
    away: TurnedAway,
    /// The caller's time.
    now: SimTime,
    counters: GcCounters,
}

/// Counters of GC; see [`FtlCounters`](crate::FtlCounters).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GcCounters {
    pub victims: [u64; Cause::COUNT],
    pub victim_valid_units: u64,
    pub copied_units: u64,
    pub grown_bad: u64,
    pub emergency_victims: u64,
    pub refreshed: u64,
    pub pauses: Pauses,
}

impl GcCounters {
    /// Counts units that were copied elsewhere.
    #[inline]
    pub fn add_copied(&mut self, units: u32) {
        self.copied_units += u64::from(units);
    }

    /// Counts a block that has failed in use.
    pub fn add_grown_bad(&mut self) {
        self.grown_bad += 1;
    }

    /// Counts a victim that was chosen against the policy.
    pub fn add_emergency(&mut self) {
        self.emergency_victims += 1;
    }

    /// Counts a victim with this many valid units.
    fn add_victim(&mut self, cause: Cause, valid: u32) {
        self.victims[cause as usize] += 1;
        if cause != Cause::Fold {
            self.victim_valid_units += u64::from(valid);
        }
    }
}

/// Parts of a map that GC works on.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub valid: &'a ValidUnits,
    /// Copies in each block, needed or not, where some that are not needed are worth keeping; `None`: none is.
    pub kept: Option<&'a [u32]>,
    pub blocks: &'a mut BlockManager,
    pub pages: &'a mut TranslationPages,
    pub handles: &'a mut Handles,
    pub rng: &'a mut Rng,
    /// Number of the next program.
    pub sequence: u64,
}

/// GC of one die.
#[derive(Clone, Debug, Default)]
struct DieGc {
    current: Option<Current>,
    /// The policy's choice, while it waits for space.
    candidate: Option<BlockId>,
    /// Victims that have been read to their end and hold a valid unit again.
    again: Vec<BlockId>,
    upkeep: Upkeep,
}

/// The victim that is being read.
#[derive(Clone, Copy, Debug)]
struct Current {
    victim: BlockId,
    cursor: u32,
    cause: Cause,
}

impl Gc {
    /// Creates the state of a drive without victims. `outside`: the policy from outside that chooses them.
    pub fn new(config: &FtlConfig, layout: &Layout, outside: Option<Forked<dyn VictimPolicy>>) -> Gc {
        Gc {
            config: config.clone(),
            layout: layout.clone(),
            dies: vec![DieGc::default(); layout.dies as usize],
            victims: Victims::new(layout.dies),
            emptied: Vec::new(),
            sense: Divisor::new(1),
            moves: Vec::new(),
            outside,
            cut_reserve: 0,
            away: TurnedAway::new(layout.dies),
            now: SimTime::ZERO,
            counters: GcCounters::default(),
        }
    }

    /// Counters so far.
    pub fn counters(&self) -> &GcCounters {
        &self.counters
    }

    /// Counters, to be added to, or set anew.
    #[inline]
    pub fn counters_mut(&mut self) -> &mut GcCounters {
        &mut self.counters
    }

    /// Sets the caller's time.
    #[inline]
    pub fn set_now(&mut self, now: SimTime) {
        self.now = now;
    }

    /// Host data that wait for GC.
    #[inline]
    pub fn away_mut(&mut self) -> &mut TurnedAway {
        &mut self.away
    }

    /// Blocks of each die that host data leave free beside the one for GC, because power was cut.
    #[inline]
    pub fn cut_reserve(&self) -> u32 {
        self.cut_reserve
    }

    /// Leaves one more block of each die free, after a power cut.
    pub fn reserve_for_cut(&mut self) {
        self.cut_reserve = 1;
    }

    /// Sets the units per sense: they move together.
    pub fn set_sense(&mut self, sense: Divisor) {
        self.sense = sense;
    }

    #[inline]
    fn die(&self, die: DieId) -> &DieGc {
        &self.dies[die.0 as usize]
    }

    #[inline]
    fn die_mut(&mut self, die: DieId) -> &mut DieGc {
        &mut self.dies[die.0 as usize]
    }

    /// The blocks that hold nothing valid any more and are not erased yet.
    #[inline]
    pub fn emptied(&self) -> &[BlockId] {
        &self.emptied
    }

    /// Records that this block holds nothing valid any more.
    #[inline]
    pub fn note_emptied(&mut self, block: BlockId) {
        self.emptied.push(block);
    }

    /// Revisits a victim: a copy in it is its page's newest again, as the program of its successor has failed.
    pub fn revisit(&mut self, block: BlockId) {
        let again = &mut self.dies[self.layout.die_of_block(block).0 as usize].again;
        if !again.contains(&block) {
            again.push(block);
        }
    }

    /// Upkeep of `die`.
    #[inline]
    pub fn upkeep(&self, die: DieId) -> &Upkeep {
        &self.die(die).upkeep
    }

    /// Upkeep of `die`, to be changed.
    pub fn upkeep_mut(&mut self, die: DieId) -> &mut Upkeep {
        &mut self.die_mut(die).upkeep
    }

    /// Victims under way.
    #[inline]
    pub fn victims(&self) -> &Victims {
        &self.victims
    }

    /// Records that the program of a copy that replaces the one at `old` in a victim was planned, or has ended.
    #[inline]
    pub fn note_moving(&mut self, old: Ppa, planned: bool) {
        if old.is_some() {
            let block = self.layout.block_of(old);
            self.victims.note_moving(self.layout.die_of_block(block), block, planned);
        }
    }

    /// Returns whether upkeep may take the next victim of `die`. It always may while more than `gc_low` blocks are free, which is
    /// never the case under a saturating load. Otherwise it takes every other victim, so that neither upkeep nor the host must wait
    /// until the other has finished.
    pub fn is_upkeeps_turn(&self, blocks: &BlockManager, die: DieId) -> bool {
        !self.is_short(blocks, die) || !self.upkeep(die).was_last()
    }

    /// Returns whether the free blocks of `die` do not exceed the threshold at which GC starts.
    pub fn is_short(&self, blocks: &BlockManager, die: DieId) -> bool {
        blocks.free_count(die) <= self.config.gc_low_blocks
    }

    /// The description.
    #[inline]
    pub fn config(&self) -> &FtlConfig {
        &self.config
    }

    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The policy from outside that chooses victims.
    pub fn outside(&mut self) -> Option<&mut Forked<dyn VictimPolicy>> {
        self.outside.as_mut()
    }

    /// The policy's choice that waits until it fits.
    pub fn candidate(&mut self, die: DieId) -> &mut Option<BlockId> {
        &mut self.die_mut(die).candidate
    }

    /// Stops GC in `die`: nothing more is moved out of it.
    pub fn stop(&mut self, die: DieId) {
        let gc = self.die_mut(die);
        (gc.current, gc.candidate) = (None, None);
        gc.again.clear();
        gc.upkeep.stop();
    }
}

/// Choice of victims and of their units.
impl Gc {
    /// Returns whether `die` should begin GC: in the foreground when few blocks are free, in the background until `gc_high_blocks` are.
    pub(crate) fn wants_space(&self, blocks: &BlockManager, die: DieId, load: Load) -> bool {
        let coming = blocks.free_count(die) + self.victims.coming_back(die);
        let map = self.config.common_blocks();
        // Space that host data may not take must not keep them waiting.
        let short = blocks.free_total() <= blocks.live_dies() + map;
        let failed = u32::from(!self.upkeep(die).retiring().is_empty());
        let low = 1 + failed + self.cut_reserve + if short { map } else { 0 };
        let wants = coming <= self.config.gc_low_blocks.max(low)
            || (load != Load::Busy && coming < self.config.gc_high_blocks)
            // If most dies hold static data, dies with free blocks must reclaim space for all.
            || (short && self.victims.all_coming_back() == 0);
        wants && !self.waits_for_victims(blocks, die)
    }

    /// Returns whether existing victims, including those in `die`, must be erased before GC takes another. Each may take a free block,
    /// and translation pages may have to be written before its erase: without a block for these pages, no erase could free one.
    fn waits_for_victims(&self, blocks: &BlockManager, die: DieId) -> bool {
        let free = blocks.free_total();
        self.victims.coming_back(die) > 0
            && free <= blocks.live_dies() + self.config.common_blocks()
            && free <= self.victims.all_coming_back()
            && self.config.common_blocks() > 0
            && !self.map_has_open_block(blocks)
    }

    /// Returns whether an open block has space for the translation pages that an erase may wait for: a quarter of a block, as these
    /// erases free the next one.
    pub(crate) fn map_has_open_block(&self, blocks: &BlockManager) -> bool {
        let enough = (self.layout.superpages_per_block / 4).max(1);
        (0..self.layout.dies).any(|die| {
            let open = blocks.open().at(DieId(die), Stream::Meta.place());
            open.is_some_and(|open| self.layout.superpages_per_block - open.superpage >= enough)
        })
    }

    /// Returns whether there is GC work in `die`.
    #[inline]
    pub fn wants(&self, blocks: &BlockManager, die: DieId, load: Load) -> bool {
        let gc = self.die(die);
        if blocks.is_dead(die) {
            return false;
        }
        gc.current.is_some()
            || !gc.again.is_empty()
            || !gc.upkeep.retiring().is_empty()
            || (gc.upkeep.is_due() && self.is_upkeeps_turn(blocks, die))
            || self.wants_folding(blocks, die, load)
            || self.wants_space(blocks, die, load)
    }

    /// Makes victims of the closed blocks of `die` without valid units: they need no copy.
    #[cold]
    pub fn reap(&mut self, parts: &mut Parts<'_>, die: DieId) {
        let empty = |blocks: &BlockManager, b: &BlockId| {
            blocks.state(*b) == BlockState::Closed && blocks.valid(*b) == 0
        };
        while let Some(block) = parts.blocks.of_die(die).find(|b| empty(parts.blocks, b)) {
            let current = self.die(die).current;
            self.start(parts, die, block, Cause::Gc);
            self.die_mut(die).current = current;
        }
    }

    /// Finds the next units that leave a victim of `die` ([`Gc::moves`]), choosing a victim first if need be; returns the stream that
    /// takes them. `None`: nothing to do now.
    pub fn next_moves(&mut self, parts: &mut Parts<'_>, die: DieId, load: Load) -> Option<Stream> {
        self.moves.clear();
        if let Some(Current { victim, cursor, cause }) = self.current(parts, die, load) {
            match next_valid(&self.layout, parts.valid, victim, cursor) {
                Some(first) => self.move_from(parts, die, first, cause),
                // Every unit is on its way. The next victim is chosen at the next call, if still needed.
                None => self.die_mut(die).current = None,
            }
        }
        self.moves.first().map(|moved| moved.to)
    }

    /// Moves that [`Gc::next_moves`] found.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Lets the die move them by copyback.
    pub fn move_inside(&mut self) {
        self.moves.iter_mut().for_each(|moved| moved.inside = true);
    }

    /// The victim of `die` that is being read.
    fn current(&mut self, parts: &mut Parts<'_>, die: DieId, load: Load) -> Option<Current> {
        while self.die(die).current.is_none() {
            let Some(victim) = self.die_mut(die).again.pop() else { break };
            if parts.blocks.state(victim) == BlockState::Victim {
                self.die_mut(die).current = Some(Current { victim, cursor: 0, cause: Cause::Retirement });
            }
        }
        if self.die(die).current.is_none() {
            let (victim, cause) = victim::choose(self, parts, die, load)?;
            self.start(parts, die, victim, cause);
        }
        self.die(die).current
    }

    /// Moves the unit at `first` in the victim of `die`, with the victim's other units of the same sense.
    #[inline]
    fn move_from(&mut self, parts: &mut Parts<'_>, die: DieId, first: Ppa, cause: Cause) {
        let victim = self.layout.block_of(first);
        let of_map = parts.blocks.record(victim).is_meta();
        let to = if of_map { Stream::Meta } else { self.stream_of(parts.blocks, victim, cause) };
        let end = Ppa(first.0 - self.sense.remainder(first.0) + self.sense.get());
        let mut next = Some(first);
        while let Some(from) = next {
            self.moves.push(Move { from, cause, to, inside: false });
            let cursor = self.layout.index_in_block(from) + 1;
            self.die_mut(die).current = Some(Current { victim, cursor, cause });
            next = parts.valid.next(Ppa(from.0 + 1)..end);
        }
        if of_map {
            parts.pages.begin_reading(self.moves.len() as u32);
        }
    }

    /// Stream to which data of `block` are moved.
    fn stream_of(&self, blocks: &BlockManager, block: BlockId, cause: Cause) -> Stream {
        match blocks.record(block).owner() {
            handle if handle > 0 && self.config.isolation == Isolation::Persistent => {
                Stream::PlacedGc(handle)
            }
            _ if cause == Cause::WearLevel => Stream::Worn,
            _ => Stream::Gc,
        }
    }

    /// The stream whose open block takes the copies out of `block`.
    pub(crate) fn shared_stream(&self, blocks: &BlockManager, block: BlockId, cause: Cause) -> Stream {
        match blocks.record(block).is_meta() {
            true => Stream::Meta,
            false => self.config.shared(self.stream_of(blocks, block, cause)),
        }
    }

    /// Returns whether the victim of `die` has been read to its end, so that a partial superpage of GC copies should not wait.
    pub fn rests(&self, valid: &ValidUnits, die: DieId) -> bool {
        match self.die(die).current {
            Some(current) => next_valid(&self.layout, valid, current.victim, current.cursor).is_none(),
            None => true,
        }
    }
}

/// Folding of the SLC cache.
impl Gc {
    /// Returns whether `die` should empty a block of its SLC cache: an empty one always, another one while the drive folds.
    #[inline]
    pub(crate) fn wants_folding(&self, blocks: &BlockManager, die: DieId, load: Load) -> bool {
        self.config.slc_cache.is_some() && {
            let (cached, empty) = blocks.slc().full(die);
            empty > 0
                || (load == Load::Rested
                    && cached > 0
                    && blocks.free_count(die) > self.config.gc_low_blocks.max(1 + self.cut_reserve))
        }
    }

    /// A full block of the SLC cache of `die` that holds nothing valid.
    #[inline]
    pub(crate) fn empty_cached(&self, blocks: &BlockManager, die: DieId) -> Option<BlockId> {
        (blocks.slc().full(die).1 > 0).then(|| blocks.next_cached(die))?
    }

    /// The block of the SLC cache of `die` that is folded next, while the drive folds.
    pub(crate) fn next_fold(&self, blocks: &BlockManager, die: DieId, load: Load) -> Option<BlockId> {
        if load == Load::Rested { blocks.next_cached(die) } else { None }
    }
}

/// Victims from choice to erase.
impl Gc {
    /// Free blocks of `die` that are reserved for GC: host data and translation pages must leave them.
    #[inline]
    pub(crate) fn reserve(&self, die: DieId) -> u32 {
        let failed = u32::from(!self.upkeep(die).retiring().is_empty());
        (1 + failed).max(self.victims.of(die).len() as u32)
    }

    /// Superpages that a block of `stream` takes.
    pub(crate) fn superpages_of(&self, stream: Stream) -> u32 {
        let lists = if stream == Stream::Meta { 0 } else { self.config.list_superpages() };
        self.layout.superpages_per_block - lists
    }

    fn start(&mut self, parts: &mut Parts<'_>, die: DieId, victim: BlockId, cause: Cause) {
        let valid = parts.blocks.valid(victim);
        self.counters.add_victim(cause, valid);
        if valid > 0 && parts.handles.count() > 1 {
            parts.handles.moved(parts.blocks.record(victim).owner(), valid);
        }
        let cached = parts.blocks.slc().has(victim);
        let back = !parts.blocks.failed(victim) && !cached;
        let stream = self.shared_stream(parts.blocks, victim, cause);
        parts.blocks.choose(victim);
        // The reserve may be smaller now, or a block is coming back.
        parts.blocks.came_mut().add(die);
        let now = self.now;
        // Empty blocks of the cache need no space.
        if !cached || valid > 0 {
            let since = (cause != Cause::Fold).then_some(now);
            self.victims.add(die, Outgoing { since, ..Outgoing::new(victim, valid, stream, back) });
        }
        let gc = self.die_mut(die);
        gc.upkeep.started(victim, cause, valid > 0);
        gc.current = Some(Current { victim, cursor: 0, cause });
        if valid == 0 {
            self.emptied.push(victim);
        }
        self.went_on(parts.blocks, victim);
    }

    /// Records that a victim will not come back as a free block.
    pub fn lose_victim(&mut self, blocks: &mut BlockManager, block: BlockId) {
        blocks.mark_failed(block);
        self.end_outgoing(blocks, block);
    }

    /// Ends a victim: it is a free block again, is retired, or stays because not all of it can be read.
    pub fn end_outgoing(&mut self, blocks: &mut BlockManager, block: BlockId) {
        let die = self.layout.die_of_block(block);
        if let Some(victim) = self.victims.end(die, block) {
            if let Some(since) = victim.since {
                self.counters.pauses.record(self.now.since(since), self.now);
            }
            // The reserve may be smaller now.
            blocks.came_mut().add(die);
        }
        self.went_on(blocks, block);
    }

    /// Returns the next block without valid units, and without copies that only an unsaved trim made invalid. There must be an emptied
    /// block. Blocks in `held` have to wait.
    pub fn reclaim(&mut self, parts: &mut Parts<'_>, held: &[BlockId]) -> Reclaim {
        let saved = parts.pages.saved_before();
        let keeps = |b: BlockId| parts.kept.is_some_and(|kept| kept[b.0 as usize] > 0);
        let ready =
            |&b: &BlockId| parts.blocks.record(b).last_trim() < saved && !keeps(b) && !held.contains(&b);
        let Some(at) = self.emptied.iter().rposition(ready) else {
            return Reclaim::AwaitsTrims;
        };
        let block = self.emptied.remove(at);
        let die = self.layout.die_of_block(block);
        let current = &mut self.die_mut(die).current;
        if current.is_some_and(|c| c.victim == block) {
            *current = None;
        }
        if parts.blocks.failed(block) {
            parts.blocks.retire(block);
            self.counters.add_grown_bad();
            self.end_outgoing(parts.blocks, block);
            return Reclaim::Retire(block);
        }
        parts.blocks.erasing(block);
        let usual = if parts.blocks.slc().has(block) { Cause::Fold } else { Cause::Gc };
        let cause = self.upkeep_mut(die).erasing(block).unwrap_or(usual);
        if cause == Cause::Refresh {
            self.counters.refreshed += 1;
        }
        Reclaim::Erase(block, cause)
    }

    /// Records the end of a victim's erase: the block is free or retired.
    pub fn erased(&mut self, blocks: &mut BlockManager, block: BlockId) {
        self.end_outgoing(blocks, block);
        let die = self.layout.die_of_block(block);
        if let Some(gap) = self.config.wear.static_gap {
            let good = || levelled(blocks, die);
            let most = good().map(|b| blocks.erases(b)).max().unwrap_or(0);
            let least = good().map(|b| blocks.erases(b)).min().unwrap_or(0);
            self.upkeep_mut(die).set_levelling(most - least > gap);
        }
    }
}

/// The first valid unit of `block` at or after unit `from`.
fn next_valid(layout: &Layout, valid: &ValidUnits, block: BlockId, from: u32) -> Option<Ppa> {
    valid.next(layout.ppa(block, from)..layout.ppa(block, layout.units_per_block))
}

/// Blocks of `die` that static wear levelling compares: good ones whose cells hold all their bits.
pub(crate) fn levelled(blocks: &BlockManager, die: DieId) -> impl Iterator<Item = BlockId> + '_ {
    let good = |b: &BlockId| blocks.state(*b) != BlockState::Bad && !blocks.slc().has(*b);
    blocks.of_die(die).filter(good)
}
