//! Wire formats of the protocols that real hosts and clients speak: NVMe structures, NVMe/TCP, NBD, and memcached's.
//!
//! Codecs only: bytes in, typed messages out, and back. No sockets, clocks, threads or global state; the owner of
//! the connection feeds bytes and sends what the encoders return. Decoders take bytes in any fragmentation, hold at
//! most one header (or one bounded NBD option) and hand payloads out as slices of the caller's own input.
//!
//! ```text
//!   socket bytes --> tcp::Decoder / nbd::...Decoder --> typed messages, payload slices --> the server
//!   socket bytes <-- tcp::Encoder / nbd::... headers <-- typed messages  (payload sent from where it lies)
//! ```
//!
//! Invariants: no input panics or makes memory grow with a length that a peer merely announced; a reserved field is ignored when read and zero when
//! written; after an error, a decoder returns the same error for ever.

mod layout;
pub mod memcached;
pub mod nbd;
pub mod nvme;
pub mod tcp;
