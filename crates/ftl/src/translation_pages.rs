//! Translation pages: the part of the mapping table that is written to the media, so that TRIM survives a power cut and mounting need
//! not read every page.
//!
//! The table is cut into translation pages of one mapping unit each. A translation page is data like any other: it has a logical page
//! number above the host's (`user_units + index`), is programmed, mapped, and collected by GC. Its content is
//!
//! ```text
//! offset 0   8 bytes  watermark: every program with a lower sequence number is reflected in the entries
//!        8   8 bytes  index of the translation page (a check)
//!       16   4 bytes each: physical address + 1 of the page's newest copy that had been programmed; 0: none; 2^32 - 1: lost
//! ```
//! The spare area names `user_units + index`. If this page knows of no trim since the drive was made, the number of translation pages is
//! added: should the page become unreadable, all its pages can be found without it.
//!
//! A translation page of a cache holds a region of its table ([`crate::sparse`]): entries of eight bytes, the page with its state and the
//! address.
//!
//! Translation pages are rewritten round-robin (the checkpoint), for trimmed pages before a flush ends, and when GC finds them in a
//! victim.
//!
//! ```text
//!  checkpoint, flush_to, next_erase, arrived ─► wanted ── next_map_job ─► MapJob::Program ─► metadata ─► program_ended
//! ```

use crate::Durability;
use crate::map_writes::MapWrites;
use crate::page_map::{PageMap, Settled};
use crate::spare::entries_per_page;
use crate::translation::{FlushPoint, MapJob, ProgramId, Stream};
use pellucid_flash::{Cause, Layout, Lpn, MapReason, Ppa};
use std::collections::VecDeque;

/// Bytes before the entries.
pub(crate) const HEADER_BYTES: u32 = 16;

/// Most translation pages under way for trims at one time: after a trim of the whole drive there may be very many.
const TRIMMED_AT_ONCE: usize = 512;

/// Most translation pages on their way at one time when the whole table is written; more would only take more memory.
const SAVED_AT_ONCE: usize = 128;

/// Translation pages to be written, and those under way.
#[derive(Clone, Debug)]
pub(crate) struct TranslationPages {
    count: u32,
    pub entries: u32,
    batch: u32,
    every: u64,
    next: u32,
    due: u64,
    /// True for each translation page with pages that were trimmed or lost at some time.
    trimmed: Vec<bool>,
    /// Watermarks of each translation page's newest copy.
    watermarks: Vec<Watermarks>,
    /// Sequence number at the last trim that is not on the media yet; 0: none.
    dirtied_at: Vec<u64>,
    /// Translation pages with unsaved trims that were not asked for yet, in the order of their first trims.
    dirty: VecDeque<u32>,
    /// Trims so far. Each has a number, from 1.
    trims: u64,
    /// Number of the first trim in each dirty one.
    first_trim: Vec<u64>,
    /// The translation page to be written next, which waits for programs.
    asked: Option<Asked>,
    /// Translation pages that were dirty and are on their way to the media.
    leaving: Vec<Leaving>,
    pub writes: MapWrites,
    /// Units of blocks of translation pages that are being read for GC: more will be wanted.
    pub reading: u32,
}

/// A translation page that is wanted on the media, with its trims of that moment. Trims that come while it waits belong to its next
/// write, so that a stream of them does not keep it waiting.
#[derive(Clone, Copy, Debug)]
struct Asked {
    page: u32,
    first_trim: u64,
    /// Sequence number at its last trim.
    dirtied_at: u64,
}

/// Watermarks of a translation page: it reflects every program with a lower sequence number.
#[derive(Clone, Copy, Debug, Default)]
struct Watermarks {
    /// Its newest copy on the media.
    on_media: u64,
    /// The copy that was imaged last.
    imaged: u64,
}

/// A translation page with trims, from the request to the end of its program.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    page: u32,
    first_trim: u64,
    /// The content has been taken: the next successful program of the page carries the trims.
    imaged: bool,
}

