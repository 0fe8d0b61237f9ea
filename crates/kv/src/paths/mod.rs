//! Paths: the actions of a cache, as functions over its objects (`objects.rs`), without state of their own.
//!
//! ```text
//!   events
//!   restart
//!   request
//!   get, store, write, evict, saving
//!   items                              check
//! ```
//! Each uses only those below it.

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
