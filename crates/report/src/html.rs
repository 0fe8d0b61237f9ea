//! The report as one self-contained HTML page: style, figures and script are embedded, nothing is loaded. Without the script the figures are static;
//! with it, readers can hover, zoom, and export them as SVG or CSV. The page is also well-formed XML, so that a test can check its structure.

mod figures;
mod film;
mod script;
mod shell;
mod side_by_side;

pub use film::{render_film_alone, render_film_html, render_film_still};
pub use script::figures_json;
pub use shell::Shell;
pub use side_by_side::{compare_figures, render_compare_html, render_compare_svg};

use super::plot::{Drawing, Unit, escape};
use super::text::PARTIAL;
use super::{
    ApplicationReport, Direction, Latency, MapCache, MediaHealth, Merges, MergesOfKind, Report, Requests,
    jobs,
};
use figures as figure;
use pellucid_flash::Cause;
use pellucid_text::format::{bytes, count, duration, optional, percent, quantity, significant, span};
use std::fmt::Write;

/// Renders the report as a page.
pub fn render_html(report: &Report) -> String {
    page(report).end(report)
}

/// Returns the figures of the page.
pub fn report_figures(report: &Report) -> Vec<Figure> {
    page(report).figures
}

fn page(report: &Report) -> Page {
    let mut page = Page::new(&report.drive.name);
    page.head(report);
    page.raw("<main>");
    page.tiles(&tiles(report));
    page.section("Application", &applications(report));
    page.section("Requests", &[Part::Wide(requests(report))]);
    page.section("Latency", &latency(report));
    page.section("Over time", &over_time(report));
    page.section("Targets", &targets(report));
    page.section("Where time goes", &stages(report));
    page.section("Where writes went", &amplification(report));
    page.section("How busy the parts were", &utilisation(report));
    page.section("Parts above the flash", &parts_above(report));
    page.section("Timeline", &timeline(report));
    page.section("Wear and health", &health(report));
    page.raw("</main>");
    page
}

/// A card of a section.
enum Part {
    /// A drawing with its caption, over half the width, as `Half`.
    Figure(Drawing, &'static str),
    /// Text or a table over half the width, or over the full width if nothing is beside it.
    Half(String),
    /// Text or a table over the full width.
    Wide(String),
}

/// A drawing with its name and caption.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name, unique on its page, made from the title: `read-latency-over-time`.
    pub name: String,
    /// A sentence on the content.
    pub caption: String,
    /// The drawing.
    pub drawing: Drawing,
}

impl Figure {
    fn of(drawing: &Drawing, caption: &str) -> Figure {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = drawing.title().chars().map(plain).collect();
        let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
        Figure { name: words.join("-"), caption: caption.into(), drawing: drawing.clone() }
    }

    /// Returns the figure as JSON: its model, name and caption.
    pub fn to_json(&self) -> serde_json::Value {
        let mut model = self.drawing.to_json();
        model["name"] = self.name.as_str().into();
        model["caption"] = self.caption.as_str().into();
        model
    }
}

/// A page, and the figures added so far.
struct Page {
    shell: Shell,
    figures: Vec<Figure>,
}

impl Page {
    fn new(title: &str) -> Page {
        Page { shell: Shell::new(title, script::STYLE), figures: Vec::new() }
    }

    fn raw(&mut self, text: &str) {
        self.shell.0.push_str(text);
    }

    fn head(&mut self, report: &Report) {
        let (name, summary) = (escape(&report.drive.name), escape(&report.drive.summary));
        let workload = escape(&report.workload.summary);
        let _ =
            write!(self.shell.0, "<header><h1>{name}</h1><p>{summary}</p><p class=\"soft\">{workload}</p>");
        if !report.workload.precondition.is_empty() {
            let before = escape(&report.workload.precondition);
            let _ = write!(self.shell.0, "<p class=\"soft\">preconditioning: {before}</p>");
        }
        if let Some(steady) = &report.steady_state {
            let _ = write!(self.shell.0, "<p class=\"soft\">steady state: {}</p>", escape(&steady.words()));
        }
        if !report.workload.command_line.is_empty() {
            let _ = write!(self.shell.0, "<p><code>{}</code></p>", escape(&report.workload.command_line));
        }
        if report.film.is_some() {
            self.raw(film::LINK);
        }
        if report.partial {
            let _ = write!(self.shell.0, "<p class=\"partial\"><b>Partial:</b> {PARTIAL}.</p>");
        }
        self.raw("</header>");
        self.warnings(report.warnings.iter().cloned());
    }

