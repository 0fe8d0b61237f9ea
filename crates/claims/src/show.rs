//! Outcomes for people (rows of text, one HTML page) and for scripts (JSON).
//!
//! Invariant: the verdict of a claim has its own line, cell or field, with no number of a check beside it; each check has its own verdict.

use super::{Check, Claim, KnownMiss, Limit, Outcome, Range, Verdict, claims, standing};
use pellucid_report::Shell;
use pellucid_report::plot::{Axis, BarChart, Bars, Unit, escape};
use pellucid_text::format::significant;
use serde_json::{Value, json};
use std::fmt::Write;

/// Widths of all columns but the last, in characters; the second one is as wide as the longest place of all claims.
const WIDTHS: [usize; 6] = [5, 0, 17, 13, 8, 20];
/// Column titles; the last column is as wide as it needs.
const COLUMNS: [&str; 7] = ["id", "where", "published", "measured", "ratio", "verdict", "what"];

/// The claims with their places and texts, one line each.
pub fn render_list(claims: &[&Claim]) -> String {
    let mut out = String::new();
    let place = place_width();
    for claim in claims {
        let basis = claim.basis.name();
        let _ = writeln!(out, "{:5}{:place$}{basis:15}{}", claim.id, claim.origin(), claim.text);
    }
    out
}

/// The header of the rows of [`render_row`].
pub fn render_rows_head() -> String {
    row(&COLUMNS.map(String::from))
}

/// A claim in one row: its verdict, and the number of its checks that hold. [`render_details`] has the checks.
pub fn render_row(claim: &Claim, outcome: &Outcome) -> String {
    let verdict = standing(claim, outcome).word(outcome).to_string();
    let [published, measured, ratio] = [const { String::new() }; 3];
    row(&[claim.id.into(), claim.origin(), published, measured, ratio, verdict, held(outcome)])
}

/// How many of the deciding checks of a claim hold.
fn held(outcome: &Outcome) -> String {
    let deciding = outcome.checks.iter().filter(|check| check.limit != Limit::Shown);
    let (hold, all) = deciding
        .fold((0, 0), |(hold, all), check| (hold + usize::from(check.verdict() == Verdict::Holds), all + 1));
    format!("{hold} of {all} checks hold")
}

/// The checks of a claim, one row each with its own verdict: all of them, or those that decide the claim's verdict, which are those that miss, or
/// else the one nearest to its limit.
pub fn render_details(outcome: &Outcome, all: bool) -> String {
    let line = |check: &Check| {
        let [published, measured, ratio, what] = cells(check);
        row(&[String::new(), String::new(), published, measured, ratio, word(check).into(), what])
    };
    match all {
        true => outcome.checks.iter().map(line).collect(),
        false => deciding(outcome).into_iter().map(line).collect(),
    }
}

/// Checks that decide the verdict of a claim, the headline first.
fn deciding(outcome: &Outcome) -> Vec<&Check> {
    let headline = outcome.headline();
    let is_headline = |check: &Check| headline.is_some_and(|headline| std::ptr::eq(headline, check));
    let open = |check: &&Check| check.verdict() != Verdict::Holds && !is_headline(check);
    headline.into_iter().chain(outcome.checks.iter().filter(open)).collect()
}

/// Range that each setting gives a number beyond its limit, one line each.
pub fn render_ranges(outcome: &Outcome) -> String {
    let ranges = outcome.checks.iter().flat_map(|check| check.ranges.iter().map(move |range| (check, range)));
    ranges
        .map(|(check, range)| format!("{:5}range: {}: {}\n", "", check.what, in_words(check, range)))
        .collect()
}

fn in_words(check: &Check, range: &Range) -> String {
    let points: Vec<String> = range
        .points
        .iter()
        .map(|(setting, measured)| format!("{} with {setting}", show(check.unit, *measured)))
        .collect();
    format!("{}: {}", range.unknown, points.join(", "))
}

/// Numbers that reverse the paper's order at the chosen settings, one line each, with the values at which they do not.
pub fn render_reversed(outcome: &Outcome) -> String {
    let line = |check: &Check| {
        let of_paper = published(check);
        let measured = show(check.unit, check.measured);
        format!(
            "{:5}reversed: {}: {measured} at the settings argued for, {of_paper} in the paper; {}\n",
            "",
            check.what,
            right_with(check)
        )
    };
    outcome.checks.iter().filter(|check| check.is_reversed()).map(line).collect()
}

/// Values of unknown settings at which a number has the paper's order.
fn right_with(check: &Check) -> String {
    let right = |range: &Range| {
        let points = range.points.iter().filter(|point| check.has_the_sign(point.1));
        let names: Vec<&str> = points.map(|point| point.0.as_str()).collect();
        (!names.is_empty()).then(|| format!("{} ({})", names.join("; "), range.unknown))
    };
    let all: Vec<String> = check.ranges.iter().filter_map(right).collect();
    match all.as_slice() {
        [] => "the paper's order with no value that was tried".into(),
        all => format!("the paper's order with {}", all.join(", or with ")),
    }
}

