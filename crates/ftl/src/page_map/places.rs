//! The table of the map: where each logical page lies.
//!
//! Pages are looked up at random. In a table of many megabytes most of a look-up is the processor's search for the page of memory
//! that holds the entry, so the table is mapped by itself and the system is asked for large pages. Where it has none, small ones
//! do as well; they are slower.
//!
//! Invariant: an entry is the physical address + 1, and 0 for a page that is nowhere; so an untouched table costs no memory.

use memmap2::{Advice, MmapMut};
use pellucid_flash::{Lpn, Ppa};

const ENTRY_BYTES: usize = 4;
/// Small drives are made and copied often, and a large page has to be zeroed as a whole.
const LARGE_BYTES_MIN: usize = 4 << 20;

/// One entry for each logical page.
pub(super) struct Places {
    entries: u32,
    bytes: MmapMut,
}

impl Places {
    /// `entries` pages that are nowhere.
    ///
    /// # Panics
    /// When the system has no memory.
    pub fn new(entries: u32) -> Places {
        let bytes = (entries as usize * ENTRY_BYTES).max(1);
        let map = MmapMut::map_anon(bytes).unwrap_or_else(|e| panic!("{bytes} bytes of memory: {e}"));
        if bytes >= LARGE_BYTES_MIN {
            let _ = map.advise(Advice::HugePage);
        }
        Places { entries, bytes: map }
    }

    /// How many there are.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Where `lpn` lies; [`Ppa::NONE`]: nowhere.
    #[inline]
    pub fn get(&self, lpn: Lpn) -> Ppa {
        let at = lpn.0 as usize * ENTRY_BYTES;
        let entry = self.bytes[at..at + ENTRY_BYTES].try_into().expect("the bytes of one entry");
        Ppa(u32::from_ne_bytes(entry).wrapping_sub(1))
    }

    #[inline]
    pub fn set(&mut self, lpn: Lpn, ppa: Ppa) {
        let at = lpn.0 as usize * ENTRY_BYTES;
        self.bytes[at..at + ENTRY_BYTES].copy_from_slice(&ppa.0.wrapping_add(1).to_ne_bytes());
    }

    /// As [`Places::set`]; gives where `lpn` lay before.
    #[inline]
    pub fn replace(&mut self, lpn: Lpn, ppa: Ppa) -> Ppa {
        let at = lpn.0 as usize * ENTRY_BYTES;
        let entry = &mut self.bytes[at..at + ENTRY_BYTES];
        let old = u32::from_ne_bytes((&*entry).try_into().expect("the bytes of one entry"));
        entry.copy_from_slice(&ppa.0.wrapping_add(1).to_ne_bytes());
        Ppa(old.wrapping_sub(1))
    }

    /// Asks the processor to bring the entry of `lpn` near, if there is one.
    #[inline]
    pub fn touch(&self, lpn: Lpn) {
        if lpn.0 < self.entries {
            prefetch_index::prefetch_index(&self.bytes[..], lpn.0 as usize * ENTRY_BYTES);
        }
    }

    /// Bytes of memory when every page has been written.
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.entries) * ENTRY_BYTES as u64
    }
}

impl Clone for Places {
    fn clone(&self) -> Places {
        let mut copy = Places::new(self.entries);
        copy.bytes.copy_from_slice(&self.bytes);
        copy
    }
}

impl std::fmt::Debug for Places {
    /// What it says, not where it lies: two drives in the same state are written in the same way.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries((0..self.entries).map(|lpn| self.get(Lpn(lpn)))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// None, a small one, and one in large pages with entries on either side of their borders.
    #[test]
    fn a_table_keeps_what_is_set_and_a_copy_is_apart() {
        assert_eq!(Places::new(0).clone().entries(), 0);
        for entries in [3, 1000, (5 << 20) / ENTRY_BYTES as u32] {
            let mut places = Places::new(entries);
            let lpns = [0, entries / 2, entries - 1].map(Lpn);
            for lpn in lpns {
                assert_eq!(places.get(lpn), Ppa::NONE);
                places.set(lpn, Ppa(lpn.0 ^ 5));
                places.touch(Lpn(lpn.0 + 1));
            }
            let copy = places.clone();
            assert_eq!(places.replace(lpns[1], Ppa::NONE), Ppa(lpns[1].0 ^ 5));
            assert_eq!((places.get(lpns[1]), copy.get(lpns[1])), (Ppa::NONE, Ppa(lpns[1].0 ^ 5)));
            assert_eq!(copy.get(lpns[2]), Ppa(lpns[2].0 ^ 5), "{entries} entries");
        }
    }

    #[test]
    #[should_panic]
    fn there_is_no_entry_behind_the_last_one() {
        Places::new(10).get(Lpn(10));
    }
}
