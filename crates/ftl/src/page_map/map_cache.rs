//! A map in flash behind a cached table (DFTL): use of [`CachedTable`] by the page map, and reads of translation pages.
//!
//! The simulator looks addresses up in memory as always. The cached table tells which pages a drive with little memory would have to read
//! first and to write.
//!
//! ```text
//!  lookup ─┬─ cached, or its update is known, or its page is in the controller, or was never written ─► Located
//!          └─ else ─► NeedsMap(page), MapJob::Read ─► map_page_read ─► lookup again
//!  program ended, trim ─► dirty or pending ─► due: eviction, end of a victim ─► MapJob::Read, merge, MapJob::Program
//! ```
//! The controller holds a page from the end of its read until look-ups have been repeated, and pages on their way to the media. When the
//! latter fill two superpages, no page is read for a look-up until some of them are programmed.
//!
//! Invariant ([`PageMap::check_media`]): an entry that is neither updated (dirty, pending) nor under way is the same on the media and
//! here.

use super::PageMap;
use crate::demand::{CachedTable, MAP_ENTRY_BYTES};
use crate::map_writes::Content;
use crate::mount::MountSource;
use crate::translation::{MapJob, MapPage};
use crate::translation_pages::parse;
use crate::{FtlConfig, Map};
use pellucid_flash::{Cause, DieId, Layout, Lpn, MapReason, Ppa};
use std::collections::VecDeque;

/// Event counts of the cached mapping table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapCounters {
    /// Entries that were looked up for hosts, and those that were cached.
    pub lookups: u64,
    /// See `lookups`.
    pub hits: u64,
    /// Translation pages read, by [`MapReason`].
    pub reads: [u64; MapReason::COUNT],
    /// Translation pages programmed, by [`MapReason`].
    pub writes: [u64; MapReason::COUNT],
}

/// The cached table of a page map, and the translation pages that are read for it.
#[derive(Clone, Debug)]
pub(crate) struct MapCache {
    table: CachedTable,
    /// Translation pages that have to be written.
    due: VecDeque<(MapPage, MapReason)>,
    /// Translation pages that look-ups need.
    needed: VecDeque<MapPage>,
    /// Translation pages that are being read.
    reading: Vec<MapPage>,
    /// The translation page that was just read; look-ups are being repeated.
    held: Option<MapPage>,
    /// The last program of translation pages found no space.
    stuck: bool,
}

impl MapCache {
    /// Creates the cache for a map of `entries` in `pages` translation pages, with an empty table. `None`: all of the map is in memory.
    pub fn of(config: &FtlConfig, entries: u32, pages: u32, layout: &Layout) -> Option<MapCache> {
        let Map::Demand { cache_bytes } = config.map else { return None };
        let capacity = (cache_bytes / MAP_ENTRY_BYTES).min(u64::from(u32::MAX / 4)) as u32;
        let table = CachedTable::new(entries, crate::spare::entries_per_page(layout), capacity, layout.dies);
        let (due, needed, reading) = Default::default();
        (pages > 0).then_some(MapCache { table, due, needed, reading, held: None, stuck: false })
    }

    fn queue(&mut self, due: Option<MapPage>, reason: MapReason) {
        if let Some(page) = due
            && !self.due.iter().any(|&(other, _)| other == page)
        {
            self.due.push_back((page, reason));
        }
    }

    fn load(&mut self, lpn: Lpn) {
        let due = self.table.load(lpn);
        self.queue(due, MapReason::Eviction);
    }
}

impl PageMap {
    /// Returns whether the map lies in flash behind a cached table.
    #[inline]
    pub fn is_demand_mapped(&self) -> bool {
        self.map_cache.is_some()
    }

    /// Bytes of memory for the map: all of it, or the cached entries and the address of every translation page.
    pub fn map_memory_bytes(&self) -> u64 {
        let all = self.table.memory_bytes();
        self.map_cache
            .as_ref()
            .map_or(all, |cache| cache.table.memory_bytes() + 4 * u64::from(self.map_pages()))
    }

