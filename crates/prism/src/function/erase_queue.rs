//! The erase queue of a LUN, and when an erase may start.
//!
//! ```text
//!   push ─► nothing reads the block, no write to it is in flight, and one of
//!            - the application has nothing in flight in the LUN
//!            - the LUN has fewer than FREE_LOW erased blocks, or a write waits for this erase
//!            - PASSED_MAX commands of the application overtook it
//!          ─► choose, begin ─► end           one erase at a time
//! ```
//! So a read waits for at most one erase, the one in flight in its die, and blocks become free even under continuous load.

use std::collections::VecDeque;

/// With fewer erased blocks than this, a LUN does not wait until it is idle.
const FREE_LOW: u32 = 2;

/// Maximum number of the application's commands that may overtake a waiting erase.
const PASSED_MAX: u32 = 64;

/// The erase queue of a LUN.
#[derive(Clone, Debug, Default)]
pub(super) struct EraseQueue {
    /// Blocks that wait for their erase, oldest first.
    waiting: VecDeque<u32>,
    erasing: Option<u32>,
    /// The application's commands in flight.
    busy: u32,
    /// The application's commands that have overtaken the waiting erase.
    passed: u32,
}

impl EraseQueue {
    /// Notes the start of an application's command.
    pub fn begin_command(&mut self) {
        self.busy += 1;
        self.passed += u32::from(!self.waiting.is_empty());
    }

    /// Notes the end of an application's command.
    pub fn end_command(&mut self) {
        self.busy -= 1;
    }

    /// Queues a block for its erase.
    pub fn push(&mut self, block: u32) {
        self.waiting.push_back(block);
    }

    /// Blocks that wait, and the one being erased.
    pub fn blocks(&self) -> impl Iterator<Item = u32> {
        self.waiting.iter().chain(&self.erasing).copied()
    }

    /// Reports whether a block is being erased.
    pub fn is_erasing(&self, block: u32) -> bool {
        self.erasing == Some(block)
    }

    /// Position of the erase that may start now in a LUN with `free` erased blocks. `may` reports this of a block; its second argument allows it even
    /// if no write waits.
    pub fn choose(&self, free: u32, may: impl Fn(u32, bool) -> bool) -> Option<usize> {
        if self.erasing.is_some() || self.waiting.is_empty() {
            return None;
        }
        let any = self.busy == 0 || self.passed >= PASSED_MAX || free < FREE_LOW;
        self.waiting.iter().position(|&block| may(block, any))
    }

    /// Starts the erase at this position; returns its block.
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
