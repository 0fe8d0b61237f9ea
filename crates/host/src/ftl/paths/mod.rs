//! Paths: functions over the [`Core`](super::core::Core) without state. Each file uses those before it.
//!
//! ```text
//!  jobs ─► resets ─► superpages ─► read ─► gc ─► flush ─► write ─► ends ─► stop
//! ```

pub(super) mod ends;
pub(super) mod flush;
pub(super) mod gc;
pub(super) mod jobs;
pub(super) mod read;
pub(super) mod resets;
pub(super) mod stop;
pub(super) mod superpages;
pub(super) mod write;
