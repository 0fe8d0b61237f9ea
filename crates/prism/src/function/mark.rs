//! The mark that the function level writes beside every sector, so that a start can identify the content of each block.
//!
//! ```text
//!   0 mark u32      4 content u32      8 erases u24      11 copy u8      12 checksum u32 of bytes 0 to 11
//! ```
//! All numbers are little-endian. The *content* number identifies a block's data from their first write until they are trimmed, wherever wear
//! levelling moves them; *copy* counts the moves. If two blocks have the same content, the one with the lower copy number is valid: a block is erased
//! only when the copy of its data is complete. Copy numbers wrap around; at most three exist at a time.

use pellucid_flash::Vector;

/// Makes the checksum of zeros invalid, so that blank out-of-band data belong to no application.
const SALT: u32 = 0x5072_6973;

/// Out-of-band data of one sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Oob {
    /// The application's word.
    pub mark: u32,
    pub content: u32,
    /// Erases of the block when it was written.
    pub erases: u32,
    pub copy: u8,
}

impl Oob {
    pub fn encode(&self) -> [u8; Vector::METADATA_BYTES] {
        let mut bytes = [0; Vector::METADATA_BYTES];
        bytes[..4].copy_from_slice(&self.mark.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.content.to_le_bytes());
        bytes[8..11].copy_from_slice(&self.erases.min(0xFF_FFFF).to_le_bytes()[..3]);
        bytes[11] = self.copy;
        let sum = crc32c::crc32c(&bytes[..12]) ^ SALT;
        bytes[12..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes out-of-band data; `None`: foreign or damaged.
    pub fn decode(bytes: &[u8]) -> Option<Oob> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        (word(12)? == crc32c::crc32c(&bytes[..12]) ^ SALT).then_some(())?;
        Some(Oob { mark: word(0)?, content: word(4)?, erases: word(8)? & 0xFF_FFFF, copy: bytes[11] })
    }

    /// Reports whether this is an older copy of the same content as `other`.
    pub fn is_older(&self, other: &Oob) -> bool {
        (self.copy.wrapping_sub(other.copy) as i8) < 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_comes_back_and_damage_is_seen() {
        let oob = Oob { mark: 7, content: u32::MAX, erases: 1 << 20, copy: 200 };
        let bytes = oob.encode();
        assert_eq!(Oob::decode(&bytes), Some(oob));
        for bit in 0..128 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Oob::decode(&bad), None, "bit {bit}");
        }
        assert_eq!(Oob::decode(&[0; 16]), None);
        assert_eq!(Oob::decode(&bytes[..15]), None);
        assert!(Oob { copy: 255, ..oob }.is_older(&Oob { copy: 1, ..oob }));
        assert!(!oob.is_older(&oob));
    }
}
