//! Results by job, as fio reports them: each job over its own time, its clones together (fio's `group_reporting` for `numjobs`), and each group of
//! jobs. The numbers of the whole report cover the whole measurement instead.

use super::Report;
use super::recorder::{Direction, Requests};
use pellucid_flash::Nanos;
use pellucid_text::format::span;
use serde::Serialize;
use std::io::{self, Write};

/// A part of the measurement, in simulated seconds since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Span {
    /// Begin of the statistics: after `stonewall`, `wait_for`, `startdelay` and `ramp_time`.
    pub start_seconds: f64,
    /// Time of the last completion.
    pub end_seconds: f64,
    /// Time from start to end, on which rates are based; 0 if nothing completed.
    pub runtime_seconds: f64,
    #[serde(skip)]
    runtime: Nanos,
}

impl Span {
    /// Makes the span between two times of the measurement.
    pub fn new(start: Nanos, end: Nanos) -> Span {
        let runtime = Nanos(end.0.saturating_sub(start.0));
        Span {
            start_seconds: start.as_secs_f64(),
            end_seconds: end.as_secs_f64(),
            runtime_seconds: runtime.as_secs_f64(),
            runtime,
        }
    }

    /// Returns the length.
    pub fn runtime(&self) -> Nanos {
        self.runtime
    }
}

/// Result of a job, its clones together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JobResult {
    /// Name of the job.
    pub name: String,
    /// Number of the job's group.
    pub group: u32,
    /// Number of clones (`numjobs`).
    pub instances: u32,
    /// Target that the job works on; absent without targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// From the job's start to its last completion.
    #[serde(flatten)]
    pub time: Span,
    /// Requests of the job, with rates over its own time.
    #[serde(flatten)]
    pub requests: Requests,
}

/// Result of the jobs of a group together. A job with `stonewall` or `new_group` begins a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupResult {
    /// Number of the group, from 0.
    pub group: u32,
    /// Names of the jobs.
    pub jobs: Vec<String>,
    /// From the first job's start to the last completion of any.
    #[serde(flatten)]
    pub time: Span,
    /// Requests of the jobs, with rates over `time`.
    #[serde(flatten)]
    pub requests: Requests,
}

impl Span {
    /// Formats the time, as in `546 ms from 1.2 s on`.
    pub(super) fn words(&self) -> String {
        format!("{} from {} on", span(self.runtime_seconds), span(self.start_seconds))
    }
}

impl JobResult {
    pub(super) fn title(&self) -> String {
        let target = self.target.as_ref().map_or(String::new(), |target| format!(" on {target}"));
        match self.instances {
            1 => format!("{}{target}", self.name),
            instances => format!("{} x {instances}{target}", self.name),
        }
    }
}

impl GroupResult {
    pub(super) fn title(&self) -> String {
        format!("group {}: {}", self.group, self.jobs.join(", "))
    }
}

/// Returns the jobs and groups that add to the whole report, with their times: jobs if there are several; groups of several jobs if there are several
/// groups.
pub(super) fn parts<'a>(
    jobs: &'a [JobResult],
    groups: &'a [GroupResult],
) -> Vec<(String, &'a Span, &'a Requests)> {
    if jobs.len() < 2 {
        return Vec::new();
    }
    let jobs = jobs.iter().map(|job| (job.title(), &job.time, &job.requests));
    let telling = groups.iter().filter(|group| groups.len() > 1 && group.jobs.len() > 1);
    jobs.chain(telling.map(|group| (group.title(), &group.time, &group.requests))).collect()
}

impl Requests {
    /// Returns the directions that were used; reads again by mapping, if some found no data. A part that did nothing has one row of zeros.
    pub(super) fn rows(&self) -> Vec<(&'static str, &Direction)> {
        let mut rows = Vec::new();
        for (name, direction) in self.directions.named() {
            if direction.requests > 0 {
                rows.push((name, direction));
            }
            if name == "read" && self.reads.unmapped.requests > 0 {
                rows.extend([(" mapped", &self.reads.mapped), (" unmapped", &self.reads.unmapped)]);
            }
        }
        if rows.is_empty() {
            rows.push(("none", &self.directions.read));
        }
        rows
    }
}

/// Writes one line for each direction of the whole, of each group and of each job, with or without requests: every report has the same lines.
pub(super) fn write_csv(report: &Report, mut out: impl Write) -> io::Result<()> {
    writeln!(
        out,
        "part,name,group,instances,start_s,end_s,runtime_s,direction,requests,errors,bytes,iops,bytes_per_s,\
         mean_ns,min_ns,p50_ns,p95_ns,p99_ns,p99_9_ns,p99_99_ns,max_ns"
    )?;
    let whole = Span {
        runtime_seconds: report.simulated_seconds,
        end_seconds: report.simulated_seconds,
        ..Span::default()
    };
    lines(&mut out, ",,", "all", &whole, &report.all_requests())?;
    for group in &report.groups {
        lines(&mut out, &format!(",{},", group.group), "group", &group.time, &group.requests)?;
    }
    for job in &report.jobs {
        let name = job.name.replace('"', "\"\"");
        let label = format!("\"{name}\",{},{}", job.group, job.instances);
        lines(&mut out, &label, "job", &job.time, &job.requests)?;
    }
    Ok(())
}

fn lines(out: &mut impl Write, label: &str, part: &str, time: &Span, requests: &Requests) -> io::Result<()> {
    let reads = [("read_mapped", &requests.reads.mapped), ("read_unmapped", &requests.reads.unmapped)];
    for (name, d) in requests.directions.named().into_iter().chain(reads) {
        let Span { start_seconds, end_seconds, runtime_seconds, .. } = time;
        write!(out, "{part},{label},{start_seconds},{end_seconds},{runtime_seconds},{name}")?;
        write!(out, ",{},{},{},{},{}", d.requests, d.errors, d.bytes, d.iops, d.throughput_bytes_per_second)?;
        let l = &d.latency;
        write!(out, ",{}", l.mean_ns.map_or(String::new(), |ns| ns.to_string()))?;
        for ns in [l.min_ns, l.p50_ns, l.p95_ns, l.p99_ns, l.p99_9_ns, l.p99_99_ns, l.max_ns] {
            write!(out, ",{}", ns.map_or(String::new(), |ns| ns.to_string()))?;
        }
        writeln!(out)?;
    }
    Ok(())
}
