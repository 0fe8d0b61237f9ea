//! The state of one block in one 64-bit word, so that eight blocks share a cache line and every change is one store:
//! a process that dies between two stores leaves a legal state behind.
//!
//! ```text
//!  bit 0                     32              49          56        64
//!      | erase count          | next superpage   | flags     | checksum (in an image file; 0 in memory)
//!
//!            erase_begin                      erase_end
//!   any -----------------> ERASING -------------------------------> erased (next superpage 0)
//!                             |  power cut, or the erase fails
//!                             +----------------------------------> HALF_ERASED (next superpage = all)
//!            program_begin                    program_end
//!   next = s ------------> PROGRAMMING ----------------------------> next = s + 1
//!                             |  power cut, or the program fails
//!                             +----------------------------------> next = s + 1, superpage s unreadable
//! ```
//! Invariant: a word of all zeros is a good, erased, never used block, so sparse memory and sparse files start right.

use crate::media::Health;

const NEXT_SHIFT: u32 = 32;
const NEXT_MASK: u64 = (1 << 17) - 1;
const CHECK_SHIFT: u32 = 56;
const BODY_MASK: u64 = (1 << CHECK_SHIFT) - 1;

/// One block's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockState(u64);

/// One flag of a block.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(crate) enum Flag {
    /// A program has begun on superpage `next_superpage`.
    Programming = 1 << 49,
    /// An erase has begun.
    Erasing = 1 << 50,
    /// An erase was cut or failed: nothing is readable until the next complete erase.
    HalfErased = 1 << 51,
    /// Some superpage below `next_superpage` is torn or failed; the spare area says which.
    HasUnreadable = 1 << 52,
    /// Bad from the factory.
    FactoryBad = 1 << 53,
    /// Retired during life.
    GrownBad = 1 << 54,
}

impl BlockState {
    #[inline]
    pub(crate) fn erase_count(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn with_erase_count(self, count: u32) -> BlockState {
        BlockState(self.0 & !u64::from(u32::MAX) | u64::from(count))
    }

    #[inline]
    pub(crate) fn next_superpage(self) -> u32 {
        ((self.0 >> NEXT_SHIFT) & NEXT_MASK) as u32
    }

    #[inline]
    pub(crate) fn is(self, flag: Flag) -> bool {
        self.0 & flag as u64 != 0
    }

    /// Returns whether the block is being erased, or half erased, or was never usable: no superpage of it can be read.
    #[inline]
    pub(crate) fn all_unreadable(self) -> bool {
        self.0 & (Flag::Erasing as u64 | Flag::HalfErased as u64 | Flag::FactoryBad as u64) != 0
    }

    /// Returns whether an operation has begun and not ended.
    #[inline]
    pub(crate) fn busy(self) -> bool {
        self.0 & (Flag::Programming as u64 | Flag::Erasing as u64) != 0
    }

    #[inline]
    pub(crate) fn health(self) -> Health {
        if self.is(Flag::FactoryBad) {
            Health::FactoryBad
        } else if self.is(Flag::GrownBad) {
            Health::GrownBad
        } else {
            Health::Good
        }
    }

    #[inline]
    pub(crate) fn with(self, flag: Flag) -> BlockState {
        BlockState(self.0 | flag as u64)
    }

    #[inline]
    pub(crate) fn without(self, flag: Flag) -> BlockState {
        BlockState(self.0 & !(flag as u64))
    }

    #[inline]
    pub(crate) fn with_next_superpage(self, next: u32) -> BlockState {
        debug_assert!(u64::from(next) <= NEXT_MASK);
        BlockState(self.0 & !(NEXT_MASK << NEXT_SHIFT) | u64::from(next) << NEXT_SHIFT)
    }

    /// The state after a complete erase: only wear and health are kept.
    #[inline]
    pub(crate) fn erased(self) -> BlockState {
        let count = u64::from(self.erase_count().saturating_add(1));
        BlockState(count | self.0 & (Flag::FactoryBad as u64 | Flag::GrownBad as u64))
    }

    /// The word as an image file stores it: the top byte makes the exclusive or of all eight bytes zero.
    #[inline]
    pub(crate) fn to_checked(self) -> u64 {
        self.0 | fold(self.0) << CHECK_SHIFT
    }

    /// The state in a stored word; `None` when the checksum is wrong or a field is impossible.
    pub(crate) fn from_checked(word: u64, superpages_per_block: u32) -> Option<BlockState> {
        let state = BlockState(word & BODY_MASK);
        let both_busy = state.is(Flag::Programming) && state.is(Flag::Erasing);
        let full = state.next_superpage() >= superpages_per_block && state.is(Flag::Programming);
        let unknown = word >> 55 & 1 != 0;
        let legal = state.next_superpage() <= superpages_per_block && !both_busy && !full && !unknown;
        (fold(word) == 0 && legal).then_some(state)
    }
}

/// The exclusive or of the eight bytes of a word: any damage within one byte changes it.
#[inline]
fn fold(word: u64) -> u64 {
    let word = word ^ word >> 32;
    let word = word ^ word >> 16;
    (word ^ word >> 8) & 0xff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_a_good_erased_block() {
        let state = BlockState::from_checked(0, 16).unwrap();
        assert_eq!((state.erase_count(), state.next_superpage(), state.health()), (0, 0, Health::Good));
        assert!(!state.busy() && !state.all_unreadable());
    }

    #[test]
    fn every_single_bit_of_damage_is_seen() {
        let state = BlockState::default().erased().with_next_superpage(12).with(Flag::HasUnreadable);
        let word = state.to_checked();
        assert_eq!(BlockState::from_checked(word, 16), Some(state));
        for bit in 0..64 {
            assert_eq!(BlockState::from_checked(word ^ 1 << bit, 16), None, "bit {bit}");
        }
        assert_eq!(BlockState::from_checked(u64::MAX, 16), None);
        assert_eq!(BlockState::from_checked(state.with_next_superpage(17).to_checked(), 16), None);
    }

    #[test]
    fn fields_do_not_touch_each_other() {
        let state = BlockState::default().with_next_superpage(65_536).with(Flag::Programming);
        assert_eq!((state.next_superpage(), state.erase_count(), state.busy()), (65_536, 0, true));
        let state = state.without(Flag::Programming).with(Flag::GrownBad).erased();
        assert_eq!((state.next_superpage(), state.erase_count(), state.health()), (0, 1, Health::GrownBad));
    }
}
