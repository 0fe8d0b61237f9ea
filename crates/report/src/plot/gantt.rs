//! A Gantt chart: what each of several rows does over time.

use super::axis::Axis;
use super::model::{axis, number};
use super::{COLOURS, Canvas, Frame, WIDTH, box_swatch, escape, legend_height};
use serde_json::{Value, json};
use std::fmt::Write;

/// Bars of one name, each with its row, begin and end.
#[derive(Clone, Debug)]
struct Kind {
    name: String,
    bars: Vec<(usize, f64, f64)>,
}

/// Rows of bars over one axis. Bars of one row must not overlap.
#[derive(Clone, Debug)]
pub struct Gantt {
    pub(super) title: String,
    x: Axis,
    rows: Vec<String>,
    kinds: Vec<Kind>,
}

impl Gantt {
    /// Makes a chart without bars, 640 units wide, with rows of these names.
    pub fn new(title: &str, rows: Vec<String>) -> Gantt {
        let x = Axis::linear("", super::Unit::Plain);
        Gantt { title: title.into(), x, rows, kinds: Vec::new() }
    }

    /// Sets the axis; its ends must be fixed.
    pub fn x_axis(mut self, axis: Axis) -> Gantt {
        self.x = axis;
        self
    }

    /// Adds a bar. Bars of one name have one colour.
    ///
    /// # Panics
    /// Without a row of this number.
    pub fn bar(&mut self, row: usize, name: &str, (begin, end): (f64, f64)) {
        assert!(row < self.rows.len(), "row {row} of {}", self.rows.len());
        let known = self.kinds.iter().position(|kind| kind.name == name);
        let at = known.unwrap_or_else(|| {
            self.kinds.push(Kind { name: name.into(), bars: Vec::new() });
            self.kinds.len() - 1
        });
        self.kinds[at].bars.push((row, begin, end));
    }

    /// Returns the chart in the model of [`super::Drawing`].
    pub(super) fn model(&self) -> Value {
        let one = |(at, kind): (usize, &Kind)| {
            json!({
                "name": kind.name,
                "colour": at % COLOURS,
                "row": kind.bars.iter().map(|bar| bar.0).collect::<Vec<_>>(),
                "begin": kind.bars.iter().map(|bar| number(bar.1)).collect::<Vec<_>>(),
                "end": kind.bars.iter().map(|bar| number(bar.2)).collect::<Vec<_>>(),
            })
        };
        let series: Vec<Value> = self.kinds.iter().enumerate().map(one).collect();
        json!({ "kind": "gantt", "x": axis(&self.x), "rows": self.rows, "series": series })
    }

    /// Returns the chart as an `<svg>` element.
    pub fn to_svg(&self) -> String {
        let names: Vec<&str> = self.kinds.iter().map(|kind| kind.name.as_str()).collect();
        let legend: Vec<(&str, String)> =
            (0..).zip(&names).map(|(at, &name)| (name, box_swatch(at))).collect();
        let top = 38.0 + legend_height(&legend, WIDTH);
        let row = (560.0 / self.rows.len().max(1) as f64).clamp(6.0, 22.0);
        let bottom = top + row * self.rows.len() as f64;
        let described = format!("{} rows over {}: {}", self.rows.len(), self.x.label, names.join(", "));
        let mut canvas = Canvas::new(WIDTH, bottom + 44.0, &self.title, &described);
        canvas.legend(&legend, 28.0, WIDTH);
        let frame = Frame { left: 86.0, top, width: WIDTH - 86.0 - 18.0, height: bottom - top };
        self.axes(&mut canvas, frame, row);
        self.bars(&mut canvas, frame, row);
        canvas.finish()
    }

    fn axes(&self, canvas: &mut Canvas, frame: Frame, row: f64) {
        let scale = self.x.scale(std::iter::empty());
        for (value, words) in &scale.ticks {
            let x = frame.left + scale.place(*value).unwrap_or(0.0) * frame.width;
            canvas.line("grid", (x, frame.top), (x, frame.bottom()));
            canvas.text("mid", (x, frame.bottom() + 17.0), words.as_deref().unwrap_or_default());
        }
        let every = (15.0 / row).ceil().max(1.0) as usize;
        for (at, name) in self.rows.iter().enumerate().step_by(every) {
            canvas.text("end", (frame.left - 9.0, frame.top + (at as f64 + 0.5) * row + 4.0), name);
        }
        canvas.line("rule", (frame.left, frame.bottom()), (frame.right(), frame.bottom()));
        canvas.text("end", (frame.right(), frame.bottom() + 35.0), &self.x.label);
    }

    /// Draws the bars, a group per row, whose tooltip states the row's busy share.
    fn bars(&self, canvas: &mut Canvas, frame: Frame, row: f64) {
        let scale = self.x.scale(std::iter::empty());
        let place = |value: f64| frame.left + scale.place(value).unwrap_or(0.0) * frame.width;
        let mut drawn = vec![String::new(); self.rows.len()];
        let mut busy = vec![0.0; self.rows.len()];
        for (colour, kind) in self.kinds.iter().enumerate() {
            for &(at, begin, end) in &kind.bars {
                let (left, width) = (place(begin), (place(end) - place(begin)).max(0.2));
                let top = frame.top + at as f64 * row + 0.5;
                let _ = write!(
                    drawn[at],
                    "<rect class=\"f{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
                    colour % COLOURS,
                    row - 1.0
                );
                busy[at] += end - begin;
            }
        }
        let whole = self.x.to.unwrap_or(0.0) - self.x.from.unwrap_or(0.0);
        for ((name, bars), busy) in self.rows.iter().zip(drawn).zip(busy) {
            let share = if whole > 0.0 { busy / whole } else { 0.0 };
            let words = format!("{name}: busy {}", super::Unit::Percent.show(share));
            canvas.raw(&format!("<g>{bars}<title>{}</title></g>", escape(&words)));
        }
    }
}
