//! A frame as an SVG file of its own: valid data of every cell, in the colours of the page.

use crate::cell::{Cell, Grid, LEVEL_MAX};
use crate::film::Film;
use pellucid_flash::BlockUse;
use std::fmt::Write;

/// Width of the drawing, in user units.
const WIDTH: f64 = 960.0;
/// Height above the map.
const HEAD: f64 = 52.0;

/// A class of cells: its name, its colours on light and dark paper, and what the legend says of it.
const CLASSES: [(&str, &str, &str, &str); 9] = [
    ("free", "#e9edf2", "#1c232c", "free"),
    ("empty", "#f4e2c4", "#4b3a22", "nothing valid"),
    ("low", "#c5daf4", "#264670", "a few units valid"),
    ("half", "#8fb8ea", "#2d5f9f", ""),
    ("most", "#4a83cc", "#5594e0", ""),
    ("all", "#123f80", "#9cc7ff", "all valid"),
    ("open", "#0b8a68", "#3fd0a8", "takes data"),
    ("victim", "#e0283c", "#ff5566", "being emptied"),
    ("bad", "#3b4048", "#000000", "bad"),
];

fn class(cell: Cell) -> usize {
    let valid = match u32::from(cell.level) {
        0 => 1,
        1..=5 => 2,
        6..=10 => 3,
        LEVEL_MAX => 5,
        _ => 4,
    };
    match cell.usage() {
        BlockUse::Free if cell.level == 0 => 0,
        BlockUse::Free | BlockUse::Full => valid,
        BlockUse::Open => 6,
        BlockUse::Victim | BlockUse::Erasing => 7,
        BlockUse::Bad => 8,
    }
}

/// Places of the cells of a die, and of the dies.
struct Places {
    grid: Grid,
    columns: u32,
    rows: u32,
    gap: u32,
}

impl Places {
    /// As the script of the page has them: about twice as wide as high.
    fn of(grid: Grid) -> Places {
        let shape = 2.0 * f64::from(grid.cells_per_die) * f64::from(grid.channels);
        let wide = (shape / f64::from(grid.dies_per_channel.max(1))).sqrt().round() as u32;
        let columns = wide.clamp(1, grid.cells_per_die.max(1));
        let rows = grid.cells_per_die.div_ceil(columns);
        let gap = (columns.min(rows) + 8) / 16;
        Places { grid, columns, rows, gap: gap.max(1) }
    }

    fn size(&self) -> (u32, u32) {
        let Grid { channels, dies_per_channel, .. } = self.grid;
        let along = |count: u32, cells: u32| (count * (cells + self.gap)).saturating_sub(self.gap);
        (along(dies_per_channel, self.columns), along(channels, self.rows))
    }

    fn of_cell(&self, cell: u32) -> (u32, u32) {
        let (die, at) = (cell / self.grid.cells_per_die, cell % self.grid.cells_per_die);
        let (channel, way) = (die / self.grid.dies_per_channel, die % self.grid.dies_per_channel);
        (
            way * (self.columns + self.gap) + at % self.columns,
            channel * (self.rows + self.gap) + at / self.columns,
        )
    }
}

impl Film {
    /// The blocks as frame `frame` shows them, as an SVG file. Equal films give equal bytes. Panics without such a frame.
    pub fn still(&self, frame: usize, caption: &str) -> String {
        let places = Places::of(self.grid);
        let (columns, rows) = places.size();
        let scale = WIDTH / f64::from(columns.max(1));
        let height = HEAD + scale * f64::from(rows);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
             aria-label=\"Blocks of a drive by their valid data\"><style>\n{}</style>\
             <rect class=\"paper\" width=\"100%\" height=\"100%\"/><text x=\"2\" y=\"16\" class=\"title\">{}</text>",
            style(),
            escape(caption)
        );
        legend(&mut out);
        let _ = write!(out, "<g transform=\"translate(0 {HEAD}) scale({scale:.4})\">");
        for (path, (name, ..)) in paths(&self.cells(frame), &places).iter().zip(CLASSES) {
            if !path.is_empty() {
                let _ = write!(out, "<path class=\"{name}\" d=\"{path}\"/>");
            }
        }
        out.push_str("</g></svg>\n");
        out
    }
}

/// A path for each class: a rectangle for each run of equal cells in a row.
fn paths(cells: &[Cell], places: &Places) -> [String; CLASSES.len()] {
    let mut paths: [String; CLASSES.len()] = Default::default();
    let mut first = 0;
    while first < cells.len() {
        let kind = class(cells[first]);
        let (x, y) = places.of_cell(first as u32);
        let goes_on = |at: usize| {
            let same = cells.get(at).is_some_and(|cell| class(*cell) == kind);
            same && places.of_cell(at as u32) == (x + (at - first) as u32, y)
        };
        let end = (first + 1..).find(|&at| !goes_on(at)).expect("the cells end");
        let _ = write!(paths[kind], "M{x} {y}h{0}v1h-{0}z", end - first);
        first = end;
    }
    paths
}

fn style() -> String {
    let mut light = String::from(
        ".paper { fill: #ffffff; } text { font: 12px system-ui, sans-serif; fill: #566273; } .title { font-weight: 600; fill: #1b2430; }\n",
    );
    let mut dark =
        String::from(".paper { fill: #0d1117; } text { fill: #9fabba; } .title { fill: #e6eaf0; }");
    for (name, on_light, on_dark, _) in CLASSES {
        let _ = write!(light, ".{name} {{ fill: {on_light}; }} ");
        let _ = write!(dark, " .{name} {{ fill: {on_dark}; }}");
    }
    format!("{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n")
}

fn legend(out: &mut String) {
    let mut x = 2.0;
    for (name, _, _, words) in CLASSES {
        let _ = write!(out, "<rect class=\"{name}\" x=\"{x:.0}\" y=\"26\" width=\"22\" height=\"12\"/>");
        x += 26.0;
        if !words.is_empty() {
            let _ = write!(out, "<text x=\"{x:.0}\" y=\"36\">{words}</text>");
            x += 12.0 + 6.6 * words.len() as f64;
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
