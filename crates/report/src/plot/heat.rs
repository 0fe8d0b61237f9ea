//! A heat map: one cell per row and column; the larger the value, the stronger the colour.

use super::axis::Unit;
use super::model::number;
use super::{Canvas, Frame, WIDTH, escape};
use serde_json::{Value, json};
use std::fmt::Write;

/// Opacity of the smallest value above 0, so that nothing busy looks idle.
const LEAST: f64 = 0.15;

/// Number of cells above which a map is drawn without text in them.
const DENSE: usize = 1_100;
/// Number of shades of such a map.
const LEVELS: f64 = 12.0;

/// A matrix of values of at least 0. The largest value has the strongest colour.
#[derive(Clone, Debug)]
pub struct HeatMap {
    pub(super) title: String,
    unit: Unit,
    row_word: String,
    column_word: String,
    /// Times or other values that the columns stand for, instead of their numbers.
    columns: Option<(Unit, Vec<f64>)>,
    rows: Vec<Vec<f64>>,
}

impl HeatMap {
    /// Makes a map of shares (0 to 1), 640 units wide. A row is named `<row_word> <index>`, a column `<column_word> <index>`.
    pub fn new(title: &str, row_word: &str, column_word: &str, rows: Vec<Vec<f64>>) -> HeatMap {
        HeatMap {
            title: title.into(),
            unit: Unit::Percent,
            row_word: row_word.into(),
            column_word: column_word.into(),
            columns: None,
            rows,
        }
    }

    /// Sets the values that the columns stand for, such as times, instead of their numbers.
    pub fn columns(mut self, unit: Unit, values: Vec<f64>) -> HeatMap {
        self.columns = Some((unit, values));
        self
    }

    fn column(&self, at: usize) -> String {
        let value = self.columns.as_ref().and_then(|(unit, values)| Some(unit.show(*values.get(at)?)));
        value.unwrap_or_else(|| format!("{} {at}", self.column_word))
    }

    /// Returns the map in the model of [`super::Drawing`].
    pub(super) fn model(&self) -> Value {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let values: Vec<Vec<Value>> =
            self.rows.iter().map(|row| row.iter().copied().map(number).collect()).collect();
        let mut model = json!({
            "kind": "heat",
            "unit": self.unit.key(),
            "rows": (0..self.rows.len()).map(|row| format!("{} {row}", self.row_word)).collect::<Vec<_>>(),
            "columns": (0..columns).map(|column| self.column(column)).collect::<Vec<_>>(),
            "values": values,
        });
        if let Some((unit, moments)) = &self.columns {
            model["column"] = json!({ "label": self.column_word, "unit": unit.key() });
            model["column_values"] = moments.iter().copied().map(number).collect();
        }
        model
    }

    /// Sets the unit of the values.
    pub fn unit(mut self, unit: Unit) -> HeatMap {
        self.unit = unit;
        self
    }

    /// Returns the largest value; 0 for a map without values.
    fn largest(&self) -> f64 {
        self.rows.iter().flatten().copied().filter(|value| value.is_finite()).fold(0.0, f64::max)
    }

    /// Returns the map as an `<svg>` element.
    pub fn to_svg(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let (left, top) = (86.0, 74.0);
        let cell_width = (WIDTH - left - 18.0) / columns.max(1) as f64;
        let cell_height = (560.0 / self.rows.len().max(1) as f64).clamp(6.0, 30.0);
        let height = top + cell_height * self.rows.len() as f64 + 10.0;
        let described = format!("{} {}s by {columns} {}s", self.rows.len(), self.row_word, self.column_word);
        let mut canvas = Canvas::new(WIDTH, height, &self.title, &described);
        let largest = self.largest();
        self.key(&mut canvas, largest);
        self.heads(&mut canvas, Frame { left, top, width: cell_width, height: 0.0 }, columns);
        let dense = columns * self.rows.len() > DENSE;
        for (r, row) in self.rows.iter().enumerate() {
            let y = top + r as f64 * cell_height;
            if dense {
                self.dense_row(
                    &mut canvas,
                    r,
                    Frame { left, top: y, width: cell_width, height: cell_height },
                    largest,
                );
            }
            if r % every(cell_height, 15.0) == 0 {
                let place = (left - 9.0, y + cell_height / 2.0 + 4.0);
                canvas.text("end", place, &format!("{} {r}", self.row_word));
            }
            for c in 0..if dense { 0 } else { row.len() } {
                let (across, down) = (gap(cell_width), gap(cell_height));
                let (x, width) = (left + c as f64 * cell_width, cell_width - across);
                let frame = Frame { left: x, top: y, width, height: cell_height - down };
                self.cell(&mut canvas, frame, (r, c), largest);
            }
        }
        canvas.finish()
    }

