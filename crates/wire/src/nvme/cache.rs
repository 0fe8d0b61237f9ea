//! Cache namespaces (solid-state cache): commands of Pellucid's own, in the vendor range of I/O opcodes.
//!
//! | command | opcode | dwords | data |
//! |---|---|---|---|
//! | Write Clean, Write Dirty | A1h, A5h | as Write: 10-11 first sector, 12 number of sectors less one, bit 30 FUA | to the drive |
//! | Evict, Clean | A8h, ACh | the same; FUA with Evict only | none |
//! | Exists | AEh | 10-11 first sector, 12 number of sectors (0: none, only the result) | a byte for each block: 0 absent, 1 clean, 2 dirty |
//! | Read, Flush | 02h, 00h | standard | standard |
//!
//! Dwords 0 and 1 of the completion have the result: the number of blocks that were present (Evict) or dirty (Clean); the first sector of the next
//! dirty block, all ones if there is none (Exists); with status 7C0h, the first absent block of a read.

use super::command::SubmissionEntry;
use crate::layout::{wire_enum, wire_struct};

wire_enum! {
    /// I/O commands of a cache namespace besides Read and Flush. The lowest two bits give the data direction.
    pub enum CacheOpcode: u8 {
        /// Write blocks that the backing store also has.
        WriteClean = 0xA1,
        /// Write blocks that only the cache has.
        WriteDirty = 0xA5,
        /// Make blocks absent.
        Evict = 0xA8,
        /// Mark dirty blocks as clean.
        Clean = 0xAC,
        /// Query the state of blocks.
        Exists = 0xAE,
    }
}

/// First byte of the vendor area of Identify Namespace; marks a cache.
pub const CACHE_NAMESPACE: u8 = 2;

wire_struct! {
    /// Vendor area of Identify Namespace of a cache, whose size in blocks is that of its address space.
    pub struct CacheIdentity: 16 {
        /// [`CACHE_NAMESPACE`].
        0 => kind: u8,
        /// Sectors of a cached block.
        4 => unit_sectors: u32,
        /// Maximum number of cached blocks.
        8 => units: u64,
    }
}

/// Arguments of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheCommand {
    /// Operation.
    pub opcode: CacheOpcode,
    /// First sector.
    pub first: u64,
    /// Sectors, 1 to 65536; for Exists 0 to 65535.
    pub sectors: u32,
    /// Force unit access.
    pub force: bool,
}

const FORCE_UNIT_ACCESS: u32 = 1 << 30;

impl CacheCommand {
    /// Most sectors of a command.
    pub const SECTORS_MAX: u32 = 0xFFFF;

    /// Parses the arguments; `None`: not a cache command.
    pub fn parse(entry: &SubmissionEntry) -> Option<CacheCommand> {
        let opcode = CacheOpcode::from_raw(entry.opcode())?;
        let (first, cdw12) = (entry.cdw_pair(10), entry.cdw(12));
        let sectors = (cdw12 & 0xFFFF) + u32::from(opcode != CacheOpcode::Exists);
        Some(CacheCommand { opcode, first, sectors, force: cdw12 & FORCE_UNIT_ACCESS != 0 })
    }

    /// Encodes the command, without its data pointer.
    pub fn entry(&self, cid: u16, nsid: u32) -> SubmissionEntry {
        let count = self.sectors - u32::from(self.opcode != CacheOpcode::Exists);
        let force = if self.force { FORCE_UNIT_ACCESS } else { 0 };
        SubmissionEntry::new(self.opcode.raw(), cid, nsid)
            .with_cdw_pair(10, self.first)
            .with_cdw(12, (count & 0xFFFF) | force)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_they_are_written() {
        for &opcode in &[
            CacheOpcode::WriteClean,
            CacheOpcode::WriteDirty,
            CacheOpcode::Evict,
            CacheOpcode::Clean,
            CacheOpcode::Exists,
        ] {
            let sectors = if opcode == CacheOpcode::Exists { 0 } else { 65536 };
            let command = CacheCommand { opcode, first: 1 << 40, sectors, force: true };
            assert_eq!(CacheCommand::parse(&command.entry(7, 1)), Some(command));
        }
        assert_eq!(CacheCommand::parse(&SubmissionEntry::new(0xA2, 0, 1)), None);
    }
}
