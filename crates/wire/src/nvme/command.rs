//! Submission queue entry, 64 bytes (Base 4.1), and the arguments of the common commands.

use super::{SglDescriptor, Status};
use crate::layout::{Field, get, put, wire_struct};

/// A submission queue entry, verbatim; fields are read on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmissionEntry(pub [u8; 64]);

impl SubmissionEntry {
    /// Encoded length.
    pub const BYTES: usize = 64;

    /// An entry that is zero except for opcode, command identifier and namespace. Data go through an SGL (PSDT 01b).
    pub fn new(opcode: u8, cid: u16, nsid: u32) -> Self {
        let mut entry = Self([0; 64]);
        entry.0[0] = opcode;
        entry.0[1] = 0x40;
        entry.put(2, cid);
        entry.put(4, nsid);
        entry
    }

    /// Opcode.
    #[inline]
    pub fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// Fused operation bits: 0 for a normal command.
    #[inline]
    pub fn fuse(&self) -> u8 {
        self.0[1] & 0b11
    }

    /// PRP or SGL for data transfer; a host over fabrics must set 01b (or 10b).
    #[inline]
    pub fn psdt(&self) -> u8 {
        self.0[1] >> 6
    }

    /// Command identifier.
    #[inline]
    pub fn cid(&self) -> u16 {
        self.get(2)
    }

    /// Namespace identifier.
    #[inline]
    pub fn nsid(&self) -> u32 {
        self.get(4)
    }

    /// Type of a fabrics command (byte 4, where other commands keep their namespace).
    #[inline]
    pub fn fabrics_type(&self) -> u8 {
        self.0[4]
    }

    /// The first SGL descriptor.
    #[inline]
    pub fn sgl(&self) -> SglDescriptor {
        self.get(24)
    }

    /// A command dword, by its number in the specification.
    ///
    /// # Panics
    /// If `number` is above 15.
    #[inline]
    pub fn cdw(&self, number: usize) -> u32 {
        self.get(number * 4)
    }

    /// Two command dwords, low one first.
    ///
    /// # Panics
    /// If `low_number` is above 14.
    #[inline]
    pub fn cdw_pair(&self, low_number: usize) -> u64 {
        self.get(low_number * 4)
    }

    /// Returns the entry with a command dword set.
    #[must_use]
    pub fn with_cdw(mut self, number: usize, value: u32) -> Self {
        self.put(number * 4, value);
        self
    }

    /// Returns the entry with two command dwords set, low one first.
    #[must_use]
    pub fn with_cdw_pair(mut self, low_number: usize, value: u64) -> Self {
        self.put(low_number * 4, value);
        self
    }

    /// Returns the entry with its data pointer set.
    #[must_use]
    pub fn with_sgl(mut self, sgl: SglDescriptor) -> Self {
        self.put(24, sgl);
        self
    }

    /// The blocks that a read, write, compare, verify, write-zeroes or append command names.
    #[inline]
    pub fn lba_range(&self) -> LbaRange {
        let cdw12 = self.cdw(12);
        LbaRange { start: self.cdw_pair(10), count: (cdw12 & 0xFFFF) + 1, flags: cdw12 >> 16 }
    }

    #[inline]
    pub(crate) fn get<T: Field>(&self, offset: usize) -> T {
        get(&self.0, offset)
    }

    #[inline]
    pub(crate) fn put<T: Field>(&mut self, offset: usize, value: T) {
        put(&mut self.0, offset, value);
    }
}

/// Starting block, number of blocks and control bits of an I/O command (NVM 3.2, dwords 10 to 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LbaRange {
    /// First logical block.
    pub start: u64,
    /// Number of blocks, 1 to 65536 (on the wire it is one less).
    pub count: u32,
    /// Bits 31:16 of dword 12.
    pub flags: u32,
}

impl LbaRange {
    /// First block after the range; `None` where it passes 2^64.
    #[inline]
    pub fn end(&self) -> Option<u64> {
        self.start.checked_add(u64::from(self.count))
    }

    /// Force Unit Access (bit 30 of dword 12).
    #[inline]
    pub fn force_unit_access(&self) -> bool {
        self.flags & 1 << 14 != 0
    }

