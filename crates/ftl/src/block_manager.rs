//! Blocks: which are free, open, full, being emptied or bad, how many valid units each holds, and in which order the closed blocks of a
//! die would become victims.
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

mod check;
mod closed;
mod open;

use crate::die_set::DieSet;
use crate::pool::{Pool, TakeOrder};
use pellucid_flash::{BlockId, BlockStream, BlockUse, BlockView, DieId, Layout};

/// State of a block.
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

/// Per-block state used on every write.
#[derive(Clone, Debug)]
struct Hot {
    valid: u32,
    previous: u32,
    next: u32,
    in_flight: u16,
    state: BlockState,
    failed: bool,
}

/// Per-block state used once in a block's life.
#[derive(Clone, Debug, Default)]
struct Cold {
    closed_at: u64,
    touched_at: u64,
    meta: bool,
    owner: u16,
    stream: BlockStream,
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
    /// Blocks without valid units.
    empty: u32,
}

/// Kind of block to open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockKind {
    /// The block belongs to the SLC cache.
    pub cache: bool,
    /// The most worn free block is wanted.
    pub most_worn: bool,
    /// Translation pages.
    pub meta: bool,
    /// Placement handle.
    pub owner: u16,
    /// Stream that opens the block, for observers.
    pub stream: BlockStream,
}

/// All blocks of a drive.
#[derive(Clone, Debug)]
pub(crate) struct BlockManager {
    layout: Layout,
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    /// Free blocks and wear, of the blocks that hold data for good and of the SLC cache.
    pool: Pool,
    cache_pool: Pool,
    /// Blocks of each die that are the SLC cache.
    cache_blocks: u32,
    cached: Vec<Cached>,
    /// The open block of each die and stream.
    open: Vec<Option<OpenBlock>>,
    streams: usize,
    /// Dies that can no longer be programmed.
    dead: Vec<bool>,
    live_dies: u32,
    /// Closed blocks of each die by valid count: heads of lists, for a policy that asks for the fewest.
    buckets: Vec<u32>,
    lowest: Vec<u32>,
    /// Closed blocks without valid units, per die and in all.
    empty: Vec<u32>,
    empty_total: u32,
    /// Closed blocks, per die, that free more superpages than their valid units take elsewhere.
    giving: Vec<u32>,
    /// Most valid units with which a block still frees a superpage: of data, and of translation pages, each of which may take a superpage
    /// of its own.
    giving_units: (u32, u32),
    bad: u32,
    /// Dies in which host data may find space that they did not find before, since this was last taken: their free, open or bad blocks have
    /// changed, or their GC has gone on.
    came: DieSet,
    keep_buckets: bool,
}

impl BlockManager {
    /// Creates a manager with all blocks free and unworn. `keep_buckets`: the victim policy needs closed blocks by valid count.
    /// `least_worn_first`: dynamic wear levelling. Each die has an open block for each of `streams` streams. A block of data has `lists`
    /// superpages that take none.
    pub fn new(
        layout: &Layout,
        cache_blocks: u32,
        keep_buckets: bool,
        least_worn_first: bool,
        streams: usize,
        lists: u32,
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
            empty_total: 0,
            giving: vec![0; dies],
            giving_units: (
                layout.units_per_block - (1 + lists) * layout.units_per_superpage,
                layout.superpages_per_block.saturating_sub(1),
            ),
            bad: 0,
            came: DieSet::new(layout.dies),
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

    /// Returns whether `block` holds translation pages; meaningful while it holds anything.
    pub fn is_meta(&self, block: BlockId) -> bool {
        self.cold[block.0 as usize].meta
    }

    /// Sets the owner of the data that the block takes from now on: translation pages, or a placement handle (0 for all that have none of
    /// their own). `stream` is for observers.
    pub fn set_kind(&mut self, block: BlockId, meta: bool, owner: u16, stream: BlockStream) {
        let cold = &mut self.cold[block.0 as usize];
        (cold.meta, cold.owner, cold.stream) = (meta, owner, stream);
    }

    /// The placement handle whose data the block holds; meaningful while it holds anything.
    pub fn owner(&self, block: BlockId) -> u16 {
        self.cold[block.0 as usize].owner
    }

    /// The block as an observer sees it.
    pub fn view(&self, block: BlockId) -> BlockView {
        let usage = match self.state(block) {
            BlockState::Free => BlockUse::Free,
            BlockState::Open => BlockUse::Open,
            BlockState::Full | BlockState::Closed | BlockState::Cached => BlockUse::Full,
            BlockState::Victim => BlockUse::Victim,
            BlockState::Erasing => BlockUse::Erasing,
            BlockState::Bad => BlockUse::Bad,
        };
        let stream = match usage {
            BlockUse::Free | BlockUse::Bad => BlockStream::None,
            _ => self.cold[block.0 as usize].stream,
        };
        BlockView { usage, stream, units: self.valid(block), erases: self.erases(block) }
    }

    /// Number of the last trim that invalidated a copy in this block.
    pub fn last_trim(&self, block: BlockId) -> u64 {
        self.cold[block.0 as usize].trim
    }

    pub fn set_last_trim(&mut self, block: BlockId, trim: u64) {
        self.cold[block.0 as usize].trim = trim;
    }

    /// Returns whether a program in this block has failed, so that it must be retired when it is empty.
    pub fn failed(&self, block: BlockId) -> bool {
        self.hot[block.0 as usize].failed
    }

    /// Marks a block as failed: it takes no more programs, and is retired instead of erased.
    pub fn mark_failed(&mut self, block: BlockId) {
        self.count_giving(block, |blocks| blocks.hot[block.0 as usize].failed = true);
    }

    /// Clears the failure of a block, as if no program in it had failed.
    pub fn forgive(&mut self, block: BlockId) {
        self.count_giving(block, |blocks| blocks.hot[block.0 as usize].failed = false);
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

    /// Records that host data may find space in `die` again.
    #[inline]
    pub fn space_came(&mut self, die: DieId) {
        self.came.add(die);
    }

    /// Dies in which host data may find space again.
    pub fn came(&self) -> &DieSet {
        &self.came
    }

    /// Dies in which host data may find space again, to be taken out.
    #[inline]
    pub fn came_mut(&mut self) -> &mut DieSet {
        &mut self.came
    }

    pub fn bad_count(&self) -> u32 {
        self.bad
    }

    #[inline]
    fn die(&self, block: u32) -> usize {
        self.layout.split.blocks_per_die.quotient(block) as usize
    }

    /// Returns whether `block` belongs to the SLC cache.
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

    /// Full blocks of the SLC cache of `die`, and how many of them hold nothing valid.
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

    /// Records the end of a planned program.
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
            self.empty_total += empty;
            self.giving[die] += u32::from(self.gives(block));
            self.link(block.0);
        }
    }