    /// Adds a list of sentences, if there are any.
    fn warnings(&mut self, sentences: impl Iterator<Item = String>) {
        let items: String = sentences.map(|sentence| format!("<li>{}</li>", escape(&sentence))).collect();
        if !items.is_empty() {
            let _ = write!(self.shell.0, "<ul class=\"warnings\">{items}</ul>");
        }
    }

    fn tiles(&mut self, tiles: &[(&str, String)]) {
        self.raw("<div class=\"tiles\">");
        for (name, value) in tiles {
            let _ =
                write!(self.shell.0, "<div class=\"tile\"><b>{}</b><span>{name}</span></div>", escape(value));
        }
        self.raw("</div>");
    }

    /// Adds a heading and its cards, if there are any.
    fn section(&mut self, title: &str, parts: &[Part]) {
        if parts.is_empty() {
            return;
        }
        let _ = write!(self.shell.0, "<section><h2>{title}</h2><div class=\"grid\">");
        let mut right = false;
        for (at, part) in parts.iter().enumerate() {
            let lone = !right && parts.get(at + 1).is_none_or(|next| matches!(next, Part::Wide(_)));
            let wide = if lone || matches!(part, Part::Wide(_)) { " wide" } else { "" };
            right = !right && wide.is_empty();
            let _ = match part {
                Part::Figure(drawing, caption) => {
                    let figure = Figure::of(drawing, caption);
                    let written = write!(
                        self.shell.0,
                        "<figure class=\"card{wide}\" tabindex=\"0\" data-figure=\"{}\">{}<figcaption>{caption}</figcaption></figure>",
                        figure.name,
                        drawing.to_svg()
                    );
                    self.figures.push(figure);
                    written
                }
                Part::Half(html) | Part::Wide(html) => {
                    write!(self.shell.0, "<div class=\"card scroll{wide}\" tabindex=\"0\">{html}</div>")
                }
            };
        }
        self.raw("</div></section>");
    }

    /// Returns the page; its foot states the program and the inputs.
    fn end(mut self, report: &Report) -> String {
        self.raw(&script::elements(&self.figures));
        let seeds: Vec<String> = report.seeds.iter().map(|(name, seed)| format!("{name} {seed}")).collect();
        let seeds = if seeds.is_empty() { "none".into() } else { seeds.join(", ") };
        let version = &report.version;
        self.shell.end(&format!(
            "Pellucid {}, report schema {}. Seeds: {seeds}. All times are simulated unless they say otherwise. Every number \
             is defined in docs/reference/definitions.md.",
            version.pellucid_version, version.schema_version
        ))
    }
}

/// Returns a table; every cell is escaped. The first column holds the row headings.
fn table(title: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = String::new();
    if !title.is_empty() {
        let _ = write!(out, "<h3>{}</h3>", escape(title));
    }
    out.push_str("<table><thead><tr>");
    for name in head {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(name));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            let _ = match i {
                0 => write!(out, "<th scope=\"row\">{cell}</th>"),
                _ => write!(out, "<td>{cell}</td>"),
            };
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table>");
    out
}

/// Returns names and values, in as many columns as fit.
fn facts(title: &str, facts: &[(&str, String)]) -> String {
    let mut out = format!("<h3>{}</h3><dl>", escape(title));
    for (name, value) in facts {
        let _ = write!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
    }
    out.push_str("</dl>");
    out
}

/// Returns the directions with requests.
fn used(report: &Report) -> Vec<(&'static str, &Direction)> {
    report.directions.named().into_iter().filter(|(_, direction)| direction.requests > 0).collect()
}

