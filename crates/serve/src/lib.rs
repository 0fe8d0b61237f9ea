//! A drive in real time: sockets, the pacer, and the protocols that hosts speak.
//!
//! ```text
//!  listener ─► connection ─► Session (NBD, NVMe/TCP) ─► Port ─► Core ─► Device
//!                  ▲                                              │
//!                  └──────── Reactor: one thread, epoll ◄─────────┘ completions, when their time has come
//! ```
//! One thread owns the drives and all connections. Nothing is shared, so nothing is locked.
//!
//! Invariants: the drive is told a time that never runs backwards; a peer can neither make memory grow without bound nor stop
//! the others.

mod core;
mod output;
mod pool;
pub mod session;

pub use crate::core::{Arrival, Core, Observer, Refusal, Route, Time};
pub use output::Output;
pub use pool::Pool;
