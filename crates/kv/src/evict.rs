//! Eviction, which for engines that own their blocks is garbage collection too.
//!
//! ```text
//!   free slabs   ── high ──  enough
//!                            two modes: the slab with most obsolete items, if that is worth it; what is valid, or hot, is written again
//!                ── low ───
//!                            the slab that was asked for longest ago; what is hot is written again
//!                ── none, or no write buffer ──  the same, and nothing is written again; without blocks of its own it waits for one
//! ```
//! The index entry of an item decides whether the item is kept, and only if it names this very slot: a stale copy says nothing about the live
//! item.

use super::fill::Purpose;
use super::index::{Entry, Place};
use super::item::Head;
use super::restart::Phase;
use super::slabs::{SlabRecord, State};
use super::{Keep, Kv, Victim};
use std::ops::Range;

/// Victims whose items are being written again at a time, reads of each, and bytes of a read.
const EVICTIONS_MAX: usize = 4;
const READS_MAX: u32 = 4;
const READ_BYTES: u32 = 128 << 10;

/// A victim of which something is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eviction {
    pub slab: u32,
    keep: Keep,
    /// The first slot that was not looked at.
    next: u32,
    reads: u32,
}

impl Kv {
    /// Begins evictions as long as too few slabs are free.
    pub(super) fn make_room(&mut self) {
        self.dead = self.engine.is_read_only();
        if matches!(self.phase, Phase::Running | Phase::Draining) {
            self.evict_more();
        }
        if self.dead {
            self.look_for_rest();
        }
    }

    fn evict_more(&mut self) {
        while !self.dead {
            let coming = self.evictions.len() as u32 + self.leaving;
            let free = self.engine.free() + coming;
            let [low, high] = self.watermarks.marks();
            // A stop takes no more from the items than it needs to write what is in memory.
            let (low, enough) = match self.phase {
                Phase::Draining => (true, self.full.len() as u32),
                _ => (free < low, high),
            };
            if free >= enough || self.evictions.len() >= self.evictions_max() {
                return;
            }
            let Some((victim, keep)) = self.victim(low) else {
                // Nothing is on its way, and nothing can be had.
                let stuck = free == 0 && !self.full.is_empty();
                self.dead = stuck && !self.slabs.iter().any(|slab| slab.state == State::Writing);
                return;
            };
            self.evict(victim, keep);
        }
    }

    /// Victims whose items are written again at a time. Without blocks of its own the cache writes all of them again, so it has to read as
    /// many at a time as it writes.
    fn evictions_max(&self) -> usize {
        match self.config.engine.owns_blocks() {
            true => EVICTIONS_MAX,
            false => EVICTIONS_MAX.max(self.shape.servers as usize),
        }
    }

    /// The next victim, and what of it is kept. `low`: free slabs are below the low watermark.
    fn victim(&mut self, low: bool) -> Option<(u32, Keep)> {
        let space = self.config.victim == Victim::TwoModes && !low;
        // With enough free a look at all slabs is worth it only where one has been filled since the last.
        if !low && (!space || std::mem::replace(&mut self.surveyed, true)) {
            return None;
        }
        let stored = (0..).zip(&self.slabs).filter(|(_, slab)| slab.state == State::Stored);
        if let Some((number, _)) = stored.clone().find(|(_, slab)| slab.expires_s <= self.time_s) {
            return Some((number, Keep::Nothing));
        }
        let obsolete = |slab: &SlabRecord| {
            let class = &self.classes[usize::from(slab.class)];
            u64::from(class.slots - slab.valid) * u64::from(class.slot_bytes)
        };
        let most_obsolete = || stored.clone().max_by_key(|(_, slab)| (obsolete(slab), u64::MAX - slab.order));
        // What is written again has to be clearly less than what is freed.
        let gains = |slab: &SlabRecord| obsolete(slab) * 4 >= u64::from(self.shape.slab_bytes);
        let least_recent = || stored.clone().min_by_key(|(_, slab)| (slab.accessed, slab.order));
        let found = match self.config.victim {
            Victim::Fifo => stored.clone().min_by_key(|(_, slab)| slab.order),
            Victim::MostObsolete => most_obsolete().filter(|(_, slab)| gains(slab)).or_else(least_recent),
            Victim::TwoModes if space => {
                most_obsolete().filter(|(_, slab)| obsolete(slab) * 2 >= u64::from(self.shape.slab_bytes))
            }
            Victim::Lru | Victim::TwoModes => least_recent(),
        };
        let (number, slab) = found?;
        let by_space = space || self.config.victim == Victim::MostObsolete;
        let owns = self.config.engine.owns_blocks();
        let keep = match self.config.keep {
            // A stop closes slabs as they are.
            _ if self.phase != Phase::Running => Keep::Nothing,
            // What is written again into slabs that are closed before they are full takes as much flash as it frees: eviction would
            // never end.
            _ if self.closed_early => Keep::Nothing,
            // What is written again needs buffers, and must not take those of stores that wait: slabs would be closed half empty.
            _ if owns
                && (self.engine.free() == 0 || !self.waiting.is_empty() || self.buffers.vacant() < 2) =>
            {
                Keep::Nothing
            }
            // Without blocks of its own the cache drops nothing because it is busy: stores wait for the copies.
            _ if !owns && self.buffers.vacant() <= self.evictions.len() => {
                if !self.evictions.is_empty() || self.slabs.iter().any(|slab| slab.state == State::Writing) {
                    return None;
                }
                Keep::Nothing
            }
            Keep::Valid if !by_space || !gains(slab) => Keep::Hot,
            keep => keep,
        };
        Some((number, keep))
    }