fn ns(value: Option<u64>) -> String {
    optional(value, |ns| duration(ns as f64))
}

fn tiles(report: &Report) -> Vec<(&'static str, String)> {
    let mut tiles = vec![("requests", count(report.requests)), ("simulated", span(report.simulated_seconds))];
    if let [work] = &report.applications[..] {
        tiles.insert(0, ("operations / s", optional(work.operations_per_second, quantity)));
    }
    if let Some(host) = &report.host {
        tiles.push(("real time", span(host.wall_seconds)));
        tiles.push(("requests / real second", quantity(host.requests_per_wall_second)));
    }
    let (read, write) = (&report.directions.read, &report.directions.write);
    if read.requests > 0 {
        tiles.push(("read p50", ns(read.latency.p50_ns)));
        tiles.push(("read p99", ns(read.latency.p99_ns)));
    }
    if write.requests > 0 {
        tiles.push(("write p50", ns(write.latency.p50_ns)));
        tiles.push(("write p99", ns(write.latency.p99_ns)));
    }
    if let Some(total) = report.write_amplification.total {
        tiles.push(("write amplification", significant(total)));
    }
    if report.wear.blocks > 0 {
        tiles.push(("free blocks", percent(report.wear.free_blocks as f64 / report.wear.blocks as f64)));
    }
    tiles
}

fn requests(report: &Report) -> String {
    let head = [
        "", "requests", "errors", "bytes", "IOPS", "rate", "mean", "min", "p50", "p95", "p99", "p99.9",
        "p99.99", "max",
    ];
    let cells = |(name, d): (&'static str, &Direction)| {
        let l = &d.latency;
        let mut row = vec![
            name.into(),
            count(d.requests),
            count(d.errors),
            bytes(d.bytes as f64),
            quantity(d.iops),
            format!("{}/s", bytes(d.throughput_bytes_per_second)),
            optional(l.mean_ns, duration),
        ];
        row.extend([l.min_ns, l.p50_ns, l.p95_ns, l.p99_ns, l.p99_9_ns, l.p99_99_ns, l.max_ns].map(ns));
        row
    };
    let rows = |part: &Requests| part.rows().into_iter().map(cells).collect::<Vec<_>>();
    let parts = jobs::parts(&report.jobs, &report.groups);
    let whole = match parts.is_empty() {
        true => String::new(),
        false => format!("All jobs, over the drive's whole {}", span(report.simulated_seconds)),
    };
    let mut tables = table(&whole, &head, &rows(&report.all_requests()));
    for (title, time, part) in parts {
        tables.push_str(&table(&format!("{title}, {}", time.words()), &head, &rows(part)));
    }
    tables
}

fn applications(report: &Report) -> Vec<Part> {
    report.applications.iter().flat_map(application).collect()
}

/// Returns the cards of an application: its operations by kind, and their cost to the flash.
fn application(work: &ApplicationReport) -> Vec<Part> {
    let head = ["", "operations", "per second", "mean", "min", "p50", "p95", "p99", "p99.9", "max"];
    let row = |name: &str, rate: Option<f64>, l: &Latency| {
        let (rate, mean) = (optional(rate, quantity), optional(l.mean_ns, duration));
        let mut row = vec![name.to_string(), count(l.count), rate, mean];
        row.extend([l.min_ns, l.p50_ns, l.p95_ns, l.p99_ns, l.p99_9_ns, l.max_ns].map(ns));
        row
    };
    let mut rows = vec![row("all", work.operations_per_second, &work.latency)];
    let timed = |rate: f64| work.operations_per_second.map(|_| rate);
    rows.extend(
        work.by_operation.iter().map(|kind| row(&kind.operation, timed(kind.per_second), &kind.latency)),
    );
    let mut parts = vec![Part::Wide(table(&work.title(), &head, &rows))];
    for (label, words) in
        work.words().into_iter().filter(|(label, _)| *label != work.title() && label != "operations")
    {
        let words: Vec<&str> = words.iter().map(|word| word.trim()).collect();
        let text = words.join(", ");
        if !text.is_empty() {
            parts.push(Part::Half(format!("<h3>{}</h3><p>{}</p>", escape(&label), escape(&text))));
        }
    }
    parts
}

