//! Age of the media, on which bit errors depend.

use pellucid_flash::SimTime;

/// Age of the media.
#[derive(Clone, Copy, Debug)]
pub(super) struct Age {
    /// Seconds that the media had existed when the drive was switched on.
    age_s: u64,
    /// Time since then, as far as the bit errors depend on it.
    now: SimTime,
}

impl Age {
    /// Creates the age of media that have existed for so many seconds.
    pub fn new(age_s: u64) -> Age {
        Age { age_s, now: SimTime::ZERO }
    }

    /// Sets the drive's time.
    #[inline]
    pub fn set_now(&mut self, now: SimTime) {
        self.now = now;
    }

    /// Lets time pass at once.
    pub fn elapse(&mut self, seconds: u64) {
        self.age_s = self.age_s.saturating_add(seconds);
    }

    /// Sets how long the media had existed when the drive was switched on.
    pub fn set_made(&mut self, age_s: u64) {
        self.age_s = age_s;
    }

    /// Seconds that the media have existed.
    pub fn seconds(&self) -> u64 {
        self.age_s.saturating_add(self.now.0 / 1_000_000_000)
    }
}