impl TranslationPages {
    /// Creates the state for `count` pages. `drops`: their entries are dropped without a trim.
    pub fn new(count: u32, durability: Durability, layout: &Layout, drops: bool) -> TranslationPages {
        let batch = layout.units_per_superpage.min(count);
        let every = match durability {
            Durability::Journal { checkpoint_every } => {
                let superpages = u64::from(layout.units / layout.units_per_superpage);
                let round = if checkpoint_every == 0 { superpages / 4 } else { checkpoint_every };
                (round * u64::from(batch) / u64::from(count.max(1))).max(1)
            }
            Durability::Volatile => u64::MAX,
        };
        TranslationPages {
            count,
            entries: entries_per_page(layout),
            batch,
            every,
            next: 0,
            due: every,
            trimmed: vec![drops; count as usize],
            watermarks: vec![Watermarks::default(); count as usize],
            dirtied_at: vec![0; count as usize],
            dirty: VecDeque::new(),
            trims: 0,
            first_trim: vec![0; count as usize],
            asked: None,
            leaving: Vec::new(),
            writes: MapWrites::default(),
            reading: 0,
        }
    }

    /// Number of translation pages.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Watermark of the newest copy of `page` on the media: that copy contains every program with a lower sequence number.
    pub fn watermark(&self, page: u32) -> u64 {
        self.watermarks.get(page as usize).map_or(u64::MAX, |marks| marks.on_media)
    }

    /// Returns whether `page` has trims that are not on the media.
    pub fn is_dirty(&self, page: u32) -> bool {
        self.dirtied_at.get(page as usize).is_some_and(|&at| at != 0)
            || self.asked.is_some_and(|asked| asked.page == page)
            || self.leaving.iter().any(|leaving| leaving.page == page)
    }

    /// Sets, at a mount, the watermark of the newest copy of `page`.
    pub fn set_watermark(&mut self, page: u32, on_media: u64) {
        self.watermarks[page as usize].on_media = on_media;
    }

    /// Number of the last trim.
    pub fn last_trim(&self) -> u64 {
        self.trims
    }

    /// Number below which all trims are on the media.
    pub fn saved_before(&self) -> u64 {
        let dirty = self.dirty.front().map(|&s| self.first_trim[s as usize]);
        let asked = self.asked.map(|asked| asked.first_trim);
        let leaving = self.leaving.iter().map(|l| l.first_trim);
        leaving.chain(dirty).chain(asked).min().unwrap_or(u64::MAX)
    }

    /// Records that a program of `page` has ended.
    pub fn ended(&mut self, page: u32, ok: bool) {
        if ok {
            self.leaving.retain(|l| l.page != page || !l.imaged);
            let marks = &mut self.watermarks[page as usize];
            marks.on_media = marks.imaged;
        }
        self.writes.ended(page, ok);
    }

    /// Chooses the page to be written next: the one whose trims have waited longest.
    fn ask(&mut self) -> Option<Asked> {
        if self.asked.is_none() {
            self.asked = self.dirty.pop_front().map(|page| Asked {
                page,
                first_trim: self.first_trim[page as usize],
                dirtied_at: std::mem::take(&mut self.dirtied_at[page as usize]),
            });
        }
        self.asked
    }

    /// Records that an entry of `page` was trimmed.
    #[inline]
    pub fn dirty(&mut self, page: u32, sequence: u64) {
        self.trims += 1;
        if self.count > 0 {
            if self.dirtied_at[page as usize] == 0 {
                self.dirty.push_back(page);
                self.first_trim[page as usize] = self.trims;
            }
            self.dirtied_at[page as usize] = sequence;
            self.trimmed[page as usize] = true;
        }
    }

    /// Records, at a mount, that the page's newest copy on the media knows of trims.
    pub fn set_trimmed(&mut self, page: u32) {
        self.trimmed[page as usize] = true;
    }

    /// Returns whether less than a superpage is wanted, and more will come.
    fn gathers(&self, per_superpage: u32) -> bool {
        (self.reading > 0 && self.writes.can_wait(per_superpage)) || self.writes.gathers(per_superpage)
    }
}

impl PageMap {
    /// Translation pages; none with [`Durability::Volatile`].
    pub fn map_pages(&self) -> u32 {
        self.pages.count
    }

    /// The logical page of a translation page.
    pub(crate) fn map_page_lpn(&self, page: u32) -> Lpn {
        Lpn(self.user_units + page)
    }

