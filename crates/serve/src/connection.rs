//! One connection: a stream, its session, and the data in transit between them.
//!
//! ```text
//!  Open ── Close::Finished, end of stream ──► Draining ── all answered and sent ──► gone
//!    ├──── Close::Refused ──► Refusing ── all sent; told so, input dropped until the peer ends ──► gone
//!    └──── socket error ──► gone
//! ```
//! A connection that is gone is removed when its last operation has ended. So once it is removed it changes
//! nothing, and peers that reconnect cannot have more in the drives than one that stays.
//!
//! Input that a congested session has not accepted is held here, and no more is read until it is accepted. So
//! a peer that sends faster than it is served finds its socket full.

use crate::server::nanoseconds;
use crate::service::{Done, Operated};
use crate::socket::{Stream, UNIX_SEND_BYTES};
use pellucid_target::Answer;
use pellucid_target::Output;
use pellucid_target::budget::{OWN_BYTES, STALL_PART, large_part};
use pellucid_target::connection::{Close, ConnectionId};
use pellucid_target::session::{Load, Port, Session};
use std::io::{self, IoSliceMut};
use std::time::Duration;

/// Bytes read and dropped from a refused peer before the server stops waiting for its end.
const DROPPED_BYTES_MAX: usize = 1 << 20;

/// Longest part of a payload read at once, so that other connections get their turn.
const LANDING_BYTES_MAX: usize = 1 << 20;
/// Most bytes sent at once, so that other connections get their turn.
const SEND_BYTES_MAX: usize = 512 << 10;
/// Longest read into a scratch buffer while memory budget is short; bytes that the session cannot take are
/// held here.
const SHORT_READ_BYTES: usize = 16 << 10;

/// Answers that a Unix socket holds while its connection is hot. Answers that are sent together are freed
/// together, and are still in a cache when the client takes them.
const ANSWERS_HELD: usize = 8;
/// Minimum bytes that a hot socket holds.
const HELD_BYTES_MIN: usize = 32 << 10;
/// Number of answers over which the mean size is computed.
const ANSWERS_SEEN: usize = 64;

/// Answers since the socket's size was last set.
#[derive(Default)]
struct Answers {
    count: usize,
    bytes: usize,
    /// Bytes that the socket holds.
    held_bytes: usize,
}

/// State that detects a connection that does not move its data.
#[derive(Default)]
struct Stall {
    since_ns: u64,
    held: u64,
    moved: u64,
}

/// Phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Draining,
    Refusing,
    /// All output is sent; waits for the peer to close, so that a reset does not lose the output.
    Told,
}

pub(crate) struct Connection<S: Operated> {
    pub id: ConnectionId,
    pub stream: Stream,
    pub peer: String,
    /// Index of its protocol in the hub's list.
    pub protocol: usize,
    /// Listed among the connections to read from.
    pub queued: bool,
    /// Listed among the connections to look after.
    pub touched: bool,
    pub readable: bool,
    /// Flag: the peer has sent its last byte; read until the end of the stream, because no more events
    /// will come.
    pub half_closed: bool,
    session: Box<dyn Session<S::Face>>,
    output: Output,
    load: Load,
    /// Upper bound of the bytes of large-read answers in the output.
    large_answers: usize,
    held: Vec<u8>,
    answers: Answers,
    phase: Phase,
    why: Option<Close>,
    /// Bytes that came after it was closed.
    dropped: usize,
    /// Time allowed for ending.
    ending: Duration,
    ends_by_ns: u64,
    writable: bool,
    /// Bytes held when the connection last moved enough of them, and the time of that.
    stall: Stall,
    gone: bool,
}

impl<S: Operated> Connection<S> {
    pub fn new(
        id: ConnectionId,
        stream: Stream,
        peer: String,
        protocol: usize,
        session: Box<dyn Session<S::Face>>,
        ending: Duration,
    ) -> Connection<S> {
        Connection {
            id,
            stream,
            peer,
            protocol,
            queued: false,
            touched: false,
            readable: false,
            half_closed: false,
            session,
            output: Output::default(),
            load: Load::default(),
            large_answers: 0,
            held: Vec::new(),
            answers: Answers::default(),
            phase: Phase::Open,
            why: None,
            dropped: 0,
            ending,
            ends_by_ns: u64::MAX,
            writable: true,
            stall: Stall::default(),
            gone: false,
        }
    }

