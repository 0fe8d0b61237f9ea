//! On-media format of a journal: its head, stored in two places, and its records.
//!
//! ```text
//!  head     0 "PLFIREHD"   8 crc32c of 12..64   12 sector bytes u32   16 id u64   24 first sector of the ring u64   32 units u32
//!           36 sectors of a unit u32   40 sectors of a cluster u32   44 version of the format u32   48 zero
//!  record   0 "PLFIRERC"   8 crc32c of all that follows   12 sectors of this header u32   16 id u64   24 sequence u64   32 units u32
//!           36 clusters named u32   40 extents u32   44 zero   48 sequence of the durable record before it u64   56 zero   64 clusters: number u64, since u64   extents: sector u64, sectors u64
//!           then the sectors of the extents, zeros up to the end of a unit
//! ```
//! All numbers are little endian. A record names every cluster with valid data in the journal, and the first
//! record that is valid for it. So the newest record alone says which sectors of the ring a start has to
//! write back. Each record names the durable one before it, so that a damaged record in between is noticed.

const HEAD_MAGIC: &[u8; 8] = b"PLFIREHD";
const RECORD_MAGIC: &[u8; 8] = b"PLFIRERC";
/// Version of the format; the first version left its field zero.
const VERSION: u32 = 2;
/// Bytes of a head, which are also those of the fixed part of a record's header.
pub(super) const FIXED_BYTES: usize = 64;
/// Bytes of a cluster or an extent in a header.
pub(super) const ENTRY_BYTES: usize = 16;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn put_word(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_long(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Maximum bytes between both heads.
const HEADS_APART_BYTES: u64 = 1 << 20;

/// Head of a journal, in the last sector of the device and in an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalHead {
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Identity of the journal; records of another journal have another id.
    pub id: u64,
    /// First sector of the ring; the host's sectors precede it.
    pub ring: u64,
    /// Units in the ring; records begin and end at units.
    pub units: u32,
    /// Sectors in a unit.
    pub unit_sectors: u32,
    /// Sectors in a cluster.
    pub cluster_sectors: u32,
    /// Version of the format.
    pub version: u32,
}

impl JournalHead {
    /// Format version that this program writes and reads.
    pub const VERSION: u32 = VERSION;

    /// Returns the sectors of the heads on a device: the last sector, and one that is a MiB, or a 64th of the
    /// device, before it.
    pub fn sectors(sectors: u64, sector_bytes: u32) -> [u64; 2] {
        let last = sectors.saturating_sub(1);
        let apart = (HEADS_APART_BYTES / u64::from(sector_bytes)).min(sectors / 64).max(1);
        [last, last.saturating_sub(apart)]
    }

    /// Encodes the head into a sector.
    pub(super) fn encode(&self, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        out[..8].copy_from_slice(HEAD_MAGIC);
        put_word(&mut out, 12, self.sector_bytes);
        put_long(&mut out, 16, self.id);
        put_long(&mut out, 24, self.ring);
        put_word(&mut out, 32, self.units);
        put_word(&mut out, 36, self.unit_sectors);
        put_word(&mut out, 40, self.cluster_sectors);
        put_word(&mut out, 44, self.version);
        let crc = crc32c::crc32c(&out[12..FIXED_BYTES]);
        put_word(&mut out, 8, crc);
        out
    }

    /// Decodes the head in a sector; returns `None` if there is none.
    pub fn parse(bytes: &[u8]) -> Option<JournalHead> {
        let good = bytes.len() >= FIXED_BYTES
            && bytes.starts_with(HEAD_MAGIC)
            && word(bytes, 8) == crc32c::crc32c(&bytes[12..FIXED_BYTES]);
        good.then(|| JournalHead {
            sector_bytes: word(bytes, 12),
            id: long(bytes, 16),
            ring: long(bytes, 24),
            units: word(bytes, 32),
            unit_sectors: word(bytes, 36),
            cluster_sectors: word(bytes, 40),
            version: word(bytes, 44).max(1),
        })
    }

    /// Returns the bytes of the ring.
    pub fn ring_bytes(&self) -> u64 {
        u64::from(self.units) * u64::from(self.unit_sectors) * u64::from(self.sector_bytes)
    }
}

/// Record, without its sectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub sequence: u64,
    /// Number of the durable record before it; 0 if there is none.
    pub before: u64,
    /// Unit at which the record begins.
    pub unit: u32,
    pub units: u32,
    pub header_sectors: u32,
    /// Named clusters, each with the first record that is valid for it.
    pub named: Vec<(u64, u64)>,
    /// Sectors that follow the header, as extents: first sector and count.
    pub extents: Vec<(u64, u64)>,
}

/// Returns the sectors of a record's header.
pub(super) fn header_sectors(entries: usize, sector_bytes: usize) -> u32 {
    (FIXED_BYTES + entries * ENTRY_BYTES).div_ceil(sector_bytes) as u32
}

