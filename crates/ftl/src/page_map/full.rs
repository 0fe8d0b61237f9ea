//! Dies that were found to have no space for host data: they are skipped until that may have changed.
//!
//! During GC, few dies have space at a time: the open block of each is full until an erase frees another, and every write would query all
//! of them again. So this record remembers full dies. A die is queried again when space may have come back: when one of its blocks is
//! taken, erased or retired, when one of its victims begins or ends, or when GC that paces host data has progressed
//! ([`BlockManager::came`](crate::block_manager)). When blocks beyond the reserve become available ([`Spare`]), all dies may have space,
//! and the whole record is cleared.

/// Conditions of the whole drive under which its dies give host data a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spare {
    /// Host data may take a free block.
    pub blocks: bool,
    /// A translation page finds space beyond the GC reserve.
    pub map: bool,
    /// Dies that can be programmed.
    pub live_dies: u32,
}

/// Full dies, by their position in the order of placement.
#[derive(Clone, Debug)]
pub(super) struct FullDies {
    words: Vec<u64>,
    count: usize,
    /// The conditions to which the record belongs.
    as_of: Spare,
}

impl FullDies {
    /// Creates an empty record for `dies` dies.
    pub fn new(dies: usize) -> FullDies {
        FullDies { words: vec![0; dies.div_ceil(64)], count: dies, as_of: Spare::default() }
    }

    /// Returns whether the recorded result also holds under these conditions.
    #[inline]
    pub fn holds(&self, spare: Spare) -> bool {
        let Spare { blocks, map, live_dies } = self.as_of;
        (blocks || !spare.blocks) && (map || !spare.map) && live_dies == spare.live_dies
    }

    /// Clears the record, unless it holds under these conditions, to which it belongs from now on.
    #[inline]
    pub fn bring_to(&mut self, spare: Spare) {
        if !self.holds(spare) {
            self.words.fill(0);
        }
        self.as_of = spare;
    }

    /// Records that the die at `place` of the order has no space.
    #[inline]
    pub fn note(&mut self, place: usize) {
        self.words[place / 64] |= 1 << (place % 64);
    }

    /// Records that the die at `place` may have space again.
    #[inline]
    pub fn forget(&mut self, place: usize) {
        self.words[place / 64] &= !(1 << (place % 64));
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
                    None => full.forget(from),
                }
            }
        }
    }

    #[test]
    fn a_record_is_cleared_when_the_drive_has_more_to_spare_and_kept_when_it_has_less() {
        let none = Spare { blocks: false, map: false, live_dies: 4 };
        let all = Spare { blocks: true, map: true, live_dies: 4 };
        let some = [Spare { blocks: true, ..none }, Spare { map: true, ..none }, all];
        let dead = Spare { live_dies: 3, ..none };
        for (from, to, keeps) in some.map(|some| (none, some, false)).into_iter().chain([
            (all, none, true),
            (all, some[0], true),
            (some[0], some[1], false),
            (none, dead, false),
        ]) {
            let mut full = FullDies::new(4);
            full.bring_to(from);
            full.note(2);
            full.bring_to(to);
            assert_eq!(full.knows(2), keeps, "{from:?} to {to:?}");
        }
    }
}
