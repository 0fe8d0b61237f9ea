//! Encoding of items in a slot.
//!
//! ```text
//!  0 crc32c of 4..36 and the key    4 crc32c of the value    8 value bytes    12 flags    16 version (cas, u64)    24 expiry
//!  28 stored at    32 key bytes (u8)    33 1: the key was named in base64    34 zeros    36 key, value
//! ```
//! All numbers are little-endian. There are two checksums, so that an item can be recognised without reading its value. They do not identify the
//! requested item: for that, the reader compares key and version.

use crc32c::{crc32c, crc32c_append};

/// Bytes before the key.
pub(crate) const HEADER: usize = 36;

/// Fields before the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub key_bytes: u8,
    pub value_bytes: u32,
    pub flags: u32,
    pub cas: u64,
    /// Expiry as stored; the index has later changes.
    pub expires_s: u32,
    pub stored_s: u32,
    pub binary: bool,
}

/// Size of an item.
#[inline]
pub(crate) fn bytes_of(key: usize, value: usize) -> usize {
    HEADER + key + value
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// Writes an item at the start of `slot`.
pub(crate) fn encode(slot: &mut [u8], head: &Head, key: &[u8], value: &[u8]) {
    let at = HEADER + key.len();
    slot[4..8].copy_from_slice(&crc32c(value).to_le_bytes());
    slot[8..12].copy_from_slice(&(value.len() as u32).to_le_bytes());
    slot[12..16].copy_from_slice(&head.flags.to_le_bytes());
    slot[16..24].copy_from_slice(&head.cas.to_le_bytes());
    slot[24..28].copy_from_slice(&head.expires_s.to_le_bytes());
    slot[28..32].copy_from_slice(&head.stored_s.to_le_bytes());
    slot[32..36].copy_from_slice(&[key.len() as u8, head.binary.into(), 0, 0]);
    slot[HEADER..at].copy_from_slice(key);
    slot[at..at + value.len()].copy_from_slice(value);
    let sum = crc32c(&slot[4..at]);
    slot[..4].copy_from_slice(&sum.to_le_bytes());
}

impl Head {
    /// Reads the head of an item in memory, which is trusted.
    #[inline]
    pub fn trusted(slot: &[u8]) -> Head {
        Head {
            value_bytes: word(slot, 8),
            flags: word(slot, 12),
            cas: u64::from(word(slot, 16)) | u64::from(word(slot, 20)) << 32,
            expires_s: word(slot, 24),
            stored_s: word(slot, 28),
            key_bytes: slot[32],
            binary: slot[33] & 1 != 0,
        }
    }

    /// Reads the head of an item from flash; `None` if its checksum is wrong.
    pub fn decode(slot: &[u8]) -> Option<Head> {
        let end = HEADER + usize::from(*slot.get(32)?);
        let covered = slot.get(4..end)?;
        (crc32c_append(0, covered) == word(slot, 0)).then(|| Head::trusted(slot))
    }

    /// The key.
    #[inline]
    pub fn key<'a>(&self, slot: &'a [u8]) -> &'a [u8] {
        &slot[HEADER..HEADER + usize::from(self.key_bytes)]
    }

    /// The value of an item in memory.
    #[inline]
    pub fn value<'a>(&self, slot: &'a [u8]) -> &'a [u8] {
        &slot[HEADER + usize::from(self.key_bytes)..][..self.value_bytes as usize]
    }

    /// The value of an item from flash; `None` if its checksum is wrong.
    pub fn checked_value<'a>(&self, slot: &'a [u8]) -> Option<&'a [u8]> {
        let value = slot.get(HEADER + usize::from(self.key_bytes)..)?.get(..self.value_bytes as usize)?;
        (crc32c(value) == word(slot, 4)).then_some(value)
    }

    /// Size of the whole item.
    pub fn bytes(&self) -> usize {
        bytes_of(self.key_bytes.into(), self.value_bytes as usize)
    }
}

/// Hash of a key: 64 bits, whose upper 32 determine its position in the index.
#[inline]
pub(crate) fn hash(seed: u64, key: &[u8]) -> u64 {
    let mix = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product >> 64) as u64 ^ product as u64
    };
    let mut state = mix(seed ^ 0x9e37_79b9_7f4a_7c15, key.len() as u64 ^ 0xbf58_476d_1ce4_e5b9);
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        state = mix(state ^ u64::from_le_bytes(*word), 0x94d0_49bb_1331_11eb);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    state = mix(state ^ u64::from_le_bytes(last), 0xd6e8_feb8_6659_fd93);
    mix(state ^ seed.rotate_left(32), 0xa076_1d64_78bd_642f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_comes_back_and_no_damaged_bit_is_missed() {
        let head = Head {
            key_bytes: 3,
            value_bytes: 5,
            flags: 7,
            cas: 1 << 40,
            expires_s: 9,
            stored_s: 8,
            binary: true,
        };
        let mut slot = [0xaa; 50];
        encode(&mut slot, &head, b"key", b"value");
        assert_eq!(Head::decode(&slot), Some(head));
        assert_eq!((head.key(&slot), head.checked_value(&slot)), (&b"key"[..], Some(&b"value"[..])));
        for bit in 0..head.bytes() * 8 {
            let mut bad = slot;
            bad[bit / 8] ^= 1 << (bit % 8);
            let good = Head::decode(&bad).filter(|head| head.checked_value(&bad).is_some());
            assert_eq!(good, None, "bit {bit}");
        }
    }

    #[test]
    fn hashes_spread() {
        let mut tops: Vec<u64> = (0..100_000u32).map(|i| hash(1, format!("key{i}").as_bytes())).collect();
        tops.sort_unstable();
        tops.dedup();
        assert_eq!(tops.len(), 100_000);
        let below = tops.iter().filter(|&&hash| hash >> 56 < 64).count();
        assert!((24_000..26_000).contains(&below), "a quarter of them: {below}");
    }
}
