//! Slabs: their contents, and the write buffers.
//!
//! ```text
//!   free ─► open (a buffer) ─► full (waits) ─► writing ─► stored ─► evicting ─► leaving (reads end) ─► free
//!                               ▲  program failed  │         └── nothing valid ──────▲
//!                               └──────────────────┘
//! ```
//! A slab's number is independent of its place on flash, which the engine knows. Invariants: `valid` counts the index entries in the slab, `hot`
//! those that were accessed since; `tops[slot]` is the upper half of the hash of the item stored in a slot.

//! A slab is *full* when it accepts no more items. The classes know their open slabs.

use crate::classes::{Class, Classes};
use crate::index::{Entry, Place};
use pellucid_flash::SimTime;
use pellucid_flash::slab::NIL;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Free,
    /// Being filled in memory.
    Open,
    /// Complete in memory, waiting for the engine.
    Full,
    /// Being written to flash.
    Writing,
    /// On flash.
    Stored,
    /// On flash; items to keep are being rewritten.
    Evicting,
    /// Without valid items; reads are in flight.
    Leaving,
    /// Holding a part of a snapshot.
    Snapshot,
}

#[derive(Clone, Debug)]
pub(crate) struct SlabRecord {
    pub state: State,
    pub class: u8,
    /// Write buffer; `NIL`: none.
    pub buffer: u32,
    pub valid: u32,
    pub hot: u32,
    /// Reads in flight.
    pub readers: u32,
    /// Tick at which it became full.
    pub order: u64,
    /// Tick of the last access to one of its items.
    pub accessed: u64,
    /// Latest expiry of its items; `u32::MAX`: one never expires.
    pub expires_s: u32,
    /// Time at which it was chosen as a victim, if it was.
    pub evicted: Option<SimTime>,
    /// Upper half of the hash, for each used slot.
    pub tops: Vec<u32>,
}

impl Default for SlabRecord {
    fn default() -> SlabRecord {
        SlabRecord {
            state: State::Free,
            class: 0,
            buffer: NIL,
            valid: 0,
            hot: 0,
            readers: 0,
            order: 0,
            accessed: 0,
            expires_s: 0,
            evicted: None,
            tops: Vec::new(),
        }
    }
}

/// Write buffers, each as large as a slab. Memory is allocated when a buffer is first used.
#[derive(Clone, Debug)]
pub(crate) struct Buffers {
    bytes: Vec<Vec<u8>>,
    vacant: Vec<u32>,
    slab_bytes: usize,
}

impl Buffers {
    pub fn new(count: u32, slab_bytes: usize) -> Buffers {
        Buffers { bytes: vec![Vec::new(); count as usize], vacant: (0..count).rev().collect(), slab_bytes }
    }

    pub fn count(&self) -> usize {
        self.bytes.len()
    }

    pub fn vacant(&self) -> usize {
        self.vacant.len()
    }

    pub fn take(&mut self) -> Option<u32> {
        let at = self.vacant.pop()?;
        self.bytes[at as usize].resize(self.slab_bytes, 0);
        Some(at)
    }

    pub fn release(&mut self, at: u32) {
        self.vacant.push(at);
    }

    #[inline]
    pub fn get(&self, at: u32) -> &[u8] {
        &self.bytes[at as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, at: u32) -> &mut [u8] {
        &mut self.bytes[at as usize]
    }
}

impl SlabRecord {
    /// Extends the latest expiry to that of an item; 0: never.
    #[inline]
    pub fn lives_until(&mut self, expires_s: u32) {
        self.expires_s = if expires_s == 0 { u32::MAX } else { self.expires_s.max(expires_s) };
    }
}

/// Slab for an item whose class has no free write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lent {
    /// An open slab of a larger class.
    Slab(u32),
    /// None, but this slab is to be written although it has free slots.
    Close(u32),
    /// None; buffers are being written.
    Nothing,
}

/// Slots that a vacated slab gives up, and the time at which it was chosen as a victim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vacated {
    pub slots: u64,
    pub evicted: Option<SimTime>,
}

