//! The script of pages with figures: it redraws plots over two axes with uPlot, so that readers can hover and zoom, and exports every figure as SVG
//! and CSV. It reads the figures' model embedded in the page.

use super::Figure;

/// The plotting library; see vendor/uplot.
pub const UPLOT: &str = include_str!("../../vendor/uplot/uPlot.iife.min.js");
/// The library's styles.
pub const UPLOT_STYLE: &str = include_str!("../../vendor/uplot/uPlot.min.css");
/// Styles of pages with figures, after the library's.
pub const STYLE: &str =
    concat!(include_str!("../../vendor/uplot/uPlot.min.css"), "\n", include_str!("figures.css"));

const SCRIPT: &str = include_str!("figures.js");

/// Returns the figures of a page in JSON: `figures.json` of a report.
pub fn figures_json(figures: &[Figure]) -> String {
    let models: Vec<_> = figures.iter().map(Figure::to_json).collect();
    let mut text = serde_json::Value::from(models).to_string();
    text.push('\n');
    text
}

/// Returns the elements at the end of a page: the data of its figures, the library, and the script; nothing without figures.
pub fn elements(figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    // Escaped, the data need no entities and cannot end the element, in XML and in HTML.
    let data = figures_json(figures).replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    format!(
        "<script type=\"application/json\" id=\"figures\">{data}</script>\
         <script>//<![CDATA[\n{UPLOT}\n{SCRIPT}\n//]]></script>"
    )
}
