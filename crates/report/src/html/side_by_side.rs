//! Several drives under the same work on one page: the output of `pellucid compare`, with figures of the numbers that usually decide. The figures are
//! also a separate file.

use super::super::plot::{Axis, BarChart, Bars, Drawing, Plot, Unit, escape, standalone};
use super::super::{Direction, Report, compare};
use super::figures::{self, mean_stalls};
use super::{Figure, Page, Part, film, table};
use pellucid_flash::Cause;
use std::fmt::Write;

/// Renders the page. `pages`: address of each drive's own page; `failed`: names of drives without a report, and why. Panics without a report.
pub fn render_compare_html(reports: &[Report], pages: &[String], failed: &[(String, String)]) -> String {
    let first = &reports[0].workload;
    let names: Vec<&str> = reports.iter().map(|report| report.drive.name.as_str()).collect();
    let title = names.join(", ");
    let mut page = Page::new(&title);
    let (title, summary) = (escape(&title), escape(&first.summary));
    let _ = write!(page.shell.0, "<header><h1>{title}</h1><p class=\"soft\">{summary}</p>");
    if !first.command_line.is_empty() {
        let _ = write!(page.shell.0, "<p><code>{}</code></p>", escape(&first.command_line));
    }
    if reports.iter().any(|report| report.film.is_some()) {
        page.raw(film::LINK);
    }
    drives(&mut page, reports, pages, failed);
    page.raw("</header>");
    page.warnings(reports.iter().flat_map(Report::warnings_by_name));
    page.raw("<main>");
    let (head, rows) = compare::cells(reports);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    page.section("Side by side", &[Part::Wide(table("", &head, &rows))]);
    let parts: Vec<Part> =
        figures(reports).into_iter().map(|(drawing, what)| Part::Figure(drawing, what)).collect();
    page.section("Figures", &parts);
    page.raw("</main>");
    page.end(&reports[0])
}

/// Returns the figures of the page.
pub fn compare_figures(reports: &[Report]) -> Vec<Figure> {
    figures(reports).iter().map(|(drawing, caption)| Figure::of(drawing, caption)).collect()
}

/// Adds each drive with its overrides and a link to its own page, then notes and failures.
fn drives(page: &mut Page, reports: &[Report], pages: &[String], failed: &[(String, String)]) {
    page.raw("<ul>");
    for (report, address) in reports.iter().zip(pages) {
        let overrides: Vec<String> = report.overrides.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let set = if overrides.is_empty() { String::new() } else { format!(" ({})", overrides.join(", ")) };
        let _ = write!(
            page.shell.0,
            "<li><a href=\"{}\">{}</a>: {}{}</li>",
            escape(address),
            escape(&report.drive.name),
            escape(&report.drive.summary),
            escape(&set)
        );
    }
    for (name, why) in failed {
        let _ = write!(page.shell.0, "<li><b>{} failed:</b> {}</li>", escape(name), escape(why));
    }
    for note in compare::notes(reports) {
        let _ = write!(page.shell.0, "<li>Note: {}</li>", escape(&note));
    }
    page.raw("</ul>");
}

/// Width and height of a drawing in the combined SVG, in user units.
const CELL: (f64, f64) = (640.0, 330.0);

/// Returns the drawings as one SVG file, two in a row.
pub fn render_compare_svg(reports: &[Report]) -> String {
    let figures = figures(reports);
    let rows = figures.len().div_ceil(2);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" \
         aria-label=\"Drives side by side\">",
        2.0 * CELL.0,
        rows as f64 * CELL.1
    );
    for (at, (drawing, _)) in figures.iter().enumerate() {
        let svg = drawing.to_svg();
        let (x, y) = ((at % 2) as f64 * CELL.0, (at / 2) as f64 * CELL.1);
        let place = format!("<svg x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" ", CELL.0, CELL.1);
        out.push_str(&svg.replacen("<svg ", &place, 1));
    }
    out.push_str("</svg>");
    standalone(&out)
}

