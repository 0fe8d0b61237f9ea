//! The C interface of the flash library: the names of the paper (its figure 3) over handles.
//!
//! ```text
//!   api      pointers, statuses, sentences          the one place with `unsafe`
//!   session  a drive, its monitor, its levels       no C
//!   open     drives by name
//! ```
//! `tests/header.rs` generates `include/pellucid/prism.h` from `types` and `api`, and fails when it is out of
//! date.
//!
//! Invariants: no panic crosses the boundary; a level keeps its drive open. The caller must not use a handle
//! that was closed.

mod api;
mod failure;
mod open;
mod session;
mod types;

pub use api::*;
pub use types::*;
