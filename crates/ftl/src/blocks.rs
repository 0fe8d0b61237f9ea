//! Blocks: which are free, open, full, being emptied or bad, how many valid units each holds, and in which order the
//! closed ones of a die would be collected.
//!
//! ```text
//!          take            last stripe planned        all programs ended         (of the SLC cache: Cached)
//!   Free ───────► Open ──────────────────────► Full ────────────────────► Closed
//!     ▲                                                                     │ choose
//!     └───────── erased ◄── Erasing ◄── no valid unit left ── Victim ◄──────┘
//!                              │ erase failed, or the block had a failed program
//!                              └──────────────► Bad
//! ```
//! The first blocks of each die may be an SLC cache. They have free lists of their own and are never `Closed` but `Cached`, so that
//! collection does not see them: they are emptied by folding.
//!
//! Invariants: a block is in exactly one bucket list if and only if it is `Closed`, and then in the bucket of its valid
//! count; it is in its die's free list if and only if it is `Free`; `valid` equals the number of its set bits in the valid map.

use pellucid_flash::{BlockId, DieId, Divisor, Layout};

/// Where a block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockState {
    /// Erased and waiting.
    Free,
    /// Taking data.
    Open,
    /// Every stripe is planned; some programs have not ended.
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
    erases: u32,
    closed_at: u64,
    touched_at: u64,
    meta: bool,
    owner: u16,
    trim: u64,
}

/// The SLC cache of a die.
#[derive(Clone, Debug, Default)]
struct Cache {
    free: Vec<u32>,
    /// Blocks that are `Cached`.
    cached: u32,
    /// Of these, those that hold nothing valid.
    empty: u32,
}

/// All blocks of a drive.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    free: Vec<Vec<u32>>,
    /// Blocks of each die that are the SLC cache, and what is free of them.
    cache_blocks: u32,
    cache: Vec<Cache>,
    cache_free: u32,
    buckets: Vec<u32>,
    lowest: Vec<u32>,
    /// Per die: closed blocks that hold nothing valid.
    empty: Vec<u32>,
    /// Per die: closed blocks that give more stripes than their valid units take elsewhere.
    giving: Vec<u32>,
    /// Valid units with which a block still gives a stripe: of data, and of map segments, each of which may take a stripe of its own.
    giving_units: (u32, u32),
    blocks_per_die: u32,
    by_die: Divisor,
    units_per_block: u32,
    bad: u32,
    free_total: u32,
    /// Rises whenever a block is taken, given back or retired, or room has come otherwise.
    changes: u64,
    keep_buckets: bool,
    least_worn_first: bool,
}

