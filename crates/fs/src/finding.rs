//! Damage, in words.

use crate::types::BLOCK_BYTES;

/// An inconsistency, as one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding(pub String);

impl Finding {
    /// Names an unreadable block of a file.
    pub(crate) fn unreadable(ino: u64, block: u64) -> Finding {
        let from = block * BLOCK_BYTES as u64;
        Finding(format!("inode {ino}: bytes {from} to {} cannot be read", from + BLOCK_BYTES as u64 - 1))
    }
}

/// Damage found by a mount.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// With loss.
    damage: Vec<Finding>,
    /// Without loss.
    notes: Vec<Finding>,
}

impl Findings {
    /// Damage to durable data.
    pub fn damage(&self) -> &[Finding] {
        &self.damage
    }

    /// Damage without loss, and data that a power cut may have torn.
    pub fn notes(&self) -> &[Finding] {
        &self.notes
    }

    /// Adds damage with loss.
    pub(crate) fn add_damage(&mut self, finding: Finding) {
        self.damage.push(finding);
    }

    /// Adds damage without loss.
    pub(crate) fn add_note(&mut self, finding: Finding) {
        self.notes.push(finding);
    }
}
