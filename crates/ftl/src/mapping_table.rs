//! The mapping table (L2P): the location of each logical page, and the physical units with a needed copy.
//!
//! Look-ups are random. In a table of many megabytes most of their time is TLB misses, so the table has a mapping of its own and the
//! system is asked for large pages. Without these, small pages work too, but slower.
//!
//! Invariants: an entry is the physical address + 1, or 0 for an unmapped page, so an untouched table costs no memory. A unit is valid if
//! a page's entry names it, or if it stands in for one that is being programmed.

use crate::SetupError;
use crate::sparse::SparseTable;
use memmap2::{Advice, MmapMut};
use pellucid_flash::{CacheState, Lpn, Ppa};
use std::ops::Range;

const ENTRY_BYTES: usize = 4;
/// Small drives are made and copied often, and a large page has to be zeroed as a whole.
const LARGE_BYTES_MIN: usize = 4 << 20;

/// Entries that one bit of [`L2p::touched`] stands for.
const REGION: u32 = 1 << 14;

/// Location of each logical page, and validity of each unit.
#[derive(Clone, Debug)]
pub(crate) struct MappingTable {
    /// All pages; of a cache, translation pages only.
    l2p: L2p,
    /// Pages of a cache, and their number in its address space.
    sparse: Option<(u32, Box<SparseTable>)>,
    /// One bit for each unit of the media.
    valid: Vec<u64>,
}

impl MappingTable {
    /// Creates a table of `pages` unmapped pages, on media of `units` units.
    ///
    /// # Errors
    /// The system has no memory for it.
    pub fn new(pages: u32, units: u32) -> Result<MappingTable, SetupError> {
        let words = (units as usize).div_ceil(64);
        let no_memory =
            |_| SetupError::Memory { needed_bytes: u64::from(pages) * ENTRY_BYTES as u64 + words as u64 * 8 };
        let mut probe: Vec<u64> = Vec::new();
        probe.try_reserve_exact(words).map_err(no_memory)?;
        // Zeros of the system cost no memory before they are written; the compiler must not leave out the attempt.
        drop(std::hint::black_box(probe));
        Ok(MappingTable { l2p: L2p::new(pages)?, sparse: None, valid: vec![0; words] })
    }

    /// Creates the table of a cache of `address_pages`, with `map_pages` translation pages, on media of `units`.
    ///
    /// # Errors
    /// The system has no memory for it.
    pub fn of_cache(
        address_pages: u32,
        map_pages: u32,
        units: u32,
        sparse: SparseTable,
    ) -> Result<MappingTable, SetupError> {
        let table = MappingTable::new(map_pages, units)?;
        Ok(MappingTable { sparse: Some((address_pages, Box::new(sparse))), ..table })
    }

    /// The pages of a cache.
    #[inline]
    pub fn sparse(&self) -> Option<&SparseTable> {
        self.sparse.as_ref().map(|(_, sparse)| &**sparse)
    }

    pub fn sparse_mut(&mut self) -> Option<&mut SparseTable> {
        self.sparse.as_mut().map(|(_, sparse)| &mut **sparse)
    }

    #[cold]
    fn get_cached(pages: u32, sparse: &SparseTable, l2p: &L2p, lpn: Lpn) -> Ppa {
        if lpn.0 < pages { sparse.get(lpn) } else { l2p.get(Lpn(lpn.0 - pages)) }
    }

    #[cold]
    fn replace_cached(&mut self, lpn: Lpn, ppa: Ppa) -> Ppa {
        match &mut self.sparse {
            Some((pages, sparse)) if lpn.0 < *pages => sparse.replace(lpn, ppa),
            Some((pages, _)) => self.l2p.replace(Lpn(lpn.0 - *pages), ppa),
            None => self.l2p.replace(lpn, ppa),
        }
    }

