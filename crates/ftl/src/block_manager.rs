//! Blocks: which are free, open, full, being emptied or bad, how many valid units each holds, and in which order the
//! closed ones of a die would be collected.
//!
//! ```text
//!          take            last superpage planned        all programs ended         (of the SLC cache: Cached)
//!   Free ───────► Open ──────────────────────► Full ────────────────────► Closed
//!     ▲                                                                     │ choose
//!     └───────── erased ◄── Erasing ◄── no valid unit left ── Victim ◄──────┘
//!                              │ erase failed, or the block had a failed program
//!                              └──────────────► Bad
//! ```
//! The first blocks of each die may be an SLC cache. They have free lists of their own and are never `Closed` but `Cached`, so that
//! GC does not see them: they are emptied by folding.
//!
//! Invariants: a block is in exactly one bucket list if and only if it is `Closed`, and then in the bucket of its valid
//! count; it is in its die's free list if and only if it is `Free`; `valid` equals the number of its set bits in the valid map.

use crate::pool::{Pool, TakeOrder};
use pellucid_flash::{BlockId, DieId, Layout, Ppa};

/// Where a block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockState {
    /// Erased and waiting.
    Free,
    /// Taking data.
    Open,
    /// Every superpage is planned; some programs have not ended.
    Full,
    /// Full, all programs ended; may be chosen as a victim.
    Closed,
    /// As `Closed`, of the SLC cache: waits to be folded.
    Cached,
    /// Being emptied.
    Victim,
    /// Its erase is planned.
    Erasing,
    /// Retired.
    Bad,
}

const NIL: u32 = u32::MAX;

/// What is touched on every write.
#[derive(Clone, Debug)]
struct Hot {
    valid: u32,
    previous: u32,
    next: u32,
    in_flight: u16,
    state: BlockState,
    failed: bool,
}

/// What is touched once in a block's life.
#[derive(Clone, Debug, Default)]
struct Cold {
    closed_at: u64,
    touched_at: u64,
    meta: bool,
    owner: u16,
    trim: u64,
}

/// A block that takes data, and its next superpage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenBlock {
    pub(crate) block: BlockId,
    pub(crate) superpage: u32,
}

/// Full blocks of the SLC cache in a die.
#[derive(Clone, Copy, Debug, Default)]
struct Cached {
    blocks: u32,
    /// Of these, those that hold nothing valid.
    empty: u32,
}

/// What a block that is opened takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockKind {
    /// Superpages that the block takes.
    pub superpages: u32,
    /// It is one of the SLC cache.
    pub cache: bool,
    /// The most worn one is wanted.
    pub most_worn: bool,
    /// Translation pages.
    pub meta: bool,
    /// Placement handle.
    pub owner: u16,
}

/// All blocks of a drive.
#[derive(Clone, Debug)]
pub(crate) struct BlockManager {
    layout: Layout,
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    /// Free blocks and wear of those that hold data for good, and of the SLC cache.
    pool: Pool,
    cache_pool: Pool,
    /// Blocks of each die that are the SLC cache.
    cache_blocks: u32,
    cached: Vec<Cached>,
    /// The open block of each die and stream.
    open: Vec<Option<OpenBlock>>,
    streams: usize,
    /// Dies that can be programmed no more.
    dead: Vec<bool>,
    live_dies: u32,
    /// Closed blocks of each die by valid count: heads of lists, for a policy that asks for the fewest.
    buckets: Vec<u32>,
    lowest: Vec<u32>,
    /// Per die: closed blocks that hold nothing valid.
    empty: Vec<u32>,
    /// Per die: closed blocks that give more superpages than their valid units take elsewhere.
    giving: Vec<u32>,
    /// Valid units with which a block still gives a superpage: of data, and of translation pages, each of which may take a superpage of its own.
    giving_units: (u32, u32),
    bad: u32,
    /// Generation counter: changes whenever the set of free, open or bad blocks changes, or space is reclaimed.
    changes: u64,
    keep_buckets: bool,
}

