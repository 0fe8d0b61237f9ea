//! TLS 1.3 under NVMe/TCP with a pre-shared key of host and drive (TCP transport 3.6). It uses no
//! certificate, and a peer without the key fails at the first message.
//!
//! ```text
//!   configured key ─ transform, name of the host ─► retained key ─ identity ─► TLS key ─► handshake ─► SecuredConnection
//!   NVMeTLSkey-1:..                                    `─ names ─► identity, which the host sends
//! ```
//! This project derives the keys (`tls_key` of `target`). OpenSSL handles the records, as rustls, which NBD uses, does not
//! support external keys. So records exist only in a build with the feature `tls-psk`.

#[cfg(not(feature = "tls-psk"))]
mod absent;
#[cfg(feature = "tls-psk")]
mod records;
#[cfg(feature = "tls-psk")]
mod session;

#[cfg(not(feature = "tls-psk"))]
pub use absent::{SecuredConnection, TlsOffer};
#[cfg(feature = "tls-psk")]
pub use records::TlsOffer;
#[cfg(feature = "tls-psk")]
pub use session::SecuredConnection;
