//! The sync record: one block that records what is durable. It is written after the flush of a sync, before the sync is answered, and after each
//! checkpoint.
//!
//! The newest batches cannot record their own durability. The sync record does, so that a mount after a kill can distinguish damage in
//! them from a write torn by a power cut. If a power cut loses the newest record, the previous one, or the headers of batches, give an
//! earlier point. Flash has no block that can be rewritten repeatedly; there, a mount names data that may be either damaged or torn.

use crate::key::Fields;
use crate::types::BLOCK_BYTES;

const MAGIC: u32 = 0x4352_4c50;

/// Content of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncRecord {
    pub file_system: u64,
    /// Number of the mount that wrote it.
    pub epoch: u64,
    /// The newest durable checkpoint.
    pub checkpoint: u64,
    /// Batches of this mount up to this one are durable.
    pub durable: u64,
}

impl SyncRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK_BYTES];
        bytes[4..8].copy_from_slice(&MAGIC.to_le_bytes());
        let words = [self.file_system, self.epoch, self.checkpoint, self.durable];
        for (at, word) in words.into_iter().enumerate() {
            bytes[8 + 8 * at..16 + 8 * at].copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes the record in a block, if it is whole and of this file system.
    pub fn decode(bytes: &[u8], file_system: u64) -> Option<SyncRecord> {
        let mut f = Fields(bytes);
        if f.u32()? != crc32c::crc32c(bytes.get(4..)?) || f.u32()? != MAGIC || f.u64()? != file_system {
            return None;
        }
        Some(SyncRecord { file_system, epoch: f.u64()?, checkpoint: f.u64()?, durable: f.u64()? })
    }
}
