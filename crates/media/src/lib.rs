//! NAND flash media: legal operations, their times, wear, faults, and the data.
//!
//! [`Media`] is a state machine without a clock: it computes the duration of an operation and its effect on the media; its caller
//! decides when it runs. It is pure except for the file store, and all randomness comes from the seed.

mod bit_errors;
mod config;
mod data_path;
mod ecc;
mod error;
mod error_source;
mod faults;
mod injected;
mod integrity;
mod media;
mod retry;
mod scrambler;
mod state;
mod store;
mod times;

pub use bit_errors::{
    BitErrorModel, MlcSymbol, PageState, Pattern, RETRY_FACTOR, RETRY_FLOOR, STUDY_PATTERNS, StudyPoint,
    after_retry, inject_bit_errors, scrambler_study,
};
pub use config::{
    Cell, CellMode, Faults, Keep, ListedFault, MediaConfig, SlcBlocks, Space, StoreKind, StoreName,
    StoreSettings, SyncTo, Timing, Variation,
};
pub use ecc::{Bch, EccError, PageCorrection, PageEcc, PageUncorrectable, Uncorrectable};
pub use error::{MediaError, RuleError, StoreError};
pub use injected::Fault;
pub use integrity::{BitErrors, Ecc, EccCode, EccData, EccSettings, Integrity, ReadRetry, check_integrity};
pub use media::{Array, Damage, Failures, Health, Media, Outcome, ReadResult, SnapshotError, Spare};
pub use scrambler::{scramble, scrambler_seed};
pub use store::{Extent, Remains, Store, StoreNotice, holds_drive};