/// Returns the layers of the host, caches and other parts with counters of their own: the cost of the layers, and every counter.
fn parts_above(report: &Report) -> Vec<Part> {
    let words = |name: &str, value: &str| vec![name.to_string(), value.to_string()];
    let mut cards = Vec::new();
    if let Some(layer) = &report.host_layer {
        let rows = [
            words("processor", &percent(layer.cpu_share)),
            words("memory", &bytes(layer.memory_bytes as f64)),
            words("commands to the drive", &count(layer.commands)),
        ];
        cards.push(Part::Half(table(&format!("host: {}", layer.name), &["figure", "value"], &rows)));
    }
    for part in &report.parts {
        let row = |figure: &crate::PartFigure| words(&figure.name.replace('_', " "), &count(figure.value));
        let rows: Vec<Vec<String>> = part.figures.iter().map(row).collect();
        cards.push(Part::Half(table(&part.part, &["figure", "value"], &rows)));
    }
    cards
}

/// Returns the targets, and the latencies of their requests.
fn targets(report: &Report) -> Vec<Part> {
    let head = [
        "target", "kind", "units", "bytes", "jobs", "", "requests", "rate", "mean", "p50", "p95", "p99",
        "p99.9", "max",
    ];
    let mut rows = Vec::new();
    for target in &report.targets {
        let last = target.first_unit + target.units.saturating_sub(1);
        for (name, d) in target.requests.rows() {
            let l = &d.latency;
            let mut row = vec![
                target.name.clone(),
                target.kind.clone(),
                format!("{}-{last}", target.first_unit),
                bytes(target.capacity_bytes as f64),
                target.jobs.join(", "),
                name.into(),
                count(d.requests),
                format!("{}/s", bytes(d.throughput_bytes_per_second)),
                optional(l.mean_ns, duration),
            ];
            row.extend([l.p50_ns, l.p95_ns, l.p99_ns, l.p99_9_ns, l.max_ns].map(ns));
            rows.push(row);
        }
    }
    if rows.is_empty() { Vec::new() } else { vec![Part::Wide(table("", &head, &rows))] }
}

fn latency(report: &Report) -> Vec<Part> {
    if report.directions.read.latency.count + report.directions.write.latency.count == 0 {
        return Vec::new();
    }
    let mut parts = vec![Part::Figure(
        figure::distribution(report),
        "Share of the requests of a direction per sixteenth of a power of two.",
    )];
    parts.push(Part::Figure(figure::cumulative(report), "Share of requests at or below each latency."));
    if let Some(tail) = figure::tail(report) {
        parts.push(Part::Figure(
            tail,
            "Share of requests that took longer. The line of 0.1 % is crossed at p99.9.",
        ));
    }
    parts
}

