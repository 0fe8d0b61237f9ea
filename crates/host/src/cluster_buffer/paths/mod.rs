//! Paths: functions over the [`Core`](super::core::Core) without state. Each file uses those before it.
//!
//! ```text
//!  flush ─► group ─► evict ─► bypass ─► write, read ─► start
//! ```

pub(super) mod bypass;
pub(super) mod evict;
pub(super) mod flush;
pub(super) mod group;
pub(super) mod read;
pub(super) mod start;
pub(super) mod write;