    /// The translation page that has to be read before `lpn` can be looked up.
    pub(super) fn missing_page(&mut self, lpn: Lpn) -> Option<MapPage> {
        let page = MapPage(lpn.0 / self.pages.entries);
        let here = self.copy_of(self.map_page_lpn(page.0)) == Ppa::NONE || self.pages.writes.holds(page.0);
        let cache = self.map_cache.as_mut()?;
        if cache.table.hit(lpn) {
            self.counters.map.lookups += 1;
            self.counters.map.hits += 1;
            return None;
        }
        if here || cache.held == Some(page) || cache.table.is_updated(lpn) {
            self.counters.map.lookups += 1;
            cache.load(lpn);
            return None;
        }
        if !cache.reading.contains(&page) && !cache.needed.contains(&page) {
            cache.needed.push_back(page);
        }
        Some(page)
    }

    /// Returns whether look-ups or ended programs have left work for [`PageMap::next_map_job`].
    #[inline]
    pub fn has_map_work(&self) -> bool {
        let work = |cache: &MapCache| {
            !cache.due.is_empty() || (!cache.needed.is_empty() && !self.map_pages_pile_up(cache))
        };
        self.map_cache.as_ref().is_some_and(work)
    }

    fn map_pages_pile_up(&self, cache: &MapCache) -> bool {
        !cache.stuck && self.pages.writes.count() >= 2 * self.layout.units_per_superpage as usize
    }

    /// The next translation page to be read. Pages that are due are wanted from now on.
    pub(crate) fn next_map_read(&mut self) -> Option<MapJob> {
        if let Some(cache) = &mut self.map_cache {
            cache.held = None;
        }
        while let Some((page, reason)) = self.next_due_page() {
            let content = self.content_of(page.0);
            self.pages.writes.add_left(page.0, reason, content);
        }
        while let Some((page, reason)) = self.pages.writes.next_read() {
            if let Some(job) = self.read_map_page(MapPage(page), reason) {
                return Some(job);
            }
        }
        loop {
            let cache = self.map_cache.as_ref()?;
            if self.map_pages_pile_up(cache) {
                return None;
            }
            let page = self.map_cache.as_mut()?.needed.pop_front()?;
            if let Some(job) = self.read_map_page(page, MapReason::Lookup) {
                return Some(job);
            }
        }
    }

    /// Reads a translation page; `None`: it is being read already.
    fn read_map_page(&mut self, page: MapPage, reason: MapReason) -> Option<MapJob> {
        let from = self.copy_of(self.map_page_lpn(page.0));
        let cache = self.map_cache.as_mut()?;
        if cache.reading.contains(&page) {
            return None;
        }
        cache.reading.push(page);
        self.counters.map.reads[reason as usize] += 1;
        Some(MapJob::Read { page, from, cause: Cause::Map })
    }

    fn next_due_page(&mut self) -> Option<(MapPage, MapReason)> {
        let cache = self.map_cache.as_mut()?;
        loop {
            let due = cache.due.pop_front()?;
            // The page may have been written meanwhile.
            if cache.table.has_updates(due.0) {
                return Some(due);
            }
        }
    }

    /// Ends the read of a translation page. Look-ups of its entries find them until [`PageMap::next_map_job`] is called.
    pub fn map_page_read(&mut self, page: MapPage, ok: bool) {
        let Some(cache) = &mut self.map_cache else { return };
        cache.reading.retain(|&other| other != page);
        cache.held = Some(page);
        if !ok {
            // Its content is found in the spare areas.
            for lpn in cache.table.lpns_of(page) {
                cache.table.changed(Lpn(lpn));
            }
            cache.queue(Some(page), MapReason::Gc);
        }
        self.pages.writes.was_read(page.0);
    }

    /// Returns whether a wanted translation page has to be read first: it is on the media, and not all of its entries are in memory.
    pub(crate) fn content_of(&self, page: u32) -> Content {
        let missing = |cache: &MapCache| {
            self.copy_of(self.map_page_lpn(page)) != Ppa::NONE
                && !cache.table.is_wholly_cached(MapPage(page))
                && !self.pages.writes.holds(page)
        };
        if self.map_cache.as_ref().is_some_and(missing) { Content::Missing } else { Content::Here }
    }

