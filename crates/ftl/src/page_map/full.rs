//! Dies that were found to have no space for host data: they are skipped until that may have changed.
//!
//! A drive under GC has space in few dies at a time: the open block of each is full until an erase frees another one, and every write
//! would ask all of them again. Space comes back only when a block is taken, erased or retired somewhere, when a die is given up, or when
//! GC that paces host data has progressed; then the whole record is cleared.

/// Full dies, by their position in the order of placement.
#[derive(Clone, Debug)]
pub(super) struct FullDies {
    words: Vec<u64>,
    count: usize,
    /// The state of blocks and dies to which the record belongs.
    as_of: (u64, u32),
}

impl FullDies {
    /// Creates an empty record for `dies` dies.
    pub fn new(dies: usize) -> FullDies {
        FullDies { words: vec![0; dies.div_ceil(64)], count: dies, as_of: (0, 0) }
    }

    /// Returns whether the recorded knowledge belongs to this state.
    #[inline]
    pub fn is_of(&self, state: (u64, u32)) -> bool {
        self.as_of == state
    }

    /// Clears the record, unless it belongs to this state.
    #[inline]
    pub fn bring_to(&mut self, state: (u64, u32)) {
        if !self.is_of(state) {
            self.words.fill(0);
            self.as_of = state;
        }
    }

    /// Records that the die at `place` of the order has no space.
    #[inline]
    pub fn note(&mut self, place: usize) {
        self.words[place / 64] |= 1 << (place % 64);
    }

    /// Returns whether the die at `place` is known to have no space.
    pub fn knows(&self, place: usize) -> bool {
        self.words[place / 64] >> (place % 64) & 1 == 1
    }

    /// The first place that may have space, from `from` on, wrapping around; `None`: none has.
    #[inline]
    pub fn next_unknown(&self, from: usize) -> Option<usize> {
        match self.words[..] {
            // Most drives have so few dies.
            [word] => {
                let unknown = !word & (u64::MAX >> (64 - self.count));
                let behind = unknown >> from << from;
                let found = if behind != 0 { behind } else { unknown };
                (found != 0).then_some(found.trailing_zeros() as usize)
            }
            _ => self.unknown_in(from, self.count).or_else(|| self.unknown_in(0, from)),
        }
    }

    #[inline]
    fn unknown_in(&self, from: usize, end: usize) -> Option<usize> {
        let mut at = from;
        while at < end {
            let word = !self.words[at / 64] >> (at % 64);
            if word != 0 {
                let found = at + word.trailing_zeros() as usize;
                return (found < end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_round_the_end_as_one_by_one() {
        let mut rng = pellucid_flash::Rng::new(5);
        for count in [1, 2, 63, 64, 65, 130] {
            let mut full = FullDies::new(count);
            for round in 0..2_000 {
                let from = rng.below(count as u64) as usize;
                let plain = (from..count).chain(0..from).find(|&place| !full.knows(place));
                assert_eq!(full.next_unknown(from), plain, "{count} places, from {from}");
                match plain {
                    Some(place) if round % 3 > 0 => full.note(place),
                    Some(_) => full.note(from),
                    None => full.bring_to((round, 0)),
                }
            }
        }
    }
}
