//! Bars over categories: stacked and lying, or side by side and standing.

use super::axis::{Axis, Scale, Unit};
use super::model::{axis, number};
use super::{COLOURS, Canvas, Frame, HEIGHT, WIDTH, box_swatch, legend_height};
use serde_json::{Value, json};

/// Arrangement of the values of one category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bars {
    /// One horizontal bar per category, its parts end to end.
    Stacked,
    /// Vertical bars side by side.
    Grouped,
}

/// Height of a horizontal bar with its space.
const ROW: f64 = 54.0;

/// Bars over categories.
#[derive(Clone, Debug)]
pub struct BarChart {
    pub(super) title: String,
    bars: Bars,
    axis: Axis,
    categories: Vec<String>,
    series: Vec<(String, usize, Vec<f64>)>,
}

impl BarChart {
    /// Makes an empty chart, 640 units wide; 300 high when grouped, as high as its categories need when stacked.
    pub fn new(title: &str, bars: Bars) -> BarChart {
        BarChart {
            title: title.into(),
            bars,
            axis: Axis::linear("", Unit::Plain),
            categories: Vec::new(),
            series: Vec::new(),
        }
    }

    /// Sets the axis of the values. Bars begin at its low end, 0 by default.
    pub fn value_axis(mut self, axis: Axis) -> BarChart {
        self.axis = axis;
        self
    }

