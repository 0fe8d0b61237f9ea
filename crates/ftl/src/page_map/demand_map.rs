//! A map in flash behind a cached table (DFTL): [`CachedTable`] in the page map, and reads of translation pages.
//!
//! The simulator itself still looks addresses up in memory. The cached table tells which translation pages a drive with little memory
//! would have to read first, and which to write.
//!
//! ```text
//!  lookup ─┬─ cached, or its update is known, or its page is in the controller, or was never written ─► Located
//!          └─ else ─► NeedsMap(page), MapJob::Read ─► page_read ─► lookup again
//!  program ended, trim ─► dirty or pending ─► due: eviction, end of a victim ─► MapJob::Read, merge, MapJob::Program
//! ```
//! The controller holds a page from the end of its read until look-ups have been repeated, and pages on their way to the media. When the
//! latter fill two superpages, no page is read for a look-up until some of them are programmed.
//!
//! Invariant ([`DemandMap::check`]): an entry that is neither updated (dirty, pending) nor being written is the same on the media and
//! here.

use super::core::Shape;
use super::table::Table;
use crate::demand::{CachedTable, MAP_ENTRY_BYTES};
use crate::map_writes::Content;
use crate::mount::MountSource;
use crate::translation::{MapJob, MapPage};
use crate::translation_pages::{TranslationPages, parse};
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
pub(super) struct DemandMap {
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
    /// Look-ups and reads.
    counters: MapCounters,
}

impl DemandMap {
    /// Creates the cache for a map of `entries` in `pages` translation pages, with an empty table. `None`: all of the map is in memory.
    pub fn of(config: &FtlConfig, entries: u32, pages: u32, layout: &Layout) -> Option<DemandMap> {
        let Map::Demand { cache_bytes } = config.map else { return None };
        let capacity = (cache_bytes / MAP_ENTRY_BYTES).min(u64::from(u32::MAX / 4)) as u32;
        let table = CachedTable::new(entries, crate::spare::entries_per_page(layout), capacity, layout.dies);
        let (due, needed, reading, counters) = Default::default();
        (pages > 0).then_some(DemandMap { table, due, needed, reading, held: None, stuck: false, counters })
    }

    /// Look-ups and reads so far.
    pub fn counters(&self) -> &MapCounters {
        &self.counters
    }

    /// Sets the counters: to zero, or to those from before a power cut.
    pub fn set_counters(&mut self, counters: MapCounters) {
        self.counters = MapCounters { writes: Default::default(), ..counters };
    }

    /// Bytes of memory for the cached entries and the address of each of `pages` translation pages.
    pub fn memory_bytes(&self, pages: u32) -> u64 {
        self.table.memory_bytes() + 4 * u64::from(pages)
    }

    fn queue(&mut self, due: Option<MapPage>, reason: MapReason) {
        if let Some(page) = due
            && !self.due.iter().any(|&(other, _)| other == page)
        {
            self.due.push_back((page, reason));
        }
    }

    /// The translation page that has to be read before `lpn` can be looked up.
    pub fn missing_page(
        &mut self,
        shape: &Shape,
        table: &impl Table,
        pages: &TranslationPages,
        lpn: Lpn,
    ) -> Option<MapPage> {
        let page = MapPage(lpn.0 / shape.entries);
        if self.table.hit(lpn) {
            self.counters.lookups += 1;
            self.counters.hits += 1;
            return None;
        }
        let here = || table.get(shape.map_page_lpn(page.0)) == Ppa::NONE || pages.writes.holds(page.0);
        if self.held == Some(page) || self.table.is_updated(lpn) || here() {
            self.counters.lookups += 1;
            let due = self.table.load(lpn);
            self.queue(due, MapReason::Eviction);
            return None;
        }
        if !self.reading.contains(&page) && !self.needed.contains(&page) {
            self.needed.push_back(page);
        }
        Some(page)
    }

    /// Returns whether look-ups or ended programs have left work.
    #[inline]
    pub fn has_work(&self, shape: &Shape, pages: &TranslationPages) -> bool {
        !self.due.is_empty() || (!self.needed.is_empty() && !self.pile_up(shape, pages))
    }

    /// Returns whether too many translation pages are in flight to the media, so that lookups wait.
    fn pile_up(&self, shape: &Shape, pages: &TranslationPages) -> bool {
        !self.stuck && pages.writes.count() >= 2 * shape.layout.units_per_superpage as usize
    }

    /// The next translation page to be read. Pages that are due are wanted from now on.
    pub fn next_read(
        &mut self,
        shape: &Shape,
        table: &impl Table,
        pages: &mut TranslationPages,
    ) -> Option<MapJob> {
        self.held = None;
        while let Some((page, reason)) = self.next_due() {
            let content = self.content_of(shape, table, pages, page.0);
            pages.writes.add_left(page.0, reason, content);
        }
        let from = |page: MapPage| table.get(shape.map_page_lpn(page.0));
        while let Some((page, reason)) = pages.writes.next_read() {
            if let Some(job) = self.read(MapPage(page), from(MapPage(page)), reason) {
                return Some(job);
            }
        }
        while !self.pile_up(shape, pages) {
            let page = self.needed.pop_front()?;
            if let Some(job) = self.read(page, from(page), MapReason::Lookup) {
                return Some(job);
            }
        }
        None
    }

