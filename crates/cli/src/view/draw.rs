//! One picture of the view.
//!
//! ```text
//!  head                       drive, work, how far
//!  throughput | write amplification, GC
//!  ways       | media, wear
//!  latency by stage
//!  foot                       server, keys
//! ```
//! Text and shape carry all information; colours only repeat it.

use super::model::{Model, Scene};
use crate::watch::requests;
use pellucid_flash::{Cause, Stage};
use pellucid_monitor::{
    Bins, CommandFigures, DriveFigures, LayerFigures, LayerValue, LunFigures, WayFigures,
};
use pellucid_report::key;
use pellucid_text::format::{
    bytes, count, duration, optional, quantity, significant, span, whole_percent as percent,
};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, RenderDirection, Row, Sparkline, Table};

/// A smaller terminal gets a sentence instead of a picture.
const WIDTH_MIN: u16 = 80;
const HEIGHT_MIN: u16 = 24;
/// Below, each rate has one line instead of two.
const TALL: u16 = 28;
/// Width from which on the left half has more than it needs.
const WIDE: u16 = 110;
/// A line of the grid of ways without its cells, and its frame; and what rates need.
const GRID_TEXT: u16 = 16;
const LEFT_MIN: u16 = 40;
/// Share of the time that a way was busy: below 1 %, 25 %, 50 %, 75 %, and above.
const SHADES: [&str; 5] = ["··", "░░", "▒▒", "▓▓", "██"];
/// Colours of reads, programs, erases.
const COLOURS: [Color; 3] = [Color::Blue, Color::Yellow, Color::Red];

/// Draws what `model` shows.
pub fn draw(frame: &mut Frame<'_>, model: &Model) {
    let area = frame.area();
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        let text = format!(
            "{} x {} characters; the view needs {WIDTH_MIN} x {HEIGHT_MIN}. q ends it.",
            area.width, area.height
        );
        return frame.render_widget(Paragraph::new(text), area);
    }
    let Some(scene) = model.scene() else {
        let layers = model.figures().and_then(|figures| figures.serving.as_ref());
        if let Some(serving) = layers.filter(|serving| !serving.layers.is_empty()) {
            return layers_alone(frame, area, &serving.layers);
        }
        let text = format!("{} ...\n\nq ends it", model.waiting);
        return frame.render_widget(Paragraph::new(text).block(Block::bordered()), area);
    };
    let ways = scene.drive.channel_busy_ns.len() as u16;
    let stages = Stage::ALL.len() as u16 + 4;
    let rates = if area.height < TALL { 4 } else { 6 };
    let [head, top, middle, bottom, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(rates),
        Constraint::Min(6),
        Constraint::Length(stages.min(area.height.saturating_sub(rates + 2 + ways + 2).max(6))),
        Constraint::Length(1),
    ])
    .areas(area);
    head_line(frame, head, &scene);
    // The grid of ways has to be whole; what is said on the right is broken into lines.
    let cells = 2 * scene.drive.ways_per_channel() as u16 + GRID_TEXT;
    let left = cells.max(LEFT_MIN).min(area.width / 2).max(if area.width < WIDE {
        0
    } else {
        area.width * 55 / 100
    });
    let split = |area| Layout::horizontal([Constraint::Length(left), Constraint::Min(0)]).areas::<2>(area);
    let [curves, amplification] = split(top);
    throughput(frame, curves, &scene);
    write_amplification(frame, amplification, &scene);
    let [grid, health] = split(middle);
    way_grid(frame, grid, &scene);
    media(frame, health, &scene);
    latency(frame, bottom, &scene);
    foot_line(frame, foot, &scene);
}

/// Layers over drives that are no models: what each counts.
fn layers_alone(frame: &mut Frame<'_>, area: Rect, layers: &[LayerFigures]) {
    let [body, foot] = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(area);
    let parts = Layout::vertical(vec![Constraint::Ratio(1, layers.len() as u32); layers.len()]).split(body);
    for (layer, &area) in layers.iter().zip(parts.iter()) {
        let text = |(name, value): (&String, &LayerValue)| match (name.strip_suffix("_bytes"), value) {
            (_, LayerValue::ByCause(_)) => None,
            (Some(name), LayerValue::One(value)) => {
                Some(format!("{} {}", name.replace('_', " "), bytes(*value as f64)))
            }
            (None, LayerValue::One(value)) if *value < 1000 => {
                Some(format!("{} {value}", name.replace('_', " ")))
            }
            (None, LayerValue::One(value)) => {
                Some(format!("{} {}", name.replace('_', " "), quantity(*value as f64)))
            }
        };
        let block = titled(layer.name.as_str());
        let lines = pack(layer.values.iter().filter_map(text).collect(), block.inner(area).width);
        frame.render_widget(Paragraph::new(lines).block(block), area);
    }
    frame.render_widget(Line::from("since the start; q: end").style(Modifier::DIM), foot);
}

