//! Several drives under the same work, side by side: one column per drive, and after each but the first a column with the change from the first
//! drive.

use super::text::PARTIAL;
use super::{ApplicationReport, Direction, JobResult, Latency, Report};
use pellucid_text::format::{bytes, count, duration, quantity, signed_percent, significant, span};
use std::fmt::Write;

/// Unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Count,
    PerSecond,
    BytesPerSecond,
    Nanoseconds,
    Seconds,
    Bytes,
    /// A fraction of 1.
    Share,
    /// A quotient, or a deviation.
    Ratio,
}

impl Unit {
    pub(super) fn show(self, value: f64) -> String {
        match self {
            Unit::Count => count(value.round() as u64),
            Unit::PerSecond => quantity(value),
            Unit::BytesPerSecond => format!("{}/s", bytes(value)),
            Unit::Nanoseconds => duration(value),
            Unit::Seconds => span(value),
            Unit::Bytes => bytes(value),
            Unit::Share => format!("{} %", significant(value * 100.0)),
            Unit::Ratio => significant(value),
        }
    }

    /// Returns the unit's name in JSON; empty for a plain number.
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::PerSecond => "1/s",
            Unit::BytesPerSecond => "bytes/s",
            Unit::Nanoseconds => "ns",
            Unit::Seconds => "s",
            Unit::Bytes => "bytes",
            Unit::Count | Unit::Share | Unit::Ratio => "",
        }
    }
}

/// Changes below this share have no verdict.
const EQUAL_SHARE: f64 = 5e-4;

/// Which of two numbers is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    More,
    Less,
    /// Neither: the number only explains the others.
    Neither,
}
use Better::{Less, More, Neither};

impl Better {
    /// Judges a number against the first drive's: ` better`, ` worse`, or nothing.
    pub(super) fn verdict(self, value: f64, first: f64) -> &'static str {
        match self {
            Neither => "",
            _ if value == first => "",
            More if value > first => " better",
            Less if value < first => " better",
            More | Less => " worse",
        }
    }
}

/// A row of the table.
pub(super) struct Row {
    pub(super) label: String,
    pub(super) unit: Unit,
    pub(super) better: Better,
    /// One value per report, if it has one.
    pub(super) values: Vec<Option<f64>>,
}

/// Least width of the column of labels.
const LABEL: usize = 22;
/// Least width of columns of numbers and of changes; the name of a drive may widen its column of changes.
const NUMBER: usize = 12;
const CHANGE: usize = 18;

/// Renders the reports side by side. The column after a number is its change from the first report's; rows without any number are left out. Three
/// drives fit 100 columns.
pub fn render_compare(reports: &[Report]) -> String {
    let mut out = String::new();
    if reports.is_empty() {
        return out;
    }
    let names: Vec<&str> = reports.iter().map(|report| report.drive.name.as_str()).collect();
    let width = |name: &str| name.chars().count() + 2;
    let first = NUMBER.max(width(names[0]));
    let changes: Vec<usize> =
        names[1..].iter().map(|name| CHANGE.max(width(name).saturating_sub(NUMBER))).collect();
    let rows = cells(reports).1;
    // Labels of jobs hold their names, which tell rows apart.
    let label = rows.iter().map(|row| width(&row[0]) - 1).max().unwrap_or(0).max(LABEL);
    let mut head = format!("{:label$}{:first$}", "", names[0]);
    for (name, change) in names[1..].iter().zip(&changes) {
        let _ = write!(head, "{name:0$}", NUMBER + change);
    }
    let widths: Vec<usize> =
        [first].into_iter().chain(changes.iter().flat_map(|&change| [NUMBER, change])).collect();
    let mut line = |text: &str| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(&head);
    for row in rows {
        let mut text = format!("{:label$}", row[0]);
        for (cell, width) in row[1..].iter().zip(&widths) {
            let _ = write!(text, "{cell:width$}");
        }
        line(&text);
    }
    for note in notes(reports) {
        let _ = write!(out, "\nnote: {note}\n");
    }
    out
}

