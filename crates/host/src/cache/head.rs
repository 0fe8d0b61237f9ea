//! On-media format of a cache: its head, and the record sectors of the block backend.
//!
//! ```text
//!  head     0 "PLCACHE2"   8 crc32c of what follows   12 state u32   16 epoch u64   24 store id u64   32 sectors of the store u64
//!           40 block bytes u32   44 five words of the layout (the last: where slots begin)   64 length u32   68 name of the store
//!  records  0 "PLCR"   4 crc32c of what follows   8 epoch u64   16 sector u32   20 0   32 records: key u32, state u8 (1 clean, 2 dirty)
//! ```
//! All numbers are little endian. Records are valid only with the epoch of the head; each new cache has a new
//! epoch. "PLCACHE1" is the head of a solid-state cache, and of older caches on block drives, whose record
//! sectors may hold anything before their first write.

use super::slots::{RECORD_BYTES, RECORDS_HEADER};

const MAGIC: &[u8; 8] = b"PLCACHE1";
const MAGIC_CLEARED: &[u8; 8] = b"PLCACHE2";
const RECORDS_MAGIC: &[u8; 4] = b"PLCR";
const NAME: usize = 68;
/// Maximum bytes of the store's name.
const NAME_BYTES_MAX: usize = 128;
/// Bytes of a head.
pub(super) const HEAD_BYTES: usize = NAME + NAME_BYTES_MAX;

/// State of a cache when its head was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Life {
    /// In use: only dirty blocks are valid.
    #[default]
    Open = 1,
    /// Closed in order: clean blocks are valid as well.
    Closed = 2,
    /// All data were written back; the cache belongs to no store.
    Detached = 3,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub life: Life,
    /// Record sectors were zeroed when the cache was made.
    pub cleared: bool,
    pub epoch: u64,
    pub store: u64,
    pub store_sectors: u64,
    pub block_bytes: u32,
    /// Layout of the block backend; zeros for a solid-state cache.
    pub layout: [u32; 5],
    pub name: String,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Head {
    /// Encodes the head into `bytes` bytes, at least [`HEAD_BYTES`].
    pub fn encode(&self, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        out[12..16].copy_from_slice(&(self.life as u32).to_le_bytes());
        out[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        out[24..32].copy_from_slice(&self.store.to_le_bytes());
        out[32..40].copy_from_slice(&self.store_sectors.to_le_bytes());
        out[40..44].copy_from_slice(&self.block_bytes.to_le_bytes());
        for (at, value) in (44..).step_by(4).zip(self.layout) {
            out[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let name = self.name.as_bytes();
        let length = name.len().min(NAME_BYTES_MAX);
        out[64..68].copy_from_slice(&(length as u32).to_le_bytes());
        out[NAME..NAME + length].copy_from_slice(&name[..length]);
        let checksum = crc32c::crc32c(&out[12..HEAD_BYTES]);
        out[..8].copy_from_slice(if self.cleared { MAGIC_CLEARED } else { MAGIC });
        out[8..12].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Decodes a head; returns `None` if the bytes are no head.
    pub fn decode(bytes: &[u8]) -> Option<Head> {
        let cleared = bytes.starts_with(MAGIC_CLEARED);
        let good = bytes.len() >= HEAD_BYTES
            && (cleared || bytes.starts_with(MAGIC))
            && word(bytes, 8) == crc32c::crc32c(&bytes[12..HEAD_BYTES]);
        if !good {
            return None;
        }
        let life = [Life::Open, Life::Closed, Life::Detached];
        let life = life.into_iter().find(|&life| life as u32 == word(bytes, 12))?;
        let mut layout = [0; 5];
        for (at, value) in (44..).step_by(4).zip(&mut layout) {
            *value = word(bytes, at);
        }
        let length = (word(bytes, 64) as usize).min(NAME_BYTES_MAX);
        Some(Head {
            life,
            cleared,
            epoch: long(bytes, 16),
            store: long(bytes, 24),
            store_sectors: long(bytes, 32),
            block_bytes: word(bytes, 40),
            layout,
            name: String::from_utf8_lossy(&bytes[NAME..NAME + length]).into_owned(),
        })
    }
}

/// Encodes records into a sector of `sector.len()` bytes.
pub(super) fn encode_records(
    sector: &mut [u8],
    epoch: u64,
    number: u32,
    records: impl Iterator<Item = (u32, u8)>,
) {
    sector.fill(0);
    sector[8..16].copy_from_slice(&epoch.to_le_bytes());
    sector[16..20].copy_from_slice(&number.to_le_bytes());
    for (to, (key, state)) in sector[RECORDS_HEADER..].chunks_exact_mut(RECORD_BYTES).zip(records) {
        to[..4].copy_from_slice(&key.to_le_bytes());
        to[4] = state;
    }
    let checksum = crc32c::crc32c(&sector[8..]);
    sector[..4].copy_from_slice(RECORDS_MAGIC);
    sector[4..8].copy_from_slice(&checksum.to_le_bytes());
}

/// Decodes sector `number`: returns its records that have content, with their index in the sector; `None` if
/// the sector has no records of this epoch.
pub(super) fn decode_records(
    sector: &[u8],
    epoch: u64,
    number: u32,
) -> Option<impl Iterator<Item = (u32, u32, u8)>> {
    let good = sector.starts_with(RECORDS_MAGIC)
        && word(sector, 4) == crc32c::crc32c(&sector[8..])
        && (long(sector, 8), word(sector, 16)) == (epoch, number);
    let records = sector[RECORDS_HEADER..].chunks_exact(RECORD_BYTES);
    let records = (0..).zip(records).map(|(at, record)| (at, word(record, 0), record[4]));
    good.then(|| records.filter(|&(_, _, state)| state != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_and_a_damaged_one_does_not() {
        let head = Head {
            life: Life::Closed,
            cleared: true,
            epoch: 7,
            store: 1 << 60,
            store_sectors: 12345,
            block_bytes: 4096,
            layout: [1, 2, 3, 4, 5],
            name: "x".repeat(200),
        };
        let bytes = head.encode(512);
        assert_eq!(Head::decode(&bytes), Some(Head { name: "x".repeat(128), ..head.clone() }));
        let older = Head { cleared: false, ..head }.encode(512);
        assert_eq!(Head::decode(&older).map(|head| head.cleared), Some(false));
        for at in 0..HEAD_BYTES {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert_eq!(Head::decode(&damaged), None, "byte {at}");
        }
    }

    #[test]
    fn records_count_with_their_epoch_and_sector_only() {
        let mut sector = vec![9; 512];
        encode_records(&mut sector, 5, 2, [(10, 2), (u32::MAX, 0), (12, 1)].into_iter());
        let found: Vec<_> = decode_records(&sector, 5, 2).expect("good").collect();
        assert_eq!(found, [(0, 10, 2), (2, 12, 1)]);
        assert!(decode_records(&sector, 6, 2).is_none() && decode_records(&sector, 5, 3).is_none());
        sector[40] ^= 1;
        assert!(decode_records(&sector, 5, 2).is_none());
    }
}
