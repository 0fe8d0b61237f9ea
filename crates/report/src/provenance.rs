//! Provenance of a report: everything needed to make it again.
//!
//! Dates and durations are left out: equal runs have equal bytes.

use serde::Serialize;
use std::collections::BTreeMap;

/// Provenance of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// Version of the program.
    pub version: String,
    /// Commit of the program; absent if built from a source archive.
    pub commit: Option<String>,
    /// The words of the command, as typed.
    pub command: Vec<String>,
    /// Every key of the resolved description with its value as TOML, and the keys of jobs.
    pub description: BTreeMap<String, String>,
    /// The seeds of the run by purpose.
    pub seeds: BTreeMap<String, u64>,
    /// Files that the run read.
    pub inputs: Vec<Input>,
}

/// A file that a run read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Input {
    /// Role in the run: `description`, `jobs`, `trace`, `image` or `targets`.
    pub role: String,
    /// Path as given.
    pub path: String,
    /// SHA-256 of its bytes in hexadecimal; absent for a pipe, which can be read only once.
    pub sha256: Option<String>,
}
