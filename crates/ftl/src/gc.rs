//! Garbage collection (GC): which copies leave a die's victims, and which blocks are erased.
//!
//! GC of a die is independent and stays in the die: a victim's valid units are moved one by one and programmed elsewhere in the die. When
//! the last copy has ended, the block can be erased. A block with an unreadable unit stays where it is (its readable data leave; reads of
//! the rest keep failing honestly) and is retired once the host has overwritten the lost data.
//!
//! [`Gc`] holds the victims and decides; each call gets the mapping table, the block manager and other state that it needs.
//! `page_map/collect.rs` applies its decisions to the rest of the map.
//!
//! ```text
//!  wants_gc ─► victim (victim.rs) ─► Move, unit by unit ─► arrived ─┬─ Keep ─► is_current ─► place (of its stream)
//!                                                                   ├─ Metadata: written anew (translation_pages.rs)
//!                                                                   └─ Drop, Lost
//!  last valid unit gone ─► emptied ─► its trims are on the media? ─► Reclaim::Erase ─► erased ─► free
//! ```

use crate::block_manager::{BlockManager, BlockState};
use crate::handles::Handles;
use crate::mapping_table::MappingTable;
use crate::policy::Forked;
use crate::translation::{Load, Move, Reclaim, Stream};
use crate::translation_pages::TranslationPages;
use crate::{FtlConfig, Isolation, VictimPolicy};
use pellucid_flash::{BlockId, Cause, DieId, Divisor, Layout, Pauses, Ppa, Rng, SimTime};

/// Garbage collection of a page map.
#[derive(Clone, Debug)]
pub(crate) struct Gc {
    pub(crate) config: FtlConfig,
    pub(crate) layout: Layout,
    dies: Vec<DieGc>,
    /// Victims of all dies that will come back as free blocks.
    coming: u32,
    /// Victims and cached blocks that hold nothing valid.
    emptied: Vec<BlockId>,
    /// Units per sense, and the units that move next.
    sense: Divisor,
    moves: Vec<Move>,
    /// The policy from outside that chooses victims, or what a cache gives up.
    pub(crate) outside: Option<Forked<dyn VictimPolicy>>,
    /// Blocks of each die that host data leave free beside the one for GC, because power was cut.
    cut_reserve: u32,
    /// GC has made space for host data that were turned away.
    released: bool,
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

/// Parts of a map that GC works on.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub table: &'a MappingTable,
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
    /// Victims whose data are being moved, or that wait for their erase.
    outgoing: Vec<Outgoing>,
    /// Number of these that will come back as free blocks.
    coming: u32,
    /// The policy's choice, while it waits for space.
    candidate: Option<BlockId>,
    /// Host data were turned away until GC has gone on.
    waited_for: bool,
    /// Blocks with a failed program, to be emptied and retired.
    retiring: Vec<BlockId>,
    /// Closed blocks that are to be written anew elsewhere.
    refreshing: Vec<BlockId>,
    /// Victims of a refresh that are not erased yet.
    refreshed: Vec<BlockId>,
    /// Victims that have been read to their end and hold a valid unit again.
    again: Vec<BlockId>,
    /// Wear levelling is due.
    level: bool,
    /// Victims of wear levelling that are not erased yet.
    leveling: Vec<BlockId>,
    /// The last victim that held data was taken for upkeep: wear levelling or a refresh.
    was_upkeep: bool,
}

/// A victim under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub block: BlockId,
    /// Valid units when it was chosen.
    pub valid: u32,
    /// Valid units whose programs elsewhere are planned, or that cannot be copied.
    pub planned: u32,
    /// The stream whose open block takes them.
    pub stream: Stream,
    /// The victim will come back as a free block.
    pub back: bool,
    /// When it was chosen; `None`: its end is no pause of GC.
    pub since: Option<SimTime>,
}

