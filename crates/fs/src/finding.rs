//! Damage, in words.

use crate::types::BLOCK_BYTES;

/// Something that does not fit together: one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding(pub String);

impl Finding {
    /// Names a block of a file that cannot be read.
    pub(crate) fn unreadable(ino: u64, block: u64) -> Finding {
        let from = block * BLOCK_BYTES as u64;
        Finding(format!("inode {ino}: bytes {from} to {} cannot be read", from + BLOCK_BYTES as u64 - 1))
    }
}

/// Damage that a mount has found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Costs something.
    damage: Vec<Finding>,
    /// Costs nothing.
    notes: Vec<Finding>,
}

impl Findings {
    /// Damage in what was durable.
    pub fn damage(&self) -> &[Finding] {
        &self.damage
    }

    /// Damage without loss, and data that a power cut may have torn.
    pub fn notes(&self) -> &[Finding] {
        &self.notes
    }

    /// Adds damage that costs something.
    pub(crate) fn add_damage(&mut self, finding: Finding) {
        self.damage.push(finding);
    }

    /// Adds damage that costs nothing.
    pub(crate) fn add_note(&mut self, finding: Finding) {
        self.notes.push(finding);
    }
}
