//! Text that people write and read: quantities with units, numbers of a report, and the word that was meant.
//!
//! [`Quantity`] reads and writes sizes, times and rates exactly, [`format`](mod@format) rounds numbers for a reader, [`suggest`] finds the known
//! word nearest to a mistyped one. Pure: nothing here knows what the text is about.

pub mod format;
mod quantity;
mod share;
pub mod suggest;

pub use quantity::Quantity;
pub use share::{PLAIN_SHARE_MAX, read_share, write_share};
