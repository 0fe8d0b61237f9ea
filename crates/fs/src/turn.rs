//! Turn: the current call of the file system: its time, its progress, and ids for its jobs.

use crate::types::Time;

/// The current call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    now: Time,
    /// True if the background made progress.
    progress: bool,
    /// True if an operation or a commit was done since memory was last trimmed.
    done: bool,
    last_id: u64,
}

impl Turn {
    /// Starts a call.
    pub fn at(&mut self, now: Time) {
        self.now = now;
    }

    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the time in whole seconds.
    pub fn now_s(&self) -> u32 {
        (self.now.0 / 1_000_000_000).clamp(0, u32::MAX.into()) as u32
    }

    /// Returns the id of the next job.
    pub fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Notes progress of the background.
    pub fn went_on(&mut self) {
        self.progress = true;
    }

    /// Reports whether the background made progress since the last call.
    pub fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progress)
    }

    /// Notes completed work, after which memory may be trimmed.
    pub fn was_done(&mut self) {
        self.done = true;
    }

    /// Reports whether work was completed since the last call.
    pub fn take_done(&mut self) -> bool {
        std::mem::take(&mut self.done)
    }
}
