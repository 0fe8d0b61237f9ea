//! Key-value work in virtual time: the clients of a cache, their requests, and the store behind it.
//!
//! ```text
//!   requests               clients (closed loop)          cache                    database
//!   Workload, or a trace ─► one request at a time ──ask──► apps::kv::System ◄─drive
//!                           get misses ───────────────────────────────────────────► Database
//!                           store what it returned ─ask──►
//! ```
//! [`laws`] has the published distributions, [`Workload`] makes requests of them, [`crate::trace::kv`] reads them from a file.
//! [`Clients`] asks, waits and measures. Everything follows from a seed and the simulated clock.

mod clients;
mod database;
mod experiment;
pub mod laws;
mod report;
mod workload;

pub use clients::{Cache, Clients, ClientsConfig, KvRunError, OnMiss, Requests};
pub use database::{Database, DatabaseConfig};
pub use experiment::{CacheWork, Experiment, FlashWork, KvError, KvReport};
pub use report::{KvSummary, Operations};
pub use workload::{Workload, WorkloadConfig};
