//! What a server serves: drives ([`Core`](crate::Core)), or a key-value cache.
//!
//! ```text
//!  Server, Connection, Session ─► Service ─► Engine ─► Backend
//! ```
//! Connections, TLS, memory budgets, turns, the log, the monitor and the control socket are one code for every service. A service adds
//! what its sessions ask ([`Port::service`](crate::session::Port::service)), what it tells of itself, and how it ends.

use crate::control::Request;
use crate::engine::{Backend, Engine, Route};
use crate::hub::Hub;
use crate::session::ConnectionId;
use mio::{Poll, Token, Waker};
use pellucid_monitor::Board;
use serde_json::Value;
use std::sync::Arc;

/// What the sessions of a service are answered.
pub type Answer<S> = <<S as Service>::Backend as Backend>::Answer;

/// A request that has been answered.
#[derive(Debug)]
pub struct Done<A> {
    /// Where its answer goes.
    pub route: Route,
    /// Bytes of data it was submitted with.
    pub bytes: usize,
    /// The answer.
    pub answer: A,
}

/// What a server serves. The server's one thread owns it.
pub trait Service {
    /// What its engine runs.
    type Backend: Backend;

    /// What its connections share.
    fn hub(&self) -> &Hub;

    /// The same, to be changed.
    fn hub_mut(&mut self) -> &mut Hub;

    /// The engine loop.
    fn engine(&self) -> &Engine<Self::Backend>;

    /// The same, to be changed.
    fn engine_mut(&mut self) -> &mut Engine<Self::Backend>;

    /// Lets the backends do what is due. Returns whether more can be done at once.
    fn run(&mut self) -> bool;

    /// The next request that has been answered.
    fn pop(&mut self) -> Option<Done<Answer<Self>>>;

    /// Drops an answer whose connection is gone; its buffers are kept for later use.
    fn discard(&mut self, answer: Answer<Self>);

    /// Answers a request to the control socket; `None`: [`Service::outcome`] has the answer later.
    ///
    /// # Errors
    /// Why it cannot be done, in a sentence.
    fn control(&mut self, by: ConnectionId, request: Request) -> Result<Option<Value>, String>;

    /// The answer that [`Service::control`] owes a connection, when it is there.
    fn outcome(&mut self, _by: ConnectionId) -> Option<Result<(), String>> {
        None
    }

    /// From now on the figures are shown on `board` when asked for.
    fn show_on(&mut self, board: Board);

    /// Shows everything as it is now, if a reader asks.
    fn show(&self);

    /// Called in every turn, to go on with what is neither a request nor an answer and to tell the log what has happened.
    fn look_after(&mut self) {}

    /// A connection is gone, and nothing that it submitted is under way.
    fn release(&mut self, _connection: ConnectionId) {}

    /// Lets sockets of its own wake `poll`, with tokens from `first` on.
    ///
    /// # Errors
    /// When the system cannot wait for them.
    fn attach(&mut self, _poll: &Poll, _first: Token, _waker: &Arc<Waker>) -> std::io::Result<()> {
        Ok(())
    }

    /// Something happened on one of them; `token` counts from the first of [`Service::attach`].
    fn remote_ready(&mut self, _token: usize) {}

    /// Wall time at which the next planned fault comes, on the clock of [`Service::now_ns`].
    fn next_fault_ns(&self) -> Option<u64> {
        None
    }

    /// Lets the faults happen whose time has come.
    fn strike(&mut self, _now_ns: u64) {}

    /// The server stops: no operation waits for modelled time.
    fn stop(&mut self) {
        self.hub_mut().stopping = true;
        self.engine_mut().stop_pacing();
    }

    /// No connection is left: begins to bring everything to where the next start finds it.
    fn put_away(&mut self);

    /// Goes on with that; returns whether it has ended.
    fn is_put_away(&mut self) -> bool;

    /// The last call.
    ///
    /// # Errors
    /// What could not be kept, in a sentence.
    fn finish(&mut self) -> Result<(), String>;

    /// Wall time since the start.
    #[inline]
    fn now_ns(&self) -> u64 {
        self.engine().now_ns()
    }

    /// Requests that have not been answered.
    #[inline]
    fn outstanding(&self) -> usize {
        self.engine().outstanding()
    }

    /// Bytes of data that come in, are in backends, or are to be sent.
    #[inline]
    fn bytes_held(&self) -> usize {
        let hub = self.hub();
        hub.budget.incoming + self.engine().bytes() + hub.bytes_in_outputs
    }

    /// Whether a request waits to go into its backend.
    #[inline]
    fn has_waiting(&self) -> bool {
        self.engine().has_waiting()
    }
}
