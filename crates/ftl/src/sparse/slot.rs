//! A slot of the table of a cache, in nine bytes: there is more than one for each cached page.

use pellucid_flash::{CacheState, Lpn, Ppa};

const VACANT: u32 = u32::MAX;

/// One slot.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed)]
pub(crate) struct Slot {
    lpn: Lpn,
    ppa: Ppa,
    /// State: 2 bits; marked: 1 bit; pins: 5 bits.
    flags: u8,
}

const STATE: u8 = 3;
const MARKED: u8 = 4;
const PIN: u8 = 8;
const PINS: u8 = !7;

pub(super) const NO_SLOT: Slot = Slot { lpn: Lpn(VACANT), ppa: Ppa::NONE, flags: 0 };

impl Slot {
    /// Creates the slot of a page without a copy.
    pub(super) fn of(lpn: Lpn) -> Slot {
        Slot { lpn, ..NO_SLOT }
    }

    /// The page.
    #[inline]
    pub fn lpn(self) -> Lpn {
        self.lpn
    }

    /// The newest copy; [`Ppa::NONE`]: none yet.
    #[inline]
    pub fn ppa(self) -> Ppa {
        self.ppa
    }

    #[inline]
    pub fn state(self) -> CacheState {
        CacheState::from_raw(self.flags & STATE).expect("a state was put there")
    }

    /// Returns whether writes of the page are in flight.
    #[inline]
    pub fn is_pinned(self) -> bool {
        self.flags & PINS != 0
    }

    /// Returns whether a mount may find the page dirty.
    #[inline]
    pub fn is_marked(self) -> bool {
        self.flags & MARKED != 0
    }

    #[inline]
    pub(super) fn is_vacant(self) -> bool {
        let lpn = self.lpn;
        lpn.0 == VACANT
    }

    /// Returns whether the page has a copy, or will.
    #[inline]
    pub(super) fn is_needed(self) -> bool {
        self.ppa() != Ppa::NONE || self.is_pinned()
    }

    /// Adds a pin; `false`: the counter is full.
    pub(super) fn pin(&mut self) -> bool {
        let can = self.flags & PINS != PINS;
        self.flags += if can { PIN } else { 0 };
        can
    }

    pub(super) fn unpin(&mut self) {
        self.flags -= PIN;
    }

    /// Marks the page; returns whether it was marked before.
    pub(super) fn mark(&mut self) -> bool {
        let was = self.is_marked();
        self.flags |= MARKED;
        was
    }

    /// Sets the state; returns the former one.
    pub(super) fn set_state(&mut self, state: CacheState) -> CacheState {
        let before = self.state();
        self.flags = self.flags & !STATE | state as u8;
        before
    }

    /// Points to another copy; returns the former one.
    pub(super) fn replace(&mut self, ppa: Ppa) -> Ppa {
        let before = self.ppa;
        self.ppa = ppa;
        before
    }
}