    /// Records whether the last program of translation pages found space.
    pub(crate) fn note_map_space(&mut self, found: bool) {
        if let Some(cache) = &mut self.map_cache {
            cache.stuck = !found;
        }
    }

    /// Records that a program of `lpn` has ended well. `left`: it is a GC copy of this one.
    #[inline]
    pub(super) fn entry_changed(&mut self, lpn: Lpn, left: Option<Ppa>) {
        if self.map_cache.is_some() && lpn.0 < self.user_units {
            let die = left.map(|left| self.layout.die_of(left));
            self.update_entry(lpn, die);
        }
    }

    fn update_entry(&mut self, lpn: Lpn, left: Option<DieId>) {
        let Some(cache) = &mut self.map_cache else { return };
        match left {
            Some(die) => cache.table.moved(lpn, die),
            None => {
                let due = cache.table.written(lpn);
                cache.queue(due, MapReason::Eviction);
            }
        }
    }

    /// Records that `lpn` was trimmed.
    #[inline]
    pub(super) fn entry_trimmed(&mut self, lpn: Lpn) {
        if let Some(cache) = &mut self.map_cache {
            cache.table.changed(lpn);
        }
    }

    /// Records that a victim of `die` is empty: updates of entries that left it go to their translation pages.
    #[inline]
    pub(crate) fn victim_left(&mut self, die: DieId) {
        if let Some(cache) = &mut self.map_cache {
            while let Some(page) = cache.table.next_due(die) {
                cache.queue(Some(page), MapReason::Gc);
            }
        }
    }

    /// Records that the content of a translation page has been taken, and its program is planned.
    pub(crate) fn map_page_imaged(&mut self, page: u32) {
        if let Some(cache) = &mut self.map_cache {
            cache.table.imaged(MapPage(page));
        }
    }

    /// Fills the table of a drive that was just made, in which no page is mapped.
    pub(super) fn fill_map_cache(&mut self) {
        if let Some(cache) = &mut self.map_cache {
            cache.table.fill();
        }
    }

    /// Prepares the table at a mount: updates that the translation pages lack are pending; then the table is filled.
    pub(crate) fn mount_map_cache(&mut self, source: &impl MountSource) {
        let Some(mut cache) = self.map_cache.take() else { return };
        for page in (0..self.map_pages()).map(MapPage) {
            let stored = self.stored_entries(page, source);
            for (at, lpn) in cache.table.lpns_of(page).enumerate() {
                let here = self.copy_of(Lpn(lpn)).0.wrapping_add(1);
                if stored.as_ref().map_or(0, |stored| stored[at]) != here {
                    cache.table.changed(Lpn(lpn));
                }
            }
        }
        cache.table.fill();
        self.map_cache = Some(cache);
    }

    fn stored_entries(&self, page: MapPage, source: &impl MountSource) -> Option<Vec<u32>> {
        let ppa = self.copy_of(self.map_page_lpn(page.0));
        let bytes = ppa.is_some().then(|| source.map_page(ppa)).flatten()?;
        parse(&bytes, page.0).map(|(_, entries)| entries)
    }

    /// Panics where media and map disagree on an entry without a known update. Cost: all translation pages.
    pub fn check_media(&self, source: &impl MountSource) {
        let Some(cache) = &self.map_cache else { return };
        cache.table.check();
        let settled = self.settled();
        for page in (0..self.map_pages()).map(MapPage).filter(|page| !self.pages.writes.holds(page.0)) {
            // An unreadable page proves nothing.
            let Some(stored) = self.stored_entries(page, source) else { continue };
            for (at, lpn) in cache.table.lpns_of(page).enumerate() {
                let here = self.settled_copy(&settled, Lpn(lpn)).0.wrapping_add(1);
                assert!(
                    stored[at] == here || cache.table.is_updated(Lpn(lpn)),
                    "lpn {lpn}: its translation page says {}, the map {here}, and no update is known",
                    stored[at]
                );
            }
        }
    }
}
