//! Waits: the control connections that wait for a layer.
//!
//! Invariant: a connection learns each outcome once.

use pellucid_target::connection::ConnectionId;

/// Connections, each with the drive whose layer it waits for.
#[derive(Default)]
pub(super) struct Waits {
    waiting: Vec<(ConnectionId, usize)>,
}

impl Waits {
    pub fn add(&mut self, by: ConnectionId, drive: usize) {
        self.waiting.push((by, drive));
    }

    /// Ends the wait of a connection if `outcome` knows how it went; returns the drive and the outcome.
    pub fn end<T>(
        &mut self,
        by: ConnectionId,
        outcome: impl FnOnce(usize) -> Option<T>,
    ) -> Option<(usize, T)> {
        let at = self.waiting.iter().position(|(connection, _)| *connection == by)?;
        let (_, drive) = self.waiting[at];
        let outcome = outcome(drive)?;
        self.waiting.swap_remove(at);
        Some((drive, outcome))
    }

    /// Forgets a connection that is gone.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.waiting.retain(|(by, _)| *by != connection);
    }
}
