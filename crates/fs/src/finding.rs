//! Damage, in words.

use super::types::BLOCK_BYTES;

/// Something that does not fit together: one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding(pub String);

impl Finding {
    /// Names a block of a file that cannot be read.
    pub(super) fn unreadable(ino: u64, block: u64) -> Finding {
        let from = block * BLOCK_BYTES as u64;
        Finding(format!("inode {ino}: bytes {from} to {} cannot be read", from + BLOCK_BYTES as u64 - 1))
    }
}
