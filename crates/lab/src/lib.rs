//! The laboratory: descriptions, workloads, traces, the virtual-time driver, and reports.

pub mod report;
