//! The rate limiter: how the write buffer is shared between the application and collection.
//!
//! ```text
//!   free lines     reserve                       high
//!  ──────────────────┬─────────────────────────────┬──────────────►
//!   application: none│ its share grows with free   │ all of the buffer
//!   collection:  all │ lines; the rest: collection │ what it needs now and then
//! ```
//! It is a function of the free lines alone and has no states of its own. (An early version of pblk tested a combined state
//! that nothing ever set.) What the reserve holds is enough for everything that the buffer can hold at a time and for the
//! relocation of a whole line, so that collection can always end.

/// Shares of the write buffer, in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateLimiter {
    /// Free lines at and below which the application gets nothing.
    pub reserve: u32,
    /// Free lines from which on it gets everything.
    pub high: u32,
    /// Sectors of the buffer.
    pub buffer: u32,
    /// Sectors of one write: the least share of who gets any.
    pub stripe: u32,
}

impl RateLimiter {
    /// Sectors that the application may hold with `free` lines.
    #[inline]
    pub fn user(&self, free: u32) -> u32 {
        if free >= self.high {
            return self.buffer;
        }
        let above = u64::from(free.saturating_sub(self.reserve));
        let share = u64::from(self.buffer) * above / u64::from(self.high - self.reserve);
        if above == 0 { 0 } else { (share as u32).max(self.stripe) }
    }

    /// Sectors that collection may hold with `free` lines.
    #[inline]
    pub fn collection(&self, free: u32) -> u32 {
        (self.buffer - self.user(free).min(self.buffer)).max(2 * self.stripe).min(self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_free_lines() {
        let rate = RateLimiter { reserve: 2, high: 12, buffer: 1000, stripe: 4 };
        assert_eq!((rate.user(0), rate.user(2), rate.user(12), rate.user(50)), (0, 0, 1000, 1000));
        assert!((0..12).all(|free| rate.user(free) <= rate.user(free + 1)));
        assert!((0..12).all(|free| rate.collection(free) >= rate.collection(free + 1)));
        assert_eq!((rate.user(7), rate.collection(7)), (500, 500));
        assert_eq!((rate.collection(0), rate.collection(50)), (1000, 8));
    }
}
