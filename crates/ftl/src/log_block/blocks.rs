//! Erase units of log-block translation: the role of each, and the references that keep it from being erased.
//!
//! ```text
//!  Free ── take ──► Log ── switch, partial merge ──► Data(logical block) ──┐
//!   ▲         ├───► Destination ── full merge ─────► Data                  ├── leave ──► Leaving ──► Erasing ──► Free
//!   │         └───► Metadata ──────────────────────────────────────────────┘                │
//!   └── erased                                                    failed: retired instead ──┴──────────────────► Bad
//! ```
//! A reference is an entry of the mapping table, the old copy that a program under way replaces, or the place of a metadata unit.
//! Invariants: a block that is `Leaving`, `Erasing`, `Free` or `Bad` has no reference; it is in the pool's free list if and only if it is
//! `Free`.

use super::merge::MergeKind;
use crate::pool::{Pool, TakeOrder};
use pellucid_flash::{BlockId, Cause, DieId, Layout};

/// Role of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Free,
    /// Unit i of this logical block lies at unit i, or somewhere else.
    Data(u32),
    /// Among the log blocks of its die.
    Log,
    /// Destination of the full merge that is under way.
    Destination,
    /// Holds metadata.
    Metadata,
    /// Nothing in it is needed; it waits for its erase.
    Leaving,
    Erasing,
    Bad,
}

#[derive(Clone, Debug)]
struct Record {
    role: Role,
    references: u32,
    in_flight: u32,
    /// Number of the last trim, or loss, that made a copy in it invalid.
    last_trim: u64,
    /// Cause of giving it up, and the kind of merge.
    cause: Cause,
    merge: Option<MergeKind>,
}

/// All blocks of a drive.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    pool: Pool,
    records: Vec<Record>,
    per_die: u32,
    leaving: Vec<BlockId>,
    /// Per die: blocks that come back as free ones by themselves.
    returning: Vec<u32>,
    /// Per die: blocks that can be used, now or later.
    good: Vec<u32>,
    bad: u32,
}

impl Blocks {
    /// Creates blocks that are all free, except the `bad` ones. `dynamic`: the least worn free block is taken first, otherwise the one
    /// that has been free longest.
    pub fn new(layout: &Layout, bad: &[BlockId], dynamic: bool) -> Blocks {
        let record = Record {
            role: Role::Free,
            references: 0,
            in_flight: 0,
            last_trim: 0,
            cause: Cause::Gc,
            merge: None,
        };
        let dies = layout.dies as usize;
        let order = if dynamic { TakeOrder::LeastWorn } else { TakeOrder::Oldest };
        let mut blocks = Blocks {
            pool: Pool::all_free(layout, 0..layout.blocks_per_die, order),
            records: vec![record; layout.blocks as usize],
            per_die: layout.blocks_per_die,
            leaving: Vec::new(),
            returning: vec![0; dies],
            good: vec![layout.blocks_per_die; dies],
            bad: 0,
        };
        bad.iter().for_each(|&block| blocks.retire(block));
        blocks
    }

    fn die(&self, block: BlockId) -> usize {
        (block.0 / self.per_die) as usize
    }

    fn record(&mut self, block: BlockId) -> &mut Record {
        &mut self.records[block.0 as usize]
    }

    #[inline]
    pub fn role(&self, block: BlockId) -> Role {
        self.records[block.0 as usize].role
    }

    pub fn set_role(&mut self, block: BlockId, role: Role) {
        self.record(block).role = role;
    }

    /// Takes a free block of `die`; `worn`: the most worn one.
    pub fn take(&mut self, die: DieId, role: Role, worn: bool) -> Option<BlockId> {
        let block = if worn { self.pool.take_most_worn(die) } else { self.pool.take(die) }?;
        let record = self.record(block);
        (record.role, record.last_trim) = (role, 0);
        Some(block)
    }

    /// Takes, at a mount, the free block of this number, which holds data.
    pub fn take_this(&mut self, block: BlockId, role: Role) {
        self.pool.take_this(block);
        self.record(block).role = role;
    }

    /// Gives back a block that was never programmed.
    pub fn give_back(&mut self, block: BlockId) {
        self.record(block).role = Role::Free;
        self.pool.give(block);
    }

    #[inline]
    pub fn references(&self, block: BlockId) -> u32 {
        self.records[block.0 as usize].references
    }

    #[inline]
    pub fn refer(&mut self, block: BlockId) {
        self.record(block).references += 1;
    }

    #[inline]
    pub fn unrefer(&mut self, block: BlockId) {
        self.record(block).references -= 1;
    }

    #[inline]
    pub fn in_flight(&self, block: BlockId) -> u32 {
        self.records[block.0 as usize].in_flight
    }

    #[inline]
    pub fn program_begins(&mut self, block: BlockId) {
        self.record(block).in_flight += 1;
    }

    #[inline]
    pub fn program_ended(&mut self, block: BlockId) {
        self.record(block).in_flight -= 1;
    }

    pub fn last_trim(&self, block: BlockId) -> u64 {
        self.records[block.0 as usize].last_trim
    }

    pub fn set_last_trim(&mut self, block: BlockId, trim: u64) {
        self.record(block).last_trim = trim;
    }

