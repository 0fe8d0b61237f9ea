//! The report as one screen for the terminal. Plain text: no colour, no control characters, never wider than requested (down to 60 columns).

use super::{Direction, NamespaceResult, Report, jobs};
use pellucid_text::format::{bytes, count, duration, optional, percent, quantity, significant, span};
use std::fmt::Write;

/// Notice on a partial report.
pub(super) const PARTIAL: &str =
    "the user ended the run before its work was done; this is what had completed";
/// Column at which the text of a labelled line begins.
const LABEL: usize = 20;

/// Renders the report as one screen of at most `width` columns (at least 60). A narrow screen drops the columns of rates and of p99.9.
pub fn render_text(report: &Report, width: usize) -> String {
    let width = width.max(60);
    let mut out = String::new();
    head(&mut out, report, width);
    out.push('\n');
    requests(&mut out, report, width);
    out.push('\n');
    for (name, (_, direction)) in
        ["reads", "writes", "trims", "flushes"].iter().zip(report.directions.named())
    {
        if direction.stage_ns.total() > 0 {
            labelled(&mut out, width, &format!("where {name} wait"), &stages(direction));
        }
    }
    files(&mut out, report, width);
    for application in &report.applications {
        for (label, words) in application.words() {
            labelled(&mut out, width, &label, &words);
        }
    }
    labelled(&mut out, width, "where writes went", &amplification(report));
    labelled(&mut out, width, "gc", &gc(report));
    labelled(&mut out, width, "map cache", &map_cache(report));
    labelled(&mut out, width, "merges", &merges(report));
    labelled(&mut out, width, "SLC cache", &slc_cache(report));
    for target in &report.targets {
        labelled(&mut out, width, &format!("target {}", target.name), &target.words());
    }
    for namespace in &report.namespaces {
        labelled(&mut out, width, &format!("namespace {}", namespace.number), &one_namespace(namespace));
    }
    if report.wear.blocks > 0 {
        labelled(&mut out, width, "wear", &wear(report));
    }
    labelled(&mut out, width, "busy", &busy(report));
    labelled(&mut out, width, "firmware time", &firmware(report));
    labelled(&mut out, width, "host", &host_layer(report));
    parts(&mut out, report, width);
    labelled(&mut out, width, "failed requests", &errors(report));
    labelled(&mut out, width, "media", &media(report));
    labelled(&mut out, width, "mount", &mount(report));
    out
}

/// Writes the drive, the work and the run.
fn head(out: &mut String, report: &Report, width: usize) {
    labelled(out, width, &report.drive.name, &words(&report.drive.summary));
    labelled(out, width, "workload", &words(&report.workload.summary));
    labelled(out, width, "preconditioning", &words(&report.workload.precondition));
    labelled(out, width, "run", &words(&headline(report)));
    if let Some(steady) = &report.steady_state {
        labelled(out, width, "steady state", &words(&steady.words()));
    }
    if report.partial {
        labelled(out, width, "partial", &words(PARTIAL));
    }
    if let Some(reads) = report.verified_reads {
        let line = match reads {
            0 => "nothing: no read was compared with what was written".to_string(),
            _ => format!("{} reads were compared with what was written, and all are right", count(reads)),
        };
        labelled(out, width, "verify", &words(&line));
    }
    labelled(out, width, "trace", &report.replay.map_or(Vec::new(), |replay| replay.words()));
    if report.requests == 0 && report.applications.is_empty() {
        labelled(
            out,
            width,
            "measured",
            &words("nothing: no request came after the ramp_time, or none at all"),
        );
    }
}

/// Writes the counters of the parts above the drive.
fn parts(out: &mut String, report: &Report, width: usize) {
    for part in &report.parts {
        let figures = part.figures.iter().filter(|figure| figure.value > 0);
        let mut words: Vec<String> =
            figures.map(|figure| format!("{} {}   ", figure.name, count(figure.value))).collect();
        if words.is_empty() {
            words.push("nothing counted".into());
        }
        labelled(out, width, &part.part, &words);
    }
}

