//! Slices that wait for an entry of the buffer.
//!
//! ```text
//!  no entry vacant ─► line (writes, and reads that share their entries) ─► dirty entries are programmed ─► first of the line
//!                 └─► reads (those that have entries of their own) ──────► an entry becomes clean ──────► first of the reads
//! ```
//! A line is served first come, first served. Where clean entries stay (`buffer.retain`) a slice evicts the
//! least recently used entry and waits for that one, so it goes first when that entry has been programmed.
//!
//! Invariants of [`Starved`]: slices that evict an entry precede those that evict none; the slices that evict the same entry are
//! chained in queue order. So every step has constant cost, however many slices wait.

use super::core::Core;
use super::{read, write};
use crate::firmware::Chore;
use crate::shared::Shared;
use pellucid_flash::StageTimes;
use pellucid_flash::slab::{NIL, Slab};
use std::collections::VecDeque;

/// Slices that wait for an entry, in the order in which they get one.
#[derive(Clone, Debug, Default)]
pub(super) struct Starved {
    waiters: Slab<Waiter>,
    /// First and last of the line.
    line: Ends,
    /// First of the line that evicts no entry yet.
    undecided: u32,
    waiting: u32,
    /// First and last waiter that evicts each entry.
    evictors: Vec<Ends>,
    /// Reads that wait for an entry of their own.
    reads: VecDeque<u32>,
    /// Stages of programs that made entries clean while slices waited for entries, not yet shared out among these. Where an
    /// entry goes to the slice that has waited longest, not to the one that it was written out for, their times do not match one
    /// by one.
    cleaning: StageTimes,
}

/// Both ends of a list of waiters.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

impl Default for Ends {
    fn default() -> Self {
        Ends { first: NIL, last: NIL }
    }
}

/// A slice in the line.
#[derive(Clone, Debug)]
struct Waiter {
    slice: u32,
    /// The entry that leaves for it.
    evicts: u32,
    /// Its neighbours in the line.
    previous: u32,
    next: u32,
    /// The next waiter that evicts the same entry.
    next_evictor: u32,
}

impl Waiter {
    fn of(slice: u32) -> Waiter {
        Waiter { slice, evicts: NIL, previous: NIL, next: NIL, next_evictor: NIL }
    }
}

impl Default for Waiter {
    fn default() -> Self {
        Waiter::of(NIL)
    }
}

impl Starved {
    /// Returns whether no slice waits, either in the line or for a reserved entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.is_line_empty() && self.reads.is_empty()
    }

    /// Returns whether the line is empty.
    #[inline]
    pub fn is_line_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Returns whether no read waits for a reserved entry.
    #[inline]
    pub fn has_no_reads(&self) -> bool {
        self.reads.is_empty()
    }

    /// Slices in the line.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// A slice goes to the end of the line.
    pub fn push(&mut self, slice: u32) {
        let at = self.waiters.insert(Waiter { previous: self.line.last, ..Waiter::of(slice) });
        self.undecided = if self.all_decided() { at } else { self.undecided };
        match std::mem::replace(&mut self.line.last, at) {
            NIL => self.line.first = at,
            last => self.waiters[last].next = at,
        }
        self.waiting += 1;
    }

    /// The first of the line leaves it.
    pub fn pop(&mut self) -> Option<u32> {
        let at = self.line.first;
        if at == NIL {
            return None;
        }
        self.unlink(at);
        let Waiter { slice, evicts, next, next_evictor, .. } = self.waiters[at];
        match evicts {
            NIL => self.undecided = next,
            entry => {
                let chain = &mut self.evictors[entry as usize];
                debug_assert_eq!(chain.first, at, "the first of the line is the first that evicts its entry");
                chain.first = next_evictor;
                chain.last = if next_evictor == NIL { NIL } else { chain.last };
            }
        }
        self.waiters.release(at);
        self.waiting -= 1;
        Some(slice)
    }

    /// An entry leaves for the first of the line that evicts none yet, if there is one.
    pub fn evict(&mut self, entry: u32) {
        if self.all_decided() {
            return;
        }
        let at = self.undecided;
        self.undecided = self.waiters[at].next;
        self.waiters[at].evicts = entry;
        let entry = entry as usize;
        if self.evictors.len() <= entry {
            self.evictors.resize(entry + 1, Ends::default());
        }
        match std::mem::replace(&mut self.evictors[entry].last, at) {
            NIL => self.evictors[entry].first = at,
            last => self.waiters[last].next_evictor = at,
        }
    }

    /// The slice that evicts `entry` goes to the front of the line; the first one, if several do. Gives it.
    pub fn lead(&mut self, entry: u32) -> Option<u32> {
        let at = self.evictors.get(entry as usize)?.first;
        if at == NIL {
            return None;
        }
        self.unlink(at);
        let first = std::mem::replace(&mut self.line.first, at);
        (self.waiters[at].previous, self.waiters[at].next) = (NIL, first);
        match first {
            NIL => self.line.last = at,
            first => self.waiters[first].previous = at,
        }
        Some(self.waiters[at].slice)
    }

    /// A read waits for an entry of its own.
    pub fn push_read(&mut self, slice: u32) {
        self.reads.push_back(slice);
    }

    /// The read that has waited longest for an entry of its own waits no longer.
    pub fn pop_read(&mut self) -> Option<u32> {
        self.reads.pop_front()
    }

    /// A program has made an entry clean.
    #[inline]
    pub fn note_cleaned(&mut self, stages: &StageTimes) {
        match self.is_line_empty() {
            true => self.end_cleaning(),
            false => self.cleaning.add_all(stages),
        }
    }

    /// The remaining time of the programs is no slice's wait.
    #[inline]
    pub fn end_cleaning(&mut self) {
        self.cleaning = StageTimes::default();
    }

    /// Stages of programs that a slice which gets its entry has waited for.
    #[inline]
    pub fn cleaning(&mut self) -> &mut StageTimes {
        &mut self.cleaning
    }

    fn all_decided(&self) -> bool {
        self.waiting == 0 || self.undecided == NIL
    }

    /// Takes a waiter out of the line; its record keeps its neighbours.
    fn unlink(&mut self, at: u32) {
        let Waiter { previous, next, .. } = self.waiters[at];
        match previous {
            NIL => self.line.first = next,
            previous => self.waiters[previous].next = next,
        }
        match next {
            NIL => self.line.last = previous,
            next => self.waiters[next].previous = previous,
        }
    }
}