impl BlockManager {
    /// All blocks free and unworn. `keep_buckets`: the victim policy needs closed blocks by valid count. `least_worn_first`: dynamic
    /// wear levelling. Each die has an open block for each of `streams` streams.
    pub fn new(
        layout: &Layout,
        cache_blocks: u32,
        keep_buckets: bool,
        least_worn_first: bool,
        streams: usize,
    ) -> BlockManager {
        let hot =
            Hot { valid: 0, previous: NIL, next: NIL, in_flight: 0, state: BlockState::Free, failed: false };
        let dies = layout.dies as usize;
        let buckets = if keep_buckets { dies * (layout.units_per_block as usize + 1) } else { 0 };
        let order = if least_worn_first { TakeOrder::LeastWorn } else { TakeOrder::Oldest };
        BlockManager {
            hot: vec![hot; layout.blocks as usize],
            cold: vec![Cold::default(); layout.blocks as usize],
            pool: Pool::all_free(layout, cache_blocks..layout.blocks_per_die, order),
            cache_pool: Pool::all_free(layout, 0..cache_blocks, TakeOrder::Oldest),
            cache_blocks,
            cached: vec![Cached::default(); if cache_blocks > 0 { dies } else { 0 }],
            open: vec![None; dies * streams],
            streams,
            dead: vec![false; dies],
            live_dies: layout.dies,
            buckets: vec![NIL; buckets],
            lowest: vec![layout.units_per_block + 1; dies],
            empty: vec![0; dies],
            giving: vec![0; dies],
            giving_units: (
                layout.units_per_block - layout.units_per_superpage,
                layout.superpages_per_block.saturating_sub(1),
            ),
            bad: 0,
            changes: 0,
            keep_buckets,
            layout: layout.clone(),
        }
    }

    #[inline]
    fn pool_of(&mut self, block: BlockId) -> &mut Pool {
        if self.is_cache(block) { &mut self.cache_pool } else { &mut self.pool }
    }

    pub fn state(&self, block: BlockId) -> BlockState {
        self.hot[block.0 as usize].state
    }

    #[inline]
    pub fn valid(&self, block: BlockId) -> u32 {
        self.hot[block.0 as usize].valid
    }

    pub fn erases(&self, block: BlockId) -> u32 {
        if self.is_cache(block) { self.cache_pool.erases(block) } else { self.pool.erases(block) }
    }

    pub fn set_erases(&mut self, block: BlockId, erases: u32) {
        self.pool_of(block).set_erases(block, erases);
    }

    pub fn closed_at(&self, block: BlockId) -> u64 {
        self.cold[block.0 as usize].closed_at
    }

    pub fn touched_at(&self, block: BlockId) -> u64 {
        self.cold[block.0 as usize].touched_at
    }

    pub fn touch(&mut self, block: BlockId, sequence: u64) {
        self.cold[block.0 as usize].touched_at = sequence;
    }

    /// Whether it holds translation pages; meaningful while it holds anything.
    pub fn is_meta(&self, block: BlockId) -> bool {
        self.cold[block.0 as usize].meta
    }

    /// Whose data it takes from now on: translation pages, or those of a placement handle (0 for all that have none of their own).
    pub fn set_kind(&mut self, block: BlockId, meta: bool, owner: u16) {
        let cold = &mut self.cold[block.0 as usize];
        (cold.meta, cold.owner) = (meta, owner);
    }

    /// The placement handle whose data it holds; meaningful while it holds anything.
    pub fn owner(&self, block: BlockId) -> u16 {
        self.cold[block.0 as usize].owner
    }

    /// Number of the last trim that forgot a copy in this block.
    pub fn last_trim(&self, block: BlockId) -> u64 {
        self.cold[block.0 as usize].trim
    }

    pub fn set_last_trim(&mut self, block: BlockId, trim: u64) {
        self.cold[block.0 as usize].trim = trim;
    }

