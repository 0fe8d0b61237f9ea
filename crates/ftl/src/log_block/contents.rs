//! Contents of a cache with log blocks: the state of each page, and the writes that were admitted.
//!
//! ```text
//!  absent ── pin ──► admitted ── set ──► clean or dirty, pinned ── unpin ──► clean or dirty ── set ──► absent
//! ```
//! A *pin* is an admitted write whose data are not on the media yet. A logical block is *needed* while a page of it is dirty or pinned: such
//! a page has to stay, so sooner or later the logical block needs a data block. The others can be evicted, block by block.
//!
//! Invariants: a logical block is listed if and only if one of its pages is cached or pinned; the counts of needed logical blocks in each
//! die, and of clean and dirty pages, agree with the list.

use pellucid_flash::{CacheState, DieId, Divisor, Layout, Lpn};
use std::collections::{BTreeMap, BTreeSet};

/// Pages of a logical block: one bit for each that is cached, and for each that is dirty.
#[derive(Clone, Debug)]
struct Group {
    cached: Vec<u64>,
    dirty: Vec<u64>,
    cached_pages: u32,
    dirty_pages: u32,
    pins: u32,
}

impl Group {
    fn new(units_per_block: u32) -> Group {
        let words = units_per_block.div_ceil(64) as usize;
        Group { cached: vec![0; words], dirty: vec![0; words], cached_pages: 0, dirty_pages: 0, pins: 0 }
    }

    fn state(&self, at: u32) -> CacheState {
        match (is_set(&self.dirty, at), is_set(&self.cached, at)) {
            (true, _) => CacheState::Dirty,
            (false, true) => CacheState::Clean,
            (false, false) => CacheState::Absent,
        }
    }

    fn set(&mut self, at: u32, state: CacheState) {
        let change = |bits: &mut [u64], pages: &mut u32, on: bool| {
            let was = is_set(bits, at);
            bits[at as usize / 64] = bits[at as usize / 64] & !(1 << (at % 64)) | u64::from(on) << (at % 64);
            *pages = *pages + u32::from(on) - u32::from(was);
        };
        change(&mut self.cached, &mut self.cached_pages, state != CacheState::Absent);
        change(&mut self.dirty, &mut self.dirty_pages, state == CacheState::Dirty);
    }

    /// Numbers of the dirty pages, in order.
    fn dirty_from(&self, first: u32) -> Option<u32> {
        (first..self.dirty.len() as u32 * 64).find(|&at| is_set(&self.dirty, at))
    }

    fn is_needed(&self) -> bool {
        self.dirty_pages > 0 || self.pins > 0
    }

    fn is_empty(&self) -> bool {
        self.cached_pages == 0 && self.pins == 0
    }
}

fn is_set(bits: &[u64], at: u32) -> bool {
    bits[at as usize / 64] >> (at % 64) & 1 == 1
}

/// Pages that a cache holds.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    units_per_block: Divisor,
    dies: u32,
    groups: BTreeMap<u32, Group>,
    /// Logical blocks with dirty pages.
    dirty: BTreeSet<u32>,
    /// Writes of each page that were admitted and are not on the media.
    pins: BTreeMap<Lpn, u32>,
    /// Logical blocks of each die that are needed.
    needed: Vec<u32>,
    cached_pages: u32,
    dirty_pages: u32,
}

impl Contents {
    /// Creates an empty cache on media of this shape.
    pub fn new(layout: &Layout) -> Contents {
        Contents {
            units_per_block: layout.split.units_per_block,
            dies: layout.dies,
            groups: BTreeMap::new(),
            dirty: BTreeSet::new(),
            pins: BTreeMap::new(),
            needed: vec![0; layout.dies as usize],
            cached_pages: 0,
            dirty_pages: 0,
        }
    }

    /// State of the newest data of `lpn`, which may be in the buffer.
    pub fn state(&self, lpn: Lpn) -> CacheState {
        let (lbn, at) = self.units_per_block.div_rem(lpn.0);
        self.groups.get(&lbn).map_or(CacheState::Absent, |group| group.state(at))
    }

    /// Returns whether a write of `lpn` was admitted and is not on the media.
    pub fn is_pinned(&self, lpn: Lpn) -> bool {
        self.pins.contains_key(&lpn)
    }

    /// Returns whether a page of logical block `lbn` has to stay.
    pub fn is_needed(&self, lbn: u32) -> bool {
        self.groups.get(&lbn).is_some_and(Group::is_needed)
    }

    /// Logical blocks of `die` of which a page has to stay.
    pub fn needed(&self, die: DieId) -> u32 {
        self.needed[die.0 as usize]
    }

