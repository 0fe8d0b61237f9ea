//! The memory budget: one limit for the data that all connections of all protocols hold.
//!
//! ```text
//!   request ─ fits? ─► data come in ─► in a drive ─► to be sent ─► free again
//!               └ no: in the queue of its class ─ it fits, and its turn has come ─┘
//! ```
//! - A request with more than [`OWN_BYTES`] of data takes budget for all of them before the first byte is
//!   received, or before it is read. So a request that has begun can always be completed, and no request
//!   waits for budget while it holds some.
//! - There are two classes: medium requests, and large requests with more than [`LARGE_BYTES`]. Large
//!   requests together hold at most [`LARGE_BYTES_MAX`], half of the total, so medium requests never wait for
//!   large ones whose data do not arrive or whose answers are not taken.
//! - Within a class, requests that do not fit queue first come, first served. The bytes of a large request
//!   that waits only for the total are set aside, so medium requests cannot overtake it for ever.
//! - [`OWN_BYTES`] belong to each connection while it has nothing in the drives and nothing to send: within
//!   them it is served whatever others hold. So all connections together hold at most `TOTAL_BYTES_MAX`, plus
//!   twice `OWN_BYTES` each.
//! - Answers whose length is known in advance are limited to a [share](share_of) of the free budget. A
//!   connection that takes no answers fills its share; the more such connections there are, the smaller the
//!   share.
//! - While budget is short, a connection that holds more than its own bytes must move them: within
//!   the time that the server sets for a stall, a sixteenth must arrive or be taken, or the connection is closed.
//!
//! Invariants: `incoming` is the sum over the connections' [`Load`](crate::session::Load)s; `large` is the
//! sum of the data of large requests that are arriving, in drives, or waiting to be sent.

use crate::connection::ConnectionId;
use std::collections::VecDeque;

/// Maximum bytes of data that all connections together hold: being received, in the drives, and to be sent
/// (plus twice 16 KiB each).
pub const TOTAL_BYTES_MAX: usize = 256 << 20;
/// Data of a request that need no common budget.
pub const OWN_BYTES: usize = 16 << 10;
/// A request with more data is large. The longest NVMe request is not.
pub const LARGE_BYTES: usize = 1 << 20;
/// Maximum that large requests hold together.
pub const LARGE_BYTES_MAX: usize = TOTAL_BYTES_MAX / 2;
/// Largest share of one connection.
const SHARE_BYTES_MAX: usize = 4 << 20;
/// Divisor: a share is this fraction of the free budget.
const SHARE_PART: usize = 16;
/// Divisor: while budget is short, a connection must move this fraction of what it holds within
/// the time that the server sets for a stall.
pub const STALL_PART: u64 = 16;

const _: () = assert!(LARGE_BYTES >= crate::nvme::TRANSFER_BYTES_MAX as usize);

/// Data of a request if it is large, else 0.
#[inline]
pub fn large_part(bytes: usize) -> usize {
    if bytes > LARGE_BYTES { bytes } else { 0 }
}

/// Limit of the answers that one connection holds when all connections hold `held` bytes.
#[inline]
pub fn share_of(held: usize) -> usize {
    (TOTAL_BYTES_MAX.saturating_sub(held) / SHARE_PART).clamp(OWN_BYTES, SHARE_BYTES_MAX)
}

/// Waiting connections, each with the bytes it needs.
type Queue = VecDeque<(ConnectionId, usize)>;

/// Budget in use, and the connections that wait for budget.
#[derive(Default)]
pub struct MemoryBudget {
    /// Bytes being received.
    incoming: usize,
    /// Bytes of large requests.
    large: usize,
    waiting_medium: Queue,
    waiting_large: Queue,
}

impl MemoryBudget {
    /// Bytes being received.
    #[inline]
    pub fn incoming_bytes(&self) -> usize {
        self.incoming
    }

    /// Charges `bytes` that a connection will receive.
    #[inline]
    pub fn expect(&mut self, bytes: usize) {
        self.incoming += bytes;
        self.large += large_part(bytes);
    }

    /// Releases `bytes` that were expected, of which `large` belong to large requests.
    #[inline]
    pub fn release(&mut self, bytes: usize, large: usize) {
        self.incoming -= bytes;
        self.large -= large;
    }

