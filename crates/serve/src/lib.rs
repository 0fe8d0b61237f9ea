//! Serves a drive, or a cache on one, in real time: sockets, the pacer, and what a server owns. The protocols
//! themselves are sessions without I/O, in `target`.
//!
//! ```text
//!  listener ─► connection ─► Session (NBD, NVMe/TCP) ─► Port ─► Core ─► Device
//!                  ▲                                              │
//!                  └──────── Server: one thread, epoll ◄──────────┘ completions, when their time has come
//! ```
//! Endpoints that are not stream sockets, such as a block device of this machine's kernel (ublk), are
//! [`Attachment`]s of the same loop. A drive may belong to another process: a host layer then stands on it,
//! and `remote` is the host's end of the connection.
//!
//! One thread owns the drives and all connections. No state is shared, so no locks are needed.
//!
//! Invariants: the drive's time never runs backwards; no peer can make memory grow without bound or stop the
//! others.

// Unit tests share the drives of the integration tests, which refer to this crate by name.
#[cfg(test)]
extern crate self as pellucid_serve;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;

mod attachment;
mod connection;
mod core;
mod drive;
mod engine;
pub mod event;
mod file_drive;
mod in_process;
pub mod kv;
mod logbook;
pub mod nvme_tls;
mod record;
mod remote;
pub mod secret;
mod serial;
mod server;
mod service;
mod socket;
mod timer;
mod tls;
mod ublk;

pub use crate::attachment::Attachment;
pub use crate::core::{Arrival, Core, KeepTargets, Observer, Refusal, UserFigures};
pub use drive::{Bottom, NoCache, Pace, Served, Waiter};
pub use engine::{Answered, Backend, Engine, Lead, Reply, Time};
pub use file_drive::{FileConfig, FileDrive, FileError};
pub use in_process::{LocalDrive, LocalEnd, in_process};
pub use logbook::Logbook;
pub use record::FioTrace;
pub use remote::{Remote, RemoteConfig, RemoteError};
pub use serial::serial_number;
pub use server::{Accept, Bound, CONNECTIONS_MAX, CONTROL, Log, Options, ServeError, Server, Stopper};
pub use service::{Done, Operated};
pub use socket::{Address, AddressError};
pub use tls::{TlsConfig, TlsError};
pub use ublk::{BlockDevice, UblkError};
