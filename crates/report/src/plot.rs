//! Small plots as SVG text: lines, points and columns over two axes; bars over categories; heat maps; Gantt charts.
//!
//! ```
//! use pellucid_report::plot::{Axis, Plot, Unit};
//! let svg = Plot::new("Throughput")
//!     .x_axis(Axis::linear("outstanding requests", Unit::Count).from(0.0))
//!     .y_axis(Axis::linear("throughput", Unit::BytesPerSecond).from(0.0))
//!     .line("published", vec![(1.0, 2e8), (2.0, 4e8)])
//!     .points("measured", vec![(1.0, 2.1e8), (2.0, 3.9e8)])
//!     .to_svg();
//! assert!(svg.starts_with("<svg"));
//! ```
//! A plot is plain data until `to_svg` returns an `<svg>` element without style. A page includes [`STYLE`] once: its colours are the custom
//! properties `--c0` ... `--c9` and follow the reader's light or dark setting. [`standalone`] makes a separate file with plain colours, because many
//! programs do not support custom properties. Every mark is named in a legend and every value has a tooltip (`<title>`), so nothing depends on
//! colour.
//!
//! Values that are not finite, and values at or below zero on a logarithmic axis, are gaps.

mod axis;
mod bars;
mod gantt;
mod heat;
mod model;
mod xy;

pub use axis::{Axis, Unit};
pub use bars::{BarChart, Bars};
pub use gantt::Gantt;
pub use heat::HeatMap;
pub use model::Drawing;
pub use xy::{Mark, Plot};

use std::fmt::Write;

/// Number of colours that a page defines; later series reuse them from the first on.
pub const COLOURS: usize = 10;

/// Width of all drawings, and height of those that do not depend on their rows, in user units.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;

/// Style sheet of all plots: light by default, dark if the reader's system is.
pub const STYLE: &str = include_str!("plot/style.css");

/// Start of the first rule of [`STYLE`], after the definitions of its colours.
const RULES: &str = ".plot {";

/// Escapes the characters of `text` that have a meaning in XML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Makes a separate SVG file, on light paper, from the `<svg>` element of a plot.
pub fn standalone(svg: &str) -> String {
    let style = plain_style();
    let style = format!("><style>\n{style}</style><rect class=\"paper\" width=\"100%\" height=\"100%\"/>");
    svg.replacen('>', &style, 1)
}

/// Returns the rules of [`STYLE`] with the light colours written out.
fn plain_style() -> String {
    let (definitions, rules) = STYLE.split_at(STYLE.find(RULES).unwrap_or(0));
    let light = definitions.split("@media").next().unwrap_or_default();
    let mut style = rules.to_string();
    for definition in light.split(['{', ';', '}']) {
        if let Some((name, colour)) = definition.trim().split_once(": ") {
            style = style.replace(&format!("var({name})"), colour);
        }
    }
    style
}

/// Rectangle that marks are drawn in, in user units of the drawing.
#[derive(Clone, Copy, Debug)]
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Frame {
    fn right(&self) -> f64 {
        self.left + self.width
    }

    fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// An SVG under construction.
struct Canvas(String);

impl Canvas {
    /// Opens the drawing and writes its title; `described` is read aloud after the title.
    fn new(width: f64, height: f64, title: &str, described: &str) -> Canvas {
        let (title, described) = (escape(title), escape(described));
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {width} {height}\" \
             role=\"img\" aria-label=\"{title}. {described}\">"
        );
        let _ = write!(out, "<text class=\"title\" x=\"4\" y=\"18\">{title}</text>");
        Canvas(out)
    }

    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = write!(
            self.0,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let _ = write!(self.0, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
    }

    /// Draws a rectangle with a tooltip; `extra` is further attributes.
    fn rect(&mut self, class: &str, frame: Frame, extra: &str, tooltip: &str) {
        let Frame { left, top, width, height } = frame;
        let _ = write!(
            self.0,
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"{extra}><title>{}</title></rect>",
            escape(tooltip)
        );
    }

    fn raw(&mut self, element: &str) {
        self.0.push_str(element);
    }

    /// Draws a legend below `top`, within `width`.
    fn legend(&mut self, items: &[(&str, String)], top: f64, width: f64) {
        for ((name, swatch), (x, row)) in items.iter().zip(legend_places(items, width)) {
            let y = top + row * LEGEND_ROW;
            let _ = write!(self.0, "<g transform=\"translate({x:.1} {y:.1})\">{swatch}</g>");
            self.text("key", (x + 22.0, y + 9.0), name);
        }
    }

    fn finish(mut self) -> String {
        self.0.push_str("</svg>");
        self.0
    }
}

const LEGEND_ROW: f64 = 17.0;

/// Returns the x and the row of each legend item. Text width is estimated at seven units per character.
fn legend_places(items: &[(&str, String)], width: f64) -> Vec<(f64, f64)> {
    let (mut x, mut row) = (4.0, 0.0);
    let mut places = Vec::new();
    for (name, _) in items {
        let item = 36.0 + 7.0 * name.chars().count() as f64;
        if x > 4.0 && x + item > width {
            (x, row) = (4.0, row + 1.0);
        }
        places.push((x, row));
        x += item;
    }
    places
}

fn legend_height(items: &[(&str, String)], width: f64) -> f64 {
    legend_places(items, width).last().map_or(0.0, |(_, row)| (row + 1.0) * LEGEND_ROW)
}

/// Returns the legend swatch of a filled area.
fn box_swatch(colour: usize) -> String {
    format!("<rect class=\"f{}\" x=\"2\" width=\"12\" height=\"10\" rx=\"2\"/>", colour % COLOURS)
}

#[cfg(test)]
pub(crate) mod tests;
