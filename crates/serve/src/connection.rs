//! One connection: a stream, its session, and what is on the way between them.
//!
//! ```text
//!  Open ── Close::Finished, end of stream ──► Draining ── all answered and sent ──► gone
//!    ├──── Close::Refused ──► Refusing ── all sent; told so, input dropped until the peer ends ──► gone
//!    └──── socket error ──► gone
//! ```
//! One that is gone is forgotten when what it has in the drives has ended: then who waits for its end knows that nothing of it will
//! change them any more, and peers that come and go cannot have more there than one who stays.
//!
//! Input that a congested session did not take is held here, and nothing more is read until it is taken, so a peer that
//! sends faster than it is served meets a full socket.

use crate::core::{Core, Done};
use crate::output::Output;
use crate::session::{Close, ConnectionId, Load, Port, Session, TOTAL_BYTES_MAX};
use crate::socket::{Stream, UNIX_SEND_BYTES};
use std::io::{self, IoSliceMut};

/// A connection that is ending must be gone after this time.
const ENDING_NS_MAX: u64 = 5_000_000_000;

/// Where all connections together hold nearly as much as they may, everybody has to wait for room: who has had answers of so many bytes
const STUCK_BYTES: usize = 1 << 20;
/// for so long, and has taken nothing of them, does not keep it from the others.
const STUCK_NS_MAX: u64 = 5_000_000_000;

/// So many answers a Unix socket holds while its connection is hot: what is sent together then is freed together, and still in a cache
/// when the client takes it.
const ANSWERS_HELD: usize = 8;
/// But never fewer bytes.
const HELD_BYTES_MIN: usize = 32 << 10;
/// The size of an answer is the mean of so many.
const ANSWERS_SEEN: usize = 64;

/// Answers since the size of the socket was last looked at.
#[derive(Default)]
struct Answers {
    count: usize,
    bytes: usize,
    /// What the socket holds.
    held_bytes: usize,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Draining,
    Refusing,
    /// Nothing more will be sent; waits for the peer's end, so that what was sent is not lost to a reset.
    Told,
}

pub(crate) struct Connection {
    pub id: ConnectionId,
    pub stream: Stream,
    pub peer: String,
    /// Its protocol's place in the core's list.
    pub protocol: usize,
    /// In the list of those to be read from.
    pub queued: bool,
    /// In the list of those to be looked after.
    pub touched: bool,
    pub readable: bool,
    /// The peer has sent its last byte: read until the end of the stream comes out, for no event will tell.
    pub half_closed: bool,
    session: Box<dyn Session>,
    output: Output,
    load: Load,
    held: Vec<u8>,
    answers: Answers,
    phase: Phase,
    why: Option<Close>,
    ends_by_ns: u64,
    writable: bool,
    /// The peer has taken something since the last tick.
    taken: bool,
    /// It was so at this time, or there was nothing to take.
    taken_ns: u64,
    gone: bool,
}