/// Returns whether a slice waits for a reserved entry: reads do, if entries are reserved for them.
#[inline]
pub(super) fn waits_apart(core: &Core, write: bool) -> bool {
    !write && core.config().buffer.read_entries > 0
}

/// Returns whether no slice waits for the entries that a slice would take.
#[inline]
pub(super) fn is_line_empty(core: &Core, write: bool) -> bool {
    if waits_apart(core, write) { core.starved.has_no_reads() } else { core.starved.is_line_empty() }
}

/// Makes sure that an entry is vacant, at the cost of the least recently used clean one.
#[inline]
pub(super) fn make_vacancy(core: &mut Core, shared: &mut Shared) -> bool {
    core.buffer.has_vacant() || vacate_oldest(core, shared)
}

fn vacate_oldest(core: &mut Core, shared: &mut Shared) -> bool {
    // Where dirty entries leave some to others, what is clean need not wait until they are older.
    let apart = core.config().buffer.read_entries > 0;
    match if apart { core.buffer.oldest_clean() } else { core.buffer.oldest() } {
        Some(oldest) if core.buffer[oldest].sectors().dirty() == 0 => {
            core.buffer.vacate(oldest);
            shared.charge(Chore::Evict, 1);
            true
        }
        // Dirty entries can no longer leave: clean ones must do.
        Some(_) if core.side.is_read_only() => match core.buffer.oldest_clean() {
            Some(clean) => {
                core.buffer.vacate(clean);
                shared.charge(Chore::Evict, 1);
                true
            }
            None => false,
        },
        _ => false,
    }
}

/// The slice waits for an entry, first come, first served.
pub(super) fn starve(core: &mut Core, shared: &mut Shared, slice: u32, write: bool) {
    if waits_apart(core, write) {
        return core.starved.push_read(slice);
    }
    core.starved.push(slice);
    // It adds nothing to a superpage until it has an entry.
    core.queue.expect_less(u32::from(write));
    dispatch_for_space(core, shared);
}

/// Returns whether the first slice of the line may take a vacant entry. A drive that accepts no more data refuses writes in
/// their turn.
fn serves_starved(core: &Core) -> bool {
    core.side.is_read_only() || !waits_apart(core, false) || !core.buffer.writes_are_full()
}

/// Entries became vacant or clean: waiting slices get them.
pub(super) fn feed_starved(core: &mut Core, shared: &mut Shared) {
    while !core.starved.has_no_reads() && make_vacancy(core, shared) {
        let slice = core.starved.pop_read().expect("not empty");
        read::place(core, shared, slice, true);
    }
    while !core.starved.is_line_empty() && serves_starved(core) && make_vacancy(core, shared) {
        let slice = core.starved.pop().expect("not empty");
        core.queue.expect(u32::from(shared.is_write(slice)));
        read::place(core, shared, slice, true);
    }
    if core.starved.is_line_empty() {
        // The remaining time of the programs is no slice's wait.
        core.starved.end_cleaning();
    } else {
        dispatch_for_space(core, shared);
    }
}

/// Slices wait for entries: dispatches dirty ones until enough are in programs. Those that only wait for a superpage do
/// not count, so a superpage that can be filled is not padded. Where enough only wait for space, entries of their stream follow them,
/// and others do not [overtake](overtakes) them.
pub(super) fn dispatch_for_space(core: &mut Core, shared: &mut Shared) {
    dispatch_in_order(core, shared, overtakes);
}

