//! Layers in service: how a cache is taken out of use, and a cluster buffer paused.

use super::Core;
use crate::drive::Served;
use crate::event::Event;
use pellucid_target::connection::ConnectionId;

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

    /// Has the cluster buffer of a drive write what it holds, and pass later writes by, as requested on the
    /// control socket. [`Core::pause_outcome`] returns the result.
    ///
    /// # Errors
    /// Fails if the drive has no cluster buffer.
    pub(super) fn fire_pause(&mut self, by: ConnectionId, drive: usize) -> Result<(), String> {
        self.change_buffer(drive, Served::pause)?;
        self.pausing.push((by, drive));
        Ok(())
    }

    /// Has the cluster buffer of a drive take writes again.
    ///
    /// # Errors
    /// Fails if the drive has no cluster buffer.
    pub(super) fn fire_resume(&mut self, drive: usize) -> Result<(), String> {
        self.change_buffer(drive, Served::resume)?;
        self.logbook.events.push(Event::FireResumed { drive: self.names[drive].clone() });
        Ok(())
    }

    fn change_buffer(&mut self, drive: usize, change: fn(&mut Served) -> bool) -> Result<(), String> {
        self.submit_waiting();
        if change(&mut self.engine.backends_mut()[drive]) {
            return Ok(());
        }
        Err(format!(
            "{}: it has no cluster buffer; allowed: a drive that pellucid fire serves, or with host.layers = [\"cluster-buffer\"]",
            self.names[drive]
        ))
    }

    /// Outcome of the pause that a connection waits for, returned once; `None` while it is pending.
    pub(super) fn pause_outcome(&mut self, by: ConnectionId) -> Option<Result<(), String>> {
        let at = self.pausing.iter().position(|(connection, _)| *connection == by)?;
        let (_, drive) = self.pausing[at];
        let outcome = self.engine.backends()[drive].cluster_buffer().and_then(|buffer| buffer.paused())?;
        self.pausing.swap_remove(at);
        if outcome.is_ok() {
            self.logbook.events.push(Event::FirePaused { drive: self.names[drive].clone() });
        }
        Some(outcome)
    }

    /// Forgets what a connection that is gone waited for.
    pub(super) fn stop_waiting(&mut self, connection: ConnectionId) {
        self.detaching.retain(|(by, _)| *by != connection);
        self.pausing.retain(|(by, _)| *by != connection);
    }
}
