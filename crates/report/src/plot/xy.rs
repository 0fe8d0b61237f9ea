//! Lines, points, areas and columns over two axes.

use super::axis::{Axis, Scale, Unit};
use super::model::{axis, number};
use super::{COLOURS, Canvas, Frame, HEIGHT, WIDTH, box_swatch, legend_height};
use serde_json::{Value, json};
use std::fmt::Write;

/// Drawing style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A line through the points.
    Line,
    /// A dashed line.
    Dashed,
    /// A dotted line.
    Dotted,
    /// A circle at each point.
    Points,
    /// A line with the area below it filled.
    Area,
    /// A column from one point's x to the next one's; the last point only ends the last column.
    Columns,
}

impl Mark {
    /// Returns the name in the model of a figure.
    fn key(self) -> &'static str {
        match self {
            Mark::Line => "line",
            Mark::Dashed => "dashed",
            Mark::Dotted => "dotted",
            Mark::Points => "points",
            Mark::Area => "area",
            Mark::Columns => "columns",
        }
    }
}

#[derive(Clone, Debug)]
struct Series {
    name: String,
    mark: Mark,
    colour: usize,
    points: Vec<(f64, f64)>,
}

/// Number of tooltips across the width of a plot; more would only make pages heavy.
const HITS: usize = 80;

/// Number of points above which lines are drawn thinner.
const DENSE: usize = 250;

/// A plot over two axes.
#[derive(Clone, Debug)]
pub struct Plot {
    pub(super) title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
}

impl Plot {
    /// Makes an empty plot, 640 by 300 units, with plain axes.
    pub fn new(title: &str) -> Plot {
        let axis = || Axis::linear("", Unit::Plain);
        Plot { title: title.into(), x: axis(), y: axis(), series: Vec::new() }
    }

    /// Sets the horizontal axis.
    pub fn x_axis(mut self, axis: Axis) -> Plot {
        self.x = axis;
        self
    }

    /// Sets the vertical axis.
    pub fn y_axis(mut self, axis: Axis) -> Plot {
        self.y = axis;
        self
    }

    /// Adds a series of `(x, y)` with rising x, in the next colour. An empty name keeps it out of the legend.
    pub fn series(mut self, name: &str, mark: Mark, points: Vec<(f64, f64)>) -> Plot {
        let colour = self.series.len() % COLOURS;
        self.series.push(Series { name: name.into(), mark, colour, points });
        self
    }

    /// Adds a line.
    pub fn line(self, name: &str, points: Vec<(f64, f64)>) -> Plot {
        self.series(name, Mark::Line, points)
    }

    /// Adds a dashed line.
    pub fn dashed(self, name: &str, points: Vec<(f64, f64)>) -> Plot {
        self.series(name, Mark::Dashed, points)
    }

    /// Adds circles.
    pub fn points(self, name: &str, points: Vec<(f64, f64)>) -> Plot {
        self.series(name, Mark::Points, points)
    }

    /// Sets the colour of the series added last, for example to its partner's.
    pub fn colour(mut self, colour: usize) -> Plot {
        if let Some(series) = self.series.last_mut() {
            series.colour = colour % COLOURS;
        }
        self
    }

    /// Returns the plot in the model of [`super::Drawing`].
    pub(super) fn model(&self) -> Value {
        let xs = |series: &Series| series.points.iter().map(|point| point.0.to_bits()).collect::<Vec<u64>>();
        let shared = self.series.first().map(xs);
        let one = |(at, series): (usize, &Series)| {
            let mut one = json!({
                "name": series.name,
                "mark": series.mark.key(),
                "colour": series.colour,
                "y": series.points.iter().map(|point| number(point.1)).collect::<Vec<_>>(),
            });
            if at == 0 || Some(xs(series)) != shared {
                one["x"] = series.points.iter().map(|point| number(point.0)).collect();
            }
            one
        };
        let series: Vec<Value> = self.series.iter().enumerate().map(one).collect();
        json!({ "kind": "plot", "x": axis(&self.x), "y": axis(&self.y), "series": series })
    }

