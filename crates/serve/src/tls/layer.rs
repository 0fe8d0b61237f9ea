//! TLS between a session and its socket: decrypts records for the session, and encrypts its answers.
//!
//! ```text
//!  socket ─► input ─► engine ─► received ─► session
//!  socket ◄─ Port::output ◄─ engine ◄─ plain ◄─┘
//! ```
//! Invariant: no more input is taken while the session has not taken the received plain text, so `received`
//! holds at most the output of one engine call (a few records).

use crate::output::Output;
use crate::pool::Pool;
use crate::service::Service;
use crate::session::{Close, Port};

/// One end of a TLS connection, without its socket.
pub(crate) trait Engine {
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

/// TLS state of one connection.
pub(crate) struct Layer<E> {
    engine: E,
    received: Vec<u8>,
    plain: Output,
}

impl<E: Engine> Layer<E> {
    pub fn new(engine: E) -> Layer<E> {
        Layer { engine, received: Vec::new(), plain: Output::default() }
    }

    /// Takes records and passes their plain text to `session`.
    pub fn receive<S: Service>(
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
    pub fn with<S: Service, T>(
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

    fn encrypt<S: Service>(&mut self, port: &mut Port<'_, S>) {
        let (out, pool) = port.output_and_pool();
        self.engine.encrypt(&mut self.plain, out, pool);
    }

    fn decrypt(&mut self, input: &mut &[u8]) -> Result<(), Close> {
        let before = self.received.len();
        let closed = self.engine.decrypt(input, &mut self.received)?;
        if closed && self.received.len() == before { Err(Close::Finished) } else { Ok(()) }
    }

    fn hand_over<S: Service>(
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
pub(crate) fn refused(error: impl std::fmt::Display) -> Close {
    Close::Refused(format!("TLS: {error}"))
}
