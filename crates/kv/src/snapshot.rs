//! The snapshot that a clean stop leaves on flash.
//!
//! ```text
//!   slab of a part    0 "PLKVPART"   8 crc32c of seed and 12..512   12 crc32c of the payload   16 number of the snapshot (u64)
//!                     24 part   28 parts   32 payload bytes   36 slab bytes   40 places: one u32 each, as many as a slab has   512 payload
//!   payload           version, time, flush that is due, slot sizes; slabs; index entries
//! ```
//! Numbers are little-endian. A part names its own places, so a copy elsewhere is ignored; its checksum covers the cache's seed, so a stored value
//! cannot pass for a part.

use crate::engine::Shape;
use crc32c::{crc32c, crc32c_append};

/// Bytes before the payload.
pub(crate) const PART_HEADER: usize = 512;
const MAGIC: &[u8; 8] = b"PLKVPART";

/// One slab of a snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub generation: u64,
    pub part: u32,
    pub parts: u32,
    pub bytes: u32,
    pub crc: u32,
    pub places: Vec<u32>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

impl Part {
    pub fn new(generation: u64, part: u32, parts: u32, payload: &[u8]) -> Part {
        let (bytes, crc) = (payload.len() as u32, crc32c(payload));
        Part { generation, part, parts, bytes, crc, places: Vec::new() }
    }

    fn checksum(seed: u64, header: &[u8]) -> u32 {
        crc32c_append(crc32c(&seed.to_le_bytes()), &header[12..PART_HEADER])
    }

    pub fn encode(&self, seed: u64, shape: &Shape) -> [u8; PART_HEADER] {
        let mut header = [0; PART_HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[16..24].copy_from_slice(&self.generation.to_le_bytes());
        let numbers = [self.part, self.parts, self.bytes, shape.slab_bytes];
        for (at, number) in (24..).step_by(4).zip(numbers.iter().chain(&self.places)) {
            header[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        header[12..16].copy_from_slice(&self.crc.to_le_bytes());
        let sum = Part::checksum(seed, &header);
        header[8..12].copy_from_slice(&sum.to_le_bytes());
        header
    }

    /// Decodes the header of a part from its first sector; `None`: not a part.
    pub fn decode(seed: u64, shape: &Shape, sector: &[u8]) -> Option<Part> {
        let header = sector.get(..PART_HEADER)?;
        let own = header.starts_with(MAGIC)
            && word(header, 8) == Part::checksum(seed, header)
            && word(header, 36) == shape.slab_bytes;
        let places = (0..shape.places_each as usize).map(|at| word(header, 40 + at * 4)).collect();
        let part = Part {
            generation: u64::from(word(header, 16)) | u64::from(word(header, 20)) << 32,
            part: word(header, 24),
            parts: word(header, 28),
            bytes: word(header, 32),
            crc: word(header, 12),
            places,
        };
        (own && part.bytes as usize <= shape.slab_bytes as usize - PART_HEADER).then_some(part)
    }
}

/// Reports whether the parts, those of the newest snapshot first and in order, begin with a complete snapshot.
pub(crate) fn is_whole(parts: &[Part]) -> bool {
    let Some(first) = parts.first() else { return false };
    let count = parts.iter().take_while(|part| part.generation == first.generation).count();
    count == first.parts as usize && (0..).zip(&parts[..count]).all(|(number, part)| part.part == number)
}

/// Reports whether the payload agrees with its parts.
pub(crate) fn is_sound(parts: &[Part], image: &[u8]) -> bool {
    let mut rest = image;
    for part in parts {
        let Some((payload, behind)) = rest.split_at_checked(part.bytes as usize) else {
            return rest.is_empty();
        };
        if rest.is_empty() {
            return true;
        }
        if crc32c(payload) != part.crc {
            return false;
        }
        rest = behind;
    }
    rest.is_empty()
}
