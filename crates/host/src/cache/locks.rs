//! Locks on blocks: ranges held by requests, and requests that wait for a range.
//!
//! | holds \ comes | `Read` | `Write` | `Clean` | `Whole` |
//! |---|---|---|---|---|
//! | `Read` | both | waits | both | waits |
//! | `Write` (and fills) | waits | waits | not now | waits |
//! | `Clean`: dirty blocks are copied to the backing store | both | both | not now | waits |
//! | `Mark`: copied blocks become clean | both | waits | not now | waits |
//! | `Whole` | waits | waits | not now | waits |
//!
//! Waiting requests are admitted in order: none overtakes an earlier request with an overlapping range,
//! unless both may hold it together. Cleaning never waits; it takes other blocks.

use std::collections::VecDeque;

/// Use that a holder makes of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Read,
    Write,
    Clean,
    Mark,
    Whole,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub first: u64,
    pub end: u64,
    pub hold: Hold,
    pub op: u32,
}

impl Held {
    #[inline]
    fn overlaps(&self, first: u64, end: u64) -> bool {
        self.first < end && first < self.end
    }
}

/// Reports whether `comes` may share a block with `holds`.
#[inline]
fn together(holds: Hold, comes: Hold) -> bool {
    matches!(
        (holds, comes),
        (Hold::Read | Hold::Clean | Hold::Mark, Hold::Read)
            | (Hold::Read, Hold::Clean)
            | (Hold::Clean, Hold::Write)
    )
}

#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    held: Vec<Held>,
    waiting: VecDeque<Held>,
}

impl Locks {
    /// Admits `op`, or queues it. Returns `true` if it is admitted.
    #[inline]
    pub fn take(&mut self, wanted: Held) -> bool {
        let free = self.is_free(&wanted, self.waiting.len());
        if free {
            self.held.push(wanted);
        } else {
            self.waiting.push_back(wanted);
        }
        free
    }

    /// Admits `op` if its range is free.
    pub fn try_take(&mut self, wanted: Held) -> bool {
        let free = self.is_free(&wanted, self.waiting.len());
        if free {
            self.held.push(wanted);
        }
        free
    }

    /// Reports whether no holder, and none of the first `before` waiting requests, blocks `wanted`.
    #[inline]
    fn is_free(&self, wanted: &Held, before: usize) -> bool {
        let keeps_out =
            |held: &Held| held.overlaps(wanted.first, wanted.end) && !together(held.hold, wanted.hold);
        // A read does not overtake a request that waits for a write, and so on; cleaning may run beside a
        // waiting write.
        !self.held.iter().any(keeps_out) && !self.waiting.iter().take(before).any(keeps_out)
    }

    /// Makes `op` a writer if it alone holds its blocks and no request waits for them.
    pub fn upgrade(&mut self, op: u32) -> bool {
        let Some(at) = self.held.iter().position(|held| held.op == op) else { return false };
        let Held { first, end, .. } = self.held[at];
        let alone = self.held.iter().all(|held| held.op == op || !held.overlaps(first, end));
        let alone = alone && !self.waiting.iter().any(|held| held.overlaps(first, end));
        if alone {
            self.held[at].hold = Hold::Write;
        }
        alone
    }

    /// Begins to mark the copied blocks of `op` clean; writers wait from now on.
    pub fn mark(&mut self, op: u32) {
        let held = self.held.iter_mut().find(|held| held.op == op);
        held.expect("it cleans").hold = Hold::Mark;
    }

    /// Releases the range of `op`; requests that can now be admitted are added to `granted`.
    #[inline]
    pub fn release(&mut self, op: u32, granted: &mut VecDeque<u32>) {
        let Some(at) = self.held.iter().position(|held| held.op == op) else { return };
        self.held.swap_remove(at);
        let mut at = 0;
        while at < self.waiting.len() {
            let wanted = self.waiting[at];
            if self.is_free(&wanted, at) {
                self.waiting.remove(at);
                granted.push_back(wanted.op);
                self.held.push(wanted);
            } else {
                at += 1;
            }
        }
    }

    /// Reports whether a request holds this block, or waits for it.
    pub fn is_taken(&self, block: u64) -> bool {
        let at = |held: &Held| held.overlaps(block, block + 1);
        self.held.iter().any(at) || self.waiting.iter().any(at)
    }

    /// Returns the cleaning runs that overlap this range.
    pub fn cleaning(&self, first: u64, end: u64) -> impl Iterator<Item = Held> {
        let cleans = move |held: &&Held| held.hold == Hold::Clean && held.overlaps(first, end);
        self.held.iter().filter(cleans).copied()
    }

    /// Reports whether no request holds or waits for a range.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    pub fn memory_bytes(&self) -> u64 {
        ((self.held.capacity() + self.waiting.capacity()) * size_of::<Held>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(first: u64, end: u64, hold: Hold, op: u32) -> Held {
        Held { first, end, hold, op }
    }

    #[test]
    fn nobody_overtakes_one_that_waits_for_the_same_block() {
        let (mut locks, mut granted) = (Locks::default(), VecDeque::new());
        assert!(locks.take(held(0, 4, Hold::Read, 1)));
        assert!(!locks.take(held(3, 5, Hold::Write, 2)));
        assert!(!locks.take(held(4, 6, Hold::Read, 3)), "a write waits there");
        assert!(locks.take(held(5, 6, Hold::Read, 4)));
        assert!(!locks.upgrade(1), "somebody waits");
        assert!(!locks.upgrade(4), "somebody waits");
        locks.release(1, &mut granted);
        assert_eq!(granted, [2]);
        locks.release(2, &mut granted);
        assert_eq!(granted, [2, 3]);
        locks.release(4, &mut granted);
        assert!(locks.upgrade(3));
        assert!(!locks.take(held(5, 6, Hold::Read, 5)), "it writes now");
        assert!(locks.is_taken(5) && !locks.is_taken(6));
        locks.release(3, &mut granted);
        locks.release(5, &mut granted);
        assert!(locks.is_empty());
    }

    #[test]
    fn writes_go_on_while_blocks_are_copied_and_wait_while_they_are_marked() {
        let (mut locks, mut granted) = (Locks::default(), VecDeque::new());
        assert!(locks.take(held(8, 9, Hold::Write, 1)));
        assert!(!locks.try_take(held(0, 9, Hold::Clean, 2)));
        assert!(locks.try_take(held(0, 8, Hold::Clean, 2)));
        assert!(!locks.try_take(held(7, 8, Hold::Clean, 3)), "once at a time");
        assert!(locks.take(held(1, 2, Hold::Write, 4)));
        assert_eq!(locks.cleaning(1, 2).map(|held| held.op).collect::<Vec<_>>(), [2]);
        assert!(!locks.take(held(3, 4, Hold::Whole, 5)));
        locks.mark(2);
        assert!(!locks.take(held(5, 6, Hold::Write, 6)));
        assert!(locks.take(held(6, 7, Hold::Read, 7)));
        locks.release(2, &mut granted);
        assert_eq!(granted, [5, 6]);
    }
}
