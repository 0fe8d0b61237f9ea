//! On-media format of a cache: its head, and the record sectors of the block backend.
//!
//! ```text
//!  head     0 "PLCACHE" and the format's digit   8 crc32c   12 state u32   16 epoch u64   24 store id u64   32 sectors of the store u64
//!           40 block bytes u32   44 five words of the layout (the last: where slots begin)   64 length u32   68 name of the store
//!  records  0 "PLCR"   4 crc32c of what follows   8 epoch u64   16 sector u32   20 0   32 records: key u32, state u8 (1 clean, 2 dirty)
//! ```
//! All numbers are little endian. Records are valid only if their epoch is that of the head; each new cache has a new epoch and writes
//! all its record sectors when it is made, so a sector of zeros is damaged. The checksum of a head covers bytes 12 to 196, and from
//! format 3 on the first eight bytes before them. Solid-state caches have format 1, block drives format 3. Block drives had formats 1
//! and 2, in which a record sector of zeros recorded nothing.

use super::blocks::{RECORD_BYTES, RECORDS_HEADER};

const MAGIC: &[u8; 7] = b"PLCACHE";
/// Format of the head of a solid-state cache.
pub(super) const SSC_FORMAT: u8 = 1;
/// Format of a cache on a block drive.
pub(super) const BLOCK_FORMAT: u8 = 3;
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
    /// Format of the cache.
    pub format: u8,
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

/// Returns the checksum of a head.
fn checksum(bytes: &[u8], format: u8) -> u32 {
    let covered = if format < 3 { &[][..] } else { &bytes[..8] };
    crc32c::crc32c_append(crc32c::crc32c(covered), &bytes[12..HEAD_BYTES])
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
        out[..7].copy_from_slice(MAGIC);
        out[7] = b'0' + self.format;
        let checksum = checksum(&out, self.format);
        out[8..12].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Decodes a head; returns `None` if the bytes are no head.
    pub fn decode(bytes: &[u8]) -> Option<Head> {
        if bytes.len() < HEAD_BYTES || !bytes.starts_with(MAGIC) || !bytes[7].is_ascii_digit() {
            return None;
        }
        let format = bytes[7] - b'0';
        if word(bytes, 8) != checksum(bytes, format) {
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
            format,
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

/// Reports whether a sector holds records, of whatever cache.
pub(super) fn is_records(sector: &[u8]) -> bool {
    decode_records(sector, long(sector, 8), word(sector, 16)).is_some()
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
            format: BLOCK_FORMAT,
            epoch: 7,
            store: 1 << 60,
            store_sectors: 12345,
            block_bytes: 4096,
            layout: [1, 2, 3, 4, 5],
            name: "x".repeat(200),
        };
        let bytes = head.encode(512);
        assert_eq!(Head::decode(&bytes), Some(Head { name: "x".repeat(128), ..head.clone() }));
        for format in [SSC_FORMAT, 2] {
            let older = Head { format, ..head.clone() }.encode(512);
            assert_eq!(Head::decode(&older).map(|head| head.format), Some(format));
        }
        for bit in 0..HEAD_BYTES * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::decode(&damaged), None, "bit {bit}");
        }
    }

    #[test]
    fn records_count_with_their_epoch_and_sector_only() {
        let mut sector = vec![9; 512];
        encode_records(&mut sector, 5, 2, [(10, 2), (u32::MAX, 0), (12, 1)].into_iter());
        let found: Vec<_> = decode_records(&sector, 5, 2).expect("good").collect();
        assert_eq!(found, [(0, 10, 2), (2, 12, 1)]);
        assert!(decode_records(&sector, 6, 2).is_none() && decode_records(&sector, 5, 3).is_none());
        assert!(is_records(&sector) && !is_records(&[0; 512]));
        sector[40] ^= 1;
        assert!(decode_records(&sector, 5, 2).is_none() && !is_records(&sector));
    }
}
