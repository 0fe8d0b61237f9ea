//! Admission of connections: accepts them, queues them for a place, admits them or turns them away, and
//! limits their log.
//!
//! ```text
//!  accept ─► a place? ── yes ─────────────────────────────────► admitted: session, slot, hub
//!                └─ no ─► pending, a tick at most ─► a place ─────┘
//!                              └─ none ─► turned away
//! ```
//! Invariants: no more connections are open than allowed, apart from the control reserve; each second at most
//! a fixed number of connection events is logged, plus the number of those omitted.

use super::{CONNECTIONS, CONTROL, CONTROL_RESERVE, LOGGED_MAX, Listening, PENDING_MAX, Server, nanoseconds};
use crate::connection::Connection;
use crate::event::Event;
use crate::service::Operated;
use crate::socket::{Ends, Stream};
use mio::Token;
use std::io;

/// A connection that waits, at most a tick, for another one to end.
pub(super) struct Pending {
    pub listener: usize,
    stream: Stream,
    ends: Ends,
    until_ns: u64,
}

/// Returns true if no peer waits to be accepted, or one has given up.
fn is_of_a_peer(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted)
}

impl<S: Operated> Server<S> {
    pub(super) fn accept(&mut self, at: usize) {
        loop {
            let Some(listening) = self.listeners.get_mut(at) else { return };
            let accepted = listening.listener.accept();
            let what = listening.what;
            let why = accepted.as_ref().err().filter(|e| !is_of_a_peer(e)).map(io::Error::to_string);
            // Every tick tries again, so an unchanged error is not logged again.
            if why != listening.failing {
                (self.log)(&match &why {
                    Some(error) => Event::AcceptFailed { protocol: what, error: error.clone() },
                    None => Event::AcceptingAgain { protocol: what },
                });
                listening.failing = why;
            }
            match accepted {
                Ok((stream, ends)) => self.came(at, stream, ends),
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => return,
            }
        }
    }

    /// Returns true if a listener may have another connection. The control socket accepts connections even
    /// when the server is full.
    fn has_place(&self, listener: usize) -> bool {
        let reserve = if self.listeners[listener].what == CONTROL { CONTROL_RESERVE } else { 0 };
        self.service.logbook().connections < self.options.connections_max + reserve
    }

    /// Handles an accepted connection. If the server is full, the peer waits briefly, as the ends of other
    /// connections may have arrived but not been read yet.
    fn came(&mut self, listener: usize, stream: Stream, ends: Ends) {
        if self.has_place(listener) {
            return self.admit(listener, stream, ends);
        }
        if self.pending.len() == PENDING_MAX {
            return self.turn_away(ends.peer, "too many connections".into());
        }
        let until_ns = self.turn_ns.saturating_add(nanoseconds(self.options.tick));
        self.pending.push_back(Pending { listener, stream, ends, until_ns });
    }

    /// Admits waiting connections for which there is now a place, and rejects those that have waited too
    /// long.
    pub(super) fn admit_pending(&mut self) {
        while let Some(first) = self.pending.pop_front() {
            if self.has_place(first.listener) {
                self.admit(first.listener, first.stream, first.ends);
            } else if self.turn_ns >= first.until_ns {
                self.turn_away(first.ends.peer, "too many connections".into());
            } else {
                self.pending.push_front(first);
                return self.give_up_told();
            }
        }
    }

    /// Gives up connections that only wait for their peers to close, because others need their places.
    fn give_up_told(&mut self) {
        for slot in 0..self.table.len() {
            if let Some(connection) = self.table.get(slot)
                && connection.is_told()
            {
                connection.give_up();
                self.table.touch(slot);
            }
        }
    }

    fn turn_away(&mut self, peer: String, why: String) {
        self.log_connection(&Event::TurnedAway { peer, why });
    }

    /// Logs a connection event, unless there are too many.
    pub(super) fn log_connection(&mut self, event: &Event) {
        self.connection_events += 1;
        if self.connection_events <= LOGGED_MAX {
            (self.log)(event);
        }
    }

    /// Logs the number of events that were omitted.
    pub(super) fn log_rest(&mut self) {
        let events = std::mem::take(&mut self.connection_events).saturating_sub(LOGGED_MAX);
        if events > 0 {
            (self.log)(&Event::NotLogged { events: events.into() });
        }
    }

    fn admit(&mut self, at: usize, mut stream: Stream, Ends { peer, local }: Ends) {
        let Listening { accept, what, protocol, .. } = &mut self.listeners[at];
        let (what, protocol) = (*what, *protocol);
        let (slot, id) = self.table.next();
        let registered = stream.register(self.poll.registry(), Token(CONNECTIONS + slot));
        let session =
            accept(id, local).and_then(|session| registered.map(|()| session).map_err(|e| e.to_string()));
        let session = match session {
            Ok(session) => session,
            Err(why) => return self.turn_away(peer, why),
        };
        self.log_connection(&Event::Connected { connection: id, protocol: what, peer: peer.clone() });
        let mut connection =
            Box::new(Connection::new(id, stream, peer, protocol, session, self.options.ending));
        connection.open(&mut self.service);
        self.service.logbook_mut().connections += 1;
        self.service.logbook_mut().protocols[protocol].connections += 1;
        self.service.logbook_mut().protocols[protocol].connected += 1;
        self.table.insert(slot, connection);
        self.table.touch(slot);
    }
}
