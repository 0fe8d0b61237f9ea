//! Paths: the actions of a file system, as functions over its objects (`objects.rs`). They have no state of their own, except a mount or an audit in
//! progress.
//!
//! ```text
//!   background
//!   checkpoint
//!   attributes, rename, xattr │ commit, drive │ mount
//!   file, directory           │ naming        │ replay, audit
//!   freeing                   │ moves, clean  │ format, call
//!   append, booking, fetch, permissions, room
//! ```
//! Each uses only those below it.

pub(crate) mod append;
pub(crate) mod attributes;
pub(crate) mod audit;
pub(crate) mod background;
pub(crate) mod booking;
pub(crate) mod call;
pub(crate) mod checkpoint;
pub(crate) mod clean;
pub(crate) mod commit;
pub(crate) mod directory;
pub(crate) mod drive;
pub(crate) mod fetch;
pub(crate) mod file;
pub(crate) mod format;
pub(crate) mod freeing;
pub(crate) mod mount;
pub(crate) mod moves;
pub(crate) mod naming;
pub(crate) mod permissions;
pub(crate) mod rename;
pub(crate) mod replay;
pub(crate) mod room;
pub(crate) mod xattr;
