//! Blocks: their states (free, open, full, being emptied, bad), their numbers of valid units, and the order in which the closed blocks of a
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
//! | object | owns |
//! |---|---|
//! | [`Pool`] | free blocks and wear |
//! | `SlcBlocks` | the same of the SLC cache, and its full blocks |
//! | `OpenBlocks` | the open block of each die and stream |
//! | `ByValid`, `Worth` | closed blocks by valid count; counts of those that are worth emptying |
//! | `Record` | what a block holds, and when it was filled and changed |
//!
//! Invariants: a block is in exactly one list of closed blocks if and only if it is `Closed`, and then in that of its valid count; it is in its
//! die's free list if and only if it is `Free`; `valid` equals the number of its valid units.

mod by_valid;
mod check;
mod closed;
mod open;
mod record;
mod slc;
mod worth;

use by_valid::ByValid;
use closed::{close_if_settled, count_giving, leave_closed};
use open::OpenBlocks;
use record::Record;
use slc::SlcBlocks;
use worth::Worth;

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

/// A block that takes data, and its next superpage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenBlock {
    pub(crate) block: BlockId,
    pub(crate) superpage: u32,
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
    records: Vec<Record>,
    /// Free blocks and wear, of the blocks that hold data for good.
    pool: Pool,
    slc: SlcBlocks,
    open: OpenBlocks,
    /// Dies that can no longer be programmed.
    dead: Vec<bool>,
    live_dies: u32,
    by_valid: ByValid,
    worth: Worth,
    bad: u32,
    /// Dies in which host data may find space that they did not find before, since this was last taken: their free, open or bad blocks have
    /// changed, or their GC has gone on.
    came: DieSet,
}

