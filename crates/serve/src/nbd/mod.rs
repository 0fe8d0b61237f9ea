//! The NBD server: one session per connection, every namespace an export.
//!
//! ```text
//!  Handshake (options) ── GO, EXPORT_NAME ──► Transmission (requests)
//! ```
//! Any number of connections may use one export: they share one drive and its one buffer, so a flush on one covers what was
//! answered on all (CAN_MULTI_CONN).
//!
//! Invariant: in transmission every request is answered exactly once, in the form (simple or structured) agreed on.

mod handshake;
mod transmission;

use crate::session::{Close, Port, Session};
use handshake::{Handshake, Step};
use pellucid_flash::Completion;
use pellucid_wire::nbd::NbdError;
use transmission::Transmission;

/// Longest payload of a request; what clients assume unless told otherwise (NBD "Block sizes").
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// A client must begin transmission within this time.
const HANDSHAKE_NS_MAX: u64 = 10_000_000_000;

enum State {
    Handshake(Handshake),
    Transmission(Transmission),
}

/// One NBD connection at the server's end.
pub struct NbdSession {
    state: State,
    opened_ns: u64,
}

impl Default for NbdSession {
    fn default() -> NbdSession {
        NbdSession { state: State::Handshake(Handshake::default()), opened_ns: 0 }
    }
}

impl Session for NbdSession {
    fn opened(&mut self, port: &mut Port<'_>) {
        self.opened_ns = port.now_ns();
        port.output().head(&pellucid_wire::nbd::encode_greeting());
    }

    fn receive(&mut self, input: &mut &[u8], port: &mut Port<'_>) -> Result<(), Close> {
        if let State::Handshake(handshake) = &mut self.state {
            match handshake.receive(input, port)? {
                Step::More => return Ok(()),
                Step::Begin(export) => self.state = State::Transmission(Transmission::new(export)),
            }
        }
        match &mut self.state {
            State::Transmission(transmission) => transmission.receive(input, port),
            State::Handshake(_) => Ok(()),
        }
    }

    fn landing(&mut self) -> Option<&mut [u8]> {
        match &mut self.state {
            State::Transmission(transmission) => transmission.landing(),
            State::Handshake(_) => None,
        }
    }

    fn landed(&mut self, bytes: usize, port: &mut Port<'_>) -> Result<(), Close> {
        match &mut self.state {
            State::Transmission(transmission) => transmission.landed(bytes, port),
            State::Handshake(_) => Ok(()),
        }
    }

    fn completed(&mut self, token: u64, completion: Completion, port: &mut Port<'_>) {
        if let State::Transmission(transmission) = &mut self.state {
            transmission.completed(token, completion, port);
        }
    }

    fn tick(&mut self, now_ns: u64, _port: &mut Port<'_>) -> Result<(), Close> {
        let late = now_ns.saturating_sub(self.opened_ns) > HANDSHAKE_NS_MAX;
        if late && matches!(self.state, State::Handshake(_)) {
            return Err(Close::Refused("no export chosen within 10 s".into()));
        }
        Ok(())
    }
}

fn refused(error: NbdError) -> Close {
    Close::Refused(error.to_string())
}
