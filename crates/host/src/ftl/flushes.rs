//! Flushes: the flushes and forced writes that wait for the media.
//!
//! ```text
//!  forced write, flush ─► point in the ring ─► everything before it is on the media ─┬─► forced write done
//!                                                                                    └─► flush: trims are on the media ─► done
//! ```
//! Invariant: the points only rise, so waiting flushes form one queue.

use pellucid_ftl::FlushPoint;
use std::collections::VecDeque;

/// Waiting flushes and forced writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flushes {
    /// Requests that wait until the ring is on the media up to a point.
    awaiting: VecDeque<(u64, u32)>,
    /// Flushes whose data are on the media, each with the point of the trims that it waits for.
    trims: VecDeque<(FlushPoint, u32)>,
}

impl Flushes {
    /// Reports whether a request waits.
    pub fn is_waiting(&self) -> bool {
        !self.awaiting.is_empty() || !self.trims.is_empty()
    }

    /// Lets a request wait until the ring is on the media up to `point`.
    pub fn wait(&mut self, point: u64, request: u32) {
        assert!(self.awaiting.back().is_none_or(|last| last.0 <= point), "points of flushes rise");
        self.awaiting.push_back((point, request));
    }

    /// Returns the point that the next request waits for.
    #[inline]
    pub fn next_point(&self) -> Option<u64> {
        self.awaiting.front().map(|&(point, _)| point)
    }

    /// Removes and returns the next request, whose data are on the media.
    pub fn next(&mut self) -> Option<u32> {
        self.awaiting.pop_front().map(|(_, request)| request)
    }

    /// Lets a flush wait until the trims up to `point` are on the media.
    pub fn wait_for_trims(&mut self, point: FlushPoint, request: u32) {
        self.trims.push_back((point, request));
    }

    /// Returns the point that the next flush waits for.
    #[inline]
    pub fn next_trims(&self) -> Option<FlushPoint> {
        self.trims.front().map(|&(point, _)| point)
    }

    /// Removes and returns the next flush, whose trims are on the media.
    pub fn next_flush(&mut self) -> Option<u32> {
        self.trims.pop_front().map(|(_, request)| request)
    }

    /// Removes and returns all requests, those whose data are on the media first.
    pub fn take_all(&mut self) -> Vec<u32> {
        let trims = self.trims.drain(..).map(|(_, request)| request);
        trims.chain(self.awaiting.drain(..).map(|(_, request)| request)).collect()
    }
}
