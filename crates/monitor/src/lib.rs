//! Monitors: what drives show while they work, and ways to view it.
//!
//! ```text
//!  engine thread                       side band                readers' threads
//!  Device::snapshot ─► View ─► Board (asked? ─► one swap) ─► Figures ─┬─► JSON         (control socket, page)
//!     only when a reader asked                                        ├─► Prometheus   (/metrics)
//!                                                                     ├─► terminal     (the command's)
//!                                                                     └─► History      (page, from the start on)
//! ```
//! As on the Cosmos+ board (section 4), the figures leave by a separate channel, and a reader never delays the drive. The engine takes a snapshot on
//! request and swaps a pointer; everything else is the reader's work.
//!
//! Names, units and definitions of all figures: `docs/reference/metrics.md`.

mod board;
mod figures;
mod history;
mod http;
mod prometheus;

pub use board::{Board, DriveLuns, LayerSide, LunSide, Protocol, Serving, View, Work};
pub use figures::{
    Bins, CommandFigures, DriveFigures, DriveLunFigures, Figures, Lateness, LayerFigures, LayerValue,
    LunFigures, ProtocolFigures, SCHEMA_VERSION, ServingFigures, WatchedFigures, WayFigures, Wear,
    WorkFigures,
};
pub use http::{Listen, Monitor, MonitorError};
pub use prometheus::metrics;
