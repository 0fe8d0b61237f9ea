//! When the SLC cache is folded: once the drive has been idle for a while, until a command comes.
//!
//! ```text
//!  last command ends ─► idle ─── fold_after ───► Event::Idle ─► every die folds, block after block ─► nothing is cached
//!                        │ a command: busy again              └─ a command: the blocks under way are folded to their end
//! ```
//! Invariant: at most one [`Event::Idle`] is to come.

use crate::device::Device;
use crate::events::Event;
use pellucid_flash::SimTime;

/// Whether the drive is idle, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idle {
    since: Option<SimTime>,
    /// An event is to come.
    awaited: bool,
}

impl Device {
    /// Whether nothing is under way and the drive only waits until it may fold its SLC cache.
    pub fn waits_to_fold(&self) -> bool {
        self.idle.awaited && self.events.is_one()
    }

    /// A command has come.
    #[inline]
    pub(crate) fn end_idleness(&mut self) {
        if self.idle.since.take().is_some() {
            self.ftl.fold(false);
        }
    }

    /// No command is under way: folding may be due later.
    #[inline]
    pub(crate) fn fold_when_idle(&mut self) {
        if self.idle.since.is_none() && self.config.ftl.slc_cache.is_some() {
            self.idle.since = Some(self.now);
            self.await_folding(self.now);
        }
    }

    /// The drive is idle since `since`.
    fn await_folding(&mut self, since: SimTime) {
        let Some(cache) = self.config.ftl.slc_cache else { return };
        if !self.idle.awaited && self.ftl.has_cached() {
            self.idle.awaited = true;
            self.events.at(since + cache.fold_after, Event::Idle);
        }
    }

    /// The time of an idle drive has passed, unless commands have come meanwhile.
    pub(crate) fn idle_for_long(&mut self) {
        self.idle.awaited = false;
        let (Some(since), Some(cache)) = (self.idle.since, self.config.ftl.slc_cache) else { return };
        if self.now < since + cache.fold_after {
            return self.await_folding(since);
        }
        self.ftl.fold(true);
        self.pump_all();
    }
}
