//! The memory budget: one bound for the data that all connections of all protocols hold.
//!
//! ```text
//!   request ─ fits? ─► data come in ─► in a drive ─► to be sent ─► free again
//!               └ no: in the queue of its class ─ it fits, and its turn has come ─┘
//! ```
//! - A request with more than [`OWN_BYTES`] of data takes budget for all of them before the first comes in, or before it is read, so that
//!   what has begun can always be completed, and no request waits for budget while it holds some.
//! - There are two classes: medium requests, and those with more than [`LARGE_BYTES`]. Large ones hold no more than [`LARGE_BYTES_MAX`]
//!   together, half of the whole, so medium ones never wait for large ones whose data do not come, or whose answers are not taken.
//! - Within a class those that do not fit queue up, first come, first served. A large request that only waits for the whole has its
//!   bytes set aside, so that medium ones cannot overtake it for ever.
//! - Up to [`OWN_BYTES`] are each connection's own, as long as the connection has nothing in the drives and nothing to be sent: with them it is
//!   served whatever others hold. So all connections hold no more than `TOTAL_BYTES_MAX`, and twice `OWN_BYTES` each.
//! - Answers whose length is known before they are asked for are held within a [share](share_of) of what is free: a connection that takes
//!   none fills its share, which is the smaller the more of them there are.
//! - While budget is short, a connection that holds more than its own has to move it: within [`crate::Options::stall`] a sixteenth of it has to
//!   come in or to be taken, or the connection ends.
//!
//! Invariants: `incoming` is the sum of what the connections' [`Load`](crate::session::Load)s say; `large` is the sum of the data of
//! large requests that come in, are in drives, or wait to be sent.

use crate::session::{ConnectionId, TOTAL_BYTES_MAX};
use std::collections::VecDeque;

/// Data of a request that need nothing of the common budget.
pub(crate) const OWN_BYTES: usize = 16 << 10;
/// A request with more data is a large one. The longest of NVMe is not.
pub(crate) const LARGE_BYTES: usize = 1 << 20;
/// What large requests hold together, at most.
pub(crate) const LARGE_BYTES_MAX: usize = TOTAL_BYTES_MAX / 2;
/// The largest share of one connection,
const SHARE_BYTES_MAX: usize = 4 << 20;
/// and the part of what is free that it is.
const SHARE_PART: usize = 16;
/// The part of what it holds that a connection has to move while budget is short, in [`crate::Options::stall`].
pub(crate) const STALL_PART: u64 = 16;

const _: () = assert!(LARGE_BYTES >= crate::nvme::TRANSFER_BYTES_MAX as usize);

/// The data of a request, as far as it is a large one.
#[inline]
pub(crate) fn large_part(bytes: usize) -> usize {
    if bytes > LARGE_BYTES { bytes } else { 0 }
}

/// What one connection may hold of answers when all hold so many bytes.
#[inline]
pub(crate) fn share_of(held: usize) -> usize {
    (TOTAL_BYTES_MAX.saturating_sub(held) / SHARE_PART).clamp(OWN_BYTES, SHARE_BYTES_MAX)
}

/// Connections that wait, each with what it needs.
type Queue = VecDeque<(ConnectionId, usize)>;

/// What is held, and the connections that wait for budget.
#[derive(Default)]
pub(crate) struct MemoryBudget {
    /// Bytes that come in.
    pub incoming: usize,
    /// Bytes of large requests.
    pub large: usize,
    waiting_medium: Queue,
    waiting_large: Queue,
}

impl MemoryBudget {
    fn queue_of(&mut self, bytes: usize) -> &mut Queue {
        if bytes > LARGE_BYTES { &mut self.waiting_large } else { &mut self.waiting_medium }
    }

    /// Whether a request with so many bytes fits when so many are held.
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

    /// Whether a request with so many bytes can be begun when so many are held; `is_next`: it has waited, and its turn has come.
    #[inline]
    pub fn admits(&mut self, held: usize, bytes: usize, is_next: bool) -> bool {
        self.fits(held, bytes) && (is_next || self.queue_of(bytes).is_empty())
    }

    /// A connection waits for so many bytes.
    #[cold]
    pub fn wait(&mut self, connection: ConnectionId, bytes: usize) {
        self.queue_of(bytes).push_back((connection, bytes));
    }

    /// The next that fits; it waits no more.
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

    /// Whether a connection waits, or will soon.
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