    /// Whether a program in this block has failed, so that it must be retired when it is empty.
    pub fn failed(&self, block: BlockId) -> bool {
        self.hot[block.0 as usize].failed
    }

    /// Nothing more is written here, and it is retired instead of erased.
    pub fn mark_failed(&mut self, block: BlockId) {
        self.count_giving(block, |blocks| blocks.hot[block.0 as usize].failed = true);
    }

    /// As if no program in this block had failed.
    pub fn forgive(&mut self, block: BlockId) {
        self.count_giving(block, |blocks| blocks.hot[block.0 as usize].failed = false);
    }

    /// Whether emptying `block` takes fewer superpages than it gives back.
    pub fn frees_space(&self, block: BlockId) -> bool {
        let (data, pages) = self.giving_units;
        self.valid(block) <= if self.is_meta(block) { pages } else { data }
    }

    /// Whether a policy may choose `block`.
    pub fn may_be_victim(&self, block: BlockId) -> bool {
        let hot = &self.hot[block.0 as usize];
        hot.state == BlockState::Closed && !hot.failed
    }

    fn gives(&self, block: BlockId) -> bool {
        self.may_be_victim(block) && self.frees_space(block)
    }

    /// Closed blocks of `die` that free space when they are emptied. With none, no policy can make room.
    #[inline]
    pub fn giving(&self, die: DieId) -> u32 {
        self.giving[die.0 as usize]
    }

    fn count_giving(&mut self, block: BlockId, change: impl FnOnce(&mut BlockManager)) {
        let before = self.gives(block);
        change(self);
        let (after, die) = (self.gives(block), self.die(block.0));
        self.giving[die] = self.giving[die] + u32::from(after) - u32::from(before);
    }

    #[inline]
    pub fn in_flight(&self, block: BlockId) -> u32 {
        self.hot[block.0 as usize].in_flight.into()
    }

    #[inline]
    pub fn free_count(&self, die: DieId) -> u32 {
        self.pool.free_count(die)
    }

    /// Free blocks of all dies.
    #[inline]
    pub fn free_total(&self) -> u32 {
        self.pool.free_total()
    }

    /// Generation counter: changes whenever the set of free, open or bad blocks changes, or space is reclaimed.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Host data may go where they could not, though no block was taken or given back.
    pub fn space_came(&mut self) {
        self.changes += 1;
    }

    pub fn bad_count(&self) -> u32 {
        self.bad
    }

    #[inline]
    fn die(&self, block: u32) -> usize {
        self.layout.split.blocks_per_die.quotient(block) as usize
    }

    /// Whether `block` belongs to the SLC cache.
    #[inline]
    pub fn is_cache(&self, block: BlockId) -> bool {
        self.cache_blocks > 0 && self.layout.split.blocks_per_die.remainder(block.0) < self.cache_blocks
    }

    /// Free blocks of the SLC cache, in all dies.
    #[inline]
    pub fn cache_free(&self) -> u32 {
        self.cache_pool.free_total()
    }

    /// Free blocks of the SLC cache of `die`.
    pub fn cache_free_in(&self, die: DieId) -> u32 {
        self.cache_pool.free_count(die)
    }

    /// Full blocks of the SLC cache of `die`, and those of them that hold nothing valid.
    #[inline]
    pub fn cached(&self, die: DieId) -> (u32, u32) {
        self.cached.get(die.0 as usize).map_or((0, 0), |cached| (cached.blocks, cached.empty))
    }

    /// The full block of the SLC cache of `die` to be emptied next: an empty one, else the one that was filled first.
    pub fn next_cached(&self, die: DieId) -> Option<BlockId> {
        let cached = self.cache_pool.of_die(die).filter(|&b| self.state(b) == BlockState::Cached);
        cached.min_by_key(|&b| (self.valid(b) > 0, self.closed_at(b), b))
    }

    /// The blocks of `die`.
    pub fn of_die(&self, die: DieId) -> impl Iterator<Item = BlockId> + use<> {
        let first = die.0 * self.layout.blocks_per_die;
        (first..first + self.layout.blocks_per_die).map(BlockId)
    }

