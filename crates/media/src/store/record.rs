//! Record of a superpage, stored in the file in addition to its data: the spare areas of its units, and their checksums.
//!
//! ```text
//!   0  sequence number of the superpage                                u64
//!   8  age of the media, in seconds, when it was programmed         u64
//!  16  1: torn or failed                                            u32
//!  20  CRC-32C of block, superpage, erases of the block (u32 each), and of this record with zeros here   u32
//!  24  zeros                                                        u64
//!  32  of each unit: logical page                                   u32
//!      of each unit: CRC-32C of its stored data; of one that was given up, its complement   u32
//!      of each unit: the host's metadata
//! ```
//! All little-endian; the whole is padded to a multiple of 8 bytes. A record of another place, or from before an erase, has a wrong
//! checksum.

use super::{StoreShape, UNREADABLE};
use pellucid_flash::Lpn;

const AGE_AT: usize = 8;
const FLAGS_AT: usize = 16;
const SUM_AT: usize = 20;
const LPNS_AT: usize = 32;

/// Block, superpage, erases of the block.
pub(crate) type Name = (u32, u32, u32);

/// Offsets in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordShape {
    units: usize,
    sums_at: usize,
    pub(crate) metadata_at: usize,
    pub(crate) bytes: usize,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl RecordShape {
    pub(crate) fn new(shape: &StoreShape) -> RecordShape {
        let units = shape.units_per_superpage as usize;
        let sums_at = LPNS_AT + 4 * units;
        let metadata_at = sums_at + 4 * units;
        let bytes = (metadata_at + shape.unit_metadata_bytes * units).next_multiple_of(8);
        RecordShape { units, sums_at, metadata_at, bytes }
    }

    /// The record of a superpage: `meta` is that of its block, with checksums of units behind it.
    pub(crate) fn encode(
        self,
        shape: &StoreShape,
        name: Name,
        meta: &[u8],
        metadata: &[u8],
        age_s: u64,
        record: &mut [u8],
    ) {
        let (_, superpage, _) = name;
        let offset = shape.meta.offset(meta, superpage);
        let torn = offset == UNREADABLE;
        let sequence = shape.meta.first_sequence(meta) + if torn { 0 } else { u64::from(offset) };
        let age_s = if superpage == 0 { shape.meta.history(meta).0 } else { age_s };
        record.fill(0);
        record[..8].copy_from_slice(&sequence.to_le_bytes());
        record[AGE_AT..][..8].copy_from_slice(&age_s.to_le_bytes());
        record[FLAGS_AT..][..4].copy_from_slice(&u32::from(torn).to_le_bytes());
        let first = superpage as usize * self.units;
        if !torn {
            for unit in 0..self.units {
                let lpn = shape.meta.lpn(meta, (first + unit) as u32).0;
                let sum = self.checksum(shape, meta, (first + unit) as u32);
                record[LPNS_AT + 4 * unit..][..4].copy_from_slice(&lpn.to_le_bytes());
                record[self.sums_at + 4 * unit..][..4].copy_from_slice(&sum.to_le_bytes());
            }
            record[self.metadata_at..][..metadata.len()].copy_from_slice(metadata);
        }
        let sum = sum(name, record);
        record[SUM_AT..][..4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Changes the checksum of a unit, in a record whose own checksum is zeroed.
    pub(crate) fn seal_again(self, name: Name, unit: u32, unit_sum: u32, record: &mut [u8]) {
        record[self.sums_at + 4 * unit as usize..][..4].copy_from_slice(&unit_sum.to_le_bytes());
        let sum = sum(name, record);
        record[SUM_AT..][..4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Returns whether a record was written for this superpage. Zeroes its checksum.
    pub(crate) fn is_good(self, name: Name, record: &mut [u8]) -> bool {
        let found = u32_at(record, SUM_AT);
        record[SUM_AT..][..4].fill(0);
        found == sum(name, record)
    }

    /// Copies a record into the metadata of its block; `false`: the record is damaged.
    pub(crate) fn decode(self, shape: &StoreShape, name: Name, record: &mut [u8], meta: &mut [u8]) -> bool {
        if !self.is_good(name, record) {
            return false;
        }
        let (_, superpage, _) = name;
        let sequence = u64_at(record, 0);
        if superpage == 0 {
            shape.meta.set_first_sequence(meta, sequence);
            shape.meta.set_history(meta, (u64_at(record, AGE_AT), 0));
        }
        let torn = u32_at(record, FLAGS_AT) != 0;
        let offset = sequence.wrapping_sub(shape.meta.first_sequence(meta));
        let Ok(offset) = u32::try_from(offset) else { return false };
        shape.meta.set_offset(meta, superpage, if torn { UNREADABLE } else { offset });
        let first = superpage as usize * self.units;
        for unit in 0..self.units {
            let index = (first + unit) as u32;
            shape.meta.set_lpn(meta, index, Lpn(u32_at(record, LPNS_AT + 4 * unit)));
            self.set_checksum(shape, meta, index, u32_at(record, self.sums_at + 4 * unit));
        }
        true
    }

    /// Checksum of a unit of a block.
    #[inline]
    pub(crate) fn checksum(self, shape: &StoreShape, meta: &[u8], index: u32) -> u32 {
        u32_at(meta, shape.meta.bytes + 4 * index as usize)
    }

    pub(crate) fn set_checksum(self, shape: &StoreShape, meta: &mut [u8], index: u32, sum: u32) {
        meta[shape.meta.bytes + 4 * index as usize..][..4].copy_from_slice(&sum.to_le_bytes());
    }
}

fn sum((block, superpage, erases): Name, record: &[u8]) -> u32 {
    let name = u128::from(block) | u128::from(superpage) << 32 | u128::from(erases) << 64;
    crc32c::crc32c_append(crc32c::crc32c(&name.to_le_bytes()[..12]), record)
}
