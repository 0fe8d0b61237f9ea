//! An application's work, in a report.

use crate::{GcPauses, Latency, OperationReport, PartFigure};
use pellucid_flash::Cause;
use pellucid_text::format::{binary_bytes, count, duration, optional, significant, span};
use serde::Serialize;
use std::collections::BTreeMap;

/// Work of an application on the drive, as the application saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ApplicationReport {
    /// The application, as in `app`.
    pub name: String,
    /// Name of the application's job.
    pub job: String,
    /// Target that the application works on; absent without targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Resolved settings of the application, by the key of a job.
    pub settings: BTreeMap<String, String>,
    /// Operations of the warm-up, which no other figure counts.
    pub warm_up: u64,
    /// Operations measured.
    pub operations: u64,
    /// Operations per simulated second, skipped ones not counted; absent if they took no simulated time.
    pub operations_per_second: Option<f64>,
    /// Operations that were skipped, for want of a file or of room.
    pub left_out: u64,
    /// Latency of operations; skipped ones are not counted.
    pub latency: Latency,
    /// Operations by kind; kinds that did not occur are left out.
    pub by_operation: Vec<OperationReport>,
    /// Bytes that operations wrote.
    pub written_bytes: u64,
    /// Bytes read by operations of a file system or graph program; 0 for a cache, which does not count the bytes returned by hits.
    pub read_bytes: u64,
    /// Bytes of valid data copied to free space, by part.
    pub copies: Vec<Copies>,
    /// Bytes programmed, for any cause.
    pub programmed_bytes: u64,
    /// Blocks erased.
    pub erases: u64,
    /// `programmed_bytes / written_bytes`; absent if operations wrote nothing.
    pub write_amplification: Option<f64>,
    /// Pauses for victims of the application's own cleaner, or of its library's, each from the victim's choice.
    pub pauses: GcPauses,
    /// Phases of the work, in order; empty where the work is of one kind throughout.
    pub phases: Vec<PhaseReport>,
    /// Result of the work, by name; empty where the work has none, or was stopped early.
    pub result: BTreeMap<String, String>,
    /// More counters.
    pub figures: Vec<PartFigure>,
}

/// A phase of an application's work.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PhaseReport {
    /// Name of the phase.
    pub phase: String,
    /// Simulated seconds.
    pub seconds: f64,
    /// Seconds with the host's processor busy; it waited for storage in the others.
    pub busy_seconds: f64,
}

/// Bytes that one part copied to free space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Copies {
    /// The part: the file system, a layer of the host, the drive.
    pub by: String,
    /// Bytes.
    pub bytes: u64,
}

impl ApplicationReport {
    /// Adds programmed bytes and erases, both given by cause.
    #[must_use]
    pub fn with_flash(self, sectors: &[u64; Cause::COUNT], sector_bytes: u64, erases: &[u64]) -> Self {
        let programmed_bytes = sectors.iter().sum::<u64>() * sector_bytes;
        let written = self.written_bytes;
        ApplicationReport {
            programmed_bytes,
            erases: erases.iter().sum(),
            write_amplification: (written > 0).then(|| programmed_bytes as f64 / written as f64),
            ..self
        }
    }

    /// Returns the bytes that a part copied; `None` if there is no such part.
    pub fn copied_by(&self, part: &str) -> Option<u64> {
        self.copies.iter().find(|copies| copies.by == part).map(|copies| copies.bytes)
    }

    /// Returns the phase of this name.
    pub fn phase(&self, name: &str) -> Option<&PhaseReport> {
        self.phases.iter().find(|phase| phase.phase == name)
    }

    /// Returns the counter of this name.
    pub fn figure(&self, name: &str) -> Option<u64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }

    /// Name of the application in a report, followed by that of its job if it has one.
    pub(crate) fn title(&self) -> String {
        let number =
            self.job.strip_prefix("job").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
        let given = !number && self.job != self.name && !self.job.is_empty();
        let job = if given { format!("{}: ", self.job) } else { String::new() };
        let target = self.target.as_ref().map_or(String::new(), |target| format!(" on {target}"));
        format!("{job}{}{target}", self.name)
    }

    /// Returns labelled lines for the text report: a label, and words that are kept together.
    pub(crate) fn words(&self) -> Vec<(String, Vec<String>)> {
        let ns = |ns: Option<u64>| optional(ns, |ns| duration(ns as f64));
        let latency = &self.latency;
        let mut all = vec![
            match self.operations_per_second {
                Some(rate) => format!("{} operations, {}/s   ", count(self.operations), significant(rate)),
                None => format!("{} operations in no simulated time   ", count(self.operations)),
            },
            format!(
                "mean {}, p50 {}, p99 {}, p99.9 {}, max {}   ",
                optional(latency.mean_ns, duration),
                ns(latency.p50_ns),
                ns(latency.p99_ns),
                ns(latency.p99_9_ns),
                ns(latency.max_ns)
            ),
        ];
        all.extend((self.warm_up > 0).then(|| format!("after a warm-up of {}   ", count(self.warm_up))));
        all.extend(
            (self.left_out > 0)
                .then(|| format!("{} left out for want of files or room   ", count(self.left_out))),
        );
        let kind = |kind: &OperationReport| {
            let (mean, p99) = (optional(kind.latency.mean_ns, duration), ns(kind.latency.p99_ns));
            let many = match self.operations_per_second {
                Some(_) => format!("{}/s", significant(kind.per_second)),
                None => count(kind.latency.count),
            };
            format!("{} {many} of mean {mean}, p99 {p99}   ", kind.operation)
        };
        let size = |bytes: u64| binary_bytes(bytes as f64);
        let times = self.write_amplification.map(|times| format!(", {} times", significant(times)));
        let mut written = vec![format!("{} written by operations   ", size(self.written_bytes))];
        written.extend(
            (self.read_bytes > 0).then(|| format!("{} read by operations   ", size(self.read_bytes))),
        );
        written.extend([
            format!("{} programmed{}   ", size(self.programmed_bytes), times.unwrap_or_default()),
            format!("{} blocks erased   ", count(self.erases)),
        ]);
        let copy = |copies: &Copies| format!("{} by the {}   ", size(copies.bytes), copies.by);
        let phase = |phase: &PhaseReport| {
            let (all, busy) = (phase.seconds, phase.busy_seconds);
            format!("{} {}, the processor busy for {}   ", phase.phase, span(all), span(busy))
        };
        let result = self.result.iter().map(|(name, value)| format!("{name} {value}   "));
        let mut lines = vec![
            (self.title(), all),
            ("operations".into(), self.by_operation.iter().map(kind).collect()),
            ("phases".into(), self.phases.iter().map(phase).collect()),
            ("result".into(), result.collect()),
            ("bytes".into(), written),
            ("copied".into(), self.copies.iter().map(copy).collect()),
        ];
        let pauses = &self.pauses;
        if pauses.count > 0 {
            let (mean, p99) = (optional(pauses.mean_ns, duration), ns(pauses.p99_ns));
            let words =
                format!("{} of mean {mean}, p99 {p99}, max {}", count(pauses.count), ns(pauses.max_ns));
            lines.push(("cleaner pauses".into(), vec![words]));
        }
        let figures = self.figures.iter().filter(|figure| figure.value > 0);
        let figures = figures.map(|figure| format!("{} {}   ", figure.name, count(figure.value))).collect();
        lines.push(("counted".into(), figures));
        let settings = self.settings.iter().map(|(key, value)| format!("{key}={value}   ")).collect();
        lines.push(("settings".into(), settings));
        lines
    }
}
