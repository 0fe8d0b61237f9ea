//! A service that the server runs: drives ([`Core`](crate::Core)), or a key-value cache.
//!
//! ```text
//!  Session ─► Port ─► its face: Drives, Items ─┐
//!  Server, Connection ─────────────────────────┴─► Operated ─► Engine ─► Backend
//! ```
//! Connections, TLS, memory budgets, turns, the log, the monitor and the control socket are shared by all
//! services. A service adds the requests of its sessions (its [face](Operated::Face)), its figures, and its
//! shutdown.

use crate::engine::{Backend, Engine, Time};
use crate::logbook::Logbook;
use mio::{Poll, Token, Waker};
use pellucid_monitor::{Board, View};
use pellucid_target::connection::{ConnectionId, Route};
use pellucid_target::{Answer, Base, Hub, Service};
use std::sync::Arc;

/// An answered request.
#[derive(Debug)]
pub struct Done<A> {
    /// Destination of the answer.
    pub route: Route,
    /// Bytes of data that the request was submitted with.
    pub bytes: usize,
    /// The answer.
    pub answer: A,
}

/// Common part of every service: its engine, the hub of its connections, its log, and the board that shows its figures.
pub struct Desk<B: Backend> {
    pub(crate) engine: Engine<B>,
    pub(crate) hub: Hub,
    pub(crate) logbook: Logbook,
    board: Option<Board>,
}

impl<B: Backend> Desk<B> {
    /// Puts backends into service.
    pub(crate) fn new(backends: Vec<B>, time: Time) -> Desk<B> {
        Desk {
            engine: Engine::new(backends, time),
            hub: Hub::default(),
            logbook: Logbook::default(),
            board: None,
        }
    }

    /// Reports whether readers of the board want maps of blocks.
    pub(crate) fn wants_maps(&self) -> bool {
        self.board.as_ref().is_some_and(Board::wants_maps)
    }
}

impl<B: Backend> Base for Desk<B> {
    #[inline]
    fn hub(&self) -> &Hub {
        &self.hub
    }

    #[inline]
    fn hub_mut(&mut self) -> &mut Hub {
        &mut self.hub
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.engine.now_ns()
    }

    #[inline]
    fn bytes_inside(&self) -> usize {
        self.engine.bytes()
    }
}

/// A service, owned by the server's single thread.
pub trait Operated: Service {
    /// Backend that its engine runs.
    type Backend: Backend<Answer = Answer<Self>>;

    /// The service as its sessions see it.
    type Face: Service<Answer = Answer<Self>> + ?Sized;

    /// The service as its sessions see it.
    fn face(&mut self) -> &mut Self::Face;

    /// Common part of every service.
    fn desk(&self) -> &Desk<Self::Backend>;

    /// Mutable access to the common part.
    fn desk_mut(&mut self) -> &mut Desk<Self::Backend>;

    /// Runs the backends' due work. Returns true if more can be done at once.
    fn run(&mut self) -> bool;

    /// Returns the next answered request.
    fn pop(&mut self) -> Option<Done<Answer<Self>>>;

    /// Starts watching the drives for their figures.
    fn watch(&mut self);

    /// Present figures.
    fn view(&self) -> View;

    /// Runs in every turn: continues background work and writes events to the log.
    fn look_after(&mut self) {}

    /// Releases the state of a removed connection, which has no request in flight.
    fn release(&mut self, _connection: ConnectionId) {}

    /// Registers the service's own sockets with `poll`, with tokens from `first` on.
    ///
    /// # Errors
    /// Fails if the system cannot poll them.
    fn attach(&mut self, _poll: &Poll, _first: Token, _waker: &Arc<Waker>) -> std::io::Result<()> {
        Ok(())
    }

    /// Handles an event on one of these sockets; `token` counts from the first of [`Operated::attach`].
    fn remote_ready(&mut self, _token: usize) {}

    /// Wall time of the next planned fault, on the clock of [`Service::now_ns`].
    fn next_fault_ns(&self) -> Option<u64> {
        None
    }

    /// Carries out the faults that are due.
    fn strike(&mut self, _now_ns: u64) {}

    /// Stops the service: no operation waits for modelled time any more.
    fn stop(&mut self) {
        self.desk_mut().hub.stop();
        self.desk_mut().engine.stop_pacing();
    }

    /// Begins, without connections, to store all state that the next start needs.
    fn put_away(&mut self);

    /// Continues [`Operated::put_away`]; returns true if it has ended.
    fn is_put_away(&mut self) -> bool;

    /// Names of the drives that have commands to finish or state to store.
    fn busy_drives(&self) -> Vec<String> {
        Vec::new()
    }

    /// Finishes the service, as the last call.
    ///
    /// # Errors
    /// Returns one sentence that names the state that was lost.
    fn finish(&mut self) -> Result<(), String>;

    /// Events for the log, and counts for monitors.
    #[inline]
    fn logbook(&self) -> &Logbook {
        &self.desk().logbook
    }

    /// Mutable access to the events and counts.
    #[inline]
    fn logbook_mut(&mut self) -> &mut Logbook {
        &mut self.desk_mut().logbook
    }

    /// Engine of the service.
    #[inline]
    fn engine(&self) -> &Engine<Self::Backend> {
        &self.desk().engine
    }

    /// Mutable access to the engine.
    #[inline]
    fn engine_mut(&mut self) -> &mut Engine<Self::Backend> {
        &mut self.desk_mut().engine
    }

    /// Sets the board that shows figures on demand.
    fn show_on(&mut self, board: Board) {
        self.watch();
        self.desk_mut().board = Some(board);
    }

    /// Shows the present figures if a reader asks for them.
    #[inline]
    fn show(&self) {
        if let Some(board) = self.desk().board.as_ref().filter(|board| board.wanted()) {
            board.publish(self.view());
        }
    }

    /// Number of outstanding requests.
    #[inline]
    fn outstanding(&self) -> usize {
        self.engine().outstanding()
    }

    /// Returns true if a request waits to enter its backend.
    #[inline]
    fn has_waiting(&self) -> bool {
        self.engine().has_waiting()
    }
}