impl Record {
    /// Writes the header into `bytes`, which already hold the sectors, and seals the record.
    pub fn seal(&self, id: u64, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(RECORD_MAGIC);
        put_word(bytes, 12, self.header_sectors);
        put_long(bytes, 16, id);
        put_long(bytes, 24, self.sequence);
        put_word(bytes, 32, self.units);
        put_word(bytes, 36, self.named.len() as u32);
        put_word(bytes, 40, self.extents.len() as u32);
        put_long(bytes, 48, self.before);
        let entries = self.named.iter().chain(&self.extents);
        for (at, &(first, second)) in (FIXED_BYTES..).step_by(ENTRY_BYTES).zip(entries) {
            put_long(bytes, at, first);
            put_long(bytes, at + 8, second);
        }
        let crc = crc32c::crc32c(&bytes[12..]);
        put_word(bytes, 8, crc);
    }

    /// Returns the units of the record that `bytes` may begin with.
    pub fn units_at(bytes: &[u8], id: u64) -> Option<u32> {
        (bytes.starts_with(RECORD_MAGIC) && long(bytes, 16) == id).then(|| word(bytes, 32))
    }

    /// Reports whether `bytes` begin like a record; one field may be damaged.
    pub fn begins(bytes: &[u8], id: u64) -> bool {
        bytes.starts_with(RECORD_MAGIC) || long(bytes, 16) == id
    }

    /// Reports whether `bytes` begin like a record of any journal.
    pub fn begins_any(bytes: &[u8]) -> bool {
        bytes.starts_with(RECORD_MAGIC)
    }

    /// Reports whether `bytes` are the record of a journal that was just made: it names nothing.
    pub fn is_first(bytes: &[u8]) -> bool {
        let sector_bytes = bytes.len();
        let first = Record::parse(bytes, 0, sector_bytes);
        first.is_some_and(|record| record.sequence == 1 && record.named.is_empty())
    }

    /// Decodes a whole record; returns `None` if it is torn.
    pub fn parse(bytes: &[u8], unit: u32, sector_bytes: usize) -> Option<Record> {
        let (named, extents) = (word(bytes, 36) as usize, word(bytes, 40) as usize);
        let entries = named.checked_add(extents)?;
        let header = header_sectors(entries, sector_bytes);
        let good = word(bytes, 8) == crc32c::crc32c(&bytes[12..])
            && word(bytes, 12) == header
            && header as usize * sector_bytes <= bytes.len();
        good.then(|| {
            let entry = |at: usize| {
                let at = FIXED_BYTES + at * ENTRY_BYTES;
                (long(bytes, at), long(bytes, at + 8))
            };
            Record {
                sequence: long(bytes, 24),
                before: long(bytes, 48),
                unit,
                units: word(bytes, 32),
                header_sectors: header,
                named: (0..named).map(entry).collect(),
                extents: (named..entries).map(entry).collect(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_a_torn_one_does_not() {
        let record = Record {
            sequence: 9,
            before: 7,
            unit: 3,
            units: 2,
            header_sectors: header_sectors(3, 512),
            named: vec![(5, 7), (6, 9)],
            extents: vec![(40, 2)],
        };
        let mut bytes = vec![7; 2048];
        bytes[..512].fill(0);
        record.seal(1, &mut bytes);
        assert_eq!(Record::units_at(&bytes, 1), Some(2));
        assert_eq!(Record::units_at(&bytes, 2), None, "of another journal");
        assert_eq!(Record::parse(&bytes, 3, 512), Some(record));
        for at in (8..2048).step_by(97) {
            let mut torn = bytes.clone();
            torn[at] ^= 1;
            assert_eq!(Record::parse(&torn, 3, 512), None, "byte {at}");
        }
    }

    #[test]
    fn heads_are_apart_on_any_device() {
        assert_eq!(JournalHead::sectors(1 << 20, 512), [(1 << 20) - 1, (1 << 20) - 1 - 2048]);
        assert_eq!(JournalHead::sectors(640, 4096), [639, 629]);
        assert_eq!(JournalHead::sectors(2, 512), [1, 0]);
    }

    #[test]
    fn a_head_comes_back() {
        let head = JournalHead {
            sector_bytes: 512,
            id: 4,
            ring: 1000,
            units: 64,
            unit_sectors: 32,
            cluster_sectors: 2048,
            version: VERSION,
        };
        let mut bytes = head.encode(512);
        assert_eq!(JournalHead::parse(&bytes), Some(head));
        assert_eq!(head.ring_bytes(), 1 << 20);
        bytes[33] ^= 1;
        assert_eq!(JournalHead::parse(&bytes), None);
        assert_eq!(JournalHead::parse(&[0; 512]), None);
    }
}
