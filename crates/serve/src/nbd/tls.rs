//! TLS under NBD: records to plain text for the session, and its answers back to records.
//!
//! ```text
//!  socket ─► input ─► connection ─► received ─► session
//!  socket ◄─ Port::output ◄─ connection ◄─ plain ◄─┘
//! ```
//! Invariant: no more is taken from the input while the session has not taken what was received, so `received` holds at most
//! what one call of the connection gives (some records).

use crate::output::Output;
use crate::session::{Close, Port};
use crate::tls::TlsConfig;
use rustls::ServerConnection;
use std::io::Read;
use std::sync::Arc;

/// The TLS state of one connection.
pub(super) struct Tls {
    connection: ServerConnection,
    received: Vec<u8>,
    plain: Output,
}

impl Tls {
    pub(super) fn new(config: &TlsConfig) -> Result<Tls, Close> {
        let mut connection = ServerConnection::new(Arc::clone(&config.0)).map_err(refused)?;
        // What it holds is bounded by what the session may have under way.
        connection.set_buffer_limit(None);
        Ok(Tls { connection, received: Vec::new(), plain: Output::default() })
    }

    /// Takes records; `session` is given the plain text.
    pub(super) fn receive(
        &mut self,
        input: &mut &[u8],
        port: &mut Port<'_>,
        mut session: impl FnMut(&mut &[u8], &mut Port<'_>) -> Result<(), Close>,
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
        // Also the alert that says why.
        self.encrypt(port);
        result
    }

    /// Lets the session work on something else than input.
    pub(super) fn with(&mut self, port: &mut Port<'_>, work: impl FnOnce(&mut Port<'_>)) {
        work(&mut port.with_output(&mut self.plain));
        self.encrypt(port);
    }

    fn decrypt(&mut self, input: &mut &[u8]) -> Result<(), Close> {
        self.connection.read_tls(input).map_err(refused)?;
        let state = self.connection.process_new_packets().map_err(refused)?;
        let (count, closed) = (state.plaintext_bytes_to_read(), state.peer_has_closed());
        let start = self.received.len();
        self.received.resize(start + count, 0);
        self.connection.reader().read_exact(&mut self.received[start..]).map_err(refused)?;
        if closed && count == 0 { Err(Close::Finished) } else { Ok(()) }
    }

    fn hand_over(
        &mut self,
        port: &mut Port<'_>,
        session: &mut impl FnMut(&mut &[u8], &mut Port<'_>) -> Result<(), Close>,
    ) -> Result<(), Close> {
        if self.received.is_empty() {
            return Ok(());
        }
        let mut rest = &self.received[..];
        let result = session(&mut rest, &mut port.with_output(&mut self.plain));
        let taken = self.received.len() - rest.len();
        self.received.drain(..taken);
        result
    }

    /// Moves the session's answers into records, and records to the socket's output.
    fn encrypt(&mut self, port: &mut Port<'_>) {
        // Without a limit the connection takes all; before the handshake has ended there is nothing.
        let all = self.plain.write_to(&mut self.connection.writer(), port.pool());
        debug_assert!(matches!(all, Ok(true)), "{all:?}");
        while self.connection.wants_write() {
            let connection = &mut self.connection;
            port.output().encode(|out| {
                // A vector takes everything.
                let _ = connection.write_tls(out);
            });
        }
    }
}

fn refused(error: impl std::fmt::Display) -> Close {
    Close::Refused(format!("TLS: {error}"))
}