    /// Runs the session, and ends the connection if the session says so.
    fn with_session(
        &mut self,
        service: &mut S,
        work: impl FnOnce(&mut dyn Session<S::Face>, &mut Port<'_, S::Face>) -> Result<(), Close>,
    ) {
        let before = self.output.bytes();
        let mut port = Port::new(service.face(), self.id, &mut self.load, &mut self.output);
        let result = work(&mut *self.session, &mut port);
        service.hub_mut().output_changed(before, self.output.bytes());
        if let Err(why) = result {
            self.end(why, service);
        }
    }

    pub fn open(&mut self, service: &mut S) {
        self.with_session(service, |session, port| {
            session.opened(port);
            Ok(())
        });
    }

    /// Begins to end. The first reason is kept.
    pub fn end(&mut self, why: Close, service: &S) {
        if self.phase != Phase::Open {
            return;
        }
        self.phase = match why {
            Close::Finished => Phase::Draining,
            Close::Refused(_) => Phase::Refusing,
        };
        self.held = Vec::new();
        self.why = Some(why);
        self.ends_by_ns = service.now_ns().saturating_add(nanoseconds(self.ending));
    }

    /// Returns true if reading may yield input.
    pub fn wants_reading(&mut self, service: &mut S) -> bool {
        match self.phase {
            _ if self.gone => false,
            Phase::Open => {
                let congested =
                    Port::new(service.face(), self.id, &mut self.load, &mut self.output).congested();
                (self.readable || self.has_more()) && self.session.wants_input() && !congested
            }
            Phase::Told | Phase::Draining => self.readable,
            Phase::Refusing => false,
        }
    }

    /// Returns true if no operation is in flight and no data are arriving: the peer waits only for answers to
    /// its next requests.
    pub fn is_quiet(&self) -> bool {
        self.load.commands == 0 && self.load.incoming == 0
    }

    /// Returns true if the session has unprocessed input, because it was congested or had done enough in one
    /// turn.
    fn has_more(&self) -> bool {
        !self.held.is_empty() || self.session.has_more()
    }

    /// Marks the connection readable and writable; returns true if output waits.
    pub fn try_again(&mut self) -> bool {
        (self.readable, self.writable) = (true, true);
        !self.output.is_empty()
    }

    /// Sizes the socket's buffer; `hot`: the connection is read and sent to in every turn, so a few answers
    /// suffice.
    pub fn fit_socket(&mut self, hot: bool) {
        let Answers { count, bytes, held_bytes } = &mut self.answers;
        let wanted = match hot {
            true if *count < ANSWERS_SEEN => return,
            true => *bytes / *count * ANSWERS_HELD,
            false => UNIX_SEND_BYTES,
        };
        (*count, *bytes) = (0, 0);
        // Powers of two, so that the size seldom changes.
        let fitting = 1 << wanted.clamp(HELD_BYTES_MIN, UNIX_SEND_BYTES).ilog2();
        // On failure the socket keeps its size and is only slower.
        if std::mem::replace(held_bytes, fitting) != fitting {
            let _ = self.stream.hold(fitting);
        }
    }

    /// Returns true if it only waits for its peer to close.
    pub fn is_told(&self) -> bool {
        self.phase == Phase::Told
    }

    /// Ends the connection without waiting for anything more.
    pub fn give_up(&mut self) {
        self.gone = true;
    }

    /// Reads once and hands the input to the session; returns the number of bytes.
    pub fn read(&mut self, service: &mut S, scratch: &mut [u8]) -> usize {
        if self.phase != Phase::Open {
            self.drop_input(scratch);
            return 0;
        }
        if self.has_more() {
            self.receive_held(service);
            return 0;
        }
        let short = service.hub().budget.is_short(service.bytes_held());
        let scratch = if short { &mut scratch[..SHORT_READ_BYTES] } else { scratch };
        let (landing, wanted, result) = match self.session.landing() {
            Some(landing) if landing.len() > LANDING_BYTES_MAX => {
                let part = &mut landing[..LANDING_BYTES_MAX];
                (LANDING_BYTES_MAX, LANDING_BYTES_MAX, self.stream.read(part))
            }
            Some(landing) => {
                let length = landing.len();
                let wanted = length + scratch.len();
                let mut slices = [IoSliceMut::new(landing), IoSliceMut::new(scratch)];
                (length, wanted, self.stream.read_vectored(&mut slices))
            }
            None => (0, scratch.len(), self.stream.read(scratch)),
        };
        match result {
            Ok(0) => {
                self.readable = false;
                self.end(Close::Finished, service);
            }
            Ok(count) => {
                // A short read means that the stream has no more bytes now; an event announces the next.
                self.readable = count == wanted || self.half_closed;
                service.logbook_mut().protocols[self.protocol].received_bytes += count as u64;
                let landed = count.min(landing);
                if landed > 0 {
                    self.with_session(service, |session, port| session.landed(landed, port));
                }
                if count > landed && self.phase == Phase::Open {
                    self.receive(service, &scratch[..count - landed]);
                }
                return count;
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.readable = false,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.gone = true,
        }
        0
    }

    fn receive_held(&mut self, service: &mut S) {
        let mut held = std::mem::take(&mut self.held);
        let mut input = &held[..];
        self.with_session(service, |session, port| session.receive(&mut input, port));
        if self.phase == Phase::Open && !input.is_empty() {
            let taken = held.len() - input.len();
            held.drain(..taken);
            self.held = held;
        }
    }

    fn receive(&mut self, service: &mut S, bytes: &[u8]) {
        let mut input = bytes;
        self.with_session(service, |session, port| session.receive(&mut input, port));
        if self.phase == Phase::Open && !input.is_empty() {
            self.held = input.to_vec();
        }
    }

    fn drop_input(&mut self, scratch: &mut [u8]) {
        match self.stream.read(scratch) {
            Ok(0) => {
                self.readable = false;
                self.gone |= self.phase == Phase::Told;
            }
            Ok(count) => {
                self.dropped += count;
                self.gone |= self.phase == Phase::Told && self.dropped > DROPPED_BYTES_MAX;
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.readable = false,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.gone = true,
        }
    }

    /// Passes on the completion of one of its operations.
    pub fn completed(&mut self, service: &mut S, done: Done<Answer<S>>) {
        self.load.answered(done.bytes);
        self.answers.count += 1;
        service.logbook_mut().protocols[self.protocol].commands += 1;
        if self.gone || matches!(self.phase, Phase::Refusing | Phase::Told) {
            return service.discard(done.answer);
        }
        let before = self.output.bytes();
        self.with_session(service, |session, port| {
            session.completed(done.route.token, done.answer, port);
            Ok(())
        });
        let large = large_part(done.bytes).min(self.output.bytes() - before);
        self.large_answers += large;
        service.hub_mut().budget.hold_large(large);
    }

    /// Limits the count of large answers to the size of the output.
    fn settle_large(&mut self, service: &mut S) {
        let left = self.large_answers.min(self.output.bytes());
        service.hub_mut().budget.release_large(self.large_answers - left);
        self.large_answers = left;
    }

    /// Marks the socket writable again.
    pub fn writable(&mut self) {
        self.writable = true;
    }

    /// Sends as much output as the socket takes.
    pub fn send(&mut self, service: &mut S) {
        if self.wants_sending() {
            let before = self.output.bytes();
            match self.output.write_part(&mut self.stream, &mut service.hub_mut().pool, SEND_BYTES_MAX) {
                Ok(takes_more) => self.writable = takes_more,
                Err(_) => self.gone = true,
            }
            let sent = before - self.output.bytes();
            self.load.moved += sent as u64;
            self.answers.bytes += sent;
            service.hub_mut().output_changed(before, self.output.bytes());
            service.logbook_mut().protocols[self.protocol].sent_bytes += sent as u64;
            self.settle_large(service);
        }
        if self.output.is_empty() {
            match self.phase {
                Phase::Draining if self.load.commands == 0 => self.gone = true,
                Phase::Refusing => {
                    self.stream.shutdown_write();
                    self.phase = Phase::Told;
                    self.readable = true;
                }
                _ => {}
            }
        }
    }

    pub fn tick(&mut self, service: &mut S, now_ns: u64, stall: Duration) {
        self.output.rest();
        if self.is_stalled(service, now_ns, stall) {
            let what = if self.load.incoming > 0 { "sends no data" } else { "takes no answers" };
            self.why = Some(Close::Refused(format!("{what} while others wait for room for theirs")));
            self.gone = true;
            // Released at once, so that no more connections are closed than necessary.
            self.load.give_up_incoming(service.hub_mut());
            service.hub_mut().output_changed(self.output.bytes(), 0);
            self.output.discard(&mut service.hub_mut().pool);
            self.settle_large(service);
        }
        if self.phase == Phase::Open && !self.gone {
            self.with_session(service, |session, port| session.tick(now_ns, port));
        } else if now_ns >= self.ends_by_ns {
            self.gone = true;
        }
    }

    /// Returns true if it keeps budget from others without moving its data; see [`pellucid_target::budget`].
    fn is_stalled(&mut self, service: &S, now_ns: u64, stall: Duration) -> bool {
        let moved = self.stall.moved + std::mem::take(&mut self.load.moved);
        let held = self.output.bytes() + self.load.incoming;
        let enough = moved > 0 && moved * STALL_PART >= self.stall.held;
        if held <= OWN_BYTES || enough || !service.hub().budget.is_short(service.bytes_held()) {
            self.stall = Stall { since_ns: now_ns, held: held as u64, moved: 0 };
            return false;
        }
        self.stall.moved = moved;
        now_ns > self.stall.since_ns.saturating_add(nanoseconds(stall))
    }

    /// Tells the session that the memory budget it waited for is available.
    pub fn has_turn(&mut self, service: &mut S) {
        self.load.give_turn();
        if self.phase == Phase::Open && !self.gone {
            self.with_session(service, |session, port| session.has_turn(port));
        }
        self.load.take_turn();
    }

    /// Returns true if output waits and the socket may take it.
    pub fn wants_sending(&self) -> bool {
        self.writable && !self.output.is_empty() && !self.gone
    }

    /// Returns true if it can be removed.
    pub fn is_gone(&self) -> bool {
        self.gone && self.load.commands == 0
    }

    /// Closes the session and releases memory. Returns the reason why the connection ended.
    pub fn close(mut self, service: &mut S) -> Option<Close> {
        service.hub_mut().output_changed(self.output.bytes(), 0);
        self.load.give_up_incoming(service.hub_mut());
        self.session.closed(&mut Port::new(service.face(), self.id, &mut self.load, &mut self.output));
        self.output.discard(&mut service.hub_mut().pool);
        self.settle_large(service);
        self.why
    }
}
