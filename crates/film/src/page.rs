//! Pages that show films in a browser. The surrounding page, and the plots beside the map, are the caller's.

use crate::cell::{Cell, Grid};
use crate::codec::{Change, encode};
use crate::film::Film;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pellucid_flash::{BlockMap, BlockStream, BlockUse};
use serde::Serialize;
use serde_json::{Value, json};

/// Script that decodes frames and draws maps: `DriveMap`, `mapLegend`, `MAP_MODES`.
pub const MAP_SCRIPT: &str = include_str!("page/map.js");

/// Styles of a page of films.
pub const STYLE: &str = include_str!("page/film.css");

const FILM_SCRIPT: &str = include_str!("page/film.js");

/// Controls of a film page; its script fills them.
const CONTROLS: &str = "<div class=\"controls card\"><button id=\"play\">Play</button>\
     <button id=\"step\">Next frame</button><input id=\"time\" type=\"range\" min=\"0\" value=\"0\" aria-label=\"moment\"/>\
     <output id=\"clock\"></output><label>speed <select id=\"speed\"><option value=\"0.1\">0.1</option>\
     <option value=\"0.3\">0.3</option><option value=\"1\" selected=\"\">1</option><option value=\"3\">3</option></select></label>\
     <label>colour <select id=\"mode\"></select></label></div><div id=\"legend\" class=\"legend\"></div>\
     <noscript><p>Films are played by a script, which this browser does not run.</p></noscript>\
     <div id=\"panels\" class=\"panels\"></div>";

/// A latency over time.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Its name.
    pub name: &'static str,
    /// The latency in each interval; absent if nothing completed.
    pub ns: Vec<Option<u64>>,
}

/// Latencies over the time of a film; empty without simulated time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Curves {
    /// Start of each interval, since the start of the film.
    pub seconds: Vec<f64>,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// The body of a page that plays these films together, with its scripts; they need uPlot. All films have the same clock.
pub fn body(films: &[(&Film, Curves)]) -> String {
    let one = |(film, curves): &(&Film, Curves)| {
        let mut value = film.to_json();
        value["curves"] = json!(curves);
        value
    };
    let data = Value::Array(films.iter().map(one).collect()).to_string();
    // Keeps the data from closing the element.
    let data = data.replace('<', "\\u003c");
    format!(
        "<main>{CONTROLS}</main><script type=\"application/json\" id=\"films\">{data}</script>\
         <script>\n{MAP_SCRIPT}</script><script>\n{FILM_SCRIPT}</script>"
    )
}

/// One moment of a drive as JSON, for live pages: shape, names, and a frame that describes every cell.
pub fn live_frame(map: &BlockMap) -> Value {
    let grid = Grid::of(map);
    let cells = grid.reduce(&map.blocks).into_iter().zip(0..);
    let frame = encode(cells.filter_map(|(cell, at)| Some((at, Change::between(Cell::default(), cell)?))));
    json!({
        "grid": grid,
        "uses": BlockUse::ALL.map(BlockUse::name),
        "streams": BlockStream::NAMED.map(|(_, name)| name),
        "frame": STANDARD.encode(frame),
    })
}