/// Returns notes that a reader needs to compare the reports.
pub(super) fn notes(reports: &[Report]) -> Vec<String> {
    let mut notes = Vec::new();
    for report in reports {
        let name = &report.drive.name;
        if report.partial {
            notes.push(format!("{name} is partial: {PARTIAL}"));
        }
        if let Some(steady) = report.steady_state.as_ref().filter(|steady| !steady.reached) {
            notes.push(format!("{name} was not steady: {}", steady.words()));
        }
        if let Some(replay) = report.replay.filter(|replay| replay.widened > 0) {
            notes.push(format!(
                "on {name}, {} of {} requests of the trace were widened to whole sectors of {} bytes",
                count(replay.widened),
                count(replay.records),
                count(report.drive.sector_bytes.into()),
            ));
        }
    }
    notes.extend(results(reports.iter()).map(|(_, note)| note));
    notes
}

/// Returns whether all applications have the same result, with a sentence that says so; `None` without results. Applications are compared by
/// position.
pub(super) fn results<'a>(reports: impl Iterator<Item = &'a Report>) -> Option<(bool, String)> {
    let reports: Vec<&Report> = reports.collect();
    let most = reports.iter().map(|report| report.applications.len()).max().unwrap_or(0);
    let all: Vec<(bool, String)> = (0..most).filter_map(|at| results_at(&reports, at)).collect();
    let differs = all.iter().find(|(same, _)| !same).cloned();
    differs.or_else(|| all.into_iter().next())
}

fn results_at(reports: &[&Report], at: usize) -> Option<(bool, String)> {
    let found = reports.iter().filter_map(|report| Some((report, report.applications.get(at)?)));
    let results: Vec<_> = found.collect();
    let [(_, first), _, ..] = results[..] else { return None };
    // Different applications have nothing to agree on.
    if first.result.is_empty() || results.iter().any(|(_, other)| other.name != first.name) {
        return None;
    }
    let differs =
        |name: &&String| results.iter().any(|(_, other)| other.result.get(*name) != first.result.get(*name));
    let Some(name) = first.result.keys().find(differs) else {
        return Some((true, "the results are the same on all drives".into()));
    };
    let of = |(report, application): &(&&Report, &ApplicationReport)| {
        let value = application.result.get(name).map_or("none", String::as_str);
        format!("{value} on {}", report.drive.name)
    };
    let each: Vec<String> = results.iter().map(of).collect();
    Some((false, format!("the results differ: {name} is {}", each.join(", "))))
}

/// Returns the comparison as cells: the header, whose first cell is empty and which has a column of changes after each name but the first; and the
/// rows, label first.
pub(super) fn cells(reports: &[Report]) -> (Vec<String>, Vec<Vec<String>>) {
    let mut head = vec![String::new()];
    for (at, report) in reports.iter().enumerate() {
        head.push(report.drive.name.clone());
        if at > 0 {
            head.push("change".into());
        }
    }
    let said = rows(reports).into_iter().filter(|row| row.values.iter().any(Option::is_some));
    let row = |row: Row| {
        let mut cells = vec![row.label.clone()];
        for (at, value) in row.values.iter().enumerate() {
            cells.push(value.map_or("-".into(), |value| row.unit.show(value)));
            if at > 0 {
                cells.push(change(row.better, *value, row.values[0]));
            }
        }
        cells
    };
    (head, said.map(row).collect())
}

/// Returns the change from the first drive's number, with its verdict.
fn change(better: Better, value: Option<f64>, first: Option<f64>) -> String {
    let (Some(value), Some(first)) = (value, first.filter(|first| *first != 0.0)) else {
        return String::new();
    };
    // A difference that no number of the table shows is neither better nor worse.
    let is_small = (value / first - 1.0).abs() < EQUAL_SHARE;
    let verdict = if is_small { "" } else { better.verdict(value, first) };
    format!("{}{verdict}", signed_percent(value / first - 1.0))
}

