//! The rate limiter: how the write buffer is shared between the application and GC.
//!
//! ```text
//!   free lines     reserve                       high
//!  ──────────────────┬─────────────────────────────┬──────────────►
//!   application: none│ its share grows with free   │ all of the buffer
//!   GC:  all │ lines; the rest: GC │ what it needs now and then
//! ```
//! It is a function of the free lines alone and has no states of its own. (An early version of pblk tested a combined state
//! that nothing ever set.) What the reserve holds is enough for everything that the buffer can hold at a time and for the
//! GC of a whole line, so that GC can always end.

/// Shares of the write buffer, in sectors.
#[derive(Clone, Debug)]
pub(crate) struct RateLimiter {
    /// Of the application and of GC, by free lines; with more lines than that as with the most.
    shares: Vec<(u32, u32)>,
}

impl RateLimiter {
    /// For a buffer of `buffer` sectors. With `reserve` free lines or fewer the application gets nothing, with `high` it gets
    /// everything; a share above nothing is `superpage` sectors at least.
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

    /// Sectors that the application may hold with `free` lines.
    #[inline]
    pub fn user(&self, free: u32) -> u32 {
        self.shares(free).0
    }

    /// Sectors that GC may hold with `free` lines.
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
