//! NAND flash media: legal operations, their times, wear, faults, and the data.

mod bit_errors;
mod config;
mod ecc;
mod scrambler;

pub use bit_errors::{
    BitErrorModel, MlcSymbol, PageState, Pattern, STUDY_PATTERNS, StudyPoint, after_retry, draw_bit_errors,
    inject_bit_errors, scrambler_study, worst_chunk_errors,
};
pub use config::{Cell, Faults, ListedFault, MediaConfig, StoreKind, Timing};
pub use ecc::{Bch, EccError, PageCorrection, PageEcc, PageUncorrectable, Uncorrectable};
pub use scrambler::{scramble, scrambler_seed};