    /// Limited Retry (bit 31).
    pub fn limited_retry(&self) -> bool {
        self.flags & 1 << 15 != 0
    }

    /// Protection information bits (29:26); zero where the format has none.
    pub fn protection(&self) -> u8 {
        (self.flags >> 10 & 0xF) as u8
    }

    /// Write Zeroes: deallocate if that reads back zeros (bit 25).
    pub fn deallocate(&self) -> bool {
        self.flags & 1 << 9 != 0
    }

    /// Directive type (bits 23:20): 2 is data placement.
    pub fn directive_type(&self) -> u8 {
        (self.flags >> 4 & 0xF) as u8
    }
}

wire_struct! {
    /// One range of a Dataset Management command (NVM 3.2.3).
    pub struct DsmRange: 16 {
        /// Context attributes.
        0 => attributes: u32,
        /// Length in logical blocks.
        4 => length_blocks: u32,
        /// First logical block.
        8 => start: u64,
    }
}

impl DsmRange {
    /// Attribute Deallocate, bit 2 of dword 11.
    pub const ATTRIBUTE_DEALLOCATE: u32 = 1 << 2;

    /// The ranges of a command's data: dword 10 says how many (0 means one), up to 256.
    ///
    /// # Errors
    /// `SGL_DATA_LENGTH_INVALID` if the data are shorter than dword 10 says.
    pub fn list<'a>(
        entry: &SubmissionEntry,
        data: &'a [u8],
    ) -> Result<impl Iterator<Item = Self> + 'a, Status> {
        let count = (entry.cdw(10) & 0xFF) as usize + 1;
        let data = data.get(..count * Self::BYTES).ok_or(Status::SGL_DATA_LENGTH_INVALID.do_not_retry())?;
        Ok(data.chunks_exact(Self::BYTES).map(Field::get))
    }
}

/// Arguments of Get Log Page (Base 5.1.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetLogPage {
    /// Log page identifier, raw, as vendor pages have no name here.
    pub log_id: u8,
    /// Log specific parameter (dword 10, bits 14:8).
    pub specific: u8,
    /// Keep the asynchronous event that the page belongs to.
    pub retain_event: bool,
    /// Number of bytes to return; a multiple of 4, never 0.
    pub length_bytes: u64,
    /// Log specific identifier (dword 11, bits 31:16): endurance group, for one.
    pub specific_id: u16,
    /// Start, in bytes (or an index if `offset_is_index`).
    pub offset: u64,
    /// The offset counts entries.
    pub offset_is_index: bool,
    /// Command set of the requested page.
    pub command_set: u8,
}

impl GetLogPage {
    /// Reads the arguments.
    ///
    /// # Errors
    /// `INVALID_FIELD` if a byte offset is not a multiple of 4.
    pub fn parse(entry: &SubmissionEntry) -> Result<Self, Status> {
        let (cdw10, cdw11, cdw14) = (entry.cdw(10), entry.cdw(11), entry.cdw(14));
        let dwords = u64::from(cdw11 & 0xFFFF) << 16 | u64::from(cdw10 >> 16);
        let arguments = Self {
            log_id: cdw10 as u8,
            specific: (cdw10 >> 8 & 0x7F) as u8,
            retain_event: cdw10 & 1 << 15 != 0,
            length_bytes: (dwords + 1) * 4,
            specific_id: (cdw11 >> 16) as u16,
            offset: entry.cdw_pair(12),
            offset_is_index: cdw14 & 1 << 23 != 0,
            command_set: (cdw14 >> 24) as u8,
        };
        if !arguments.offset_is_index && !arguments.offset.is_multiple_of(4) {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        Ok(arguments)
    }

    /// The command for `length_bytes` (a multiple of 4, not 0) of a log page from the byte `offset` on, without its data pointer.
    pub fn entry(log_id: u8, length_bytes: u32, offset: u64, cid: u16, nsid: u32) -> SubmissionEntry {
        let dwords = (length_bytes / 4).saturating_sub(1);
        SubmissionEntry::new(super::AdminOpcode::GetLogPage.raw(), cid, nsid)
            .with_cdw(10, u32::from(log_id) | dwords << 16)
            .with_cdw(11, dwords >> 16)
            .with_cdw_pair(12, offset)
    }
}
