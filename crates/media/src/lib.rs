//! NAND flash media: legal operations, their times, wear, faults, and the data.

mod config;
mod ecc;
mod scrambler;

pub use config::{Cell, Faults, ListedFault, MediaConfig, StoreKind, Timing};
pub use ecc::{Bch, EccError, PageCorrection, PageEcc, PageUncorrectable, Uncorrectable};
pub use scrambler::{scramble, scrambler_seed};
