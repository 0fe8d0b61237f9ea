//! What the connections of a server share, whatever is served: memory, messages to each other and to the log, and what is shown of them.

use crate::budget::MemoryBudget;
use crate::event::Event;
use crate::pool::Pool;
use crate::session::{Close, ConnectionId};
use pellucid_monitor::Protocol;

/// See above. Only this crate looks inside.
#[derive(Default)]
pub struct Hub {
    pub(crate) budget: MemoryBudget,
    /// Bytes in the outputs of all connections.
    pub(crate) bytes_in_outputs: usize,
    /// Buffers for later use.
    pub(crate) pool: Pool,
    /// Connections whose sessions are to be called soon.
    pub(crate) nudged: Vec<ConnectionId>,
    /// Connections that are to end.
    pub(crate) closing: Vec<(ConnectionId, Close)>,
    /// For the log.
    pub(crate) events: Vec<Event>,
    /// Nothing new is begun.
    pub(crate) stopping: bool,
    /// Connections that are open.
    pub(crate) connections: usize,
    /// Each protocol that is listened for.
    pub(crate) protocols: Vec<Protocol>,
    /// When something last came from a connection that is not one of control.
    pub(crate) heard_ns: u64,
    /// When the time that answers to control requests may take is free again.
    pub(crate) control_free_ns: u64,
}