/// Texts side by side, in as many lines as it takes; a text is broken only where it is longer than a line.
fn pack(texts: Vec<String>, width: u16) -> Vec<Line<'static>> {
    let mut lines: Vec<String> = Vec::new();
    for text in texts {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 3 + text.chars().count() <= width.into() => {
                line.push_str("   ");
                line.push_str(&text);
            }
            _ => lines.push(text),
        }
    }
    lines.into_iter().map(Line::from).collect()
}

fn titled(title: impl Into<String>) -> Block<'static> {
    Block::bordered().title(Span::styled(format!(" {} ", title.into()), Modifier::BOLD))
}

fn head_line(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let mut text = format!("   {} simulated", span(scene.drive.simulated_ns as f64 / 1e9));
    text.push_str(&format!(", {} real", span(scene.figures.wall_seconds)));
    if let Some(work) = &scene.figures.work {
        text.push_str(&format!("   {}   {}", requests(work.requests, work.requests_total), work.what));
    }
    if scene.drive.read_only {
        text.push_str("   READ-ONLY");
    }
    let name = Span::styled(scene.drive.name.clone(), Modifier::BOLD);
    frame.render_widget(Line::from(vec![name, Span::raw(text)]), area);
}

fn foot_line(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let window = if scene.since_start { "since the start" } else { "the last 2 s" };
    let keys = format!("{window}; a: other window  Tab: next drive  q: end");
    let [left, right] =
        Layout::horizontal([Constraint::Min(0), Constraint::Length(keys.len() as u16)]).areas(area);
    frame.render_widget(Line::from(keys).style(Modifier::DIM), right);
    let Some(serving) = &scene.figures.serving else { return };
    let before = scene.earlier.and_then(|f| f.serving.as_ref());
    let late = before.map_or_else(
        || serving.lateness.bins.clone(),
        |before| serving.lateness.bins.since(&before.lateness.bins),
    );
    let at = |q| optional(late.quantile(q), |ns| duration(ns as f64));
    let mut text = format!("late p50 {} p99 {}", at(0.5), at(0.99));
    for protocol in serving.protocols.iter().filter(|p| p.connected > 0) {
        let more = format!(
            "  {} {} open, {} answered",
            protocol.name,
            protocol.connections,
            quantity(protocol.commands as f64)
        );
        // Whole or not at all.
        if text.len() + more.len() <= left.width as usize {
            text.push_str(&more);
        }
    }
    frame.render_widget(Line::from(text), left);
}

fn throughput(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let block = titled("throughput, per simulated second");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let one_line = inner.height < 4;
    let words = if one_line { 30 } else { 22 };
    let [left, right] = Layout::horizontal([Constraint::Length(words), Constraint::Min(4)]).areas(inner);
    let commands = |kind: &str| scene.command(kind).latency.total() as f64 * 1e9 / scene.elapsed_ns() as f64;
    let line = |name: &str, rate: f64, kind: &str, colour| {
        let rate = Span::styled(format!("{name:6}{:>8}/s", bytes(rate)), Style::new().fg(colour));
        let commands = format!("{:>7} IOPS", quantity(commands(kind)));
        match one_line {
            true => vec![Line::from(vec![rate, Span::raw(" "), Span::raw(commands)])],
            false => vec![Line::from(rate), Line::from(format!("       {commands}"))],
        }
    };
    let mut lines = line("read", scene.rate(|d| d.host_read_bytes), "read", COLOURS[0]);
    lines.extend(line("write", scene.rate(|d| d.host_written_bytes), "write", COLOURS[1]));
    frame.render_widget(Paragraph::new(lines), left);
    let [up, down] = Layout::vertical([Constraint::Ratio(1, 2); 2]).areas(right);
    let curve = |of: fn(&super::model::Point) -> f64, colour| {
        let values: Vec<u64> = scene.points.iter().rev().map(|point| of(point) as u64).collect();
        Sparkline::default()
            .data(values)
            .direction(RenderDirection::RightToLeft)
            .style(Style::new().fg(colour))
    };
    frame.render_widget(curve(|p| p.read, COLOURS[0]), up);
    frame.render_widget(curve(|p| p.written, COLOURS[1]), down);
}