/// All slabs, with their classes.
#[derive(Clone, Debug)]
pub(crate) struct Slabs {
    records: Vec<SlabRecord>,
    vacant: Vec<u32>,
    classes: Classes,
    /// Slabs that wait for the engine.
    full: VecDeque<u32>,
    /// Number of slabs that leave once their reads have ended.
    leaving: u32,
    /// Bytes wasted in larger slots since a slab was last closed for want of write buffers.
    lent_bytes: u64,
    /// True if the last closed slab had free slots, for want of write buffers.
    closed_early: bool,
    /// True if no slab has been filled since the last search for obsolete ones.
    surveyed: bool,
    slab_bytes: u32,
}

impl Slabs {
    /// Creates this many slab numbers, none in use.
    pub fn new(numbers: u32, classes: Classes, slab_bytes: u32) -> Slabs {
        Slabs {
            records: vec![SlabRecord::default(); numbers as usize],
            vacant: (0..numbers).rev().collect(),
            classes,
            full: VecDeque::new(),
            leaving: 0,
            lent_bytes: 0,
            closed_early: false,
            surveyed: false,
            slab_bytes,
        }
    }

    // ---- look-ups

    #[inline]
    pub fn get(&self, number: u32) -> &SlabRecord {
        &self.records[number as usize]
    }

    pub fn records(&self) -> &[SlabRecord] {
        &self.records
    }

    /// Memory of the records in bytes.
    pub fn bytes(&self) -> u64 {
        let tops: usize = self.records.iter().map(|slab| slab.tops.capacity() * size_of::<u32>()).sum();
        (tops + self.records.capacity() * size_of::<SlabRecord>()) as u64
    }

    /// Slabs on flash that are not victims, with their numbers.
    pub fn stored(&self) -> impl Iterator<Item = (u32, &SlabRecord)> + Clone {
        (0..).zip(&self.records).filter(|(_, slab)| slab.state == State::Stored)
    }

    /// Reports whether a slab is being written.
    pub fn is_writing(&self) -> bool {
        self.records.iter().any(|slab| slab.state == State::Writing)
    }

    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// The class of a slab.
    #[inline]
    pub fn class_of(&self, number: u32) -> &Class {
        self.classes.get(usize::from(self.records[number as usize].class))
    }

    /// Number of slabs that leave once their reads have ended.
    pub fn leaving(&self) -> u32 {
        self.leaving
    }

    /// Returns true if the last closed slab had free slots, for want of write buffers.
    pub fn was_closed_early(&self) -> bool {
        self.closed_early
    }

    /// Reports whether no slab has been filled since the last call.
    pub fn survey(&mut self) -> bool {
        std::mem::replace(&mut self.surveyed, true)
    }

    // ---- slabs in memory

    /// Opens a slab of a class with a write buffer. A vacant number must exist.
    pub fn open(&mut self, class: usize, buffer: u32) -> u32 {
        let number = self.vacant.pop().expect("there is a vacant number");
        let slab = &mut self.records[number as usize];
        (slab.state, slab.class, slab.buffer, slab.expires_s) = (State::Open, class as u8, buffer, 0);
        debug_assert!(slab.tops.is_empty() && slab.valid == 0 && slab.hot == 0 && slab.readers == 0);
        slab.tops.reserve_exact(self.classes.get(class).slots as usize);
        self.classes.fill(class, number);
        number
    }

    /// Handles the case that all buffers are taken. If none of them is being written, either the item goes to the open slab of a larger class, or the
    /// fullest open slab is written although it has free slots. Both waste flash: slots are lent as long as lending wastes no more than writing
    /// would, so that together they waste at most twice the optimum, for any number of buffers.
    pub fn lend(&mut self, class: usize, buffers: usize) -> Lent {
        let open = self.classes.all().iter().filter(|class| class.open != NIL);
        if buffers > open.clone().count() {
            return Lent::Nothing;
        }
        let used =
            |class: &Class| self.records[class.open as usize].tops.len() as u64 * u64::from(class.slot_bytes);
        let Some(fullest) = open.max_by_key(|class| used(class)) else { return Lent::Nothing };
        let unused = u64::from(self.slab_bytes) - used(fullest);
        let fullest = fullest.open;
        let larger = self.classes.all()[class + 1..].iter().find(|larger| larger.open != NIL);
        if let Some(larger) = larger {
            let lent = self.lent_bytes + u64::from(larger.slot_bytes - self.classes.get(class).slot_bytes);
            if lent <= unused {
                self.lent_bytes = lent;
                return Lent::Slab(larger.open);
            }
        }
        self.lent_bytes = 0;
        Lent::Close(fullest)
    }

