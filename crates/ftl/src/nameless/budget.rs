//! Space that is left: names that can be given, and pages that can be written.
//!
//! Invariants: live names and names being written do not exceed the capacity; the remaining pages are those of free blocks plus the rest
//! of open blocks.

use super::Taker;

/// Named units, against the capacity.
#[derive(Clone, Debug)]
pub(super) struct NameCount {
    /// Most nameless units that may live.
    capacity: u32,
    /// Nameless units that live, and those on their way.
    named: u32,
    promised: u32,
}

impl NameCount {
    pub fn new(capacity: u32) -> NameCount {
        NameCount { capacity, named: 0, promised: 0 }
    }

    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Units that have names.
    pub fn named(&self) -> u32 {
        self.named
    }

    /// Reserves space for `units` more, which are then on their way; `false`: there is none.
    pub fn promise(&mut self, units: u32) -> bool {
        let all = u64::from(self.named) + u64::from(self.promised) + u64::from(units);
        let fits = all <= self.capacity.into();
        self.promised += if fits { units } else { 0 };
        fits
    }

    /// Releases space of units that will not be written.
    pub fn break_promise(&mut self, units: u32) {
        self.promised -= units;
    }

    /// A promised unit has its name.
    pub fn written(&mut self) {
        self.promised -= 1;
        self.named += 1;
    }

    /// A named unit was found in a checkpoint.
    pub fn found(&mut self) {
        self.named += 1;
    }

    /// A name was freed.
    pub fn freed(&mut self) {
        self.named -= 1;
    }
}

/// Pages that can still be written: in open blocks, and in free ones.
#[derive(Clone, Debug)]
pub(super) struct PagesLeft {
    left: u32,
    of_block: u32,
}

impl PagesLeft {
    /// Creates the count of so many free blocks, with so many pages each.
    pub fn new(blocks: u32, of_block: u32) -> PagesLeft {
        PagesLeft { left: blocks * of_block, of_block }
    }

    pub fn left(&self) -> u32 {
        self.left
    }

    /// Returns whether there are pages for `taker`: a block's worth is kept for the copies of a victim, another for virtual writes.
    pub fn has(&self, taker: Taker) -> bool {
        let kept = match taker {
            Taker::Gc => 0,
            Taker::Virtual => 1,
            Taker::Nameless => 2,
        };
        self.left > kept * self.of_block
    }

    /// A page is taken.
    pub fn take(&mut self) {
        self.left -= 1;
    }

    /// An open block is closed after `pages` pages.
    pub fn close(&mut self, pages: u32) {
        self.left -= self.of_block - pages;
    }

    /// A free block is in use, or out of use.
    pub fn lose_block(&mut self) {
        self.left -= self.of_block;
    }

    /// A block is free.
    pub fn gain_block(&mut self) {
        self.left += self.of_block;
    }
}