fn write_amplification(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let written = scene.grown(|d| d.host_written_bytes);
    let programmed = scene.grown_by(|d| &d.programmed_bytes);
    let total: u64 = programmed.iter().map(|(_, n)| n).sum();
    let ratio = |n: u64| n as f64 / written as f64;
    let title = match written {
        0 => "write amplification -".to_string(),
        _ => format!("write amplification {:.2}", ratio(total)),
    };
    let mut terms = Vec::new();
    for cause in Cause::ALL {
        let name = key(cause.name());
        let grown = programmed.iter().find(|(n, _)| **n == name).map_or(0, |(_, n)| *n);
        if written > 0 && grown > 0 {
            terms.push((grown, format!("{} {:.2}", cause.name(), ratio(grown))));
        }
    }
    let width = area.width.saturating_sub(2);
    let fits = |terms: &[(u64, String)]| sum(terms).chars().count() <= width.into();
    if !fits(&terms) {
        // Keeps the largest terms, as many as fit.
        terms.sort_by_key(|(grown, _)| std::cmp::Reverse(*grown));
        terms.push((0, "...".into()));
        while terms.len() > 2 && !fits(&terms) {
            terms.remove(terms.len() - 2);
        }
    }
    let victims: u64 = scene.grown_by(|d| &d.victims).iter().map(|(_, n)| n).sum();
    let erases: u64 = scene.grown_by(|d| &d.erases).iter().map(|(_, n)| n).sum();
    let (free, blocks) = (scene.drive.free_blocks, scene.drive.blocks);
    let mut lines =
        vec![Line::from(if terms.is_empty() { "nothing written".to_string() } else { sum(&terms) })];
    let texts = vec![
        format!(
            "free blocks {} of {}, {}",
            many(free.into()),
            many(blocks.into()),
            percent(f64::from(free) / f64::from(blocks.max(1)))
        ),
        format!("erases {}", many(erases)),
        format!("victims {}", many(victims)),
        format!("units copied {}", many(scene.grown(|d| d.copied_units))),
    ];
    lines.extend(pack(texts, width));
    frame.render_widget(Paragraph::new(lines).block(titled(title)), area);
}

/// A count, exact as long as it is short.
fn many(n: u64) -> String {
    if n < 1_000 { count(n) } else { quantity(n as f64) }
}

fn sum(terms: &[(u64, String)]) -> String {
    terms.iter().map(|(_, term)| term.as_str()).collect::<Vec<_>>().join(" + ")
}

/// The operation that took most of a way's array time in the window, as a place in [`COLOURS`].
fn doing(scene: &Scene<'_>, way: usize) -> Option<usize> {
    let now = scene.drive.watched.as_ref()?.ways.get(way)?;
    let before = scene.before.and_then(|b| b.watched.as_ref()).and_then(|w| w.ways.get(way));
    let array = |kind: usize| {
        let then = before.map_or(0, |b| b.time_ns[kind][2]);
        now.time_ns[kind][2].saturating_sub(then)
    };
    // A copyback is a program that brings its own data.
    let time = [array(0), array(1) + array(3), array(2)];
    let most = (0..3).max_by_key(|&i| (time[i], std::cmp::Reverse(i)))?;
    (time[most] > 0).then_some(most)
}

