//! The laboratory: descriptions, workloads, traces, the virtual-time driver, and reports.

pub mod conformance;
pub mod drive;
pub mod experiment;
pub mod file_system;
pub mod files;
pub mod image;
pub mod kv;
pub mod output;
pub mod report;
pub mod reproduce;
pub mod spec;
mod steadiness;
mod suggest;
pub mod swarm;
pub mod targets;
pub mod trace;
pub mod workload;
