//! Threads that wait for a block, or until less memory is dirty; and woken ones.
//!
//! Invariant: a thread waits for one thing at a time.

use std::collections::{BTreeMap, VecDeque};

/// Waiting and woken threads.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    /// By block: threads woken when its request ends.
    blocks: BTreeMap<u32, Vec<u32>>,
    /// Writers that wait until less memory is dirty.
    throttled: Vec<u32>,
    woken: VecDeque<u32>,
}

impl Waits {
    /// Makes a thread wait for the request of a block.
    pub fn wait_for(&mut self, block: u32, thread: u32) {
        self.blocks.entry(block).or_default().push(thread);
    }

    /// Wakes the threads that wait for a block.
    pub fn block_ended(&mut self, block: u32) {
        self.woken.extend(self.blocks.remove(&block).unwrap_or_default());
    }

    /// Makes a thread wait until less memory is dirty.
    pub fn throttle(&mut self, thread: u32) {
        self.throttled.push(thread);
    }

    /// Wakes the throttled writers.
    pub fn release_throttled(&mut self) {
        self.woken.extend(self.throttled.drain(..));
    }

    /// Wakes a thread that waited for something else.
    pub fn wake(&mut self, thread: u32) {
        self.woken.push_back(thread);
    }

    /// Takes the next woken thread.
    pub fn next_woken(&mut self) -> Option<u32> {
        self.woken.pop_front()
    }
}
