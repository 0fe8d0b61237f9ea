//! FNV-1a (Fowler, Noll, Vo), 64 bits: checksums of files, and numbers made of names.

/// Hash of no bytes: the start of every hash.
pub const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Goes on from `hash`, at first [`FNV_BASIS`], with more bytes.
pub fn fnv1a(hash: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the authors' test vectors (draft-eastlake-fnv).
    #[test]
    fn agrees_with_published_vectors() {
        assert_eq!(fnv1a(FNV_BASIS, []), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(FNV_BASIS, *b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(FNV_BASIS, *b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(fnv1a(fnv1a(FNV_BASIS, *b"foo"), *b"bar"), fnv1a(FNV_BASIS, *b"foobar"));
    }
}
