//! The index: the place of each item, by the hash of its key.
//!
//! ```text
//!   hash   [ segment | home in the segment | ...                       ]      the upper 32 bits alone say segment and home
//!   segment   entries in the order of their hashes, each at its home or behind it, with no gap between home and entry
//! ```
//! Open addressing in hash order: a search ends at the first larger hash, so it is short for absent keys too, at a load of 7/8. A full segment grows
//! by a sixteenth, and one with more than a quarter free shrinks, so that evicted items use no memory. An entry has 24 bytes.
//!
//! Two keys with the same hash share one entry: the later one replaces the earlier.

use pellucid_flash::slab::NIL;

/// Location of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub slab: u32,
    pub slot: u32,
}

/// Entry of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub hash: u64,
    /// From bit 0: slab + 1 (24 bits; 0: no entry), slot (16), hits (2), stale, won, fetched, second of the last access (19).
    word: u64,
    /// Lower half of the version.
    pub cas: u32,
    expires_s: u32,
}

const HITS: u32 = 40;
const STALE: u64 = 1 << 42;
const WON: u64 = 1 << 43;
const FETCHED: u64 = 1 << 44;
const ACCESS: u32 = 45;
const ACCESS_MASK: u32 = (1 << 19) - 1;

impl Entry {
    /// Maximum number of slabs that an entry can name.
    pub const SLABS_MAX: u32 = (1 << 24) - 2;
    /// Maximum number of slots per slab that an entry can name.
    pub const SLOTS_MAX: u32 = 1 << 16;

    pub fn new(hash: u64, place: Place, cas: u64, expires_s: u32, time_s: u32) -> Entry {
        let word = u64::from(place.slab + 1) | u64::from(place.slot) << 24;
        Entry { hash, word: word | u64::from(time_s & ACCESS_MASK) << ACCESS, cas: cas as u32, expires_s }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.word == 0
    }

    #[inline]
    pub fn place(&self) -> Place {
        Place { slab: (self.word as u32 & 0xff_ffff) - 1, slot: (self.word >> 24) as u32 & 0xffff }
    }

    /// Encodes the entry as three words, for a snapshot.
    pub fn words(&self) -> [u64; 3] {
        [self.hash, self.word, u64::from(self.cas) | u64::from(self.expires_s) << 32]
    }

    /// Decodes an entry; `renumber` maps its slab to the current number. `None`: not an entry.
    pub fn from_words([hash, word, rest]: [u64; 3], renumber: impl Fn(u32) -> Option<u32>) -> Option<Entry> {
        let slab = renumber((word as u32 & 0xff_ffff).checked_sub(1)?)?;
        let word = word >> 24 << 24 | u64::from(slab + 1);
        Some(Entry { hash, word, cas: rest as u32, expires_s: (rest >> 32) as u32 })
    }

    /// Moves the entry to another place, and clears its accesses.
    pub fn moved(&mut self, place: Place) {
        let kept = self.word >> 42 << 42;
        self.word = kept | u64::from(place.slab + 1) | u64::from(place.slot) << 24;
    }

    /// Number of accesses since it was written, up to 3.
    #[inline]
    pub fn hits(&self) -> u32 {
        (self.word >> HITS) as u32 & 3
    }

    /// Seconds since the last access or store.
    pub fn idle_s(&self, time_s: u32) -> u32 {
        time_s.wrapping_sub((self.word >> ACCESS) as u32) & ACCESS_MASK
    }

    /// Records an access.
    #[inline]
    pub fn access(&mut self, time_s: u32) {
        let hits = (self.hits() + 1).min(3);
        let kept = self.word & (((1 << HITS) - 1) | STALE | WON);
        self.word = kept | FETCHED | u64::from(hits) << HITS | u64::from(time_s & ACCESS_MASK) << ACCESS;
    }

    /// Reports whether it was ever accessed.
    pub fn is_fetched(&self) -> bool {
        self.word & FETCHED != 0
    }

