//! A set of dies.

use pellucid_flash::DieId;

/// A set of dies, of which some are looked for often.
#[derive(Clone, Debug)]
pub(crate) struct DieSet {
    words: Vec<u64>,
    any: bool,
}

impl DieSet {
    /// Creates an empty set of some of `dies` dies.
    pub fn new(dies: u32) -> DieSet {
        DieSet { words: vec![0; dies.div_ceil(64) as usize], any: false }
    }

    /// Adds a die.
    #[inline]
    pub fn add(&mut self, die: DieId) {
        self.words[die.0 as usize / 64] |= 1 << (die.0 % 64);
        self.any = true;
    }

    /// Returns whether a die is in the set.
    pub fn has(&self, die: DieId) -> bool {
        self.words[die.0 as usize / 64] >> (die.0 % 64) & 1 == 1
    }

    /// Takes all dies out, in order, and gives each to `each`.
    #[inline]
    pub fn drain(&mut self, each: impl FnMut(DieId)) {
        if self.any {
            self.drain_all(each);
        }
    }

    fn drain_all(&mut self, mut each: impl FnMut(DieId)) {
        self.any = false;
        for (word, first) in self.words.iter_mut().zip((0..).step_by(64)) {
            let mut left = std::mem::take(word);
            while left != 0 {
                each(DieId(first + left.trailing_zeros()));
                left &= left - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_comes_out_once_and_in_order() {
        let mut set = DieSet::new(130);
        let dies = [0, 1, 63, 64, 127, 129];
        for die in dies.into_iter().rev().chain([64]) {
            set.add(DieId(die));
        }
        assert!(set.has(DieId(127)) && !set.has(DieId(126)));
        let mut out = Vec::new();
        set.drain(|die| out.push(die.0));
        assert_eq!(out, dies);
        set.drain(|die| panic!("die {} comes again", die.0));
        assert!(!set.has(DieId(127)));
    }
}
