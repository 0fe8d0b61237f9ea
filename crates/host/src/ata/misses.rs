//! Contents that look like the pattern of a miss.
//!
//! A disk interface reports a miss by a pattern in place of the data, so a cached block with that content is mistaken for a miss. The cache
//! manager knows which blocks are dirty and ignores misses of these; for a clean block it reads the backing store needlessly. Such blocks
//! are drawn from address and content, because a simulated drive may store a stamp in place of the data; a block stays affected until it is
//! rewritten.

use pellucid_flash::{FNV_BASIS, fnv1a};
use std::collections::BTreeSet;
use std::ops::Range;

/// The pattern, and blocks whose content may be taken for it.
#[derive(Clone, Debug)]
pub(super) struct Misses {
    seed: u64,
    /// Contents with a hash below this are like the pattern; 0: none is.
    below: u64,
    /// Blocks known to be clean; empty if no content is like the pattern.
    clean: BTreeSet<u64>,
}

impl Misses {
    /// Draws a share of all contents.
    pub fn new(share: f64, seed: u64) -> Misses {
        // A share of 1 leaves out the one largest hash.
        Misses { seed, below: (share * u64::MAX as f64) as u64, clean: BTreeSet::new() }
    }

    /// Records that blocks are clean, or may be dirty.
    pub fn set_clean(&mut self, blocks: Range<u64>, is_clean: bool) {
        if self.below == 0 {
            return;
        }
        for block in blocks {
            match is_clean {
                true => _ = self.clean.insert(block),
                false => _ = self.clean.remove(&block),
            }
        }
    }

    /// Returns the first clean block that looks like a miss, counted from the first; `data` is empty if the reader does not want it.
    pub fn first_false(&self, blocks: Range<u64>, data: &[u8]) -> Option<u64> {
        if self.below == 0 {
            return None;
        }
        let each = data.len() / (blocks.end - blocks.start).max(1) as usize;
        let is_like = |&(at, block): &(usize, u64)| {
            let content = &data[at * each..(at + 1) * each];
            let bytes = block.to_le_bytes().into_iter().chain(content.iter().copied());
            // The high bits of this hash are weak for short inputs.
            let is_like = mix(fnv1a(FNV_BASIS ^ self.seed, bytes)) < self.below;
            is_like && self.clean.contains(&block)
        };
        blocks.enumerate().find(is_like).map(|(at, _)| at as u64)
    }

    /// Forgets which blocks are clean.
    pub fn clear(&mut self) {
        self.clean.clear();
    }

    pub fn memory_bytes(&self) -> u64 {
        // As much as an entry of the tree takes, about.
        self.clean.len() as u64 * 16
    }
}

/// Finalizer of SplitMix64 (Steele, Lea, Flood).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_clean_contents_is_like_the_pattern() {
        let mut misses = Misses::new(0.25, 1);
        misses.set_clean(0..4000, true);
        let data = |version: u32| version.to_le_bytes();
        let like =
            |misses: &Misses, at: u32| misses.first_false(at.into()..u64::from(at) + 1, &data(at)).is_some();
        let found = (0..4000).filter(|&at| like(&misses, at)).count();
        assert!((900..1100).contains(&found), "{found} of 4000");
        let one = (0..4000).find(|&at| like(&misses, at)).expect("one of them");
        misses.set_clean(one.into()..u64::from(one) + 1, false);
        assert!(!like(&misses, one), "it is dirty");
        assert!(Misses::new(0.0, 1).first_false(0..1, &data(1)).is_none());
    }
}