    pub fn is_stale(&self) -> bool {
        self.word & STALE != 0
    }

    pub fn is_won(&self) -> bool {
        self.word & WON != 0
    }

    /// Marks it as stale; the next access wins it.
    pub fn make_stale(&mut self) {
        self.word = self.word & !WON | STALE;
    }

    pub fn win(&mut self) {
        self.word |= WON;
    }

    /// Second at which the item expires; 0: never.
    #[inline]
    pub fn expires_s(&self) -> u32 {
        self.expires_s
    }

    /// Sets the second at which the item expires; 0: never.
    #[inline]
    pub fn live_until(&mut self, expires_s: u32) {
        self.expires_s = expires_s;
    }

    #[inline]
    pub fn is_expired(&self, time_s: u32) -> bool {
        self.expires_s != 0 && self.expires_s <= time_s
    }
}

/// Position of an entry in the index, until the index changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    segment: u32,
    entry: u32,
}

/// Room for entries beyond the last home.
const SLACK: usize = 48;
/// Minimum number of homes of a segment.
const HOMES_MIN: u32 = 1024;

#[derive(Clone, Debug, Default)]
struct Segment {
    entries: Vec<Entry>,
    homes: u32,
    used: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Index {
    segments: Vec<Segment>,
    /// Bits of a hash that select the segment.
    bits: u32,
    used: u64,
}

impl Index {
    /// An index for about this many items; it grows by itself.
    pub fn new(items: u64) -> Index {
        let bits = (items / 8192).max(1).ilog2().min(16);
        Index { segments: vec![Segment::default(); 1 << bits], bits, used: 0 }
    }

    #[inline]
    fn segment(&self, top: u32) -> u32 {
        (u64::from(top) << self.bits >> 32) as u32
    }

    #[inline]
    fn home(bits: u32, homes: u32, top: u32) -> usize {
        // The bits below those of the segment.
        ((u64::from(top << bits) * u64::from(homes)) >> 32) as usize
    }

    /// Position of `hash`, or the position where it belongs.
    #[inline]
    fn search(&self, hash: u64) -> (At, bool) {
        let top = (hash >> 32) as u32;
        let number = self.segment(top);
        let segment = &self.segments[number as usize];
        let mut at = Index::home(self.bits, segment.homes, top);
        let mut found = false;
        while let Some(entry) = segment.entries.get(at) {
            if entry.is_empty() || entry.hash >= hash {
                found = !entry.is_empty() && entry.hash == hash;
                break;
            }
            at += 1;
        }
        (At { segment: number, entry: at as u32 }, found)
    }

    /// Prefetches the memory for the lookup of `hash`.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        let top = (hash >> 32) as u32;
        let Segment { entries, homes, .. } = &self.segments[self.segment(top) as usize];
        prefetch_index::prefetch_index(entries, Index::home(self.bits, *homes, top));
    }

    #[inline]
    pub fn find(&self, hash: u64) -> Option<At> {
        let (at, found) = self.search(hash);
        found.then_some(at)
    }

    /// Finds the entry of the item at `place`, by the upper half of its hash.
    pub fn find_at(&self, top: u32, place: Place) -> Option<At> {
        let (At { segment, mut entry }, _) = self.search(u64::from(top) << 32);
        while let Some(found) = self.segments[segment as usize].entries.get(entry as usize) {
            if found.is_empty() || (found.hash >> 32) as u32 != top {
                break;
            }
            if found.place() == place {
                return Some(At { segment, entry });
            }
            entry += 1;
        }
        None
    }

