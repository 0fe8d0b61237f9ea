//! NAND flash media: legal operations, their times, wear, faults, and the data.
//!
//! [`Media`] is a state machine without a clock: it says how long an operation takes and what it leaves behind, and its
//! caller decides when. It is pure but for the file store, and everything random comes from the seed.

mod config;
mod divide;
mod error;
mod faults;
mod media;
mod state;
mod store;
mod times;

pub use config::{Cell, Faults, ListedFault, MediaConfig, StoreKind, Timing};
pub use error::{MediaError, RuleError, StoreError};
pub use media::{Health, Media, Outcome, ReadResult, Spare};