impl Connection {
    pub fn new(
        id: ConnectionId,
        stream: Stream,
        peer: String,
        protocol: usize,
        session: Box<dyn Session>,
    ) -> Connection {
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
            held: Vec::new(),
            answers: Answers::default(),
            phase: Phase::Open,
            why: None,
            ends_by_ns: u64::MAX,
            writable: true,
            taken: true,
            taken_ns: 0,
            gone: false,
        }
    }

    /// Lets the session work, and ends the connection if it says so.
    fn with_session(
        &mut self,
        core: &mut Core,
        work: impl FnOnce(&mut dyn Session, &mut Port<'_>) -> Result<(), Close>,
    ) {
        let before = self.output.bytes();
        let mut port = Port::new(core, self.id, &mut self.load, &mut self.output);
        let result = work(&mut *self.session, &mut port);
        core.bytes_in_outputs += self.output.bytes() - before;
        if let Err(why) = result {
            self.end(why, core);
        }
    }

    pub fn open(&mut self, core: &mut Core) {
        self.with_session(core, |session, port| {
            session.opened(port);
            Ok(())
        });
    }

    /// Begins to end. The first reason holds.
    pub fn end(&mut self, why: Close, core: &Core) {
        if self.phase != Phase::Open {
            return;
        }
        self.phase = match why {
            Close::Finished => Phase::Draining,
            Close::Refused(_) => Phase::Refusing,
        };
        self.held = Vec::new();
        self.why = Some(why);
        self.ends_by_ns = core.now_ns().saturating_add(ENDING_NS_MAX);
    }

    /// Whether reading from it may bring something.
    pub fn wants_reading(&mut self, core: &mut Core) -> bool {
        match self.phase {
            _ if self.gone => false,
            Phase::Open => {
                let congested = Port::new(core, self.id, &mut self.load, &mut self.output).congested();
                (self.readable || self.has_more()) && !congested
            }
            Phase::Told | Phase::Draining => self.readable,
            Phase::Refusing => false,
        }
    }

    /// Whether input is here that the session has not worked on, because it was congested or had done enough at once.
    fn has_more(&self) -> bool {
        !self.held.is_empty() || self.session.has_more()
    }

    /// It may be possible to read, and to send; whether something waits to be sent.
    pub fn try_again(&mut self) -> bool {
        (self.readable, self.writable) = (true, true);
        !self.output.is_empty()
    }

    /// While it is read from, and sent on, in every turn, its socket holds a few answers only; `hot`: it is.
    pub fn fit_socket(&mut self, hot: bool) {
        let Answers { count, bytes, held_bytes } = &mut self.answers;
        let wanted = match hot {
            true if *count < ANSWERS_SEEN => return,
            true => *bytes / *count * ANSWERS_HELD,
            false => UNIX_SEND_BYTES,
        };
        (*count, *bytes) = (0, 0);
        // In powers of two, so that it seldom changes.
        let fitting = 1 << wanted.clamp(HELD_BYTES_MIN, UNIX_SEND_BYTES).ilog2();
        // A socket that keeps its size is only slower.
        if std::mem::replace(held_bytes, fitting) != fitting {
            let _ = self.stream.hold(fitting);
        }
    }

    /// The system has no events for it any more.
    pub fn give_up(&mut self) {
        self.gone = true;
    }

    /// Reads once and hands what came to the session; whether something came.
    pub fn read(&mut self, core: &mut Core, scratch: &mut [u8]) -> bool {
        if self.phase != Phase::Open {
            self.drop_input(scratch);
            return false;
        }
        if self.has_more() {
            let held = std::mem::take(&mut self.held);
            self.receive(core, &held);
            return false;
        }
        let (landing, room, result) = match self.session.landing() {
            Some(landing) => {
                let length = landing.len();
                let room = length + scratch.len();
                let mut slices = [IoSliceMut::new(landing), IoSliceMut::new(scratch)];
                (length, room, self.stream.read_vectored(&mut slices))
            }
            None => (0, scratch.len(), self.stream.read(scratch)),
        };
        match result {
            Ok(0) => {
                self.readable = false;
                self.end(Close::Finished, core);
            }
            Ok(count) => {
                // A stream that gave less than was asked for has no more; the next bytes come with an event.
                self.readable = count == room || self.half_closed;
                core.protocols[self.protocol].received_bytes += count as u64;
                let landed = count.min(landing);
                if landed > 0 {
                    self.with_session(core, |session, port| session.landed(landed, port));
                }
                if count > landed && self.phase == Phase::Open {
                    self.receive(core, &scratch[..count - landed]);
                }
                return true;
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.readable = false,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.gone = true,
        }
        false
    }

    fn receive(&mut self, core: &mut Core, bytes: &[u8]) {
        let mut input = bytes;
        self.with_session(core, |session, port| session.receive(&mut input, port));
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
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.readable = false,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.gone = true,
        }
    }

    /// One of its operations has ended.
    pub fn completed(&mut self, core: &mut Core, done: Done) {
        self.load.commands -= 1;
        self.answers.count += 1;
        core.protocols[self.protocol].commands += 1;
        self.load.bytes -= done.bytes;
        if self.gone || matches!(self.phase, Phase::Refusing | Phase::Told) {
            return core.pool.give_back(done.completion.data);
        }
        self.with_session(core, |session, port| {
            session.completed(done.route.token, done.completion, port);
            Ok(())
        });
    }

    /// The socket takes bytes again.
    pub fn writable(&mut self) {
        self.writable = true;
    }

    /// Sends what can be sent.
    pub fn send(&mut self, core: &mut Core) {
        if self.writable && !self.output.is_empty() && !self.gone {
            let before = self.output.bytes();
            match self.output.write_to(&mut self.stream, &mut core.pool) {
                Ok(all) => self.writable = all,
                Err(_) => self.gone = true,
            }
            let sent = before - self.output.bytes();
            self.taken |= sent > 0;
            self.answers.bytes += sent;
            core.bytes_in_outputs -= sent;
            core.protocols[self.protocol].sent_bytes += sent as u64;
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

    pub fn tick(&mut self, core: &mut Core, now_ns: u64) {
        if std::mem::take(&mut self.taken) || self.output.bytes() < STUCK_BYTES {
            self.taken_ns = now_ns;
        } else if core.bytes_held() >= TOTAL_BYTES_MAX / 4 * 3 && now_ns > self.taken_ns + STUCK_NS_MAX {
            self.why = Some(Close::Refused("takes no answers while others wait for room for theirs".into()));
            self.gone = true;
            // At once, so that no more are sent away than are in the way.
            core.bytes_in_outputs -= self.output.bytes();
            self.output.discard(&mut core.pool);
        }
        if self.phase == Phase::Open && !self.gone {
            self.with_session(core, |session, port| session.tick(now_ns, port));
        } else if now_ns >= self.ends_by_ns {
            self.gone = true;
        }
    }

    /// Whether it can be forgotten.
    pub fn is_gone(&self) -> bool {
        self.gone && self.load.commands == 0
    }

    /// Tells the session, and gives memory back. Says why the connection ended.
    pub fn forget(mut self, core: &mut Core) -> Option<Close> {
        core.bytes_in_outputs -= self.output.bytes();
        self.session.closed(&mut Port::new(core, self.id, &mut self.load, &mut self.output));
        self.output.discard(&mut core.pool);
        self.why
    }
}
