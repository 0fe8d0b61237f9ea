//! The reactor: one thread, one loop, all sockets and all drives.
//!
//! ```text
//!  wait (epoll; timer for the drives; not at all while there is work) ─► accept ─► read ─► drives run
//!    ▲                                                                                         │
//!    └──────────── ticks, endings ◄──── send ◄──── completions to their sessions ◄─────────────┘
//! ```
//! No connection delays the others: each turn reads at most once from each connection, with a limit for all
//! together, and limits the bytes sent on each. In instant time the drives take the operations of all
//! connections in turns ([`engine`](crate::engine)).
//!
//! [`admission`] handles new connections, [`table`] finds connections with work, and [`ending`] stops the
//! server.
//!
//! Invariant: before the loop waits, every connection that can and may be read is among the readers.

mod admission;
mod ending;
mod table;

use crate::attachment::{Attached, Attachment};
use crate::core::Core;
use crate::event::Event;
use crate::service::{Done, Operated};
use crate::socket::{Address, Listener};
use crate::timer::Timer;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use pellucid_monitor::{Board, Protocol};
use pellucid_target::Answer;
use pellucid_target::connection::{Close, ConnectionId};
use pellucid_target::session::Session;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use table::Table;

use admission::Pending;
use ending::Ending;

const WAKER: Token = Token(0);
const TIMER: Token = Token(1);
const LISTENERS: usize = 2;
const CONNECTIONS: usize = 1 << 16;
const REMOTES: usize = CONNECTIONS + (ConnectionId::SLOTS);
const ATTACHMENTS: Token = Token(1 << 20);

/// Name of the protocol whose listeners have reserved connections.
pub const CONTROL: &str = "control";
/// Number of reserved connections.
const CONTROL_RESERVE: usize = 16;
/// Maximum number of concurrent connections.
pub const CONNECTIONS_MAX: usize = (ConnectionId::SLOTS) - 1 - CONTROL_RESERVE;

/// Longest read from a connection, apart from a payload that is read directly into place.
const READ_BYTES: usize = 256 << 10;
/// Tick interval while memory budget is short, to find connections sooner that hold some and do not use it.
const SHORT_TICK_NS: u64 = 10_000_000;
/// Lead time by which the pacer wakes before an event: roughly the time of a wake-up.
const SPIN_NS: u64 = 60_000;
/// Turns per epoll call while polling; the busiest connections are read directly.
const TURNS_PER_POLL: u32 = 16;
/// Maximum completion batches sent before sockets are polled again.
const BATCHES_MAX: u32 = 64;
/// Maximum bytes of such batches.
const BATCHES_BYTES_MAX: usize = 1 << 20;
/// Maximum duration of such batches.
const BATCHES_NS_MAX: u64 = 2_000_000;
/// Maximum connection events logged per second; further ones are counted.
const LOGGED_MAX: u32 = 100;
const LOGGED_NS: u64 = 1_000_000_000;
/// Maximum number of connections that wait for a place when the server is full.
const PENDING_MAX: usize = 1024;
/// Maximum bytes read in one turn, from all connections.
const TURN_READ_BYTES_MAX: usize = 2 << 20;

/// Creates the session of a new connection. The address is the local one that the peer connected to, `None`
/// on a Unix socket. An error turns the peer away.
pub type Accept<S = Core> = Box<
    dyn FnMut(ConnectionId, Option<SocketAddr>) -> Result<Box<dyn Session<<S as Operated>::Face>>, String>,
>;

/// Receives the events of a server.
pub type Log = Box<dyn FnMut(&Event)>;

/// A socket for a server that is still to come: it has the address, and refuses peers until the server listens. Dropped before, it gives the
/// address back.
pub struct Bound {
    listener: Listener,
    address: Address,
}

impl Bound {
    /// Takes `address`.
    ///
    /// # Errors
    /// Fails if the address cannot be listened on.
    pub fn new(address: &Address) -> Result<Bound, ServeError> {
        let refuse = |error| ServeError::Bind { address: address.clone(), error };
        let listener = Listener::bind(address).map_err(refuse)?;
        let address = listener.address().map_err(refuse)?;
        Ok(Bound { listener, address })
    }