    /// Evicts a stored slab.
    fn evict(&mut self, number: u32, keep: Keep) {
        self.statistics.slabs_evicted += 1;
        let slab = &mut self.slabs[number as usize];
        slab.state = State::Evicting;
        slab.evicted = Some(self.now);
        if keep == Keep::Nothing || (keep == Keep::Hot && slab.hot == 0) {
            return self.drop_rest(number);
        }
        self.evictions.push(Eviction { slab: number, keep, next: 0, reads: 0 });
        self.copy_more(self.evictions.len() - 1);
    }

    /// Evicts the least recently used slab, all of it. `false`: there is none.
    pub(super) fn evict_one(&mut self) -> bool {
        let stored = (0..).zip(&self.slabs).filter(|(_, slab)| slab.state == State::Stored);
        let Some((number, _)) = stored.min_by_key(|(_, slab)| (slab.accessed, slab.order)) else {
            return false;
        };
        self.evict(number, Keep::Nothing);
        true
    }

    /// Drops the items that are still valid in a slab, and releases the slab.
    fn drop_rest(&mut self, number: u32) {
        for slot in 0..self.slabs[number as usize].tops.len() as u32 {
            if self.slabs[number as usize].valid == 0 {
                break;
            }
            let place = Place { slab: number, slot };
            let top = self.slabs[number as usize].tops[slot as usize];
            let Some(at) = self.index.find_at(top, place) else { continue };
            if self.index.get(at).is_expired(self.time_s) {
                self.statistics.expired += 1;
            } else {
                self.statistics.evicted += 1;
                let class = usize::from(self.slabs[number as usize].class);
                self.classes[class].statistics.evicted += 1;
            }
            self.remove(at);
        }
        self.leave(number);
    }

    /// The entry of the item in a slot, if that item is to be kept.
    fn kept(&self, place: Place, keep: Keep) -> Option<Entry> {
        let top = self.slabs[place.slab as usize].tops[place.slot as usize];
        let entry = *self.index.get(self.index.find_at(top, place)?);
        let wanted = keep == Keep::Valid || entry.hits() > 0;
        (wanted && !entry.is_expired(self.time_s)).then_some(entry)
    }

    /// Reads on in a victim. At its end it is released.
    fn copy_more(&mut self, at: usize) {
        let Eviction { slab, keep, mut next, mut reads } = self.evictions[at];
        let slots = self.slabs[slab as usize].tops.len() as u32;
        let class = &self.classes[usize::from(self.slabs[slab as usize].class)];
        let (slot_bytes, run_max) = (class.slot_bytes, (READ_BYTES / class.slot_bytes).max(1));
        // Slots between two that are kept are read with them if they are no more than a sector.
        let near = (self.shape.sector_bytes / slot_bytes).max(1);
        while reads < READS_MAX && next < slots {
            let wanted = |slot: &u32| self.kept(Place { slab, slot: *slot }, keep).is_some();
            let Some(first) = (next..slots).find(wanted) else {
                next = slots;
                break;
            };
            let limit = (first + run_max).min(slots);
            let mut end = first + 1;
            while let Some(more) = (end..limit.min(end + near)).find(wanted) {
                end = more + 1;
            }
            (next, reads) = (end, reads + 1);
            let bytes = ((end - first) * slot_bytes) as usize;
            self.read_item(Place { slab, slot: first }, bytes, Purpose::Copies(first, end));
        }
        (self.evictions[at].next, self.evictions[at].reads) = (next, reads);
        if reads == 0 {
            self.evictions.swap_remove(at);
            self.drop_rest(slab);
        }
    }

    /// Items of a victim have been read; `None`: they could not be.
    pub(super) fn copies_read(&mut self, slab: u32, slots: Range<u32>, bytes: Option<&[u8]>) {
        let found = self.evictions.iter().position(|eviction| eviction.slab == slab);
        let at = found.expect("a victim's reads end before it does");
        let keep = self.evictions[at].keep;
        let class = usize::from(self.slabs[slab as usize].class);
        let slot_bytes = self.classes[class].slot_bytes as usize;
        for slot in slots.clone() {
            let place = Place { slab, slot };
            let Some(entry) = self.kept(place, keep) else { continue };
            let item = bytes.map(|bytes| &bytes[(slot - slots.start) as usize * slot_bytes..]);
            let good = item.and_then(|item| {
                let head = Head::decode(item).filter(|head| head.cas as u32 == entry.cas)?;
                head.checked_value(item).map(|_| &item[..head.bytes()])
            });
            match good {
                Some(item) => self.write_again(class, entry, item),
                None => self.damaged(entry.hash, place, entry.cas),
            }
        }
        let at = self.evictions.iter().position(|eviction| eviction.slab == slab).expect("as before");
        self.evictions[at].reads -= 1;
        self.copy_more(at);
    }

    /// Writes an item again. Where there is no room for it, it is dropped with its slab.
    fn write_again(&mut self, class: usize, mut entry: Entry, item: &[u8]) {
        let Some(place) = self.slot(class, entry.hash, true) else { return };
        self.encode(place, |slot| slot[..item.len()].copy_from_slice(item));
        self.statistics.copied += 1;
        self.statistics.copied_bytes += item.len() as u64;
        entry.moved(place);
        self.point(entry);
    }
}