    /// Entries of the pages that have a copy or had one: all pages, or in a cache the pages that have a slot.
    pub fn placed(&self) -> impl Iterator<Item = (Lpn, Ppa)> + '_ {
        let base = self.sparse.as_ref().map_or(0, |(pages, _)| *pages);
        let cached =
            self.sparse().into_iter().flat_map(SparseTable::iter).map(|slot| (slot.lpn(), slot.ppa()));
        cached.chain((0..self.l2p.entries).map(move |at| (Lpn(base + at), self.l2p.get(Lpn(at)))))
    }

    /// The newest copy of `lpn`; [`Ppa::NONE`]: it has none; [`Ppa::LOST`].
    #[inline]
    pub fn get(&self, lpn: Lpn) -> Ppa {
        match &self.sparse {
            None => self.l2p.get(lpn),
            Some((pages, sparse)) => MappingTable::get_cached(*pages, sparse, &self.l2p, lpn),
        }
    }

    /// See [`L2p::untouched_until`]; always `None` for a cache.
    pub fn untouched_until(&self, lpn: Lpn) -> Option<Lpn> {
        if self.sparse.is_some() { None } else { self.l2p.untouched_until(lpn) }
    }

    #[inline]
    pub fn set(&mut self, lpn: Lpn, ppa: Ppa) {
        match self.sparse {
            None => self.l2p.set(lpn, ppa),
            Some(_) => _ = self.replace_cached(lpn, ppa),
        }
    }

    /// Prefetches the entry of `lpn`, if there is one.
    #[inline]
    pub fn prefetch(&self, lpn: Lpn) {
        match &self.sparse {
            None => self.l2p.prefetch(lpn),
            Some((pages, sparse)) if lpn.0 < *pages => sparse.prefetch(lpn),
            Some(_) => {}
        }
    }

    /// Points `lpn` to a new copy, which is valid from now on unless it is a clean one of a cache; returns the old one, and whether the
    /// new one is valid. `moved`: GC has copied the old one.
    #[inline]
    pub fn supersede(&mut self, lpn: Lpn, ppa: Ppa, moved: bool) -> (Ppa, bool) {
        if self.sparse.is_some() {
            return self.supersede_cached(lpn, ppa, moved);
        }
        self.set_valid(ppa);
        (self.l2p.replace(lpn, ppa), true)
    }

    #[cold]
    fn supersede_cached(&mut self, lpn: Lpn, ppa: Ppa, moved: bool) -> (Ppa, bool) {
        let old = self.get(lpn);
        let valid = match &self.sparse {
            Some((pages, sparse)) if lpn.0 < *pages => match moved {
                // Newer data in the buffer may be in another state.
                true => old.is_some() && self.is_valid(old),
                false => sparse.state(lpn) == CacheState::Dirty,
            },
            _ => true,
        };
        if valid {
            self.set_valid(ppa);
        }
        self.replace_cached(lpn, ppa);
        (if old.is_some() { old } else { Ppa::NONE }, valid)
    }

    #[inline]
    pub fn is_valid(&self, ppa: Ppa) -> bool {
        self.valid[ppa.0 as usize / 64] >> (ppa.0 % 64) & 1 == 1
    }

    #[inline]
    pub fn set_valid(&mut self, ppa: Ppa) {
        self.valid[ppa.0 as usize / 64] |= 1 << (ppa.0 % 64);
    }

    #[inline]
    pub fn set_invalid(&mut self, ppa: Ppa) {
        self.valid[ppa.0 as usize / 64] &= !(1 << (ppa.0 % 64));
    }

    /// Prefetches the valid bit of `ppa`; returns whether there is such a unit.
    #[inline]
    pub fn prefetch_valid(&self, ppa: Ppa) -> bool {
        let word = ppa.0 as usize / 64;
        let is_unit = word < self.valid.len();
        if is_unit {
            prefetch_index::prefetch_index(&self.valid, word);
        }
        is_unit
    }

    /// The first valid unit of `units`.
    pub fn next_valid(&self, units: Range<Ppa>) -> Option<Ppa> {
        let (mut at, end) = (units.start.0, units.end.0);
        while at < end {
            let word = self.valid[at as usize / 64] >> (at % 64);
            if word != 0 {
                let found = at + word.trailing_zeros();
                return (found < end).then_some(Ppa(found));
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Bytes of memory when every page has been written.
    pub fn memory_bytes(&self) -> u64 {
        let sparse = self.sparse().map_or(0, SparseTable::memory_bytes);
        self.l2p.memory_bytes() + sparse + self.valid.len() as u64 * 8
    }
}

/// One entry for each logical page.
pub(crate) struct L2p {
    entries: u32,
    bytes: MmapMut,
    /// Memory in large pages was asked for.
    large: bool,
    /// One bit for each [`REGION`] of entries, set when one of them is.
    touched: Vec<u64>,
}

impl L2p {
    /// Creates `entries` unmapped pages.
    ///
    /// # Errors
    /// The system has no memory for them.
    pub fn new(entries: u32) -> Result<L2p, SetupError> {
        L2p::create(entries, true)
    }

    /// Creates `entries` unmapped pages of which few will ever be mapped, here and there.
    ///
    /// # Errors
    /// The system has no memory for them.
    pub fn sparse(entries: u32) -> Result<L2p, SetupError> {
        L2p::create(entries, false)
    }

    /// Creates unmapped pages, in `large` pages of memory where that pays.
    fn create(entries: u32, large: bool) -> Result<L2p, SetupError> {
        let bytes = (entries as usize * ENTRY_BYTES).max(1);
        let no_memory = |_| SetupError::Memory { needed_bytes: bytes as u64 };
        let map = MmapMut::map_anon(bytes).map_err(no_memory)?;
        if large && bytes >= LARGE_BYTES_MIN {
            let _ = map.advise(Advice::HugePage);
        }
        let regions = entries.div_ceil(REGION) as usize;
        Ok(L2p { entries, bytes: map, large, touched: vec![0; regions.div_ceil(64)] })
    }

    /// End of the range of regions, from that of `lpn` on, in which no entry was ever set, so that all their pages are unmapped; `None`:
    /// one was set in the region of `lpn`.
    pub fn untouched_until(&self, lpn: Lpn) -> Option<Lpn> {
        let first = lpn.0 / REGION;
        let (mut at, end) = (first, self.entries.div_ceil(REGION));
        while at < end {
            let word = self.touched[at as usize / 64] >> (at % 64);
            if word != 0 {
                at += word.trailing_zeros();
                break;
            }
            at = (at / 64 + 1) * 64;
        }
        (at > first).then(|| Lpn(at.min(end).saturating_mul(REGION).min(self.entries)))
    }

    /// Pages that are mapped or [lost](Ppa::LOST), with their locations. Cost: the regions that were touched.
    pub fn mapped(&self) -> impl Iterator<Item = (Lpn, Ppa)> + '_ {
        let mut next = 0;
        let all = std::iter::from_fn(move || {
            while next % REGION == 0
                && next < self.entries
                && let Some(end) = self.untouched_until(Lpn(next))
            {
                next = end.0;
            }
            let at = next;
            next += 1;
            (at < self.entries).then(|| (Lpn(at), self.get(Lpn(at))))
        });
        all.filter(|&(_, ppa)| ppa != Ppa::NONE)
    }

    /// Location of `lpn`; [`Ppa::NONE`]: unmapped.
    #[inline]
    pub fn get(&self, lpn: Lpn) -> Ppa {
        let at = lpn.0 as usize * ENTRY_BYTES;
        let entry = self.bytes[at..at + ENTRY_BYTES].try_into().expect("the bytes of one entry");
        Ppa(u32::from_ne_bytes(entry).wrapping_sub(1))
    }

    #[inline]
    pub fn set(&mut self, lpn: Lpn, ppa: Ppa) {
        self.replace(lpn, ppa);
    }

    /// Sets an entry as [`L2p::set`]; returns the former location of `lpn`.
    #[inline]
    pub fn replace(&mut self, lpn: Lpn, ppa: Ppa) -> Ppa {
        let at = lpn.0 as usize * ENTRY_BYTES;
        let entry: &mut [u8; ENTRY_BYTES] =
            (&mut self.bytes[at..at + ENTRY_BYTES]).try_into().expect("the bytes of one entry");
        let old = std::mem::replace(entry, ppa.0.wrapping_add(1).to_ne_bytes());
        let region = lpn.0 / REGION;
        self.touched[region as usize / 64] |= u64::from(ppa.0 != Ppa::NONE.0) << (region % 64);
        Ppa(u32::from_ne_bytes(old).wrapping_sub(1))
    }

    /// Prefetches the entry of `lpn`, if there is one.
    #[inline]
    pub fn prefetch(&self, lpn: Lpn) {
        if lpn.0 < self.entries {
            prefetch_index::prefetch_index(&self.bytes[..], lpn.0 as usize * ENTRY_BYTES);
        }
    }

    /// Bytes of memory when every page has been written.
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.entries) * ENTRY_BYTES as u64 + self.touched.len() as u64 * 8
    }
}

