//! Live units of each block, and which of these are virtual.
//!
//! A block that was filled in order and has lost no unit needs only a number; any other block has a mask. So memory use depends on
//! irregularity: at most one bit per unit, or two if data and virtual units share a block.

use pellucid_flash::{BlockId, Layout, Ppa};

const NIL: u32 = u32::MAX;
/// Flag of [`LiveUnits::live`]: the rest is the number of a mask, not a count of live units from the first on.
const MASK: u32 = 1 << 31;

/// The units of all blocks.
#[derive(Clone, Debug)]
pub(super) struct LiveUnits {
    layout: Layout,
    /// Live units of each block: a count from the first on, or the number of a mask.
    live: Vec<u32>,
    /// Number of the mask of virtual units of each block that has some.
    kind: Vec<u32>,
    masks: Vec<u64>,
    vacant: Vec<u32>,
    words: usize,
}

impl LiveUnits {
    pub fn new(layout: &Layout) -> LiveUnits {
        LiveUnits {
            live: vec![0; layout.blocks as usize],
            kind: vec![NIL; layout.blocks as usize],
            masks: Vec::new(),
            vacant: Vec::new(),
            words: layout.units_per_block.div_ceil(64) as usize,
            layout: layout.clone(),
        }
    }

    fn take_mask(&mut self) -> u32 {
        match self.vacant.pop() {
            Some(at) => {
                self.words_of(at).fill(0);
                at
            }
            None => {
                self.masks.resize(self.masks.len() + self.words, 0);
                (self.masks.len() / self.words) as u32 - 1
            }
        }
    }

    fn words_of(&mut self, mask: u32) -> &mut [u64] {
        &mut self.masks[mask as usize * self.words..][..self.words]
    }

    fn bit(&self, mask: u32, index: u32) -> bool {
        self.masks[mask as usize * self.words + index as usize / 64] >> (index % 64) & 1 == 1
    }

    fn put(&mut self, mask: u32, index: u32, value: bool) {
        let word = &mut self.words_of(mask)[index as usize / 64];
        *word = *word & !(1 << (index % 64)) | u64::from(value) << (index % 64);
    }

    /// Mask of the live units of `block`, created if needed.
    fn live_mask(&mut self, block: usize) -> u32 {
        let live = self.live[block];
        if live & MASK != 0 {
            return live & !MASK;
        }
        let mask = self.take_mask();
        (0..live).for_each(|index| self.put(mask, index, true));
        self.live[block] = mask | MASK;
        mask
    }

    /// Returns whether the unit at `ppa` lives.
    pub fn lives(&self, ppa: Ppa) -> bool {
        let (block, index) = self.split(ppa);
        let live = self.live[block];
        if live & MASK == 0 { index < live } else { self.bit(live & !MASK, index) }
    }

    /// Returns whether the live unit at `ppa` is a virtual one.
    pub fn is_virtual(&self, ppa: Ppa) -> bool {
        let (block, index) = self.split(ppa);
        self.kind[block] != NIL && self.bit(self.kind[block], index)
    }

    /// Returns whether `block` holds virtual units.
    pub fn has_virtual(&self, block: BlockId) -> bool {
        self.kind[block.0 as usize] != NIL
    }

    fn split(&self, ppa: Ppa) -> (usize, u32) {
        let block = self.layout.block_of(ppa);
        (block.0 as usize, self.layout.index_in_block(ppa))
    }

    /// Marks the unit at `ppa` as live.
    pub fn set(&mut self, ppa: Ppa, is_virtual: bool) {
        let (block, index) = self.split(ppa);
        debug_assert!(!self.lives(ppa), "unit {} lives", ppa.0);
        if self.live[block] == index {
            self.live[block] += 1;
        } else {
            let mask = self.live_mask(block);
            self.put(mask, index, true);
        }
        if is_virtual {
            if self.kind[block] == NIL {
                self.kind[block] = self.take_mask();
            }
            self.put(self.kind[block], index, true);
        }
    }

    /// Marks the unit at `ppa` as no longer live.
    pub fn clear(&mut self, ppa: Ppa) {
        let (block, index) = self.split(ppa);
        debug_assert!(self.lives(ppa), "unit {} does not live", ppa.0);
        if self.live[block] == index + 1 {
            self.live[block] = index;
        } else {
            let mask = self.live_mask(block);
            self.put(mask, index, false);
            if self.words_of(mask).iter().all(|&word| word == 0) {
                self.vacant.push(mask);
                self.live[block] = 0;
            }
        }
        if self.kind[block] != NIL {
            let mask = self.kind[block];
            self.put(mask, index, false);
            if self.words_of(mask).iter().all(|&word| word == 0) {
                self.vacant.push(mask);
                self.kind[block] = NIL;
            }
        }
    }

    /// Live units of `block`, in order.
    pub fn of(&self, block: BlockId) -> impl Iterator<Item = Ppa> + '_ {
        let units = (0..self.layout.units_per_block).map(move |index| self.layout.ppa(block, index));
        units.filter(|&ppa| self.lives(ppa))
    }

    pub fn memory_bytes(&self) -> u64 {
        (self.live.len() * 4 + self.kind.len() * 4 + self.masks.len() * 8 + self.vacant.len() * 4) as u64
    }
}
