//! Several drives under the same work, side by side: one column per drive, and behind those of all but the first one
//! with the change from the first drive's number.

use super::text::PARTIAL;
use super::{Direction, JobResult, Latency, Report};
use pellucid_text::format::{bytes, count, duration, quantity, signed_percent, significant, span};
use std::fmt::Write;

/// How a number is shown.
type Show = fn(f64) -> String;

/// Which of two numbers is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    More,
    Less,
    /// Neither: the number only says how the others came about.
    Neither,
}
use Better::{Less, More, Neither};

/// A row of the table.
struct Row {
    label: String,
    show: Show,
    better: Better,
    /// Each drive's number, if it has one.
    values: Vec<Option<f64>>,
}

const LABEL: usize = 22;
/// The narrowest columns of numbers and of changes. A drive with a longer name has a wider column of changes.
const NUMBER: usize = 12;
const CHANGE: usize = 18;

/// The reports side by side. The column behind a number is its change from the first report's; rows that no report has are
/// left out. Three drives fit 100 columns.
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
    let mut head = format!("{:LABEL$}{:first$}", "", names[0]);
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
    for row in cells(reports).1 {
        let mut text = format!("{:LABEL$}", clip(&row[0], LABEL - 1));
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

/// Returns the comparison as cells: the names behind an empty cell, each but the first with a column of changes, and the rows, each with
/// its label first.
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
            cells.push(value.map_or("-".into(), row.show));
            if at > 0 {
                cells.push(change(row.better, *value, row.values[0]));
            }
        }
        cells
    };
    (head, said.map(row).collect())
}

/// The change from the first drive's number, and whether that is better.
fn change(better: Better, value: Option<f64>, first: Option<f64>) -> String {
    let (Some(value), Some(first)) = (value, first.filter(|first| *first != 0.0)) else {
        return String::new();
    };
    let verdict = match better {
        Neither => "",
        _ if value == first => "",
        More if value > first => " better",
        Less if value < first => " better",
        More | Less => " worse",
    };
    format!("{}{verdict}", signed_percent(value / first - 1.0))
}

fn clip(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.into();
    }
    text.chars().take(columns - 1).chain(['~']).collect()
}

fn rows(reports: &[Report]) -> Vec<Row> {
    let row = |label: &str, show: Show, better: Better, of: &dyn Fn(&Report) -> Option<f64>| Row {
        label: label.into(),
        show,
        better,
        values: reports.iter().map(of).collect(),
    };
    let whole: Show = |value| count(value.round() as u64);
    let share: Show = |value| format!("{} %", significant(value * 100.0));
    let rate: Show = |value| format!("{}/s", bytes(value));
    let mut rows = vec![
        row("requests", whole, Neither, &|r| Some(r.requests as f64)),
        row("simulated", span, Neither, &|r| Some(r.simulated_seconds)),
    ];
    for (i, name) in ["read", "write", "trim", "flush"].into_iter().enumerate() {
        let mut add = |label: &str, show: Show, better: Better, of: fn(&Direction) -> Option<f64>| {
            rows.push(row(&format!("{name} {label}"), show, better, &|report| {
                let direction = report.directions.named()[i].1;
                (direction.requests > 0).then(|| of(direction)).flatten()
            }));
        };
        add("IOPS", quantity, More, |d| Some(d.iops));
        add("rate", rate, More, |d| (d.bytes > 0).then_some(d.throughput_bytes_per_second));
        add("mean", duration, Less, |d| d.latency.mean_ns);
        add("p50", duration, Less, |d| d.latency.p50_ns.map(|ns| ns as f64));
        add("p99", duration, Less, |d| d.latency.p99_ns.map(|ns| ns as f64));
        add("p99.9", duration, Less, |d| d.latency.p99_9_ns.map(|ns| ns as f64));
        add("max", duration, Less, |d| d.latency.max_ns.map(|ns| ns as f64));
        add("errors", whole, Less, |d| (d.errors > 0).then_some(d.errors as f64));
    }
    rows.extend(reads_by_mapping(reports));
    rows.extend(jobs(reports));
    rows.extend([
        row("cache read misses", share, Less, &|r| {
            let (hits, misses) = (r.cache("read_hits")?, r.cache("read_misses")?);
            (hits + misses > 0.0).then(|| misses / (hits + misses))
        }),
        row("write amplification", significant, Less, &|r| r.write_amplification.total),
        row("blocks erased", whole, Less, &|r| Some(r.gc.erased_blocks.total() as f64)),
        row("valid in victims", share, Less, &|r| r.gc.victim_valid_share),
        row("most erases", whole, Less, &|r| Some(f64::from(r.wear.erases.max))),
        row("erase deviation", significant, Less, &|r| Some(r.wear.erases.stddev)),
        row("channels busy", share, Neither, &|r| r.utilisation.mean_channel()),
        row("dies busy", share, Neither, &|r| r.utilisation.mean_die()),
        row("firmware busy", share, Neither, &|r| r.utilisation.firmware),
        row("drive memory", bytes, Less, &|r| Some(r.drive.memory_bytes as f64)),
        row("host memory", bytes, Less, &|r| {
            let layer = r.host_layer.as_ref().map(|h| h.memory_bytes as f64);
            layer.or_else(|| r.cache("memory_bytes"))
        }),
        row("host processor", share, Less, &|r| r.host_layer.as_ref().map(|h| h.cpu_share)),
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
        Row { label: format!("mapped read {label}"), show: duration, better: Less, values }
    };
    let unmapped = reports.iter().map(|report| report.reads.unmapped_share).collect();
    vec![
        Row { label: "unmapped reads".into(), show: share, better: Neither, values: unmapped },
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
        let mut add = |label: &str, show: Show, better: Better, of: &dyn Fn(&JobResult) -> Option<f64>| {
            let values = reports.iter().map(|report| report.jobs.get(at).and_then(of)).collect();
            rows.push(Row { label: format!("{name}: {label}"), show, better, values });
        };
        add("runtime", span, Neither, &|job| Some(job.time.runtime_seconds));
        for (i, direction) in ["read", "write", "trim", "flush"].into_iter().enumerate() {
            let mut add = |label: &str, show: Show, better: Better, of: fn(&Direction) -> Option<f64>| {
                add(&format!("{direction} {label}"), show, better, &|job| {
                    let direction = job.requests.directions.named()[i].1;
                    (direction.requests > 0).then(|| of(direction)).flatten()
                });
            };
            add("IOPS", quantity, More, |d| Some(d.iops));
            add("mean", duration, Less, |d| d.latency.mean_ns);
            add("p99", duration, Less, |d| d.latency.p99_ns.map(|ns| ns as f64));
        }
    }
    rows
}
