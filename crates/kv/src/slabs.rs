//! Slabs: their contents, and the write buffers.
//!
//! ```text
//!   free ─► open (a buffer) ─► full (waits) ─► writing ─► stored ─► evicting ─► leaving (reads end) ─► free
//!                               ▲  program failed  │         └── nothing valid ──────▲
//!                               └──────────────────┘
//! ```
//! The number of a slab is independent of its place on flash, which the engine knows. Invariants: `valid` counts the index entries in the
//! slab, `hot` those that were asked for since; `tops[slot]` is the upper half of the hash of the item stored in a slot.

//!
//! A slab is *full* when it gets no more items. The classes know the slab that each fills.

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
    /// Complete in memory, waits for the engine.
    Full,
    /// On its way to flash.
    Writing,
    /// On flash.
    Stored,
    /// On flash, what is kept of it is being written again.
    Evicting,
    /// No item of it is valid; reads of it are under way.
    Leaving,
    /// Holds a part of a snapshot.
    Snapshot,
}

#[derive(Clone, Debug)]
pub(crate) struct SlabRecord {
    pub state: State,
    pub class: u8,
    /// Its write buffer; `NIL`: none.
    pub buffer: u32,
    pub valid: u32,
    pub hot: u32,
    /// Reads of flash under way.
    pub readers: u32,
    /// When it became full: a number that only grows.
    pub order: u64,
    /// When an item of it was last asked for: the same.
    pub accessed: u64,
    /// The latest expiry of its items; `u32::MAX`: one of them never expires.
    pub expires_s: u32,
    /// When it was chosen as a victim; `None`: it was not.
    pub evicted: Option<SimTime>,
    /// The upper half of the hash, for each slot in use.
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

/// Write buffers, each as large as a slab. Memory is taken when a buffer is first used.
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
    /// An item of it lives until then; 0: for ever.
    #[inline]
    pub fn lives_until(&mut self, expires_s: u32) {
        self.expires_s = if expires_s == 0 { u32::MAX } else { self.expires_s.max(expires_s) };
    }
}

/// Slab for an item for whose class no write buffer is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lent {
    /// This one, of a larger class.
    Slab(u32),
    /// None: this one goes to flash, though it has slots left.
    Close(u32),
    /// None: buffers are on their way to flash.
    Nothing,
}

/// Slots that a slab gives up when its number can be used again, and when it was chosen as a victim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vacated {
    pub slots: u64,
    pub evicted: Option<SimTime>,
}

/// All slabs, and the classes that they are of.
#[derive(Clone, Debug)]
pub(crate) struct Slabs {
    records: Vec<SlabRecord>,
    vacant: Vec<u32>,
    classes: Classes,
    /// Slabs that wait for the engine.
    full: VecDeque<u32>,
    /// Slabs that leave as soon as no request reads them.
    leaving: u32,
    /// Bytes of slots of larger classes that items left unused, since a slab was last closed for want of write buffers.
    lent_bytes: u64,
    /// The last slab that was closed had slots left, for want of write buffers.
    closed_early: bool,
    /// No slab has been filled since the last look for obsolete ones.
    surveyed: bool,
    slab_bytes: u32,
}

impl Slabs {
    /// Creates the given number of slab numbers, none in use.
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

    /// Bytes of memory that the records take.
    pub fn bytes(&self) -> u64 {
        let tops: usize = self.records.iter().map(|slab| slab.tops.capacity() * size_of::<u32>()).sum();
        (tops + self.records.capacity() * size_of::<SlabRecord>()) as u64
    }

    /// Slabs on flash that are no victims, with their numbers.
    pub fn stored(&self) -> impl Iterator<Item = (u32, &SlabRecord)> + Clone {
        (0..).zip(&self.records).filter(|(_, slab)| slab.state == State::Stored)
    }

    /// Returns whether a slab is on its way to flash.
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

    /// Slabs that leave as soon as no request reads them.
    pub fn leaving(&self) -> u32 {
        self.leaving
    }

    /// Returns true if the last slab that was closed had slots left, for want of write buffers.
    pub fn was_closed_early(&self) -> bool {
        self.closed_early
    }

    /// Returns whether no slab has been filled since the last call.
    pub fn survey(&mut self) -> bool {
        std::mem::replace(&mut self.surveyed, true)
    }

    // ---- slabs in memory

    /// Opens a slab of a class with a write buffer. There is a vacant number.
    pub fn open(&mut self, class: usize, buffer: u32) -> u32 {
        let number = self.vacant.pop().expect("there is a vacant number");
        let slab = &mut self.records[number as usize];
        (slab.state, slab.class, slab.buffer, slab.expires_s) = (State::Open, class as u8, buffer, 0);
        debug_assert!(slab.tops.is_empty() && slab.valid == 0 && slab.hot == 0 && slab.readers == 0);
        slab.tops.reserve_exact(self.classes.get(class).slots as usize);
        self.classes.fill(class, number);
        number
    }

