//! The copying merge of a die, and the blocks whose data have to leave them.
//!
//! ```text
//!  evacuate ─► next_evacuation ─► gather ─► begin ─► superpage read ─► programmed ─► ... ─► take (commit), or abandon (failed)
//! ```
//! Invariants: a die has one merge at a time; a block is evacuated once at most; sources are those of the merge under way.

use super::merge::MergeKind;
use pellucid_flash::{BlockId, Cause, Ppa};
use std::collections::VecDeque;

/// A block whose data have to leave it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evacuation {
    pub block: BlockId,
    pub cause: Cause,
}

/// The purpose of a merge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    pub lbn: u32,
    pub kind: MergeKind,
    pub cause: Cause,
    /// The log block that belonged to the logical block when the merge began, and is closed.
    pub own: Option<BlockId>,
}

/// The copying merge of a die.
#[derive(Clone, Debug)]
pub(super) struct Merge {
    target: BlockId,
    aim: Aim,
    /// The next superpage, and the last.
    next: u32,
    end: u32,
    /// A superpage is being read.
    reading: bool,
    programming: u32,
    failed: bool,
}

impl Merge {
    /// Creates a merge that copies superpages `next` to `end` to `target`.
    pub fn new(target: BlockId, aim: Aim, (next, end): (u32, u32)) -> Merge {
        Merge { target, aim, next, end, reading: false, programming: 0, failed: false }
    }

    pub fn target(&self) -> BlockId {
        self.target
    }

    pub fn aim(&self) -> Aim {
        self.aim
    }

    /// The next superpage.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// The last superpage.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// Returns whether another superpage can be read now.
    pub fn can_read(&self) -> bool {
        // The last superpage of a full merge asserts that all before it are good.
        let last_waits = self.aim.kind == MergeKind::Full && self.next == self.end && self.programming > 0;
        !self.failed && !self.reading && self.next <= self.end && self.programming <= 1 && !last_waits
    }

    /// Begins to read the next superpage.
    pub fn begin_read(&mut self) {
        self.reading = true;
    }

    /// Ends the read of a superpage; `false`: none was being read.
    pub fn end_read(&mut self) -> bool {
        std::mem::take(&mut self.reading)
    }

    /// Begins to program the superpage that was read.
    pub fn begin_program(&mut self) {
        self.next += 1;
        self.programming += 1;
    }

    /// Ends a program.
    pub fn end_program(&mut self, ok: bool) {
        self.programming -= 1;
        self.failed |= !ok;
    }

    /// Marks the merge as failed: its sources are where they were.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Returns whether programs have not ended.
    pub fn is_programming(&self) -> bool {
        self.programming > 0
    }

    /// Returns whether it neither reads nor programs.
    pub fn is_at_rest(&self) -> bool {
        !self.reading && self.programming == 0
    }

    /// Returns whether all is copied.
    pub fn is_complete(&self) -> bool {
        self.programming == 0 && self.next > self.end
    }
}

/// Merges of a die.
#[derive(Clone, Debug, Default)]
pub(super) struct Merges {
    evacuations: VecDeque<Evacuation>,
    merge: Option<Merge>,
    /// Former address of each page of the merge; `sources`: those of the superpage that is being read.
    from: Vec<Ppa>,
    sources: Vec<Ppa>,
    /// A merge has no block for its destination, and none will come back.
    starved: bool,
}

impl Merges {
    /// Queues a block to be evacuated; `false`: it is queued already.
    pub fn evacuate(&mut self, block: BlockId, cause: Cause) -> bool {
        let new = !self.evacuates(block);
        if new {
            self.evacuations.push_back(Evacuation { block, cause });
        }
        new
    }

    /// Returns whether the data of a block are to leave it.
    pub fn evacuates(&self, block: BlockId) -> bool {
        self.evacuations.iter().any(|evacuation| evacuation.block == block)
    }

    /// Returns whether a block waits that is evacuated for `cause`.
    pub fn evacuates_for(&self, cause: Cause) -> bool {
        self.evacuations.iter().any(|evacuation| evacuation.cause == cause)
    }

    /// Returns whether any block waits.
    #[inline]
    pub fn has_evacuations(&self) -> bool {
        !self.evacuations.is_empty()
    }

    /// The block to be evacuated first.
    pub fn next_evacuation(&self) -> Option<Evacuation> {
        self.evacuations.front().copied()
    }

    /// Ends the first evacuation.
    pub fn end_evacuation(&mut self) {
        self.evacuations.pop_front();
    }

    /// Gives all evacuations up.
    pub fn clear_evacuations(&mut self) {
        self.evacuations.clear();
    }

    /// The merge under way.
    pub fn current(&self) -> Option<&Merge> {
        self.merge.as_ref()
    }

    /// The merge under way, to be changed.
    pub fn current_mut(&mut self) -> Option<&mut Merge> {
        self.merge.as_mut()
    }

    /// Begins a merge of the sources that were gathered.
    pub fn begin(&mut self, merge: Merge) {
        assert!(self.merge.is_none(), "a die has one merge at a time");
        self.merge = Some(merge);
    }

    /// Ends the merge; its sources stay until the next one is gathered.
    pub fn take(&mut self) -> Option<Merge> {
        self.merge.take()
    }

    /// Gathers the sources of a merge, page by page.
    pub fn gather(&mut self, sources: impl Iterator<Item = Ppa>) {
        self.from.clear();
        self.from.extend(sources);
    }

    /// Former address of each page of the merge; [`Ppa::NONE`]: it is not copied.
    pub fn from(&self) -> &[Ppa] {
        &self.from
    }

    /// Former address of a page of the merge.
    pub fn source(&self, at: u32) -> Ppa {
        self.from.get(at as usize).copied().unwrap_or(Ppa::NONE)
    }

    /// Leaves out these pages of the merge.
    pub fn leave_out(&mut self, pages: std::ops::Range<usize>) {
        self.from[pages].fill(Ppa::NONE);
    }

    /// The last page that is copied.
    pub fn last_source(&self) -> Option<u32> {
        self.from.iter().rposition(|ppa| ppa.is_some()).map(|at| at as u32)
    }

    /// Takes the sources of the superpage of these pages that are `current`.
    pub fn read_sources(&mut self, pages: std::ops::Range<u32>, is_current: impl Fn(u32, Ppa) -> bool) {
        let (from, sources) = (&self.from, &mut self.sources);
        sources.clear();
        sources.extend(pages.map(|at| {
            let source = from.get(at as usize).copied().unwrap_or(Ppa::NONE);
            if source.is_some() && is_current(at, source) { source } else { Ppa::NONE }
        }));
    }

    /// The sources of the superpage that is being read.
    pub fn sources(&self) -> &[Ppa] {
        &self.sources
    }

    /// Sets whether a merge lacks a block for its destination and none will become free.
    pub fn set_starved(&mut self, starved: bool) {
        self.starved = starved;
    }

    pub fn is_starved(&self) -> bool {
        self.starved
    }
}