    /// Closes a slab: it accepts no more items and waits for the engine.
    pub fn close(&mut self, number: u32, tick: u64) {
        self.surveyed = false;
        let slab = &mut self.records[number as usize];
        let class = usize::from(slab.class);
        self.closed_early = slab.tops.len() < self.classes.get(class).slots as usize;
        (slab.state, slab.order, slab.accessed) = (State::Full, tick, tick);
        if self.classes.get(class).open == number {
            self.classes.fill(class, NIL);
        }
        self.full.push_back(number);
    }

    /// Takes the next slot of an open slab.
    #[inline]
    pub fn take_slot(&mut self, slab: u32, hash: u64) -> Place {
        let tops = &mut self.records[slab as usize].tops;
        let place = Place { slab, slot: tops.len() as u32 };
        tops.push((hash >> 32) as u32);
        place
    }

    /// Takes the write buffer from a slab.
    pub fn take_buffer(&mut self, number: u32) -> u32 {
        std::mem::replace(&mut self.records[number as usize].buffer, NIL)
    }

    // ---- items

    /// Records that an index entry references a slot of a slab. Returns whether the slab, which was open, has no slot left.
    #[inline]
    pub fn add(&mut self, entry: &Entry) -> bool {
        let slab = &mut self.records[entry.place().slab as usize];
        slab.valid += 1;
        slab.hot += u32::from(entry.hits() > 0);
        slab.lives_until(entry.expires_s());
        let class = usize::from(slab.class);
        self.classes.add_item(class);
        slab.tops.len() as u32 == self.classes.get(class).slots && slab.state == State::Open
    }

    /// Drops an entry's reference to its slot. Returns whether its stored slab has no item left.
    #[inline]
    pub fn remove(&mut self, entry: &Entry) -> bool {
        let slab = &mut self.records[entry.place().slab as usize];
        slab.valid -= 1;
        slab.hot -= u32::from(entry.hits() > 0);
        self.classes.remove_item(usize::from(slab.class));
        slab.valid == 0 && slab.state == State::Stored
    }

    /// Notes an access to an item of a slab; `first`: its first one.
    #[inline]
    pub fn accessed(&mut self, number: u32, tick: u64, first: bool) {
        let slab = &mut self.records[number as usize];
        slab.hot += u32::from(first);
        slab.accessed = tick;
    }

    /// Extends a slab's latest expiry to that of an item; 0: never.
    #[inline]
    pub fn lives_until(&mut self, number: u32, expires_s: u32) {
        self.records[number as usize].lives_until(expires_s);
    }

    /// Drops all items. Returns the stored slabs, which must be released.
    pub fn drop_items(&mut self) -> Vec<u32> {
        self.classes.drop_items();
        for slab in &mut self.records {
            (slab.valid, slab.hot) = (0, 0);
            if slab.state == State::Open {
                slab.tops.clear();
            }
        }
        self.stored().map(|(number, _)| number).collect()
    }

    /// Counts a hit of an item in a slab.
    #[inline]
    pub fn count_hit(&mut self, number: u32) {
        let class = usize::from(self.records[number as usize].class);
        self.classes.count(class, |counts| &mut counts.hits);
    }

    /// Counts a store of an item of a class.
    #[inline]
    pub fn count_set(&mut self, class: usize) {
        self.classes.count(class, |counts| &mut counts.sets);
    }

    /// Counts an item that was dropped with its slab.
    pub fn count_evicted(&mut self, number: u32) {
        let class = usize::from(self.records[number as usize].class);
        self.classes.count(class, |counts| &mut counts.evicted);
    }

    // ---- slabs that wait for the engine

