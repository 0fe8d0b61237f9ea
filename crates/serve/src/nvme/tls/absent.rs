//! A build without TLS under NVMe/TCP: what offers it cannot be made, and the sentence says how to get it.

use super::key::TlsKeys;
use crate::nvme::SharedTarget;
use crate::session::{Close, Port, Session};
use pellucid_flash::Completion;
use std::net::SocketAddr;

/// There is none.
#[derive(Clone)]
pub enum TlsOffer {}

impl TlsOffer {
    /// Says that this build has no TLS under NVMe/TCP.
    ///
    /// # Errors
    /// Always.
    pub fn new(_keys: TlsKeys) -> Result<TlsOffer, String> {
        Err("this build has no TLS for NVMe/TCP; allowed: one with OpenSSL, which `cargo build --release --features tls-psk` \
             makes (Debian: apt install libssl-dev pkg-config)"
            .into())
    }
}

/// There is none.
pub enum SecuredConnection {}

impl SecuredConnection {
    /// Cannot be called: nothing offers TLS.
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
