//! A host's connection through TLS.
//!
//! Invariant: the inner connection receives nothing before the host has proved its identity.

use super::records::{Records, TlsOffer};
use pellucid_flash::Completion;
use pellucid_target::connection::Close;
use pellucid_target::nvme::{Connection, Peer, SharedTarget};
use pellucid_target::session::{Port, Session};
use pellucid_target::tls::Layer;
use std::cell::OnceCell;
use std::net::SocketAddr;
use std::rc::Rc;

/// Session of a connection whose host must use TLS.
pub struct SecuredConnection {
    connection: Connection,
    tls: Layer<Records>,
}

impl SecuredConnection {
    /// Creates the session of a host's connection to the address `local`.
    ///
    /// # Errors
    /// Returns the error of OpenSSL.
    pub fn new(
        target: &SharedTarget,
        local: SocketAddr,
        offer: &TlsOffer,
    ) -> Result<SecuredConnection, String> {
        let peer: Rc<OnceCell<Peer>> = Rc::default();
        let tls = offer.begin(Rc::clone(&peer)).map_err(|why| format!("{why:?}"))?;
        Ok(SecuredConnection { connection: Connection::secured(target, local, peer), tls: Layer::new(tls) })
    }
}

impl Session for SecuredConnection {
    fn opened(&mut self, port: &mut Port<'_>) {
        self.connection.opened(port);
    }

    fn receive(&mut self, input: &mut &[u8], port: &mut Port<'_>) -> Result<(), Close> {
        let connection = &mut self.connection;
        self.tls.receive(input, port, |input, port| connection.receive(input, port))
    }

    fn completed(&mut self, token: u64, completion: Completion, port: &mut Port<'_>) {
        let connection = &mut self.connection;
        self.tls.with(port, |port| connection.completed(token, completion, port));
        // Input that was refused before may be accepted now.
        if let Err(why) = self.receive(&mut &[][..], port) {
            let me = port.connection();
            port.close(me, why);
        }
    }

    fn has_turn(&mut self, port: &mut Port<'_>) -> Result<(), Close> {
        let connection = &mut self.connection;
        self.tls.with(port, |port| connection.has_turn(port))
    }

    fn tick(&mut self, now_ns: u64, port: &mut Port<'_>) -> Result<(), Close> {
        let connection = &mut self.connection;
        self.tls.with(port, |port| connection.tick(now_ns, port))
    }

    fn has_more(&self) -> bool {
        self.tls.has_more()
    }

    fn closed(&mut self, port: &mut Port<'_>) {
        self.connection.closed(port);
    }
}
