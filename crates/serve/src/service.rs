//! The service of a server: drives ([`Core`](crate::Core)), or a key-value cache.
//!
//! ```text
//!  Server, Connection, Session ─► Service ─► Engine ─► Backend
//! ```
//! Connections, TLS, memory budgets, turns, the log, the monitor and the control socket are shared by all
//! services. A service adds the requests of its sessions ([`Port::service`](crate::session::Port::service)),
//! its figures, and its shutdown.

use crate::control::Request;
use crate::engine::{Backend, Engine, Route};
use crate::hub::Hub;
use crate::session::ConnectionId;
use mio::{Poll, Token, Waker};
use pellucid_monitor::Board;
use serde_json::Value;
use std::sync::Arc;

/// Answer that the sessions of a service receive.
pub type Answer<S> = <<S as Service>::Backend as Backend>::Answer;

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

/// A service, owned by the server's single thread.
pub trait Service {
    /// Backend that its engine runs.
    type Backend: Backend;

    /// State that its connections share.
    fn hub(&self) -> &Hub;

    /// Mutable access to the shared state.
    fn hub_mut(&mut self) -> &mut Hub;

    /// Engine of the service.
    fn engine(&self) -> &Engine<Self::Backend>;

    /// Mutable access to the engine.
    fn engine_mut(&mut self) -> &mut Engine<Self::Backend>;

    /// Runs the backends' due work. Returns true if more can be done at once.
    fn run(&mut self) -> bool;

    /// Returns the next answered request.
    fn pop(&mut self) -> Option<Done<Answer<Self>>>;

    /// Drops an answer whose connection is gone, and keeps its buffers for reuse.
    fn discard(&mut self, answer: Answer<Self>);

    /// Answers a request on the control socket; `None`: [`Service::outcome`] has the answer later.
    ///
    /// # Errors
    /// Returns one sentence if it cannot be done.
    fn control(&mut self, by: ConnectionId, request: Request) -> Result<Option<Value>, String>;

    /// Returns a pending answer of [`Service::control`], once it is known.
    fn outcome(&mut self, _by: ConnectionId) -> Option<Result<(), String>> {
        None
    }

    /// Sets the board that shows figures on demand.
    fn show_on(&mut self, board: Board);

    /// Shows the present figures if a reader asks for them.
    fn show(&self);

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

    /// Handles an event on one of these sockets; `token` counts from the first of [`Service::attach`].
    fn remote_ready(&mut self, _token: usize) {}

    /// Wall time of the next planned fault, on the clock of [`Service::now_ns`].
    fn next_fault_ns(&self) -> Option<u64> {
        None
    }

    /// Carries out the faults that are due.
    fn strike(&mut self, _now_ns: u64) {}

    /// Stops the service: no operation waits for modelled time any more.
    fn stop(&mut self) {
        self.hub_mut().stopping = true;
        self.engine_mut().stop_pacing();
    }

    /// Begins, without connections, to store all state that the next start needs.
    fn put_away(&mut self);

    /// Continues [`Service::put_away`]; returns true if it has ended.
    fn is_put_away(&mut self) -> bool;

    /// Finishes the service, as the last call.
    ///
    /// # Errors
    /// Returns one sentence that names the state that was lost.
    fn finish(&mut self) -> Result<(), String>;

    /// Wall time since the start.
    #[inline]
    fn now_ns(&self) -> u64 {
        self.engine().now_ns()
    }

    /// Number of outstanding requests.
    #[inline]
    fn outstanding(&self) -> usize {
        self.engine().outstanding()
    }

    /// Bytes of data being received, in backends, or to be sent.
    #[inline]
    fn bytes_held(&self) -> usize {
        let hub = self.hub();
        hub.budget.incoming + self.engine().bytes() + hub.bytes_in_outputs
    }

    /// Returns true if a request waits to enter its backend.
    #[inline]
    fn has_waiting(&self) -> bool {
        self.engine().has_waiting()
    }
}
