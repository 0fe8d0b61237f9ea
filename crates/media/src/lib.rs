//! NAND flash media: legal operations, their times, wear, faults, and the data.

mod config;

pub use config::{Cell, Faults, ListedFault, MediaConfig, StoreKind, Timing};