impl Blocks {
    /// All blocks free and unworn; `bad` ones retired from the start. `keep_buckets`: the victim policy needs closed
    /// blocks by valid count. `least_worn_first`: dynamic wear levelling.
    pub fn new(layout: &Layout, cache_blocks: u32, keep_buckets: bool, least_worn_first: bool) -> Blocks {
        let hot =
            Hot { valid: 0, previous: NIL, next: NIL, in_flight: 0, state: BlockState::Free, failed: false };
        let buckets =
            if keep_buckets { layout.dies as usize * (layout.units_per_block as usize + 1) } else { 0 };
        let mut free = Vec::with_capacity(layout.dies as usize);
        for die in 0..layout.dies {
            let first = die * layout.blocks_per_die;
            // Taken from the end: the lowest number goes first.
            free.push((first + cache_blocks..first + layout.blocks_per_die).rev().collect());
        }
        let cache = |die: u32| {
            let first = die * layout.blocks_per_die;
            Cache { free: (first..first + cache_blocks).rev().collect(), ..Cache::default() }
        };
        let cache_dies = if cache_blocks > 0 { layout.dies } else { 0 };
        Blocks {
            hot: vec![hot; layout.blocks as usize],
            cold: vec![Cold::default(); layout.blocks as usize],
            free,
            cache_blocks,
            cache: (0..cache_dies).map(cache).collect(),
            cache_free: cache_dies * cache_blocks,
            buckets: vec![NIL; buckets],
            lowest: vec![layout.units_per_block + 1; layout.dies as usize],
            empty: vec![0; layout.dies as usize],
            giving: vec![0; layout.dies as usize],
            giving_units: (
                layout.units_per_block - layout.units_per_stripe,
                layout.stripes_per_block.saturating_sub(1),
            ),
            blocks_per_die: layout.blocks_per_die,
            by_die: layout.split.blocks_per_die,
            units_per_block: layout.units_per_block,
            bad: 0,
            free_total: layout.blocks - cache_dies * cache_blocks,
            changes: 0,
            keep_buckets,
            least_worn_first,
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
        self.cold[block.0 as usize].erases
    }

    pub fn set_erases(&mut self, block: BlockId, erases: u32) {
        self.cold[block.0 as usize].erases = erases;
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

    /// Whether it holds map segments; meaningful while it holds anything.
    pub fn is_meta(&self, block: BlockId) -> bool {
        self.cold[block.0 as usize].meta
    }

    /// Whose data it takes from now on: map segments, or those of a placement handle (0 for all that have none of their own).
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

    /// Whether emptying `block` takes fewer stripes than it gives back.
    pub fn frees_space(&self, block: BlockId) -> bool {
        let (data, segments) = self.giving_units;
        self.valid(block) <= if self.is_meta(block) { segments } else { data }
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

    fn count_giving(&mut self, block: BlockId, change: impl FnOnce(&mut Blocks)) {
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
        self.free[die.0 as usize].len() as u32
    }

    /// Free blocks of all dies.
    #[inline]
    pub fn free_total(&self) -> u32 {
        self.free_total
    }

    /// A number that is another one whenever other blocks are free, open or bad than before, or room has come otherwise.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Host data may go where they could not, though no block was taken or given back.
    pub fn room_has_come(&mut self) {
        self.changes += 1;
    }

    pub fn bad_count(&self) -> u32 {
        self.bad
    }

    #[inline]
    fn die(&self, block: u32) -> usize {
        self.by_die.quotient(block) as usize
    }

    /// Whether `block` belongs to the SLC cache.
    #[inline]
    pub fn is_cache(&self, block: BlockId) -> bool {
        self.cache_blocks > 0 && self.by_die.remainder(block.0) < self.cache_blocks
    }

    /// Free blocks of the SLC cache, in all dies.
    #[inline]
    pub fn cache_free(&self) -> u32 {
        self.cache_free
    }

    /// Free blocks of the SLC cache of `die`.
    pub fn cache_free_in(&self, die: DieId) -> u32 {
        self.cache.get(die.0 as usize).map_or(0, |cache| cache.free.len() as u32)
    }

    /// Full blocks of the SLC cache of `die`, and those of them that hold nothing valid.
    #[inline]
    pub fn cached(&self, die: DieId) -> (u32, u32) {
        self.cache.get(die.0 as usize).map_or((0, 0), |cache| (cache.cached, cache.empty))
    }

    /// The full block of the SLC cache of `die` to be emptied next: an empty one, else the one that was filled first.
    pub fn next_cached(&self, die: DieId) -> Option<BlockId> {
        let cached = self.of_die(die).take(self.cache_blocks as usize);
        let cached = cached.filter(|&b| self.state(b) == BlockState::Cached);
        cached.min_by_key(|&b| (self.valid(b) > 0, self.closed_at(b), b))
    }

    /// Takes the free block of the SLC cache of `die` that has been free for longest.
    pub fn take_cache(&mut self, die: DieId) -> Option<BlockId> {
        let block = self.cache.get_mut(die.0 as usize)?.free.pop()?;
        self.cache_free -= 1;
        self.changes += 1;
        self.hot[block as usize].state = BlockState::Open;
        Some(BlockId(block))
    }

    /// The blocks of `die`.
    pub fn of_die(&self, die: DieId) -> impl Iterator<Item = BlockId> + use<> {
        let first = die.0 * self.blocks_per_die;
        (first..first + self.blocks_per_die).map(BlockId)
    }

    /// Takes a free block of `die` and opens it: the least worn one with dynamic wear levelling (the most worn one if
    /// `most_worn`), else the one that has been free longest.
    pub fn take(&mut self, die: DieId, most_worn: bool) -> Option<BlockId> {
        let cold = &self.cold;
        let free = &mut self.free[die.0 as usize];
        let at = if most_worn {
            (0..free.len()).max_by_key(|&i| (cold[free[i] as usize].erases, i))?
        } else if self.least_worn_first {
            (0..free.len()).min_by_key(|&i| (cold[free[i] as usize].erases, free.len() - i))?
        } else {
            free.len().checked_sub(1)?
        };
        let block = free.remove(at);
        self.free_total -= 1;
        self.changes += 1;
        let hot = &mut self.hot[block as usize];
        debug_assert!(hot.state == BlockState::Free && hot.valid == 0 && hot.in_flight == 0);
        hot.state = BlockState::Open;
        Some(BlockId(block))
    }

    /// A stripe of an open block was planned; `last` if it was the block's last.
    #[inline]
    pub fn planned(&mut self, block: BlockId, last: bool) {
        let hot = &mut self.hot[block.0 as usize];
        debug_assert_eq!(hot.state, BlockState::Open);
        hot.in_flight += 1;
        if last {
            hot.state = BlockState::Full;
        }
    }

    /// No further stripe of this open block will be planned.
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
                self.cache[die].cached += 1;
                self.cache[die].empty += empty;
                return;
            }
            self.empty[die] += empty;
            self.giving[die] += u32::from(self.gives(block));
            self.link(block.0);
        }
    }

    /// Asks the processor for what a change of the valid units of `block` will touch.
    #[inline]
    pub fn bring_near(&self, block: BlockId) {
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
        let (data, segments) = self.giving_units;
        if closed && (valid == 0 || valid == data || valid == segments) {
            self.passed_mark(block, valid);
        } else if valid == 0 && self.hot[block.0 as usize].state == BlockState::Cached {
            let die = self.die(block.0);
            self.cache[die].empty += 1;
        }
    }

