//! A frame as an SVG file: valid data of every cell, in the colours of the page.

use crate::cell::{Cell, Grid, LEVEL_MAX};
use crate::film::Film;
use pellucid_flash::BlockUse;
use std::fmt::Write;

/// Width of the drawing, in user units.
const WIDTH: f64 = 960.0;
/// Height above the map.
const HEAD: f64 = 52.0;

/// Full cells and cells with valid data: the colours for few, half and all units, interpolated, on light and dark paper.
const FULL: [[[u8; 3]; 3]; 2] = [
    [[0xdb, 0xe8, 0xf8], [0x5f, 0x9b, 0xe0], [0x12, 0x3f, 0x80]],
    [[0x20, 0x34, 0x4d], [0x2f, 0x6b, 0xb5], [0x9c, 0xc7, 0xff]],
];

/// The other classes: colours on light and dark paper, and text of the legend.
const OTHERS: [(&str, &str, &str); 5] = [
    ("#e9edf2", "#1c232c", "free"),
    ("#f4e2c4", "#4b3a22", "nothing valid"),
    ("#0b8a68", "#3fd0a8", "takes data"),
    ("#e0283c", "#e0283c", "being emptied"),
    ("#3b4048", "#000000", "bad"),
];

/// All classes: the levels from 1, then the others.
const CLASSES: usize = LEVEL_MAX as usize + OTHERS.len();

fn class(cell: Cell) -> usize {
    let other = |at: usize| LEVEL_MAX as usize + at;
    match (cell.usage(), usize::from(cell.level)) {
        (BlockUse::Free, 0) => other(0),
        (BlockUse::Full, 0) => other(1),
        (BlockUse::Free | BlockUse::Full, level) => level - 1,
        (BlockUse::Open, _) => other(2),
        (BlockUse::Victim | BlockUse::Erasing, _) => other(3),
        (BlockUse::Bad, _) => other(4),
    }
}

/// Colour of a class.
fn colour(class: usize, dark: bool) -> String {
    if let Some((on_light, on_dark, _)) = class.checked_sub(LEVEL_MAX as usize).map(|at| OTHERS[at]) {
        return if dark { on_dark } else { on_light }.into();
    }
    let share = class as f64 / f64::from(LEVEL_MAX - 1) * 2.0;
    let (low, part) = (share.min(1.9999) as usize, share - share.min(1.9999).floor());
    let [from, to] = [low, low + 1].map(|at| FULL[usize::from(dark)][at]);
    let mixed = |at: usize| f64::from(from[at]) + (f64::from(to[at]) - f64::from(from[at])) * part;
    format!("#{:02x}{:02x}{:02x}", mixed(0).round() as u8, mixed(1).round() as u8, mixed(2).round() as u8)
}

/// Positions of a die's cells, and of the dies.
struct Places {
    grid: Grid,
    columns: u32,
    rows: u32,
    gap: u32,
}

impl Places {
    /// As in the page's script: about twice as wide as high.
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
    /// Draws the blocks of frame `frame` as an SVG file. Equal films give equal bytes. Panics if the frame does not exist.
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
        for (class, path) in paths(&self.cells(frame), &places).iter().enumerate() {
            if !path.is_empty() {
                let _ = write!(out, "<path class=\"k{class}\" d=\"{path}\"/>");
            }
        }
        out.push_str("</g></svg>\n");
        out
    }
}

/// One path per class: a rectangle for each run of equal cells in a row.
fn paths(cells: &[Cell], places: &Places) -> [String; CLASSES] {
    let mut paths: [String; CLASSES] = Default::default();
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
    let classes =
        |dark| (0..CLASSES).map(move |class| format!(" .k{class} {{ fill: {}; }}", colour(class, dark)));
    let (light, dark): (String, String) = (classes(false).collect(), classes(true).collect());
    format!(
        ".paper {{ fill: #ffffff; }} text {{ font: 12px system-ui, sans-serif; fill: #566273; }} .title {{ font-weight: 600; \
         fill: #1b2430; }}{light}\n@media (prefers-color-scheme: dark) {{ .paper {{ fill: #0d1117; }} text {{ fill: #9fabba; }} \
         .title {{ fill: #e6eaf0; }}{dark} }}\n"
    )
}

fn legend(out: &mut String) {
    let mut x = 2.0;
    let mut item = |classes: std::ops::Range<usize>, words: &str| {
        let width = 30.0 / classes.len() as f64;
        for class in classes {
            let _ = write!(
                out,
                "<rect class=\"k{class}\" x=\"{x:.1}\" y=\"26\" width=\"{width:.1}\" height=\"12\"/>"
            );
            x += width;
        }
        let _ = write!(out, "<text x=\"{:.1}\" y=\"36\">{words}</text>", x + 5.0);
        x += 18.0 + 6.6 * words.len() as f64;
    };
    item(0..LEVEL_MAX as usize, "few to all units valid");
    for (at, (_, _, words)) in OTHERS.into_iter().enumerate() {
        item(LEVEL_MAX as usize + at..LEVEL_MAX as usize + at + 1, words);
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, FILM_BYTES, Recorder};
    use pellucid_flash::{BlockMap, BlockView};

    #[test]
    fn a_still_shows_each_cell_once_and_is_the_same_for_equal_films() {
        let view = |at: usize| {
            let usage =
                [BlockUse::Full, BlockUse::Full, BlockUse::Open, BlockUse::Victim, BlockUse::Bad][at % 5];
            BlockView { usage, units: (at % 9) as u32, ..BlockView::default() }
        };
        let map = BlockMap {
            channels: 2,
            dies_per_channel: 3,
            blocks_per_die: 50,
            units_per_block: 8,
            blocks: (0..300).map(view).collect(),
            ..BlockMap::default()
        };
        let still = || {
            let mut recorder = Recorder::new(Clock::SimulatedNs, FILM_BYTES);
            recorder.record(0, &map);
            recorder.finish("drive").expect("it has a frame").still(0, "a <drive>")
        };
        let svg = still();
        assert_eq!(svg, still());
        assert!(svg.contains("a &lt;drive&gt;"));
        let runs = svg.split('M').skip(1).filter_map(|run| run.split_once('h')?.1.split_once('v'));
        let cells: usize = runs.filter_map(|(length, _)| length.parse::<usize>().ok()).sum();
        assert_eq!(cells, 300);
        assert_eq!((colour(0, false).as_str(), colour(14, false).as_str()), ("#dbe8f8", "#123f80"));
    }
}
