//! Conversion of the library's errors to a status and a sentence.

use crate::types::PrismStatus;
use pellucid_flash::Status;
use pellucid_prism::blocking::FlashError;
use pellucid_prism::{LevelError, MonitorError, PolicyError};
use std::cell::RefCell;
use std::ffi::{CStr, CString};

/// Failure of a call.
#[derive(Debug)]
pub(crate) struct Failure {
    pub status: PrismStatus,
    pub sentence: String,
}

impl Failure {
    pub fn new(status: PrismStatus, sentence: impl ToString) -> Failure {
        Failure { status, sentence: sentence.to_string() }
    }

    pub fn invalid(sentence: impl ToString) -> Failure {
        Failure::new(PrismStatus::Invalid, sentence)
    }
}

/// Returns the status of this interface for a drive's status.
pub(crate) fn of_drive(status: Status) -> PrismStatus {
    match status {
        Status::Success | Status::HighEcc => PrismStatus::Ok,
        Status::LbaOutOfRange => PrismStatus::OutOfRange,
        Status::UnrecoveredRead => PrismStatus::ReadError,
        Status::ReadOnly => PrismStatus::ReadOnly,
        Status::InvalidField | Status::InvalidOpcode => PrismStatus::Invalid,
        Status::ChunkOutOfOrder
        | Status::ChunkWriteInvalid
        | Status::ChunkInvalidReset
        | Status::Unwritten => PrismStatus::Order,
        _ => PrismStatus::WriteError,
    }
}

impl From<LevelError> for Failure {
    fn from(error: LevelError) -> Failure {
        let status = match error {
            LevelError::OutOfRange { .. } | LevelError::Pages { .. } | LevelError::NoChannel { .. } => {
                PrismStatus::OutOfRange
            }
            LevelError::Length { .. } | LevelError::NotFlash(_) => PrismStatus::Invalid,
            LevelError::NotReady => PrismStatus::Busy,
            LevelError::NoBlock { .. } | LevelError::Ops { .. } => PrismStatus::NoSpace,
            LevelError::NotMapped { .. } | LevelError::OutOfOrder { .. } | LevelError::Unwritten { .. } => {
                PrismStatus::Order
            }
            LevelError::Broken { .. } => PrismStatus::WriteError,
        };
        Failure::new(status, error)
    }
}

impl From<PolicyError> for Failure {
    fn from(error: PolicyError) -> Failure {
        let status = match error {
            PolicyError::NotReady | PolicyError::InUse { .. } => PrismStatus::Busy,
            PolicyError::Missing { .. } => PrismStatus::Missing,
            PolicyError::Overlaps { .. } => PrismStatus::Exists,
            PolicyError::TooMany | PolicyError::NoRoom { .. } => PrismStatus::NoSpace,
            PolicyError::Bounds { .. } | PolicyError::OverProvisioning(_) => PrismStatus::Invalid,
        };
        Failure::new(status, error)
    }
}

impl From<FlashError> for Failure {
    fn from(error: FlashError) -> Failure {
        match error {
            FlashError::Refused(refused) => refused.into(),
            FlashError::Range(refused) => refused.into(),
            FlashError::Drive(status) => Failure::new(of_drive(status), error),
            FlashError::Level(_) => Failure::new(PrismStatus::Exists, error),
            FlashError::Silent => Failure::new(PrismStatus::Unreachable, error),
        }
    }
}

impl From<MonitorError> for Failure {
    fn from(error: MonitorError) -> Failure {
        let status = match error {
            MonitorError::Exists(_) | MonitorError::NotBlank { .. } | MonitorError::OtherDrive => {
                PrismStatus::Exists
            }
            MonitorError::Missing { .. } => PrismStatus::Missing,
            MonitorError::Quota { .. } | MonitorError::NoRoom { .. } => PrismStatus::NoSpace,
            MonitorError::Busy { .. } => PrismStatus::Busy,
            MonitorError::NoAnswer => PrismStatus::Unreachable,
            MonitorError::NoState => PrismStatus::ReadOnly,
            _ => PrismStatus::Invalid,
        };
        Failure::new(status, error)
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps the sentence of a failure for [`last`].
pub(crate) fn keep(failure: Failure) -> PrismStatus {
    let sentence = CString::new(failure.sentence.replace('\0', "?")).unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = sentence);
    failure.status
}

/// Passes the thread's last sentence to `with`.
pub(crate) fn last<R>(with: impl FnOnce(&CStr) -> R) -> R {
    LAST.with(|last| with(&last.borrow()))
}
