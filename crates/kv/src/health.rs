//! Health: whether the flash accepts writes, and when failed flash is retried.
//!
//! ```text
//!   sound ── failures in a row ─► rests ── after a time, or some refused stores ─► tried ─┬─ good ─► sound
//!                                   ▲                                                      │
//!                                   └── twice the time ────────────────────────── bad ─────┘
//! ```
//! A resting part is a part of the flash that an engine has given up: a LUN, a channel, blocks that could not be erased, or all of it. Refused stores
//! count too, because simulated time may stand still while every store is refused.

use pellucid_flash::{Nanos, SimTime};

/// The first and the longest rest of a part.
const REST_MIN: Nanos = Nanos(100_000_000);
const REST_MAX: Nanos = Nanos(2_000_000_000);
/// Refused stores after which resting parts are retried at any time.
const REFUSED_MAX: u32 = 64;

/// State of retries; `Default`: nothing rests.
#[derive(Clone, Copy, Debug, Default)]
struct Retry {
    /// Time of the next retry; `None`: nothing rests.
    at: Option<SimTime>,
    rest: Nanos,
    refused: u32,
}

impl Retry {
    fn arm(&mut self, now: SimTime) {
        if self.at.is_none() {
            *self = Retry { at: Some(now + REST_MIN), rest: REST_MIN, refused: 0 };
        }
    }

    /// Returns true if resting parts are due for a retry, and schedules the next one later.
    fn is_due(&mut self, now: SimTime) -> bool {
        let due = self.at.is_some_and(|at| at <= now) || self.refused >= REFUSED_MAX;
        if due {
            self.rest = Nanos((self.rest.0 * 2).min(REST_MAX.0));
            (self.at, self.refused) = (Some(now + self.rest), 0);
        }
        due
    }
}

/// Health of the flash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// True if no slab can be written now.
    dead: bool,
    retry: Retry,
    /// Reason why the cache cannot start.
    failed: Option<&'static str>,
}

impl Health {
    /// Returns true if no slab can be written now.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// Sets whether slabs can be written now.
    pub fn set_dead(&mut self, dead: bool) {
        self.dead = dead;
    }

    /// Returns true if a part of the flash rests.
    #[inline]
    pub fn rests(&self) -> bool {
        self.retry.at.is_some()
    }

    /// Sets whether parts of the flash rest; if no slab can be written, all of it does.
    pub fn look(&mut self, rests: bool, now: SimTime) {
        match self.dead || rests {
            true => self.retry.arm(now),
            false => self.retry = Retry::default(),
        }
    }

    /// Counts a refused store.
    pub fn refused(&mut self) {
        self.retry.refused += 1;
    }

    /// Returns true if resting parts are to be retried now; then slabs may be written again.
    pub fn tries(&mut self, now: SimTime) -> bool {
        let due = self.retry.is_due(now);
        if due {
            self.dead = false;
        }
        due
    }

    /// Records that the cache cannot start, with a sentence of the reason.
    pub fn fail(&mut self, why: &'static str) {
        self.failed = Some(why);
    }

    /// Reason why the cache cannot start.
    pub fn failure(&self) -> Option<&'static str> {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_come_after_a_time_that_doubles_or_after_refused_stores() {
        let ms = |ms: u64| SimTime(ms * 1_000_000);
        let mut retry = Retry::default();
        assert!(!retry.is_due(ms(5000)) && retry.at.is_none());
        retry.arm(ms(5000));
        let due: Vec<u64> = (5000..15_000).step_by(10).filter(|&at| retry.is_due(ms(at))).collect();
        assert_eq!(due, [5100, 5300, 5700, 6500, 8100, 10_100, 12_100, 14_100]);
        for _ in 0..REFUSED_MAX {
            assert!(!retry.is_due(ms(14_100)));
            retry.refused += 1;
        }
        assert!(retry.is_due(ms(14_100)) && !retry.is_due(ms(14_100)));
    }
}
