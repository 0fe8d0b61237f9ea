//! Header and data digests: CRC32C, little-endian on the wire (TCP 3.3.1.1).

use super::DIGEST_BYTES;

/// The digest of a header.
#[inline]
pub(crate) fn of(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    crc32c::crc32c(bytes).to_le_bytes()
}

/// A data digest that grows with the data of one PDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataDigest(u32);

impl DataDigest {
    /// Adds the next bytes of the data.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, bytes);
    }

    /// The four bytes that follow the data.
    pub fn bytes(self) -> [u8; DIGEST_BYTES] {
        self.0.to_le_bytes()
    }
}