/// Returns every number that at least one report may have, with one value per report.
pub(super) fn rows(reports: &[Report]) -> Vec<Row> {
    let row = |label: &str, unit: Unit, better: Better, of: &dyn Fn(&Report) -> Option<f64>| Row {
        label: label.into(),
        unit,
        better,
        values: reports.iter().map(of).collect(),
    };
    let mut rows = vec![
        row("requests", Unit::Count, Neither, &|r| Some(r.requests as f64)),
        row("simulated", Unit::Seconds, Neither, &|r| Some(r.simulated_seconds)),
        row("steady after", Unit::Seconds, Neither, &|r| r.steady_state.as_ref()?.reached_seconds),
    ];
    for (i, name) in ["read", "write", "trim", "flush"].into_iter().enumerate() {
        let mut add = |label: &str, unit: Unit, better: Better, of: fn(&Direction) -> Option<f64>| {
            rows.push(row(&format!("{name} {label}"), unit, better, &|report| {
                let direction = report.directions.named()[i].1;
                (direction.requests > 0).then(|| of(direction)).flatten()
            }));
        };
        add("IOPS", Unit::PerSecond, More, |d| Some(d.iops));
        add("rate", Unit::BytesPerSecond, More, |d| (d.bytes > 0).then_some(d.throughput_bytes_per_second));
        add("mean", Unit::Nanoseconds, Less, |d| d.latency.mean_ns);
        add("p50", Unit::Nanoseconds, Less, |d| d.latency.p50_ns.map(|ns| ns as f64));
        add("p99", Unit::Nanoseconds, Less, |d| d.latency.p99_ns.map(|ns| ns as f64));
        add("p99.9", Unit::Nanoseconds, Less, |d| d.latency.p99_9_ns.map(|ns| ns as f64));
        add("max", Unit::Nanoseconds, Less, |d| d.latency.max_ns.map(|ns| ns as f64));
        add("errors", Unit::Count, Less, |d| (d.errors > 0).then_some(d.errors as f64));
    }
    rows.extend(applications(reports));
    rows.extend(reads_by_mapping(reports));
    rows.extend(jobs(reports));
    rows.extend([
        row("cache read misses", Unit::Share, Less, &|r| {
            let (hits, misses) = (r.cache("read_hits")?, r.cache("read_misses")?);
            (hits + misses > 0.0).then(|| misses / (hits + misses))
        }),
        row("write amplification", Unit::Ratio, Less, &|r| r.write_amplification.total),
        row("blocks erased", Unit::Count, Less, &|r| Some(r.gc.erased_blocks.total() as f64)),
        row("valid in victims", Unit::Share, Less, &|r| r.gc.victim_valid_share),
        row("most erases", Unit::Count, Less, &|r| Some(f64::from(r.wear.erases.max))),
        row("erase deviation", Unit::Ratio, Less, &|r| Some(r.wear.erases.stddev)),
        row("channels busy", Unit::Share, Neither, &|r| r.utilisation.mean_channel()),
        row("dies busy", Unit::Share, Neither, &|r| r.utilisation.mean_die()),
        row("firmware busy", Unit::Share, Neither, &|r| r.utilisation.firmware),
        row("drive memory", Unit::Bytes, Less, &|r| Some(r.drive.memory_bytes as f64)),
        row("host memory", Unit::Bytes, Less, &|r| {
            let layer = r.host_layer.as_ref().map(|h| h.memory_bytes as f64);
            layer.or_else(|| r.cache("memory_bytes"))
        }),
        row("host processor", Unit::Share, Less, &|r| r.host_layer.as_ref().map(|h| h.cpu_share)),
    ]);
    rows
}

/// Returns the rows of all applications.
fn applications(reports: &[Report]) -> Vec<Row> {
    let most = reports.iter().map(|report| report.applications.len()).max().unwrap_or(0);
    let of = |at: usize| {
        let title =
            reports.iter().find_map(|report| report.applications.get(at)).map(ApplicationReport::title);
        let title = title.filter(|_| most > 1);
        application(reports, at).into_iter().map(move |row| match &title {
            Some(title) => Row { label: format!("{title}, {}", row.label), ..row },
            None => row,
        })
    };
    (0..most).flat_map(of).collect()
}

