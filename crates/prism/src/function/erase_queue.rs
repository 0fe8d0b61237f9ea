//! Queue of the erases of a LUN, and when one may begin.
//!
//! ```text
//!   push ─► nothing reads the block, no write of it is under way, and one of
//!            - the application has nothing under way in the LUN
//!            - the LUN has fewer than FREE_LOW erased blocks, or a write waits for this erase
//!            - PASSED_MAX commands of the application went before it
//!          ─► choose, begin ─► end           one erase at a time
//! ```
//! So a read waits for one erase at most, the one under way in its die, and blocks become free even under load that never pauses.

use std::collections::VecDeque;

/// With fewer erased blocks than this a LUN does not wait until it is idle.
const FREE_LOW: u32 = 2;

/// Largest number of the application's commands that may overtake a waiting erase.
const PASSED_MAX: u32 = 64;

/// Queue of the erases of a LUN.
#[derive(Clone, Debug, Default)]
pub(super) struct EraseQueue {
    /// Blocks that wait for their erase, the oldest first.
    waiting: VecDeque<u32>,
    erasing: Option<u32>,
    /// Commands of the application under way.
    busy: u32,
    /// Commands of the application that went before the erase that waits.
    passed: u32,
}

impl EraseQueue {
    /// A command of the application begins.
    pub fn begin_command(&mut self) {
        self.busy += 1;
        self.passed += u32::from(!self.waiting.is_empty());
    }

    /// A command of the application has ended.
    pub fn end_command(&mut self) {
        self.busy -= 1;
    }

    /// Makes a block wait for its erase.
    pub fn push(&mut self, block: u32) {
        self.waiting.push_back(block);
    }

    /// Blocks that wait, and the one that is erased.
    pub fn blocks(&self) -> impl Iterator<Item = u32> {
        self.waiting.iter().chain(&self.erasing).copied()
    }

    /// Returns whether a block is erased now.
    pub fn is_erasing(&self, block: u32) -> bool {
        self.erasing == Some(block)
    }

    /// The place of the erase that may begin now in a LUN with `free` erased blocks. `may` says so of a block; its second argument:
    /// though no write waits for it.
    pub fn choose(&self, free: u32, may: impl Fn(u32, bool) -> bool) -> Option<usize> {
        if self.erasing.is_some() || self.waiting.is_empty() {
            return None;
        }
        let any = self.busy == 0 || self.passed >= PASSED_MAX || free < FREE_LOW;
        self.waiting.iter().position(|&block| may(block, any))
    }

    /// Begins the erase at this place: returns its block.
    pub fn begin(&mut self, at: usize) -> u32 {
        assert!(self.erasing.is_none(), "a LUN has one erase at a time");
        let block = self.waiting.remove(at).expect("an erase that waits");
        (self.erasing, self.passed) = (Some(block), 0);
        block
    }

    /// Ends the erase of a block.
    pub fn end(&mut self, block: u32) {
        assert_eq!(self.erasing.take(), Some(block), "an erase that was begun");
    }
}
