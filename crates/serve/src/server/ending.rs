//! The end of a server: nothing new, what is under way is answered, and the drives are put away.
//!
//! ```text
//!  serving ─ stop ─► draining ─ no connection is left ─► flushed ─► layers at rest ─► stores durable
//! ```
//! Invariant: a drive is flushed only when nobody can submit to it any more.

use super::{ServeError, Server};
use crate::attachment::Attached;
use crate::engine::Route;
use crate::event::Event;
use crate::session::{Close, ConnectionId, Operation};
use mio::Events;
use pellucid_flash::Status;
use std::time::Duration;

impl Server {
    pub(super) fn is_over(&self) -> bool {
        self.core.hub.stopping
            && self.core.hub.connections == 0
            && self.attachments.iter().all(Attached::has_ended)
    }

    /// No new connections, no new requests; what is under way is answered.
    pub(super) fn begin_stopping(&mut self) {
        let reason = self.stopper.reason.get().copied().unwrap_or("asked");
        (self.log)(&Event::Stopping { reason, connections: self.core.hub.connections });
        self.core.stop();
        self.listeners.clear();
        self.attachments.iter_mut().for_each(|attached| attached.stop(&mut self.core));
        for slot in 0..self.table.len() {
            if let Some(connection) = self.table.get(slot) {
                connection.end(Close::Finished, &self.core);
                self.table.touch(slot);
            }
        }
    }

    /// Flushes the drives, has layers stop on them, and makes their stores durable.
    pub(super) fn put_away(&mut self, events: &mut Events) -> Result<(), ServeError> {
        for namespace in 0..self.core.namespaces().len() {
            if self.core.namespaces()[namespace].gone {
                continue;
            }
            let route = Route { connection: ConnectionId(0), token: namespace as u64 };
            self.core.submit(namespace, route, Operation::flush());
        }
        while self.core.outstanding() > 0 || self.core.is_changing() {
            self.go_on(events)?;
            while let Some(done) = self.core.pop() {
                let Route { connection, token } = done.route;
                let status = done.completion.status;
                if connection == ConnectionId(0) && status != Status::Success {
                    let drive = self.core.namespaces()[token as usize].name.clone();
                    (self.log)(&Event::FlushFailed { drive, status });
                }
            }
        }
        self.core.begin_rest();
        while !self.core.is_at_rest() {
            self.go_on(events)?;
        }
        self.tell();
        self.core.finish().map_err(ServeError::Finish)?;
        (self.log)(&Event::Stopped);
        Ok(())
    }

    /// A turn without connections: the drives go on, those of other machines with what came from there.
    fn go_on(&mut self, events: &mut Events) -> Result<(), ServeError> {
        self.poll_now(events, Some(Duration::ZERO)).map_err(ServeError::Poll)?;
        for event in events.iter() {
            self.ready(event);
        }
        self.core.run();
        self.tell();
        std::thread::yield_now();
        Ok(())
    }
}
