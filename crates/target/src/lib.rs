//! The sessions of protocol targets: NBD, NVMe/TCP, the memcached protocol and the control socket, without
//! I/O.
//!
//! ```text
//!  input ─► Session::receive ─► Port::submit ─► Service: drives, or the items of a cache
//!  Output ◄─────────────────── Session::completed ◄─┘
//! ```
//! A session is the state of one connection. Its server reads the socket, owns the drives, and hands it a
//! [`Port`](session::Port) with each call.
//!
//! Invariants: no clock, socket, thread or file is below here; wall time and random bytes come from the
//! server ([`Service`]). No peer can make memory grow without bound ([`budget`]).
//!
//! | module | job |
//! |---|---|
//! | [`session`], [`connection`] | a connection's state and its access to the server; its name |
//! | [`service`], [`operation`] | what a session asks of its server: drives, or items of a cache |
//! | [`hub`], [`budget`], [`pool`], [`output`] | what all connections share: memory, turns, messages; what waits to be sent |
//! | [`nbd`], [`nvme`], [`memcached`], [`control`] | the protocols |
//! | [`request`] | requests on the control socket and planned faults, as data |
//! | [`tls`] | a session behind encryption, which the server brings |

pub mod budget;
pub mod connection;
pub mod control;
pub mod hub;
pub mod memcached;
pub mod nbd;
pub mod nvme;
pub mod operation;
pub mod output;
pub mod pool;
pub mod request;
mod secret;
pub mod service;
pub mod session;
pub mod tls;

pub use hub::Hub;
pub use output::Output;
pub use pool::Pool;
pub use service::{Answer, Base, CutReport, Drives, Items, Service};
