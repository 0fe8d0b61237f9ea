//! State that all connections of a server share, for any service: memory, messages to each other and to the
//! log, and figures.

use crate::budget::MemoryBudget;
use crate::event::Event;
use crate::pool::Pool;
use crate::session::{Close, ConnectionId};
use pellucid_monitor::Protocol;

/// Shared state of a server's connections. Only this crate accesses its fields.
#[derive(Default)]
pub struct Hub {
    pub(crate) budget: MemoryBudget,
    /// Bytes in the outputs of all connections.
    pub(crate) bytes_in_outputs: usize,
    /// Spare buffers.
    pub(crate) pool: Pool,
    /// Connections whose sessions must be called soon.
    pub(crate) nudged: Vec<ConnectionId>,
    /// Connections to be closed, with the reason.
    pub(crate) closing: Vec<(ConnectionId, Close)>,
    /// Events for the log.
    pub(crate) events: Vec<Event>,
    /// The server is stopping: nothing new begins.
    pub(crate) stopping: bool,
    /// Number of open connections.
    pub(crate) connections: usize,
    /// Protocols with a listener.
    pub(crate) protocols: Vec<Protocol>,
    /// Time of the last input from any connection other than a control connection.
    pub(crate) heard_ns: u64,
    /// Time at which the budget for control answers is free again.
    pub(crate) control_free_ns: u64,
}
