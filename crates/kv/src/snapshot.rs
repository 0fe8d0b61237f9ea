//! The snapshot that a clean stop leaves on flash.
//!
//! ```text
//!   slab of a part    0 "PLKVPART"   8 crc32c of seed and 12..512   12 crc32c of the payload   16 number of the snapshot (u64)
//!                     24 part   28 parts   32 payload bytes   36 slab bytes   40 places: one u32 each, as many as a slab has   512 payload
//!   payload           version, time, flush that is due, slot sizes; slabs; index entries
//! ```
//! Numbers are little endian. A part names its own places, so a copy elsewhere does not count; its checksum covers the seed of the cache,
//! so a stored value cannot pass for a part.

use super::Kv;
use super::engine::Shape;
use super::index::{Entry, Place};
use super::slabs::State;
use crc32c::{crc32c, crc32c_append};

/// Bytes before the payload.
pub(super) const PART_HEADER: usize = 512;
const MAGIC: &[u8; 8] = b"PLKVPART";

/// One slab of a snapshot.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
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

    /// The part that begins with this sector; `None`: it is none.
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

/// Returns whether the parts, the newest snapshot's first and in order, begin with a whole snapshot.
pub(super) fn is_whole(parts: &[Part]) -> bool {
    let Some(first) = parts.first() else { return false };
    let count = parts.iter().take_while(|part| part.generation == first.generation).count();
    count == first.parts as usize && (0..).zip(&parts[..count]).all(|(number, part)| part.part == number)
}

/// Returns whether the payload is what its parts say.
pub(super) fn is_sound(parts: &[Part], image: &[u8]) -> bool {
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

/// Numbers, one after the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from(self.u32()?) | u64::from(self.u32()?) << 32)
    }
}

impl Kv {
    /// Slabs that a snapshot needs.
    pub(super) fn snapshot_parts(&self) -> u32 {
        let slabs: usize =
            self.slabs.iter().filter(|slab| slab.state == State::Stored).map(|s| s.tops.len() * 4).sum();
        let fixed =
            64 + self.classes.len() * 4 + self.slabs.len() * (36 + 4 * self.shape.places_each as usize);
        let bytes = fixed + slabs + self.index.len() as usize * size_of::<Entry>();
        bytes.div_ceil(self.shape.slab_bytes as usize - PART_HEADER) as u32
    }

    /// Returns a checksum of the conditions for a snapshot: sizes of slots, seed of the hash.
    fn layout_sum(&self) -> u32 {
        let sizes =
            self.classes.iter().fold(0, |sum, class| crc32c_append(sum, &class.slot_bytes.to_le_bytes()));
        crc32c_append(sizes, &self.config.seed.to_le_bytes())
    }

    pub(super) fn write_snapshot(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |number: u64, bytes: usize| out.extend_from_slice(&number.to_le_bytes()[..bytes]);
        put(self.layout_sum().into(), 4);
        put(self.time_s.into(), 4);
        put(self.flush_at_s.into(), 4);
        put(self.cas, 8);
        put(self.ticks, 8);
        let stored = || (0..).zip(&self.slabs).filter(|(_, slab)| slab.state == State::Stored);
        put(stored().count() as u64, 4);
        for (number, slab) in stored() {
            put(u64::from(number), 4);
            put(slab.class.into(), 4);
            put(slab.order, 8);
            put(slab.accessed, 8);
            put(slab.expires_s.into(), 4);
            self.engine.places(number).iter().for_each(|&place| put(place.into(), 4));
            put(slab.tops.len() as u64, 4);
            slab.tops.iter().for_each(|&top| put(top.into(), 4));
        }
        put(self.index.len(), 8);
        for entry in self.index.iter() {
            let [hash, word, rest] = entry.words();
            put(hash, 8);
            put(word, 8);
            put(rest, 8);
        }
        out
    }

    /// Takes over a snapshot. `None`: it is not of this cache; part of it may have been taken over.
    pub(super) fn read_snapshot(&mut self, image: &[u8]) -> Option<()> {
        let mut from = Reader(image);
        if from.u32()? != self.layout_sum() {
            return None;
        }
        self.time_s = from.u32()?;
        self.flush_at_s = from.u32()?;
        (self.cas, self.ticks) = (from.u64()?, from.u64()?);
        let mut numbers = vec![None; self.slabs.len()];
        for _ in 0..from.u32()? {
            let old = from.u32()? as usize;
            *numbers.get_mut(old)? = Some(self.read_slab(&mut from)?);
        }
        for _ in 0..from.u64()? {
            let entry = Entry::from_words([from.u64()?, from.u64()?, from.u64()?], |old| {
                numbers.get(old as usize).copied().flatten()
            })?;
            let Place { slab, slot } = entry.place();
            let record = self.slabs.get_mut(slab as usize)?;
            if record.state != State::Stored || *record.tops.get(slot as usize)? != (entry.hash >> 32) as u32
            {
                return None;
            }
            record.valid += 1;
            record.hot += u32::from(entry.hits() > 0);
            let class = &mut self.classes[usize::from(record.class)];
            class.statistics.items += 1;
            self.longest_bytes = self.longest_bytes.max(class.slot_bytes);
            if self.index.put(entry).is_some() {
                return None;
            }
        }
        from.0.is_empty().then_some(())
    }

    /// One slab; its new number.
    fn read_slab(&mut self, from: &mut Reader) -> Option<u32> {
        let class = from.u32()?;
        let (order, accessed, expires_s) = (from.u64()?, from.u64()?, from.u32()?);
        let places = (0..self.shape.places_each).map(|_| from.u32()).collect::<Option<Vec<u32>>>()?;
        let slots = self.classes.get(class as usize)?.slots;
        let count = from.u32().filter(|&count| count <= slots)?;
        let tops = (0..count).map(|_| from.u32()).collect::<Option<Vec<u32>>>()?;
        let number = *self.vacant.last()?;
        if !self.engine.adopt(number, &places) {
            return None;
        }
        self.vacant.pop();
        let slab = &mut self.slabs[number as usize];
        (slab.state, slab.class, slab.tops) = (State::Stored, class as u8, tops);
        (slab.order, slab.accessed, slab.expires_s) = (order, accessed, expires_s);
        Some(number)
    }
}
