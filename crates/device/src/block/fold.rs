//! Work of an idle drive: after a while without commands the SLC cache is folded and a cache writes its table, until a command comes.
//!
//! ```text
//!  last command ends ─► idle ─── fold_after ───► Event::Idle ─► every die folds, block after block ─► nothing is cached
//!                        │ a command: busy again              └─ a command: the blocks under way are folded to their end
//!                        └── CHECKPOINT_AFTER ─► Event::Idle ─► translation pages of what has changed
//! ```
//! Invariant: at most one [`Event::Idle`] is to come.

use super::BlockNamespace;
use crate::events::Event;
use crate::shared::Shared;
use pellucid_flash::{Nanos, SimTime};
use pellucid_ftl::{Checkpoint, Load};

/// Idle time after which a cache writes its table: the shortest standby timer that ATA has.
const CHECKPOINT_AFTER: Nanos = Nanos::from_secs(5);

/// Idle state of the drive, with its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idle {
    since: Option<SimTime>,
    /// True if an event is to come.
    awaited: bool,
    /// True if the drive has been idle for so long that the SLC cache is folded.
    rested: bool,
}

impl BlockNamespace {
    /// Returns whether an [`Event::Idle`] of the namespace is to come.
    pub fn awaits_idleness(&self) -> bool {
        self.idle.awaited
    }

    /// A command has come.
    #[inline]
    pub(crate) fn end_idleness(&mut self) {
        (self.idle.since, self.idle.rested) = (None, false);
    }

    /// Returns the drive's load beside GC.
    #[inline]
    pub(super) fn load(&self, shared: &Shared) -> Load {
        match shared.active {
            _ if self.idle.rested => Load::Rested,
            0 => Load::Idle,
            _ => Load::Busy,
        }
    }

    /// How long an idle drive waits before it does something; `None`: it never does.
    #[inline]
    fn waits_idle(&self) -> Option<Nanos> {
        let ftl = &self.config.ftl;
        let checkpoints = ftl.cache.is_some_and(|cache| cache.checkpoint == Checkpoint::OnFlush);
        ftl.slc_cache.map(|cache| cache.fold_after).or(checkpoints.then_some(CHECKPOINT_AFTER))
    }

    /// No command is under way: there may be something to do later.
    #[inline]
    pub(crate) fn work_when_idle(&mut self, shared: &mut Shared) {
        if self.idle.since.is_none()
            && let Some(wait) = self.waits_idle()
        {
            self.idle.since = Some(shared.now);
            self.await_idleness(shared, shared.now, wait);
        }
    }

    /// The drive is idle since `since`.
    fn await_idleness(&mut self, shared: &mut Shared, since: SimTime, wait: Nanos) {
        let has_work = match self.is_cache() {
            true => self.translation.cache().has_changed(),
            false => self.translation.view().cache.full > 0,
        };
        if !self.idle.awaited && has_work {
            self.idle.awaited = true;
            shared.events.at(since + wait, Event::Idle(self.number.into()));
        }
    }

    /// The time of an idle drive has passed, unless commands have come meanwhile.
    pub(crate) fn idle_for_long(&mut self, shared: &mut Shared) {
        self.idle.awaited = false;
        let (Some(since), Some(wait)) = (self.idle.since, self.waits_idle()) else { return };
        if shared.now < since + wait {
            return self.await_idleness(shared, since, wait);
        }
        if self.is_cache() {
            self.translation.cache().save_changed();
            return self.write_map(shared);
        }
        self.idle.rested = true;
        self.pump_all(shared);
    }
}