    /// Logical page that the number in a spare area stands for.
    #[inline]
    pub(crate) fn named(&self, mark: Lpn) -> Lpn {
        let mark = self.without_state(mark);
        let all = self.table.pages();
        let untrimmed = all..all + self.pages.count;
        if untrimmed.contains(&mark.0) { Lpn(mark.0 - self.pages.count) } else { mark }
    }

    /// The logical page of the translation page that lies at `ppa`, if one does.
    pub(crate) fn map_page_at(&self, ppa: Ppa) -> Option<Lpn> {
        (self.user_units..self.table.pages()).map(Lpn).find(|&lpn| self.copy_of(lpn) == ppa)
    }

    /// Queues the translation page `lpn`, which has to leave its block: it is written anew, with those that come after it.
    pub(crate) fn rewrite_map_page(&mut self, lpn: Lpn, cause: Cause) {
        self.pages.writes.add(lpn.0 - self.user_units, cause);
    }

    /// Records that host data were placed. Returns whether the rolling checkpoint, whose next translation pages are wanted now, or the
    /// list of a block is due.
    #[inline]
    pub fn checkpoint(&mut self) -> bool {
        let due = self.sequence >= self.pages.due;
        if due {
            self.want_checkpoint();
        }
        due || self.has_list()
    }

    fn want_checkpoint(&mut self) {
        let TranslationPages { next: first, batch, count, every, .. } = self.pages;
        self.pages.next = (first + batch) % count;
        self.pages.due = self.sequence + every;
        for page in (first..first + batch).map(|page| page % count) {
            // A page that holds unflushed trims is left to the flush.
            if self.pages.dirtied_at[page as usize] == 0 {
                self.want_saved(page);
            }
        }
    }

    /// Wants a translation page written for a checkpoint or a flush.
    fn want_saved(&mut self, page: u32) {
        let content = self.content_of(page);
        self.pages.writes.want(page, Cause::Journal, MapReason::Flush, content);
    }

    /// Trims that a flush beginning now waits for beside data.
    pub fn flush_point(&self) -> FlushPoint {
        FlushPoint(self.pages.trims)
    }

    /// Wants the translation pages written that a flush waits for, as many as may be under way; returns whether everything up to `point`
    /// is on the media.
    pub fn flush_to(&mut self, point: FlushPoint) -> bool {
        self.want_trimmed();
        self.pages.saved_before() > point.0
    }

    /// Wants the translation pages with trims. A page waits until the programs planned before its trims have ended, so that none of them
    /// can be found above its watermark.
    pub(crate) fn want_trimmed(&mut self) {
        while self.pages.writes.count() < TRIMMED_AT_ONCE
            && let Some(Asked { page, first_trim, dirtied_at }) = self.pages.ask()
            && self.oldest_active_program() >= dirtied_at
        {
            self.pages.asked = None;
            self.pages.leaving.push(Leaving { page, first_trim, imaged: false });
            self.want_saved(page);
        }
    }

    /// Wants the translation pages from `first` on written, as many as may be under way at one time; returns the next one.
    pub fn save_map(&mut self, first: u32) -> u32 {
        let space = SAVED_AT_ONCE.saturating_sub(self.pages.writes.count()) as u32;
        let next = self.pages.count.min(first + space);
        (first..next).for_each(|page| self.want_saved(page));
        next
    }

    /// Returns whether translation pages are on their way, planned or not.
    pub fn writes_map(&self) -> bool {
        self.pages.writes.count() > 0
    }

    /// Returns whether translation pages wait for their program.
    pub fn wants_map_job(&self) -> bool {
        self.pages.writes.any_wanted()
    }

    /// The next read of a translation page, or program of a superpage of wanted ones; a partial superpage only if a caller waits, or no
    /// more come.
    #[inline]
    pub fn next_map_job(&mut self) -> Option<MapJob> {
        if self.is_demand_mapped()
            && let Some(read) = self.next_map_read()
        {
            return Some(read);
        }
        if self.has_list()
            && let Some(list) = self.next_list()
        {
            return Some(list);
        }
        self.go_on_saving();
        // There is rarely one.
        if self.pages.writes.count() == 0 { None } else { self.plan_map_pages() }
    }

    /// Translation pages that may still be added for a checkpoint of an idle drive.
    pub(crate) fn map_pages_may_come(&self) -> usize {
        SAVED_AT_ONCE.saturating_sub(self.pages.writes.count())
    }

