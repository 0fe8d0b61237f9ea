//! The reactor: one thread, one loop, all sockets and all drives.
//!
//! ```text
//!  wait (epoll; timer for the drives; not at all while there is work) ─► accept ─► read ─► drives run
//!    ▲                                                                                         │
//!    └──────────── ticks, endings ◄──── send ◄──── completions to their sessions ◄─────────────┘
//! ```
//! No connection keeps the others waiting: each turn reads at most once from each of them, and no more than so many bytes from all; sends
//! at most so many bytes on each; and the drives, where time is instant, are given the operations of all in turns ([`engine`](crate::engine)).
//!
//! How connections begin is in [`admission`]; which of them something is to be done for, in [`table`]; how a server ends, in [`ending`].
//!
//! Invariant: a connection that can be read, and may be, is among the readers before the loop waits.

mod admission;
mod ending;
mod table;

use crate::attachment::{Attached, Attachment};
use crate::core::Core;
use crate::event::Event;
use crate::service::{Answer, Done, Service};
use crate::session::{Close, ConnectionId, Session};
use crate::socket::{Address, Listener};
use crate::timer::Timer;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use pellucid_monitor::{Board, Protocol};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use table::Table;

use admission::Pending;

pub(crate) use table::SLOT_BITS;

const WAKER: Token = Token(0);
const TIMER: Token = Token(1);
const LISTENERS: usize = 2;
const CONNECTIONS: usize = 1 << 16;
const REMOTES: usize = CONNECTIONS + (1 << SLOT_BITS);
const ATTACHMENTS: Token = Token(1 << 20);

/// The protocol whose listeners have connections in reserve.
pub const CONTROL: &str = "control";
/// So many.
const CONTROL_RESERVE: usize = 16;
/// Most connections at once.
pub const CONNECTIONS_MAX: usize = (1 << SLOT_BITS) - 1 - CONTROL_RESERVE;

/// The longest read from a connection, beside a payload that goes to its place directly.
const READ_BYTES: usize = 256 << 10;
/// The same while memory budget is short: connections that hold some and do not use it are found sooner.
const SHORT_TICK_NS: u64 = 10_000_000;
/// The pacer is awake this long before an event: about what waking up takes.
const SPIN_NS: u64 = 60_000;
/// While polling, epoll is asked only every so many turns: the busiest connections are read from directly.
const TURNS_PER_POLL: u32 = 16;
/// Completion batches that are sent before sockets are looked at again,
const BATCHES_MAX: u32 = 64;
/// unless they have more bytes than this,
const BATCHES_BYTES_MAX: usize = 1 << 20;
/// or take longer than this.
const BATCHES_NS_MAX: u64 = 2_000_000;
/// Events of connections that are logged in a second; what there are more is counted.
const LOGGED_MAX: u32 = 100;
const LOGGED_NS: u64 = 1_000_000_000;
/// Connections that wait for the end of others, when there are as many as may be.
const PENDING_MAX: usize = 1024;
/// Bytes that are read in one turn, from all connections.
const TURN_READ_BYTES_MAX: usize = 2 << 20;

/// Makes the session of a new connection; the address is the one here that the peer connected to, `None` on a Unix socket. An error
/// turns the peer away.
pub type Accept<S = Core> =
    Box<dyn FnMut(ConnectionId, Option<SocketAddr>) -> Result<Box<dyn Session<S>>, String>>;

/// Takes what happens.
pub type Log = Box<dyn FnMut(&Event)>;

/// How to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Keep looking for work this long after the last, instead of sleeping.
    pub poll: Duration,
    /// Connections at once; more are turned away. At most [`CONNECTIONS_MAX`]. Control connections have 16 more.
    pub connections_max: usize,
    /// How long a connection may hold memory that others wait for and move nothing of it.
    pub stall: Duration,
    /// How long a connection that ends may take to send what it owes.
    pub ending: Duration,
    /// How often connections of which no event tells are looked at.
    pub tick: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            poll: Duration::ZERO,
            connections_max: 1024,
            stall: Duration::from_secs(5),
            ending: Duration::from_secs(5),
            tick: Duration::from_millis(100),
        }
    }
}