fn way_grid(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let busy = scene.shares(|d| &d.way_busy_ns);
    let channels = scene.shares(|d| &d.channel_busy_ns);
    let ways = scene.drive.ways_per_channel().max(1);
    let active: f64 = busy.iter().sum();
    let title =
        format!("ways: {active:.1} of {} active, channels {:.1}", busy.len(), channels.iter().sum::<f64>());
    let block = titled(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    // Each cell is two characters wide; more ways than fit share a line's end.
    let fit = (inner.width.saturating_sub(14) / 2) as usize;
    let height = inner.height as usize;
    let hidden = channels.len() > height;
    let mut lines = Vec::new();
    for (channel, share) in
        channels.iter().enumerate().take(if hidden { height.saturating_sub(1) } else { height })
    {
        let mut spans = vec![Span::raw(format!("ch {channel:<2} "))];
        for way in (channel * ways..(channel + 1) * ways).take(fit) {
            let shade = SHADES[if busy[way] < 0.01 { 0 } else { 1 + ((busy[way] * 4.0) as usize).min(3) }];
            let colour = doing(scene, way).map_or(Color::DarkGray, |kind| COLOURS[kind]);
            spans.push(Span::styled(shade, Style::new().fg(colour)));
        }
        spans.push(Span::raw(format!(" bus {:>3.0} %", share * 100.0)));
        lines.push(Line::from(spans));
    }
    if hidden {
        let rest = channels.len() - height.saturating_sub(1);
        lines.push(Line::from(format!("and {rest} more channels")));
    } else if height > channels.len() {
        let mut legend = vec![Span::raw("busy ░ < 25 ▒ < 50 ▓ < 75 █ %  ")];
        for (name, colour) in ["read ", "program ", "erase"].into_iter().zip(COLOURS) {
            legend.push(Span::styled(name, Style::new().fg(colour)));
        }
        lines.push(Line::from(legend));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

/// Describes how near codewords are to being lost.
fn wrong_bits(drive: &DriveFigures) -> String {
    let bins = drive.wrong_bits();
    let (mean, most) = (optional(bins.mean(), |mean| format!("{mean:.2}")), bins.quantile(1.0));
    let of = drive.chunks_by_wrong_bits.len().saturating_sub(2);
    match most {
        Some(most) => format!("wrong bits {mean} a chunk, most {most} of {of}"),
        None => "wrong bits: not modelled".into(),
    }
}

/// The way whose reads take longest, beside the one in the middle.
fn slowest_way(drive: &DriveFigures, ways: &[WayFigures]) -> Option<String> {
    let mut by_time: Vec<(u64, usize)> =
        ways.iter().enumerate().filter_map(|(at, way)| Some((way.p99_ns[0]?, at))).collect();
    by_time.sort_unstable();
    let (slowest, at) = *by_time.last()?;
    let middle = by_time[by_time.len() / 2].0;
    let per_channel = drive.ways_per_channel().max(1);
    let (channel, way) = (at / per_channel, at % per_channel);
    let (slowest, middle) = (duration(slowest as f64), duration(middle as f64));
    Some(format!("read p99 {middle}, ch {channel} way {way} {slowest}"))
}

fn media(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let drive = scene.drive;
    let outstanding = scene.bins(|w| Some(&w.outstanding)).mean();
    let link = |i: usize| scene.grown(|d| d.link_busy_ns[i]) as f64 / scene.elapsed_ns() as f64;
    let firmware = scene.grown(|d| d.firmware_busy_ns) as f64 / scene.elapsed_ns() as f64;
    let mut lines = vec![
        format!("outstanding {}", count(drive.outstanding_commands.into())),
        format!("mean {}", optional(outstanding, significant)),
        format!("link in {} out {}", percent(link(0)), percent(link(1))),
        format!("firmware {}", percent(firmware)),
        format!("bits corrected {}", many(drive.corrected_bits)),
        format!("retries {}", many(drive.read_retries)),
        wrong_bits(drive),
        format!("uncorrectable {}", count(drive.uncorrectable_reads)),
        format!("bad {}", drive.grown_bad_blocks),
        format!("failed programs {} erases {}", count(drive.program_failures), count(drive.erase_failures)),
    ];
    if let Some(watched) = &drive.watched {
        lines.extend(slowest_way(drive, &watched.ways));
        let wear = watched.wear;
        let mean = significant(wear.mean);
        lines.push(format!("erases per block {} to {}, mean {mean}", wear.min, wear.max));
    }
    let divided = scene.figures.serving.iter().flat_map(|serving| &serving.luns);
    lines.extend(divided.filter(|of| of.drive == drive.name).flat_map(|of| owners(&of.luns)));
    let lines = pack(lines, area.width.saturating_sub(2));
    frame.render_widget(Paragraph::new(lines).block(titled("drive and media")), area);
}

/// Which LUNs each application or target has; neighbours of a channel as FIRST-LAST.
fn owners(luns: &[LunFigures]) -> Vec<String> {
    let mut named: Vec<&str> = luns.iter().filter_map(|lun| lun.owner.as_deref()).collect();
    named.sort_unstable();
    named.dedup();
    let of_owner = |owner: Option<&str>| {
        let own = luns.iter().filter(|lun| lun.owner.as_deref() == owner);
        let places: Vec<(&str, &str)> = own.filter_map(|lun| lun.lun.split_once('/')).collect();
        let number = |place: &str| place.parse::<u32>().unwrap_or(0);
        let mut runs: Vec<(&str, u32, u32)> = Vec::new();
        for (channel, lun) in places {
            match runs.last_mut() {
                Some(run) if run.0 == channel && run.2 + 1 == number(lun) => run.2 += 1,
                _ => runs.push((channel, number(lun), number(lun))),
            }
        }
        let text = |&(channel, first, last): &(&str, u32, u32)| match first == last {
            true => format!("{channel}/{first}"),
            false => format!("{channel}/{first}-{last}"),
        };
        runs.iter().map(text).collect::<Vec<_>>().join(" ")
    };
    let with_owner = named.iter().map(|&owner| format!("LUNs of {owner}: {}", of_owner(Some(owner))));
    let free = of_owner(None);
    with_owner.chain((!free.is_empty()).then(|| format!("free LUNs: {free}"))).collect()
}

/// Headings, and quantiles of the last ones.
const COLUMNS: [&str; 6] = ["", "share", "mean", "p50", "p99", "p99.9"];
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];
/// The columns that a narrow table has.
const NARROW: [usize; 4] = [0, 1, 2, 4];

/// A row of the latency table; `columns` are places in [`COLUMNS`].
fn row<'a>(texts: &[String], columns: &[usize]) -> Row<'a> {
    Row::new(columns.iter().map(|&column| {
        let alignment = if column == 0 { Alignment::Left } else { Alignment::Right };
        Cell::from(Line::from(texts[column].clone()).alignment(alignment))
    }))
}

fn latency_texts(name: &str, bins: &Bins, whole: f64) -> Vec<String> {
    let share = match bins.mean() {
        Some(mean) if whole > 0.0 => percent(mean / whole),
        _ => "-".into(),
    };
    let mut texts = vec![name.to_string(), share, optional(bins.mean(), duration)];
    texts.extend(QUANTILES.map(|q| optional(bins.quantile(q), |ns| duration(ns as f64))));
    texts
}

fn latency(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let [left, right] = Layout::horizontal([Constraint::Ratio(1, 2); 2]).areas(area);
    for (area, kind, colour) in [(left, "read", COLOURS[0]), (right, "write", COLOURS[1])] {
        let CommandFigures { latency, stages, failed } = scene.command(kind);
        let whole = latency.mean().unwrap_or(0.0);
        let mut title = format!("{kind} latency by stage");
        if failed > 0 {
            title.push_str(&format!(", {} failed", count(failed)));
        }
        let columns: Vec<usize> =
            if area.width < 56 { NARROW.to_vec() } else { (0..COLUMNS.len()).collect() };
        let mut rows =
            vec![row(&latency_texts("all", &latency, whole), &columns).style(Style::new().fg(colour))];
        // The stages that matter first, where there is no room for all.
        let mut named: Vec<(&str, &Bins)> =
            Stage::ALL.iter().filter_map(|s| Some((s.name(), stages.get(&key(s.name()))?))).collect();
        let room = area.height.saturating_sub(4) as usize;
        if room < named.len() {
            named.sort_by_key(|(_, bins)| std::cmp::Reverse(bins.sum));
        }
        rows.extend(
            named.into_iter().take(room).map(|(n, bins)| row(&latency_texts(n, bins, whole), &columns)),
        );
        let widths = columns.iter().map(|&column| match column {
            0 => Constraint::Min(10),
            1 => Constraint::Length(5),
            _ => Constraint::Length(7),
        });
        let heading = row(&COLUMNS.map(String::from), &columns).style(Modifier::DIM);
        let table = Table::new(rows, widths).header(heading).column_spacing(1);
        frame.render_widget(table.block(titled(title)), area);
    }
}

#[cfg(test)]
mod tests;