/// Returns the drawings that have data, each with its caption.
fn figures(reports: &[Report]) -> Vec<(Drawing, &'static str)> {
    let mut figures = Vec::new();
    let read = |report: &Report| report.directions.read.clone();
    let write = |report: &Report| report.directions.write.clone();
    let used = |of: &dyn Fn(&Report) -> Direction| reports.iter().any(|report| of(report).requests > 0);
    figures.push((throughput(reports), "Bytes of requests completed per second."));
    const CURVES: &str = "Share of requests at or below each latency.";
    if used(&read) {
        figures.push((latency(reports, "Read latency", read), "Percentiles of all reads."));
        figures.push((cumulative(reports, "Read latency, all drives", read), CURVES));
    }
    if used(&write) {
        figures.push((latency(reports, "Write latency", write), "Percentiles of all writes."));
        figures.push((cumulative(reports, "Write latency, all drives", write), CURVES));
    }
    if reports.iter().any(|report| report.write_amplification.total.is_some()) {
        figures.push((
            amplification(reports),
            "Bytes programmed per byte that the application wrote, by cause.",
        ));
    }
    figures.extend(over_time(reports));
    figures.push((memory(reports), "Memory for translation and buffers, in the drive and in the host."));
    if reports.iter().any(|report| report.host_layer.is_some()) {
        figures.push((processor(reports), "Share of one core that layers of the host were at work."));
    }
    figures
}

fn chart(reports: &[Report], title: &str, bars: Bars, axis: Axis) -> BarChart {
    let names = reports.iter().map(|report| report.drive.name.clone());
    BarChart::new(title, bars).value_axis(axis).categories(names)
}

fn throughput(reports: &[Report]) -> Drawing {
    let rate = |of: fn(&Report) -> &Direction| {
        reports.iter().map(|report| of(report).throughput_bytes_per_second).collect::<Vec<f64>>()
    };
    chart(reports, "Throughput", Bars::Grouped, Axis::linear("throughput", Unit::BytesPerSecond).from(0.0))
        .series("read", rate(|report| &report.directions.read))
        .series("write", rate(|report| &report.directions.write))
        .into()
}

fn latency(reports: &[Report], title: &str, of: impl Fn(&Report) -> Direction) -> Drawing {
    let percentile = |which: fn(&Direction) -> Option<u64>| {
        reports.iter().map(|report| which(&of(report)).map_or(f64::NAN, |ns| ns as f64)).collect::<Vec<f64>>()
    };
    chart(reports, title, Bars::Grouped, Axis::log("latency", Unit::Nanos))
        .series("p50", percentile(|direction| direction.latency.p50_ns))
        .series("p99", percentile(|direction| direction.latency.p99_ns))
        .series("p99.9", percentile(|direction| direction.latency.p99_9_ns))
        .into()
}

/// Draws one curve per drive.
fn cumulative(reports: &[Report], title: &str, of: impl Fn(&Report) -> Direction) -> Drawing {
    let mut plot = Plot::new(title)
        .x_axis(Axis::log("latency", Unit::Nanos))
        .y_axis(Axis::linear("share of requests", Unit::Percent).from(0.0).to(1.0));
    for report in reports {
        let direction = of(report);
        if direction.latency.count > 0 {
            plot = plot.line(&report.drive.name, direction.distribution.cumulative());
        }
    }
    plot.into()
}

