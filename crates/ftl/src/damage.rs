//! Handling of flash that fails early: blocks with data that could not be read, data that are about to become unreadable, dies that are
//! dead.
//!
//! ```text
//!  refresh_block  data leave the block, then it is erased
//!  retire_block   readable data leave the block, then it is retired (as after a failed program)
//!  kill_die       nothing leaves; its blocks are retired one by one as hosts overwrite or trim what was lost
//! ```
//! Invariant: a dead die has no free and no open block, so nothing is ever planned there again.

use crate::block_manager::BlockState;
use crate::page_map::PageMap;
use pellucid_flash::{BlockId, DieId};

impl PageMap {
    /// Retires `block` after an uncorrectable read: readable data are moved out, and the block is retired when nothing valid is left.
    /// `false`: that was known.
    pub fn retire_block(&mut self, block: BlockId) -> bool {
        let state = self.blocks.state(block);
        let holds_data = !matches!(state, BlockState::Free | BlockState::Erasing | BlockState::Bad);
        if !holds_data || self.blocks.failed(block) {
            return false;
        }
        if state == BlockState::Victim {
            self.gc.lose_victim(&mut self.blocks, block);
        } else {
            self.blocks.mark_failed(block);
            self.fail_block(block);
        }
        true
    }

    /// Refreshes `block`: its data are rewritten elsewhere before they become unreadable. They leave it as in GC, in turn with victims
    /// for space if its die has none to spare. `false`: nothing to do, or known.
    pub fn refresh_block(&mut self, block: BlockId) -> bool {
        let closed = self.blocks.state(block) == BlockState::Closed;
        closed && !self.blocks.failed(block) && self.gc.queue_refresh(self.layout.die_of_block(block), block)
    }

    /// Marks `die` as dead: its programs and erases will fail, and its data cannot be read. Programs that are planned there end as failed
    /// ones do. `false`: that was known.
    pub fn kill_die(&mut self, die: DieId) -> bool {
        if !self.blocks.kill_die(die) {
            return false;
        }
        for block in self.blocks.of_die(die) {
            match self.blocks.state(block) {
                BlockState::Free => self.blocks.retire(block),
                BlockState::Erasing | BlockState::Bad => {}
                _ => {
                    self.retire_block(block);
                }
            }
        }
        self.gc.stop(die);
        self.empty_dead(die);
        true
    }

    /// Blocks of a dead die come out of [`PageMap::next_erase`] once they hold nothing valid.
    pub(crate) fn empty_dead(&mut self, die: DieId) {
        let blocks = &self.blocks;
        for block in self.gc.take_retiring(die, |block| blocks.is_settled(block)) {
            self.blocks.choose(block);
            if self.blocks.valid(block) == 0 {
                self.gc.note_emptied(block);
            }
        }
    }
}
