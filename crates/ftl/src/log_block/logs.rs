//! Data blocks and log blocks of a die.
//!
//! ```text
//!  open ─► grew, superpage by superpage ─► closed ─► removed: merged away, or the data block from now on
//! ```
//! Invariants: a logical block has at most one data block and one log block of its own; the list of a log block has the page of every unit
//! of its superpages so far.

use super::core::Shape;
use pellucid_flash::{BlockId, Lpn};

/// Age, in sequence numbers, beyond which a block is not written on: the numbers of its superpages count from its first, in 32 bits.
const BLOCK_SEQUENCES: u64 = 1 << 31;
const NO_BLOCK: BlockId = BlockId(u32::MAX);

/// A log block.
#[derive(Clone, Debug)]
pub(super) struct Log {
    block: BlockId,
    /// The logical block to which all of it belongs; `None`: any.
    owner: Option<u32>,
    /// The next superpage.
    next: u32,
    /// The log block takes more data, as far as it has space.
    open: bool,
    /// Every page in the log block lies at its place.
    in_place: bool,
    /// Sequence numbers: of its first superpage, and of the last one that a host wrote.
    began: u64,
    used_at: u64,
    /// The page of each unit.
    pages: Vec<Lpn>,
}

impl Log {
    /// The log block `block` of `owner` that a mount has found, with this list; `used`: numbers of its first and last superpage.
    pub fn found(
        shape: &Shape,
        block: BlockId,
        owner: Option<u32>,
        fits: bool,
        (began, used_at): (u64, u64),
        pages: Vec<Lpn>,
    ) -> Log {
        let next = pages.len() as u32 / shape.layout.units_per_superpage;
        let in_place = owner.is_some_and(|owner| {
            (0..).zip(&pages).all(|(at, &lpn)| lpn == Lpn::NONE || lpn == shape.lpn(owner, at))
        });
        Log { block, owner, next, open: fits, in_place, began, used_at, pages }
    }

    pub fn block(&self) -> BlockId {
        self.block
    }

    /// The logical block to which all of it belongs; `None`: any.
    pub fn owner(&self) -> Option<u32> {
        self.owner
    }

    /// The next superpage.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Returns whether it takes more data, as far as it has space.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Returns whether it has no space left.
    pub fn is_full(&self, shape: &Shape) -> bool {
        self.next == shape.layout.superpages_per_block
    }

    /// Returns whether every page in it lies at its place.
    pub fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// Number of the last superpage that a host wrote.
    pub fn used_at(&self) -> u64 {
        self.used_at
    }

    /// The page of each unit.
    pub fn pages(&self) -> &[Lpn] {
        &self.pages
    }
}

/// State of the sequential writes of a die (FAST).
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// The next page of the run; `None`: no run.
    next: Option<Lpn>,
    turn: u32,
}

/// Data blocks and log blocks of a die.
#[derive(Clone, Debug)]
pub(super) struct Logs {
    /// The data block of each of its logical blocks.
    data: Vec<BlockId>,
    /// Log blocks, the oldest first.
    logs: Vec<Log>,
    run: Run,
    /// Page lists of former log blocks, for reuse.
    lists: Vec<Vec<Lpn>>,
}

impl Logs {
    /// Creates the state of a die with the given number of logical blocks, none of which has a
    /// block.
    pub fn new(logical_blocks: u32) -> Logs {
        Logs {
            data: vec![NO_BLOCK; logical_blocks as usize],
            logs: Vec::new(),
            run: Run::default(),
            lists: Vec::new(),
        }
    }

    /// Logical blocks that the die may have.
    pub fn logical_blocks(&self) -> usize {
        self.data.len()
    }

    /// The data block of the logical block of this number in the die.
    pub fn data(&self, local: u32) -> Option<BlockId> {
        Some(self.data[local as usize]).filter(|&block| block != NO_BLOCK)
    }

    /// Sets the data block of the logical block of this number in the die.
    pub fn set_data(&mut self, local: u32, block: Option<BlockId>) {
        self.data[local as usize] = block.unwrap_or(NO_BLOCK);
    }

