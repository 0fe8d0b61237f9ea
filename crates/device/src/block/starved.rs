//! Slices that wait for an entry of the buffer.
//!
//! ```text
//!  no entry vacant ─► line 0 (writes, and reads that share their entries) ─► dirty entries are programmed ─► first of the line
//!                 └─► line 1 (reads that have entries of their own) ───────► an entry becomes clean ──────► first of the line
//! ```
//! A line is served first come, first served. Where clean entries stay (`buffer.retain`) a slice evicts the
//! least recently used entry and waits for that one, so it goes first when that entry has been programmed.

use super::BlockNamespace;
use crate::shared::Shared;
use pellucid_flash::StageTimes;
use pellucid_flash::slab::NIL;

impl BlockNamespace {
    /// In which line a slice waits for an entry: reads that have entries of their own in the second one.
    pub(super) fn line(&self, write: bool) -> usize {
        usize::from(!write && self.config.buffer.read_entries > 0)
    }

    /// Makes sure that an entry is vacant, at the cost of the least recently used clean one.
    #[inline]
    pub(crate) fn make_vacancy(&mut self) -> bool {
        self.buffer.has_vacant() || self.vacate_oldest()
    }

    fn vacate_oldest(&mut self) -> bool {
        // Where dirty entries leave some to others, what is clean need not wait until they are older.
        let apart = self.config.buffer.read_entries > 0;
        match if apart { self.buffer.oldest_clean() } else { self.buffer.oldest() } {
            Some(oldest) if self.buffer[oldest].dirty == 0 => {
                self.buffer.vacate(oldest);
                true
            }
            // What is dirty will not leave any more: the clean ones must do.
            Some(_) if self.read_only => match self.buffer.oldest_clean() {
                Some(clean) => {
                    self.buffer.vacate(clean);
                    true
                }
                None => false,
            },
            _ => false,
        }
    }

    /// The slice waits for an entry, first come, first served.
    pub(super) fn starve(&mut self, shared: &mut Shared, slice: u32, write: bool) {
        let line = self.line(write);
        shared.slices[slice].evicts = NIL;
        self.starved[line].push_back(&mut shared.slices, slice);
        if line == 1 {
            return;
        }
        self.starved_count += 1;
        // It adds nothing to a superpage until it has an entry.
        self.writes.inbound -= u32::from(write);
        self.dispatch_for_space(shared);
    }

    /// Whether the first of the line may take an entry if there is one. A drive that stores no more refuses writes in their turn.
    fn serves_starved(&self) -> bool {
        self.read_only || self.line(false) == 0 || !self.buffer.writes_are_full()
    }

    /// Entries became vacant or clean: waiting slices get them.
    pub(crate) fn feed_starved(&mut self, shared: &mut Shared) {
        while !self.starved[1].is_empty() && self.make_vacancy() {
            let slice = self.starved[1].pop(&mut shared.slices).expect("not empty");
            self.place(shared, slice, true);
        }
        while !self.starved[0].is_empty() && self.serves_starved() && self.make_vacancy() {
            let slice = self.starved[0].pop(&mut shared.slices).expect("not empty");
            self.starved_count -= 1;
            self.writes.inbound += u32::from(shared.is_write(slice));
            self.place(shared, slice, true);
        }
        if self.starved[0].is_empty() {
            // What is left of the programs' time is no slice's wait.
            self.writes.cleaning = Default::default();
        } else {
            self.dispatch_for_space(shared);
        }
    }

    /// Slices wait for entries: dispatches dirty ones until enough are in programs. Those that only wait for a superpage do
    /// not count, so a superpage that can be filled is not padded.
    pub(crate) fn dispatch_for_space(&mut self, shared: &mut Shared) {
        let wanted = self.starved_count.next_multiple_of(shared.layout.units_per_superpage);
        let mut waits = if self.evicts_for_one(shared) { self.starved[0].first() } else { None };
        while self.writes.programming() + self.writes.filling < wanted {
            let Some(entry) = self.buffer.oldest_dirty() else { return };
            while let Some(slice) = waits {
                let record = &mut shared.slices[slice];
                waits = (record.next != NIL).then_some(record.next);
                if record.evicts == NIL {
                    record.evicts = entry;
                    break;
                }
            }
            self.dispatch(shared, entry);
        }
    }

    /// Whether a slice that waits for an entry evicts one and takes that one: in the public Cosmos+ firmware a request takes the
    /// least recently used entry at once and waits until it is written. Not where a program takes the entries of several slices,
    /// nor where a clean entry goes to any of them.
    fn evicts_for_one(&self, shared: &Shared) -> bool {
        self.config.buffer.retain && shared.layout.units_per_superpage == 1
    }

    /// The slice for which `entry` has left goes to the front of the line; `false`: there is none.
    pub(super) fn let_evictor_lead(&mut self, shared: &mut Shared, entry: u32, stages: &StageTimes) -> bool {
        let found = self.starved[0].take_first(&mut shared.slices, |slice| slice.evicts == entry);
        let Some(slice) = found else { return false };
        let mut stages = *stages;
        shared.slices[slice].book_from(&mut stages, shared.now);
        self.starved[0].push_front(&mut shared.slices, slice);
        true
    }
}
