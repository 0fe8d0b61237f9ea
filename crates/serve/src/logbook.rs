//! Events and counts that a server keeps for its log and its monitors.

use crate::event::Event;
use pellucid_monitor::Protocol;

/// Events for the log, and counts of connections.
#[derive(Debug, Default)]
pub struct Logbook {
    /// Events for the log.
    pub(crate) events: Vec<Event>,
    /// Number of open connections.
    pub(crate) connections: usize,
    /// Protocols with a listener.
    pub(crate) protocols: Vec<Protocol>,
}

impl Logbook {
    /// Events that the server has not written to its log yet.
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}
