//! The laboratory: descriptions, workloads, traces, the virtual-time driver, and reports.

pub mod trace;
pub mod spec;
pub mod workload;
pub mod report;
