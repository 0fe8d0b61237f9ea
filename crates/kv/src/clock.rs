//! Clock: the drive's time, the items' time, and numbers that only grow.

use pellucid_flash::SimTime;

/// Times and numbers of a cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    now: SimTime,
    time_s: u32,
    /// The newest version given to an item.
    cas: u64,
    /// Counter for orders and accesses of slabs.
    ticks: u64,
    /// Due time of a scheduled flush; 0: none.
    flush_at_s: u32,
}

/// Parts of the clock stored in a snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saved {
    pub time_s: u32,
    pub flush_at_s: u32,
    pub cas: u64,
    pub ticks: u64,
}

impl Clock {
    #[inline]
    pub fn set(&mut self, now: SimTime) {
        self.now = now;
    }

    #[inline]
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Current second of expiry.
    #[inline]
    pub fn time_s(&self) -> u32 {
        self.time_s
    }

    /// Advances the items' time. Returns whether a scheduled flush is due.
    #[inline]
    pub fn pass(&mut self, time_s: u32) -> bool {
        self.time_s = self.time_s.max(time_s);
        if self.cas == 0 {
            // Skips all versions from before a crash.
            self.cas = u64::from(time_s) << 24;
        }
        let due = self.flush_at_s != 0 && self.flush_at_s <= self.time_s;
        if due {
            self.flush_at_s = 0;
        }
        due
    }

    /// Schedules a flush. Returns whether it is due at once.
    pub fn flush_at(&mut self, at_s: u32) -> bool {
        let later = at_s > self.time_s;
        self.flush_at_s = if later { at_s } else { 0 };
        !later
    }

    /// Completes an entry's version: the newest version with this lower half.
    #[inline]
    pub fn version(&self, cas: u32) -> u64 {
        self.cas - u64::from((self.cas as u32).wrapping_sub(cas))
    }

    /// Returns a new version.
    #[inline]
    pub fn new_version(&mut self) -> u64 {
        self.cas += 1;
        self.cas
    }

    /// Returns the next number for an order or an access.
    #[inline]
    pub fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    /// The parts for a snapshot.
    pub fn saved(&self) -> Saved {
        let Clock { time_s, flush_at_s, cas, ticks, .. } = *self;
        Saved { time_s, flush_at_s, cas, ticks }
    }

    /// Restores the parts of a snapshot.
    pub fn restore(&mut self, saved: Saved) {
        let Saved { time_s, flush_at_s, cas, ticks } = saved;
        *self = Clock { now: self.now, time_s, cas, ticks, flush_at_s };
    }

    /// The clock of a cache that restarts after a power loss.
    pub fn again(&self) -> Clock {
        Clock { now: self.now, time_s: self.time_s, ..Clock::default() }
    }
}