    /// Returns the plot as an `<svg>` element.
    pub fn to_svg(&self) -> String {
        let all = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let drawing = Drawing {
            plot: self,
            x: self.x.scale(all().map(|point| point.0)),
            y: self.y.scale(all().map(|point| point.1)),
            frame: self.frame(),
        };
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        let described = format!("{} over {}: {}", self.y.label, self.x.label, names.join(", "));
        let mut canvas = Canvas::new(WIDTH, HEIGHT, &self.title, &described);
        canvas.legend(&self.legend(), 28.0, WIDTH);
        drawing.axes(&mut canvas);
        for series in &self.series {
            drawing.series(&mut canvas, series);
        }
        drawing.tooltips(&mut canvas);
        canvas.finish()
    }

    fn legend(&self) -> Vec<(&str, String)> {
        let items = self.series.iter().filter(|series| !series.name.is_empty());
        items.map(|series| (series.name.as_str(), swatch(series))).collect()
    }

    fn frame(&self) -> Frame {
        let top = 56.0 + legend_height(&self.legend(), WIDTH);
        let (left, right, bottom) = (66.0, 18.0, 42.0);
        Frame { left, top, width: WIDTH - left - right, height: HEIGHT - top - bottom }
    }
}

fn swatch(series: &Series) -> String {
    let c = series.colour;
    match series.mark {
        Mark::Points => format!("<circle class=\"f{c}\" cx=\"8\" cy=\"5\" r=\"4\"/>"),
        Mark::Area | Mark::Columns => box_swatch(c),
        mark => format!("<path class=\"line s{c}{}\" d=\"M0 5H17\"/>", dash(mark)),
    }
}

fn dash(mark: Mark) -> &'static str {
    match mark {
        Mark::Dashed => " dashed",
        Mark::Dotted => " dotted",
        _ => "",
    }
}

/// A plot with its ranges known.
struct Drawing<'a> {
    plot: &'a Plot,
    x: Scale,
    y: Scale,
    frame: Frame,
}