impl Outgoing {
    pub fn new(block: BlockId, valid: u32, stream: Stream, back: bool) -> Outgoing {
        Outgoing { block, valid, planned: 0, stream, back, since: None }
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
    pub fn new(config: &FtlConfig, layout: &Layout) -> Gc {
        Gc {
            config: config.clone(),
            layout: layout.clone(),
            dies: vec![DieGc::default(); layout.dies as usize],
            coming: 0,
            emptied: Vec::new(),
            sense: Divisor::new(1),
            moves: Vec::new(),
            outside: Forked::<dyn VictimPolicy>::of(match config.cache {
                Some(_) => &config.policies.eviction,
                None => &config.policies.victim,
            }),
            cut_reserve: 0,
            released: false,
            now: SimTime::ZERO,
            counters: GcCounters::default(),
        }
    }

    /// Counters so far.
    pub fn counters(&self) -> &GcCounters {
        &self.counters
    }

    /// Sets the counters: to zero, or to those from before a power cut.
    pub fn set_counters(&mut self, counters: GcCounters) {
        self.counters = counters;
    }

    /// Counts units that were copied elsewhere.
    #[inline]
    pub fn count_copied(&mut self, units: u32) {
        self.counters.copied_units += u64::from(units);
    }

    /// Counts a block that has failed in use.
    pub fn count_grown_bad(&mut self) {
        self.counters.grown_bad += 1;
    }

    /// Counts a victim that was chosen against the policy.
    pub(crate) fn count_emergency(&mut self) {
        self.counters.emergency_victims += 1;
    }

    /// Sets the caller's time.
    #[inline]
    pub fn set_now(&mut self, now: SimTime) {
        self.now = now;
    }

    /// Records that GC has made space for host data that were turned away.
    pub(crate) fn release_host(&mut self) {
        self.released = true;
    }

    /// Returns whether a die that had turned host data away may have gained space since the last call, though no block has come free.
    #[inline]
    pub fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.released)
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

    /// Returns whether a block holds nothing valid any more and is not erased yet.
    #[inline]
    pub fn has_emptied(&self) -> bool {
        !self.emptied.is_empty()
    }

    /// The blocks that hold nothing valid any more and are not erased yet.
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

    /// Queues `block` to be emptied and retired.
    pub fn retire(&mut self, block: BlockId) {
        let retiring = &mut self.dies[self.layout.die_of_block(block).0 as usize].retiring;
        if !retiring.contains(&block) {
            retiring.push(block);
        }
    }

    /// The victims of `die` under way.
    #[inline]
    pub fn outgoing(&self, die: DieId) -> &[Outgoing] {
        &self.die(die).outgoing
    }

    /// Victims of `die` that will come back as free blocks.
    #[inline]
    pub fn coming_back(&self, die: DieId) -> u32 {
        self.die(die).coming
    }

    /// Victims of all dies that will come back as free blocks.
    #[inline]
    pub fn all_coming_back(&self) -> u32 {
        self.coming
    }

    /// Panics where the counts of victims that will come back are wrong.
    pub fn check(&self) {
        for (die, gc) in self.dies.iter().enumerate() {
            let coming = gc.outgoing.iter().filter(|victim| victim.back).count();
            assert_eq!(gc.coming as usize, coming, "victims of die {die} that will come back");
        }
        assert_eq!(
            self.coming,
            self.dies.iter().map(|gc| gc.coming).sum::<u32>(),
            "victims that will come back"
        );
    }

