//! Clock: the time of the drive, the time of items, and the numbers that only grow.

use pellucid_flash::SimTime;

/// Times and numbers of a cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    now: SimTime,
    time_s: u32,
    /// The newest version given to an item.
    cas: u64,
    /// Counts orders and accesses of slabs.
    ticks: u64,
    /// When a flush that was asked for is due; 0: none.
    flush_at_s: u32,
}

/// Parts of the clock that a snapshot has.
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

    /// Seconds by which items expire.
    #[inline]
    pub fn time_s(&self) -> u32 {
        self.time_s
    }

    /// Time passes for items. Returns whether a flush is due that was asked for.
    #[inline]
    pub fn pass(&mut self, time_s: u32) -> bool {
        self.time_s = self.time_s.max(time_s);
        if self.cas == 0 {
            // No version of before a crash is given again.
            self.cas = u64::from(time_s) << 24;
        }
        let due = self.flush_at_s != 0 && self.flush_at_s <= self.time_s;
        if due {
            self.flush_at_s = 0;
        }
        due
    }

    /// Asks for a flush at a time. Returns whether it is due at once.
    pub fn flush_at(&mut self, at_s: u32) -> bool {
        let later = at_s > self.time_s;
        self.flush_at_s = if later { at_s } else { 0 };
        !later
    }

    /// The whole version of an entry: the newest with its lower half.
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

    /// Returns a number for an order or an access.
    #[inline]
    pub fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    /// Returns the parts for a snapshot.
    pub fn saved(&self) -> Saved {
        let Clock { time_s, flush_at_s, cas, ticks, .. } = *self;
        Saved { time_s, flush_at_s, cas, ticks }
    }

    /// Takes over the parts of a snapshot.
    pub fn restore(&mut self, saved: Saved) {
        let Saved { time_s, flush_at_s, cas, ticks } = saved;
        *self = Clock { now: self.now, time_s, cas, ticks, flush_at_s };
    }

    /// The clock of a cache that starts again after a loss of power.
    pub fn again(&self) -> Clock {
        Clock { now: self.now, time_s: self.time_s, ..Clock::default() }
    }
}
