//! The NBD server: one session per connection, every namespace an export.
//!
//! ```text
//!  Handshake (options) ── GO, EXPORT_NAME ──► Transmission (requests)
//!     │    ▲
//!     └────┴─ STARTTLS: from then on everything goes through a [`Layer`]
//! ```
//! Any number of connections may use one export. They share one drive and its buffer, so a flush on one
//! connection covers the writes answered on all (CAN_MULTI_CONN).
//!
//! Invariant: in transmission every request is answered exactly once, in the agreed form (simple or
//! structured).

mod handshake;
mod transmission;

use crate::connection::Close;
use crate::session::{Port, Session};
use crate::tls::{Engine, Layer, Offer};
use handshake::{Handshake, Step};
use pellucid_flash::Completion;
use pellucid_wire::nbd::NbdError;
use transmission::Transmission;

pub use transmission::errno;

/// Longest payload of a request; clients assume this value by default (NBD "Block sizes").
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// Time limit for a client to begin transmission.
const HANDSHAKE_NS_MAX: u64 = 10_000_000_000;

enum State {
    Handshake(Handshake),
    Transmission(Transmission),
}

/// The server's end of one NBD connection.
pub struct NbdSession {
    state: State,
    opened_ns: u64,
    /// TLS configuration, if the client must start TLS before anything else.
    offer: Option<Box<dyn Offer>>,
    tls: Option<Box<Layer<Box<dyn Engine>>>>,
}

impl NbdSession {
    /// Creates a session that serves only clients that start TLS.
    pub fn secured(offer: Box<dyn Offer>) -> NbdSession {
        let handshake = Handshake::default().with_tls_required();
        NbdSession { state: State::Handshake(handshake), offer: Some(offer), ..NbdSession::default() }
    }

    /// Disables structured replies: a client then needs fewer steps for each answer, but cannot ask which
    /// ranges hold data.
    #[must_use]
    pub fn with_simple_replies(self) -> NbdSession {
        match self.state {
            State::Handshake(handshake) => {
                NbdSession { state: State::Handshake(handshake.with_simple_replies()), ..self }
            }
            State::Transmission(_) => self,
        }
    }

    /// Takes input of the client, in the clear or decrypted.
    fn take(&mut self, input: &mut &[u8], port: &mut Port<'_>) -> Result<(), Close> {
        if let State::Handshake(handshake) = &mut self.state {
            match handshake.receive(input, port)? {
                Step::More => return Ok(()),
                Step::Begin(export) => {
                    port.hold(export.namespace);
                    self.state = State::Transmission(Transmission::new(export));
                }
                Step::StartTls => return self.start_tls(input),
            }
        }
        match &mut self.state {
            State::Transmission(transmission) => transmission.receive(input, port),
            State::Handshake(_) => Ok(()),
        }
    }

    fn start_tls(&mut self, input: &[u8]) -> Result<(), Close> {
        // An attacker could have injected data that precede the reply.
        if !input.is_empty() {
            return Err(Close::Refused("TLS: data in the clear behind STARTTLS".into()));
        }
        let Some(offer) = &self.offer else { return Ok(()) };
        self.tls = Some(Box::new(Layer::new(offer.begin()?)));
        Ok(())
    }

    /// Runs `work` inside TLS, if it is in use; then also takes input that could not be taken before.
    fn inside(
        &mut self,
        port: &mut Port<'_>,
        work: impl FnOnce(&mut State, &mut Port<'_>),
    ) -> Result<(), Close> {
        match self.tls.take() {
            None => {
                work(&mut self.state, port);
                Ok(())
            }
            Some(mut tls) => {
                tls.with(port, |port| work(&mut self.state, port));
                let result = tls.receive(&mut &[][..], port, |input, port| self.take(input, port));
                self.tls = Some(tls);
                result
            }
        }
    }
}

impl Default for NbdSession {
    fn default() -> NbdSession {
        NbdSession { state: State::Handshake(Handshake::default()), opened_ns: 0, offer: None, tls: None }
    }
}

impl Session for NbdSession {
    fn opened(&mut self, port: &mut Port<'_>) {
        self.opened_ns = port.now_ns();
        port.output().head(&pellucid_wire::nbd::encode_greeting());
    }

    fn receive(&mut self, input: &mut &[u8], port: &mut Port<'_>) -> Result<(), Close> {
        match self.tls.take() {
            None => self.take(input, port),
            Some(mut tls) => {
                let result = tls.receive(input, port, |input, port| self.take(input, port));
                self.tls = Some(tls);
                result
            }
        }
    }

    fn landing(&mut self) -> Option<&mut [u8]> {
        if self.tls.is_some() {
            return None;
        }
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
        let ended = self.inside(port, |state, port| {
            if let State::Transmission(transmission) = state {
                transmission.completed(token, completion, port);
            }
        });
        if let Err(why) = ended {
            let me = port.connection();
            port.close(me, why);
        }
    }

    fn tick(&mut self, now_ns: u64, port: &mut Port<'_>) -> Result<(), Close> {
        let late = now_ns.saturating_sub(self.opened_ns) > HANDSHAKE_NS_MAX;
        if late && matches!(self.state, State::Handshake(_)) {
            return Err(Close::Refused("no export chosen within 10 s".into()));
        }
        self.inside(port, |_, _| {})
    }

    fn wants_input(&self) -> bool {
        match &self.state {
            State::Transmission(transmission) => !transmission.waits(),
            State::Handshake(_) => true,
        }
    }

    fn has_turn(&mut self, port: &mut Port<'_>) -> Result<(), Close> {
        let mut result = Ok(());
        self.inside(port, |state, port| {
            if let State::Transmission(transmission) = state {
                result = transmission.has_turn(port);
            }
        })
        .and(result)
    }

    fn has_more(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_more())
    }
}

fn refused(error: NbdError) -> Close {
    Close::Refused(error.to_string())
}
