//! The memcached protocol: the session of one connection, over the [`Items`](crate::Items) of a cache.
//!
//! Invariant: every value buffer comes from the cache and returns to it, or to the pool if it was sent
//! without a copy.

mod replies;
mod session;

pub use replies::{Ended, Kind};
pub use session::KvSession;

/// Version shown to clients. It begins with the protocol version, which clients parse.
pub fn version() -> String {
    format!("1.6.18-pellucid-{}", env!("CARGO_PKG_VERSION"))
}
