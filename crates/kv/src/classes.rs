//! Slab classes: slots of growing sizes.
//!
//! A slab begins with a header of [`SLAB_HEADER`] bytes; the rest is divided into slots of its class. Slot sizes grow by a factor; the last class has
//! one slot, so an item may be as large as a slab.

use crate::index::Entry;
use crate::{ClassStatistics, KvConfig};
use pellucid_flash::slab::NIL;

/// Bytes of a slab before its first slot.
pub(crate) const SLAB_HEADER: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub slot_bytes: u32,
    pub slots: u32,
    /// The open slab of the class; `NIL`: none.
    pub open: u32,
    pub statistics: ClassStatistics,
}

impl Class {
    /// Offset of a slot in its slab.
    #[inline]
    pub fn offset(&self, slot: u32) -> usize {
        SLAB_HEADER + slot as usize * self.slot_bytes as usize
    }
}

/// All classes, in ascending order of their slots.
#[derive(Clone, Debug)]
pub(crate) struct Classes {
    list: Vec<Class>,
    /// Longest slot used since the cache was empty.
    longest_bytes: u32,
}

impl Classes {
    /// The classes of slabs of `slab_bytes`.
    pub fn new(config: &KvConfig, slab_bytes: u32) -> Classes {
        Classes { list: classes(config, slab_bytes), longest_bytes: 0 }
    }

    #[inline]
    pub fn get(&self, class: usize) -> &Class {
        &self.list[class]
    }

    pub fn all(&self) -> &[Class] {
        &self.list
    }

    /// The smallest class with slots of at least this size.
    #[inline]
    pub fn smallest(&self, bytes: usize) -> Option<usize> {
        let class = self.list.partition_point(|class| (class.slot_bytes as usize) < bytes);
        (class < self.list.len()).then_some(class)
    }

    /// Longest slot used since the cache was empty, in bytes.
    #[inline]
    pub fn longest_bytes(&self) -> u32 {
        self.longest_bytes
    }

    /// Sets the open slab of a class; `NIL`: none.
    pub fn fill(&mut self, class: usize, slab: u32) {
        self.list[class].open = slab;
    }

    /// Counts one more item in a class.
    #[inline]
    pub fn add_item(&mut self, class: usize) {
        let class = &mut self.list[class];
        class.statistics.items += 1;
        self.longest_bytes = self.longest_bytes.max(class.slot_bytes);
    }

    /// Counts one item less in a class.
    #[inline]
    pub fn remove_item(&mut self, class: usize) {
        self.list[class].statistics.items -= 1;
    }

    /// Counts no items in all classes.
    pub fn drop_items(&mut self) {
        self.list.iter_mut().for_each(|class| class.statistics.items = 0);
        self.longest_bytes = 0;
    }

    /// Increments a counter of a class.
    #[inline]
    pub fn count(&mut self, class: usize, counter: impl FnOnce(&mut ClassStatistics) -> &mut u64) {
        *counter(&mut self.list[class].statistics) += 1;
    }
}

/// The classes of slabs of `slab_bytes`.
fn classes(config: &KvConfig, slab_bytes: u32) -> Vec<Class> {
    let room = slab_bytes - SLAB_HEADER as u32;
    let mut list: Vec<Class> = Vec::new();
    let mut size = config.slot_min_bytes.max(room.div_ceil(Entry::SLOTS_MAX)).next_multiple_of(8).min(room);
    loop {
        let slots = room / size;
        // The largest size that gives this number of slots.
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
