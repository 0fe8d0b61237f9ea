//! The binary records of VMware's virtual SCSI tracer (vscsiStats), as CloudPhysics published them, versions 1 and 2.
//!
//! ```text
//! version 1  0 serial u32  4 bytes u32  8 segments u32  12 command u16  14 version u16  16 block u64  24 time_us u64
//! version 2  0 command u16  2 version u16  4 serial u32  8 bytes u32  12 segments u32  16 block u64  24 time_us u64
//!            32 response_us u64
//! ```
//! Little-endian. The version is the high byte of its field. Blocks have 512 bytes. The command is the first byte of the SCSI command; only reads,
//! writes, flushes and trims are requests here. UNMAP and WRITE SAME store their extents, or lengths, elsewhere.

use super::Action;
use super::error::Problem;
use super::field::{Decoded, bytes, request, sectors, wrong};
use super::source::Source;

/// Number of records examined at the start of a trace.
const RECORDS_TRIED: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn record_bytes(self) -> usize {
        match self {
            Version::One => 32,
            Version::Two => 40,
        }
    }

    fn is_of(self, record: &[u8]) -> bool {
        // A SCSI command has one byte, so the other byte of its field is 0.
        match self {
            Version::One => record[15] == 1 && record[13] == 0,
            Version::Two => record[3] == 2 && record[1] == 0,
        }
    }

    /// The version of the records in the first part of a trace.
    fn of(head: &[u8]) -> Option<Version> {
        let fits = |version: &Version| {
            let mut records = head.chunks_exact(version.record_bytes()).take(RECORDS_TRIED).peekable();
            records.peek().is_some() && records.all(|record| version.is_of(record))
        };
        [Version::Two, Version::One].into_iter().find(fits)
    }
}

/// Reports whether a trace begins with records of this format.
pub(super) fn is_vscsi(head: &[u8]) -> bool {
    Version::of(head).is_some()
}

pub(super) struct Vscsi {
    version: Version,
}

impl Vscsi {
    /// `head` is the first part of the trace.
    pub(super) fn new(head: &[u8]) -> Vscsi {
        // A malformed record is refused when it is read.
        Vscsi { version: Version::of(head).unwrap_or(Version::Two) }
    }

    /// Consumes one record. Ticks are microseconds.
    pub(super) fn decode(&self, source: &mut Source) -> Result<Decoded, Problem> {
        let Some(record) = source.piece(self.version.record_bytes())? else { return Ok(Decoded::End) };
        if !self.version.is_of(record) {
            let at = if self.version == Version::One { 15 } else { 3 };
            let found = record[at].to_string();
            return Err(wrong("the version", found.as_bytes(), "1 or 2, as in the records before it"));
        }
        let (command, bytes_at) = match self.version {
            Version::One => (record[12], 4),
            Version::Two => (record[0], 8),
        };
        let (length, block, ticks) = (u32_at(record, bytes_at), u64_at(record, 16), u64_at(record, 24));
        let action = match command {
            // READ(6), (10), (16), (12).
            0x08 | 0x28 | 0x88 | 0xa8 => Action::Read,
            // WRITE(6), (10), (16), (12), and WRITE AND VERIFY(10), (16), (12).
            0x0a | 0x2a | 0x8a | 0xaa | 0x2e | 0x8e | 0xae => Action::Write,
            // SYNCHRONIZE CACHE(10), (16).
            0x35 | 0x91 => Action::Flush,
            // UNMAP, WRITE SAME(10), (16): records lack their extents, so they count as empty.
            0x42 => return Ok(Decoded::Request(request(ticks, Action::Trim, sectors(0), sectors(0), 0)?)),
            0x41 | 0x93 => {
                return Ok(Decoded::Request(request(ticks, Action::Write, sectors(block), sectors(0), 0)?));
            }
            _ => return Ok(Decoded::Nothing),
        };
        Ok(Decoded::Request(request(ticks, action, sectors(block), bytes(u64::from(length)), 0)?))
    }
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    record[at..at + 4].iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte))
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    record[at..at + 8].iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}