    /// Writes the names of the columns above the first row, as many as fit without overlap.
    fn heads(&self, canvas: &mut Canvas, first: Frame, columns: usize) {
        let longest = (0..columns).map(|column| self.column(column).chars().count()).max().unwrap_or(0);
        for column in (0..columns).step_by(every(first.width, 14.0 + 6.5 * longest as f64)) {
            let x = first.left + (column as f64 + 0.5) * first.width;
            canvas.text("mid", (x, first.top - 8.0), &self.column(column));
        }
    }

    /// Draws a row of a map with many cells: a rectangle for each run of cells that look the same, and no text.
    fn dense_row(&self, canvas: &mut Canvas, row: usize, first: Frame, largest: f64) {
        let level = |value: f64| (heat(value, largest) * LEVELS).round();
        let values = &self.rows[row];
        let mut at = 0;
        let mut runs = String::new();
        while at < values.len() {
            let same = values[at..].iter().take_while(|value| level(**value) == level(values[at])).count();
            let _ = write!(
                runs,
                "<rect class=\"{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill-opacity=\"{:.2}\"/>",
                if level(values[at]) > 0.0 { "heat" } else { "cell" },
                first.left + at as f64 * first.width,
                first.top,
                same as f64 * first.width,
                first.height,
                if level(values[at]) > 0.0 { level(values[at]) / LEVELS } else { 1.0 },
            );
            at += same;
        }
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let words = format!("{} {row}: mean {}", self.row_word, self.unit.show(mean));
        canvas.raw(&format!("<g>{runs}<title>{}</title></g>", escape(&words)));
    }

    fn cell(&self, canvas: &mut Canvas, frame: Frame, (row, column): (usize, usize), largest: f64) {
        let value = self.rows[row][column];
        let heat = heat(value, largest);
        let words = self.unit.show(value);
        let column = match self.columns {
            Some(_) => format!("{} {}", self.column_word, self.column(column)),
            None => self.column(column),
        };
        let tooltip = format!("{} {row}, {column}: {words}", self.row_word);
        canvas.raw(&format!(
            "<rect class=\"cell\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            frame.left, frame.top, frame.width, frame.height
        ));
        canvas.rect("heat", frame, &format!(" fill-opacity=\"{heat:.3}\""), &tooltip);
        if frame.width > 12.0 + 6.8 * words.chars().count() as f64 && frame.height > 15.0 {
            let place = (frame.left + frame.width / 2.0, frame.top + frame.height / 2.0 + 4.0);
            canvas.text(if heat > 0.75 { "mid light" } else { "mid dark" }, place, &words);
        }
    }

    /// Draws the scale of colours, from 0 to the largest value.
    fn key(&self, canvas: &mut Canvas, largest: f64) {
        canvas.text("", (4.0, 41.0), &self.unit.show(0.0));
        for i in 0..=10 {
            let place = format!("x=\"{}\" y=\"31\" width=\"12\" height=\"12\"", 40 + 12 * i);
            canvas.raw(&format!("<rect class=\"cell\" {place}/>"));
            canvas.raw(&format!(
                "<rect class=\"heat\" {place} fill-opacity=\"{:.2}\"/>",
                heat(f64::from(i), 10.0)
            ));
        }
        canvas.text("", (180.0, 41.0), &self.unit.show(largest));
    }
}

/// Returns the opacity of a value on the scale from 0 to `largest`: none for 0 and for gaps, then from [`LEAST`] to 1.
fn heat(value: f64, largest: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 0.0;
    }
    LEAST + (1.0 - LEAST) * value / largest
}

/// Returns the space between cells of the given size: none between narrow cells, which it would hide.
fn gap(cell: f64) -> f64 {
    if cell > 12.0 { 2.0 } else { 0.0 }
}

/// Returns the n for which labels of `wanted` units fit if every n-th cell has one.
fn every(cell: f64, wanted: f64) -> usize {
    (wanted / cell).ceil().max(1.0) as usize
}
