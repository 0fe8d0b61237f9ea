//! The page of films: plays maps of blocks over time, with the latency beside them. Unlike other pages of a report it needs its script, which is
//! embedded.

use super::super::{FlowSeries, Report, plot::escape};
use super::Shell;
use super::script::{UPLOT, UPLOT_STYLE};
use pellucid_film::{self as film, Curve, Curves, Film};
use pellucid_text::format::{bytes, span};
use std::fmt::Write;

/// Paragraph that links from a report to the page.
pub const LINK: &str = "<p><a href=\"film.html\">Film of the drive</a>: what each block held over time.</p>";

/// Renders the films of these reports on one page with one clock; reports without one are left out.
pub fn render_film_html(reports: &[Report]) -> String {
    let films: Vec<(&Film, Curves)> =
        reports.iter().filter_map(|report| Some((report.film.as_ref()?, curves(report)))).collect();
    let work = reports.first().map_or("", |report| &report.workload.summary);
    page(&films, work, "<p><a href=\"index.html\">The report</a></p>")
}

/// Renders a page with a film that has no report.
pub fn render_film_alone(film: &Film, what: &str) -> String {
    page(&[(film, Curves::default())], what, "")
}

/// Returns the last frame of a film as an SVG file.
pub fn render_film_still(film: &Film, work: &str) -> String {
    let last = film.moments().len() - 1;
    let at = film.moments()[last].at;
    let after = match film.clock() {
        film::Clock::SimulatedNs => format!("after {} simulated", span(at as f64 / 1e9)),
        film::Clock::WrittenBytes => format!("after {} written", bytes(at as f64)),
    };
    film.still(last, &format!("{}, {after}: {work}", film.name()))
}

fn page(films: &[(&Film, Curves)], work: &str, link: &str) -> String {
    let names: Vec<&str> = films.iter().map(|(film, _)| film.name()).collect();
    let title = format!("Film of {}", names.join(", "));
    let mut page = Shell::new(&title, &format!("{UPLOT_STYLE}{}", film::STYLE));
    let (title, work) = (escape(&title), escape(work));
    let _ = write!(page.0, "<header><h1>{title}</h1><p class=\"soft\">{work}</p>{link}</header>");
    let _ = write!(page.0, "<script>\n{UPLOT}</script>{}", film::body(films));
    page.end(
        "Each cell is a block, or several neighbouring ones of a die. Between two frames a block may be emptied, erased and taken again: \
         an erase is marked for the frame in which its count has grown. Levels of valid data are sixteenths.",
    )
}

/// Returns latencies of reads and writes over the time of the film, which is that of the report's series.
fn curves(report: &Report) -> Curves {
    let series = &report.series;
    let mut curves = Vec::new();
    let mut add = |names: [&'static str; 2], flow: &FlowSeries| {
        if flow.requests.iter().any(|&requests| requests > 0) {
            curves.push(Curve { name: names[0], ns: flow.p50_ns.clone() });
            curves.push(Curve { name: names[1], ns: flow.p99_ns.clone() });
        }
    };
    add(["read p50", "read p99"], &series.read);
    add(["write p50", "write p99"], &series.write);
    Curves { seconds: series.begin_seconds.clone(), curves }
}