impl Drawing<'_> {
    fn at(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        let (x, y) = (self.x.place(x)?, self.y.place(y)?);
        Some((self.frame.left + x * self.frame.width, self.frame.bottom() - y * self.frame.height))
    }

    fn axes(&self, canvas: &mut Canvas) {
        let Frame { left, top, .. } = self.frame;
        let (right, bottom) = (self.frame.right(), self.frame.bottom());
        for (value, words) in &self.y.ticks {
            let y = bottom - self.y.place(*value).unwrap_or(0.0) * self.frame.height;
            if let Some(words) = words {
                canvas.line("grid", (left, y), (right, y));
                canvas.text("end", (left - 7.0, y + 4.0), words);
            }
        }
        for (value, words) in &self.x.ticks {
            let x = left + self.x.place(*value).unwrap_or(0.0) * self.frame.width;
            if let Some(words) = words {
                canvas.line("grid", (x, top), (x, bottom));
                canvas.text("mid", (x, bottom + 17.0), words);
            }
            canvas.line("rule", (x, bottom), (x, bottom + if words.is_some() { 5.0 } else { 3.0 }));
        }
        canvas.line("rule", (left, bottom), (right, bottom));
        canvas.text("", (4.0, top - 14.0), &self.plot.y.label);
        canvas.text("end", (right, bottom + 35.0), &self.plot.x.label);
    }

    fn series(&self, canvas: &mut Canvas, series: &Series) {
        let c = series.colour;
        let thin = if series.points.len() > DENSE { " thin" } else { "" };
        match series.mark {
            Mark::Line | Mark::Dashed | Mark::Dotted => {
                let path = self.path(&series.points);
                canvas.raw(&format!("<path class=\"line s{c}{}{thin}\" d=\"{path}\"/>", dash(series.mark)));
            }
            Mark::Area => {
                canvas.raw(&format!("<path class=\"area f{c}\" d=\"{}\"/>", self.area(&series.points)));
                canvas.raw(&format!("<path class=\"line s{c}{thin}\" d=\"{}\"/>", self.path(&series.points)));
            }
            Mark::Points => {
                for (x, y) in series.points.iter().filter_map(|point| self.at(*point)) {
                    canvas.raw(&format!("<circle class=\"f{c}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>"));
                }
            }
            Mark::Columns => self.columns(canvas, series),
        }
    }

    /// Returns a path through the points that starts anew after each gap. The `h0` shows a point between two gaps.
    fn path(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::new();
        let mut drawing = false;
        for point in points {
            match self.at(*point) {
                Some((x, y)) if drawing => drop(write!(path, "L{x:.1} {y:.1}")),
                Some((x, y)) => drop(write!(path, "M{x:.1} {y:.1}h0")),
                None => {}
            }
            drawing = self.at(*point).is_some();
        }
        path
    }

    /// Returns the area under each unbroken run of points.
    fn area(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::new();
        for run in points.split(|point| self.at(*point).is_none()) {
            let places: Vec<_> = run.iter().filter_map(|point| self.at(*point)).collect();
            let (Some(first), Some(last)) = (places.first(), places.last()) else {
                continue;
            };
            let bottom = self.frame.bottom();
            let _ = write!(path, "M{:.1} {bottom:.1}", first.0);
            for (x, y) in &places {
                let _ = write!(path, "L{x:.1} {y:.1}");
            }
            let _ = write!(path, "L{:.1} {bottom:.1}Z", last.0);
        }
        path
    }

    fn columns(&self, canvas: &mut Canvas, series: &Series) {
        for pair in series.points.windows(2) {
            let (Some((left, top)), Some((right, _))) = (self.at(pair[0]), self.at((pair[1].0, pair[0].1)))
            else {
                continue;
            };
            let gap = if right - left > 4.0 { 1.0 } else { 0.0 };
            let frame =
                Frame { left, top, width: (right - left - gap).max(0.5), height: self.frame.bottom() - top };
            let (x, y) = (&self.plot.x, &self.plot.y);
            let tooltip = format!(
                "{} {} to {}\n{} {}",
                x.label,
                x.unit.show(pair[0].0),
                x.unit.show(pair[1].0),
                y.label,
                y.unit.show(pair[0].1)
            );
            canvas.rect(&format!("bar f{}", series.colour), frame, "", &tooltip);
        }
    }

    /// Draws invisible strips over the plot, whose tooltips state every line's value at the point nearest to the strip's middle.
    fn tooltips(&self, canvas: &mut Canvas) {
        let lines: Vec<&Series> = self.plot.series.iter().filter(|s| s.mark != Mark::Columns).collect();
        let places: Vec<Vec<(f64, (f64, f64))>> = lines
            .iter()
            .map(|s| s.points.iter().filter_map(|p| Some((self.at(*p)?.0, *p))).collect())
            .collect();
        let most = places.iter().map(Vec::len).max().unwrap_or(0).min(HITS);
        for i in 0..most {
            let width = self.frame.width / most as f64;
            let left = self.frame.left + i as f64 * width;
            let middle = left + width / 2.0;
            let mut tooltip = String::new();
            for (series, places) in lines.iter().zip(&places) {
                let distance = |place: &&(f64, (f64, f64))| (place.0 - middle).abs();
                let nearest = places.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
                let Some((_, (x, y))) = nearest.filter(|place| distance(place) <= width * 1.5) else {
                    continue;
                };
                let (x, y) = (self.plot.x.unit.show(*x), self.plot.y.unit.show(*y));
                let name = if series.name.is_empty() { &self.plot.y.label } else { &series.name };
                let _ = writeln!(tooltip, "{x}: {name} {y}");
            }
            if !tooltip.is_empty() {
                let frame = Frame { left, width, ..self.frame };
                canvas.rect("hit", frame, "", tooltip.trim_end());
            }
        }
    }
}
