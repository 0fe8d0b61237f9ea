//! The table of a cache: the cached pages of a large, sparse address space, and their locations.
//!
//! One hash table with linear probing, cut into regions. A page always belongs to the same region, and probing stays in it, so one
//! translation page holds one region.
//!
//! ```text
//!  page ─► mix (rotations) ─┬─ modulo regions ─► region
//!                           └─ modulo slots ───► first slot; then the next ones, round the region
//! ```
//! Invariants: between a page's first slot and its own no slot is vacant; a slot that has neither a place on the media nor a pin is
//! vacant; a clean copy is never a valid unit, a dirty one always is (the map's valid bits).
//!
//! A *pin* is an admitted write whose data are not on their way to the media yet: the page keeps its slot.
//!
//! A *marked* page is one that a mount may find dirty, whatever has happened to it since: [`Marks`].

use pellucid_flash::{CacheState, Divisor, Layout, Lpn, Ppa};
use std::collections::BTreeMap;

mod marks;
mod slot;

use marks::Marks;
use slot::NO_SLOT;
pub(crate) use slot::Slot;

/// Most slots in use, out of 16: linear probing stays short.
const LOAD_OF_16: u64 = 13;

/// Location of each cached page.
#[derive(Clone, Debug)]
pub(crate) struct SparseTable {
    slots: Vec<Slot>,
    regions: u32,
    slots_per_region: u32,
    used: u32,
    /// Pages by state; the first number is not used.
    states: [u32; 3],
    units_per_block: Divisor,
    /// Cached copies in each block of the media.
    present: Vec<u32>,
    /// Dirty pages in each equal part of the address space.
    dirty_parts: Vec<u32>,
    pages_per_part: u32,
    /// Pins beyond those that the slots can count.
    more_pins: BTreeMap<Lpn, u32>,
    /// Pages that a mount may find dirty; `None`: no record is kept.
    marks: Option<Marks>,
}

impl SparseTable {
    /// Number of regions for `pages` cached pages, with `slots_per_region` slots each.
    pub fn regions_for(pages: u64, slots_per_region: u32) -> u32 {
        let slots = pages * 16 / LOAD_OF_16;
        // Odd, so that strides of the address space reach all of them.
        (slots.div_ceil(slots_per_region.into()) as u32).max(1) | 1
    }

    /// Creates a table for up to `pages` of an address space of `address_pages`. `keeps`: a mount finds them.
    pub fn new(
        address_pages: u32,
        pages: u64,
        slots_per_region: u32,
        layout: &Layout,
        keeps: bool,
    ) -> SparseTable {
        let regions = SparseTable::regions_for(pages, slots_per_region);
        let parts = (pages / 16).clamp(1, 1 << 20) as u32;
        let pages_per_part = address_pages.div_ceil(parts).max(1);
        SparseTable {
            slots: vec![NO_SLOT; regions as usize * slots_per_region as usize],
            regions,
            slots_per_region,
            used: 0,
            states: [0; 3],
            units_per_block: Divisor::new(layout.units_per_block),
            present: vec![0; layout.blocks as usize],
            dirty_parts: vec![0; address_pages.div_ceil(pages_per_part) as usize],
            pages_per_part,
            more_pins: BTreeMap::new(),
            marks: keeps.then(|| Marks::new(regions, slots_per_region)),
        }
    }

    /// Number of regions.
    pub fn regions(&self) -> u32 {
        self.regions
    }

    fn mix(lpn: Lpn) -> u32 {
        lpn.0 ^ lpn.0.rotate_left(13) ^ lpn.0.rotate_left(22)
    }

    /// The region that `lpn` belongs to.
    #[inline]
    pub fn region(&self, lpn: Lpn) -> u32 {
        SparseTable::mix(lpn) % self.regions
    }

    fn home(&self, lpn: Lpn) -> u32 {
        SparseTable::mix(lpn).rotate_left(9) % self.slots_per_region
    }

