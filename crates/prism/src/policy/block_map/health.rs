//! Failures of the flash: whether writes are still accepted.
//!
//! Invariant: writes are refused after `FAILURES_MAX` (32) consecutive failures, or when no chunk will become free, until a retry.

/// Consecutive failures after which nothing is written until a retry.
const FAILURES_MAX: u32 = 32;

/// Failures of the flash.
#[derive(Clone, Debug, Default)]
pub(super) struct Health {
    read_only: bool,
    /// No chunk will become free.
    lacks_chunks: bool,
    failures_in_a_row: u32,
    /// Reason why the range could not start.
    failure: Option<String>,
}

impl Health {
    /// Reports whether writes are refused.
    pub fn refuses_writes(&self) -> bool {
        self.read_only
    }

    /// Reason why the range could not start.
    pub fn failure(&self) -> Option<&String> {
        self.failure.as_ref()
    }

    /// Ends the range, which could not start.
    pub fn fail(&mut self, why: String) {
        self.failure = Some(why);
    }

    /// Notes a successful write.
    pub fn written(&mut self) {
        self.failures_in_a_row = 0;
    }

    /// Counts a failed write. Returns whether there are now too many, so that writes are refused.
    pub fn write_failed(&mut self) -> bool {
        self.failures_in_a_row += 1;
        let too_many = self.failures_in_a_row >= FAILURES_MAX;
        self.read_only |= too_many;
        too_many
    }

    /// Refuses writes: no chunk will become free.
    pub fn give_up(&mut self) {
        (self.read_only, self.lacks_chunks) = (true, true);
    }

    /// Returns whether writes are refused because no chunk will become free.
    pub fn lacks_chunks(&self) -> bool {
        self.lacks_chunks
    }

    /// Accepts writes again.
    pub fn try_again(&mut self) {
        (self.read_only, self.lacks_chunks, self.failures_in_a_row) = (false, false, 0);
    }
}