    /// Logical blocks that have a data block, by their number in the die, and that block.
    pub fn all_data(&self) -> impl Iterator<Item = (u32, BlockId)> + '_ {
        (0..).zip(self.data.iter().copied()).filter(|&(_, block)| block != NO_BLOCK)
    }

    /// Log blocks, the oldest first.
    pub fn all(&self) -> &[Log] {
        &self.logs
    }

    /// A log block, by its position.
    pub fn at(&self, position: usize) -> &Log {
        &self.logs[position]
    }

    /// The log block in this block.
    pub fn of_block(&self, block: BlockId) -> Option<&Log> {
        self.logs.iter().find(|log| log.block == block)
    }

    /// Position of the log block of logical block `lbn` alone.
    pub fn owned(&self, lbn: u32) -> Option<usize> {
        self.logs.iter().position(|log| log.owner == Some(lbn))
    }

    /// Begins a log block in `block`, whose first superpage will have the number `sequence`; returns its position.
    pub fn open(&mut self, block: BlockId, owner: Option<u32>, sequence: u64) -> usize {
        let pages = self.lists.pop().unwrap_or_default();
        let (began, used_at, in_place) = (sequence, sequence, owner.is_some());
        self.logs.push(Log { block, owner, next: 0, open: true, in_place, began, used_at, pages });
        self.logs.len() - 1
    }

    /// Adds, at a mount, a log block that was found.
    pub fn keep(&mut self, log: Log) {
        self.logs.push(log);
    }

    /// Sorts, at a mount, the log blocks by their age.
    pub fn sort(&mut self) {
        self.logs.sort_by_key(|log| log.began);
    }

    /// Returns whether the log block at `position` accepts another superpage, which would have the number `sequence`. Closes a log
    /// block that was begun too long ago.
    pub fn takes_more(&mut self, shape: &Shape, position: usize, sequence: u64) -> bool {
        let log = &mut self.logs[position];
        log.open &= sequence - log.began < BLOCK_SEQUENCES;
        log.open && log.next < shape.layout.superpages_per_block
    }

    /// Records that a host writes to the log block at `position` with the number `sequence`.
    pub fn used(&mut self, position: usize, sequence: u64) {
        self.logs[position].used_at = sequence;
    }

    /// Appends `lpns` to the log block in `block` as its next superpage.
    pub fn grew(&mut self, shape: &Shape, block: BlockId, lpns: &[Lpn]) {
        let (per_block, per_superpage) = (shape.layout.units_per_block, shape.layout.units_per_superpage);
        let Some(log) = self.logs.iter_mut().find(|log| log.block == block) else { return };
        if let Some(owner) = log.owner {
            let first = owner * per_block + log.next * per_superpage;
            let at_place = |(place, lpn): (u32, &Lpn)| *lpn == Lpn::NONE || lpn.0 == place;
            log.in_place &= (first..).zip(lpns).all(at_place);
        }
        log.next += 1;
        log.pages.extend_from_slice(lpns);
        log.pages.resize((log.next * per_superpage) as usize, Lpn::NONE);
    }

    /// Closes the log block in `block`: it takes no more host data.
    pub fn close(&mut self, block: BlockId) {
        if let Some(log) = self.logs.iter_mut().find(|log| log.block == block) {
            log.open = false;
        }
    }

    /// Removes the log block in `block`.
    pub fn remove(&mut self, block: BlockId) {
        if let Some(at) = self.logs.iter().position(|log| log.block == block) {
            let mut pages = self.logs.remove(at).pages;
            pages.clear();
            self.lists.push(pages);
        }
    }

    /// The turn of the run of sequential writes that `lpn`, page `at` of its logical block, begins or continues; `None`: of none.
    pub fn run(&mut self, shape: &Shape, lpn: Lpn, at: u32) -> Option<u32> {
        if at == 0 {
            self.run.turn ^= 1;
        } else if self.run.next != Some(lpn) {
            return None;
        }
        let last = at + 1 == shape.layout.units_per_block;
        self.run.next = (!last).then_some(Lpn(lpn.0 + 1));
        Some(self.run.turn)
    }
}