fn over_time(report: &Report) -> Vec<Part> {
    if report.series.is_empty() {
        return Vec::new();
    }
    let mut parts = Vec::new();
    if let Some(rounds) = report.steady_state.as_ref().and_then(figure::rounds) {
        parts.push(Part::Figure(
            rounds,
            "The judged value of each round at its end, and the average of the rounds that were judged last.",
        ));
    }
    if report.directions.read.latency.count > 0 {
        parts.push(Part::Figure(
            figure::percentiles("Read latency over time", report, &report.series.read),
            "Percentiles of the requests that completed in each interval.",
        ));
    }
    if report.directions.write.latency.count > 0 {
        parts.push(Part::Figure(
            figure::percentiles("Write latency over time", report, &report.series.write),
            "Percentiles of the requests that completed in each interval.",
        ));
    }
    parts.push(Part::Figure(
        figure::throughput(report),
        "Bytes of requests completed per second of each interval.",
    ));
    if report.write_amplification.total.is_some() {
        parts.push(Part::Figure(
            figure::amplification_over_time(report),
            "Bytes programmed per byte that the host wrote in the same interval.",
        ));
    }
    parts.push(Part::Figure(figure::free_blocks(report), "Erased blocks at the end of each interval."));
    let series = &report.series;
    if series.victims.iter().sum::<u64>() > 0 {
        parts.push(Part::Figure(
            figure::victims(report),
            "Valid share of the victims of each interval when they were chosen: the smaller, the less is copied.",
        ));
    }
    if series.read.stall_ns.iter().chain(&series.write.stall_ns).any(|&ns| ns > 0) {
        parts.push(Part::Figure(
            figure::stalls(report),
            "Mean time that requests waited for space in the data buffer, by the interval in which they completed.",
        ));
    }
    if !series.slc_cache_used_blocks.is_empty() {
        parts.push(Part::Figure(figure::slc_cache(report), "Blocks of the SLC cache that are not free."));
    }
    parts.push(Part::Figure(
        figure::busy_over_time(report),
        "Mean busy share of all channels and of all dies.",
    ));
    parts
}

fn stages(report: &Report) -> Vec<Part> {
    let used: Vec<_> =
        used(report).into_iter().filter(|(_, direction)| direction.stage_ns.total() > 0).collect();
    if used.is_empty() {
        return Vec::new();
    }
    let mut head = vec!["stage"];
    head.extend(used.iter().map(|(name, _)| *name));
    let mut rows: Vec<Vec<String>> = Vec::new();
    let taken = |stage| used.iter().any(|(_, direction)| direction.stage_ns[stage] > 0);
    for stage in pellucid_flash::Stage::ALL.into_iter().filter(|&stage| taken(stage)) {
        let mut row = vec![stage.name().to_string()];
        for (_, direction) in &used {
            let mean = direction.stage_ns[stage] as f64 / direction.latency.count.max(1) as f64;
            let share = percent(direction.stage_percent[stage] / 100.0);
            row.push(if mean > 0.0 { format!("{} ({share})", duration(mean)) } else { "-".into() });
        }
        rows.push(row);
    }
    let mut parts = vec![
        Part::Figure(
            figure::stages(&used),
            "Share of the summed latency. For a request cut into slices: the slice that finished last.",
        ),
        Part::Half(table("Mean time per request", &head, &rows)),
    ];
    const TAIL: &str =
        "Stages of the requests whose latencies lie between two powers of two: what the slow ones wait for.";
    for (title, direction) in [
        ("Stages of reads by latency", &report.directions.read),
        ("Stages of writes by latency", &report.directions.write),
    ] {
        if direction.stage_ns.total() > 0 {
            parts.push(Part::Figure(figure::stages_by_latency(title, direction), TAIL));
        }
    }
    parts
}

fn amplification(report: &Report) -> Vec<Part> {
    let amplification = &report.write_amplification;
    let head = ["cause", "programmed", "per host byte", "programs", "reads", "erases"];
    let mut rows: Vec<Vec<String>> = Vec::new();
    let happened = |cause: Cause| {
        amplification.programs[cause] + amplification.flash_reads[cause] + report.gc.erased_blocks[cause] > 0
    };
    for cause in Cause::ALL.into_iter().filter(|&cause| happened(cause)) {
        rows.push(vec![
            cause.name().into(),
            bytes(amplification.programmed_bytes[cause] as f64),
            optional(amplification.ratio[cause], significant),
            count(amplification.programs[cause]),
            count(amplification.flash_reads[cause]),
            count(report.gc.erased_blocks[cause]),
        ]);
    }
    if rows.is_empty() {
        return Vec::new();
    }
    rows.push(vec![
        "total".into(),
        bytes(amplification.programmed_bytes_total as f64),
        optional(amplification.total, significant),
        count(amplification.programs.total()),
        count(amplification.flash_reads.total()),
        count(report.gc.erased_blocks.total()),
    ]);
    let mut parts = Vec::new();
    if amplification.total.is_some() {
        parts.push(Part::Figure(
            figure::amplification(report),
            "Bytes programmed per byte that the host wrote, by cause.",
        ));
    }
    parts.push(Part::Wide(table("Flash operations by cause", &head, &rows)));
    parts
}

