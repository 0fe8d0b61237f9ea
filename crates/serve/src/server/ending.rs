//! The end of a server: refuses new work, answers outstanding requests, and puts the service away.
//!
//! ```text
//!  serving ─ stop ─► draining ─ no connection is left ─► put away (drives: flushed ─► layers at rest) ─► durable
//! ```
//! Invariant: a service is put away only when no connection can submit to it any more.

use super::{ServeError, Server, nanoseconds};
use crate::attachment::Attached;
use crate::event::Event;
use crate::service::Operated;
use mio::Events;
use pellucid_target::connection::Close;
use std::time::Duration;

/// The end of a server as its log tells it.
pub(super) struct Ending {
    begun_ns: u64,
    /// Time at which the server next says that it still waits.
    told_again_ns: u64,
}

impl<S: Operated> Server<S> {
    pub(super) fn is_over(&self) -> bool {
        self.service.hub().is_stopping()
            && self.service.logbook().connections == 0
            && self.attachments.iter().all(Attached::has_ended)
    }

    /// Begins to stop: no new connections or requests; outstanding requests are answered.
    pub(super) fn begin_stopping(&mut self) {
        let reason = self.stopper.reason.get().copied().unwrap_or("asked");
        (self.log)(&Event::Stopping { reason, connections: self.service.logbook().connections });
        let now = self.service.now_ns();
        let told_again_ns = now.saturating_add(nanoseconds(self.options.slow_stop));
        self.ending = Some(Ending { begun_ns: now, told_again_ns });
        self.service.stop();
        self.pending.clear();
        self.listeners.clear();
        self.attachments.iter_mut().for_each(|attached| attached.stop(&mut self.service));
        for slot in 0..self.table.len() {
            if let Some(connection) = self.table.get(slot) {
                connection.end(Close::Finished, &self.service);
                self.table.touch(slot);
            }
        }
    }

    /// Logs what a server waits for that has been stopping for long.
    pub(super) fn tell_if_slow(&mut self) {
        let Some(ending) = &mut self.ending else { return };
        let now = self.service.now_ns();
        if now < ending.told_again_ns {
            return;
        }
        let passed_ns = now - ending.begun_ns;
        ending.told_again_ns = now.saturating_add(passed_ns);
        (self.log)(&Event::StillStopping {
            seconds: passed_ns / 1_000_000_000,
            connections: self.service.logbook().connections,
            drives: self.service.busy_drives(),
        });
    }

    /// Stores all state that the next start needs, and makes it durable.
    pub(super) fn put_away(&mut self, events: &mut Events) -> Result<(), ServeError> {
        self.service.put_away();
        while !self.service.is_put_away() {
            self.go_on(events)?;
        }
        self.tell();
        self.service.finish().map_err(ServeError::Finish)?;
        self.log_rest();
        (self.log)(&Event::Stopped);
        Ok(())
    }

    /// Runs a turn without connections: the drives continue, remote ones with their input.
    fn go_on(&mut self, events: &mut Events) -> Result<(), ServeError> {
        self.poll_now(events, Some(Duration::ZERO)).map_err(ServeError::Poll)?;
        for event in events.iter() {
            self.ready(event);
        }
        self.service.run();
        self.tell();
        self.tell_if_slow();
        std::thread::yield_now();
        Ok(())
    }
}