    /// Prefetches the state that a change of the valid units of `block` will access.
    #[inline]
    pub fn prefetch(&self, block: BlockId) {
        prefetch_index::prefetch_index(&self.hot, block.0 as usize);
    }

    /// Marks an empty victim as about to be erased.
    pub fn erasing(&mut self, block: BlockId) {
        let hot = &mut self.hot[block.0 as usize];
        assert!(
            hot.valid == 0 && hot.in_flight == 0,
            "erase of block {} with valid or unsettled data",
            block.0
        );
        hot.state = BlockState::Erasing;
    }

    /// Records a successful erase: the block is free again.
    pub fn erased(&mut self, block: BlockId) {
        self.hot[block.0 as usize].state = BlockState::Free;
        self.came.add(self.layout.die_of_block(block));
        let pool = self.pool_of(block);
        pool.set_erases(block, pool.erases(block) + 1);
        pool.give(block);
    }

    /// Retires the block. It must hold nothing valid.
    pub fn retire(&mut self, block: BlockId) {
        if self.is_settled(block) {
            self.leave_closed(block.0);
        }
        assert_eq!(self.hot[block.0 as usize].valid, 0, "retiring block {} with valid data", block.0);
        self.count_giving(block, |blocks| blocks.hot[block.0 as usize].state = BlockState::Bad);
        self.pool_of(block).retire(block);
        self.bad += 1;
        self.came.add(self.layout.die_of_block(block));
    }

    /// Restores, at a mount, a block that holds data, `open` if it can take more. Its last program had the number `sequence`.
    pub fn restore(&mut self, block: BlockId, valid: u32, open: bool, sequence: u64) {
        self.pool_of(block).take_this(block);
        self.came.add(self.layout.die_of_block(block));
        self.hot[block.0 as usize].valid = valid;
        self.hot[block.0 as usize].state = if open { BlockState::Open } else { BlockState::Full };
        self.close_if_settled(block, sequence);
    }

    /// Returns whether `die` is dead: it can no longer be programmed.
    #[inline]
    pub fn is_dead(&self, die: DieId) -> bool {
        self.dead[die.0 as usize]
    }

    /// Dies that can be programmed.
    #[inline]
    pub fn live_dies(&self) -> u32 {
        self.live_dies
    }

    /// Marks `die` as dead: it can no longer be programmed; `false`: that was known.
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

    /// Panics where states, lists and counts disagree. Cost: all blocks.
    pub fn check(&self) {
        check::check(self);
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        (self.hot.len() * size_of::<Hot>() + self.cold.len() * size_of::<Cold>() + self.buckets.len() * 4)
            as u64
            + self.pool.memory_bytes()
            + self.cache_pool.memory_bytes()
    }
}
