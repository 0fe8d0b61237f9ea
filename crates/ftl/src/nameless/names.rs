//! Names and virtual addresses: their targets, their release, and the moves that the host acknowledges.

use super::{Name, Nameless};
use crate::block_manager::BlockState;
use pellucid_flash::{BlockId, Lpn, Ppa};

impl Nameless {
    /// Reserves space for `units` more nameless units, which are then on their way; `false`: there is none.
    pub fn promise(&mut self, units: u32) -> bool {
        let fits =
            u64::from(self.named) + u64::from(self.promised) + u64::from(units) <= self.capacity.into();
        self.promised += if fits { units } else { 0 };
        fits
    }

    /// Releases space of nameless units that will not be written.
    pub fn break_promise(&mut self, units: u32) {
        self.promised -= units;
    }

    /// Location of a virtual unit; it may be [taken](Nameless::is_taken).
    pub fn lookup(&self, lpn: Lpn) -> Ppa {
        self.virtuals.get(lpn)
    }

    /// Returns whether the unit at `ppa` is off the media, and the caller has it in memory.
    pub fn is_taken(&self, ppa: Ppa) -> bool {
        self.victim.as_ref().is_some_and(|victim| victim.taken.contains_key(&ppa.0))
    }

    /// Units that are off the media.
    pub fn taken(&self) -> impl Iterator<Item = Ppa> + '_ {
        self.victim.iter().flat_map(|victim| victim.taken.keys().copied().map(Ppa))
    }

    /// Target of a name.
    pub fn name(&self, name: Ppa) -> Name {
        let taken = self.victim.as_ref().and_then(|victim| victim.taken.get(&name.0));
        match taken {
            Some((true, None)) => return Name::Leaving,
            Some((true, Some(_))) => return Name::Virtual,
            _ => {}
        }
        if name.0 >= self.layout.units {
            Name::Unknown
        } else if let Some(&new) = self.moved.get(&name.0) {
            Name::Moved(Ppa(new))
        } else if !self.units.lives(name) {
            Name::Unknown
        } else if self.units.is_virtual(name) {
            Name::Virtual
        } else {
            Name::Here
        }
    }

    /// Frees a name; freeing the old name of a move frees the new one too. `false`: there is no such name.
    pub fn free(&mut self, name: Ppa) -> bool {
        match self.name(name) {
            Name::Unknown | Name::Virtual => return false,
            Name::Leaving => {
                let victim = self.victim.as_mut().expect("what leaves has a victim");
                victim.taken.insert(name.0, (false, None));
            }
            Name::Moved(new) => {
                self.end_move(name);
                self.kill(new);
            }
            Name::Here => {
                let fresh = self.fresh.contains_key(&self.layout.block_of(name).0);
                let old =
                    self.moved.iter().find(|(_, new)| fresh && **new == name.0).map(|(&old, _)| Ppa(old));
                old.into_iter().for_each(|old| self.end_move(old));
                self.kill(name);
            }
        }
        self.named -= 1;
        true
    }

    /// Discards a virtual unit.
    pub fn trim(&mut self, lpn: Lpn) {
        let old = self.virtuals.set(lpn, Ppa::NONE);
        self.kill_virtual(old);
    }

    /// Acknowledges a move: the host knows the new name of the data at `old`. `false`: there is no such move.
    pub fn acknowledge(&mut self, old: Ppa) -> bool {
        let known = self.moved.contains_key(&old.0);
        if known {
            self.end_move(old);
        }
        known
    }

    fn end_move(&mut self, old: Ppa) {
        let new = self.moved.remove(&old.0).expect("a move");
        let (held, fresh) = (self.layout.block_of(old), self.layout.block_of(Ppa(new)));
        for (counts, block) in [(&mut self.held, held), (&mut self.fresh, fresh)] {
            let count = counts.get_mut(&block.0).expect("a count of the move's block");
            *count -= 1;
            if *count == 0 {
                counts.remove(&block.0);
            }
        }
        self.note_if_empty(held);
    }

    /// Takes the next move to be reported: old name and new one.
    pub fn next_move(&mut self) -> Option<(Ppa, Ppa)> {
        self.notices.pop_front()
    }

    /// Returns whether there are moves that the host has not been told of.
    pub fn has_moves(&self) -> bool {
        !self.notices.is_empty()
    }

    pub(super) fn kill(&mut self, ppa: Ppa) {
        let block = self.layout.block_of(ppa);
        self.units.clear(ppa);
        self.blocks.remove_valid(block);
        self.note_if_empty(block);
    }

    /// Invalidates the copy of a virtual unit at `old`, which is not the newest any more.
    pub(super) fn kill_virtual(&mut self, old: Ppa) {
        if !old.is_some() {
            return;
        }
        if let Some(taken) = self.victim.as_mut().and_then(|victim| victim.taken.get_mut(&old.0)) {
            taken.0 = false;
        } else {
            self.kill(old);
        }
    }

    /// Queues an empty block, which then waits for a checkpoint.
    pub(super) fn note_if_empty(&mut self, block: BlockId) {
        let state = self.blocks.state(block);
        let settled = matches!(state, BlockState::Closed | BlockState::Victim);
        if !settled || self.blocks.valid(block) > 0 || self.held.contains_key(&block.0) {
            return;
        }
        if state == BlockState::Closed {
            self.blocks.choose(block);
        }
        self.failed.retain(|&failed| failed != block);
        self.unread.remove(&block);
        self.emptied.push_back(block);
    }
}