impl BlockManager {
    /// Bytes of [`BlockManager::memory_bytes`] for each block of its pool.
    pub const BLOCK_BYTES: usize = size_of::<Hot>() + size_of::<Record>() + Pool::BLOCK_BYTES;

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
        let order = if least_worn_first { TakeOrder::LeastWorn } else { TakeOrder::Oldest };
        BlockManager {
            hot: vec![hot; layout.blocks as usize],
            records: vec![Record::default(); layout.blocks as usize],
            pool: Pool::all_free(layout, cache_blocks..layout.blocks_per_die, order),
            slc: SlcBlocks::new(layout, cache_blocks),
            open: OpenBlocks::new(layout.dies, streams),
            dead: vec![false; layout.dies as usize],
            live_dies: layout.dies,
            by_valid: ByValid::new(layout, keep_buckets),
            worth: Worth::new(layout, lists),
            bad: 0,
            came: DieSet::new(layout.dies),
            layout: layout.clone(),
        }
    }

    pub fn state(&self, block: BlockId) -> BlockState {
        self.hot[block.0 as usize].state
    }

    #[inline]
    pub fn valid(&self, block: BlockId) -> u32 {
        self.hot[block.0 as usize].valid
    }

    pub fn erases(&self, block: BlockId) -> u32 {
        if self.slc.has(block) { self.slc.pool().erases(block) } else { self.pool.erases(block) }
    }

    pub fn set_erases(&mut self, block: BlockId, erases: u32) {
        pool_of(self, block).set_erases(block, erases);
    }

    /// The record of a block.
    #[inline]
    pub fn record(&self, block: BlockId) -> &Record {
        &self.records[block.0 as usize]
    }

    /// Blocks of the SLC cache.
    #[inline]
    pub fn slc(&self) -> &SlcBlocks {
        &self.slc
    }

    /// Open blocks.
    #[inline]
    pub fn open(&self) -> &OpenBlocks {
        &self.open
    }

    /// Closed blocks that are worth emptying.
    #[inline]
    pub fn worth(&self) -> &Worth {
        &self.worth
    }

    /// Records that a copy in the block has become invalid, for a policy that asks for that.
    pub fn touch(&mut self, block: BlockId, sequence: u64) {
        self.records[block.0 as usize].touch(sequence);
    }

    /// Sets the owner of the data that the block takes from now on: translation pages, or a placement handle (0 for all that have none of
    /// their own). `stream` is for observers.
    pub fn set_kind(&mut self, block: BlockId, meta: bool, owner: u16, stream: BlockStream) {
        self.records[block.0 as usize].set_kind(meta, owner, stream);
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
            _ => self.record(block).stream(),
        };
        BlockView { usage, stream, units: self.valid(block), erases: self.erases(block) }
    }

    /// Sets the number of the last trim that invalidated a copy in this block.
    pub fn set_last_trim(&mut self, block: BlockId, trim: u64) {
        self.records[block.0 as usize].set_last_trim(trim);
    }

    /// Returns whether a program in this block has failed, so that it must be retired when it is empty.
    pub fn failed(&self, block: BlockId) -> bool {
        self.hot[block.0 as usize].failed
    }

    /// Marks a block as failed: it takes no more programs, and is retired instead of erased.
    pub fn mark_failed(&mut self, block: BlockId) {
        count_giving(self, block, |blocks| blocks.hot[block.0 as usize].failed = true);
    }

    /// Clears the failure of a block, as if no program in it had failed.
    pub fn forgive(&mut self, block: BlockId) {
        count_giving(self, block, |blocks| blocks.hot[block.0 as usize].failed = false);
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

    /// Dies in which host data may find space again.
    pub fn came(&self) -> &DieSet {
        &self.came
    }

    /// Dies in which host data may find space again, to be taken out or added.
    #[inline]
    pub fn came_mut(&mut self) -> &mut DieSet {
        &mut self.came
    }

    pub fn bad_count(&self) -> u32 {
        self.bad
    }

    /// The full block of the SLC cache of `die` to be emptied next: an empty one, else the one that was filled first.
    pub fn next_cached(&self, die: DieId) -> Option<BlockId> {
        let cached = self.slc.pool().of_die(die).filter(|&b| self.state(b) == BlockState::Cached);
        cached.min_by_key(|&b| (self.valid(b) > 0, self.record(b).closed_at(), b))
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
        close_if_settled(self, block, sequence);
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
        let pool = pool_of(self, block);
        pool.set_erases(block, pool.erases(block) + 1);
        pool.give(block);
    }

    /// Retires the block. It must hold nothing valid.
    pub fn retire(&mut self, block: BlockId) {
        if self.is_settled(block) {
            leave_closed(self, block.0);
        }
        assert_eq!(self.hot[block.0 as usize].valid, 0, "retiring block {} with valid data", block.0);
        count_giving(self, block, |blocks| blocks.hot[block.0 as usize].state = BlockState::Bad);
        pool_of(self, block).retire(block);
        self.bad += 1;
        self.came.add(self.layout.die_of_block(block));
    }

    /// Restores, at a mount, a block that holds data, `open` if it can take more. Its programs have numbers below `sequence`.
    pub fn restore(&mut self, block: BlockId, valid: u32, open: bool, sequence: u64) {
        pool_of(self, block).take_this(block);
        self.came.add(self.layout.die_of_block(block));
        self.hot[block.0 as usize].valid = valid;
        self.hot[block.0 as usize].state = if open { BlockState::Open } else { BlockState::Full };
        close_if_settled(self, block, sequence);
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
        (self.hot.len() * size_of::<Hot>() + self.records.len() * size_of::<Record>()) as u64
            + self.by_valid.memory_bytes()
            + self.pool.memory_bytes()
            + self.slc.pool().memory_bytes()
    }
}

/// The pool that `block` belongs to.
#[inline]
fn pool_of(blocks: &mut BlockManager, block: BlockId) -> &mut Pool {
    if blocks.slc.has(block) { blocks.slc.pool_mut() } else { &mut blocks.pool }
}
