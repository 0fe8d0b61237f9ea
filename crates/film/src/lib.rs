//! A film of a drive: what each block holds over time, in a bounded number of bytes; and what shows it.
//!
//! ```text
//!  BlockMap ─► Recorder ─► Film ─► to_json ─► film page (map.js, film.js)
//!         │                  └───► still, an SVG
//!         └──► frame (one moment) ─► live page of the monitor (map.js)
//! ```
//! A film has frames at moments of equal distance. The first describes every cell, each later one the cells that are others than in
//! the frame before. When the frames are too many, or take too many bytes, every second one is merged into the next.
//!
//! A cell is a block. Where a drive has more than [`CELLS_MAX`], a cell is several neighbouring blocks of a die: it has their mean of
//! valid data, the sum of their erases, and the most remarkable of their uses.
//!
//! The format of a frame, a run of changed cells with equal content after the other:
//!
//! | field | content |
//! |---|---|
//! | varint | cells between the last run and this one |
//! | varint | cells of the run x 4, + 1 if a stream follows, + 2 if erases follow |
//! | byte | level of valid data (0 to 15) x 8 + use |
//! | byte | stream, if it has changed |
//! | varint | erases, if they have changed |
//!
//! A varint has seven bits to a byte, the lowest first; the highest bit says that another byte follows.

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