    /// A closed block has come to so few valid units that it may count as empty, or as giving.
    #[cold]
    fn passed_mark(&mut self, block: BlockId, valid: u32) {
        let die = self.die(block.0);
        self.empty[die] += u32::from(valid == 0);
        let (data, segments) = self.giving_units;
        let mark = if self.is_meta(block) { segments } else { data };
        self.giving[die] += u32::from(valid == mark && !self.failed(block));
    }

    /// Closed blocks of `die` that hold nothing valid.
    pub fn empty_closed(&self, die: DieId) -> u32 {
        self.empty[die.0 as usize]
    }

    /// The closed block of `die` with the fewest valid units. Amortised O(1): the cursor rises only past empty buckets.
    pub fn fewest_valid(&mut self, die: DieId) -> Option<BlockId> {
        debug_assert!(self.keep_buckets);
        let base = die.0 as usize * (self.units_per_block as usize + 1);
        let lowest = &mut self.lowest[die.0 as usize];
        while *lowest <= self.units_per_block {
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
        let base = die.0 as usize * (self.units_per_block as usize + 1);
        let buckets = &self.buckets[base..base + self.units_per_block as usize + 1];
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
            self.cache[die].cached -= 1;
            self.cache[die].empty -= empty;
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
        self.cold[block.0 as usize].erases += 1;
        self.changes += 1;
        // Oldest at the end, where `take` looks.
        let die = self.die(block.0);
        if self.is_cache(block) {
            self.cache_free += 1;
            return self.cache[die].free.insert(0, block.0);
        }
        self.free_total += 1;
        self.free[die].insert(0, block.0);
    }

    /// The block is retired. It must hold nothing valid.
    pub fn retire(&mut self, block: BlockId) {
        match self.hot[block.0 as usize].state {
            BlockState::Free => self.unfree(block),
            BlockState::Closed | BlockState::Cached => self.leave_closed(block.0),
            _ => {}
        }
        assert_eq!(self.hot[block.0 as usize].valid, 0, "retiring block {} with valid data", block.0);
        self.count_giving(block, |blocks| blocks.hot[block.0 as usize].state = BlockState::Bad);
        self.bad += 1;
        self.changes += 1;
    }

    /// A free block of a dead die: nothing was lost with it, and nobody may take it.
    pub fn bury(&mut self, block: BlockId) {
        self.unfree(block);
        self.hot[block.0 as usize].state = BlockState::Bad;
        self.bad += 1;
        self.changes += 1;
    }

    /// Mount only: a block that holds data, `open` if it can take more. Its last program had the number `sequence`.
    pub fn restore(&mut self, block: BlockId, valid: u32, open: bool, sequence: u64) {
        self.unfree(block);
        self.hot[block.0 as usize].valid = valid;
        self.hot[block.0 as usize].state = if open { BlockState::Open } else { BlockState::Full };
        self.close_if_settled(block, sequence);
    }

    fn unfree(&mut self, block: BlockId) {
        let die = self.die(block.0);
        self.changes += 1;
        if self.is_cache(block) {
            self.cache_free -= 1;
            return self.cache[die].free.retain(|&b| b != block.0);
        }
        self.free[die].retain(|&b| b != block.0);
        self.free_total -= 1;
    }

    fn link(&mut self, block: u32) {
        if !self.keep_buckets {
            return;
        }
        let die = self.die(block);
        let valid = self.hot[block as usize].valid;
        let head = &mut self.buckets[die * (self.units_per_block as usize + 1) + valid as usize];
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
            self.buckets[die * (self.units_per_block as usize + 1) + valid as usize] = next;
        } else {
            self.hot[previous as usize].next = next;
        }
        if next != NIL {
            self.hot[next as usize].previous = previous;
        }
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        (self.hot.len() * size_of::<Hot>()
            + self.cold.len() * size_of::<Cold>()
            + self.buckets.len() * 4
            + self.free.iter().map(|f| f.capacity() * 4).sum::<usize>()) as u64
    }

    /// Walks the lists and panics where they disagree with the blocks.
    pub fn check(&self) {
        for (die, free) in self.free.iter().enumerate() {
            for &block in free {
                assert_eq!(self.hot[block as usize].state, BlockState::Free, "block {block} in free list");
                assert_eq!(self.die(block), die, "block {block} in the free list of die {die}");
            }
        }
        let count = |state| self.hot.iter().filter(|b| b.state == state).count();
        assert_eq!(
            count(BlockState::Free),
            (self.free_total + self.cache_free) as usize,
            "free blocks of all dies"
        );
        assert_eq!(self.free_total as usize, self.free.iter().map(Vec::len).sum::<usize>(), "free blocks");
        assert_eq!(
            self.cache_free as usize,
            self.cache.iter().map(|c| c.free.len()).sum::<usize>(),
            "of the cache"
        );
        for (die, cache) in self.cache.iter().enumerate() {
            let die = DieId(die as u32);
            assert!(
                cache
                    .free
                    .iter()
                    .all(|&b| self.is_cache(BlockId(b)) && self.state(BlockId(b)) == BlockState::Free)
            );
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
                        bucket % (self.units_per_block as usize + 1),
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
