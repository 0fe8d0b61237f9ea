//! When flash that has failed is tried again.
//!
//! ```text
//!   sound ── failures in a row ─► rests ── after a time, or some refused stores ─► tried ─┬─ good ─► sound
//!                                   ▲                                                      │
//!                                   └── twice the time ────────────────────────── bad ─────┘
//! ```
//! A resting part is a part of the flash that an engine has given up: a LUN, a channel, blocks that could not be erased, or all of it. Refused
//! stores count too, because simulated time may stand still while every store is refused.

use super::Kv;
use pellucid_flash::{Nanos, SimTime};

/// The first time that a part rests, and the longest.
const REST_MIN: Nanos = Nanos(100_000_000);
const REST_MAX: Nanos = Nanos(2_000_000_000);
/// Refused stores after which resting parts are tried, whatever time it is.
const REFUSED_MAX: u32 = 64;

/// The state of tries; `Default`: nothing rests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retry {
    /// When resting parts are tried; `None`: nothing rests.
    at: Option<SimTime>,
    rest: Nanos,
    refused: u32,
}

impl Retry {
    /// Returns true if a part rests.
    pub fn is_armed(&self) -> bool {
        self.at.is_some()
    }

    /// Counts a store that was refused.
    pub fn refused(&mut self) {
        self.refused += 1;
    }

    fn arm(&mut self, now: SimTime) {
        if self.at.is_none() {
            *self = Retry { at: Some(now + REST_MIN), rest: REST_MIN, refused: 0 };
        }
    }

    /// Returns true if resting parts are due for a try, and schedules the next one later.
    fn is_due(&mut self, now: SimTime) -> bool {
        let due = self.at.is_some_and(|at| at <= now) || self.refused >= REFUSED_MAX;
        if due {
            self.rest = Nanos((self.rest.0 * 2).min(REST_MAX.0));
            (self.at, self.refused) = (Some(now + self.rest), 0);
        }
        due
    }
}

impl Kv {
    /// Looks whether parts of the flash rest.
    pub(super) fn look_for_rest(&mut self) {
        match self.dead || self.engine.is_resting() {
            true => self.retry.arm(self.now),
            false => self.retry = Retry::default(),
        }
    }

    /// Tries resting parts of the flash again, when it is time.
    pub(super) fn try_again(&mut self) {
        if self.retry.is_due(self.now) {
            self.engine.try_again(&mut self.io);
            self.dead = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_come_after_a_time_that_doubles_or_after_refused_stores() {
        let ms = |ms: u64| SimTime(ms * 1_000_000);
        let mut retry = Retry::default();
        assert!(!retry.is_due(ms(5000)) && !retry.is_armed());
        retry.arm(ms(5000));
        let due: Vec<u64> = (5000..15_000).step_by(10).filter(|&at| retry.is_due(ms(at))).collect();
        assert_eq!(due, [5100, 5300, 5700, 6500, 8100, 10_100, 12_100, 14_100]);
        for _ in 0..REFUSED_MAX {
            assert!(!retry.is_due(ms(14_100)));
            retry.refused();
        }
        assert!(retry.is_due(ms(14_100)) && !retry.is_due(ms(14_100)));
    }
}