    /// Records that the program of a copy that replaces the one at `old` in a victim was planned, or has ended.
    #[inline]
    pub fn note_moving(&mut self, old: Ppa, planned: bool) {
        if old.is_some() {
            let block = self.layout.block_of(old);
            let outgoing = &mut self.dies[self.layout.die_of_block(block).0 as usize].outgoing;
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

    /// Returns whether wear levelling or a refresh waits for a victim of `die`.
    pub fn upkeep_is_due(&self, die: DieId) -> bool {
        let gc = self.die(die);
        gc.level || !gc.refreshing.is_empty()
    }

    /// Returns whether upkeep may take the next victim of `die`. It always may while blocks are free beyond `gc_low`, which they never
    /// are under a saturating load. Otherwise it takes every other victim, so that neither upkeep nor the host waits for the other to
    /// end.
    pub fn is_upkeeps_turn(&self, blocks: &BlockManager, die: DieId) -> bool {
        !self.is_short(blocks, die) || !self.die(die).was_upkeep
    }

    /// Returns whether `die` has no free blocks beyond those at which GC starts.
    pub fn is_short(&self, blocks: &BlockManager, die: DieId) -> bool {
        blocks.free_count(die) <= self.config.gc_low_blocks
    }

    pub fn wants_levelling(&self, die: DieId) -> bool {
        self.die(die).level
    }

    pub fn set_levelling(&mut self, die: DieId, due: bool) {
        self.die_mut(die).level = due;
    }

    /// The closed block of `die` to refresh next.
    pub fn next_refresh(&self, die: DieId) -> Option<BlockId> {
        self.die(die).refreshing.last().copied()
    }

    pub fn drop_refresh(&mut self, die: DieId, block: BlockId) {
        remove(&mut self.die_mut(die).refreshing, block);
    }

    /// Queues a closed block of `die` for a refresh; `false`: it is queued already.
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

    /// Stops GC in `die`: nothing more is moved out of it.
    pub fn stop(&mut self, die: DieId) {
        let gc = self.die_mut(die);
        (gc.current, gc.candidate, gc.level) = (None, None, false);
        gc.again.clear();
        gc.refreshing.clear();
    }
}

/// Choice of victims and of their units.
impl Gc {
    /// Returns whether `die` should begin GC: in the foreground when few blocks are free, in the background until `gc_high_blocks` are.
    pub(crate) fn wants_space(&self, blocks: &BlockManager, die: DieId, load: Load) -> bool {
        let coming = blocks.free_count(die) + self.coming_back(die);
        let map = self.config.common_blocks();
        // Space that host data may not take must not keep them waiting.
        let short = blocks.free_total() <= blocks.live_dies() + map;
        let failed = u32::from(!self.retiring(die).is_empty());
        let low = 1 + failed + self.cut_reserve + if short { map } else { 0 };
        let wants = coming <= self.config.gc_low_blocks.max(low)
            || (load != Load::Busy && coming < self.config.gc_high_blocks)
            // If most dies hold static data, dies with free blocks must reclaim space for all.
            || (short && self.all_coming_back() == 0);
        wants && !self.waits_for_victims(blocks, die)
    }

    /// Returns whether existing victims, in `die` too, must be erased before GC starts on another. Each may take a free block, and before
    /// it is erased a translation page may have to be written: without a block for that page, no erase could free one.
    fn waits_for_victims(&self, blocks: &BlockManager, die: DieId) -> bool {
        let free = blocks.free_total();
        self.coming_back(die) > 0
            && free <= blocks.live_dies() + self.config.common_blocks()
            && free <= self.all_coming_back()
            && self.map_needs_block(blocks)
    }

    /// Returns whether the next translation page needs a free block.
    fn map_needs_block(&self, blocks: &BlockManager) -> bool {
        let open = |die| blocks.open_block(DieId(die), Stream::Meta.place());
        self.config.common_blocks() > 0 && (0..self.layout.dies).all(|die| open(die).is_none())
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
            || !gc.retiring.is_empty()
            || (self.upkeep_is_due(die) && self.is_upkeeps_turn(blocks, die))
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
            match self.next_valid(parts.table, victim, cursor) {
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
            let (victim, cause) = self.choose_victim(parts, die, load)?;
            self.start(parts, die, victim, cause);
        }
        self.die(die).current
    }

    /// The first valid unit of `block` at or after unit `from`.
    fn next_valid(&self, table: &MappingTable, block: BlockId, from: u32) -> Option<Ppa> {
        let end = self.layout.ppa(block, self.layout.units_per_block);
        table.next_valid(self.layout.ppa(block, from)..end)
    }

    /// Moves the unit at `first` in the victim of `die`, with the victim's other units of the same sense.
    #[inline]
    fn move_from(&mut self, parts: &mut Parts<'_>, die: DieId, first: Ppa, cause: Cause) {
        let victim = self.layout.block_of(first);
        let of_map = parts.blocks.is_meta(victim);
        let to = if of_map { Stream::Meta } else { self.stream_of(parts.blocks, victim, cause) };
        let end = Ppa(first.0 - self.sense.remainder(first.0) + self.sense.get());
        let mut next = Some(first);
        while let Some(from) = next {
            self.moves.push(Move { from, cause, to, inside: false });
            let cursor = self.layout.index_in_block(from) + 1;
            self.die_mut(die).current = Some(Current { victim, cursor, cause });
            next = parts.table.next_valid(Ppa(from.0 + 1)..end);
        }
        if of_map {
            parts.pages.begin_reading(self.moves.len() as u32);
        }
    }

    /// Stream to which data of `block` are moved.
    fn stream_of(&self, blocks: &BlockManager, block: BlockId, cause: Cause) -> Stream {
        match blocks.owner(block) {
            handle if handle > 0 && self.config.isolation == Isolation::Persistent => {
                Stream::PlacedGc(handle)
            }
            _ if cause == Cause::WearLevel => Stream::Worn,
            _ => Stream::Gc,
        }
    }

    /// The stream whose open block takes the copies out of `block`.
    pub(crate) fn shared_stream(&self, blocks: &BlockManager, block: BlockId, cause: Cause) -> Stream {
        match blocks.is_meta(block) {
            true => Stream::Meta,
            false => self.config.shared(self.stream_of(blocks, block, cause)),
        }
    }

    /// Returns whether the victim of `die` has been read to its end, so that a partial superpage of GC copies should not wait.
    pub fn rests(&self, table: &MappingTable, die: DieId) -> bool {
        match self.die(die).current {
            Some(current) => self.next_valid(table, current.victim, current.cursor).is_none(),
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
            let (cached, empty) = blocks.cached(die);
            empty > 0
                || (load == Load::Rested
                    && cached > 0
                    && blocks.free_count(die) > self.config.gc_low_blocks.max(1 + self.cut_reserve))
        }
    }

    /// A full block of the SLC cache of `die` that holds nothing valid.
    #[inline]
    pub(crate) fn empty_cached(&self, blocks: &BlockManager, die: DieId) -> Option<BlockId> {
        (blocks.cached(die).1 > 0).then(|| blocks.next_cached(die))?
    }

    /// The block of the SLC cache of `die` that is folded next, while the drive folds.
    pub(crate) fn next_fold(&self, blocks: &BlockManager, die: DieId, load: Load) -> Option<BlockId> {
        if load == Load::Rested { blocks.next_cached(die) } else { None }
    }
}

/// Victims from choice to erase.
impl Gc {
    fn start(&mut self, parts: &mut Parts<'_>, die: DieId, victim: BlockId, cause: Cause) {
        let valid = parts.blocks.valid(victim);
        self.counters.victims[cause as usize] += 1;
        if cause != Cause::Fold {
            self.counters.victim_valid_units += u64::from(valid);
        }
        if valid > 0 && parts.handles.count() > 1 {
            parts.handles.moved(parts.blocks.owner(victim), valid);
        }
        let cached = parts.blocks.is_cache(victim);
        let back = !parts.blocks.failed(victim) && !cached;
        let stream = self.shared_stream(parts.blocks, victim, cause);
        parts.blocks.choose(victim);
        // The reserve may be smaller now, or a block is coming back.
        parts.blocks.space_came();
        let now = self.now;
        let gc = self.die_mut(die);
        // Empty blocks of the cache need no space.
        if !cached || valid > 0 {
            let since = (cause != Cause::Fold).then_some(now);
            gc.outgoing.push(Outgoing { since, ..Outgoing::new(victim, valid, stream, back) });
            gc.coming += u32::from(back);
            self.coming += u32::from(back);
        }
        let gc = self.die_mut(die);
        gc.retiring.retain(|&b| b != victim);
        gc.refreshing.retain(|&b| b != victim);
        gc.current = Some(Current { victim, cursor: 0, cause });
        gc.was_upkeep =
            if valid > 0 { matches!(cause, Cause::WearLevel | Cause::Refresh) } else { gc.was_upkeep };
        match cause {
            Cause::WearLevel => gc.leveling.push(victim),
            Cause::Refresh => gc.refreshed.push(victim),
            _ => {}
        }
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
        let gc = &mut self.dies[self.layout.die_of_block(block).0 as usize];
        if let Some(at) = gc.outgoing.iter().position(|victim| victim.block == block) {
            let Outgoing { back, since, .. } = gc.outgoing.swap_remove(at);
            if let Some(since) = since {
                self.counters.pauses.record(self.now.since(since));
            }
            gc.coming -= u32::from(back);
            self.coming -= u32::from(back);
            // The reserve may be smaller now.
            blocks.space_came();
        }
        self.went_on(blocks, block);
    }

    /// Returns the next block without valid units, and without copies that only an unsaved trim made invalid. There must be an emptied
    /// block. Blocks in `held` have to wait.
    pub fn reclaim(&mut self, parts: &mut Parts<'_>, held: &[BlockId]) -> Reclaim {
        let saved = parts.pages.saved_before();
        let holds_clean = |b: BlockId| parts.table.sparse().is_some_and(|sparse| sparse.present(b.0) > 0);
        let ready = |&b: &BlockId| parts.blocks.last_trim(b) < saved && !holds_clean(b) && !held.contains(&b);
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
            self.count_grown_bad();
            self.end_outgoing(parts.blocks, block);
            return Reclaim::Retire(block);
        }
        parts.blocks.erasing(block);
        let gc = self.die_mut(die);
        let cause = if remove(&mut gc.leveling, block) {
            Cause::WearLevel
        } else if remove(&mut gc.refreshed, block) {
            self.counters.refreshed += 1;
            Cause::Refresh
        } else if parts.blocks.is_cache(block) {
            Cause::Fold
        } else {
            Cause::Gc
        };
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
            self.set_levelling(die, most - least > gap);
        }
    }
}

/// Blocks of `die` that static wear levelling compares: good ones whose cells hold all their bits.
pub(crate) fn levelled(blocks: &BlockManager, die: DieId) -> impl Iterator<Item = BlockId> + '_ {
    let good = |b: &BlockId| blocks.state(*b) != BlockState::Bad && !blocks.is_cache(*b);
    blocks.of_die(die).filter(good)
}

/// Removes `block` from a short list; returns whether it was in it.
fn remove(list: &mut Vec<BlockId>, block: BlockId) -> bool {
    let at = list.iter().position(|&b| b == block);
    at.inspect(|&at| _ = list.swap_remove(at)).is_some()
}