    /// Number of slabs that wait for the engine.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.full.len()
    }

    /// The slab that has waited longest.
    pub fn next_full(&self) -> Option<u32> {
        self.full.front().copied()
    }

    /// Removes the slab that has waited longest from the queue.
    pub fn take_full(&mut self) {
        self.full.pop_front();
    }

    /// Empties the queue and returns it.
    pub fn take_all_full(&mut self) -> VecDeque<u32> {
        std::mem::take(&mut self.full)
    }

    /// Marks a slab as being written.
    pub fn writes(&mut self, number: u32) {
        self.records[number as usize].state = State::Writing;
    }

    /// Puts a slab whose write failed at the head of the queue.
    pub fn write_failed(&mut self, number: u32) {
        let slab = &mut self.records[number as usize];
        if slab.state == State::Writing {
            slab.state = State::Full;
        }
        self.full.push_front(number);
    }

    /// Marks a slab as stored. Returns whether it has no item left.
    pub fn was_written(&mut self, number: u32) -> bool {
        let slab = &mut self.records[number as usize];
        slab.state = State::Stored;
        slab.valid == 0
    }

    // ---- slabs on flash

    /// Notes the start of a read; the slab stays until it ends.
    #[inline]
    pub fn read_begins(&mut self, number: u32) {
        self.records[number as usize].readers += 1;
    }

    #[inline]
    pub fn read_ended(&mut self, number: u32) {
        self.records[number as usize].readers -= 1;
    }

    /// Makes a slab a victim.
    pub fn evict(&mut self, number: u32, now: SimTime) {
        let slab = &mut self.records[number as usize];
        (slab.state, slab.evicted) = (State::Evicting, Some(now));
    }

    /// Marks a slab as leaving.
    pub fn leave(&mut self, number: u32) {
        self.records[number as usize].state = State::Leaving;
        self.leaving += 1;
    }

    /// Reports whether a leaving slab has no reads left, and thus has left.
    #[inline]
    pub fn has_left(&mut self, number: u32) -> bool {
        let slab = &self.records[number as usize];
        let left = slab.state == State::Leaving && slab.readers == 0;
        self.leaving -= u32::from(left);
        left
    }

    /// Frees the number of a slab.
    pub fn vacate(&mut self, number: u32) -> Vacated {
        let slab = &mut self.records[number as usize];
        slab.state = State::Free;
        let vacated = Vacated { slots: slab.tops.len() as u64, evicted: slab.evicted.take() };
        slab.tops.clear();
        self.vacant.push(number);
        vacated
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        for (number, slab) in (0u32..).zip(&self.records) {
            let class = self.class_of(number);
            assert!(slab.tops.len() as u32 <= class.slots);
            assert!(
                slab.valid == 0 || class.slot_bytes <= self.classes.longest_bytes(),
                "slab {number} has longer slots"
            );
            assert_eq!(slab.state == State::Open, slab.state != State::Free && class.open == number);
            assert!(slab.state != State::Leaving || slab.readers > 0, "nobody reads it, and it stays");
            assert_eq!(slab.state == State::Free, self.vacant.contains(&number));
            let buffered = matches!(slab.state, State::Open | State::Full | State::Writing);
            assert!(slab.state == State::Snapshot || buffered == (slab.buffer != NIL), "{:?}", slab.state);
        }
        let waits = |slab: &u32| matches!(self.get(*slab).state, State::Full | State::Snapshot);
        assert!(self.full.iter().all(waits), "what waits for the engine is complete");
        let leaving = self.records.iter().filter(|slab| slab.state == State::Leaving).count();
        assert_eq!(leaving as u32, self.leaving);
    }

    // ---- start and stop

    /// The number that will be used next.
    pub fn next_vacant(&self) -> Option<u32> {
        self.vacant.last().copied()
    }

    /// Makes a slab of a part of a snapshot, in this write buffer or on flash (`NIL`). Returns its number.
    pub fn take_for_snapshot(&mut self, buffer: u32) -> u32 {
        let number = self.vacant.pop().expect("there is a vacant number");
        let slab = &mut self.records[number as usize];
        (slab.state, slab.buffer) = (State::Snapshot, buffer);
        if buffer != NIL {
            self.full.push_back(number);
        }
        number
    }

    /// Frees the slab of a part of a snapshot.
    pub fn free_from_snapshot(&mut self, number: u32) {
        self.records[number as usize].state = State::Free;
        self.vacant.push(number);
    }

    /// Restores a slab of a snapshot, under the next vacant number.
    pub fn restore(&mut self, record: SlabRecord) -> u32 {
        let number = self.vacant.pop().expect("there is a vacant number");
        self.records[number as usize] = SlabRecord { state: State::Stored, ..record };
        number
    }

    /// Drops all stored slabs, before any command is in flight. Returns their numbers.
    pub fn forget_stored(&mut self) -> Vec<u32> {
        let stored: Vec<u32> = self.stored().map(|(number, _)| number).collect();
        for &number in &stored {
            self.records[number as usize] = SlabRecord::default();
            self.vacant.push(number);
        }
        self.classes.drop_items();
        stored
    }
}