fn utilisation(report: &Report) -> Vec<Part> {
    let utilisation = &report.utilisation;
    if utilisation.channels.is_empty() {
        return Vec::new();
    }
    let mut parts = vec![
        Part::Figure(figure::dies(report), "Busy time of each die over the length of the measurement."),
        Part::Figure(
            figure::channels(report),
            "Busy time of each channel over the length of the measurement.",
        ),
    ];
    let busy = &report.series.busy;
    if busy.end_seconds.len() > 1 {
        parts.push(Part::Figure(
            figure::timeline("Channels over time", "channel", report, &busy.channels),
            "Busy share of each channel in each interval.",
        ));
        parts.push(Part::Figure(
            figure::timeline("Dies over time", "die", report, &busy.dies),
            "Busy share of each die in each interval; the dies of the first channel first.",
        ));
    }
    let of = |share: Option<f64>| optional(share, |share| Unit::Percent.show(share));
    parts.push(Part::Half(facts(
        "Mean busy shares",
        &[
            ("channels", of(utilisation.mean_channel())),
            ("dies", of(utilisation.mean_die())),
            ("firmware processor", of(utilisation.firmware)),
            ("link, drive to host", of(utilisation.link_to_host)),
            ("link, host to drive", of(utilisation.link_to_drive)),
        ],
    )));
    if let Some(modules) = &utilisation.firmware_modules {
        let rows: Vec<_> = modules
            .named()
            .into_iter()
            .filter(|(_, share)| *share > 0.0)
            .map(|(name, share)| (name, Unit::Percent.show(share)))
            .collect();
        parts.push(Part::Half(facts("Busy time of the firmware's processors", &rows)));
    }
    parts
}

/// Returns the figures of the timeline, if one was recorded.
fn timeline(report: &Report) -> Vec<Part> {
    let figures = report.timeline.as_ref().map(super::timeline::figures).unwrap_or_default();
    figures.into_iter().map(|(drawing, caption)| Part::Figure(drawing, caption)).collect()
}

fn health(report: &Report) -> Vec<Part> {
    let mut parts = Vec::new();
    if report.wear.erases.max > 0 {
        parts
            .push(Part::Figure(figure::wear(report), "Good blocks by the number of times they were erased."));
        parts
            .push(Part::Figure(figure::wear_map(report), "Mean erase count of the good blocks of each die."));
    }
    parts.push(blocks(report));
    parts.extend(pauses(report));
    if report.drive.memory_bytes > 0 {
        let used = report.drive.memory.named().into_iter().filter(|(_, size)| *size > 0);
        let used: Vec<_> = used.map(|(name, size)| (name, bytes(size as f64))).collect();
        parts.push(Part::Half(facts("Memory of the drive", &used)));
    }
    parts.extend(report.map_cache.as_ref().map(map_cache));
    parts.extend(report.merges.as_ref().map(merges));
    parts.push(media_errors(&report.media));
    if let Some(mount) = &report.mount {
        parts.push(Part::Half(facts(
            "Mount",
            &[
                ("time", duration(mount.duration_ns as f64)),
                ("superpages scanned", count(mount.scanned_superpages)),
                ("superpages of journal read", count(mount.journal_superpages)),
                ("units mapped", count(mount.mapped_units)),
            ],
        )));
    }
    parts
}

