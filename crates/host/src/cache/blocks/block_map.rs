//! Set of blocks of the backing store: a bitmap whose pages exist only where the set has blocks.
//!
//! It returns blocks in the order of their addresses, and costs a bit for each block of the regions in use.

use pellucid_flash::SimTime;

/// Blocks in a page.
const PAGE: u64 = 4096;

#[derive(Clone, Debug)]
struct Page {
    words: [u64; PAGE as usize / 64],
    count: u32,
    /// Time of the last insertion.
    changed: SimTime,
}

/// Set of blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockMap {
    /// Pages by number; empty before the first insertion.
    pages: Vec<Option<Box<Page>>>,
    most: usize,
    count: u64,
    /// Number of existing pages.
    used: u64,
}

impl BlockMap {
    pub fn new(blocks: u64) -> BlockMap {
        BlockMap { pages: Vec::new(), most: blocks.div_ceil(PAGE) as usize, count: 0, used: 0 }
    }

    /// Returns the number of blocks in the set.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    #[inline]
    pub fn contains(&self, block: u64) -> bool {
        match self.pages.get((block / PAGE) as usize) {
            Some(Some(page)) => page.words[(block % PAGE / 64) as usize] >> (block % 64) & 1 == 1,
            _ => false,
        }
    }

    /// Inserts a block. Returns whether it was absent.
    #[inline]
    pub fn insert(&mut self, now: SimTime, block: u64) -> bool {
        if self.pages.is_empty() {
            self.pages.resize_with(self.most, || None);
        }
        let slot = &mut self.pages[(block / PAGE) as usize];
        if slot.is_none() {
            self.used += 1;
            *slot = Some(Box::new(Page { words: [0; PAGE as usize / 64], count: 0, changed: now }));
        }
        let page = slot.as_mut().expect("made just now");
        page.changed = now;
        let (word, bit) = (&mut page.words[(block % PAGE / 64) as usize], 1 << (block % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        page.count += u32::from(is_new);
        self.count += u64::from(is_new);
        is_new
    }

    /// Removes a block. Returns whether it was present.
    pub fn remove(&mut self, block: u64) -> bool {
        let Some(Some(page)) = self.pages.get_mut((block / PAGE) as usize) else { return false };
        let (word, bit) = (&mut page.words[(block % PAGE / 64) as usize], 1 << (block % 64));
        let was = *word & bit != 0;
        *word &= !bit;
        page.count -= u32::from(was);
        self.count -= u64::from(was);
        was
    }

    /// Returns the first block of the set from `from` on.
    pub fn next(&self, from: u64) -> Option<u64> {
        let mut at = from;
        while let Some(slot) = self.pages.get((at / PAGE) as usize) {
            let end = (at / PAGE + 1) * PAGE;
            let Some(page) = slot.as_ref().filter(|page| page.count > 0) else {
                at = end;
                continue;
            };
            while at < end {
                let word = page.words[(at % PAGE / 64) as usize] >> (at % 64);
                if word != 0 {
                    return Some(at + u64::from(word.trailing_zeros()));
                }
                at = (at / 64 + 1) * 64;
            }
        }
        None
    }

    /// Reports whether block `from` is in the set, and how many of the `count` blocks from it on agree.
    pub fn run(&self, from: u64, count: u64) -> (bool, u64) {
        let first = self.contains(from);
        let differs = (from + 1..from + count).find(|&block| self.contains(block) != first);
        (first, differs.map_or(count, |block| block - from))
    }

    /// Reports whether any of the `count` blocks from `from` on is in the set.
    pub fn any(&self, from: u64, count: u64) -> bool {
        self.count > 0 && (from..from + count).any(|block| self.contains(block))
    }

    /// Removes all blocks.
    pub fn clear(&mut self) {
        if self.count > 0 {
            self.pages.iter_mut().for_each(|page| *page = None);
            (self.count, self.used) = (0, 0);
        }
    }

    /// Inserts all blocks of `other`.
    pub fn add_all(&mut self, now: SimTime, other: &BlockMap) {
        let mut from = 0;
        while let Some(block) = other.next(from) {
            self.insert(now, block);
            from = block + 1;
        }
    }

    /// Returns the blocks of the least recently changed region in use, and the time of its change.
    pub fn oldest(&self) -> Option<(std::ops::Range<u64>, SimTime)> {
        let pages = (0..).step_by(PAGE as usize).zip(&self.pages);
        let used =
            pages.filter_map(|(first, page)| Some((first, page.as_ref().filter(|page| page.count > 0)?)));
        let (first, page) = used.min_by_key(|(_, page)| page.changed)?;
        Some((first..first + PAGE, page.changed))
    }

    pub fn memory_bytes(&self) -> u64 {
        (self.pages.capacity() * size_of::<Option<Box<Page>>>()) as u64 + self.used * size_of::<Page>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn it_is_an_ordered_set() {
        let blocks = 3 * PAGE + 77;
        let (mut map, mut model) = (BlockMap::new(blocks), BTreeSet::new());
        let mut rng = Rng::stream(7, "block map");
        for step in 0..20_000u64 {
            let block = match rng.chance(0.5) {
                true => rng.below(blocks),
                false => PAGE - 40 + rng.below(80),
            };
            if rng.chance(0.5) {
                assert_eq!(map.insert(SimTime(step), block), model.insert(block));
            } else {
                assert_eq!(map.remove(block), model.remove(&block));
            }
            let from = rng.below(blocks);
            assert_eq!(map.next(from), model.range(from..).next().copied());
            assert_eq!(map.count(), model.len() as u64);
            assert_eq!(map.contains(from), model.contains(&from));
            let count = 1 + rng.below(100).min(blocks - from - 1);
            let alike =
                (from..from + count).take_while(|at| model.contains(at) == model.contains(&from)).count();
            assert_eq!(map.run(from, count), (model.contains(&from), alike as u64));
        }
        assert!(
            map.oldest().is_some_and(|(region, _)| map.next(region.start).is_some_and(|at| at < region.end))
        );
        let mut other = BlockMap::new(blocks);
        other.add_all(SimTime(1), &map);
        map.clear();
        assert_eq!((map.count(), map.next(0), other.count()), (0, None, model.len() as u64));
    }
}
