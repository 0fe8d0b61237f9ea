//! Out-of-band data beside each sector of a block-mapped range.
//!
//! ```text
//!   0 logical block u32      4 signature of the range u32      8 number of the piece u64
//! ```
//! All numbers are little-endian.

use pellucid_flash::Vector;

fn signature(id: u32) -> u32 {
    id.wrapping_mul(0x9e37_79b9) ^ 0x424c_4f4b
}

/// Encodes the metadata of a sector.
pub(super) fn encode(logical: u32, id: u32, sequence: u64) -> [u8; Vector::METADATA_BYTES] {
    let mut oob = [0; Vector::METADATA_BYTES];
    oob[..4].copy_from_slice(&logical.to_le_bytes());
    oob[4..8].copy_from_slice(&signature(id).to_le_bytes());
    oob[8..].copy_from_slice(&sequence.to_le_bytes());
    oob
}

/// Decodes the metadata of a sector: logical block and number of the piece. `None`: not of this range.
pub(super) fn decode(oob: &[u8; Vector::METADATA_BYTES], id: u32) -> Option<(u32, u64)> {
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| oob[at + i]));
    let sequence = u64::from_le_bytes(std::array::from_fn(|i| oob[8 + i]));
    (word(4) == signature(id)).then_some((word(0), sequence))
}
