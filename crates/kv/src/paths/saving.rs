//! Payload of a snapshot: index and slabs, as a stop writes them and a start restores them (`snapshot.rs`).

use crate::clock::Saved;
use crate::index::{Entry, Place};
use crate::objects::Core;
use crate::slabs::{SlabRecord, State};
use crate::snapshot::PART_HEADER;
use crc32c::crc32c_append;

/// Reader of consecutive numbers.
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

/// Slabs that a snapshot needs.
pub(crate) fn snapshot_parts(core: &Core) -> u32 {
    let slabs: usize = core.slabs.stored().map(|(_, slab)| slab.tops.len() * 4).sum();
    let each = 36 + 4 * core.shape.places_each as usize;
    let fixed = 64 + core.slabs.classes().all().len() * 4 + core.slabs.records().len() * each;
    let bytes = fixed + slabs + core.index.len() as usize * size_of::<Entry>();
    bytes.div_ceil(core.shape.slab_bytes as usize - PART_HEADER) as u32
}

/// Checksum of what a snapshot depends on: slot sizes and hash seed.
fn layout_sum(core: &Core) -> u32 {
    let sizes = core
        .slabs
        .classes()
        .all()
        .iter()
        .fold(0, |sum, class| crc32c_append(sum, &class.slot_bytes.to_le_bytes()));
    crc32c_append(sizes, &core.config.seed.to_le_bytes())
}

/// Encodes the payload of a snapshot.
pub(crate) fn write_snapshot(core: &Core) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |number: u64, bytes: usize| out.extend_from_slice(&number.to_le_bytes()[..bytes]);
    put(layout_sum(core).into(), 4);
    let saved = core.clock.saved();
    put(saved.time_s.into(), 4);
    put(saved.flush_at_s.into(), 4);
    put(saved.cas, 8);
    put(saved.ticks, 8);
    put(core.slabs.stored().count() as u64, 4);
    for (number, slab) in core.slabs.stored() {
        put(u64::from(number), 4);
        put(slab.class.into(), 4);
        put(slab.order, 8);
        put(slab.accessed, 8);
        put(slab.expires_s.into(), 4);
        core.flash.engine().places(number).iter().for_each(|&place| put(place.into(), 4));
        put(slab.tops.len() as u64, 4);
        slab.tops.iter().for_each(|&top| put(top.into(), 4));
    }
    put(core.index.len(), 8);
    for entry in core.index.iter() {
        let [hash, word, rest] = entry.words();
        put(hash, 8);
        put(word, 8);
        put(rest, 8);
    }
    out
}

/// Restores a snapshot. `None`: it is not from this cache; a part may already be restored.
pub(crate) fn read_snapshot(core: &mut Core, image: &[u8]) -> Option<()> {
    let mut from = Reader(image);
    if from.u32()? != layout_sum(core) {
        return None;
    }
    let (time_s, flush_at_s, cas, ticks) = (from.u32()?, from.u32()?, from.u64()?, from.u64()?);
    core.clock.restore(Saved { time_s, flush_at_s, cas, ticks });
    let mut numbers = vec![None; core.slabs.records().len()];
    for _ in 0..from.u32()? {
        let old = from.u32()? as usize;
        *numbers.get_mut(old)? = Some(read_slab(core, &mut from)?);
    }
    for _ in 0..from.u64()? {
        let entry = Entry::from_words([from.u64()?, from.u64()?, from.u64()?], |old| {
            numbers.get(old as usize).copied().flatten()
        })?;
        let Place { slab, slot } = entry.place();
        let record = core.slabs.records().get(slab as usize)?;
        if record.state != State::Stored || *record.tops.get(slot as usize)? != (entry.hash >> 32) as u32 {
            return None;
        }
        core.slabs.add(&entry);
        if core.index.put(entry).is_some() {
            return None;
        }
    }
    from.0.is_empty().then_some(())
}

/// Restores one slab; returns its new number.
fn read_slab(core: &mut Core, from: &mut Reader) -> Option<u32> {
    let class = from.u32()?;
    let (order, accessed, expires_s) = (from.u64()?, from.u64()?, from.u32()?);
    let places = (0..core.shape.places_each).map(|_| from.u32()).collect::<Option<Vec<u32>>>()?;
    let slots = core.slabs.classes().all().get(class as usize)?.slots;
    let count = from.u32().filter(|&count| count <= slots)?;
    let tops = (0..count).map(|_| from.u32()).collect::<Option<Vec<u32>>>()?;
    if !core.flash.adopt(core.slabs.next_vacant()?, &places) {
        return None;
    }
    let class = class as u8;
    Some(core.slabs.restore(SlabRecord { class, tops, order, accessed, expires_s, ..SlabRecord::default() }))
}