    /// The address, with the port in use.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

/// Options of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Time to keep polling for work after the last work, before sleeping.
    pub poll: Duration,
    /// Maximum concurrent connections, at most [`CONNECTIONS_MAX`]; more are turned away. Control connections
    /// have 16 more.
    pub connections_max: usize,
    /// Time limit for a connection that holds scarce memory without moving its data.
    pub stall: Duration,
    /// Time limit for a closing connection to send its output.
    pub ending: Duration,
    /// Interval at which connections without events are checked.
    pub tick: Duration,
    /// Time after which a server that is still stopping says what it waits for. It says so again after twice, four times, ... that.
    pub slow_stop: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            poll: Duration::ZERO,
            connections_max: 1024,
            stall: Duration::from_secs(5),
            ending: Duration::from_secs(5),
            tick: Duration::from_millis(100),
            slow_stop: Duration::from_secs(5),
        }
    }
}

/// Converts a duration to the engine's nanoseconds.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Error that prevents or ends serving.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server cannot listen on an address.
    #[error("{address}: cannot listen: {error}")]
    Bind {
        /// The address.
        address: Address,
        /// Error of the system.
        error: io::Error,
    },
    /// The system's event queue fails.
    #[error("waiting for events: {0}")]
    Poll(io::Error),
    /// The drives could not be put away.
    #[error("{0}")]
    Finish(String),
}

/// Stops a server from another thread, such as that of a signal handler.
#[derive(Clone)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
    reason: Arc<OnceLock<&'static str>>,
    waker: Arc<Waker>,
}

impl Stopper {
    /// Makes the server drain and return.
    pub fn stop(&self) {
        self.stop_because("asked");
    }

    /// Returns the function with which a session of the control socket stops the server.
    pub fn for_control(&self) -> Box<dyn FnMut()> {
        let stopper = self.clone();
        Box::new(move || stopper.stop_because("control"))
    }

    /// Stops the server with a `reason`, one word for the log. The first reason counts.
    pub fn stop_because(&self, reason: &'static str) {
        self.reason.get_or_init(|| reason);
        self.stop.store(true, Ordering::Release);
        // If the wake-up fails, the next tick notices.
        let _ = self.waker.wake();
    }
}

struct Listening<S: Operated> {
    listener: Listener,
    accept: Accept<S>,
    what: &'static str,
    /// Index of its protocol in the hub's list.
    protocol: usize,
    /// Error that prevents accepting; already logged.
    failing: Option<String>,
}

/// A server, by default of drives.
pub struct Server<S: Operated = Core> {
    service: S,
    options: Options,
    log: Log,
    poll: Poll,
    timer: Timer,
    stopper: Stopper,
    listeners: Vec<Listening<S>>,
    table: Table<S>,
    attachments: Vec<Attached<S>>,
    pending: VecDeque<Pending>,
    /// Connection events in the second that ends at `logged_until_ns`.
    connection_events: u32,
    logged_until_ns: u64,
    /// Connections being read or sent to; empty in between.
    at_hand: Vec<usize>,
    scratch: Vec<u8>,
    tick_ns: u64,
    /// This turn has polled the system, so all input of peers is known.
    asked: bool,
    /// Start of this turn. The clock is read once a turn, and after sleep.
    turn_ns: u64,
    active_ns: u64,
    turns: u32,
    more: bool,
    /// The end, once it has begun.
    ending: Option<Ending>,
}

impl Server {
    /// Adds a source of requests that is not a stream socket.
    ///
    /// # Errors
    /// Fails if the system cannot poll it.
    pub fn attach(&mut self, attachment: Box<dyn Attachment>) -> io::Result<()> {
        for descriptor in attachment.descriptors() {
            let mut source = SourceFd(&descriptor);
            self.poll.registry().register(&mut source, ATTACHMENTS, Interest::READABLE)?;
        }
        let protocol = self.protocol(attachment.protocol());
        let namespace = attachment.namespace();
        let attached = Attached::new(self.attachments.len(), protocol, attachment);
        self.service.logbook_mut().protocols[protocol].connections += 1;
        self.service.logbook_mut().protocols[protocol].connected += 1;
        self.service.hold(attached.id, namespace);
        self.attachments.push(attached);
        Ok(())
    }
}