    #[inline]
    pub fn get(&self, at: At) -> &Entry {
        &self.segments[at.segment as usize].entries[at.entry as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, at: At) -> &mut Entry {
        &mut self.segments[at.segment as usize].entries[at.entry as usize]
    }

    /// Adds an entry, or replaces the one with its hash, which is returned.
    pub fn put(&mut self, new: Entry) -> Option<Entry> {
        let (at, found) = self.search(new.hash);
        if found {
            return Some(std::mem::replace(self.get_mut(at), new));
        }
        let segment = &mut self.segments[at.segment as usize];
        if (segment.used + 1) * 8 > segment.homes * 7 {
            segment.fit(self.bits);
            return self.put(new);
        }
        let from = at.entry as usize;
        let Some(gap) = segment.entries[from..].iter().position(Entry::is_empty) else {
            // A run has reached the end.
            segment.resize(segment.homes + segment.homes / 16 + 16, self.bits);
            return self.put(new);
        };
        segment.entries.copy_within(from..from + gap, from + 1);
        segment.entries[from] = new;
        segment.used += 1;
        self.used += 1;
        None
    }

    /// Removes an entry.
    pub fn remove(&mut self, at: At) -> Entry {
        let segment = &mut self.segments[at.segment as usize];
        let from = at.entry as usize;
        let removed = segment.entries[from];
        let homes = segment.homes;
        let stays = |(at, entry): (usize, &Entry)| {
            entry.is_empty() || Index::home(self.bits, homes, (entry.hash >> 32) as u32) == from + 1 + at
        };
        let behind = &segment.entries[from + 1..];
        let moved = behind.iter().enumerate().position(stays).unwrap_or(behind.len());
        segment.entries.copy_within(from + 1..from + 1 + moved, from);
        segment.entries[from + moved] = Entry::default();
        segment.used -= 1;
        self.used -= 1;
        if segment.used * 4 < segment.homes * 3 && segment.homes > HOMES_MIN {
            segment.fit(self.bits);
        }
        removed
    }

    pub fn clear(&mut self) {
        for segment in &mut self.segments {
            segment.entries.fill(Entry::default());
            segment.used = 0;
        }
        self.used = 0;
    }

    pub fn len(&self) -> u64 {
        self.used
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.segments.iter().flat_map(|segment| &segment.entries).filter(|entry| !entry.is_empty())
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> u64 {
        let entries: usize = self.segments.iter().map(|segment| segment.entries.capacity()).sum();
        (entries * size_of::<Entry>() + self.segments.capacity() * size_of::<Segment>()) as u64
    }

    /// Panics if an entry is not at its proper position.
    pub fn check(&self) {
        let mut used = 0;
        for (number, segment) in self.segments.iter().enumerate() {
            let mut last: Option<(usize, u64)> = None;
            let present = segment.entries.iter().enumerate().filter(|(_, entry)| !entry.is_empty());
            let mut count = 0;
            for (at, entry) in present {
                let top = (entry.hash >> 32) as u32;
                assert_eq!(self.segment(top) as usize, number, "an entry in another's segment");
                let home = Index::home(self.bits, segment.homes, top);
                assert!(home <= at, "an entry before its home");
                assert!(segment.entries[home..at].iter().all(|e| !e.is_empty()), "a gap before an entry");
                assert!(last.is_none_or(|(_, hash)| hash < entry.hash), "entries out of order");
                last = Some((at, entry.hash));
                count += 1;
            }
            assert_eq!(count, segment.used);
            used += u64::from(count);
        }
        assert_eq!(used, self.used);
    }
}

impl Segment {
    /// Resizes the segment for one more entry, plus a sixteenth to grow.
    #[cold]
    fn fit(&mut self, bits: u32) {
        let least = (u64::from(self.used) + 1) * 8 / 7 + 1;
        self.resize((least + (least / 16).max(16)) as u32, bits);
    }

    /// Sets the number of homes.
    fn resize(&mut self, homes: u32, bits: u32) {
        assert!(homes < NIL / 2, "an index of more than 2^31 entries in a segment");
        let mut entries = Vec::with_capacity(homes as usize + SLACK);
        let mut next = 0;
        for entry in self.entries.iter().filter(|entry| !entry.is_empty()) {
            let at = Index::home(bits, homes, (entry.hash >> 32) as u32).max(next);
            entries.resize(at, Entry::default());
            entries.push(*entry);
            next = at + 1;
        }
        entries.resize(next.max(homes as usize + SLACK), Entry::default());
        (self.entries, self.homes) = (entries, homes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;
    use std::collections::BTreeMap;

    /// Compares with a plain map. Few distinct upper halves make runs long and let hashes with equal upper halves meet.
    #[test]
    #[cfg_attr(quick, ignore = "slow")]
    fn agrees_with_a_plain_map() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let mut index = Index::new(rng.below(20_000));
            let mut model = BTreeMap::new();
            for step in 0..4_000u32 {
                let (bits, shift) = (1 + rng.below(9), rng.below(2) * 28);
                let hash = rng.below(1 << bits) << 55 | rng.below(1 << 9) << shift;
                if rng.chance(0.6) {
                    let place = Place { slab: step, slot: rng.below(1 << 16) as u32 };
                    let entry = Entry::new(hash, place, rng.next_u64(), step, step);
                    assert_eq!(index.put(entry), model.insert(hash, entry));
                } else {
                    let found = index.find(hash).map(|at| index.remove(at));
                    assert_eq!(found, model.remove(&hash));
                }
                if step % 64 == 0 {
                    index.check();
                    for entry in model.values() {
                        let at = index.find_at((entry.hash >> 32) as u32, entry.place()).expect("is there");
                        assert_eq!(index.get(at), entry);
                    }
                    assert!(index.iter().eq(model.values()));
                }
            }
            assert_eq!(index.len(), model.len() as u64);
            index.clear();
            index.check();
            assert_eq!(index.len(), 0);
        }
    }

    #[test]
    #[cfg_attr(quick, ignore = "slow")]
    fn an_entry_takes_little_memory_while_the_index_grows_and_when_it_has_shrunk() {
        let mut index = Index::new(1 << 20);
        let mut rng = Rng::new(1);
        let each = |index: &Index| index.bytes() as f64 / index.len() as f64;
        for size in [500_000, 1_000_000, 1_500_000] {
            while index.len() < size {
                let place = Place { slab: 1, slot: 1 };
                index.put(Entry::new(rng.next_u64(), place, 0, 0, 0));
            }
            assert!(each(&index) < 31.0, "{} bytes an entry at {size}", each(&index));
        }
        // In an order unrelated to that of the index.
        let mut hashes: Vec<u64> = index.iter().map(|entry| entry.hash).collect();
        hashes.sort_unstable_by_key(|hash| *hash as u32);
        for hash in hashes.iter().filter(|hash| *hash % 3 > 0) {
            index.remove(index.find(*hash).expect("it is there"));
        }
        index.check();
        assert!(each(&index) < 33.5, "{} bytes an entry when two thirds are gone", each(&index));
        let kept = |hash: &u64| index.find(*hash).is_some() == hash.is_multiple_of(3);
        assert!(hashes.iter().all(kept), "an entry that was not removed is there");
    }

    #[test]
    fn what_an_entry_says_comes_back() {
        let place = Place { slab: Entry::SLABS_MAX, slot: 65_535 };
        let mut entry = Entry::new(3, place, 9, 100, 5);
        assert_eq!((entry.place(), entry.hits(), entry.idle_s(25)), (place, 0, 20));
        entry.make_stale();
        (0..5).for_each(|_| entry.access(30));
        assert_eq!((entry.hits(), entry.idle_s(31), entry.is_stale(), entry.is_won()), (3, 1, true, false));
        entry.win();
        let there = Place { slab: 0, slot: 0 };
        entry.moved(there);
        assert_eq!((entry.place(), entry.hits(), entry.is_won(), entry.idle_s(31)), (there, 0, true, 1));
        assert!(entry.is_expired(100) && !entry.is_expired(99));
    }
}
