//! Blocks that take data: one per die and stream.

use super::{BlockKind, BlockManager, BlockState, OpenBlock};
use pellucid_flash::{BlockId, DieId, Ppa};

impl BlockManager {
    /// Takes a free block of `die` and opens it: one of the SLC cache if `cache`, the most worn one if `most_worn`.
    fn take(&mut self, die: DieId, cache: bool, most_worn: bool) -> Option<BlockId> {
        let block = match (cache, most_worn) {
            (true, _) => self.cache_pool.take(die),
            (false, true) => self.pool.take_most_worn(die),
            (false, false) => self.pool.take(die),
        }?;
        self.came.add(die);
        let hot = &mut self.hot[block.0 as usize];
        debug_assert!(hot.state == BlockState::Free && hot.valid == 0 && hot.in_flight == 0);
        hot.state = BlockState::Open;
        Some(block)
    }

    /// Records that a superpage of an open block was planned; `last` if it was the block's last.
    #[inline]
    pub fn planned(&mut self, block: BlockId, last: bool) {
        let hot = &mut self.hot[block.0 as usize];
        debug_assert_eq!(hot.state, BlockState::Open);
        hot.in_flight += 1;
        if last {
            hot.state = BlockState::Full;
        }
    }

    /// Closes an open block early: no further superpage of it will be planned.
    pub fn close_early(&mut self, block: BlockId, sequence: u64) {
        let hot = &mut self.hot[block.0 as usize];
        if hot.state == BlockState::Open {
            hot.state = BlockState::Full;
            self.close_if_settled(block, sequence);
        }
    }

    /// The open block at a place of `die`.
    #[inline]
    pub fn open_block(&self, die: DieId, place: usize) -> Option<OpenBlock> {
        self.open[die.0 as usize * self.streams + place]
    }

    /// The open blocks of `die`, with their places.
    pub fn open_in(&self, die: DieId) -> impl Iterator<Item = (usize, OpenBlock)> + use<'_> {
        let first = die.0 as usize * self.streams;
        let open = self.open[first..first + self.streams].iter();
        open.enumerate().filter_map(|(place, open)| open.map(|open| (place, open)))
    }

    /// All open blocks, with their places.
    pub fn all_open(&self) -> impl Iterator<Item = (usize, OpenBlock)> + use<'_> {
        (0..self.layout.dies).flat_map(|die| self.open_in(DieId(die)))
    }

    /// Reopens a block at a mount: `open` goes on taking data, if its place is vacant.
    pub fn reopen(&mut self, place: usize, open: OpenBlock) -> bool {
        let die = self.layout.die_of_block(open.block);
        let slot = &mut self.open[die.0 as usize * self.streams + place];
        let vacant = slot.is_none();
        if vacant {
            *slot = Some(open);
        }
        vacant
    }

    /// Closes the block that is open at a place of `die`: it takes no more data.
    pub fn close_open(&mut self, die: DieId, place: usize, sequence: u64) -> Option<BlockId> {
        let open = self.open[die.0 as usize * self.streams + place].take()?;
        self.close_early(open.block, sequence);
        Some(open.block)
    }

    /// Closes a failed block: no further superpage of `block` will be planned, wherever it is open.
    pub fn close_failed(&mut self, block: BlockId, sequence: u64) {
        let first = self.layout.die_of_block(block).0 as usize * self.streams;
        for slot in &mut self.open[first..first + self.streams] {
            if slot.is_some_and(|open| open.block == block) {
                *slot = None;
            }
        }
        self.close_early(block, sequence);
    }

    /// The next superpage of the block that is open at a place of `die`; opens a free block of a kind if none is open. There must be space.
    /// The block takes `superpages`; if it is `listed`, one more follows, with the list of its pages ([`crate::MapLog::LastPage`]).
    #[inline]
    pub fn take_superpage(
        &mut self,
        die: DieId,
        place: usize,
        (superpages, listed): (u32, bool),
        kind: impl FnOnce() -> BlockKind,
    ) -> (Ppa, BlockId) {
        let at = die.0 as usize * self.streams + place;
        let OpenBlock { block, superpage } = match self.open[at] {
            Some(open) => open,
            None => {
                let kind = kind();
                let block = self.take(die, kind.cache, kind.most_worn).expect("there is space");
                self.set_kind(block, kind.meta, kind.owner, kind.stream);
                OpenBlock { block, superpage: 0 }
            }
        };
        let last = superpage + 1 == superpages;
        // The block is not closed before its list is on the media.
        self.hot[block.0 as usize].in_flight += u16::from(last && listed);
        self.open[at] = (!last).then_some(OpenBlock { block, superpage: superpage + 1 });
        self.planned(block, last);
        (self.layout.ppa(block, superpage * self.layout.units_per_superpage), block)
    }
}
