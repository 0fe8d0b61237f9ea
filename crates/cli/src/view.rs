//! The terminal view of drives at work.
//!
//! ```text
//!  source (board, or control socket) ─► Figures ─► Model (history, rates) ─► draw ─► terminal
//!             ▲ a few times a second                   ▲ keys
//! ```
//! The view runs in a separate thread for a run, and in the command's thread for `top`; asking the drive does not stop it.

mod draw;
mod model;
mod terminal;

pub use model::Model;
pub use terminal::{Ending, LiveView, Next, Source, leave, show};