    /// Sets the names of the categories.
    pub fn categories<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> BarChart {
        self.categories = names.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a series: one value per category. An empty name keeps it out of the legend.
    pub fn series(mut self, name: &str, values: Vec<f64>) -> BarChart {
        let colour = self.series.len() % COLOURS;
        self.series.push((name.into(), colour, values));
        self
    }

    /// Sets the colour of the series added last, so that a part has the same one in every chart.
    pub fn colour(mut self, colour: usize) -> BarChart {
        if let Some((_, of, _)) = self.series.last_mut() {
            *of = colour % COLOURS;
        }
        self
    }

    /// Returns the chart in the model of [`super::Drawing`].
    pub(super) fn model(&self) -> Value {
        let one = |(name, colour, values): &(String, usize, Vec<f64>)| {
            let values: Vec<Value> = values.iter().copied().map(number).collect();
            json!({ "name": name, "colour": colour, "values": values })
        };
        let series: Vec<Value> = self.series.iter().map(one).collect();
        let stacked = self.bars == Bars::Stacked;
        json!({
            "kind": "bars", "value": axis(&self.axis), "stacked": stacked, "categories": self.categories, "series": series,
        })
    }

    /// Returns the chart as an `<svg>` element.
    pub fn to_svg(&self) -> String {
        let names: Vec<&str> = self.series.iter().map(|series| series.0.as_str()).collect();
        let described = format!("Bars for {}: {}", self.categories.join(", "), names.join(", "));
        let top = 38.0 + legend_height(&self.legend(), WIDTH);
        let height = match self.bars {
            Bars::Stacked => top + ROW * self.categories.len() as f64 + 44.0,
            Bars::Grouped => HEIGHT,
        };
        let mut canvas = Canvas::new(WIDTH, height, &self.title, &described);
        canvas.legend(&self.legend(), 28.0, WIDTH);
        match self.bars {
            Bars::Stacked => self.stacked(&mut canvas, top),
            Bars::Grouped => self.grouped(&mut canvas, top + 20.0),
        }
        canvas.finish()
    }

    fn legend(&self) -> Vec<(&str, String)> {
        let named = self.series.iter().filter(|(name, ..)| !name.is_empty());
        named.map(|(name, colour, _)| (name.as_str(), box_swatch(*colour))).collect()
    }

    fn value(&self, series: usize, category: usize) -> f64 {
        let value = self.series[series].2.get(category).copied().unwrap_or(0.0);
        if value.is_finite() { value } else { 0.0 }
    }

    fn tooltip(&self, series: usize, category: usize) -> String {
        let value = self.axis.unit.show(self.value(series, category));
        format!("{}\n{} {value}", self.categories[category], self.series[series].0)
    }

    /// Returns the scale, which includes zero unless the axis has a fixed start or is logarithmic.
    fn scale(&self, values: impl Iterator<Item = f64>) -> Scale {
        let zero = (!self.axis.log).then_some(0.0);
        self.axis.scale(values.chain(zero))
    }

    fn stacked(&self, canvas: &mut Canvas, top: f64) {
        let sums = (0..self.categories.len()).map(|c| (0..self.series.len()).map(|s| self.value(s, c)).sum());
        let scale = self.scale(sums);
        let longest = self.categories.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let left = 18.0 + 6.8 * longest as f64;
        let height = ROW * self.categories.len() as f64;
        let frame = Frame { left, top, width: WIDTH - left - 26.0, height };
        let place = |value| left + scale.place(value).unwrap_or(0.0) * frame.width;
        for (value, words) in &scale.ticks {
            let x = place(*value);
            canvas.line("grid", (x, top), (x, frame.bottom()));
            canvas.text("mid", (x, frame.bottom() + 17.0), words.as_deref().unwrap_or_default());
        }
        for (c, name) in self.categories.iter().enumerate() {
            let y = top + ROW * c as f64;
            canvas.text("end", (left - 9.0, y + ROW / 2.0 + 4.0), name);
            let mut sum = 0.0;
            for (s, (_, colour, _)) in self.series.iter().enumerate() {
                let (from, to) = (place(sum), place(sum + self.value(s, c)));
                sum += self.value(s, c);
                if to - from < 0.05 {
                    continue;
                }
                let bar = Frame { left: from, top: y + 7.0, width: to - from, height: ROW - 14.0 };
                canvas.rect(&format!("bar f{colour}"), bar, "", &self.tooltip(s, c));
                let words = self.axis.unit.show(self.value(s, c));
                if to - from > 9.0 + 6.8 * words.chars().count() as f64 {
                    canvas.text("mid light", ((from + to) / 2.0, y + ROW / 2.0 + 4.0), &words);
                }
            }
        }
        canvas.line("rule", (left, top), (left, frame.bottom()));
        canvas.text("end", (frame.right(), frame.bottom() + 35.0), &self.axis.label);
    }

    fn grouped(&self, canvas: &mut Canvas, top: f64) {
        let scale = self.scale(self.series.iter().flat_map(|series| series.2.iter().copied()));
        let (left, bottom) = (66.0, HEIGHT - 26.0);
        let frame = Frame { left, top, width: WIDTH - left - 18.0, height: bottom - top };
        let place = |value| bottom - scale.place(value).unwrap_or(0.0) * frame.height;
        canvas.text("", (4.0, top - 14.0), &self.axis.label);
        for (value, words) in &scale.ticks {
            if let Some(words) = words {
                canvas.line("grid", (left, place(*value)), (frame.right(), place(*value)));
                canvas.text("end", (left - 7.0, place(*value) + 4.0), words);
            }
        }
        let group = frame.width / self.categories.len().max(1) as f64;
        let bar = group * 0.8 / self.series.len().max(1) as f64;
        let longest = self.categories.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let every = ((longest as f64 * 6.8 + 8.0) / group).ceil().max(1.0) as usize;
        for (c, name) in self.categories.iter().enumerate() {
            let begin = left + group * (c as f64 + 0.1);
            if c % every == 0 {
                canvas.text("mid", (begin + group * 0.4, bottom + 17.0), name);
            }
            for (s, (_, colour, _)) in self.series.iter().enumerate() {
                let top = place(self.value(s, c));
                let place =
                    Frame { left: begin + bar * s as f64, top, width: bar * 0.94, height: bottom - top };
                canvas.rect(&format!("bar f{colour}"), place, "", &self.tooltip(s, c));
            }
        }
        canvas.line("rule", (left, bottom), (frame.right(), bottom));
    }
}