impl<S: Operated> Server<S> {
    /// Creates a server of `service` without listeners.
    ///
    /// # Errors
    /// Fails if the system provides no event queue.
    pub fn new(mut service: S, options: Options, log: Log) -> Result<Server<S>, ServeError> {
        let poll = Poll::new().map_err(ServeError::Poll)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(ServeError::Poll)?;
        let timer = Timer::new(poll.registry(), TIMER).map_err(ServeError::Poll)?;
        let waker = Arc::new(waker);
        service.attach(&poll, Token(REMOTES), &waker).map_err(ServeError::Poll)?;
        Ok(Server {
            service,
            options: Options { connections_max: options.connections_max.min(CONNECTIONS_MAX), ..options },
            log,
            poll,
            timer,
            stopper: Stopper { stop: Arc::default(), reason: Arc::default(), waker },
            listeners: Vec::new(),
            table: Table::default(),
            attachments: Vec::new(),
            pending: VecDeque::new(),
            connection_events: 0,
            logged_until_ns: LOGGED_NS,
            at_hand: Vec::new(),
            scratch: vec![0; READ_BYTES],
            tick_ns: 0,
            asked: false,
            turn_ns: 0,
            active_ns: 0,
            turns: 0,
            more: false,
            ending: None,
        })
    }

    /// Listens on `address`; `what` names the protocol in the log. Returns the address with the port in use.
    ///
    /// # Errors
    /// Fails if the address cannot be listened on.
    pub fn listen(
        &mut self,
        address: &Address,
        what: &'static str,
        accept: Accept<S>,
    ) -> Result<Address, ServeError> {
        self.listen_on(Bound::new(address)?, what, accept)
    }

    /// As [`Server::listen`], on a socket that has its address.
    ///
    /// # Errors
    /// Fails if the system cannot poll it, or if another program has taken the address meanwhile.
    pub fn listen_on(
        &mut self,
        bound: Bound,
        what: &'static str,
        accept: Accept<S>,
    ) -> Result<Address, ServeError> {
        let Bound { mut listener, address } = bound;
        let refuse = |error| ServeError::Bind { address: address.clone(), error };
        let token = Token(LISTENERS + self.listeners.len());
        listener.listen().and_then(|()| listener.register(self.poll.registry(), token)).map_err(refuse)?;
        let protocol = self.protocol(what);
        self.listeners.push(Listening { listener, accept, what, protocol, failing: None });
        (self.log)(&Event::Listening { protocol: what, address: address.to_string(), uri: None });
        Ok(address)
    }

    /// The service.
    pub fn service(&self) -> &S {
        &self.service
    }

    /// Index of a protocol in the hub's list.
    fn protocol(&mut self, name: &'static str) -> usize {
        let protocols = &mut self.service.logbook_mut().protocols;
        protocols.iter().position(|p| p.name == name).unwrap_or_else(|| {
            protocols.push(Protocol { name, ..Protocol::default() });
            protocols.len() - 1
        })
    }

    /// Sets the board that shows figures on demand.
    pub fn show_on(&mut self, board: &Board) {
        let waker = self.stopper.waker.clone();
        // If the wake-up fails, the next turn notices.
        board.wake_with(move || drop(waker.wake()));
        self.service.show_on(board.clone());
    }

    /// Returns a handle that stops the server.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until stopped; then drains, puts the service away, and returns it.
    ///
    /// # Errors
    /// Fails if the event queue fails, or if a store cannot be made durable.
    pub fn run(mut self) -> Result<S, ServeError> {
        let mut events = Events::with_capacity(1024);
        self.tell();
        while !self.is_over() {
            self.wait(&mut events).map_err(ServeError::Poll)?;
            for event in &events {
                self.ready(event);
            }
            self.attachments.iter_mut().for_each(|attached| attached.take(&mut self.service));
            self.read();
            self.answer();
            self.look_after();
        }
        self.put_away(&mut events)?;
        Ok(self.service)
    }

    /// Runs the drives and sends their completions. All input already read is answered, batch by batch,
    /// before more is read: hosts continue with the first answers meanwhile, and no request waits for later
    /// ones.
    fn answer(&mut self) {
        let mut bytes = 0;
        for _ in 0..BATCHES_MAX {
            self.more = self.service.run();
            bytes += self.deliver();
            self.send();
            self.service.engine_mut().handed_out();
            let enough = bytes > BATCHES_BYTES_MAX || self.service.now_ns() > self.turn_ns + BATCHES_NS_MAX;
            if !self.more || enough {
                return;
            }
        }
    }

