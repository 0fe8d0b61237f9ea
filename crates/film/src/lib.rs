//! A film of a drive: the content of each block over time, in a bounded number of bytes, and its display.
//!
//! ```text
//!  BlockMap ─► Recorder ─► Film ─► to_json ─► film page (map.js, film.js)
//!         │                  └───► still, an SVG
//!         └──► frame (one moment) ─► live page of the monitor (map.js)
//! ```
//! Frames are equally spaced. The first one describes every cell, each later one the cells that differ from the previous frame. When the frames
//! become too many, or too large, every second one is merged into the next.
//!
//! A cell is a block. On a drive with more than [`CELLS_MAX`] blocks, a cell is several neighbouring blocks of a die, with the mean of their valid
//! data, the sum of their erases, and the most notable of their uses.
//!
//! Format of a frame: runs of consecutive changed cells with equal content:
//!
//! | field | content |
//! |---|---|
//! | varint | cells between the last run and this one |
//! | varint | cells of the run x 4, + 1 if a stream follows, + 2 if erases follow |
//! | byte | level of valid data (0 to 15) x 8 + use |
//! | byte | stream, if it has changed |
//! | varint | erases, if they have changed |
//!
//! A varint has seven bits per byte, lowest first; the highest bit means that another byte follows.

mod cell;
mod codec;
mod film;
mod page;
mod recorder;
mod still;

pub use cell::{CELLS_MAX, Grid};
pub use film::{Film, Moment};
pub use page::{Curve, Curves, MAP_SCRIPT, STYLE, body, live_frame};
pub use recorder::{Clock, FILM_BYTES, Recorder};
