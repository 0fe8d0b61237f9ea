//! Damage, in words.

use super::types::BLOCK_BYTES;

/// Something that does not fit together: one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding(pub String);

impl Finding {
    /// A block of a file cannot be read.
    pub(super) fn unreadable(ino: u64, block: u64) -> Finding {
        Finding(format!("file {ino} cannot be read at byte {}", block * BLOCK_BYTES as u64))
    }
}
