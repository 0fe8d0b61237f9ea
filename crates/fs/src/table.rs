//! A hash table from block addresses to frames: open addressing, without gaps after removals.

/// A map from addresses to frames.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Address and frame; address 0: empty.
    slots: Vec<(u64, u32)>,
    used: usize,
}

impl Default for Table {
    fn default() -> Table {
        Table { slots: vec![(0, 0); 64], used: 0 }
    }
}

impl Table {
    #[inline]
    fn home(&self, address: u64) -> usize {
        let shift = 64 - self.slots.len().trailing_zeros();
        (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
    }

    #[inline]
    fn find(&self, address: u64) -> (usize, bool) {
        let mask = self.slots.len() - 1;
        let mut at = self.home(address);
        loop {
            match self.slots[at].0 {
                0 => return (at, false),
                found if found == address => return (at, true),
                _ => at = (at + 1) & mask,
            }
        }
    }

    #[inline]
    pub fn get(&self, address: u64) -> Option<u32> {
        let (at, found) = self.find(address);
        found.then(|| self.slots[at].1)
    }

    pub fn insert(&mut self, address: u64, frame: u32) {
        if 4 * (self.used + 1) > 3 * self.slots.len() {
            let doubled = vec![(0, 0); 2 * self.slots.len()];
            let old = std::mem::replace(&mut self.slots, doubled);
            self.used = 0;
            for (address, frame) in old.into_iter().filter(|slot| slot.0 != 0) {
                self.insert(address, frame);
            }
        }
        let (at, found) = self.find(address);
        self.slots[at] = (address, frame);
        self.used += usize::from(!found);
    }

    pub fn remove(&mut self, address: u64) {
        let mask = self.slots.len() - 1;
        let (mut gap, found) = self.find(address);
        if !found {
            return;
        }
        self.used -= 1;
        let mut at = gap;
        loop {
            self.slots[gap].0 = 0;
            // The next entry whose probe sequence passes the gap moves into it.
            loop {
                at = (at + 1) & mask;
                if self.slots[at].0 == 0 {
                    return;
                }
                let home = self.home(self.slots[at].0);
                if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                    break;
                }
            }
            self.slots[gap] = self.slots[at];
            gap = at;
        }
    }

    pub fn len(&self) -> usize {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn it_does_what_a_map_does() {
        let (mut table, mut map, mut rng) = (Table::default(), BTreeMap::new(), Rng::new(1));
        for step in 0..200_000u32 {
            let address = 1 + rng.below(700);
            if rng.chance(0.5) {
                table.insert(address, step);
                map.insert(address, step);
            } else {
                table.remove(address);
                map.remove(&address);
            }
            let other = 1 + rng.below(700);
            assert_eq!(table.get(other), map.get(&other).copied());
            assert_eq!(table.len(), map.len());
        }
    }
}