/// A duration, as the engine counts time.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Why serving could not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error("{address}: cannot listen: {error}")]
    Bind {
        /// The address.
        address: Address,
        /// What the system says.
        error: io::Error,
    },
    /// The system's event queue fails.
    #[error("waiting for events: {0}")]
    Poll(io::Error),
    /// The drives could not be put away.
    #[error("{0}")]
    Finish(String),
}

/// Stops a server from another thread or a signal handler's thread.
#[derive(Clone)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
    reason: Arc<OnceLock<&'static str>>,
    waker: Arc<Waker>,
}

impl Stopper {
    /// Has the server drain and return.
    pub fn stop(&self) {
        self.stop_because("asked");
    }

    /// The same; `reason`, one word, is in the log. The first one counts.
    pub fn stop_because(&self, reason: &'static str) {
        self.reason.get_or_init(|| reason);
        self.stop.store(true, Ordering::Release);
        // Without the wake-up the next tick notices.
        let _ = self.waker.wake();
    }
}

struct Listening<S> {
    listener: Listener,
    accept: Accept<S>,
    what: &'static str,
    /// Its place in the hub's list of protocols.
    protocol: usize,
    /// Why connections cannot be accepted; it has been logged.
    failing: Option<String>,
}

/// A server; without another service, of drives.
pub struct Server<S: Service = Core> {
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
    /// Events of connections in the second that ends then.
    connection_events: u32,
    logged_until_ns: u64,
    /// Connections that are being read from, or sent on; empty in between.
    at_hand: Vec<usize>,
    scratch: Vec<u8>,
    tick_ns: u64,
    /// The system has been asked for events in this turn: what peers have sent is known.
    asked: bool,
    /// When this turn began: a clock is read once a turn, and after sleep.
    turn_ns: u64,
    active_ns: u64,
    turns: u32,
    more: bool,
}

impl Server {
    /// Takes requests also from what is no stream socket.
    ///
    /// # Errors
    /// When the system cannot wait for it.
    pub fn attach(&mut self, attachment: Box<dyn Attachment>) -> io::Result<()> {
        for descriptor in attachment.descriptors() {
            let mut source = SourceFd(&descriptor);
            self.poll.registry().register(&mut source, ATTACHMENTS, Interest::READABLE)?;
        }
        let protocol = self.protocol(attachment.protocol());
        let namespace = attachment.namespace();
        let attached = Attached::new(self.attachments.len(), protocol, attachment);
        self.service.hub_mut().protocols[protocol].connections += 1;
        self.service.hub_mut().protocols[protocol].connected += 1;
        self.service.hold(attached.id, namespace);
        self.attachments.push(attached);
        Ok(())
    }
}

