//! Handling of flash that fails early, or wears unevenly.
//!
//! ```text
//!  refresh_block   its logical blocks are merged elsewhere, then it is erased
//!  retire_block    the same with what can be read, then it is retired (as after a failed program)
//!  level_wear      the least worn data block is merged onto the most worn free one
//!  kill_die        nothing moves: the die's logical blocks stay where they are, and take no more writes
//! ```

use super::LogBlock;
use super::blocks::Role;
use pellucid_flash::{BlockId, Cause, DieId};

impl LogBlock {
    /// Retires `block` after an uncorrectable read: readable data are moved out first. `false`: that was known, or it holds nothing.
    pub fn retire_block(&mut self, block: BlockId) -> bool {
        let news = self.fail_block(block, Cause::Retirement);
        self.step(self.layout.die_of_block(block));
        news
    }

    /// Refreshes `block`: its data are rewritten elsewhere before they become unreadable. `false`: nothing to do, or known.
    pub fn refresh_block(&mut self, block: BlockId) -> bool {
        let die = self.layout.die_of_block(block);
        let state = &self.dies[die.0 as usize];
        if state.dead || self.blocks.failed(block) {
            return false;
        }
        let takes_more = state.logs.iter().any(|log| log.block == block && log.open);
        let news = match self.blocks.role(block) {
            Role::Data(_) => self.evacuate(block, Cause::Refresh),
            Role::Log if !takes_more || self.is_full(die, block) => self.evacuate(block, Cause::Refresh),
            Role::Metadata => self.empty_metadata(die, block, Cause::Refresh),
            _ => false,
        };
        self.step(die);
        news
    }

    fn is_full(&self, die: DieId, block: BlockId) -> bool {
        let full = |log: &super::Log| log.block == block && log.next == self.layout.superpages_per_block;
        self.dies[die.0 as usize].logs.iter().any(full)
    }

    /// Marks `die` as dead: its programs and erases will fail, and its data cannot be read.
    /// `false`: that was known.
    pub fn kill_die(&mut self, die: DieId) -> bool {
        if std::mem::replace(&mut self.dies[die.0 as usize].dead, true) {
            return false;
        }
        self.dies[die.0 as usize].evacuations.clear();
        self.fail_merge(die);
        for block in self.blocks.of_die(die) {
            if self.blocks.role(block) == Role::Free {
                self.blocks.retire(block);
            }
        }
        (self.released, self.map_jobs) = (true, true);
        true
    }

    /// Returns whether the drive must refuse writes: a die is dead, or has too few good blocks for its data and the minimum needed beside
    /// them.
    pub fn worn_out(&self) -> bool {
        let worn = |die: DieId| {
            let state = &self.dies[die.0 as usize];
            state.dead || state.starved || self.blocks.good(die) <= self.least_blocks(die)
        };
        (0..self.layout.dies).map(DieId).any(worn)
    }

    /// Levels wear after an erase in `die`: moves the data of the least worn block, if the most worn one has had too many more erases.
    pub(super) fn level_wear(&mut self, die: DieId) {
        let Some(gap) = self.config.wear.static_gap else { return };
        let state = &self.dies[die.0 as usize];
        if state.dead || state.evacuations.iter().any(|evacuation| evacuation.cause() == Cause::WearLevel) {
            return;
        }
        let good = || self.blocks.of_die(die).filter(|&block| self.blocks.role(block) != Role::Bad);
        let most = good().map(|block| self.blocks.erases(block)).max().unwrap_or(0);
        let data = good().filter(|&block| matches!(self.blocks.role(block), Role::Data(_)));
        let least = data.min_by_key(|&block| self.blocks.erases(block));
        if let Some(block) = least.filter(|&block| most - self.blocks.erases(block) > gap) {
            self.counters.victims[Cause::WearLevel as usize] += 1;
            self.evacuate(block, Cause::WearLevel);
        }
    }
}
