//! Reasons why an operation stops.

use crate::tree::Miss;
use crate::types::Errno;

/// Reason why an operation stops.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// A node is missing in memory.
    Miss(Miss),
    /// Data are missing and have been requested.
    Data,
    /// Something must be written, or cleaned, first.
    Room,
    Errno(Errno),
}

impl From<Miss> for Stop {
    fn from(miss: Miss) -> Stop {
        Stop::Miss(miss)
    }
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Errno(errno)
    }
}
