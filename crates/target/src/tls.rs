//! TLS between a session and its socket: decrypts records for the session, and encrypts its answers.
//!
//! ```text
//!  socket ─► input ─► engine ─► received ─► session
//!  socket ◄─ Port::output ◄─ engine ◄─ plain ◄─┘
//! ```
//! Invariant: no more input is taken while the session has not taken the received plain text, so `received`
//! holds at most the output of one engine call (a few records).

use crate::connection::Close;
use crate::output::Output;
use crate::pool::Pool;
use crate::service::{Answer, Service};
use crate::session::{Port, Session};

/// One end of a TLS connection, without its socket.
pub trait Engine {
    /// Takes records off the front of `input`, at least one byte, and appends their plain text to `received`.
    /// Returns true if the peer has closed the connection.
    ///
    /// # Errors
    /// Returns the reason if the connection must end.
    fn decrypt(&mut self, input: &mut &[u8], received: &mut Vec<u8>) -> Result<bool, Close>;

    /// Encrypts `plain` into records and adds them to `out`, with any other pending records (handshake,
    /// alert). Before the handshake has ended there is no plain text. The buffers of `plain` return to
    /// `pool`.
    fn encrypt(&mut self, plain: &mut Output, out: &mut Output, pool: &mut Pool);
}

impl Engine for Box<dyn Engine> {
    fn decrypt(&mut self, input: &mut &[u8], received: &mut Vec<u8>) -> Result<bool, Close> {
        (**self).decrypt(input, received)
    }

    fn encrypt(&mut self, plain: &mut Output, out: &mut Output, pool: &mut Pool) {
        (**self).encrypt(plain, out, pool);
    }
}

/// Offer of a server to clients that start TLS within a session.
pub trait Offer {
    /// Begins the server's end of a connection.
    ///
    /// # Errors
    /// Returns the reason if the connection must end.
    fn begin(&self) -> Result<Box<dyn Engine>, Close>;
}

/// TLS state of one connection.
pub struct Layer<E> {
    engine: E,
    received: Vec<u8>,
    plain: Output,
}

impl<E: Engine> Layer<E> {
    /// Creates the state of a connection before any input.
    pub fn new(engine: E) -> Layer<E> {
        Layer { engine, received: Vec::new(), plain: Output::default() }
    }

    /// Takes records and passes their plain text to `session`.
    pub fn receive<S: Service + ?Sized>(
        &mut self,
        input: &mut &[u8],
        port: &mut Port<'_, S>,
        mut session: impl FnMut(&mut &[u8], &mut Port<'_, S>) -> Result<(), Close>,
    ) -> Result<(), Close> {
        let result = loop {
            if let Err(why) = self.hand_over(port, &mut session) {
                break Err(why);
            }
            if input.is_empty() || !self.received.is_empty() || port.congested() {
                break Ok(());
            }
            if let Err(why) = self.decrypt(input) {
                break Err(why);
            }
        };
        // Sends the alert with the reason too.
        self.encrypt(port);
        result
    }

    /// Runs work of the session other than input.
    pub fn with<S: Service + ?Sized, T>(
        &mut self,
        port: &mut Port<'_, S>,
        work: impl FnOnce(&mut Port<'_, S>) -> T,
    ) -> T {
        let result = work(&mut port.with_output(&mut self.plain));
        self.encrypt(port);
        result
    }

    /// Returns true if the session has not taken all plain text.
    pub fn has_more(&self) -> bool {
        !self.received.is_empty()
    }

    fn encrypt<S: Service + ?Sized>(&mut self, port: &mut Port<'_, S>) {
        let (out, pool) = port.output_and_pool();
        self.engine.encrypt(&mut self.plain, out, pool);
    }

    fn decrypt(&mut self, input: &mut &[u8]) -> Result<(), Close> {
        let before = self.received.len();
        let closed = self.engine.decrypt(input, &mut self.received)?;
        if closed && self.received.len() == before { Err(Close::Finished) } else { Ok(()) }
    }

    fn hand_over<S: Service + ?Sized>(
        &mut self,
        port: &mut Port<'_, S>,
        session: &mut impl FnMut(&mut &[u8], &mut Port<'_, S>) -> Result<(), Close>,
    ) -> Result<(), Close> {
        // The session sees only the output that it adds now; only this port knows whether the peer takes the
        // pending output.
        if self.received.is_empty() || port.congested() {
            return Ok(());
        }
        let mut rest = &self.received[..];
        let result = session(&mut rest, &mut port.with_output(&mut self.plain));
        let taken = self.received.len() - rest.len();
        self.received.drain(..taken);
        result
    }
}

/// Builds the reason for a connection that TLS ends.
pub fn refused(error: impl std::fmt::Display) -> Close {
    Close::Refused(format!("TLS: {error}"))
}

/// A session whose peer speaks TLS from its first byte.
pub struct Secured<T, E> {
    session: T,
    tls: Layer<E>,
}

impl<T, E: Engine> Secured<T, E> {
    /// Puts a session behind TLS.
    pub fn new(session: T, tls: Layer<E>) -> Secured<T, E> {
        Secured { session, tls }
    }
}

impl<S: Service + ?Sized, T: Session<S>, E: Engine> Session<S> for Secured<T, E> {
    fn opened(&mut self, port: &mut Port<'_, S>) {
        let session = &mut self.session;
        self.tls.with(port, |port| session.opened(port));
    }

    fn receive(&mut self, input: &mut &[u8], port: &mut Port<'_, S>) -> Result<(), Close> {
        let session = &mut self.session;
        if session.has_more() && !port.congested() {
            self.tls.with(port, |port| session.receive(&mut &[][..], port))?;
        }
        self.tls.receive(input, port, |input, port| session.receive(input, port))
    }

    fn wants_input(&self) -> bool {
        self.session.wants_input()
    }

    fn completed(&mut self, token: u64, answer: Answer<S>, port: &mut Port<'_, S>) {
        let session = &mut self.session;
        self.tls.with(port, |port| session.completed(token, answer, port));
        // Input that was refused before may be accepted now.
        if let Err(why) = self.receive(&mut &[][..], port) {
            let me = port.connection();
            port.close(me, why);
        }
    }

    fn has_turn(&mut self, port: &mut Port<'_, S>) -> Result<(), Close> {
        let session = &mut self.session;
        self.tls.with(port, |port| session.has_turn(port))
    }

    fn tick(&mut self, now_ns: u64, port: &mut Port<'_, S>) -> Result<(), Close> {
        let session = &mut self.session;
        self.tls.with(port, |port| session.tick(now_ns, port))
    }

    fn has_more(&self) -> bool {
        self.tls.has_more() || self.session.has_more()
    }

    fn closed(&mut self, port: &mut Port<'_, S>) {
        self.session.closed(port);
    }
}
