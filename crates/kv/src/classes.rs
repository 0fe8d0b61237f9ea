//! Slab classes: slots of growing sizes.
//!
//! A slab begins with a header of [`SLAB_HEADER`] bytes; the rest is cut into slots of its class. The sizes grow by a factor; the last
//! class has one slot, so an item may be as large as a slab.

use crate::index::Entry;
use crate::{ClassStatistics, KvConfig};
use pellucid_flash::slab::NIL;

/// Bytes of a slab before its first slot.
pub(crate) const SLAB_HEADER: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub slot_bytes: u32,
    pub slots: u32,
    /// The slab that is being filled; `NIL`: none.
    pub open: u32,
    pub statistics: ClassStatistics,
}

impl Class {
    /// Where a slot begins in its slab.
    #[inline]
    pub fn offset(&self, slot: u32) -> usize {
        SLAB_HEADER + slot as usize * self.slot_bytes as usize
    }
}

/// The classes of slabs of `slab_bytes`.
pub(crate) fn classes(config: &KvConfig, slab_bytes: u32) -> Vec<Class> {
    let room = slab_bytes - SLAB_HEADER as u32;
    let mut list: Vec<Class> = Vec::new();
    let mut size = config.slot_min_bytes.max(room.div_ceil(Entry::SLOTS_MAX)).next_multiple_of(8).min(room);
    loop {
        let slots = room / size;
        // Of sizes that give as many slots, the largest.
        let slot_bytes = if slots < 64 { room / slots / 8 * 8 } else { size };
        if list.last().is_none_or(|last| last.slot_bytes < slot_bytes) {
            let statistics =
                ClassStatistics { slot_bytes, slots_per_slab: slots, ..ClassStatistics::default() };
            list.push(Class { slot_bytes, slots, open: NIL, statistics });
        }
        if slots == 1 {
            return list;
        }
        let next = (f64::from(slot_bytes) * config.growth_factor) as u32;
        size = next.max(slot_bytes + 8).next_multiple_of(8).min(room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineKind;

    #[test]
    fn classes_grow_to_a_whole_slab_and_waste_little() {
        for slab in [4096, 65_536, 1 << 20, 6 << 20, 16 << 20] {
            let list = classes(&KvConfig::new(EngineKind::Original), slab);
            assert!(list.len() <= 64, "{}", list.len());
            assert!(list.is_sorted_by(|a, b| a.slot_bytes < b.slot_bytes));
            for class in &list {
                assert!(class.offset(class.slots) <= slab as usize);
                assert!(class.slots <= Entry::SLOTS_MAX);
            }
            let last = list.last().unwrap();
            assert!(last.slots == 1 && last.slot_bytes > slab - 80);
        }
    }
}