/// Writes `items` after a label, breaking lines between items only; nothing without items.
fn labelled(out: &mut String, width: usize, label: &str, items: &[String]) {
    let mut line = format!("{label:LABEL$}");
    if line.trim_end().len() >= LABEL {
        line = format!("{label}  ");
    }
    let mut empty = true;
    for item in items {
        if !empty && line.len() + item.len() > width {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(LABEL) + item.trim_start();
        } else {
            line.push_str(item);
        }
        empty = false;
    }
    if !empty {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(|word| format!("{word} ")).collect()
}

fn headline(report: &Report) -> String {
    let mut line =
        format!("{} requests, {} simulated", count(report.requests), span(report.simulated_seconds));
    if let Some(host) = &report.host {
        let rate = quantity(host.requests_per_wall_second);
        let _ = write!(line, " in {} ({rate} requests/s", span(host.wall_seconds));
        if let Some(peak) = host.peak_memory_bytes {
            let _ = write!(line, ", {}", bytes(peak as f64));
        }
        line.push(')');
    }
    line
}

/// A column of the table of requests: heading, least width, narrowest screen that shows it, and its text.
type Column = (&'static str, usize, usize, fn(&Direction) -> String);

const COLUMNS: [Column; 9] = [
    ("requests", 13, 0, |d| count(d.requests)),
    ("bytes", 9, 0, |d| bytes(d.bytes as f64)),
    ("IOPS", 11, 96, |d| quantity(d.iops)),
    ("rate", 11, 80, |d| format!("{}/s", bytes(d.throughput_bytes_per_second))),
    ("mean", 9, 0, |d| optional(d.latency.mean_ns, duration)),
    ("p50", 9, 0, |d| latency(d.latency.p50_ns)),
    ("p99", 9, 0, |d| latency(d.latency.p99_ns)),
    ("p99.9", 9, 96, |d| latency(d.latency.p99_9_ns)),
    ("max", 9, 70, |d| latency(d.latency.max_ns)),
];

fn latency(ns: Option<u64>) -> String {
    optional(ns, |ns| duration(ns as f64))
}

const GAP: usize = 2;

/// Returns the columns that fit into `room` on a screen of `width`, each with its width: its longest text and a gap, or more. Columns that narrow
/// screens lack go first.
fn columns(rows: &[&Direction], room: usize, width: usize) -> Vec<(Column, usize)> {
    let needed = |(heading, _, _, show): &Column| {
        let texts = rows.iter().map(|row| show(row).len());
        GAP + texts.chain([heading.len()]).max().unwrap_or(0)
    };
    let shown = COLUMNS.into_iter().filter(|column| column.2 <= width);
    let mut shown: Vec<(Column, usize)> = shown.map(|column| (column, needed(&column))).collect();
    let sum = |shown: &[(Column, usize)]| shown.iter().map(|(_, columns)| columns).sum::<usize>();
    while sum(&shown) > room
        && let Some(most) = shown.iter().map(|(column, _)| column.2).max().filter(|most| *most > 0)
        && let Some(at) = shown.iter().position(|(column, _)| column.2 == most)
    {
        shown.remove(at);
    }
    let roomy: Vec<(Column, usize)> =
        shown.iter().map(|(column, needed)| (*column, column.1.max(*needed))).collect();
    if sum(&roomy) <= room { roomy } else { shown }
}

/// Writes the table of requests: all jobs together, then each.
fn requests(out: &mut String, report: &Report, width: usize) {
    let all = report.all_requests();
    let parts = jobs::parts(&report.jobs, &report.groups);
    let mut tables = vec![(String::new(), all.rows())];
    if !parts.is_empty() {
        tables[0].0 = format!("all jobs, over the drive's whole {}", span(report.simulated_seconds));
    }
    tables
        .extend(parts.iter().map(|(title, time, part)| (format!("{title}, {}", time.words()), part.rows())));
    // A target with one job has the numbers of that job.
    let shared = report.targets.iter().filter(|target| target.jobs.len() > 1);
    tables.extend(shared.map(|target| (target.title(), target.requests.rows())));
    let names = tables.iter().flat_map(|(_, rows)| rows).map(|(name, _)| name.len());
    let label = names.max().unwrap_or(0).max(5) + 2;
    let directions: Vec<&Direction> =
        tables.iter().flat_map(|(_, rows)| rows).map(|(_, direction)| *direction).collect();
    let shown = columns(&directions, width.saturating_sub(label), width);
    let mut line = " ".repeat(label);
    for ((heading, ..), columns) in &shown {
        let _ = write!(line, "{heading:>columns$}");
    }
    let _ = writeln!(out, "{line}");
    for (title, rows) in tables.iter().filter(|_| report.requests > 0 || !parts.is_empty()) {
        if !title.is_empty() {
            let _ = writeln!(out, "{}", title.chars().take(width).collect::<String>());
        }
        for (name, direction) in rows {
            let mut line = format!("{:label$}", format!("  {name}"));
            for ((.., show), columns) in &shown {
                let _ = write!(line, "{:>columns$}", show(direction));
            }
            let _ = writeln!(out, "{line}");
        }
    }
}

fn stages(direction: &Direction) -> Vec<String> {
    let spent = direction.stage_percent.iter().filter(|(_, share)| **share > 0.0);
    spent.map(|(stage, share)| format!("{} {}   ", stage.name(), percent(share / 100.0))).collect()
}

fn amplification(report: &Report) -> Vec<String> {
    let amplification = &report.write_amplification;
    let Some(total) = amplification.total else {
        return programmed_without_writes(report);
    };
    let terms = amplification.ratio.iter().filter_map(|(cause, ratio)| {
        let ratio = ratio.filter(|ratio| *ratio > 0.0)?;
        Some(format!("{} {}  ", cause.name(), significant(ratio)))
    });
    let mut items: Vec<String> = terms.collect();
    if items.is_empty() {
        return vec!["nowhere yet: nothing was programmed".into()];
    }
    add_up(&mut items);
    items.push(format!("=  {} programmed per host byte", significant(total)));
    items
}

/// Puts a plus before all terms but the first.
fn add_up(terms: &mut [String]) {
    terms.iter_mut().skip(1).for_each(|term| term.insert_str(0, "+  "));
}

/// Describes data that were programmed although the host wrote nothing, as by trims of parts of mapping units.
fn programmed_without_writes(report: &Report) -> Vec<String> {
    let programmed = &report.write_amplification.programmed_bytes;
    let terms = programmed.iter().filter(|(_, programmed)| **programmed > 0);
    let mut items: Vec<String> = terms
        .map(|(cause, programmed)| format!("{} {}  ", cause.name(), bytes(*programmed as f64)))
        .collect();
    add_up(&mut items);
    if !items.is_empty() {
        items.push("programmed; the host wrote nothing".into());
    }
    items
}

fn gc(report: &Report) -> Vec<String> {
    let gc = &report.gc;
    let Some(valid) = gc.victim_valid_share else {
        return Vec::new();
    };
    let mut items = vec![
        format!("{} victim blocks, {} valid   ", count(gc.victims), percent(valid)),
        format!("{} units copied   ", count(gc.copied_units)),
        format!("{} copybacks", count(report.write_amplification.copybacks)),
    ];
    if gc.emergency_victims > 0 {
        items.push(format!("   {} against the victim policy", count(gc.emergency_victims)));
    }
    items
}

fn one_namespace(namespace: &NamespaceResult) -> Vec<String> {
    let mut items = vec![format!("{} {}   ", namespace.interface, bytes(namespace.capacity_bytes as f64))];
    if let Some(total) = namespace.write_amplification.total {
        let written = bytes(namespace.write_amplification.host_written_bytes as f64);
        items.push(format!("{written} written, {} programmed per host byte   ", significant(total)));
    }
    if let Some(gc) = namespace.gc.as_ref().filter(|gc| gc.victims > 0) {
        let valid = optional(gc.victim_valid_share, percent);
        items.push(format!("{} victim blocks, {valid} valid   ", count(gc.victims)));
    }
    items.push(format!("{} free blocks", count(namespace.free_blocks)));
    if namespace.read_only {
        items.push("   read-only".into());
    }
    items
}

fn map_cache(report: &Report) -> Vec<String> {
    let Some(map) = report.map_cache else { return Vec::new() };
    let mut items = vec![
        format!("{} of {} look-ups hit ", optional(map.hit_ratio, percent), count(map.lookups)),
        format!("{} entries   ", count(map.entries)),
        format!("translation pages: {} read for look-ups, ", count(map.lookup_reads)),
        format!("{} to be merged", count(map.merge_reads.named().iter().map(|(_, n)| n).sum())),
    ];
    for (name, pages) in map.writes.named().into_iter().filter(|&(_, pages)| pages > 0) {
        items.push(format!(", {} written for {name}", count(pages)));
    }
    items
}

fn merges(report: &Report) -> Vec<String> {
    let Some(merges) = report.merges else { return Vec::new() };
    let kinds = merges.named();
    let mut items: Vec<String> =
        kinds.iter().map(|(name, kind)| format!("{name} {}   ", count(kind.merges))).collect();
    items.push(format!("{} units copied, ", count(kinds.iter().map(|(_, kind)| kind.copied_units).sum())));
    items.push(format!("{} padded", count(kinds.iter().map(|(_, kind)| kind.padded_units).sum())));
    items
}

fn slc_cache(report: &Report) -> Vec<String> {
    let Some(cache) = report.slc_cache else { return Vec::new() };
    vec![
        format!("{} written to it, ", bytes(cache.host_bytes as f64)),
        format!("{} past it, ", bytes(cache.direct_bytes as f64)),
        format!("{} folded   ", bytes(cache.folded_bytes as f64)),
        format!("{} full at the end", percent(cache.used_blocks as f64 / cache.blocks as f64)),
    ]
}

fn wear(report: &Report) -> Vec<String> {
    let wear = &report.wear;
    if wear.blocks == 0 {
        return Vec::new();
    }
    let bad = wear.bad_blocks_factory + wear.bad_blocks_grown;
    let mut items = vec![
        format!("erases {}   ", count(report.gc.erased_blocks.total())),
        format!("per block {} to {}, ", wear.erases.min, wear.erases.max),
        format!("mean {}, deviation {}   ", significant(wear.erases.mean), significant(wear.erases.stddev)),
        format!("free blocks {}", percent(wear.free_blocks as f64 / wear.blocks as f64)),
    ];
    if bad > 0 {
        items.push(format!("   bad blocks {bad} ({} grown)", wear.bad_blocks_grown));
    }
    if wear.read_only {
        let why = match wear.bad_blocks_grown {
            0 => "no block could be freed for new data",
            _ => "too few good blocks are left, or a failure took the one that GC keeps free",
        };
        items.push(format!("   read-only: {why}"));
    }
    items
}

fn busy(report: &Report) -> Vec<String> {
    let utilisation = &report.utilisation;
    let parts = [
        ("channels", utilisation.mean_channel()),
        ("dies", utilisation.mean_die()),
        ("firmware", utilisation.firmware),
        ("link to host", utilisation.link_to_host),
        ("link to drive", utilisation.link_to_drive),
    ];
    let known = parts.iter().filter_map(|(name, share)| share.map(|share| (name, share)));
    known.map(|(name, share)| format!("{name} {}   ", percent(share))).collect()
}

fn firmware(report: &Report) -> Vec<String> {
    let modules = report.utilisation.firmware_modules.iter().flat_map(|modules| modules.named());
    modules
        .filter(|(_, share)| *share > 0.0)
        .map(|(name, share)| format!("{name} {}   ", percent(share)))
        .collect()
}

/// Writes the rate and the latency of file operations.
fn files(out: &mut String, report: &Report, width: usize) {
    let Some(files) = &report.files else { return };
    let mut all = vec![format!(
        "{} operations/s of mean {}   ",
        significant(files.operations_per_second),
        duration(files.mean_ns)
    )];
    all.extend(
        files.page_hit_ratio.map(|ratio| format!("{} of the pages read were in memory   ", percent(ratio))),
    );
    all.extend(
        (files.refused > 0)
            .then(|| format!("{} left out for want of files or room   ", count(files.refused))),
    );
    labelled(out, width, &files.workload, &all);
    let one = |kind: &crate::OperationReport| {
        let mean = optional(kind.latency.mean_ns, duration);
        format!("{} {}/s of mean {mean}   ", kind.operation, significant(kind.per_second))
    };
    labelled(out, width, "operations", &files.by_operation.iter().map(one).collect::<Vec<_>>());
}

fn host_layer(report: &Report) -> Vec<String> {
    let Some(layer) = &report.host_layer else { return Vec::new() };
    vec![
        format!("{}   ", layer.name),
        format!("processor {}   ", percent(layer.cpu_share)),
        format!("memory {}   ", bytes(layer.memory_bytes as f64)),
        format!("{} commands to the drive   ", count(layer.commands)),
        format!("drive memory {}", bytes(report.drive.memory_bytes as f64)),
    ]
}

fn errors(report: &Report) -> Vec<String> {
    let failed = report.directions.named().into_iter().filter(|(_, direction)| direction.errors > 0);
    failed.map(|(name, direction)| format!("{name} {}   ", count(direction.errors))).collect()
}

fn media(report: &Report) -> Vec<String> {
    let media = &report.media;
    let parts = [
        ("read retries", media.read_retries),
        ("corrected", media.corrected_reads),
        ("uncorrectable", media.uncorrectable_reads),
        ("corrected bits", media.corrected_bits),
        ("miscorrected chunks", media.miscorrected_chunks),
        ("damaged reads", media.damaged_reads),
        ("refreshed blocks", media.refreshed_blocks),
        ("retired blocks", media.retired_blocks),
        ("program failures", media.program_failures),
        ("erase failures", media.erase_failures),
        ("suspensions", media.suspensions),
    ];
    counted(&parts)
}

/// Describes each count that is not 0.
pub(super) fn counted(parts: &[(&str, u64)]) -> Vec<String> {
    let seen = parts.iter().filter(|(_, n)| *n > 0);
    seen.map(|(name, n)| format!("{name} {}   ", count(*n))).collect()
}

fn mount(report: &Report) -> Vec<String> {
    let Some(mount) = report.mount else {
        return Vec::new();
    };
    vec![
        format!("{}   ", duration(mount.duration_ns as f64)),
        format!("{} superpages scanned, ", count(mount.scanned_superpages)),
        format!("{} of journal, ", count(mount.journal_superpages)),
        format!("{} units mapped", count(mount.mapped_units)),
    ]
}
