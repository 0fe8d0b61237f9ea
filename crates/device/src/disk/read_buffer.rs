//! The read buffer: which ranges the disk has read lately, and how far it has read ahead.
//!
//! It knows addresses, not data: what is written to a range that it holds is updated in it.

use std::collections::VecDeque;
use std::ops::Range;

#[derive(Clone, Debug)]
pub(super) struct ReadBuffer {
    /// The one in use last is the first.
    segments: VecDeque<Range<u64>>,
    count: usize,
    sectors: u64,
}

impl ReadBuffer {
    pub fn new(count: u32, sectors: u64) -> ReadBuffer {
        ReadBuffer { segments: VecDeque::new(), count: count as usize, sectors }
    }

    /// Sectors of a segment; 0: nothing is kept.
    pub fn segment_sectors(&self) -> u64 {
        if self.count == 0 { 0 } else { self.sectors }
    }

    /// Returns whether the buffer holds all of these sectors; their segment is then the most recently used one.
    pub fn hit(&mut self, range: &Range<u64>) -> bool {
        let found = self.segments.iter().position(|s| s.start <= range.start && range.end <= s.end);
        let Some(at) = found else { return false };
        if at > 0
            && let Some(segment) = self.segments.remove(at)
        {
            self.segments.push_front(segment);
        }
        true
    }

    /// Adds sectors that have been read, at the end of a segment or as a new one.
    pub fn add(&mut self, range: Range<u64>) {
        if self.segment_sectors() == 0 || range.is_empty() {
            return;
        }
        let continued = self
            .segments
            .iter()
            .position(|s| s.start <= range.start && range.start <= s.end && s.end < range.end);
        let start = match continued.and_then(|at| self.segments.remove(at)) {
            Some(segment) => segment.start,
            None => range.start,
        };
        // The next request is likely to be ahead; as much again is kept behind.
        let start = start.max(range.end.saturating_sub(2 * self.sectors));
        self.segments.push_front(start..range.end);
        self.segments.truncate(self.count);
    }

    pub fn clear(&mut self) {
        self.segments.clear();
    }
}
