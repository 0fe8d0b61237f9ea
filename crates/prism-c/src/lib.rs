//! The C interface of the flash library: the names of the paper (its figure 3) over handles.
//!
//! ```text
//!   api      pointers, statuses, sentences          the one place with `unsafe`
//!   session  a drive, its monitor, its levels       no C
//!   open     drives by name
//! ```
//! `include/pellucid/prism.h` is made from `types` and `api` by `tests/header.rs`, which also says when it is out of date.
//!
//! Invariants: no panic crosses the boundary; a handle that was closed is not used again, which is the caller's part; a level keeps its
//! drive open.

mod api;
mod failure;
mod open;
mod session;
mod types;

pub use api::*;
pub use types::*;
