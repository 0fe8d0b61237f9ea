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