/// Reasons of known misses, one line each; and known misses that hold.
pub fn render_known(claim: &Claim, outcome: &Outcome) -> String {
    let standing = standing(claim, outcome);
    let reasons =
        standing.known.iter().map(|(check, known)| format!("known: {}: {}", check.what, known.reason));
    let over =
        |known: &KnownMiss| format!("known to miss, but holds now: {}; take it from the table", known.check);
    let lines = reasons.chain(standing.over.iter().map(|known| over(known)));
    lines.map(|line| format!("{:5}{line}\n", "")).collect()
}

/// How many of the deciding checks of all claims hold.
pub fn render_total(outcomes: &[(&Claim, Outcome)]) -> String {
    let checks = outcomes.iter().flat_map(|(_, outcome)| &outcome.checks);
    let deciding: Vec<&Check> = checks.filter(|check| check.limit != Limit::Shown).collect();
    let of = |verdict| deciding.iter().filter(|check| check.verdict() == verdict).count();
    let (hold, within) = (of(Verdict::Holds), of(Verdict::InRange));
    let within = match within {
        0 => String::new(),
        1 => "; 1 published number is in the range of what is unknown".into(),
        checks => format!("; {checks} published numbers are in the range of what is unknown"),
    };
    let turned = deciding.iter().filter(|check| check.is_reversed()).count();
    let reversed = if turned == 0 { String::new() } else { format!("; {turned} with the order reversed") };
    let known = outcomes.iter().map(|(claim, outcome)| standing(claim, outcome).known.len()).sum();
    let known = match known {
        0 => String::new(),
        1 => "; 1 miss is known".into(),
        misses => format!("; {misses} misses are known"),
    };
    format!("{hold} of {} checks hold{within}{known}{reversed}\n", deciding.len())
}

fn place_width() -> usize {
    let longest = claims().iter().map(|claim| claim.origin().chars().count()).max();
    longest.unwrap_or(0) + 2
}

fn row(cells: &[String; 7]) -> String {
    let mut out = String::new();
    let mut widths = WIDTHS;
    widths[1] = place_width();
    for (cell, width) in cells.iter().zip(widths) {
        // An overlong cell shifts the rest of its row and still has a gap behind it.
        let _ = write!(out, "{cell:<width$}{}", if cell.chars().count() >= width { "  " } else { "" });
    }
    out.push_str(&cells[6]);
    format!("{}\n", out.trim_end())
}

/// Published number or limit, measured number, ratio, and the quantity.
fn cells(check: &Check) -> [String; 4] {
    let measured = if check.measured.is_nan() { "-".into() } else { show(check.unit, check.measured) };
    let ratio = check.ratio().map_or(String::new(), |ratio| format!("{ratio:.3}"));
    [published(check), measured, ratio, check.what.clone()]
}

fn published(check: &Check) -> String {
    let show = |value| show(check.unit, value);
    match (check.published, check.limit) {
        (Some(expected), _) if check.derived => format!("derived {}", show(expected)),
        (Some(published), _) => show(published),
        (None, Limit::AtLeast(least)) => format!(">= {}", show(least)),
        (None, Limit::AtMost(most)) => format!("<= {}", show(most)),
        (None, Limit::Between(low, high)) => format!("{} to {}", show(low), show(high)),
        (None, _) => "-".into(),
    }
}

/// Formats a value as the axes of plots do, with the digits that tolerances of a few thousandths need.
fn show(unit: Unit, value: f64) -> String {
    match unit {
        _ if !value.is_finite() => "-".into(),
        Unit::Plain if value == 0.0 => "0".into(),
        Unit::Plain if value.abs() < 10.0 => format!("{value:.3}"),
        Unit::Plain => significant(value),
        Unit::Nanos if value >= 1e3 => format!("{:.1} us", value / 1e3),
        Unit::BytesPerSecond if value >= 1e6 => format!("{:.0} MB/s", value / 1e6),
        Unit::Percent => format!("{:.2} %", value * 100.0),
        _ => unit.show(value),
    }
}

/// The verdict on one check; empty for one that decides nothing.
fn word(check: &Check) -> &'static str {
    match check.verdict() {
        _ if check.limit == Limit::Shown => "shown",
        Verdict::InRange if check.is_reversed() => "in range, reversed",
        verdict => verdict.name(),
    }
}

/// The tolerance in words.
fn tolerance(check: &Check) -> String {
    match check.limit {
        Limit::Within(share) => format!("within {} %", significant(share * 100.0)),
        Limit::Points(points) => format!("within {} points", significant(points * 100.0)),
        // The bound is in the column before.
        Limit::AtLeast(_) | Limit::AtMost(_) | Limit::Between(..) | Limit::Shown => String::new(),
    }
}

