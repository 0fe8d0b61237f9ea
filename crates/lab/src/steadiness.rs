//! Whether the write amplification of a run can be steady, and a sentence where it cannot.
//!
//! A drive remembers what was done to it: until its data have been overwritten about once, write amplification tells of how they were
//! put there. Overwrites before the run count where they were of the same kind: uniform, and under the same translation settings.

use crate::report::Report;
use crate::report::format::significant;
use crate::spec::{Overwrite, Spec};
use crate::workload::{Distribution, Job, Pattern};
use pellucid_ftl::FtlConfig;

/// So often the data must have been overwritten.
const OVERWRITES: f64 = 1.0;
/// Shares of writes below this make no write workload.
const WRITE_SHARE: f64 = 0.05;

/// Why write amplification in the report of a run of `jobs`, or of the trace of the description, is not that of a steady state.
pub(crate) fn warning(spec: &Spec, jobs: &[Job], report: &Report) -> Option<String> {
    let jobs = if spec.run.trace.is_some() { &[] } else { jobs };
    let (written, writes) =
        (report.write_amplification.host_written_bytes as f64, report.directions.write.requests as f64);
    // Sequential writes leave whole blocks behind from the start.
    let sequential = !jobs.is_empty() && jobs.iter().all(|job| is_sequential(job.pattern));
    if written == 0.0 || writes < WRITE_SHARE * report.requests as f64 || sequential {
        return None;
    }
    let fill = spec.precondition.fill.share();
    let data = report.drive.capacity_bytes as f64 * if fill > 0.0 { fill } else { 1.0 };
    let overwritten = written / data;
    let before = if !jobs.is_empty() && jobs.iter().all(is_uniform) { overwritten_before(spec) } else { 0.0 };
    (overwritten + before < OVERWRITES).then(|| {
        format!(
            "write amplification is not steady: the run overwrote {} % of the drive; allowed for a steady one: all of it once, or \
             --precondition steady (precondition.overwrite = \"steady\") before uniform random writes",
            significant(100.0 * overwritten)
        )
    })
}

fn is_sequential(pattern: Pattern) -> bool {
    matches!(
        pattern,
        Pattern::Read | Pattern::Write | Pattern::Trim | Pattern::ReadWrite | Pattern::TrimWrite
    )
}

fn is_uniform(job: &Job) -> bool {
    matches!(job.pattern, Pattern::RandWrite | Pattern::RandRw | Pattern::RandRead)
        && job.distribution[1] == Distribution::Uniform
}

fn overwritten_before(spec: &Spec) -> f64 {
    match spec.precondition.overwrite {
        _ if spec.precondition.fill.share() <= 0.0 => 0.0,
        Overwrite::Capacities(times) => times,
        Overwrite::Steady => f64::INFINITY,
    }
}

/// Where `run` uses the blocks of a drive otherwise than `aged`, under which an image was made: a sentence about `image`.
pub(crate) fn aged_otherwise(image: &str, aged: &FtlConfig, run: &FtlConfig) -> Option<String> {
    let same = |key: &str, aged: String, run: String| {
        (aged != run).then(|| format!("drive.ftl.{key} = {aged} and runs with {run}"))
    };
    let differences = [
        same("victim", aged.victim.to_string(), run.victim.to_string()),
        same("separation", word(aged.separation), word(run.separation)),
        same("gc_low", aged.gc_low_blocks.to_string(), run.gc_low_blocks.to_string()),
        same("gc_high", aged.gc_high_blocks.to_string(), run.gc_high_blocks.to_string()),
        same("gc_pacing", aged.gc_pacing.to_string(), run.gc_pacing.to_string()),
        same("handles", aged.handles.to_string(), run.handles.to_string()),
        same("isolation", word(aged.isolation), word(run.isolation)),
    ];
    let differences: Vec<String> = differences.into_iter().flatten().collect();
    (!differences.is_empty()).then(|| {
        format!(
            "{image} was aged with {}: until the run has overwritten the drive a few times, write amplification is partly that of \
             the state it was aged to",
            differences.join(", ")
        )
    })
}

/// The word of a description for a plain variant.
fn word(value: impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}