/// Handles a stuck drive: dispatches entries of streams that may have space although others have none. Returns whether any was
/// dispatched.
#[cold]
pub(super) fn let_overtake(core: &mut Core, shared: &mut Shared) -> bool {
    let dirty = core.buffer.dirty_idle();
    if !core.side.is_read_only() {
        dispatch_in_order(core, shared, |_, _, _| false);
    }
    core.buffer.dirty_idle() != dirty
}

/// Dispatches dirty entries, the least recently used one first, until enough are in programs or `stops` at one.
#[inline]
fn dispatch_in_order(core: &mut Core, shared: &mut Shared, stops: impl Fn(&Core, u32, u32) -> bool) {
    let wanted = core.starved.waiting().next_multiple_of(shared.layout.units_per_superpage);
    let evicts_for_one = evicts_for_one(core, shared);
    while core.queue.on_the_way() < wanted {
        let Some(entry) = core.buffer.oldest_dirty() else { return };
        if stops(core, entry, wanted) {
            return;
        }
        if evicts_for_one {
            core.starved.evict(entry);
        }
        shared.charge(Chore::Evict, 1);
        write::dispatch(core, shared, entry);
    }
}

/// Returns whether `entry` would leave ahead of older ones that only wait for space, and that are enough for the slices that wait: the
/// buffer would lose the data that are written most often while a stream has no space.
#[inline]
fn overtakes(core: &Core, entry: u32, wanted: u32) -> bool {
    let waiting = core.queue.waiting_for_space();
    if waiting == 0 || core.queue.on_the_way() + waiting < wanted {
        return false;
    }
    let record = &core.buffer[entry];
    let stream = core.side.translation.next_stream(record.lpn(), record.handle());
    stream.is_some_and(|stream| !core.queue.only_waits(stream))
}

/// Returns whether a slice that waits for an entry evicts a specific entry and takes it: in the public Cosmos+ firmware a request
/// takes the least recently used entry at once and waits until it is written. False if one program covers the entries of several
/// slices, or if a clean entry may go to any of them.
fn evicts_for_one(core: &Core, shared: &Shared) -> bool {
    core.config().buffer.retain && shared.layout.units_per_superpage == 1
}

/// Moves the slice for which `entry` was evicted to the front of the line; `false`: there is none.
pub(super) fn let_evictor_lead(
    core: &mut Core,
    shared: &mut Shared,
    entry: u32,
    stages: &StageTimes,
) -> bool {
    let Some(slice) = core.starved.lead(entry) else { return false };
    let mut stages = *stages;
    let record = &mut shared.slices[slice];
    record.stages.stall(shared.now - record.mark);
    record.book_from(&mut stages, shared.now);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line as slices, from its first to its last; walks it backwards too.
    fn line(starved: &Starved) -> Vec<u32> {
        let mut found = Vec::new();
        let (mut at, mut before) = (starved.line.first, NIL);
        while at != NIL {
            assert_eq!(starved.waiters[at].previous, before);
            found.push(starved.waiters[at].slice);
            (before, at) = (at, starved.waiters[at].next);
        }
        assert_eq!((before, found.len()), (starved.line.last, starved.waiting as usize));
        found
    }

    fn of(slices: impl IntoIterator<Item = u32>) -> Starved {
        let mut starved = Starved::default();
        slices.into_iter().for_each(|slice| starved.push(slice));
        starved
    }

    #[test]
    fn the_slice_that_evicts_an_entry_leads_when_it_has_left() {
        let mut starved = of(10..14);
        for entry in [7, 3, 5] {
            starved.evict(entry);
        }
        assert_eq!(starved.lead(6), None);
        assert_eq!(starved.lead(3), Some(11));
        assert_eq!(starved.lead(5), Some(12));
        assert_eq!(line(&starved), [12, 11, 10, 13]);
        // It evicts the entry until it has one.
        assert_eq!(starved.lead(3), Some(11));
        assert_eq!(starved.pop(), Some(11));
        assert_eq!(starved.lead(3), None);
        starved.push(14);
        starved.evict(3);
        assert_eq!(starved.lead(3), Some(13));
        assert_eq!(line(&starved), [13, 12, 10, 14]);
    }

    /// An entry that is dirty again before its program leaves for a second slice, after the first one.
    #[test]
    fn slices_that_evict_one_entry_lead_in_the_order_of_the_line() {
        let mut starved = of([1, 2, 3]);
        starved.evict(9);
        starved.evict(9);
        assert_eq!((starved.lead(9), starved.pop()), (Some(1), Some(1)));
        assert_eq!((starved.lead(9), starved.pop()), (Some(2), Some(2)));
        assert_eq!((starved.lead(9), starved.pop(), starved.pop()), (None, Some(3), None));
        starved.evict(9);
        starved.push(4);
        assert_eq!((starved.lead(9), line(&starved)), (None, vec![4]), "nobody waited");
    }

    #[test]
    fn reads_with_entries_of_their_own_do_not_stand_in_the_line() {
        let mut starved = Starved::default();
        starved.push_read(1);
        assert!(starved.is_line_empty() && !starved.is_empty());
        assert_eq!((starved.pop_read(), starved.pop_read()), (Some(1), None));
        assert!(starved.is_empty());
    }
}