/// Returns figures over time, with one line per drive.
fn over_time(reports: &[Report]) -> Vec<(Drawing, &'static str)> {
    let mut figures = Vec::new();
    let share = |report: &Report| -> Curve { report.series.victim_valid_share.clone() };
    let ratio = |report: &Report| -> Curve { report.series.write_amplification.clone() };
    let free = |report: &Report| -> Curve {
        report.series.free_blocks.iter().map(|&blocks| Some(blocks as f64)).collect()
    };
    let stalls = |report: &Report| -> Curve { mean_stalls(&report.series.write) };
    let cache = |report: &Report| -> Curve {
        report.series.slc_cache_used_blocks.iter().map(|&blocks| Some(blocks as f64)).collect()
    };
    let p99 = |report: &Report| -> Curve {
        report.series.write.p99_ns.iter().map(|ns| ns.map(|ns| ns as f64)).collect()
    };
    let linear = |label, unit| Axis::linear(label, unit).from(0.0);
    let mut add = |title, axis: Axis, of: &dyn Fn(&Report) -> Curve, what| {
        figures.extend(overlaid(reports, title, axis, of).map(|drawing| (drawing, what)));
    };
    add(
        "Write latency over time, p99",
        Axis::log("latency", Unit::Nanos),
        &p99,
        "99th percentile of the writes that completed in each interval.",
    );
    add(
        "Write amplification over time",
        linear("programmed per host byte", Unit::Plain),
        &ratio,
        "Bytes programmed per byte that the host wrote in the same interval.",
    );
    add(
        "Free blocks over time",
        linear("free blocks", Unit::Count),
        &free,
        "Erased blocks at the end of each interval.",
    );
    add(
        "Valid data of victims over time",
        linear("valid share when chosen", Unit::Percent),
        &share,
        "Valid share of the victims of each interval when they were chosen.",
    );
    add(
        "Stalls of writes over time",
        linear("mean wait for the data buffer", Unit::Nanos),
        &stalls,
        "Mean time that writes waited for space in the data buffer.",
    );
    add(
        "SLC cache over time",
        linear("blocks in use", Unit::Count),
        &cache,
        "Blocks of the SLC cache that are not free.",
    );
    figures
}

/// A value per interval of a series.
type Curve = Vec<Option<f64>>;

/// Draws one line per drive; `None` if no drive has a value above zero.
fn overlaid(reports: &[Report], title: &str, axis: Axis, of: &dyn Fn(&Report) -> Curve) -> Option<Drawing> {
    let curves: Vec<Curve> = reports.iter().map(of).collect();
    if !curves.iter().flatten().flatten().any(|value| *value > 0.0) {
        return None;
    }
    let mut plot =
        Plot::new(title).x_axis(Axis::linear("simulated time", Unit::Seconds).from(0.0)).y_axis(axis);
    for (report, curve) in reports.iter().zip(&curves).filter(|(_, curve)| !curve.is_empty()) {
        plot = plot.line(&report.drive.name, figures::over_time(report, curve, |value| value));
    }
    Some(plot.into())
}

fn amplification(reports: &[Report]) -> Drawing {
    let axis = Axis::linear("programmed per byte written", Unit::Plain).from(0.0);
    let mut chart = chart(reports, "Write amplification", Bars::Stacked, axis);
    for (at, cause) in Cause::ALL.into_iter().enumerate() {
        let ratios = |report: &Report| report.write_amplification.ratio[cause].unwrap_or(0.0);
        if reports.iter().any(|report| ratios(report) > 0.0) {
            chart = chart.series(cause.name(), reports.iter().map(ratios).collect()).colour(at);
        }
    }
    chart.into()
}

fn memory(reports: &[Report]) -> Drawing {
    let host = |report: &Report| report.host_layer.as_ref().map_or(0.0, |host| host.memory_bytes as f64);
    chart(reports, "Memory", Bars::Stacked, Axis::linear("memory", Unit::Bytes).from(0.0))
        .series("drive", reports.iter().map(|report| report.drive.memory_bytes as f64).collect())
        .series("host", reports.iter().map(host).collect())
        .into()
}

fn processor(reports: &[Report]) -> Drawing {
    let share = |report: &Report| report.host_layer.as_ref().map_or(0.0, |host| host.cpu_share);
    chart(reports, "Host processor", Bars::Grouped, Axis::linear("of one core", Unit::Percent).from(0.0))
        .series("", reports.iter().map(share).collect())
        .into()
}
