//! Upkeep of a die: blocks that have to be emptied though they free no space.
//!
//! ```text
//!  program failed, unreadable ─► retiring ─► victim ─► retired          data too old ─► refreshing ─► victim ─► refreshed ─► erased
//!  erase counts too far apart ─► level ─► victim ─► leveling ─► erased
//! ```
//! Invariants: a block is in each list at most once; a victim is in none of the lists of blocks that wait.

use pellucid_flash::{BlockId, Cause};

/// Wear levelling, refresh and retirement in one die.
#[derive(Clone, Debug, Default)]
pub(crate) struct Upkeep {
    /// Blocks with a failed program, to be emptied and retired.
    retiring: Vec<BlockId>,
    /// Closed blocks that are to be written anew elsewhere.
    refreshing: Vec<BlockId>,
    /// Victims of a refresh that are not erased yet.
    refreshed: Vec<BlockId>,
    /// Wear levelling is due.
    level: bool,
    /// Victims of wear levelling that are not erased yet.
    leveling: Vec<BlockId>,
    /// The last victim that held data was taken for upkeep: wear levelling or a refresh.
    was_last: bool,
}

impl Upkeep {
    /// Blocks that wait to be emptied and retired.
    #[inline]
    pub fn retiring(&self) -> &[BlockId] {
        &self.retiring
    }

    /// Queues a block to be emptied and retired.
    pub fn retire(&mut self, block: BlockId) {
        add(&mut self.retiring, block);
    }

    /// Takes the blocks that wait to be retired and are settled.
    pub fn take_retiring(&mut self, is_settled: impl Fn(BlockId) -> bool) -> Vec<BlockId> {
        self.retiring.extract_if(.., |block| is_settled(*block)).collect()
    }

    /// Queues a closed block for a refresh; `false`: it is queued already.
    pub fn refresh(&mut self, block: BlockId) -> bool {
        add(&mut self.refreshing, block)
    }

    /// The closed block to refresh next.
    pub fn next_refresh(&self) -> Option<BlockId> {
        self.refreshing.last().copied()
    }

    /// Gives up the refresh of a block.
    pub fn drop_refresh(&mut self, block: BlockId) {
        remove(&mut self.refreshing, block);
    }

    /// Returns whether wear levelling is due.
    pub fn wants_levelling(&self) -> bool {
        self.level
    }

    /// Sets whether wear levelling is due.
    pub fn set_levelling(&mut self, due: bool) {
        self.level = due;
    }

    /// Returns whether wear levelling or a refresh waits for a victim.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.level || !self.refreshing.is_empty()
    }

    /// Returns whether the last victim with data was taken for upkeep.
    #[inline]
    pub fn was_last(&self) -> bool {
        self.was_last
    }

    /// Records that a block became a victim for `cause`; `holds_data`: it has valid units.
    pub fn started(&mut self, victim: BlockId, cause: Cause, holds_data: bool) {
        self.retiring.retain(|&block| block != victim);
        self.refreshing.retain(|&block| block != victim);
        match cause {
            Cause::WearLevel => self.leveling.push(victim),
            Cause::Refresh => self.refreshed.push(victim),
            _ => {}
        }
        if holds_data {
            self.was_last = matches!(cause, Cause::WearLevel | Cause::Refresh);
        }
    }

    /// Records that a victim is being erased; returns the cause, if it was taken for upkeep.
    pub fn erasing(&mut self, victim: BlockId) -> Option<Cause> {
        if remove(&mut self.leveling, victim) {
            Some(Cause::WearLevel)
        } else if remove(&mut self.refreshed, victim) {
            Some(Cause::Refresh)
        } else {
            None
        }
    }

    /// Gives up levelling and refresh: the die is dead.
    pub fn stop(&mut self) {
        self.level = false;
        self.refreshing.clear();
    }
}

/// Adds `block` to a short list; returns whether it is new.
fn add(list: &mut Vec<BlockId>, block: BlockId) -> bool {
    let new = !list.contains(&block);
    if new {
        list.push(block);
    }
    new
}

/// Removes `block` from a short list; returns whether it was in it.
fn remove(list: &mut Vec<BlockId>, block: BlockId) -> bool {
    let at = list.iter().position(|&b| b == block);
    at.inspect(|&at| _ = list.swap_remove(at)).is_some()
}
