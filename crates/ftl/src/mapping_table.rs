//! The mapping table (L2P): the location of each logical page.
//!
//! Lookups are random. In a table of many megabytes, TLB misses take most of their time, so the table has its own memory mapping,
//! for which it requests huge pages. Small pages also work, but are slower.
//!
//! Invariant: an entry is the physical address + 1, or 0 for an unmapped page, so an untouched table costs no memory.

use crate::SetupError;
use memmap2::{Advice, MmapMut};
use pellucid_flash::{Lpn, Ppa};

const ENTRY_BYTES: usize = 4;
/// Small drives are made and copied often, and a large page has to be zeroed as a whole.
const LARGE_BYTES_MIN: usize = 4 << 20;

/// Entries that one bit of [`MappingTable::touched`] stands for.
const REGION: u32 = 1 << 14;

/// Location of each logical page.
pub struct MappingTable {
    entries: u32,
    bytes: MmapMut,
    /// Memory in large pages was asked for.
    large: bool,
    /// One bit for each [`REGION`] of entries, set when one of them is.
    touched: Vec<u64>,
}

impl MappingTable {
    /// Creates `entries` unmapped pages.
    ///
    /// # Errors
    /// The system has no memory for them.
    pub fn new(entries: u32) -> Result<MappingTable, SetupError> {
        MappingTable::create(entries, true)
    }

    /// Creates `entries` unmapped pages of which few will ever be mapped, here and there.
    ///
    /// # Errors
    /// The system has no memory for them.
    pub fn sparse(entries: u32) -> Result<MappingTable, SetupError> {
        MappingTable::create(entries, false)
    }

    /// Creates unmapped pages, in `large` pages of memory where that pays.
    fn create(entries: u32, large: bool) -> Result<MappingTable, SetupError> {
        let bytes = (entries as usize * ENTRY_BYTES).max(1);
        let no_memory = |_| SetupError::Memory { needed_bytes: bytes as u64 };
        let map = MmapMut::map_anon(bytes).map_err(no_memory)?;
        if large && bytes >= LARGE_BYTES_MIN {
            let _ = map.advise(Advice::HugePage);
        }
        let regions = entries.div_ceil(REGION) as usize;
        Ok(MappingTable { entries, bytes: map, large, touched: vec![0; regions.div_ceil(64)] })
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

    /// All pages, mapped or not, with their locations.
    pub fn all(&self) -> impl Iterator<Item = (Lpn, Ppa)> + '_ {
        (0..self.entries).map(Lpn).map(|lpn| (lpn, self.get(lpn)))
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

    /// Sets an entry as [`MappingTable::set`]; returns the former location of `lpn`.
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

impl Clone for MappingTable {
    /// # Panics
    /// When the system has no memory for a copy.
    fn clone(&self) -> MappingTable {
        let mut copy =
            MappingTable::create(self.entries, self.large).unwrap_or_else(|refusal| panic!("{refusal}"));
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

impl std::fmt::Debug for MappingTable {
    /// Formats the entries and not their addresses in memory: drives in the same state give the same text.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries((0..self.entries).map(|lpn| self.get(Lpn(lpn)))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(entries: u32) -> MappingTable {
        MappingTable::new(entries).expect("memory")
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
