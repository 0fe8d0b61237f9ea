//! TLS 1.3 under NVMe/TCP, with a key that host and drive share beforehand (TCP transport 3.6): no certificate, and a peer that does
//! not know the key gets no further than the first message.
//!
//! ```text
//!   configured key ─ transform, name of the host ─► retained key ─ identity ─► TLS key ─► handshake ─► SecuredConnection
//!   NVMeTLSkey-1:..                                    `─ names ─► identity, which the host sends
//! ```
//! The keys (`key`) are ours. The records are OpenSSL's: rustls, which NBD has, takes no external keys. So they are there only in
//! a build with the feature `tls-psk`.

#[cfg(not(feature = "tls-psk"))]
mod absent;
mod key;
#[cfg(feature = "tls-psk")]
mod records;
#[cfg(feature = "tls-psk")]
mod session;

#[cfg(not(feature = "tls-psk"))]
pub use absent::{SecuredConnection, TlsOffer};
pub use key::{Identity, KeyHash, Peer, TlsKey, TlsKeys};
#[cfg(feature = "tls-psk")]
pub use records::TlsOffer;
#[cfg(feature = "tls-psk")]
pub use session::SecuredConnection;
