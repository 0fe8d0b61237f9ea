//! Caches in service: how a cache is taken out of use.

use super::Core;
use crate::event::Event;
use pellucid_target::session::ConnectionId;

impl Core {
    /// Begins to write everything back from a cache, as requested on the control socket.
    /// [`Core::detach_outcome`] returns the result.
    ///
    /// # Errors
    /// Fails if the drive is not a cache.
    pub(crate) fn detach(&mut self, by: ConnectionId, drive: usize) -> Result<(), String> {
        self.submit_waiting();
        if !self.engine.backends_mut()[drive].begin_detach() {
            return Err(format!(
                "{}: it is no cache; allowed: a drive that pellucid cache serves",
                self.names[drive]
            ));
        }
        self.detaching.push((by, drive));
        Ok(())
    }

    /// Outcome of the detach that a connection waits for, returned once; `None` while it is pending.
    pub(super) fn detach_outcome(&mut self, by: ConnectionId) -> Option<Result<(), String>> {
        let at = self.detaching.iter().position(|(connection, _)| *connection == by)?;
        let (_, drive) = self.detaching[at];
        let outcome = self.engine.backends()[drive].cache().and_then(|cache| cache.detached())?;
        self.detaching.swap_remove(at);
        if outcome.is_ok() {
            self.logbook.events.push(Event::CacheDetached { drive: self.names[drive].clone() });
        }
        Some(outcome)
    }
}