    /// The slots of a region that are in use.
    pub fn of_region(&self, region: u32) -> impl Iterator<Item = Slot> + '_ {
        let first = region as usize * self.slots_per_region as usize;
        let slots = self.slots[first..first + self.slots_per_region as usize].iter();
        slots.copied().filter(|slot| !slot.is_vacant())
    }

    /// All slots that are in use.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.iter().copied().filter(|slot| !slot.is_vacant())
    }

    /// Returns the slot of `lpn`, or the vacant slot that ends its probe; `None`: it has no slot, and its
    /// region is full.
    #[inline]
    fn probe(&self, lpn: Lpn) -> Option<usize> {
        let first = self.region(lpn) as usize * self.slots_per_region as usize;
        let mut at = self.home(lpn);
        for _ in 0..self.slots_per_region {
            let slot = self.slots[first + at as usize];
            if slot.lpn() == lpn || slot.is_vacant() {
                return Some(first + at as usize);
            }
            at = if at + 1 == self.slots_per_region { 0 } else { at + 1 };
        }
        None
    }

    #[inline]
    fn find(&self, lpn: Lpn) -> Option<usize> {
        self.probe(lpn).filter(|&at| self.slots[at].lpn() == lpn)
    }

    /// The newest copy of `lpn`.
    #[inline]
    pub fn get(&self, lpn: Lpn) -> Ppa {
        self.find(lpn).map_or(Ppa::NONE, |at| self.slots[at].ppa())
    }

    /// State of the newest data of `lpn`, which may be in the buffer.
    pub fn state(&self, lpn: Lpn) -> CacheState {
        self.find(lpn).map_or(CacheState::Absent, |at| self.slots[at].state())
    }

    /// Prefetches the slot of `lpn`.
    #[inline]
    pub fn prefetch(&self, lpn: Lpn) {
        let at = self.region(lpn) as usize * self.slots_per_region as usize + self.home(lpn) as usize;
        prefetch_index::prefetch_index(&self.slots, at);
    }

    /// Returns whether `lpn` has a slot or can get one.
    pub fn has_slot_for(&self, lpn: Lpn) -> bool {
        self.probe(lpn).is_some()
    }

    /// Pins `lpn`, giving it a slot if it has none; `false`: its region is full.
    pub fn pin(&mut self, lpn: Lpn) -> bool {
        let Some(at) = self.probe(lpn) else { return false };
        if self.slots[at].is_vacant() {
            self.used += 1;
            self.slots[at] = Slot::of(lpn);
        }
        if !self.slots[at].pin() {
            *self.more_pins.entry(lpn).or_default() += 1;
        }
        true
    }

    /// Returns whether a write of `lpn` is in flight.
    pub fn is_pinned(&self, lpn: Lpn) -> bool {
        self.find(lpn).is_some_and(|at| self.slots[at].is_pinned())
    }

    /// Removes a pin of `lpn`.
    pub fn unpin(&mut self, lpn: Lpn) {
        if let Some(more) = self.more_pins.get_mut(&lpn) {
            *more -= 1;
            if *more == 0 {
                self.more_pins.remove(&lpn);
            }
            return;
        }
        let at = self.find(lpn).expect("what is pinned has a slot");
        self.slots[at].unpin();
        self.vacate_unused(at);
    }

    /// Sets the state of the newest data of `lpn`, which has a slot.
    pub fn set_state(&mut self, lpn: Lpn, state: CacheState) {
        let at = self.find(lpn).expect("a page without a slot has no state");
        self.change_state(at, state);
    }

    fn change_state(&mut self, at: usize, state: CacheState) {
        let before = self.slots[at].set_state(state);
        self.states[before as usize] = self.states[before as usize].wrapping_sub(1);
        self.states[state as usize] = self.states[state as usize].wrapping_add(1);
        let part = (self.slots[at].lpn().0 / self.pages_per_part) as usize;
        let (was, is) = (before == CacheState::Dirty, state == CacheState::Dirty);
        self.dirty_parts[part] = self.dirty_parts[part] + u32::from(is) - u32::from(was);
    }

    /// Points `lpn` to a copy, or to none; returns the former one. At a mount only, a page without a slot gets one if its region has
    /// space.
    pub fn replace(&mut self, lpn: Lpn, ppa: Ppa) -> Ppa {
        let at = match self.probe(lpn) {
            Some(at) if !self.slots[at].is_vacant() => at,
            Some(at) if ppa != Ppa::NONE => {
                self.used += 1;
                self.slots[at] = Slot::of(lpn);
                at
            }
            _ => return Ppa::NONE,
        };
        let old = self.slots[at].replace(ppa);
        self.count(old, u32::wrapping_sub);
        self.count(ppa, u32::wrapping_add);
        self.vacate_unused(at);
        old
    }

    fn count(&mut self, ppa: Ppa, change: fn(u32, u32) -> u32) {
        if ppa.is_some() {
            let present = &mut self.present[self.units_per_block.quotient(ppa.0) as usize];
            *present = change(*present, 1);
        }
    }

    /// Vacates a slot that is no longer needed, and moves up those behind it, so that no probe is cut short.
    fn vacate_unused(&mut self, at: usize) {
        if self.slots[at].is_needed() {
            return;
        }
        self.change_state(at, CacheState::Absent);
        self.used -= 1;
        let count = self.slots_per_region;
        if self.slots[at].is_marked()
            && let Some(marks) = &mut self.marks
        {
            marks.departed(at as u32 / count);
        }
        let first = at - at % count as usize;
        let (mut hole, mut slot) = ((at - first) as u32, (at - first) as u32);
        self.slots[at] = NO_SLOT;
        for _ in 1..count {
            slot = if slot + 1 == count { 0 } else { slot + 1 };
            let moved = self.slots[first + slot as usize];
            if moved.is_vacant() {
                break;
            }
            let distance = |from: u32| (slot + count - from) % count;
            if distance(self.home(moved.lpn())) >= distance(hole) {
                self.slots[first + hole as usize] = moved;
                self.slots[first + slot as usize] = NO_SLOT;
                hole = slot;
            }
        }
    }

    /// A clean page of the region of `lpn` that can be evicted: the first from that page's first slot on.
    pub fn evictable(&self, lpn: Lpn) -> Option<Lpn> {
        let first = self.region(lpn) as usize * self.slots_per_region as usize;
        let home = self.home(lpn);
        (home..self.slots_per_region).chain(0..home).find_map(|at| {
            let slot = self.slots[first + at as usize];
            let evictable = !slot.is_vacant() && !slot.is_pinned() && slot.state() == CacheState::Clean;
            evictable.then_some(slot.lpn())
        })
    }

    /// Returns whether a mount may find `lpn` dirty.
    pub fn is_marked(&self, lpn: Lpn) -> bool {
        self.find(lpn).is_some_and(|at| self.slots[at].is_marked())
    }

    /// Returns whether `lpn` may become dirty: a mount would find a slot for each page of its region that it finds dirty.
    pub fn takes_mark(&self, lpn: Lpn) -> bool {
        self.is_marked(lpn) || self.marks.as_ref().is_none_or(|marks| marks.has_space(self.region(lpn)))
    }

    /// Marks `lpn`, which has a slot: a mount may find it dirty from now on.
    pub fn mark(&mut self, lpn: Lpn) {
        let at = self.find(lpn).expect("a page without a slot does not become dirty");
        if !self.slots[at].mark()
            && let Some(marks) = &mut self.marks
        {
            marks.marked(at as u32 / self.slots_per_region);
        }
    }

    /// Pages that a mount may find dirty.
    pub fn marks(&self) -> Option<&Marks> {
        self.marks.as_ref()
    }

    pub fn marks_mut(&mut self) -> Option<&mut Marks> {
        self.marks.as_mut()
    }

    /// The first dirty page at or behind `from`.
    pub fn next_dirty(&self, from: Lpn) -> Option<Lpn> {
        // The search is bounded by the size of the cache: a part of a large address space may have millions of pages.
        if self.slots.len() <= self.pages_per_part as usize {
            let dirty = self.iter().filter(|slot| slot.state() == CacheState::Dirty);
            return dirty.map(|slot| slot.lpn()).filter(|&lpn| lpn >= from).min();
        }
        let mut part = from.0 / self.pages_per_part;
        let mut first = from.0;
        while let Some(&dirty) = self.dirty_parts.get(part as usize) {
            let end = (part + 1).saturating_mul(self.pages_per_part);
            if dirty > 0
                && let Some(found) = (first..end).find(|&lpn| self.state(Lpn(lpn)) == CacheState::Dirty)
            {
                return Some(Lpn(found));
            }
            (part, first) = (part + 1, end);
        }
        None
    }

    /// Cached copies in each block of the media.
    pub fn present(&self) -> &[u32] {
        &self.present
    }

    /// Pages that are dirty.
    pub fn dirty(&self) -> u32 {
        self.states[CacheState::Dirty as usize]
    }

    /// Pages that are clean.
    pub fn clean(&self) -> u32 {
        self.states[CacheState::Clean as usize]
    }

    pub fn memory_bytes(&self) -> u64 {
        let counts = self.present.len() + self.dirty_parts.len();
        let marks = self.marks.as_ref().map_or(0, Marks::memory_bytes);
        (self.slots.len() * size_of::<Slot>() + counts * 4) as u64 + marks
    }

    /// Panics where an invariant is broken.
    pub fn check(&self) {
        let (mut used, mut states) = (0, [0u32; 3]);
        let mut present = vec![0u32; self.present.len()];
        let mut parts = vec![0u32; self.dirty_parts.len()];
        let mut marked = vec![0u32; self.regions as usize];
        for slot in self.iter() {
            let at = self.find(slot.lpn()).map(|at| self.slots[at].lpn());
            assert_eq!(at, Some(slot.lpn()), "a page is not found in its region");
            assert!(slot.is_needed(), "a slot that is not needed: {slot:?}");
            used += 1;
            states[slot.state() as usize] += 1;
            if slot.ppa().is_some() {
                present[self.units_per_block.quotient(slot.ppa().0) as usize] += 1;
            }
            if slot.state() == CacheState::Dirty {
                parts[(slot.lpn().0 / self.pages_per_part) as usize] += 1;
                assert!(
                    slot.is_marked() || self.marks.is_none(),
                    "dirty, and a mount would not know: {slot:?}"
                );
            }
            marked[self.region(slot.lpn()) as usize] += u32::from(slot.is_marked());
        }
        assert_eq!(
            (used, &states[1..]),
            (self.used, &self.states[1..]),
            "slots in use, clean and dirty pages"
        );
        assert_eq!(present, self.present, "cached copies by block");
        assert_eq!(parts, self.dirty_parts, "dirty pages by part of the address space");
        if let Some(marks) = &self.marks {
            marks.check(&marked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::{Geometry, Rng};
    use std::collections::BTreeMap;

    fn table(address_pages: u32, pages: u64, slots: u32) -> SparseTable {
        SparseTable::new(address_pages, pages, slots, &layout(), false)
    }

    fn layout() -> Layout {
        let geometry = Geometry {
            channels: 1,
            ways: 1,
            dies: 1,
            planes: 1,
            blocks: 64,
            pages: 64,
            page_bytes: 4096,
            spare_bytes: 64,
            sector_bytes: 512,
            unit_bytes: 512,
            multi_plane: false,
            one_shot_pages: 1,
        };
        geometry.layout().unwrap()
    }

    /// Random pins, placements, states and removals beside a plain map; crowded regions, so that probes wrap and holes close.
    #[test]
    fn a_table_is_a_map() {
        let mut rng = Rng::new(7);
        for slots in [5, 16, 62] {
            let mut table = table(4000, 120, slots);
            let mut model: BTreeMap<u32, (Ppa, CacheState, u16)> = BTreeMap::new();
            for step in 0..20_000u32 {
                let lpn = Lpn(rng.below(400) as u32 * 10);
                let known = model.get(&lpn.0).copied();
                match (rng.below(5), known) {
                    (0 | 1, _) => {
                        if table.pin(lpn) {
                            model.entry(lpn.0).or_insert((Ppa::NONE, CacheState::Absent, 0)).2 += 1;
                        } else {
                            assert!(known.is_none());
                            let region = table.region(lpn);
                            assert_eq!(
                                table.of_region(region).count() as u32,
                                slots,
                                "refused when full only"
                            );
                        }
                    }
                    (2, Some((ppa, state, pins))) if pins > 0 => {
                        table.unpin(lpn);
                        model.insert(lpn.0, (ppa, state, pins - 1));
                    }
                    (3, Some((_, _, pins))) => {
                        let state = if rng.chance(0.5) { CacheState::Clean } else { CacheState::Dirty };
                        let ppa = if rng.chance(0.5) { Ppa(step % 4096) } else { Ppa::NONE };
                        table.set_state(lpn, state);
                        if table.state(lpn) != CacheState::Absent {
                            table.replace(lpn, ppa);
                            model.insert(lpn.0, (ppa, state, pins));
                        }
                    }
                    (_, Some((_, _, pins))) => {
                        table.replace(lpn, Ppa::NONE);
                        model.insert(lpn.0, (Ppa::NONE, known.unwrap().1, pins));
                    }
                    _ => {}
                }
                if model.get(&lpn.0).is_some_and(|&(ppa, _, pins)| ppa == Ppa::NONE && pins == 0) {
                    model.remove(&lpn.0);
                }
                let (ppa, state, _) =
                    model.get(&lpn.0).copied().unwrap_or((Ppa::NONE, CacheState::Absent, 0));
                assert_eq!((table.get(lpn), table.state(lpn)), (ppa, state), "step {step}");
                if step % 64 == 0 {
                    table.check();
                    let next = |from: u32| {
                        model.range(from..).find(|(_, m)| m.1 == CacheState::Dirty).map(|(&lpn, _)| Lpn(lpn))
                    };
                    assert_eq!(table.next_dirty(lpn), next(lpn.0));
                }
            }
        }
    }

    /// The search for the next dirty page scans the cache, or one part of the address space, whichever is less: otherwise a small cache
    /// of 8 TiB would be searched page by page.
    #[test]
    fn the_next_dirty_page_of_a_small_cache_is_found_at_once() {
        for (address_pages, pages) in [(2_000_000_000, 400), (4_000, 3_000)] {
            let mut table = table(address_pages, pages, 62);
            let place = |n: u32| Lpn(n * (address_pages / 300) + n % 7);
            for n in 0..300 {
                let lpn = place(n);
                assert!(table.pin(lpn));
                table.set_state(lpn, if n % 3 == 0 { CacheState::Dirty } else { CacheState::Clean });
            }
            for n in 0..297 {
                assert_eq!(
                    table.next_dirty(Lpn(place(n).0 + 1)),
                    Some(place(n / 3 * 3 + 3)),
                    "behind page {n}"
                );
            }
            assert_eq!(table.next_dirty(Lpn(place(297).0 + 1)), None);
            table.check();
        }
    }

    /// Runs, strides and random pages fill all regions about equally, at the load that the table is made for.
    #[test]
    fn regions_fill_equally() {
        let mut rng = Rng::new(1);
        let pages = 100_000u64;
        for stride in [1u32, 2, 8, 64, 256, 1024, 4096, 0] {
            let table = table(1 << 30, pages, 510);
            let mut counts = vec![0u32; table.regions as usize];
            for i in 0..pages as u32 {
                let lpn = if stride == 0 {
                    rng.below(1 << 30) as u32
                } else {
                    i.wrapping_mul(stride) & 0x3fff_ffff
                };
                counts[table.region(Lpn(lpn)) as usize] += 1;
            }
            let most = counts.iter().max().copied().unwrap_or(0);
            assert!(most <= 510, "stride {stride}: {most} pages in one region of 510 slots");
        }
    }
}
