//! Several drives under the same work, side by side: one column per drive, each number with its ratio to the
//! first drive's.

use super::text::PARTIAL;
use super::{Direction, JobResult, Latency, Report};
use pellucid_text::format::{bytes, count, duration, quantity, ratio, significant, span};
use std::fmt::Write;

/// How a number is shown.
type Show = fn(f64) -> String;
/// A row: its label, how its numbers are shown, and each drive's number if it has one.
type Row = (String, Show, Vec<Option<f64>>);

const LABEL: usize = 22;
/// The narrowest column; one with a longer name is wider.
const COLUMN: usize = 24;

/// The reports side by side. A number is followed by its ratio to the first report's (`x 1.3`: three tenths
/// more); rows that no report has are left out. Three drives fit 100 columns.
pub fn render_compare(reports: &[Report]) -> String {
    let mut out = String::new();
    if reports.is_empty() {
        return out;
    }
    let (head, rows) = cells(reports);
    let widths: Vec<usize> = head.iter().map(|name| COLUMN.max(name.chars().count() + 2)).collect();
    for row in [head].into_iter().chain(rows) {
        line(&mut out, &row, &widths);
    }
    for note in notes(reports) {
        let _ = write!(out, "\nnote: {note}\n");
    }
    out
}

/// Returns remarks that a reader needs to compare the reports.
pub(super) fn notes(reports: &[Report]) -> Vec<String> {
    let mut notes = Vec::new();
    for report in reports {
        let name = &report.drive.name;
        if report.partial {
            notes.push(format!("{name} is partial: {PARTIAL}"));
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
    notes
}

/// Returns the comparison as cells: the names behind an empty cell, and the rows, each with its label first.
pub(super) fn cells(reports: &[Report]) -> (Vec<String>, Vec<Vec<String>>) {
    let names = reports.iter().map(|report| report.drive.name.clone());
    let head = [String::new()].into_iter().chain(names).collect();
    let said = rows(reports).into_iter().filter(|(_, _, values)| values.iter().any(Option::is_some));
    let row = |(label, show, values): Row| {
        let first = values[0];
        let cells = values.iter().enumerate().map(|(i, value)| cell(show, *value, first.filter(|_| i > 0)));
        [label].into_iter().chain(cells).collect()
    };
    (head, said.map(row).collect())
}

fn line(out: &mut String, row: &[String], widths: &[usize]) {
    let mut text = format!("{:LABEL$}", clip(&row[0], LABEL - 1));
    for (cell, &width) in row.iter().zip(widths).skip(1) {
        let _ = write!(text, "{cell:width$}");
    }
    out.push_str(text.trim_end());
    out.push('\n');
}

fn clip(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.into();
    }
    text.chars().take(columns - 1).chain(['~']).collect()
}

/// A number, and its ratio to `first` if there is one to compare with.
fn cell(show: Show, value: Option<f64>, first: Option<f64>) -> String {
    let Some(value) = value else {
        return "-".into();
    };
    let shown = show(value);
    match first {
        Some(first) if first != 0.0 => format!("{shown:10} x {}", ratio(value / first)),
        _ => shown,
    }
}

fn rows(reports: &[Report]) -> Vec<Row> {
    let row = |label: String, show: Show, of: &dyn Fn(&Report) -> Option<f64>| -> Row {
        (label, show, reports.iter().map(of).collect())
    };
    let whole: Show = |value| count(value.round() as u64);
    let share: Show = |value| format!("{} %", significant(value * 100.0));
    let rate: Show = |value| format!("{}/s", bytes(value));
    let mut rows = vec![
        row("requests".into(), whole, &|r| Some(r.requests as f64)),
        row("simulated".into(), span, &|r| Some(r.simulated_seconds)),
    ];
    for (i, name) in ["read", "write", "trim", "flush"].into_iter().enumerate() {
        let mut add = |label: &str, show: Show, of: fn(&Direction) -> Option<f64>| {
            rows.push(row(format!("{name} {label}"), show, &|report| {
                let direction = report.directions.named()[i].1;
                (direction.requests > 0).then(|| of(direction)).flatten()
            }));
        };
        add("IOPS", quantity, |d| Some(d.iops));
        add("rate", rate, |d| (d.bytes > 0).then_some(d.throughput_bytes_per_second));
        add("mean", duration, |d| d.latency.mean_ns);
        add("p50", duration, |d| d.latency.p50_ns.map(|ns| ns as f64));
        add("p99", duration, |d| d.latency.p99_ns.map(|ns| ns as f64));
        add("p99.9", duration, |d| d.latency.p99_9_ns.map(|ns| ns as f64));
        add("max", duration, |d| d.latency.max_ns.map(|ns| ns as f64));
        add("errors", whole, |d| (d.errors > 0).then_some(d.errors as f64));
    }
    rows.extend(reads_by_mapping(reports));
    rows.extend(jobs(reports));
    rows.extend([
        row("cache read misses".into(), share, &|r| {
            let (hits, misses) = (r.cache("read_hits")?, r.cache("read_misses")?);
            (hits + misses > 0.0).then(|| misses / (hits + misses))
        }),
        row("write amplification".into(), significant, &|r| r.write_amplification.total),
        row("blocks erased".into(), whole, &|r| Some(r.gc.erased_blocks.total() as f64)),
        row("valid in victims".into(), share, &|r| r.gc.victim_valid_share),
        row("most erases".into(), whole, &|r| Some(f64::from(r.wear.erases.max))),
        row("erase deviation".into(), significant, &|r| Some(r.wear.erases.stddev)),
        row("channels busy".into(), share, &|r| r.utilisation.mean_channel()),
        row("dies busy".into(), share, &|r| r.utilisation.mean_die()),
        row("firmware busy".into(), share, &|r| r.utilisation.firmware),
        row("drive memory".into(), bytes, &|r| Some(r.drive.memory_bytes as f64)),
        row("host memory".into(), bytes, &|r| {
            let layer = r.host_layer.as_ref().map(|h| h.memory_bytes as f64);
            layer.or_else(|| r.cache("memory_bytes"))
        }),
        row("host processor".into(), share, &|r| r.host_layer.as_ref().map(|h| h.cpu_share)),
    ]);
    rows
}

/// Where some drive had no data for some reads: how many, and what the others took.
fn reads_by_mapping(reports: &[Report]) -> Vec<Row> {
    if reports.iter().all(|report| report.reads.unmapped.requests == 0) {
        return Vec::new();
    }
    let share: Show = |value| format!("{} %", significant(value * 100.0));
    let mapped = |label: &str, of: fn(&Latency) -> Option<f64>| -> Row {
        let values = reports.iter().map(|report| of(&report.reads.mapped.latency)).collect();
        (format!("mapped read {label}"), duration, values)
    };
    let unmapped = reports.iter().map(|report| report.reads.unmapped_share).collect();
    vec![
        ("unmapped reads".into(), share, unmapped),
        mapped("mean", |latency| latency.mean_ns),
        mapped("p50", |latency| latency.p50_ns.map(|ns| ns as f64)),
        mapped("p99", |latency| latency.p99_ns.map(|ns| ns as f64)),
    ]
}

/// The jobs, each over its own time, where there are several.
fn jobs(reports: &[Report]) -> Vec<Row> {
    let most = reports.iter().map(|report| report.jobs.len()).max().unwrap_or(0);
    let mut rows: Vec<Row> = Vec::new();
    for at in (0..most).filter(|_| most > 1) {
        let job = |report: &'_ Report| report.jobs.get(at).cloned();
        let name = reports.iter().find_map(job).map_or(String::new(), |job| job.title());
        let mut add = |label: &str, show: Show, of: &dyn Fn(&JobResult) -> Option<f64>| {
            let values = reports.iter().map(|report| report.jobs.get(at).and_then(of)).collect();
            rows.push((format!("{name}: {label}"), show, values));
        };
        add("runtime", span, &|job| Some(job.time.runtime_seconds));
        for (i, direction) in ["read", "write", "trim", "flush"].into_iter().enumerate() {
            let mut add = |label: &str, show: Show, of: fn(&Direction) -> Option<f64>| {
                add(&format!("{direction} {label}"), show, &|job| {
                    let direction = job.requests.directions.named()[i].1;
                    (direction.requests > 0).then(|| of(direction)).flatten()
                });
            };
            add("IOPS", quantity, |d| Some(d.iops));
            add("mean", duration, |d| d.latency.mean_ns);
            add("p99", duration, |d| d.latency.p99_ns.map(|ns| ns as f64));
        }
    }
    rows
}
