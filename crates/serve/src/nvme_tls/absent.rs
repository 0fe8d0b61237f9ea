//! A build without TLS under NVMe/TCP: an offer cannot be created, and the error tells how to get TLS.

use pellucid_flash::Completion;
use pellucid_target::connection::Close;
use pellucid_target::nvme::{SharedTarget, TlsKeys};
use pellucid_target::session::{Port, Session};
use std::net::SocketAddr;

/// Empty type: this build has no TLS offer.
#[derive(Clone)]
pub enum TlsOffer {}

impl TlsOffer {
    /// Fails, as this build has no TLS under NVMe/TCP.
    ///
    /// # Errors
    /// Always.
    pub fn new(_keys: TlsKeys) -> Result<TlsOffer, String> {
        Err("this build has no TLS for NVMe/TCP; allowed: one with OpenSSL, which `cargo build --release --features tls-psk` \
             makes (Debian: apt install libssl-dev pkg-config)"
            .into())
    }
}

/// Empty type: this build has no secured connection.
pub enum SecuredConnection {}

impl SecuredConnection {
    /// Cannot be called: no TLS offer exists.
    ///
    /// # Errors
    /// Never.
    pub fn new(
        _target: &SharedTarget,
        _local: SocketAddr,
        offer: &TlsOffer,
    ) -> Result<SecuredConnection, String> {
        match *offer {}
    }
}

impl Session for SecuredConnection {
    fn receive(&mut self, _input: &mut &[u8], _port: &mut Port<'_>) -> Result<(), Close> {
        match *self {}
    }

    fn completed(&mut self, _token: u64, _completion: Completion, _port: &mut Port<'_>) {
        match *self {}
    }
}