/// All outcomes as one JSON object.
pub fn render_json(outcomes: &[(&Claim, Outcome)]) -> String {
    let claims: Vec<Value> = outcomes.iter().map(|(claim, outcome)| claim_json(claim, outcome)).collect();
    let hold = outcomes.iter().all(|(_, outcome)| outcome.verdict() == Verdict::Holds);
    let known = outcomes.iter().all(|(claim, outcome)| standing(claim, outcome).unknown.is_empty());
    format!("{:#}\n", json!({ "all_hold": hold, "all_misses_known": known, "claims": claims }))
}

fn claim_json(claim: &Claim, outcome: &Outcome) -> Value {
    let checks: Vec<Value> = outcome.checks.iter().map(check_json).collect();
    let standing = standing(claim, outcome);
    let known =
        standing.known.iter().map(|(check, known)| json!({ "what": check.what, "reason": known.reason }));
    json!({
        "id": claim.id,
        "paper": claim.paper.name(),
        "where": claim.origin(),
        "claim": claim.text,
        "holds_when": claim.holds_when,
        "basis": claim.basis.name(),
        "set_or_seen": claim.set_or_seen,
        "verdict": standing.word(outcome),
        "is_reversed": outcome.is_reversed(),
        "known_misses": known.collect::<Value>(),
        "checks": checks,
    })
}

fn check_json(check: &Check) -> Value {
    let (limit, values): (&str, Vec<f64>) = match check.limit {
        Limit::Within(share) => ("within_share", vec![share]),
        Limit::Points(points) => ("within", vec![points]),
        Limit::AtLeast(least) => ("at_least", vec![least]),
        Limit::AtMost(most) => ("at_most", vec![most]),
        Limit::Between(low, high) => ("between", vec![low, high]),
        Limit::Shown => ("none", Vec::new()),
    };
    let unit = match check.unit {
        Unit::Nanos => "ns",
        Unit::BytesPerSecond => "bytes_per_second",
        Unit::Bytes | Unit::BinaryBytes => "bytes",
        Unit::Percent => "share",
        Unit::Seconds => "seconds",
        Unit::Count | Unit::Plain => "",
    };
    json!({
        "what": check.what,
        "unit": unit,
        "published": check.published.filter(|_| !check.derived),
        "derived": check.published.filter(|_| check.derived),
        "measured": check.measured.is_finite().then_some(check.measured),
        "ratio": check.ratio(),
        "limit": { "kind": limit, "values": values },
        "ranges": check.ranges.iter().map(range_json).collect::<Value>(),
        "verdict": word(check),
        "is_reversed": check.is_reversed(),
    })
}

fn range_json(range: &Range) -> Value {
    let point = |(setting, measured): &(String, f64)| json!({ "setting": setting, "measured": measured });
    json!({ "unknown": range.unknown, "points": range.points.iter().map(point).collect::<Value>() })
}

/// All outcomes as rows of a Markdown table: each claim with its verdict, and its deciding checks, each with its own.
pub fn render_table(outcomes: &[(&Claim, Outcome)]) -> String {
    let mut out = String::from(
        "| claim | basis | set or seen | verdict of the claim | check | published or limit | here | verdict of the check | range | what decides |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (claim, outcome) in outcomes {
        let (basis, known) = (claim.basis.name(), claim.set_or_seen);
        let verdict = standing(claim, outcome).word(outcome);
        let mut first = format!("{} | {basis} | {known} | {verdict}", claim.id);
        for check in deciding(outcome) {
            let [published, measured, _, what] = cells(check);
            let ([range, decides], own) = (spread(check), word(check));
            let _ = writeln!(
                out,
                "| {first} | {what} | {published} | {measured} | {own} | {range} | {decides} |"
            );
            first = "| | |".into();
        }
    }
    out
}

/// The ends of a number's range over each unknown, and the unknowns.
fn spread(check: &Check) -> [String; 2] {
    let ends = |range: &Range| {
        let (least, most) = range.ends();
        format!("{} to {}", show(check.unit, least), show(check.unit, most))
    };
    let ranges: Vec<String> = check.ranges.iter().map(ends).collect();
    let unknowns: Vec<&str> = check.ranges.iter().map(|range| range.unknown).collect();
    [ranges.join("; "), unknowns.join("; ")]
}

/// Columns of words wrap, so that a page of 1,280 pixels shows every column.
const WORDS: &str = "#rows :is(th, td):is(:nth-child(2), :nth-child(3), :nth-child(4)) { text-align: left; white-space: normal; }";