    /// Wants the translation page of a region written; if it has trims, it is left to the flush.
    pub(crate) fn save_region(&mut self, region: u32) {
        if self.pages.dirtied_at[region as usize] == 0 {
            self.want_saved(region);
        }
    }

    fn plan_map_pages(&mut self) -> Option<MapJob> {
        let per_superpage = self.layout.units_per_superpage;
        if self.pages.gathers(per_superpage) {
            return None;
        }
        let batch = self.pages.writes.next_batch(per_superpage);
        let (_, cause) = self.pages.writes.wanted(*batch.first()?);
        let mut lpns = Vec::with_capacity(batch.len());
        let mut by_cause = [0; Cause::COUNT];
        for &at in &batch {
            let (page, cause) = self.pages.writes.wanted(at);
            lpns.push(self.map_page_lpn(page));
            by_cause[cause as usize] += 1;
        }
        let unhurried = by_cause[Cause::Journal as usize] + by_cause[Cause::Map as usize];
        let for_gc = unhurried < batch.len() as u32;
        // Pages evicted from the cached table take nothing of the GC reserve.
        let awaited = by_cause[Cause::Map as usize] < batch.len() as u32;
        let hurries = for_gc || (awaited && self.gc.has_emptied());
        let stream = if hurries { Stream::MetaMoved } else { Stream::Meta };
        let plan = self.place(stream, None, &lpns);
        self.note_map_space(plan.is_some());
        let Some(plan) = plan else { return Some(MapJob::NeedsSpace) };
        let settled = self.settled();
        for (&at, &lpn) in batch.iter().zip(&lpns) {
            let mut image = std::mem::take(self.pages.writes.planned(at));
            self.write_image(&settled, lpn.0 - self.user_units, &mut image);
            *self.pages.writes.planned(at) = image;
            self.counters.map.writes[self.pages.writes.reason(at) as usize] += 1;
            self.map_page_imaged(lpn.0 - self.user_units);
        }
        Some(MapJob::Program { plan, units: batch.len() as u32, cause, by_cause })
    }

    /// The content of a translation page at the moment of `settled`.
    fn write_image(&mut self, settled: &Settled, page: u32, out: &mut Vec<u8>) {
        for leaving in self.pages.leaving.iter_mut().filter(|l| l.page == page) {
            leaving.imaged = true;
        }
        out.clear();
        self.region_imaged(page);
        self.pages.watermarks[page as usize].imaged = settled.watermark;
        out.extend_from_slice(&settled.watermark.to_le_bytes());
        out.extend_from_slice(&u64::from(page).to_le_bytes());
        if self.table.sparse().is_some() {
            self.write_region(settled, page, out);
            return out.resize(self.layout.unit_bytes as usize, 0);
        }
        let first = page * self.pages.entries;
        for lpn in first..(first + self.pages.entries).min(self.user_units) {
            let entry = self.settled_copy(settled, Lpn(lpn)).0.wrapping_add(1);
            out.extend_from_slice(&entry.to_le_bytes());
        }
        out.resize(self.layout.unit_bytes as usize, 0);
    }

    /// Logical page for the spare area, and content, of a unit of a planned program of translation pages.
    pub fn metadata(&self, id: ProgramId, position: u32) -> (Lpn, &[u8]) {
        let lpn = self.page_of_unit(id, position);
        if lpn == Lpn::NONE {
            return (lpn, self.list_image());
        }
        let page = lpn.0 - self.user_units;
        let trimmed = self.pages.trimmed[page as usize];
        let mark = Lpn(lpn.0 + if trimmed { 0 } else { self.pages.count });
        (mark, self.pages.writes.image(page))
    }
}

/// Parses a translation page: watermark and entries. `None`: the page is not the expected one.
pub(crate) fn parse(bytes: &[u8], page: u32) -> Option<(u64, Vec<u32>)> {
    let watermark = u64::from_le_bytes(bytes.get(0..8)?.try_into().ok()?);
    let index = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    let entries = bytes[HEADER_BYTES as usize..]
        .chunks_exact(4)
        .map(|e| u32::from_le_bytes(e.try_into().expect("chunk of 4")))
        .collect();
    (index == u64::from(page)).then_some((watermark, entries))
}