    /// Waits for sockets, the drives' next event or the next tick; with pending work it only polls.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        events.clear();
        self.asked = false;
        let busy =
            self.more || self.table.has_readers() || self.table.has_touched() || self.service.has_waiting();
        let now = self.service.now_ns();
        self.turn_ns = now;
        if busy {
            self.active_ns = now;
        }
        let polling = now.saturating_sub(self.active_ns) < self.options.poll.as_nanos() as u64;
        if !polling {
            self.cool(true);
        }
        let fault = self.service.next_fault_ns();
        if fault.is_some_and(|at| at <= now) {
            self.service.strike(now);
            return self.poll_now(events, Some(Duration::ZERO));
        }
        let due = [self.service.engine().next_due_ns(), fault].into_iter().flatten().min();
        let is_due = due.is_some_and(|due| due <= now + SPIN_NS);
        if busy || polling || is_due {
            self.turns = self.turns.wrapping_add(1);
            self.table.try_hot();
            if polling && !self.turns.is_multiple_of(TURNS_PER_POLL) {
                self.table.try_busy();
                return Ok(());
            }
            self.cool(false);
            return self.poll_now(events, Some(Duration::ZERO));
        }
        if self.service.engine_mut().run_background() {
            return self.poll_now(events, Some(Duration::ZERO));
        }
        if let Some(due) = due {
            self.timer.set(due - now - SPIN_NS)?;
        }
        let tick = self.tick_ns.saturating_sub(now);
        let failing = self.listeners.iter().any(|listening| listening.failing.is_some());
        let idle = self.service.logbook().connections == 0 && !self.service.hub().is_stopping() && !failing;
        self.poll_now(events, if idle { None } else { Some(Duration::from_nanos(tick)) })?;
        self.turn_ns = self.service.now_ns();
        Ok(())
    }

    /// Returns hot connections to the event queue: idle ones, or all.
    fn cool(&mut self, all: bool) {
        let token = |slot| Token(CONNECTIONS + slot);
        self.table.cool(self.turn_ns, all, self.poll.registry(), token);
    }

    fn poll_now(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(events, timeout) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => {
                self.asked = true;
                result
            }
        }
    }

    fn ready(&mut self, event: &mio::event::Event) {
        match event.token() {
            WAKER => {}
            TIMER => self.timer.clear(),
            Token(token) if token < CONNECTIONS => self.accept(token - LISTENERS),
            // Every turn polls the attachments.
            ATTACHMENTS => {}
            Token(token) if token >= REMOTES => self.service.remote_ready(token - REMOTES),
            Token(token) => {
                let slot = token - CONNECTIONS;
                let Some(connection) = self.table.get(slot) else { return };
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    connection.readable = true;
                    connection.half_closed |= event.is_read_closed();
                }
                if event.is_writable() || event.is_error() {
                    connection.writable();
                }
                self.table.touch(slot);
                self.table.queue(slot);
            }
        }
    }

    fn read(&mut self) {
        let mut reading = std::mem::take(&mut self.at_hand);
        self.table.take_readers(&mut reading);
        if !self.options.poll.is_zero() {
            self.table.note_busy(&reading);
        }
        let mut total = 0;
        // Peers that only wait for their next request come first; half of the turn is left to the others.
        reading.retain(|&slot| {
            let is_first =
                total <= TURN_READ_BYTES_MAX / 2 && self.table.get(slot).is_some_and(|c| c.is_quiet());
            if is_first {
                total += self.read_from(slot);
            }
            !is_first
        });
        for slot in reading.drain(..) {
            // The remaining connections come first in the next turn.
            if total > TURN_READ_BYTES_MAX {
                self.table.queue(slot);
            } else {
                total += self.read_from(slot);
            }
        }
        self.at_hand = reading;
    }

    /// Reads once from a connection; returns the number of bytes.
    fn read_from(&mut self, slot: usize) -> usize {
        let Some(connection) = self.table.get(slot) else { return 0 };
        if !connection.wants_reading(&mut self.service) {
            return 0;
        }
        let came = connection.read(&mut self.service, &mut self.scratch);
        if came > 0 && self.service.logbook_mut().protocols[connection.protocol].name != CONTROL {
            self.service.hub_mut().heard(self.turn_ns);
        }
        self.table.touch(slot);
        if came > 0 && !self.options.poll.is_zero() {
            self.table.heat(slot, self.turn_ns, self.poll.registry());
        }
        came
    }

    /// Delivers completions to their sessions; returns the bytes of their data.
    fn deliver(&mut self) -> usize {
        let mut bytes = 0;
        while let Some(done) = self.service.pop() {
            bytes += done.bytes;
            match self.table.find(done.route.connection) {
                Some((slot, connection)) => {
                    connection.completed(&mut self.service, done);
                    self.table.touch(slot);
                }
                None => self.deliver_elsewhere(done),
            }
        }
        bytes
    }

    /// Delivers a completion of an attachment, or discards that of a removed connection.
    fn deliver_elsewhere(&mut self, done: Done<Answer<S>>) {
        let attached = done.route.connection.attachment().and_then(|at| self.attachments.get_mut(at));
        match attached {
            Some(attached) => attached.completed(&mut self.service, done),
            None => self.service.discard(done.answer),
        }
    }

    /// Sends on every touched connection, and checks whether it can be read again or has ended.
    fn send(&mut self) {
        self.attachments.iter_mut().for_each(|attached| attached.send(&mut self.service));
        let mut touched = std::mem::take(&mut self.at_hand);
        self.table.take_touched(&mut touched);
        if !touched.is_empty() && !self.options.poll.is_zero() {
            self.active_ns = self.turn_ns;
        }
        for slot in touched.drain(..) {
            let Some(connection) = self.table.get(slot) else { continue };
            connection.send(&mut self.service);
            if connection.is_gone() {
                self.remove(slot);
                continue;
            }
            let (sends, reads) = (connection.wants_sending(), connection.wants_reading(&mut self.service));
            if sends {
                self.table.touch(slot);
            }
            if reads {
                self.table.queue(slot);
            }
        }
        self.at_hand = touched;
    }

    fn remove(&mut self, slot: usize) {
        let Some(mut connection) = self.table.remove(slot) else { return };
        self.service.logbook_mut().connections -= 1;
        self.service.logbook_mut().protocols[connection.protocol].connections -= 1;
        let _ = connection.stream.deregister(self.poll.registry());
        let (id, peer) = (connection.id, std::mem::take(&mut connection.peer));
        self.service.release(id);
        let why = match connection.close(&mut self.service) {
            Some(Close::Finished) => "finished".into(),
            Some(Close::Refused(why)) => why,
            None => "connection lost".into(),
        };
        self.log_connection(&Event::Closed { connection: id, peer, why });
    }

    /// Runs ticks, and actions that sessions requested for other connections.
    fn look_after(&mut self) {
        self.tell();
        loop {
            let held = self.service.bytes_held();
            let Some(id) = self.service.hub_mut().budget.next(held) else { break };
            if let Some((slot, connection)) = self.table.find(id) {
                connection.has_turn(&mut self.service);
                self.table.touch(slot);
            }
        }
        for (id, why) in self.service.hub_mut().take_closing() {
            if let Some((slot, connection)) = self.table.find(id) {
                connection.end(why, &self.service);
                self.table.touch(slot);
            }
        }
        for id in self.service.hub_mut().take_nudged() {
            if let Some((slot, _)) = self.table.find(id) {
                self.tick(slot, self.service.now_ns());
            }
        }
        self.admit_pending();
        self.service.show();
        let now = self.turn_ns;
        // A peer counts as silent only after all input that arrived while this process was busy or stopped
        // has been read.
        if now >= self.tick_ns && self.asked {
            let short = self.service.hub().budget.is_short(self.service.bytes_held());
            if now >= self.logged_until_ns {
                self.logged_until_ns = now + LOGGED_NS;
                self.log_rest();
            }
            self.tick_ns =
                now.saturating_add(if short { SHORT_TICK_NS } else { nanoseconds(self.options.tick) });
            for slot in 0..self.table.len() {
                self.tick(slot, now);
            }
            // Connections that could not be accepted for lack of file descriptors raise no further event.
            for at in 0..self.listeners.len() {
                self.accept(at);
            }
        }
        if !self.service.hub().is_stopping() && self.stopper.stop.load(Ordering::Acquire) {
            self.begin_stopping();
        }
        self.tell_if_slow();
        if self.table.has_touched() {
            self.send();
        }
    }

    fn tick(&mut self, slot: usize, now_ns: u64) {
        if let Some(connection) = self.table.get(slot) {
            connection.tick(&mut self.service, now_ns, self.options.stall);
            self.table.touch(slot);
        }
    }

    /// Logs pending events.
    fn tell(&mut self) {
        self.service.look_after();
        for event in self.service.logbook_mut().events.drain(..) {
            (self.log)(&event);
        }
    }
}