    /// Releases `block`, whose contents are no longer needed because of `cause`.
    pub fn leave(&mut self, block: BlockId, cause: Cause, merge: Option<MergeKind>) {
        let (die, failed) = (self.die(block), self.failed(block));
        let record = self.record(block);
        assert_eq!(record.references, 0, "block {} is given up, but needed", block.0);
        (record.role, record.cause, record.merge) = (Role::Leaving, cause, merge);
        self.leaving.push(block);
        self.returning[die] += u32::from(!failed);
    }

    /// Blocks that wait for their erase.
    pub fn leaving(&self) -> &[BlockId] {
        &self.leaving
    }

    /// Takes the block at a place of [`Blocks::leaving`] to be erased; returns why it was given up, and by which kind of merge.
    pub fn erase(&mut self, at: usize) -> (BlockId, Cause, Option<MergeKind>) {
        let block = self.leaving.remove(at);
        let record = self.record(block);
        record.role = Role::Erasing;
        (block, record.cause, record.merge)
    }

    /// Retires the block at a place of [`Blocks::leaving`], which has failed.
    pub fn retire_leaving(&mut self, at: usize) -> BlockId {
        let block = self.leaving.remove(at);
        self.retire(block);
        block
    }

    /// Records the end of the erase of `block`.
    pub fn erased(&mut self, block: BlockId, ok: bool) {
        let die = self.die(block);
        self.returning[die] -= 1;
        if ok {
            self.record(block).role = Role::Free;
            self.pool.set_erases(block, self.pool.erases(block) + 1);
            self.pool.give(block);
        } else {
            self.retire(block);
        }
    }

    /// Blocks of `die` that will become free without a merge.
    pub fn returning(&self, die: DieId) -> u32 {
        self.returning[die.0 as usize]
    }

    /// Marks a block as failed: it accepts no more data, and is retired instead of erased. Returns whether the block
    /// was not marked before.
    pub fn fail(&mut self, block: BlockId) -> bool {
        let (die, role) = (self.die(block), self.role(block));
        if matches!(role, Role::Free | Role::Erasing | Role::Bad) || self.failed(block) {
            return false;
        }
        self.pool.mark_failed(block);
        self.good[die] -= 1;
        self.returning[die] -= u32::from(role == Role::Leaving);
        true
    }

    pub fn failed(&self, block: BlockId) -> bool {
        self.pool.is_failed(block)
    }

    /// Retires `block`.
    pub fn retire(&mut self, block: BlockId) {
        let die = self.die(block);
        self.good[die] -= u32::from(!self.failed(block));
        self.bad += 1;
        self.record(block).role = Role::Bad;
        self.pool.retire(block);
    }

    /// Blocks of `die` that have not failed.
    pub fn good(&self, die: DieId) -> u32 {
        self.good[die.0 as usize]
    }

    pub fn bad(&self) -> u32 {
        self.bad
    }

    pub fn free(&self, die: DieId) -> u32 {
        self.pool.free_count(die)
    }

    pub fn free_total(&self) -> u32 {
        self.pool.free_total()
    }

    pub fn erases(&self, block: BlockId) -> u32 {
        self.pool.erases(block)
    }

    pub fn set_erases(&mut self, block: BlockId, erases: u32) {
        self.pool.set_erases(block, erases);
    }

    /// The blocks of `die`.
    pub fn of_die(&self, die: DieId) -> impl Iterator<Item = BlockId> + use<> {
        (die.0 * self.per_die..(die.0 + 1) * self.per_die).map(BlockId)
    }

    pub fn memory_bytes(&self) -> u64 {
        self.pool.memory_bytes() + (self.records.len() * size_of::<Record>()) as u64
    }

    /// Panics where roles, pool and counts disagree.
    pub fn check(&self) {
        self.pool.check();
        let roles = |die: usize| {
            self.of_die(DieId(die as u32)).map(|block| (block, self.role(block), self.failed(block)))
        };
        for die in 0..self.good.len() {
            let free = roles(die).filter(|&(_, role, _)| role == Role::Free).count();
            assert_eq!(free, self.free(DieId(die as u32)) as usize, "free blocks of die {die}");
            let returning = roles(die)
                .filter(|&(_, role, failed)| matches!(role, Role::Leaving | Role::Erasing) && !failed);
            assert_eq!(returning.count(), self.returning[die] as usize, "blocks of die {die} that come back");
            let good = roles(die).filter(|&(_, role, failed)| role != Role::Bad && !failed).count();
            assert_eq!(good, self.good[die] as usize, "good blocks of die {die}");
        }
        let leaving = self.records.iter().filter(|r| r.role == Role::Leaving).count();
        assert_eq!(leaving, self.leaving.len(), "blocks that wait for their erase");
        assert!(self.leaving.iter().all(|&b| self.role(b) == Role::Leaving));
        for (block, record) in self.records.iter().enumerate() {
            let unused = matches!(record.role, Role::Free | Role::Leaving | Role::Erasing | Role::Bad);
            assert!(!unused || record.references == 0, "block {block} is {:?}, and needed", record.role);
        }
    }
}
