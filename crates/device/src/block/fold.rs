//! When the SLC cache is folded: once the drive has been idle for a while, until a command comes.
//!
//! ```text
//!  last command ends ─► idle ─── fold_after ───► Event::Idle ─► every die folds, block after block ─► nothing is cached
//!                        │ a command: busy again              └─ a command: the blocks under way are folded to their end
//! ```
//! Invariant: at most one [`Event::Idle`] is to come.

use super::BlockNamespace;
use crate::events::Event;
use crate::shared::Shared;
use pellucid_flash::SimTime;
use pellucid_ftl::Load;

/// Whether the drive is idle, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idle {
    since: Option<SimTime>,
    /// An event is to come.
    awaited: bool,
    /// It has been for so long that the cache is folded.
    rested: bool,
}

impl BlockNamespace {
    /// Whether an [`Event::Idle`] of the namespace is to come.
    pub fn awaits_idleness(&self) -> bool {
        self.idle.awaited
    }

    /// A command has come.
    #[inline]
    pub(crate) fn end_idleness(&mut self) {
        (self.idle.since, self.idle.rested) = (None, false);
    }

    /// What the drive has to do beside GC.
    #[inline]
    pub(super) fn load(&self, shared: &Shared) -> Load {
        match shared.active {
            _ if self.idle.rested => Load::Rested,
            0 => Load::Idle,
            _ => Load::Busy,
        }
    }

    /// No command is under way: folding may be due later.
    #[inline]
    pub(crate) fn fold_when_idle(&mut self, shared: &mut Shared) {
        if self.idle.since.is_none() && self.config.ftl.slc_cache.is_some() {
            self.idle.since = Some(shared.now);
            self.await_folding(shared, shared.now);
        }
    }

    /// The drive is idle since `since`.
    fn await_folding(&mut self, shared: &mut Shared, since: SimTime) {
        let Some(cache) = self.config.ftl.slc_cache else { return };
        if !self.idle.awaited && self.translation.view().cache.full > 0 {
            self.idle.awaited = true;
            shared.events.at(since + cache.fold_after, Event::Idle(self.number.into()));
        }
    }

    /// The time of an idle drive has passed, unless commands have come meanwhile.
    pub(crate) fn idle_for_long(&mut self, shared: &mut Shared) {
        self.idle.awaited = false;
        let (Some(since), Some(cache)) = (self.idle.since, self.config.ftl.slc_cache) else { return };
        if shared.now < since + cache.fold_after {
            return self.await_folding(shared, since);
        }
        self.idle.rested = true;
        self.pump_all(shared);
    }
}
