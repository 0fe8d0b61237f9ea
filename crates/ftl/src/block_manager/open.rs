//! Blocks that take data: one per die and stream.

use super::closed::close_if_settled;
use super::{BlockKind, BlockManager, BlockState, OpenBlock};
use pellucid_flash::{BlockId, DieId, Ppa};

/// The open block of each die and stream.
#[derive(Clone, Debug)]
pub(crate) struct OpenBlocks {
    slots: Vec<Option<OpenBlock>>,
    streams: usize,
}

impl OpenBlocks {
    /// Creates a place for each of `streams` streams in each die, all vacant.
    pub(super) fn new(dies: u32, streams: usize) -> OpenBlocks {
        OpenBlocks { slots: vec![None; dies as usize * streams], streams }
    }

    /// The open block at a place of `die`.
    #[inline]
    pub fn at(&self, die: DieId, place: usize) -> Option<OpenBlock> {
        self.slots[die.0 as usize * self.streams + place]
    }

    /// The open blocks of `die`, with their places.
    pub fn of_die(&self, die: DieId) -> impl Iterator<Item = (usize, OpenBlock)> + use<'_> {
        let first = die.0 as usize * self.streams;
        let open = self.slots[first..first + self.streams].iter();
        open.enumerate().filter_map(|(place, open)| open.map(|open| (place, open)))
    }

    /// All open blocks, with their places.
    pub fn all(&self) -> impl Iterator<Item = (usize, OpenBlock)> + use<'_> {
        (0..(self.slots.len() / self.streams) as u32).flat_map(|die| self.of_die(DieId(die)))
    }

    #[inline]
    fn slot(&mut self, die: DieId, place: usize) -> &mut Option<OpenBlock> {
        &mut self.slots[die.0 as usize * self.streams + place]
    }

    /// Closes a block of `die`, wherever it is open.
    fn remove(&mut self, die: DieId, block: BlockId) {
        let first = die.0 as usize * self.streams;
        for slot in &mut self.slots[first..first + self.streams] {
            if slot.is_some_and(|open| open.block == block) {
                *slot = None;
            }
        }
    }
}

impl BlockManager {
    /// Reopens a block at a mount: `open` goes on taking data, if its place is vacant.
    pub fn reopen(&mut self, place: usize, open: OpenBlock) -> bool {
        let die = self.layout.die_of_block(open.block);
        let slot = self.open.slot(die, place);
        let vacant = slot.is_none();
        if vacant {
            *slot = Some(open);
        }
        vacant
    }

    /// Closes the block that is open at a place of `die`: it takes no more data.
    pub fn close_open(&mut self, die: DieId, place: usize, sequence: u64) -> Option<BlockId> {
        let open = self.open.slot(die, place).take()?;
        close_early(self, open.block, sequence);
        Some(open.block)
    }

    /// Closes a failed block: no further superpage of `block` will be planned, wherever it is open.
    pub fn close_failed(&mut self, block: BlockId, sequence: u64) {
        self.open.remove(self.layout.die_of_block(block), block);
        close_early(self, block, sequence);
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
        let OpenBlock { block, superpage } = match self.open.at(die, place) {
            Some(open) => open,
            None => {
                let kind = kind();
                let block = take(self, die, kind.cache, kind.most_worn).expect("there is space");
                self.set_kind(block, kind.meta, kind.owner, kind.stream);
                OpenBlock { block, superpage: 0 }
            }
        };
        let last = superpage + 1 == superpages;
        // The block is not closed before its list is on the media.
        self.hot[block.0 as usize].in_flight += u16::from(last && listed);
        *self.open.slot(die, place) = (!last).then_some(OpenBlock { block, superpage: superpage + 1 });
        planned(self, block, last);
        (self.layout.ppa(block, superpage * self.layout.units_per_superpage), block)
    }
}

/// Takes a free block of `die` and opens it: one of the SLC cache if `cache`, the most worn one if `most_worn`.
fn take(blocks: &mut BlockManager, die: DieId, cache: bool, most_worn: bool) -> Option<BlockId> {
    let block = match (cache, most_worn) {
        (true, _) => blocks.slc.pool_mut().take(die),
        (false, true) => blocks.pool.take_most_worn(die),
        (false, false) => blocks.pool.take(die),
    }?;
    blocks.came.add(die);
    let hot = &mut blocks.hot[block.0 as usize];
    debug_assert!(hot.state == BlockState::Free && hot.valid == 0 && hot.in_flight == 0);
    hot.state = BlockState::Open;
    Some(block)
}

/// Records that a superpage of an open block was planned; `last` if it was the block's last.
#[inline]
fn planned(blocks: &mut BlockManager, block: BlockId, last: bool) {
    let hot = &mut blocks.hot[block.0 as usize];
    debug_assert_eq!(hot.state, BlockState::Open);
    hot.in_flight += 1;
    if last {
        hot.state = BlockState::Full;
    }
}

/// Closes an open block early: no further superpage of it will be planned.
fn close_early(blocks: &mut BlockManager, block: BlockId, sequence: u64) {
    let hot = &mut blocks.hot[block.0 as usize];
    if hot.state == BlockState::Open {
        hot.state = BlockState::Full;
        close_if_settled(blocks, block, sequence);
    }
}
