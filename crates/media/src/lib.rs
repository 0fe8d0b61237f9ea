//! NAND flash media: legal operations, their times, wear, faults, and the data.
//!
//! [`Media`] is a state machine without a clock: it says how long an operation takes and what it leaves behind, and its
//! caller decides when. It is pure but for the file store, and everything random comes from the seed.

mod bit_errors;
mod config;
mod divide;
mod ecc;
mod error;
mod faults;
mod injected;
mod media;
mod scrambler;
mod state;
mod store;
mod times;

pub use bit_errors::{
    BitErrorModel, MlcSymbol, PageState, Pattern, STUDY_PATTERNS, StudyPoint, after_retry, draw_bit_errors,
    inject_bit_errors, scrambler_study, worst_chunk_errors,
};
pub use config::{Cell, Faults, ListedFault, MediaConfig, StoreKind, Timing};
pub use ecc::{Bch, EccError, PageCorrection, PageEcc, PageUncorrectable, Uncorrectable};
pub use error::{MediaError, RuleError, StoreError};
pub use injected::Fault;
pub use media::{Health, Media, Outcome, ReadResult, SnapshotError, Spare};
pub use scrambler::{scramble, scrambler_seed};
