//! State that all connections of a server share, for any service: memory, messages to each other, and turns of the
//! control socket.

use crate::budget::MemoryBudget;
use crate::connection::{Close, ConnectionId};
use crate::pool::Pool;

/// Shared state of a server's connections.
#[derive(Default)]
pub struct Hub {
    /// Memory for data that arrive, and whose turn it is.
    pub budget: MemoryBudget,
    /// Spare buffers.
    pub pool: Pool,
    /// Bytes in the outputs of all connections.
    bytes_in_outputs: usize,
    /// Connections whose sessions must be called soon.
    nudged: Vec<ConnectionId>,
    /// Connections to be closed, with the reason.
    closing: Vec<(ConnectionId, Close)>,
    /// The server is stopping: nothing new begins.
    stopping: bool,
    /// Time of the last input from any connection other than a control connection.
    heard_ns: u64,
    /// Time at which the budget for control answers is free again.
    control_free_ns: u64,
}

impl Hub {
    /// Bytes of data being received or to be sent.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.budget.incoming_bytes() + self.bytes_in_outputs
    }

    /// Notes that an output went from `before` to `after` bytes.
    #[inline]
    pub fn output_changed(&mut self, before: usize, after: usize) {
        self.bytes_in_outputs = self.bytes_in_outputs + after - before;
    }

    /// Has the session of a connection called soon.
    pub fn nudge(&mut self, connection: ConnectionId) {
        self.nudged.push(connection);
    }

    /// Takes the connections whose sessions must be called.
    pub fn take_nudged(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.nudged)
    }

    /// Has a connection closed after its pending output is sent.
    pub fn close(&mut self, connection: ConnectionId, why: Close) {
        self.closing.push((connection, why));
    }

    /// Takes the connections to be closed.
    pub fn take_closing(&mut self) -> Vec<(ConnectionId, Close)> {
        std::mem::take(&mut self.closing)
    }

    /// Lets nothing new begin from now on.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Returns true if nothing new may begin.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Notes input of a connection that is served.
    #[inline]
    pub fn heard(&mut self, now_ns: u64) {
        self.heard_ns = now_ns;
    }

    /// Time of the last input of a connection that is served.
    pub fn heard_ns(&self) -> u64 {
        self.heard_ns
    }

    /// Charges control answers for `ns` from `now_ns` on; returns when their budget is free again. All control
    /// connections share it.
    pub fn charge_control(&mut self, now_ns: u64, ns: u64) -> u64 {
        self.control_free_ns = self.control_free_ns.max(now_ns) + ns;
        self.control_free_ns
    }
}
