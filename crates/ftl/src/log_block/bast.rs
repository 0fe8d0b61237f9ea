//! BAST, block-associative sector translation: a log block belongs to one logical block.
//!
//! A write goes to the log block of its logical block. If that is full, the two are merged first. If there is none and all log blocks are
//! in use, the least recently written one is merged away first.
//!
//! Source of the algorithm: J. Kim, J. M. Kim, S. H. Noh, S. L. Min, Y. Cho, "A space-efficient flash translation layer for CompactFlash
//! systems", IEEE Transactions on Consumer Electronics 48(2), 2002, section III. There a first write goes to the data block itself; here it goes
//! to a log block, which becomes the data block (switch merge) when it was filled in order: the same programs, as superpages of
//! a block can only be programmed in order.

use super::LogBlock;
use crate::translation::Plan;
use pellucid_flash::{DieId, Lpn};

impl LogBlock {
    /// Places a superpage of logical block `lbn`.
    pub(super) fn place_bast(&mut self, lbn: u32, lpns: &[Lpn]) -> Option<Plan> {
        let die = self.die_of_lbn(lbn);
        if let Some(at) = self.dies[die.0 as usize].owned(lbn) {
            if self.takes_more(die, at) {
                return Some(self.append(die, at, lpns));
            }
            let full = self.dies[die.0 as usize].logs[at].block;
            self.want_merge(full);
            return None;
        }
        let in_use = self.dies[die.0 as usize].logs.len() as u32;
        if in_use < self.log_blocks
            && let Some(at) = self.open_log(die, Some(lbn))
        {
            return Some(self.append(die, at, lpns));
        }
        if in_use >= self.log_blocks || self.blocks.returning(die) == 0 {
            self.merge_least_recent(die);
        }
        None
    }

    fn merge_least_recent(&mut self, die: DieId) {
        let logs = &self.dies[die.0 as usize].logs;
        if let Some(victim) = logs.iter().min_by_key(|log| log.used_at) {
            self.want_merge(victim.block);
        }
    }
}