    /// Takes a free block of `die` and opens it, of the SLC cache or (`cache` false) not; the most worn one if `most_worn`.
    fn take(&mut self, die: DieId, cache: bool, most_worn: bool) -> Option<BlockId> {
        let block = match (cache, most_worn) {
            (true, _) => self.cache_pool.take(die),
            (false, true) => self.pool.take_most_worn(die),
            (false, false) => self.pool.take(die),
        }?;
        self.changes += 1;
        let hot = &mut self.hot[block.0 as usize];
        debug_assert!(hot.state == BlockState::Free && hot.valid == 0 && hot.in_flight == 0);
        hot.state = BlockState::Open;
        Some(block)
    }

    /// A superpage of an open block was planned; `last` if it was the block's last.
    #[inline]
    pub fn planned(&mut self, block: BlockId, last: bool) {
        let hot = &mut self.hot[block.0 as usize];
        debug_assert_eq!(hot.state, BlockState::Open);
        hot.in_flight += 1;
        if last {
            hot.state = BlockState::Full;
        }
    }

    /// No further superpage of this open block will be planned.
    pub fn close_early(&mut self, block: BlockId, sequence: u64) {
        let hot = &mut self.hot[block.0 as usize];
        if hot.state == BlockState::Open {
            hot.state = BlockState::Full;
            self.close_if_settled(block, sequence);
        }
    }

    /// A planned program ended.
    #[inline]
    pub fn settled(&mut self, block: BlockId, failed: bool, sequence: u64) {
        let hot = &mut self.hot[block.0 as usize];
        hot.in_flight -= 1;
        hot.failed |= failed;
        self.close_if_settled(block, sequence);
    }

    #[inline]
    fn close_if_settled(&mut self, block: BlockId, sequence: u64) {
        let hot = &mut self.hot[block.0 as usize];
        if hot.state == BlockState::Full && hot.in_flight == 0 {
            hot.state = BlockState::Closed;
            self.cold[block.0 as usize].closed_at = sequence;
            self.cold[block.0 as usize].touched_at = sequence;
            let empty = u32::from(self.hot[block.0 as usize].valid == 0);
            let die = self.die(block.0);
            if self.is_cache(block) {
                self.hot[block.0 as usize].state = BlockState::Cached;
                self.cached[die].blocks += 1;
                self.cached[die].empty += empty;
                return;
            }
            self.empty[die] += empty;
            self.giving[die] += u32::from(self.gives(block));
            self.link(block.0);
        }
    }

    /// Asks the processor for what a change of the valid units of `block` will touch.
    #[inline]
    pub fn prefetch(&self, block: BlockId) {
        prefetch_index::prefetch_index(&self.hot, block.0 as usize);
    }

    #[inline]
    pub fn add_valid(&mut self, block: BlockId, units: u32) {
        // Only blocks that take data gain valid units, and those are in no bucket.
        self.hot[block.0 as usize].valid += units;
    }

    #[inline]
    pub fn remove_valid(&mut self, block: BlockId) {
        let closed = self.hot[block.0 as usize].state == BlockState::Closed;
        if closed && self.keep_buckets {
            self.unlink(block.0);
            self.hot[block.0 as usize].valid -= 1;
            self.link(block.0);
        } else {
            self.hot[block.0 as usize].valid -= 1;
        }
        let valid = self.hot[block.0 as usize].valid;
        let (data, pages) = self.giving_units;
        if closed && (valid == 0 || valid == data || valid == pages) {
            self.passed_mark(block, valid);
        } else if valid == 0 && self.hot[block.0 as usize].state == BlockState::Cached {
            let die = self.die(block.0);
            self.cached[die].empty += 1;
        }
    }

