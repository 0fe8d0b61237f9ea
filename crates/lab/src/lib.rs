//! The laboratory: drives and the work on them, in virtual time.
//!
//! ```text
//! Spec (spec), jobs and traces (workload) ─► experiment ─► drive: Run ─► Report (report)
//! ```
//! [`experiment`] prepares and executes a description, [`drive`] is the loop of virtual time with preconditioning and the oracle, [`image`] keeps an
//! aged drive in a file, [`application`] runs applications as jobs; [`kv`] and [`file_system`] are their clients and threads.

pub mod application;
pub mod drive;
pub mod experiment;
pub mod file_system;
pub mod image;
pub mod kv;
mod steadiness;
