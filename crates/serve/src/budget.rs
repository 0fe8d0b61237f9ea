//! Room for data: one bound for what all connections of all protocols hold.
//!
//! ```text
//!   request ─ room? ─► data come in ─► in a drive ─► to be sent ─► free again
//!               └ no: in line ─ there is room, and its turn has come ─┘
//! ```
//! - A request with more than [`OWN_BYTES`] of data takes room for all of them before the first comes in, or before it is read, so that
//!   what has begun can always be done, and nobody waits for room who holds up others by that.
//! - Who finds none stands in line, first come, first served: nobody overtakes, so the largest request has its turn.
//! - Up to [`OWN_BYTES`] are everybody's own, as long as the connection has nothing in the drives and nothing to be sent: with them it is
//!   served whatever others hold. So all connections hold no more than `TOTAL_BYTES_MAX`, and twice `OWN_BYTES` each.
//! - While room is short, who holds more than his own has to move it: within [`STALL_NS_MAX`] a sixteenth of it has to come in or to be
//!   taken, or the connection ends.
//!
//! Invariant: `incoming` is the sum of what the connections' [`Load`](crate::session::Load)s say.

use crate::session::{ConnectionId, TOTAL_BYTES_MAX};
use std::collections::VecDeque;

/// Data of a request that need no room of the common one.
pub(crate) const OWN_BYTES: usize = 16 << 10;
/// While room is short, a connection has this time to move
pub(crate) const STALL_NS_MAX: u64 = 5_000_000_000;
/// this part of what it holds.
pub(crate) const STALL_PART: u64 = 16;

/// Who waits for room, and what is promised to data that have not all come.
#[derive(Default)]
pub(crate) struct MemoryBudget {
    /// Bytes that come in.
    pub incoming: usize,
    /// Connections in line, each with what it needs.
    line: VecDeque<(ConnectionId, usize)>,
}

impl MemoryBudget {
    /// Whether nobody is in line.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.line.is_empty()
    }

    /// A connection stands in line for so many bytes.
    #[cold]
    pub fn stand_in_line(&mut self, connection: ConnectionId, bytes: usize) {
        self.line.push_back((connection, bytes));
    }

    /// The first in line, if it finds what it needs; it leaves the line.
    pub fn next(&mut self, held: usize) -> Option<ConnectionId> {
        let (_, bytes) = self.line.front()?;
        if held + bytes > TOTAL_BYTES_MAX {
            return None;
        }
        self.line.pop_front().map(|(connection, _)| connection)
    }

    /// Whether somebody waits, or will soon.
    pub fn is_short(&self, held: usize) -> bool {
        let waits = self.line.front().is_some_and(|(_, bytes)| held + bytes > TOTAL_BYTES_MAX);
        waits || held >= TOTAL_BYTES_MAX / 4 * 3
    }
}
