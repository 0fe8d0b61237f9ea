//! Garbage collection: which block is a victim, which of its units are copied, and which blocks may be erased.

use super::{Nameless, Taker, Unread, Victim};
use crate::block_manager::BlockState;
use pellucid_flash::{BlockId, DieId, Lpn, Migration, Ppa};
use std::collections::BTreeMap;

/// Most moves that may await acknowledgement at the same time.
const MOVES_MAX: u32 = 4096;
/// A victim that gave nothing is left out for 1, 2, 4 and so on occasions, at most for 2 to this power: reads that always fail do not keep GC
/// busy with each write of a host, and flash that recovers is found again.
const FRUITLESS_MAX: u32 = 10;

impl Nameless {
    /// Chooses the next victim, with its live units, when few blocks are free.
    pub fn next_victim(&mut self) -> Option<(BlockId, Vec<Ppa>)> {
        if self.victim.is_some() {
            return None;
        }
        let block = self.failed_block().or_else(|| self.victim_for_space())?;
        self.failed.retain(|&failed| failed != block);
        let fruitless = self.unread.remove(&block).map_or(0, |unread| unread.fruitless);
        let (owners, live) = (self.owners(block), self.blocks.valid(block));
        self.blocks.choose(block);
        self.counters.victims += 1;
        self.victim = Some(Victim { block, owners, taken: BTreeMap::new(), live, fruitless, erased: None });
        Some((block, self.units.of(block).collect()))
    }

    /// A block with a failed program, whose data should leave it.
    fn failed_block(&self) -> Option<BlockId> {
        let may = |block: &BlockId| self.blocks.state(*block) == BlockState::Closed && self.may_move(*block);
        self.failed.iter().copied().find(may)
    }

    fn victim_for_space(&self) -> Option<BlockId> {
        let coming = self.emptied.len() + self.covered.len() + self.held.len();
        if self.blocks.free_total() + coming as u32 > self.config.gc_low {
            return None;
        }
        let may = |block| {
            self.blocks.may_be_victim(block) && self.blocks.frees_space(block) && self.may_move(block)
        };
        // Every block of a die that can give space: a victim is chosen once for a whole block, so an index would only cost memory.
        let dies = (0..self.layout.dies).map(DieId).filter(|&die| self.blocks.giving(die) > 0);
        let found = dies.flat_map(|die| self.blocks.of_die(die)).filter(|&block| may(block));
        found.min_by_key(|&block| (self.blocks.valid(block), self.blocks.erases(block), block))
    }

    /// Returns whether the live units of `block` may be moved now: they were not moved lately, there is space, and, if some could not be
    /// read, there was an occasion to try again.
    fn may_move(&self, block: BlockId) -> bool {
        let valid = self.blocks.valid(block);
        let pages = valid.div_ceil(self.layout.units_per_superpage);
        !self.fresh.contains_key(&block.0)
            && self.unread.get(&block).is_none_or(|unread| unread.again <= self.round)
            && pages <= self.pages
            && self.moved.len() as u64 + u64::from(valid) <= self.moves_max()
    }

    pub(super) fn moves_max(&self) -> u64 {
        let block = self.layout.units_per_block;
        MOVES_MAX.min(4 * block).max(block).into()
    }

    /// Virtual addresses of the units of `block`, by place.
    fn owners(&self, block: BlockId) -> BTreeMap<u32, Lpn> {
        if !self.units.has_virtual(block) {
            return BTreeMap::new();
        }
        let here = |&(_, ppa): &(Lpn, Ppa)| ppa.is_some() && self.layout.block_of(ppa) == block;
        self.virtuals.iter().filter(here).map(|(lpn, ppa)| (ppa.0, lpn)).collect()
    }

    /// Takes every live unit of the victim off the media: the caller has them in memory, erases the block and writes them again.
    pub fn take_out(&mut self) {
        let block = self.victim.as_ref().expect("a victim").block;
        let units: Vec<Ppa> = self.units.of(block).collect();
        for ppa in units {
            let victim = self.victim.as_mut().expect("a victim");
            let owner = victim.owners.get(&ppa.0).copied();
            victim.taken.insert(ppa.0, (true, owner));
            self.units.clear(ppa);
            self.blocks.remove_valid(block);
        }
        self.note_if_empty(block);
    }

    /// Returns whether a unit of the victim is still wanted, so that it has to be copied.
    pub fn is_wanted(&self, old: Ppa) -> bool {
        match self.victim.as_ref().and_then(|victim| victim.taken.get(&old.0)) {
            Some((wanted, _)) => *wanted,
            None => self.units.lives(old),
        }
    }

    /// Ends a victim: every copy has ended, or could not be read and stays where it is. Then the block is a closed one as before, and a
    /// victim again after the next occasion ([`Nameless::read_again`]): a read may fail once and succeed later. If none of its units could be
    /// moved, more occasions pass, twice as many each time.
    pub fn victim_done(&mut self) {
        let Victim { block, live, fruitless, erased, .. } = self.victim.take().expect("a victim");
        if let Some(ok) = erased {
            self.erased(block, ok);
        } else if self.blocks.valid(block) > 0 && self.config.migration == Migration::Acknowledged {
            // The prototype has given old names up by now: moving the rest once more would mistake them for others.
            self.blocks.put_back(block);
            let fruitless = if self.blocks.valid(block) < live { 0 } else { fruitless + 1 };
            let again = self.round + (1 << fruitless.min(FRUITLESS_MAX));
            self.unread.insert(block, Unread { again, fruitless });
            if self.blocks.failed(block) {
                self.failed.push(block);
            }
        }
    }

    /// Allows units that could not be read to be tried once more: an erase has ended, or a host wants space. So units that can never be read
    /// do not keep GC busy for good.
    pub fn read_again(&mut self) {
        self.round += 1;
    }

    /// Returns whether a checkpoint would let blocks be erased that have to wait now.
    pub fn waits_for_checkpoint(&self) -> bool {
        self.covering == 0 && self.covered.is_empty() && !self.emptied.is_empty()
    }

    /// Returns whether free blocks are running short, so that a checkpoint should be written to release some.
    pub fn is_short(&self) -> bool {
        self.blocks.free_total() <= self.config.gc_low / 2 || !self.has_page(Taker::Nameless)
    }

    /// The next block to be erased; `false`: it is to be retired, and that is done.
    pub fn next_erase(&mut self) -> Option<(BlockId, bool)> {
        if self.config.migration == Migration::Prototype {
            self.covered.append(&mut self.emptied);
            self.covering = 0;
        }
        let block = self.covered.pop_front()?;
        if self.blocks.failed(block) {
            self.blocks.retire(block);
            return Some((block, false));
        }
        self.blocks.erasing(block);
        Some((block, true))
    }

    /// Postpones the erase that [`Nameless::next_erase`] returned, because it waits for reads.
    pub fn erase_later(&mut self, block: BlockId) {
        self.covered.push_back(block);
    }

    /// Records that the erase of `block` has ended.
    pub fn erased(&mut self, block: BlockId, ok: bool) {
        if let Some(victim) = self.victim.as_mut().filter(|victim| victim.block == block) {
            victim.erased = Some(ok);
        } else if ok {
            self.counters.erases += 1;
            self.read_again();
            self.blocks.erased(block);
            self.pages += self.layout.superpages_per_block;
        } else {
            self.blocks.retire(block);
        }
    }
}