impl<S: Service> Server<S> {
    /// A server of `service`, which listens nowhere yet.
    ///
    /// # Errors
    /// When the system gives no event queue.
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
        })
    }

    /// Listens on `address`; `what` names the protocol in the log. Returns the address with the port that was chosen.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn listen(
        &mut self,
        address: &Address,
        what: &'static str,
        accept: Accept<S>,
    ) -> Result<Address, ServeError> {
        let refuse = |error| ServeError::Bind { address: address.clone(), error };
        let mut listener = Listener::bind(address).map_err(refuse)?;
        let token = Token(LISTENERS + self.listeners.len());
        listener.register(self.poll.registry(), token).map_err(refuse)?;
        let bound = listener.address().map_err(refuse)?;
        let protocol = self.protocol(what);
        self.listeners.push(Listening { listener, accept, what, protocol, failing: None });
        (self.log)(&Event::Listening { protocol: what, address: bound.to_string(), uri: None });
        Ok(bound)
    }

    /// What is served.
    pub fn service(&self) -> &S {
        &self.service
    }

    /// The place of a protocol in the hub's list.
    fn protocol(&mut self, name: &'static str) -> usize {
        let protocols = &mut self.service.hub_mut().protocols;
        protocols.iter().position(|p| p.name == name).unwrap_or_else(|| {
            protocols.push(Protocol { name, ..Protocol::default() });
            protocols.len() - 1
        })
    }

    /// From now on the figures are shown on `board` when asked for.
    pub fn show_on(&mut self, board: &Board) {
        let waker = self.stopper.waker.clone();
        // Without the wake-up the next turn notices.
        board.wake_with(move || drop(waker.wake()));
        self.service.show_on(board.clone());
    }

    /// What stops it.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until stopped; then drains, puts away what is served, and hands it back.
    ///
    /// # Errors
    /// When the event queue fails, or a store cannot be made durable.
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

    /// Lets the drives work and sends what comes out of them. What has been read is answered, batch by batch, before more is read:
    /// hosts go on with the first answers meanwhile, and no request waits behind later ones.
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

    /// Waits for sockets, the drives' next event or the next tick; not at all if there is work.
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
        let idle = self.service.hub().connections == 0 && !self.service.hub().stopping && !failing;
        self.poll_now(events, if idle { None } else { Some(Duration::from_nanos(tick)) })?;
        self.turn_ns = self.service.now_ns();
        Ok(())
    }

    /// Gives connections that are read from directly back to the event queue: idle ones, or all.
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
            // They are looked at in every turn.
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
        // Peers that wait for their next request only come first; a half of the turn is left to the others.
        reading.retain(|&slot| {
            let is_first =
                total <= TURN_READ_BYTES_MAX / 2 && self.table.get(slot).is_some_and(|c| c.is_quiet());
            if is_first {
                total += self.read_from(slot);
            }
            !is_first
        });
        for slot in reading.drain(..) {
            // The rest are the first in the next turn.
            if total > TURN_READ_BYTES_MAX {
                self.table.queue(slot);
            } else {
                total += self.read_from(slot);
            }
        }
        self.at_hand = reading;
    }

    /// Reads once from a connection; how many bytes.
    fn read_from(&mut self, slot: usize) -> usize {
        let Some(connection) = self.table.get(slot) else { return 0 };
        if !connection.wants_reading(&mut self.service) {
            return 0;
        }
        let came = connection.read(&mut self.service, &mut self.scratch);
        if came > 0 && self.service.hub_mut().protocols[connection.protocol].name != CONTROL {
            self.service.hub_mut().heard_ns = self.turn_ns;
        }
        self.table.touch(slot);
        if came > 0 && !self.options.poll.is_zero() {
            self.table.heat(slot, self.turn_ns, self.poll.registry());
        }
        came
    }

    /// Hands completions to their sessions; bytes of their data.
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

    /// A completion that is no connection's: an attachment's, or of a connection that is gone.
    fn deliver_elsewhere(&mut self, done: Done<Answer<S>>) {
        let attached = done.route.connection.attachment().and_then(|at| self.attachments.get_mut(at));
        match attached {
            Some(attached) => attached.completed(&mut self.service, done),
            None => self.service.discard(done.answer),
        }
    }

    /// Sends on every connection that something happened to, and sees whether it can be read from again, or has ended.
    fn send(&mut self) {
        self.attachments.iter_mut().for_each(Attached::send);
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
        self.service.hub_mut().connections -= 1;
        self.service.hub_mut().protocols[connection.protocol].connections -= 1;
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

    /// Ticks, and what sessions asked for about other connections.
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
        for (id, why) in std::mem::take(&mut self.service.hub_mut().closing) {
            if let Some((slot, connection)) = self.table.find(id) {
                connection.end(why, &self.service);
                self.table.touch(slot);
            }
        }
        for id in std::mem::take(&mut self.service.hub_mut().nudged) {
            if let Some((slot, _)) = self.table.find(id) {
                self.tick(slot, self.service.now_ns());
            }
        }
        self.admit_pending();
        self.service.show();
        let now = self.turn_ns;
        // A peer counts as silent only after everything was read that came while this process was busy, or stopped.
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
            // Those that could not be accepted when they came, for want of file descriptors, are told by no event.
            for at in 0..self.listeners.len() {
                self.accept(at);
            }
        }
        if !self.service.hub().stopping && self.stopper.stop.load(Ordering::Acquire) {
            self.begin_stopping();
        }
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

    /// Logs what has happened.
    fn tell(&mut self) {
        self.service.look_after();
        for event in self.service.hub_mut().events.drain(..) {
            (self.log)(&event);
        }
    }
}
