//! Notices of chunks that hosts have not received yet.
//!
//! Invariant: at most [`NOTICES_MAX`] wait. Notices are numbered, so a host sees from a gap that some were lost.

use pellucid_flash::{ChunkNotice, ChunkReason, ChunkScope, Lba};
use std::collections::VecDeque;

/// Notices that wait for the host; when there are more, the oldest are lost.
const NOTICES_MAX: usize = 4096;

/// Notices of all namespaces, in the order of what they tell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notices {
    /// Each with its namespace.
    waiting: VecDeque<(u16, ChunkNotice)>,
    /// Notices so far, lost ones included.
    count: u64,
}

impl Notices {
    /// Tells the hosts of a namespace of sectors from `lba` on.
    pub fn tell(&mut self, namespace: u16, lba: Lba, sectors: u32, reason: ChunkReason, scope: ChunkScope) {
        self.count += 1;
        if self.waiting.len() == NOTICES_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back((namespace, ChunkNotice { count: self.count, lba, sectors, reason, scope }));
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The oldest notice, and its namespace.
    #[inline]
    pub fn pop(&mut self) -> Option<(u16, ChunkNotice)> {
        self.waiting.pop_front()
    }
}