    /// Reads a translation page; `None`: it is being read already.
    fn read(&mut self, page: MapPage, from: Ppa, reason: MapReason) -> Option<MapJob> {
        if self.reading.contains(&page) {
            return None;
        }
        self.reading.push(page);
        self.counters.reads[reason as usize] += 1;
        Some(MapJob::Read { page, from, cause: Cause::Map })
    }

    fn next_due(&mut self) -> Option<(MapPage, MapReason)> {
        loop {
            let due = self.due.pop_front()?;
            // The page may have been written meanwhile.
            if self.table.has_updates(due.0) {
                return Some(due);
            }
        }
    }

    /// Ends the read of a translation page. Look-ups of its entries find them until [`DemandMap::next_read`] is called.
    pub fn page_read(&mut self, page: MapPage, ok: bool) {
        self.reading.retain(|&other| other != page);
        self.held = Some(page);
        if !ok {
            // Its content is found in the spare areas.
            for lpn in self.table.lpns_of(page) {
                self.table.changed(Lpn(lpn));
            }
            self.queue(Some(page), MapReason::Gc);
        }
    }

    /// Returns whether a requested translation page must be read first: it is on the media, and not all of its entries are in
    /// memory.
    pub fn content_of(
        &self,
        shape: &Shape,
        table: &impl Table,
        pages: &TranslationPages,
        page: u32,
    ) -> Content {
        let missing = table.get(shape.map_page_lpn(page)) != Ppa::NONE
            && !self.table.is_wholly_cached(MapPage(page))
            && !pages.writes.holds(page);
        if missing { Content::Missing } else { Content::Here }
    }

    /// Records whether the last program of translation pages found space.
    pub fn note_space(&mut self, found: bool) {
        self.stuck = !found;
    }

    /// Records that a program of `lpn` has ended well. `left`: it is a GC copy of one in this die.
    pub fn entry_changed(&mut self, lpn: Lpn, left: Option<DieId>) {
        match left {
            Some(die) => self.table.moved(lpn, die),
            None => {
                let due = self.table.written(lpn);
                self.queue(due, MapReason::Eviction);
            }
        }
    }

    /// Records that `lpn` was trimmed.
    pub fn entry_trimmed(&mut self, lpn: Lpn) {
        self.table.changed(lpn);
    }

    /// Records that a victim of `die` is empty: updates of entries that left it go to their translation pages.
    pub fn victim_left(&mut self, die: DieId) {
        while let Some(page) = self.table.next_due(die) {
            self.queue(Some(page), MapReason::Gc);
        }
    }

    /// Records that the content of a translation page has been taken, and its program is planned.
    pub fn page_imaged(&mut self, page: u32) {
        self.table.imaged(MapPage(page));
    }

    /// Fills the table of a drive that was just made, in which no page is mapped.
    pub fn fill(&mut self) {
        self.table.fill();
    }

    /// Prepares the table at a mount: updates that the translation pages lack are pending; then the table is filled.
    pub fn mount(&mut self, shape: &Shape, table: &impl Table, source: &impl MountSource) {
        for page in (0..shape.map_pages).map(MapPage) {
            let stored = stored_entries(shape, table, page, source);
            for (at, lpn) in self.table.lpns_of(page).enumerate() {
                let here = table.get(Lpn(lpn)).0.wrapping_add(1);
                if stored.as_ref().map_or(0, |stored| stored[at]) != here {
                    self.table.changed(Lpn(lpn));
                }
            }
        }
        self.table.fill();
    }

    /// Panics where media and map disagree on an entry without a known update. `settled`: newest copy that is on the media. Cost: all
    /// translation pages.
    pub fn check(
        &self,
        shape: &Shape,
        table: &impl Table,
        pages: &TranslationPages,
        settled: impl Fn(Lpn) -> Ppa,
        source: &impl MountSource,
    ) {
        self.table.check();
        for page in (0..shape.map_pages).map(MapPage).filter(|page| !pages.writes.holds(page.0)) {
            // An unreadable page proves nothing.
            let Some(stored) = stored_entries(shape, table, page, source) else { continue };
            for (at, lpn) in self.table.lpns_of(page).enumerate() {
                let here = settled(Lpn(lpn)).0.wrapping_add(1);
                assert!(
                    stored[at] == here || self.table.is_updated(Lpn(lpn)),
                    "lpn {lpn}: its translation page says {}, the map {here}, and no update is known",
                    stored[at]
                );
            }
        }
    }
}

fn stored_entries(
    shape: &Shape,
    table: &impl Table,
    page: MapPage,
    source: &impl MountSource,
) -> Option<Vec<u32>> {
    let ppa = table.get(shape.map_page_lpn(page.0));
    let bytes = ppa.is_some().then(|| source.map_page(ppa)).flatten()?;
    parse(&bytes, page.0).map(|(_, entries)| entries)
}
