//! Why an operation does not go on.

use crate::tree::Miss;
use crate::types::Errno;

/// Why an operation does not go on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// A node is missing.
    Miss(Miss),
    /// Data are missing, and asked for.
    Data,
    /// Something has to be written, or cleaned, first.
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