    /// Handles the case that all buffers are taken. If none of them is on its way to flash, either the item goes to the open slab of a
    /// larger class, or the fullest open slab is written although it has slots left. Both waste flash: slots are lent as long as lending
    /// wastes no more than writing would, so that together they waste at most twice the optimum, however few buffers there are.
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

    /// A slab gets no more items: it waits for the engine.
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

    /// An item of a slab was asked for. `first`: it was not before.
    #[inline]
    pub fn accessed(&mut self, number: u32, tick: u64, first: bool) {
        let slab = &mut self.records[number as usize];
        slab.hot += u32::from(first);
        slab.accessed = tick;
    }

    /// An item of a slab lives until then; 0: for ever.
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

    /// Slabs that wait for the engine.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.full.len()
    }

    /// The slab that has waited longest.
    pub fn next_full(&self) -> Option<u32> {
        self.full.front().copied()
    }

    /// The slab that has waited longest waits no more.
    pub fn take_full(&mut self) {
        self.full.pop_front();
    }

    /// Clears the list of waiting requests and returns them.
    pub fn take_all_full(&mut self) -> VecDeque<u32> {
        std::mem::take(&mut self.full)
    }

    /// A slab is on its way to flash.
    pub fn writes(&mut self, number: u32) {
        self.records[number as usize].state = State::Writing;
    }

    /// A slab could not be written: it goes elsewhere, before all others.
    pub fn write_failed(&mut self, number: u32) {
        let slab = &mut self.records[number as usize];
        if slab.state == State::Writing {
            slab.state = State::Full;
        }
        self.full.push_front(number);
    }

    /// A slab is on flash. Returns whether it has no item left.
    pub fn was_written(&mut self, number: u32) -> bool {
        let slab = &mut self.records[number as usize];
        slab.state = State::Stored;
        slab.valid == 0
    }

    // ---- slabs on flash

    /// A read of a slab begins: it stays until that has ended.
    #[inline]
    pub fn read_begins(&mut self, number: u32) {
        self.records[number as usize].readers += 1;
    }

    #[inline]
    pub fn read_ended(&mut self, number: u32) {
        self.records[number as usize].readers -= 1;
    }

    /// A slab is a victim from now on.
    pub fn evict(&mut self, number: u32, now: SimTime) {
        let slab = &mut self.records[number as usize];
        (slab.state, slab.evicted) = (State::Evicting, Some(now));
    }

    /// Marks a slab as no longer needed.
    pub fn leave(&mut self, number: u32) {
        self.records[number as usize].state = State::Leaving;
        self.leaving += 1;
    }

    /// Returns whether a leaving slab is no longer being read and has thus left.
    #[inline]
    pub fn has_left(&mut self, number: u32) -> bool {
        let slab = &self.records[number as usize];
        let left = slab.state == State::Leaving && slab.readers == 0;
        self.leaving -= u32::from(left);
        left
    }

    /// The number of a slab can be used again.
    pub fn vacate(&mut self, number: u32) -> Vacated {
        let slab = &mut self.records[number as usize];
        slab.state = State::Free;
        let vacated = Vacated { slots: slab.tops.len() as u64, evicted: slab.evicted.take() };
        slab.tops.clear();
        self.vacant.push(number);
        vacated
    }

    /// Panics where an invariant is broken.
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

    /// The number that is used next.
    pub fn next_vacant(&self) -> Option<u32> {
        self.vacant.last().copied()
    }

    /// A slab holds a part of a snapshot, in this write buffer or on flash (`NIL`). Returns its number.
    pub fn take_for_snapshot(&mut self, buffer: u32) -> u32 {
        let number = self.vacant.pop().expect("there is a vacant number");
        let slab = &mut self.records[number as usize];
        (slab.state, slab.buffer) = (State::Snapshot, buffer);
        if buffer != NIL {
            self.full.push_back(number);
        }
        number
    }

    /// A part of a snapshot is gone.
    pub fn free_from_snapshot(&mut self, number: u32) {
        self.records[number as usize].state = State::Free;
        self.vacant.push(number);
    }

    /// Takes over a slab of a snapshot, under the next vacant number.
    pub fn restore(&mut self, record: SlabRecord) -> u32 {
        let number = self.vacant.pop().expect("there is a vacant number");
        self.records[number as usize] = SlabRecord { state: State::Stored, ..record };
        number
    }

    /// Forgets all stored slabs, before anything is on its way. Returns their numbers.
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
