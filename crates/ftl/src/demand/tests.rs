//! The cached table beside a naive one: two vectors of entries in order of use, and sets.

use super::*;
use pellucid_flash::Rng;
use std::collections::BTreeSet;

#[derive(Default)]
struct Naive {
    capacity: usize,
    per_page: u32,
    /// Entries from the newest on, with their dirty flags.
    probationary: Vec<(u32, bool)>,
    protected: Vec<(u32, bool)>,
    pending: BTreeSet<u32>,
    moved: Vec<Vec<u32>>,
}

impl Naive {
    fn entry(&mut self, lpn: u32) -> Option<&mut (u32, bool)> {
        self.probationary.iter_mut().chain(&mut self.protected).find(|e| e.0 == lpn)
    }

    fn hit(&mut self, lpn: u32) -> bool {
        let Some(&mut entry) = self.entry(lpn) else { return false };
        self.probationary.retain(|e| e.0 != lpn);
        self.protected.retain(|e| e.0 != lpn);
        self.protected.insert(0, entry);
        if self.protected.len() > self.capacity / 2 {
            let demoted = self.protected.pop().expect("not empty");
            self.probationary.insert(0, demoted);
        }
        true
    }

    fn load(&mut self, lpn: u32) -> Option<u32> {
        let mut due = None;
        if self.probationary.len() + self.protected.len() == self.capacity {
            let (old, dirty) = self.probationary.pop().or_else(|| self.protected.pop()).expect("full");
            if dirty {
                self.pending.insert(old);
                due = Some(old / self.per_page);
            }
        }
        let dirty = self.pending.remove(&lpn);
        self.probationary.insert(0, (lpn, dirty));
        due
    }

    fn written(&mut self, lpn: u32) -> Option<u32> {
        let due = if self.entry(lpn).is_none() { self.load(lpn) } else { None };
        self.entry(lpn).expect("loaded").1 = true;
        due
    }

    fn moved(&mut self, lpn: u32, die: usize) {
        match self.entry(lpn) {
            Some(entry) => entry.1 = true,
            None => {
                self.pending.insert(lpn);
                let page = lpn / self.per_page;
                if !self.moved[die].contains(&page) {
                    self.moved[die].push(page);
                }
            }
        }
    }

    fn imaged(&mut self, page: u32) {
        for entry in self.probationary.iter_mut().chain(&mut self.protected) {
            entry.1 &= entry.0 / self.per_page != page;
        }
        self.pending.retain(|lpn| lpn / self.per_page != page);
    }
}

fn compare(table: &CachedTable, naive: &mut Naive) {
    table.check();
    for lpn in 0..table.entries {
        let dirty = naive.entry(lpn).map(|e| e.1);
        assert_eq!(table.is_cached(Lpn(lpn)), dirty.is_some(), "lpn {lpn} cached");
        let updated = dirty == Some(true) || naive.pending.contains(&lpn);
        assert_eq!(table.is_updated(Lpn(lpn)), updated, "lpn {lpn} updated");
    }
    for page in (0..table.pages.len() as u32).map(MapPage) {
        let mut lpns = table.lpns_of(page);
        assert_eq!(
            table.is_wholly_cached(page),
            table.lpns_of(page).all(|lpn| naive.entry(lpn).is_some()),
            "{page:?} wholly cached"
        );
        assert_eq!(table.has_updates(page), lpns.any(|lpn| table.is_updated(Lpn(lpn))), "{page:?} updates");
    }
}

#[test]
fn the_table_does_what_a_naive_one_does() {
    for (seed, (entries, per_page, capacity)) in
        (0..).zip([(1, 4, 2), (40, 7, 2), (40, 7, 5), (64, 16, 17), (100, 10, 40), (100, 10, 100)])
    {
        let mut rng = Rng::new(seed);
        let mut table = CachedTable::new(entries, per_page, capacity, 2);
        let mut naive = Naive { capacity: table.capacity() as usize, per_page, ..Naive::default() };
        naive.moved = vec![Vec::new(); 2];
        if seed % 2 == 1 {
            table.fill();
            (0..capacity.min(entries)).for_each(|lpn| _ = naive.load(lpn));
            compare(&table, &mut naive);
        }
        for _ in 0..3_000 {
            let lpn = rng.below(entries.into()) as u32;
            let die = rng.below(2) as usize;
            match rng.below(8) {
                0..3 => {
                    let hit = table.hit(Lpn(lpn));
                    assert_eq!(hit, naive.hit(lpn));
                    if !hit {
                        assert_eq!(table.load(Lpn(lpn)), naive.load(lpn).map(MapPage));
                    }
                }
                3..5 => assert_eq!(table.written(Lpn(lpn)), naive.written(lpn).map(MapPage)),
                5..7 => {
                    table.moved(Lpn(lpn), DieId(die as u32));
                    naive.moved(lpn, die);
                }
                _ if rng.chance(0.5) => {
                    table.imaged(MapPage(lpn / per_page));
                    naive.imaged(lpn / per_page);
                }
                _ => {
                    while let Some(page) = table.next_due(DieId(die as u32)) {
                        let last = loop {
                            let last = naive.moved[die].pop().expect("one more page");
                            if naive.pending.iter().any(|lpn| lpn / per_page == last) {
                                break last;
                            }
                        };
                        assert_eq!(page.0, last);
                        table.imaged(page);
                        naive.imaged(last);
                    }
                    naive.moved[die].clear();
                }
            }
            compare(&table, &mut naive);
        }
    }
}

/// A scan of entries that are used once does not evict those that were used twice.
#[test]
fn what_was_used_twice_outlives_a_scan() {
    let mut table = CachedTable::new(1_000, 100, 10, 1);
    for lpn in (0..5).map(Lpn) {
        table.load(lpn);
        assert!(table.hit(lpn));
    }
    (100..900).for_each(|lpn| _ = table.load(Lpn(lpn)));
    assert!((0..5).all(|lpn| table.is_cached(Lpn(lpn))));
    assert!(!table.is_cached(Lpn(100)) && table.is_cached(Lpn(899)));
}

/// One eviction makes one page due, and its write cleans all dirty entries of the page: the next evictions of these cost nothing.
#[test]
fn a_write_carries_all_updates_of_its_page() {
    let mut table = CachedTable::new(1_000, 100, 10, 1);
    (0..10).for_each(|lpn| assert_eq!(table.written(Lpn(lpn)), None));
    assert_eq!(table.load(Lpn(500)), Some(MapPage(0)));
    assert!(table.is_updated(Lpn(0)), "pending until the page is written");
    table.imaged(MapPage(0));
    assert!((0..10).all(|lpn| !table.is_updated(Lpn(lpn))));
    assert!((501..510).all(|lpn| table.load(Lpn(lpn)).is_none()), "what leaves is clean");
}