    /// Charges `bytes` of a large request that is in a drive or waits to be sent.
    #[inline]
    pub fn hold_large(&mut self, bytes: usize) {
        self.large += bytes;
    }

    /// Releases `bytes` of a large request.
    #[inline]
    pub fn release_large(&mut self, bytes: usize) {
        self.large -= bytes;
    }

    fn queue_of(&mut self, bytes: usize) -> &mut Queue {
        if bytes > LARGE_BYTES { &mut self.waiting_large } else { &mut self.waiting_medium }
    }

    /// Returns true if a request with `bytes` fits while `held` bytes are held.
    fn fits(&self, held: usize, bytes: usize) -> bool {
        if bytes > LARGE_BYTES {
            return self.large + bytes <= LARGE_BYTES_MAX && held + bytes <= TOTAL_BYTES_MAX;
        }
        let set_aside = match self.waiting_large.front() {
            Some(&(_, large)) if self.large + large <= LARGE_BYTES_MAX => large,
            _ => 0,
        };
        held + bytes + set_aside <= TOTAL_BYTES_MAX
    }

    /// Returns true if a request with `bytes` can begin while `held` bytes are held; `is_next`: it has
    /// waited, and its turn has come.
    #[inline]
    pub fn admits(&mut self, held: usize, bytes: usize, is_next: bool) -> bool {
        self.fits(held, bytes) && (is_next || self.queue_of(bytes).is_empty())
    }

    /// Queues a connection that needs `bytes`.
    #[cold]
    pub fn wait(&mut self, connection: ConnectionId, bytes: usize) {
        self.queue_of(bytes).push_back((connection, bytes));
    }

    /// Removes and returns the next waiting connection whose request fits.
    pub fn next(&mut self, held: usize) -> Option<ConnectionId> {
        let first_fits = |queue: &Queue| queue.front().is_some_and(|&(_, bytes)| self.fits(held, bytes));
        let (medium, large) = (first_fits(&self.waiting_medium), first_fits(&self.waiting_large));
        let queue = match (medium, large) {
            (true, _) => &mut self.waiting_medium,
            (false, true) => &mut self.waiting_large,
            (false, false) => return None,
        };
        queue.pop_front().map(|(connection, _)| connection)
    }

    /// Returns true if a connection waits for budget, or soon will.
    pub fn is_short(&self, held: usize) -> bool {
        let waits = |queue: &Queue| queue.front().is_some_and(|&(_, bytes)| !self.fits(held, bytes));
        waits(&self.waiting_medium) || waits(&self.waiting_large) || held >= TOTAL_BYTES_MAX / 4 * 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn id(number: u64) -> ConnectionId {
        ConnectionId::new(number)
    }

    #[test]
    fn medium_requests_do_not_wait_for_large_ones() {
        let mut budget =
            MemoryBudget { incoming: LARGE_BYTES_MAX, large: LARGE_BYTES_MAX, ..MemoryBudget::default() };
        let held = LARGE_BYTES_MAX;
        assert!(!budget.admits(held, 32 * MIB, false));
        budget.wait(id(1), 32 * MIB);
        assert!(budget.is_short(held));
        assert!(budget.admits(held, MIB, false), "nobody of its class waits");
        assert!(budget.admits(TOTAL_BYTES_MAX - MIB, MIB, false), "up to the last byte");
        assert_eq!(budget.next(held), None);
        budget.large -= 32 * MIB;
        assert_eq!(budget.next(held - 32 * MIB), Some(id(1)));
    }

    #[test]
    fn a_large_request_is_not_overtaken_for_ever() {
        let mut budget = MemoryBudget::default();
        let held = TOTAL_BYTES_MAX - 16 * MIB;
        assert!(!budget.admits(held, 32 * MIB, false));
        budget.wait(id(1), 32 * MIB);
        assert!(!budget.admits(held, MIB, false), "its bytes are set aside");
        budget.wait(id(2), MIB);
        assert!(!budget.admits(held - 20 * MIB, 64 << 10, false), "nor does anybody overtake within a class");
        assert_eq!(budget.next(held), None);
        assert_eq!(budget.next(held - 16 * MIB), Some(id(1)));
        assert_eq!(budget.next(held), Some(id(2)));
        assert!(!budget.is_short(0));
    }
}