    /// A closed block has come to so few valid units that it may count as empty, or as giving.
    #[cold]
    fn passed_mark(&mut self, block: BlockId, valid: u32) {
        let die = self.die(block.0);
        self.empty[die] += u32::from(valid == 0);
        let (data, pages) = self.giving_units;
        let mark = if self.is_meta(block) { pages } else { data };
        self.giving[die] += u32::from(valid == mark && !self.failed(block));
    }

    /// Closed blocks of `die` that hold nothing valid.
    pub fn empty_closed(&self, die: DieId) -> u32 {
        self.empty[die.0 as usize]
    }

    /// The closed block of `die` with the fewest valid units. Amortised O(1): the cursor rises only past empty buckets.
    pub fn fewest_valid(&mut self, die: DieId) -> Option<BlockId> {
        debug_assert!(self.keep_buckets);
        let base = die.0 as usize * (self.layout.units_per_block as usize + 1);
        let lowest = &mut self.lowest[die.0 as usize];
        while *lowest <= self.layout.units_per_block {
            let head = self.buckets[base + *lowest as usize];
            if head != NIL {
                return Some(BlockId(head));
            }
            *lowest += 1;
        }
        None
    }

    /// Of the closed blocks of `die` that `may` be taken, the first by number of those with the fewest valid units.
    pub fn fewest_valid_where(&self, die: DieId, may: impl Fn(BlockId) -> bool) -> Option<BlockId> {
        debug_assert!(self.keep_buckets);
        let base = die.0 as usize * (self.layout.units_per_block as usize + 1);
        let buckets = &self.buckets[base..base + self.layout.units_per_block as usize + 1];
        let lists = &buckets[(self.lowest[die.0 as usize] as usize).min(buckets.len())..];
        lists.iter().find_map(|&head| {
            let next = |at: u32| (at != NIL).then_some(at);
            let list = std::iter::successors(next(head), |&at| next(self.hot[at as usize].next));
            list.map(BlockId).filter(|&block| may(block)).min()
        })
    }

    /// A closed block becomes the victim.
    pub fn choose(&mut self, block: BlockId) {
        debug_assert!(self.is_settled(block));
        self.leave_closed(block.0);
        self.count_giving(block, |blocks| blocks.hot[block.0 as usize].state = BlockState::Victim);
    }

    /// Whether `block` is full, and its programs have ended.
    pub fn is_settled(&self, block: BlockId) -> bool {
        matches!(self.state(block), BlockState::Closed | BlockState::Cached)
    }

    /// A closed block is one no longer.
    fn leave_closed(&mut self, block: u32) {
        let die = self.die(block);
        let empty = u32::from(self.hot[block as usize].valid == 0);
        if self.hot[block as usize].state == BlockState::Cached {
            self.cached[die].blocks -= 1;
            self.cached[die].empty -= empty;
        } else {
            self.unlink(block);
            self.empty[die] -= empty;
        }
    }

    /// An empty victim is about to be erased.
    pub fn erasing(&mut self, block: BlockId) {
        let hot = &mut self.hot[block.0 as usize];
        assert!(
            hot.valid == 0 && hot.in_flight == 0,
            "erase of block {} with valid or unsettled data",
            block.0
        );
        hot.state = BlockState::Erasing;
    }

    /// The erase ended well: the block is free again.
    pub fn erased(&mut self, block: BlockId) {
        self.hot[block.0 as usize].state = BlockState::Free;
        self.changes += 1;
        let pool = self.pool_of(block);
        pool.set_erases(block, pool.erases(block) + 1);
        pool.give(block);
    }

    /// The block is retired. It must hold nothing valid.
    pub fn retire(&mut self, block: BlockId) {
        if self.is_settled(block) {
            self.leave_closed(block.0);
        }
        assert_eq!(self.hot[block.0 as usize].valid, 0, "retiring block {} with valid data", block.0);
        self.count_giving(block, |blocks| blocks.hot[block.0 as usize].state = BlockState::Bad);
        self.pool_of(block).retire(block);
        self.bad += 1;
        self.changes += 1;
    }

