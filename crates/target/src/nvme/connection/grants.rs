//! Grants: the commands that wait for an R2T or for memory, and the bytes that were asked for.
//!
//! Invariant: the buffers of slots with a transfer sum up to `bytes`.

use crate::nvme::GRANTED_BYTES_MAX;
use std::collections::VecDeque;

/// Memory granted to the host's data.
#[derive(Debug, Default)]
pub(super) struct Grants {
    /// Slots that wait for an R2T, or for the memory budget of a read.
    waiting: VecDeque<u16>,
    bytes: usize,
}

impl Grants {
    pub fn wait(&mut self, index: u16) {
        self.waiting.push_back(index);
    }

    #[inline]
    pub fn first(&self) -> Option<u16> {
        self.waiting.front().copied()
    }

    #[inline]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Notes that the first slot goes on.
    #[inline]
    pub fn first_goes_on(&mut self) {
        self.waiting.pop_front().expect("a slot waits");
    }

    /// Notes that a slot no longer waits.
    pub fn forget(&mut self, index: u16) {
        self.waiting.retain(|&waiting| waiting != index);
    }

    /// Reports whether the given number of further bytes may be requested. One command always may.
    #[inline]
    pub fn has_room(&self, bytes: u32) -> bool {
        self.bytes == 0 || self.bytes + bytes as usize <= GRANTED_BYTES_MAX
    }

    #[inline]
    pub fn grant(&mut self, bytes: u32) {
        self.bytes += bytes as usize;
    }

    /// Notes that granted bytes have arrived.
    #[inline]
    pub fn arrived(&mut self, bytes: u32) {
        assert!(bytes as usize <= self.bytes, "more bytes arrive than were granted");
        self.bytes -= bytes as usize;
    }
}