/// Returns a table of blocks, their erases, and GC's work on them.
fn blocks(report: &Report) -> Part {
    let (wear, gc) = (&report.wear, &report.gc);
    Part::Half(facts(
        "Blocks",
        &[
            ("erase units", count(wear.blocks)),
            ("free", count(wear.free_blocks)),
            ("bad from the factory", count(wear.bad_blocks_factory)),
            ("retired since", count(wear.bad_blocks_grown)),
            ("read-only at the end", if wear.read_only { "yes" } else { "no" }.into()),
            ("erase count, least to most", format!("{} to {}", wear.erases.min, wear.erases.max)),
            ("erase count, mean", significant(wear.erases.mean)),
            ("erase count, deviation", significant(wear.erases.stddev)),
            ("victims", count(gc.victims)),
            ("victims chosen against the policy", count(gc.emergency_victims)),
            ("valid share of victims", optional(gc.victim_valid_share, |s| Unit::Percent.show(s))),
            ("units copied", count(gc.copied_units)),
            ("copybacks", count(report.write_amplification.copybacks)),
        ],
    ))
}

/// Returns the figure of GC pauses, if a victim was collected.
fn pauses(report: &Report) -> Vec<Part> {
    let pauses = &report.gc.pauses;
    if pauses.count == 0 {
        return Vec::new();
    }
    let shares = "Share of victims that were over, from their choice to their erase, within each time.";
    let numbers = facts(
        "Pauses of garbage collection",
        &[
            ("victims that ended", count(pauses.count)),
            ("mean", optional(pauses.mean_ns, duration)),
            ("p50", ns(pauses.p50_ns)),
            ("p95", ns(pauses.p95_ns)),
            ("p99", ns(pauses.p99_ns)),
            ("longest", ns(pauses.max_ns)),
        ],
    );
    vec![Part::Figure(figure::pauses(report), shares), Part::Half(numbers)]
}

fn map_cache(map: &MapCache) -> Part {
    Part::Half(facts(
        "Cached mapping table",
        &[
            ("entries", count(map.entries)),
            ("look-ups", count(map.lookups)),
            ("hits", optional(map.hit_ratio, percent)),
            ("translation pages read for look-ups", count(map.lookup_reads)),
            ("read to be merged", count(map.merge_reads.named().iter().map(|(_, n)| n).sum())),
            ("written for evictions", count(map.writes.eviction)),
            ("written for GC", count(map.writes.gc)),
            ("written for flushes and checkpoints", count(map.writes.flush)),
        ],
    ))
}

fn merges(merges: &Merges) -> Part {
    let head = ["merges", "number", "units copied", "units padded", "erases"];
    let row = |(name, kind): (&'static str, MergesOfKind)| {
        let counts = [kind.merges, kind.copied_units, kind.padded_units, kind.erases].map(count);
        std::iter::once(name.into()).chain(counts).collect()
    };
    let rows: Vec<Vec<String>> = merges.named().into_iter().map(row).collect();
    Part::Half(table("Merges of log blocks", &head, &rows))
}

fn media_errors(media: &MediaHealth) -> Part {
    Part::Half(facts(
        "Media errors",
        &[
            ("read retries", count(media.read_retries)),
            ("reads corrected by a retry", count(media.corrected_reads)),
            ("uncorrectable reads", count(media.uncorrectable_reads)),
            ("bits corrected", count(media.corrected_bits)),
            ("wrong bits in a chunk: mean, most", wrong_bits(&media.chunks_by_wrong_bits)),
            ("chunks miscorrected", count(media.miscorrected_chunks)),
            ("reads of damaged storage", count(media.damaged_reads)),
            ("blocks refreshed", count(media.refreshed_blocks)),
            ("blocks retired", count(media.retired_blocks)),
            ("failed programs", count(media.program_failures)),
            ("failed erases", count(media.erase_failures)),
            ("suspensions", count(media.suspensions)),
        ],
    ))
}

/// Returns the mean and the maximum of wrong bits in a chunk.
fn wrong_bits(chunks: &[u64]) -> String {
    let total: u64 = chunks.iter().sum();
    if total == 0 {
        return "-".into();
    }
    let sum: u64 = (0u64..).zip(chunks).map(|(bits, n)| bits * n).sum();
    let most = chunks.iter().rposition(|&n| n > 0).unwrap_or(0);
    let lost = if most + 1 == chunks.len() { " and more" } else { "" };
    format!("{}, {most}{lost}", significant(sum as f64 / total as f64))
}
