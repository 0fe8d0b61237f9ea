//! Rate limiter: the division of the write buffer between the application and GC.
//!
//! ```text
//!   free lines     reserve                       high
//!  ──────────────────┬─────────────────────────────┬──────────────►
//!   application: none│ its share grows with free   │ all of the buffer
//!   GC:  all │ lines; the rest: GC │ what it needs now and then
//! ```
//! The limiter is a function of the free lines alone, without any state. (An early version of pblk tested a
//! combined state that was never set.) The reserve covers everything in the buffer and the GC of a whole
//! line, so GC can always complete.

/// Shares of the write buffer, in sectors.
#[derive(Clone, Debug)]
pub(crate) struct RateLimiter {
    /// Shares of the application and of GC, by free lines; the last entry covers all larger numbers.
    shares: Vec<(u32, u32)>,
}

impl RateLimiter {
    /// Creates the limiter for a buffer of `buffer` sectors. The application gets nothing with `reserve` free
    /// lines or fewer, and the whole buffer with `high`; any other share is at least `superpage` sectors.
    pub fn new(reserve: u32, high: u32, buffer: u32, superpage: u32) -> RateLimiter {
        let share = |free: u32| {
            let above = u64::from(free.saturating_sub(reserve));
            let part = (u64::from(buffer) * above / u64::from(high - reserve)) as u32;
            let user = if above == 0 { 0 } else { part.max(superpage) };
            let user = if free == high { buffer } else { user };
            (user, (buffer - user.min(buffer)).max(2 * superpage).min(buffer))
        };
        RateLimiter { shares: (0..=high).map(share).collect() }
    }

    #[inline]
    fn shares(&self, free: u32) -> (u32, u32) {
        self.shares[(free as usize).min(self.shares.len() - 1)]
    }

    /// Returns the sectors that the application may hold with `free` lines.
    #[inline]
    pub fn user(&self, free: u32) -> u32 {
        self.shares(free).0
    }

    /// Returns the sectors that GC may hold with `free` lines.
    #[inline]
    pub fn gc(&self, free: u32) -> u32 {
        self.shares(free).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_free_lines() {
        let rate = RateLimiter::new(2, 12, 1000, 4);
        assert_eq!((rate.user(0), rate.user(2), rate.user(12), rate.user(50)), (0, 0, 1000, 1000));
        assert!((0..12).all(|free| rate.user(free) <= rate.user(free + 1)));
        assert!((0..12).all(|free| rate.gc(free) >= rate.gc(free + 1)));
        assert_eq!((rate.user(7), rate.gc(7)), (500, 500));
        assert_eq!((rate.gc(0), rate.gc(50)), (1000, 8));
    }
}