/// All outcomes as one self-contained page: the rows, then each claim with its checks and figures.
pub fn render_page(outcomes: &[(&Claim, Outcome)], command_line: &str) -> String {
    let holding = outcomes.iter().filter(|(_, outcome)| outcome.verdict() == Verdict::Holds).count();
    let mut page = Shell::new("Published claims", WORDS);
    let out = &mut page.0;
    let _ = write!(
        out,
        "<header><h1>Published claims</h1><p>{holding} of {} hold.</p><p><code>{}</code></p></header><main>",
        outcomes.len(),
        escape(command_line)
    );
    let head = [
        "claim",
        "where",
        "verdict of the claim",
        "check nearest to its limit, or farthest beyond",
        "published or limit",
        "measured",
        "ratio",
        "verdict of the check",
    ];
    let rows = outcomes.iter().map(|(claim, outcome)| {
        let headline = outcome.headline();
        let [published, measured, ratio, what] = headline.map(cells).unwrap_or_default();
        let own = headline.map_or(String::new(), |check| word(check).into());
        let link = format!("<a href=\"#{0}\">{0}</a>", claim.id);
        let verdict = format!("{}: {}", standing(claim, outcome).word(outcome), held(outcome));
        let [place, what, published] = [claim.origin(), what, published].map(|text| escape(&text));
        [link, place, verdict, what, published, measured, ratio, own]
    });
    let _ =
        write!(out, "<section id=\"rows\"><div class=\"card scroll\">{}</div></section>", table(&head, rows));
    for (claim, outcome) in outcomes {
        claim_section(out, claim, outcome);
    }
    out.push_str("</main>");
    let version = env!("CARGO_PKG_VERSION");
    page.end(&format!(
        "Pellucid {version}. docs/explanation/papers defines every claim, in the page of its paper."
    ))
}

fn claim_section(out: &mut String, claim: &Claim, outcome: &Outcome) {
    let _ = write!(
        out,
        "<section id=\"{0}\"><h2>{0}: {1}</h2><p>{2}</p><p class=\"soft\">Holds when: {3}. {4}</p>",
        claim.id,
        standing(claim, outcome).word(outcome),
        escape(&format!("{}: {} ({})", claim.origin(), claim.text, held(outcome))),
        escape(claim.holds_when),
        escape(&format!("Basis: {}: {}.", claim.basis.name(), claim.set_or_seen))
    );
    for (check, known) in standing(claim, outcome).known {
        let reason = escape(&format!("{}: {}.", check.what, known.reason));
        let _ = write!(out, "<p class=\"soft\">Known to miss: {reason}</p>");
    }
    for line in render_reversed(outcome).lines() {
        let _ = write!(out, "<p class=\"soft\">{}.</p>", escape(line.trim()));
    }
    out.push_str("<div class=\"grid\">");
    for figure in &outcome.figures {
        let caption = escape(&figure.caption);
        let _ =
            write!(out, "<figure class=\"card\">{}<figcaption>{caption}</figcaption></figure>", figure.svg);
    }
    for check in &outcome.checks {
        for range in &check.ranges {
            let caption = format!("{}, over what the paper does not give: {}.", check.what, range.unknown);
            let (svg, caption) = (range_svg(check, range), escape(&caption));
            let _ = write!(out, "<figure class=\"card\">{svg}<figcaption>{caption}</figcaption></figure>");
        }
    }
    let head = ["check", "published or limit", "tolerance", "measured", "ratio", "verdict of the check"];
    let rows = outcome.checks.iter().map(|check| {
        let [published, measured, ratio, what] = cells(check);
        let (tolerance, verdict) = (escape(&tolerance(check)), word(check).to_string());
        [escape(&what), escape(&published), tolerance, measured, ratio, verdict]
    });
    let _ = write!(out, "<div class=\"card scroll wide\">{}</div></div></section>", table(&head, rows));
}

/// The number at each value of the setting, beside the published one.
fn range_svg(check: &Check, range: &Range) -> String {
    let published = check.published.map(|published| ("published".to_string(), published));
    let names = range.points.iter().chain(&published).map(|point| point.0.clone());
    let here = range.points.iter().map(|point| point.1).chain(published.iter().map(|_| f64::NAN));
    let chart = BarChart::new("Range of what is unknown", Bars::Grouped)
        .value_axis(Axis::linear("measured", check.unit))
        .categories(names)
        .series("here", here.collect());
    let paper = range.points.iter().map(|_| f64::NAN).chain(published.iter().map(|point| point.1));
    let chart = if published.is_some() { chart.series("published", paper.collect()) } else { chart };
    chart.to_svg()
}

/// A table of cells that already are HTML.
fn table<const N: usize>(head: &[&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut out = String::from("<table><thead><tr>");
    for name in head {
        let _ = write!(out, "<th scope=\"col\">{name}</th>");
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "<td>{cell}</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table>");
    out
}
