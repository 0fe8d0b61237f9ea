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
//!
//! Hundreds of thousands of requests may wait for a slow backing store, so no operation here scans all of them: ranges are ordered by
//! their first blocks, and the few long ones are kept separately. A release can only admit requests that overlap the released range,
//! because every other waiting request is blocked by another holder.
//!
//! Invariant: every waiting request is kept out by a holder, or by a request that came before it.

use std::collections::{BTreeMap, VecDeque};

/// Maximum length, in blocks, of an ordered range; longer ones are checked one by one.
const NEAR_BLOCKS: u64 = 64;

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

    #[inline]
    fn is_near(&self) -> bool {
        self.end - self.first <= NEAR_BLOCKS
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

/// First block of a range, and its number in the order of arrival.
type Key = (u64, u64);

#[derive(Clone, Copy, Debug)]
struct Entry {
    range: Held,
    number: u64,
    waits: bool,
}

impl Entry {
    fn key(&self) -> Key {
        (self.range.first, self.number)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    near: BTreeMap<Key, Entry>,
    far: Vec<Entry>,
    /// Key of each operation that holds or waits, by its number.
    keys: Vec<Option<Key>>,
    /// Number of the next request.
    next: u64,
    /// Waiting requests that a release looks at.
    freed: Vec<Entry>,
}

impl Locks {
    /// Admits `op`, or queues it. Returns `true` if it is admitted.
    #[inline]
    pub fn take(&mut self, wanted: Held) -> bool {
        let free = self.is_free(&wanted, self.next);
        self.put(wanted, !free);
        free
    }

    /// Admits `op` if its range is free.
    pub fn try_take(&mut self, wanted: Held) -> bool {
        let free = self.is_free(&wanted, self.next);
        if free {
            self.put(wanted, false);
        }
        free
    }

    fn put(&mut self, range: Held, waits: bool) {
        let entry = Entry { range, number: self.next, waits };
        self.next += 1;
        let op = range.op as usize;
        if self.keys.len() <= op {
            self.keys.resize(op + 1, None);
        }
        assert!(self.keys[op].is_none(), "an operation takes blocks once");
        self.keys[op] = Some(entry.key());
        match range.is_near() {
            true => _ = self.near.insert(entry.key(), entry),
            false => self.far.push(entry),
        }
    }

    fn overlapping(&self, first: u64, end: u64) -> impl Iterator<Item = &Entry> {
        let from = (first.saturating_sub(NEAR_BLOCKS - 1), 0);
        let near = self.near.range(from..(end, 0)).map(|(_, entry)| entry);
        near.chain(&self.far).filter(move |entry| entry.range.overlaps(first, end))
    }

    /// Reports whether neither a holder nor an earlier waiting request than `number` blocks `wanted`.
    #[inline]
    fn is_free(&self, wanted: &Held, number: u64) -> bool {
        // A read does not overtake a request that waits for a write, and so on; cleaning may run beside a
        // waiting write.
        let keeps_out = |entry: &Entry| {
            (!entry.waits || entry.number < number) && !together(entry.range.hold, wanted.hold)
        };
        !self.overlapping(wanted.first, wanted.end).any(keeps_out)
    }

    fn entry_mut(&mut self, op: u32) -> Option<&mut Entry> {
        let key = (*self.keys.get(op as usize)?)?;
        match self.near.get_mut(&key) {
            Some(entry) => Some(entry),
            None => self.far.iter_mut().find(|entry| entry.key() == key),
        }
    }

    /// Makes `op` a writer if it alone holds its blocks and no request waits for them.
    pub fn upgrade(&mut self, op: u32) -> bool {
        let Some(&mut Entry { range: Held { first, end, .. }, .. }) = self.entry_mut(op) else {
            return false;
        };
        let alone = self.overlapping(first, end).all(|entry| entry.range.op == op);
        if alone && let Some(entry) = self.entry_mut(op) {
            entry.range.hold = Hold::Write;
        }
        alone
    }

    /// Begins to mark the copied blocks of `op` clean; writers wait from now on.
    pub fn mark(&mut self, op: u32) {
        self.entry_mut(op).expect("it cleans").range.hold = Hold::Mark;
    }

    /// Releases the range of `op`; requests that can now be admitted are added to `granted`.
    #[inline]
    pub fn release(&mut self, op: u32, granted: &mut VecDeque<u32>) {
        let Some(key) = self.keys.get_mut(op as usize).and_then(Option::take) else { return };
        let released = match self.near.remove(&key) {
            Some(entry) => entry,
            None => {
                let at = self.far.iter().position(|entry| entry.key() == key);
                self.far.swap_remove(at.expect("a key has a range"))
            }
        };
        assert!(!released.waits, "what is released was held");
        let mut freed = std::mem::take(&mut self.freed);
        let Held { first, end, .. } = released.range;
        freed.extend(self.overlapping(first, end).filter(|entry| entry.waits));
        freed.sort_unstable_by_key(|entry| entry.number);
        for entry in freed.drain(..) {
            if self.is_free(&entry.range, entry.number) {
                self.entry_mut(entry.range.op).expect("it waits").waits = false;
                granted.push_back(entry.range.op);
            }
        }
        self.freed = freed;
    }

    /// Reports whether a request holds this block, or waits for it.
    pub fn is_taken(&self, block: u64) -> bool {
        self.overlapping(block, block + 1).next().is_some()
    }

    /// Returns the cleaning runs that overlap this range.
    pub fn cleaning(&self, first: u64, end: u64) -> impl Iterator<Item = Held> {
        let cleans = |entry: &&Entry| !entry.waits && entry.range.hold == Hold::Clean;
        self.overlapping(first, end).filter(cleans).map(|entry| entry.range)
    }

    /// Reports whether no request holds or waits for a range.
    pub fn is_empty(&self) -> bool {
        self.near.is_empty() && self.far.is_empty()
    }

    pub fn memory_bytes(&self) -> u64 {
        let entries = self.near.len() + self.far.len();
        (entries * size_of::<Entry>() + self.keys.len() * size_of::<Option<Key>>()) as u64
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

    /// Long ranges and many waiting requests are admitted as by a plain list of all, looked at in order.
    #[test]
    fn it_admits_what_a_plain_list_admits() {
        const HOLDS: [Hold; 4] = [Hold::Read, Hold::Write, Hold::Clean, Hold::Whole];
        let mut rng = pellucid_flash::Rng::new(7);
        for _ in 0..50 {
            let (mut locks, mut granted) = (Locks::default(), VecDeque::new());
            let (mut holding, mut waiting) = (Vec::<Held>::new(), Vec::<Held>::new());
            let keeps_out = |a: &Held, b: &Held| a.overlaps(b.first, b.end) && !together(a.hold, b.hold);
            for op in 0..200 {
                let first = rng.below(300);
                let blocks = if rng.chance(0.1) { rng.below(250) } else { 1 + rng.below(8) };
                let wanted = held(first, first + blocks, HOLDS[rng.below(4) as usize], op);
                let free = !holding.iter().chain(&waiting).any(|other| keeps_out(other, &wanted));
                let taken = match wanted.hold {
                    Hold::Clean => locks.try_take(wanted),
                    _ => locks.take(wanted),
                };
                assert_eq!(taken, free);
                match (free, wanted.hold) {
                    (true, _) => holding.push(wanted),
                    (false, Hold::Clean) => {}
                    (false, _) => waiting.push(wanted),
                }
                if rng.chance(0.7) && !holding.is_empty() {
                    let gone = holding.swap_remove(rng.below(holding.len() as u64) as usize);
                    locks.release(gone.op, &mut granted);
                    let mut at = 0;
                    while at < waiting.len() {
                        let wanted = waiting[at];
                        if holding.iter().chain(&waiting[..at]).any(|other| keeps_out(other, &wanted)) {
                            at += 1;
                        } else {
                            holding.push(waiting.remove(at));
                            assert_eq!(granted.pop_front(), Some(wanted.op));
                        }
                    }
                    assert!(granted.is_empty());
                }
                let block = rng.below(320);
                let is_taken = holding.iter().chain(&waiting).any(|held| held.overlaps(block, block + 1));
                assert_eq!(locks.is_taken(block), is_taken);
            }
        }
    }
}
