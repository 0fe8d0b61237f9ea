//! The victim: a block whose units are being moved.
//!
//! Invariant: a unit that was taken off the media is in `taken` until its copy is on the media.

use pellucid_flash::{BlockId, Lpn, Ppa};
use std::collections::BTreeMap;

/// A unit that was taken off the media before it was written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub wanted: bool,
    /// Virtual address.
    pub lpn: Option<Lpn>,
}

/// A victim whose units are being moved.
#[derive(Clone, Debug)]
pub(super) struct Victim {
    block: BlockId,
    /// Virtual addresses of its units, found by one scan of the map, so that no table has to hold them.
    owners: BTreeMap<u32, Lpn>,
    /// Units taken off the media before they were written again, by place.
    taken: BTreeMap<u32, Taken>,
    /// Number of live units at its choice, and number of earlier choices that moved none of them.
    live: u32,
    fruitless: u32,
    /// The victim's erase has ended, well or not. The block is reused only when the victim is done, so that no name is reused before its
    /// move is reported.
    erased: Option<bool>,
}

impl Victim {
    /// Creates a victim from the virtual addresses of its units, by place; it has `live` units, and `fruitless` choices before this one moved
    /// none of them.
    pub fn new(block: BlockId, owners: BTreeMap<u32, Lpn>, live: u32, fruitless: u32) -> Victim {
        Victim { block, owners, taken: BTreeMap::new(), live, fruitless, erased: None }
    }

    /// Choices, one after the other, that moved none of its units, now that `live` of them are left in it.
    pub fn fruitless_with(&self, live: u32) -> u32 {
        if live < self.live { 0 } else { self.fruitless + 1 }
    }

    pub fn block(&self) -> BlockId {
        self.block
    }

    /// The virtual address of one of its virtual units.
    pub fn owner(&self, ppa: Ppa) -> Option<Lpn> {
        self.owners.get(&ppa.0).copied()
    }

    /// Takes a unit off the media.
    pub fn take_out(&mut self, ppa: Ppa) {
        let lpn = self.owner(ppa);
        self.taken.insert(ppa.0, Taken { wanted: true, lpn });
    }

    /// The unit that was at a place, if it is off the media.
    pub fn taken(&self, ppa: Ppa) -> Option<Taken> {
        self.taken.get(&ppa.0).copied()
    }

    /// Units that are off the media, with their places.
    pub fn all_taken(&self) -> impl Iterator<Item = (Ppa, Taken)> {
        self.taken.iter().map(|(&ppa, &taken)| (Ppa(ppa), taken))
    }

    /// The unit that was at a place is on the media again.
    pub fn written(&mut self, ppa: Ppa) -> Option<Taken> {
        self.taken.remove(&ppa.0)
    }

    /// A unit that is off the media is wanted no longer; `false`: it is not off the media.
    pub fn discard(&mut self, ppa: Ppa) -> bool {
        let taken = self.taken.get_mut(&ppa.0);
        taken.map(|taken| taken.wanted = false).is_some()
    }

    /// Its erase has ended.
    pub fn erased(&mut self, ok: bool) {
        self.erased = Some(ok);
    }

    /// Returns whether its erase went well; `None`: it was not erased.
    pub fn erase(&self) -> Option<bool> {
        self.erased
    }
}
