//! Judges whether the write amplification of a run is steady, and warns if it is not.
//!
//! Two questions decide. Does the measurement depend on garbage collection (GC) at all? A replay during which GC copied nothing does not. Does write
//! amplification still drift? The first overwrite of data reflects how they were written. So either the run overwrites them once, or preconditioning
//! overwrote them until write amplification was steady, in the same way: uniformly, under the same translation settings. On a drive overwritten
//! without that evidence, the run itself shows the drift, between the two halves of its writes.

use pellucid_flash::Cause;
use pellucid_ftl::FtlConfig;
use pellucid_report::{Report, Series};
use pellucid_spec::{Overwrite, Spec};
use pellucid_text::format::significant;
use pellucid_workload::{Distribution, Job, Pattern};

/// Number of overwrites that a steady value requires.
const OVERWRITES: f64 = 1.0;
/// Usual number of overwrites until write amplification is steady: `pellucid age` needs three passes or more.
const OVERWRITES_STEADY: f64 = 3.0;
/// Minimum share of writes in a write workload.
const WRITE_SHARE: f64 = 0.05;
/// Change of write amplification between the halves of a run that exceeds chance.
const DRIFT: f64 = 0.05;

/// Number of overwrites that shows a drift.
const DRIFT_OVERWRITES: f64 = 0.5;

/// Returns why the write amplification of a run of `jobs`, or of the description's trace, may not be that of a steady state.
pub(crate) fn warning(spec: &Spec, jobs: &[Job], report: &Report) -> Option<String> {
    let replay = spec.run.trace.is_some();
    let jobs = if replay { &[] } else { jobs };
    let (written, writes) =
        (report.write_amplification.host_written_bytes as f64, report.directions.write.requests as f64);
    // Sequential writes leave whole blocks behind from the start.
    let sequential = !jobs.is_empty() && jobs.iter().all(|job| is_sequential(job.pattern));
    if written == 0.0 || writes < WRITE_SHARE * report.requests as f64 || sequential {
        return None;
    }
    // Random writes cause GC sooner or later, so a run that ends before it shows nothing; a trace stands for itself.
    if replay && report.write_amplification.programmed_bytes[Cause::Gc] == 0 {
        return None;
    }
    let fill = spec.precondition.fill.share();
    let data = match spec.is_cached() {
        // The capacity is that of the disk behind it.
        true => report.drive.media_bytes as f64,
        false => report.drive.capacity_bytes as f64 * if fill > 0.0 { fill } else { 1.0 },
    };
    let overwritten = written / data;
    if spec.is_cached() {
        return (overwritten < OVERWRITES_STEADY).then(|| {
            format!(
                "write amplification is not steady: the flash of the cache was written {} times; for a steady value run until it was \
                 written {OVERWRITES_STEADY} times",
                significant(overwritten)
            )
        });
    }
    let before = if !jobs.is_empty() && jobs.iter().all(is_uniform) { overwritten_before(spec) } else { 0.0 };
    let way = "for a steady value overwrite the whole drive at least once, or start with --precondition steady (precondition.overwrite = \
               \"steady\") and write uniformly; for an image: pellucid age --overwrite steady";
    if overwritten + before < OVERWRITES {
        return Some(format!(
            "write amplification is not steady: the run overwrote {} % of the drive; {way}",
            significant(100.0 * overwritten)
        ));
    }
    if before >= OVERWRITES_STEADY || overwritten >= OVERWRITES_STEADY {
        return None;
    }
    // A run that overwrites little stays in the state that it found.
    match drift(&report.series).filter(|_| overwritten >= DRIFT_OVERWRITES) {
        Some((first, second)) if (second - first).abs() < DRIFT * first => None,
        Some((first, second)) => Some(format!(
            "write amplification is not steady: it was {} in the first half of what the run wrote and {} in the second; \
             {way}",
            significant(first),
            significant(second)
        )),
        None => Some(format!(
            "write amplification is not steady: the drive was overwritten {} times before and {} times by the run; {way}",
            significant(before),
            significant(overwritten)
        )),
    }
}

/// Returns write amplification in the first and in the second half of the written data; `None` if a half has too few intervals.
fn drift(series: &Series) -> Option<(f64, f64)> {
    const INTERVALS: usize = 4;
    let total: u64 = series.host_written_bytes.iter().sum();
    let mut halves = [(0u64, 0u64, 0usize); 2];
    let mut seen = 0;
    for at in 0..series.len() {
        let written = series.host_written_bytes[at];
        let half = &mut halves[usize::from(2 * seen >= total)];
        half.0 += written;
        half.1 += series.programmed_host_bytes[at] + series.programmed_other_bytes[at];
        half.2 += usize::from(written > 0);
        seen += written;
    }
    let known = halves.iter().all(|half| half.2 >= INTERVALS);
    let of = |(written, programmed, _): (u64, u64, usize)| programmed as f64 / written as f64;
    known.then(|| (of(halves[0]), of(halves[1])))
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

/// Returns a sentence about `image` if `run` uses the blocks of a drive differently from `aged`, with which the image was made.
pub(crate) fn aged_otherwise(image: &str, aged: &FtlConfig, run: &FtlConfig) -> Option<String> {
    let same = |key: &str, aged: String, run: String| {
        (aged != run).then(|| format!("drive.ftl.{key} = {aged} and runs with {run}"))
    };
    let differences = [
        same("victim", aged.victim_name(), run.victim_name()),
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

/// Returns the word that a description has for a plain variant.
fn word(value: impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}