    /// Pages that are clean.
    pub fn clean(&self) -> u32 {
        self.cached_pages - self.dirty_pages
    }

    /// Pages that are dirty.
    pub fn dirty(&self) -> u32 {
        self.dirty_pages
    }

    /// The first dirty page at or behind `from`.
    pub fn next_dirty(&self, from: Lpn) -> Option<Lpn> {
        let (first, at) = self.units_per_block.div_rem(from.0);
        self.dirty.range(first..).find_map(|&lbn| {
            let from = if lbn == first { at } else { 0 };
            let at = self.groups.get(&lbn)?.dirty_from(from)?;
            Some(Lpn(lbn * self.units_per_block.get() + at))
        })
    }

    /// Sets the state of the newest data of `lpn`.
    pub fn set(&mut self, lpn: Lpn, state: CacheState) {
        self.change(lpn, |group, at| group.set(at, state));
    }

    /// Adds a pin of `lpn`.
    pub fn pin(&mut self, lpn: Lpn) {
        *self.pins.entry(lpn).or_default() += 1;
        self.change(lpn, |group, _| group.pins += 1);
    }

    /// Removes a pin of `lpn`.
    ///
    /// # Panics
    /// When there is none.
    pub fn unpin(&mut self, lpn: Lpn) {
        let pins = self.pins.get_mut(&lpn).expect("a page that is pinned");
        *pins -= 1;
        if *pins == 0 {
            self.pins.remove(&lpn);
        }
        self.change(lpn, |group, _| group.pins -= 1);
    }

    /// Changes the group of `lpn`, and all that is counted of it.
    fn change(&mut self, lpn: Lpn, change: impl FnOnce(&mut Group, u32)) {
        let (lbn, at) = self.units_per_block.div_rem(lpn.0);
        let group = self.groups.entry(lbn).or_insert_with(|| Group::new(self.units_per_block.get()));
        let (cached, dirty, was) = (group.cached_pages, group.dirty_pages, group.is_needed());
        change(group, at);
        self.cached_pages = self.cached_pages + group.cached_pages - cached;
        self.dirty_pages = self.dirty_pages + group.dirty_pages - dirty;
        let needed = &mut self.needed[(lbn % self.dies) as usize];
        *needed = *needed + u32::from(group.is_needed()) - u32::from(was);
        match (dirty > 0, group.dirty_pages > 0) {
            (false, true) => _ = self.dirty.insert(lbn),
            (true, false) => _ = self.dirty.remove(&lbn),
            _ => {}
        }
        if group.is_empty() {
            self.groups.remove(&lbn);
        }
    }

    /// Panics where counts and lists disagree, or a page is cached that is neither on the media nor pinned. `is_placed`: the page has an
    /// entry in the table.
    pub fn check(&self, is_placed: impl Fn(Lpn) -> bool) {
        let per_block = self.units_per_block.get();
        let (mut cached, mut dirty) = (0, 0);
        let mut needed = vec![0; self.needed.len()];
        let mut pins: BTreeMap<u32, u32> = BTreeMap::new();
        for (lpn, count) in &self.pins {
            *pins.entry(lpn.0 / per_block).or_default() += count;
        }
        for (&lbn, group) in &self.groups {
            let pages = (0..per_block).map(|at| (Lpn(lbn * per_block + at), group.state(at)));
            let pages: Vec<(Lpn, CacheState)> = pages.filter(|(_, s)| *s != CacheState::Absent).collect();
            let dirties = pages.iter().filter(|(_, state)| *state == CacheState::Dirty).count() as u32;
            assert_eq!((pages.len() as u32, dirties), (group.cached_pages, group.dirty_pages));
            assert_eq!(pins.remove(&lbn).unwrap_or(0), group.pins, "pins of logical block {lbn}");
            assert!(!group.is_empty(), "logical block {lbn} holds nothing");
            assert_eq!(self.dirty.contains(&lbn), dirties > 0, "dirty pages of logical block {lbn}");
            for (lpn, state) in &pages {
                assert!(is_placed(*lpn) || self.is_pinned(*lpn), "page {} is {state:?} and nowhere", lpn.0);
            }
            (cached, dirty) = (cached + group.cached_pages, dirty + dirties);
            needed[(lbn % self.dies) as usize] += u32::from(group.is_needed());
        }
        assert!(pins.is_empty(), "pins of pages that are not listed: {pins:?}");
        assert_eq!((cached, dirty), (self.cached_pages, self.dirty_pages), "cached and dirty pages");
        assert_eq!(needed, self.needed, "needed logical blocks by die");
    }
}
