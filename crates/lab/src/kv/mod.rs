//! Key-value work in virtual time: the clients of a cache, their requests, and the store behind it.
//!
//! ```text
//!   requests               clients (closed loop)          cache                    database
//!   Workload, or a trace ─► one request at a time ──ask──► kv::System ◄─drive
//!                           get misses ───────────────────────────────────────────► Database
//!                           store what it returned ─ask──►
//! ```
//! [`pellucid_workload::kv`] draws requests from published distributions, or reads them from a file. [`Clients`] asks, waits and measures. Everything
//! follows from a seed and the simulated clock.

mod clients;
mod database;
mod experiment;
mod report;

pub use clients::{Cache, Clients, ClientsConfig, KvRunError};
pub use database::Database;
pub use experiment::{CacheWork, Experiment, FlashWork, KvError, KvReport};
pub use report::{KvSummary, Operations};
