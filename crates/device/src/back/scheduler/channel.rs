//! One channel: the dies that request it, the purpose of each request, and the current transfer.
//!
//! ```text
//!  want ─► class (a bit for each die) ─► choose: best class, round robin ─► carry ─► end
//! ```
//! Invariants: a channel carries one transfer; a die's bit is set in a class if and only if its current operation wants the channel for that
//! class.

use pellucid_flash::{Nanos, SimTime};

/// Classes of what can want a channel: each kind has its own at most.
pub(super) const CLASSES: usize = 5;

/// One channel.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    die: Option<u32>,
    wants: [u64; CLASSES],
    last: [u32; CLASSES],
    /// Total transfer time, counting the current transfer up to its end.
    busy: Nanos,
    /// Time of the current transfer.
    length: Nanos,
    /// End of the current transfer, which may begin later than now: a controller that polls decides ahead.
    until: SimTime,
}

impl Channel {
    /// The die for which it carries something.
    #[inline]
    pub fn die(&self) -> Option<u32> {
        self.die
    }

    /// Carries something of `length` for `die` from `begin` on.
    #[inline]
    pub fn carry(&mut self, die: u32, begin: SimTime, length: Nanos) {
        self.die = Some(die);
        self.busy += length;
        (self.length, self.until) = (length, begin + length);
    }

    /// Ends the transfer, and returns the die that it was for.
    #[inline]
    pub fn end(&mut self) -> u32 {
        self.die.take().expect("a channel event without a transfer")
    }

    /// Begin and end of the current transfer.
    pub fn transfer(&self) -> (SimTime, SimTime) {
        (SimTime(self.until.0 - self.length.0), self.until)
    }

    /// Busy time up to `at`; no further transfer is scheduled before `at`.
    pub fn worked(&self, at: SimTime) -> Nanos {
        Nanos(self.busy.0 - self.until.since(at).0.min(self.length.0))
    }

    /// The die with this bit wants it.
    #[inline]
    pub fn want(&mut self, class: usize, bit: u32) {
        self.wants[class] |= 1 << bit;
    }

    /// The die with this bit does not want it any more.
    #[inline]
    pub fn withdraw(&mut self, class: usize, bit: u32) {
        self.wants[class] &= !(1 << bit);
    }

    /// Dies that want it for a class: a bit each.
    #[inline]
    pub fn wanted(&self, class: usize) -> u64 {
        self.wants[class]
    }

    /// Dies that want it: a bit each.
    #[inline]
    pub fn wanted_at_all(&self) -> u64 {
        self.wants.iter().fold(0, |all, wants| all | wants)
    }

    /// Returns whether a die wants it for a class before `classes`.
    #[inline]
    pub fn is_wanted_before(&self, classes: usize) -> bool {
        self.wants[..classes].iter().any(|&wants| wants != 0)
    }

    /// Grants the channel to the die with this bit if it is free and no other die requests it.
    #[inline]
    pub fn take_at_once(&mut self, class: usize, bit: u32) -> bool {
        let is_free = self.die.is_none() && self.wanted_at_all() == 0;
        if is_free {
            self.last[class] = bit;
        }
        is_free
    }

    /// Grants a free channel to the best request; within a class, to the first after the one served
    /// last.
    #[inline]
    pub fn choose(&mut self) -> Option<u32> {
        if self.die.is_some() {
            return None;
        }
        let class = self.wants.iter().position(|&wants| wants != 0)?;
        let wants = self.wants[class];
        let after = wants & !((2u64 << self.last[class]).wrapping_sub(1));
        let bit = if after != 0 { after } else { wants }.trailing_zeros();
        self.withdraw(class, bit);
        self.last[class] = bit;
        Some(bit)
    }

    /// Clears the current transfer and all requests (power cut); busy times are kept.
    pub fn reset(&mut self, now: SimTime) {
        let busy = self.worked(now);
        *self = Channel { busy, until: now, last: self.last, ..Channel::default() };
    }
}
