//! Paths: the actions of a cache, as functions over its objects (`objects.rs`), without their own state.
//!
//! ```text
//!   events
//!   restart
//!   request
//!   get, store, write, evict, saving
//!   items                              check
//! ```
//! Each uses those below it, and no two use each other.

pub(crate) mod check;
pub(crate) mod events;
pub(crate) mod evict;
pub(crate) mod get;
pub(crate) mod items;
pub(crate) mod request;
pub(crate) mod restart;
pub(crate) mod saving;
pub(crate) mod store;
pub(crate) mod write;
