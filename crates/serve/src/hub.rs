//! What the connections of a server share, whatever is served: memory, messages to each other and to the log, and what is shown of them.

use crate::budget::MemoryBudget;
use crate::event::Event;
use crate::pool::Pool;
use crate::session::{Close, ConnectionId};
use pellucid_monitor::Protocol;

/// See above.
#[derive(Default)]
pub(crate) struct Hub {
    pub budget: MemoryBudget,
    /// Bytes in the outputs of all connections.
    pub bytes_in_outputs: usize,
    /// Buffers for later use.
    pub pool: Pool,
    /// Connections whose sessions are to be called soon.
    pub nudged: Vec<ConnectionId>,
    /// Connections that are to end.
    pub closing: Vec<(ConnectionId, Close)>,
    /// For the log.
    pub events: Vec<Event>,
    /// Nothing new is begun.
    pub stopping: bool,
    /// Connections that are open.
    pub connections: usize,
    /// Each protocol that is listened for.
    pub protocols: Vec<Protocol>,
    /// When something last came from a connection that is not one of control.
    pub heard_ns: u64,
    /// When the time that answers to control requests may take is free again.
    pub control_free_ns: u64,
}
