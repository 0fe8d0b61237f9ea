//! Turn: the current call of a caller: its time, whether it made progress, and the names of jobs.

use crate::types::Time;

/// The call under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    now: Time,
    /// The background went on.
    progress: bool,
    /// An operation or a commit was done since memory was looked at.
    done: bool,
    last_id: u64,
}

impl Turn {
    /// Begins a call.
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

    /// Returns the name of the next job.
    pub fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Notes that the background went on.
    pub fn went_on(&mut self) {
        self.progress = true;
    }

    /// Returns whether the background went on since the last call.
    pub fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progress)
    }

    /// Notes that something was done: memory may be trimmed.
    pub fn was_done(&mut self) {
        self.done = true;
    }

    /// Returns whether something was done since the last call.
    pub fn take_done(&mut self) -> bool {
        std::mem::take(&mut self.done)
    }
}
