//! A drawing as data: one model, from which the page, an SVG file, a table (CSV) and matplotlib figures are made.
//!
//! The model in JSON has `kind` and `title`, and by kind:
//!
//! | kind | content |
//! |---|---|
//! | `plot` | `x` and `y`: axes; `series`: each `name`, `mark`, `colour`, and the lists `x` and `y`; a missing `x` is that of the first series |
//! | `bars` | `value`: the axis; `stacked`; `categories`; `series`: each `name`, `colour` and `values` |
//! | `gantt` | `x`: the axis; `rows`: their names; `series`: each `name`, `colour`, and for each bar its number of the `row`, `begin` and `end` |
//! | `heat` | `rows` and `columns`: their names; `unit`; `values`, by row; where columns stand for numbers, `column` (label and unit) and `column_values` |
//!
//! An axis has `label`, `unit`, `scale` (`linear`, `log`, `doubling`), and `from` and `to` where they are fixed. A value that is not finite is
//! `null`: a gap. Numbers have six significant digits.

use super::{Axis, BarChart, Gantt, HeatMap, Plot};
use serde_json::Value;
use std::fmt::Write;

/// A drawing of any kind.
#[derive(Clone, Debug)]
pub enum Drawing {
    /// A plot over two axes.
    Plot(Plot),
    /// Bars over categories.
    Bars(BarChart),
    /// Bars over time.
    Gantt(Gantt),
    /// A matrix.
    Heat(HeatMap),
}

impl From<Plot> for Drawing {
    fn from(plot: Plot) -> Drawing {
        Drawing::Plot(plot)
    }
}

impl From<BarChart> for Drawing {
    fn from(bars: BarChart) -> Drawing {
        Drawing::Bars(bars)
    }
}

impl From<Gantt> for Drawing {
    fn from(chart: Gantt) -> Drawing {
        Drawing::Gantt(chart)
    }
}

impl From<HeatMap> for Drawing {
    fn from(map: HeatMap) -> Drawing {
        Drawing::Heat(map)
    }
}

impl Drawing {
    /// Returns the title.
    pub fn title(&self) -> &str {
        match self {
            Drawing::Plot(plot) => &plot.title,
            Drawing::Bars(bars) => &bars.title,
            Drawing::Gantt(chart) => &chart.title,
            Drawing::Heat(map) => &map.title,
        }
    }

    /// Returns the drawing as an `<svg>` element.
    pub fn to_svg(&self) -> String {
        match self {
            Drawing::Plot(plot) => plot.to_svg(),
            Drawing::Bars(bars) => bars.to_svg(),
            Drawing::Gantt(chart) => chart.to_svg(),
            Drawing::Heat(map) => map.to_svg(),
        }
    }

    /// Returns the model in JSON; see the module.
    pub fn to_json(&self) -> Value {
        let mut model = match self {
            Drawing::Plot(plot) => plot.model(),
            Drawing::Bars(bars) => bars.model(),
            Drawing::Gantt(chart) => chart.model(),
            Drawing::Heat(map) => map.model(),
        };
        model["title"] = self.title().into();
        model
    }

    /// Returns the data as a table: a header with units, then a line per point, value or cell.
    pub fn to_csv(&self) -> String {
        let model = self.to_json();
        let mut csv = String::new();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        match self {
            Drawing::Plot(_) => {
                let _ = writeln!(csv, "series,{},{}", head(&model["x"]), head(&model["y"]));
                let series = list(&model["series"]);
                for one in &series {
                    let xs = if one["x"].is_null() { &series[0]["x"] } else { &one["x"] };
                    for (x, y) in list(xs).iter().zip(list(&one["y"])) {
                        let _ = writeln!(csv, "{},{},{}", field(&one["name"]), field(x), field(&y));
                    }
                }
            }
            Drawing::Bars(_) => {
                let _ = writeln!(csv, "category,series,{}", head(&model["value"]));
                for one in list(&model["series"]) {
                    for (category, value) in list(&model["categories"]).iter().zip(list(&one["values"])) {
                        let _ =
                            writeln!(csv, "{},{},{}", field(category), field(&one["name"]), field(&value));
                    }
                }
            }
            Drawing::Gantt(_) => {
                let unit = unit_name(&model["x"]["unit"]);
                let _ = writeln!(csv, "row,series,{},{}", named("begin", unit), named("end", unit));
                for one in list(&model["series"]) {
                    let bars = list(&one["row"]).into_iter().zip(list(&one["begin"])).zip(list(&one["end"]));
                    for ((row, begin), end) in bars {
                        let row = row.as_u64().map_or(&Value::Null, |row| &model["rows"][row as usize]);
                        let fields = [row, &one["name"], &begin, &end].map(field);
                        let _ = writeln!(csv, "{}", fields.join(","));
                    }
                }
            }
            Drawing::Heat(_) => {
                let moments = model.get("column_values");
                let column = moments.map_or("column".into(), |_| head(&model["column"]));
                let value = named("value", unit_name(&model["unit"]));
                let _ = writeln!(csv, "row,{column},{}", field(&value.into()));
                let columns = list(moments.unwrap_or(&model["columns"]));
                for (row, values) in list(&model["rows"]).iter().zip(list(&model["values"])) {
                    for (column, value) in columns.iter().zip(list(&values)) {
                        let _ = writeln!(csv, "{},{},{}", field(row), field(column), field(&value));
                    }
                }
            }
        }
        csv
    }
}

/// Returns the heading of a column: the label of an axis with its unit.
fn head(axis: &Value) -> String {
    field(&named(axis["label"].as_str().unwrap_or_default(), unit_name(&axis["unit"])).into())
}

fn named(label: &str, unit: &str) -> String {
    match (label, unit) {
        (label, "") => label.into(),
        ("", unit) => unit.into(),
        (label, unit) => format!("{label} ({unit})"),
    }
}

/// Returns the name of a unit by its key in the model; empty for a plain number.
fn unit_name(key: &Value) -> &'static str {
    match key.as_str() {
        Some("ns") => "ns",
        Some("seconds") => "s",
        Some("bytes" | "binary_bytes") => "bytes",
        Some("bytes_per_second") => "bytes/s",
        Some("share") => "share",
        _ => "",
    }
}

/// Returns a field of a table: text in quotes if necessary, empty for a gap.
fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns a number of the model.
pub(super) fn number(value: f64) -> Value {
    match value.is_finite() {
        // All the digits of a double would double the size of a page.
        true => format!("{value:.5e}").parse::<f64>().map_or(Value::Null, Value::from),
        false => Value::Null,
    }
}

pub(super) fn axis(axis: &Axis) -> Value {
    let mut model = serde_json::json!({
        "label": axis.label,
        "unit": axis.unit.key(),
        "scale": if axis.doubling { "doubling" } else if axis.log { "log" } else { "linear" },
    });
    for (key, end) in [("from", axis.from), ("to", axis.to)] {
        if let Some(end) = end {
            model[key] = number(end);
        }
    }
    model
}