    /// Mount only: a block that holds data, `open` if it can take more. Its last program had the number `sequence`.
    pub fn restore(&mut self, block: BlockId, valid: u32, open: bool, sequence: u64) {
        self.pool_of(block).take_this(block);
        self.changes += 1;
        self.hot[block.0 as usize].valid = valid;
        self.hot[block.0 as usize].state = if open { BlockState::Open } else { BlockState::Full };
        self.close_if_settled(block, sequence);
    }

    /// The open block at a place of `die`.
    #[inline]
    pub fn open_block(&self, die: DieId, place: usize) -> Option<OpenBlock> {
        self.open[die.0 as usize * self.streams + place]
    }

    /// The open blocks of `die`, with their places.
    pub fn open_in(&self, die: DieId) -> impl Iterator<Item = (usize, OpenBlock)> + use<'_> {
        let first = die.0 as usize * self.streams;
        let open = self.open[first..first + self.streams].iter();
        open.enumerate().filter_map(|(place, open)| open.map(|open| (place, open)))
    }

    /// All open blocks, with their places.
    pub fn all_open(&self) -> impl Iterator<Item = (usize, OpenBlock)> + use<'_> {
        (0..self.layout.dies).flat_map(|die| self.open_in(DieId(die)))
    }

    /// Mount only: `open` goes on taking data, if its place is vacant.
    pub fn reopen(&mut self, place: usize, open: OpenBlock) -> bool {
        let die = self.layout.die_of_block(open.block);
        let slot = &mut self.open[die.0 as usize * self.streams + place];
        let vacant = slot.is_none();
        if vacant {
            *slot = Some(open);
        }
        vacant
    }

    /// The block that is open at a place of `die` takes no more data.
    pub fn close_open(&mut self, die: DieId, place: usize, sequence: u64) -> Option<BlockId> {
        let open = self.open[die.0 as usize * self.streams + place].take()?;
        self.close_early(open.block, sequence);
        Some(open.block)
    }

    /// No further superpage of `block` will be planned, wherever it is open.
    pub fn close_failed(&mut self, block: BlockId, sequence: u64) {
        let first = self.layout.die_of_block(block).0 as usize * self.streams;
        for slot in &mut self.open[first..first + self.streams] {
            if slot.is_some_and(|open| open.block == block) {
                *slot = None;
            }
        }
        self.close_early(block, sequence);
    }

    /// The next superpage of the block that is open at a place of `die`; a free one is opened if none is. There must be room.
    #[inline]
    pub fn take_superpage(&mut self, die: DieId, place: usize, kind: BlockKind) -> (Ppa, BlockId) {
        let at = die.0 as usize * self.streams + place;
        let OpenBlock { block, superpage } = match self.open[at] {
            Some(open) => open,
            None => {
                let block = self.take(die, kind.cache, kind.most_worn).expect("there is room");
                self.set_kind(block, kind.meta, kind.owner);
                OpenBlock { block, superpage: 0 }
            }
        };
        let last = superpage + 1 == kind.superpages;
        self.open[at] = (!last).then_some(OpenBlock { block, superpage: superpage + 1 });
        self.planned(block, last);
        (self.layout.ppa(block, superpage * self.layout.units_per_superpage), block)
    }

    /// Whether `die` can be programmed no more.
    #[inline]
    pub fn is_dead(&self, die: DieId) -> bool {
        self.dead[die.0 as usize]
    }

    /// Dies that can be programmed.
    #[inline]
    pub fn live_dies(&self) -> u32 {
        self.live_dies
    }

    /// `die` can be programmed no more; `false`: that was known.
    pub fn kill_die(&mut self, die: DieId) -> bool {
        let new = !std::mem::replace(&mut self.dead[die.0 as usize], true);
        self.live_dies -= u32::from(new);
        new
    }

    /// Blocks that can still be programmed.
    pub fn good(&self) -> u32 {
        let dead = (0..self.layout.dies).map(DieId).filter(|&die| self.is_dead(die));
        let lost =
            dead.flat_map(|die| self.of_die(die)).filter(|&b| self.state(b) != BlockState::Bad).count();
        self.layout.blocks - self.bad - lost as u32
    }

    fn link(&mut self, block: u32) {
        if !self.keep_buckets {
            return;
        }
        let die = self.die(block);
        let valid = self.hot[block as usize].valid;
        let head = &mut self.buckets[die * (self.layout.units_per_block as usize + 1) + valid as usize];
        let next = std::mem::replace(head, block);
        self.hot[block as usize].previous = NIL;
        self.hot[block as usize].next = next;
        if next != NIL {
            self.hot[next as usize].previous = block;
        }
        self.lowest[die] = self.lowest[die].min(valid);
    }

    fn unlink(&mut self, block: u32) {
        if !self.keep_buckets {
            return;
        }
        let Hot { valid, previous, next, .. } = self.hot[block as usize];
        if previous == NIL {
            let die = self.die(block);
            self.buckets[die * (self.layout.units_per_block as usize + 1) + valid as usize] = next;
        } else {
            self.hot[previous as usize].next = next;
        }
        if next != NIL {
            self.hot[next as usize].previous = previous;
        }
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        (self.hot.len() * size_of::<Hot>() + self.cold.len() * size_of::<Cold>() + self.buckets.len() * 4)
            as u64
            + self.pool.memory_bytes()
            + self.cache_pool.memory_bytes()
    }

    /// Walks the lists and panics where they disagree with the blocks.
    pub fn check(&self) {
        self.pool.check();
        self.cache_pool.check();
        for block in (0..self.layout.blocks).map(BlockId) {
            let pool = if self.is_cache(block) { &self.cache_pool } else { &self.pool };
            let state = self.state(block);
            assert_eq!(pool.is_free(block), state == BlockState::Free, "block {} is {state:?}", block.0);
            assert_eq!(pool.is_bad(block), state == BlockState::Bad, "block {} is {state:?}", block.0);
        }
        let count = |state| self.hot.iter().filter(|b| b.state == state).count();
        for (_, open) in self.all_open() {
            assert_eq!(self.state(open.block), BlockState::Open, "block {} takes data", open.block.0);
        }
        for die in (0..self.layout.dies).map(DieId) {
            let cached = || self.of_die(die).filter(|&b| self.state(b) == BlockState::Cached);
            assert!(
                cached().all(|b| self.is_cache(b)),
                "a block outside the SLC cache of die {} is cached",
                die.0
            );
            let empty = cached().filter(|&b| self.valid(b) == 0).count();
            assert_eq!(
                self.cached(die),
                (cached().count() as u32, empty as u32),
                "cached blocks of die {}",
                die.0
            );
        }
        assert_eq!(count(BlockState::Bad), self.bad as usize, "bad blocks");
        for (die, &empty) in self.empty.iter().enumerate() {
            let blocks = self.of_die(DieId(die as u32));
            let found = blocks.filter(|&b| self.state(b) == BlockState::Closed && self.valid(b) == 0).count();
            assert_eq!(empty as usize, found, "empty closed blocks of die {die}");
            let giving = self.of_die(DieId(die as u32)).filter(|&b| self.gives(b)).count();
            assert_eq!(self.giving[die] as usize, giving, "closed blocks of die {die} that give space");
        }
        if self.keep_buckets {
            let mut listed = 0;
            for (bucket, &head) in self.buckets.iter().enumerate() {
                let (mut at, mut before) = (head, NIL);
                while at != NIL {
                    let hot = &self.hot[at as usize];
                    assert_eq!(hot.state, BlockState::Closed, "block {at} in a bucket");
                    assert_eq!(
                        hot.valid as usize,
                        bucket % (self.layout.units_per_block as usize + 1),
                        "bucket of block {at}"
                    );
                    assert_eq!(hot.previous, before, "links of block {at}");
                    listed += 1;
                    (before, at) = (at, hot.next);
                }
            }
            assert_eq!(listed, count(BlockState::Closed), "closed blocks in buckets");
        }
    }
}
