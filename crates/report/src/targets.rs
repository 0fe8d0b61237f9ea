//! Targets of a drive: ranges of its parallel units, each with its own jobs and, if it is a block target, with a host FTL of its own.

use super::recorder::Requests;
use super::{GcSummary, WriteAmplification};
use pellucid_text::format::{bytes, count, optional, percent, significant};
use serde::Serialize;

/// Result of a target.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TargetResult {
    /// Name of the target.
    pub name: String,
    /// `block` or `raw`.
    pub kind: String,
    /// Number of its first parallel unit.
    pub first_unit: u32,
    /// Number of its parallel units.
    pub units: u32,
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// Names of the jobs that work on it.
    pub jobs: Vec<String>,
    /// Requests of the jobs together, with rates over the whole measurement.
    #[serde(flatten)]
    pub requests: Requests,
    /// Bytes that its host FTL wrote to the drive, by cause; absent for a raw target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<WriteAmplification>,
    /// GC of its host FTL; absent for a raw target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gc: Option<GcSummary>,
}

impl TargetResult {
    pub(super) fn title(&self) -> String {
        let last = self.first_unit + self.units.saturating_sub(1);
        let jobs = match self.jobs.as_slice() {
            [] => "no job".into(),
            jobs => jobs.join(", "),
        };
        format!("target {}, {}, units {}-{last}: {jobs}", self.name, self.kind, self.first_unit)
    }

    /// Describes its state.
    pub(super) fn words(&self) -> Vec<String> {
        let last = self.first_unit + self.units.saturating_sub(1);
        let size = bytes(self.capacity_bytes as f64);
        let mut items = vec![format!("{}, units {}-{last}, {size}   ", self.kind, self.first_unit)];
        let written = self.requests.directions.write.bytes;
        if written > 0 {
            items.push(format!("{} written", bytes(written as f64)));
        }
        if let Some(total) = self.write_amplification.as_ref().and_then(|own| own.total) {
            items.push(format!(", {} programmed per host byte   ", significant(total)));
        }
        if let Some(gc) = self.gc.as_ref().filter(|gc| gc.victims > 0) {
            let valid = optional(gc.victim_valid_share, percent);
            items.push(format!("{} victim lines, {valid} valid   ", count(gc.victims)));
        }
        items
    }
}
