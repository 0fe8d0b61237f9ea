//! Work of an idle drive: after a while without commands the SLC cache is folded and a cache writes its table, until a command comes.
//!
//! ```text
//!  last command ends ─► idle ─── fold_after ───► Event::Idle ─► every die folds, block after block ─► nothing is cached
//!                        │ a command: busy again              └─ a command: the blocks under way are folded to their end
//!                        └── CHECKPOINT_AFTER ─► Event::Idle ─► translation pages of what has changed
//! ```
//! Invariant: at most one [`Event::Idle`] is to come.

use super::media_side::MediaSide;
use crate::events::Event;
use crate::shared::Shared;
use pellucid_flash::{Nanos, SimTime};
use pellucid_ftl::Checkpoint;

/// Idle time after which a cache writes its table: the shortest standby timer that ATA has.
const CHECKPOINT_AFTER: Nanos = Nanos::from_secs(5);

/// Idle time of the drive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Idle {
    since: Option<SimTime>,
    /// True if an event is to come.
    awaited: bool,
}

impl Idle {
    /// Returns whether an [`Event::Idle`] of the namespace is scheduled.
    pub fn is_awaited(&self) -> bool {
        self.awaited
    }

    /// A command has come.
    #[inline]
    pub fn end(&mut self) {
        self.since = None;
    }

    /// No command is under way: there may be something to do later.
    #[inline]
    pub fn begin(&mut self, side: &mut MediaSide, shared: &mut Shared) {
        if self.since.is_none()
            && let Some(wait) = waits_idle(side)
        {
            self.since = Some(shared.now);
            self.await_end(side, shared, shared.now, wait);
        }
    }

    /// The drive is idle since `since`.
    fn await_end(&mut self, side: &mut MediaSide, shared: &mut Shared, since: SimTime, wait: Nanos) {
        if !self.awaited && side.translation.has_idle_work() {
            self.awaited = true;
            shared.events.at(since + wait, Event::Idle(side.number().into()));
        }
    }

    /// The time of an idle drive has passed; `false`: commands have come meanwhile.
    pub fn has_ended(&mut self, side: &mut MediaSide, shared: &mut Shared) -> bool {
        assert!(std::mem::take(&mut self.awaited), "an idle time ended that none waited for");
        let (Some(since), Some(wait)) = (self.since, waits_idle(side)) else { return false };
        let passed = shared.now >= since + wait;
        if !passed {
            self.await_end(side, shared, since, wait);
        }
        passed
    }
}

/// How long an idle drive waits before it does something; `None`: it never does.
#[inline]
fn waits_idle(side: &MediaSide) -> Option<Nanos> {
    let ftl = side.ftl();
    let checkpoints = ftl.cache.is_some_and(|cache| cache.checkpoint == Checkpoint::OnFlush);
    ftl.slc_cache.map(|cache| cache.fold_after).or(checkpoints.then_some(CHECKPOINT_AFTER))
}