impl Clone for L2p {
    /// # Panics
    /// When the system has no memory for a copy.
    fn clone(&self) -> L2p {
        let mut copy = L2p::create(self.entries, self.large).unwrap_or_else(|refusal| panic!("{refusal}"));
        // Regions that nobody touched stay untouched, so that the copy of a large and sparse table costs what the table costs.
        for region in 0..self.entries.div_ceil(REGION) {
            if self.touched[region as usize / 64] >> (region % 64) & 1 == 1 {
                let from = region as usize * REGION as usize * ENTRY_BYTES;
                let to = (from + REGION as usize * ENTRY_BYTES).min(self.bytes.len());
                copy.bytes[from..to].copy_from_slice(&self.bytes[from..to]);
            }
        }
        copy.touched.clone_from(&self.touched);
        copy
    }
}

impl std::fmt::Debug for L2p {
    /// Formats the entries and not their addresses in memory: drives in the same state give the same text.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries((0..self.entries).map(|lpn| self.get(Lpn(lpn)))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(entries: u32) -> L2p {
        L2p::new(entries).expect("memory")
    }

    /// None, a small one, and one in large pages with entries on either side of their borders.
    #[test]
    fn a_table_keeps_what_is_set_and_a_copy_is_apart() {
        assert_eq!(new(0).clone().entries, 0);
        for entries in [3, 1000, (5 << 20) / ENTRY_BYTES as u32] {
            let mut table = new(entries);
            let lpns = [0, entries / 2, entries - 1].map(Lpn);
            for lpn in lpns {
                assert_eq!(table.get(lpn), Ppa::NONE);
                table.set(lpn, Ppa(lpn.0 ^ 5));
                table.prefetch(Lpn(lpn.0 + 1));
            }
            let copy = table.clone();
            assert_eq!(table.replace(lpns[1], Ppa::NONE), Ppa(lpns[1].0 ^ 5));
            assert_eq!((table.get(lpns[1]), copy.get(lpns[1])), (Ppa::NONE, Ppa(lpns[1].0 ^ 5)));
            let all = lpns.iter().map(|&lpn| (lpn, Ppa(lpn.0 ^ 5)));
            assert!(copy.mapped().eq(all), "{entries} entries");
            assert_eq!(table.mapped().count(), 2);
            assert_eq!(copy.get(lpns[2]), Ppa(lpns[2].0 ^ 5), "{entries} entries");
        }
    }

    /// Regions in which nothing was set are known without a look at their entries, up to the end of the table.
    #[test]
    fn regions_that_nobody_touched_are_known() {
        let entries = 200 * REGION + 7;
        let mut table = new(entries);
        assert_eq!(table.untouched_until(Lpn(3)), Some(Lpn(entries)));
        table.set(Lpn(5), Ppa::NONE);
        assert_eq!(table.untouched_until(Lpn(0)), Some(Lpn(entries)), "nothing is set by that");
        for region in [70, 199] {
            table.set(Lpn(region * REGION + 1), Ppa(0));
        }
        for (at, until) in [(0, Some(70)), (69, Some(70)), (70, None), (71, Some(199)), (199, None)] {
            assert_eq!(table.untouched_until(Lpn(at * REGION)), until.map(|to| Lpn(to * REGION)), "{at}");
        }
        let copy = table.clone();
        assert_eq!(copy.untouched_until(Lpn(entries - 1)), Some(Lpn(entries)));
        assert_eq!(new(u32::MAX).untouched_until(Lpn(9)), Some(Lpn(u32::MAX)));
    }

    #[test]
    #[should_panic]
    fn there_is_no_entry_behind_the_last_one() {
        new(10).get(Lpn(10));
    }
}
