//! Judges whether the write amplification of a run is steady, and produces a warning if it is not.
//!
//! Two questions decide. Does the measurement depend on garbage collection (GC) at all? A replay during which GC copied
//! nothing does not. Does write amplification still drift? The first overwrite of data reflects how they were written. So a
//! run must overwrite them once, or preconditioning must have overwritten them until write amplification was steady, in the
//! same way: uniformly, under the same translation settings. On a drive that was overwritten without that proof, the run
//! itself shows the drift, between the two halves of its writes.

use pellucid_flash::Cause;
use pellucid_ftl::FtlConfig;
use pellucid_report::{Report, Series};
use pellucid_spec::{Overwrite, Spec};
use pellucid_text::format::significant;
use pellucid_workload::{Distribution, Job, Pattern};

/// Number of overwrites that a steady value needs.
const OVERWRITES: f64 = 1.0;
/// Number of overwrites until write amplification is steady, as a rule: `pellucid age` needs three passes or more.
const OVERWRITES_STEADY: f64 = 3.0;
/// Shares of writes below this make no write workload.
const WRITE_SHARE: f64 = 0.05;
/// Change of write amplification between the halves of a run that is more than chance.
const DRIFT: f64 = 0.05;

/// Number of overwrites in which a drift shows.
const DRIFT_OVERWRITES: f64 = 0.5;

/// Why write amplification in the report of a run of `jobs`, or of the trace of the description, is not that of a steady state.
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
    // Random writes have GC sooner or later, so that a run that ends before says nothing of it; a trace is what it is.
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

/// Write amplification in the first and the second half of the written data; `None`: a half has too few intervals.
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

/// Returns a sentence about `image` if `run` uses the blocks of a drive differently from `aged`, with which the image was
/// made.
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

/// The word of a description for a plain variant.
fn word(value: impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}