/// Returns the rows of the applications at position `at`.
fn application(reports: &[Report], at: usize) -> Vec<Row> {
    let row = |label: &str, unit, better, of: fn(&ApplicationReport) -> Option<f64>| {
        let values = reports.iter().map(|report| report.applications.get(at).and_then(of)).collect();
        Row { label: label.into(), unit, better, values }
    };
    let phases: Vec<&str> = reports
        .iter()
        .filter_map(|report| report.applications.get(at))
        .max_by_key(|application| application.phases.len())
        .map_or(Vec::new(), |application| application.phases.iter().map(|p| p.phase.as_str()).collect());
    let phases = phases.into_iter().map(|name| Row {
        label: format!("time to {name}"),
        unit: Unit::Seconds,
        better: Less,
        values: reports
            .iter()
            .map(|report| Some(report.applications.get(at)?.phase(name)?.seconds))
            .collect(),
    });
    let mut rows = vec![
        row("operations", Unit::PerSecond, More, |a| a.operations_per_second),
        row("operation mean", Unit::Nanoseconds, Less, |a| a.latency.mean_ns),
        row("operation p99", Unit::Nanoseconds, Less, |a| a.latency.p99_ns.map(|ns| ns as f64)),
        row("operations left out", Unit::Count, Less, |a| (a.left_out > 0).then_some(a.left_out as f64)),
        row("copied by itself", Unit::Bytes, Less, |a| {
            Some(a.copies.first().filter(|copies| copies.by != "drive")?.bytes as f64)
        }),
        row("copied by the drive", Unit::Bytes, Less, |a| Some(a.copied_by("drive")? as f64)),
        row("programmed / written", Unit::Ratio, Less, |a| a.write_amplification),
        row("cleaner pause p99", Unit::Nanoseconds, Less, |a| a.pauses.p99_ns.map(|ns| ns as f64)),
    ];
    rows.splice(1..1, phases);
    rows
}

/// Returns rows on unmapped reads, if any drive had some: their number, and the latency of mapped reads.
fn reads_by_mapping(reports: &[Report]) -> Vec<Row> {
    if reports.iter().all(|report| report.reads.unmapped.requests == 0) {
        return Vec::new();
    }
    let mapped = |label: &str, of: fn(&Latency) -> Option<f64>| -> Row {
        let values = reports.iter().map(|report| of(&report.reads.mapped.latency)).collect();
        Row { label: format!("mapped read {label}"), unit: Unit::Nanoseconds, better: Less, values }
    };
    let unmapped = reports.iter().map(|report| report.reads.unmapped_share).collect();
    vec![
        Row { label: "unmapped reads".into(), unit: Unit::Share, better: Neither, values: unmapped },
        mapped("mean", |latency| latency.mean_ns),
        mapped("p50", |latency| latency.p50_ns.map(|ns| ns as f64)),
        mapped("p99", |latency| latency.p99_ns.map(|ns| ns as f64)),
    ]
}

/// Returns the rows of the jobs, each over its own time, if there are several.
fn jobs(reports: &[Report]) -> Vec<Row> {
    let most = reports.iter().map(|report| report.jobs.len()).max().unwrap_or(0);
    let mut rows: Vec<Row> = Vec::new();
    for at in (0..most).filter(|_| most > 1) {
        let job = |report: &'_ Report| report.jobs.get(at).cloned();
        let name = reports.iter().find_map(job).map_or(String::new(), |job| job.title());
        let mut add = |label: &str, unit: Unit, better: Better, of: &dyn Fn(&JobResult) -> Option<f64>| {
            let values = reports.iter().map(|report| report.jobs.get(at).and_then(of)).collect();
            rows.push(Row { label: format!("{name}: {label}"), unit, better, values });
        };
        add("runtime", Unit::Seconds, Neither, &|job| Some(job.time.runtime_seconds));
        for (i, direction) in ["read", "write", "trim", "flush"].into_iter().enumerate() {
            let mut add = |label: &str, unit: Unit, better: Better, of: fn(&Direction) -> Option<f64>| {
                add(&format!("{direction} {label}"), unit, better, &|job| {
                    let direction = job.requests.directions.named()[i].1;
                    (direction.requests > 0).then(|| of(direction)).flatten()
                });
            };
            add("IOPS", Unit::PerSecond, More, |d| Some(d.iops));
            add("mean", Unit::Nanoseconds, Less, |d| d.latency.mean_ns);
            add("p99", Unit::Nanoseconds, Less, |d| d.latency.p99_ns.map(|ns| ns as f64));
        }
    }
    rows
}
