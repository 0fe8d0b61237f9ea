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
//!  checkpoint, flush_to, next_erase, arrived ─► wanted ── next_map_job ─► MapJob::Program ─► metadata ─► ended
//! ```

use crate::Durability;
use crate::checkpoint_pace::Pace;
use crate::map_writes::MapWrites;
use pellucid_flash::{Layout, MapReason};
use std::collections::VecDeque;

/// Bytes before the entries.
pub(crate) const HEADER_BYTES: u32 = 16;

/// Most translation pages under way for trims at one time: after a trim of the whole drive there may be very many.
const TRIMMED_AT_ONCE: usize = 512;

/// Most translation pages on their way at one time when the whole table is written; more would only take more memory.
const SAVED_AT_ONCE: usize = 128;

/// Translation pages to be written, and those in flight.
#[derive(Clone, Debug)]
pub(crate) struct TranslationPages {
    count: u32,
    /// Pace of the checkpoint, and the page that it takes next.
    pace: Pace,
    next: u32,
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
    reading: u32,
    /// Translation pages programmed, by reason.
    written: [u64; MapReason::COUNT],
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
        let round = match durability {
            Durability::Journal { checkpoint_every: 0 } => {
                Some(u64::from(layout.units / layout.units_per_superpage) / 4)
            }
            Durability::Journal { checkpoint_every } => Some(checkpoint_every),
            Durability::Volatile => None,
        };
        TranslationPages {
            count,
            pace: Pace::new(round.map(|round| round.max(1)), count, batch),
            next: 0,
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
            written: [0; MapReason::COUNT],
        }
    }

    /// Translation pages programmed so far, by reason.
    pub fn written(&self) -> [u64; MapReason::COUNT] {
        self.written
    }

    /// Sets the counts: to zero, or to those from before a power cut.
    pub fn set_written(&mut self, written: [u64; MapReason::COUNT]) {
        self.written = written;
    }

    /// Returns whether the rolling checkpoint is due when the next program has this number.
    #[inline]
    pub fn is_due(&self, sequence: u64) -> bool {
        self.pace.is_due(sequence)
    }

    /// Returns the pages that the checkpoint takes now: the next ones, except pages with unsaved trims, which are left to the
    /// flush.
    pub fn take_due(&mut self, sequence: u64) -> Vec<u32> {
        let end = u64::from(self.next) + self.pace.take(sequence);
        let pages = (self.next.into()..end).map(|page| (page % u64::from(self.count)) as u32);
        let pages = pages.filter(|&page| !self.has_unsaved(page)).collect();
        self.next = (end % u64::from(self.count)) as u32;
        pages
    }

    /// Returns whether `page` has trims for which no write has been requested yet.
    pub fn has_unsaved(&self, page: u32) -> bool {
        self.dirtied_at[page as usize] != 0
    }

    /// Number of pages that may be added to those in flight while the whole table is written.
    pub fn may_come(&self) -> usize {
        SAVED_AT_ONCE.saturating_sub(self.writes.count())
    }

    /// Returns the next page that must be written for its trims, if more may be in flight, and marks it as in flight. `settled`: every
    /// program before this number has ended, so that none of them can be found above the page's watermark.
    pub fn next_trimmed(&mut self, settled: impl Fn() -> u64) -> Option<u32> {
        if self.writes.count() >= TRIMMED_AT_ONCE {
            return None;
        }
        let Asked { page, first_trim, .. } = self.ask().filter(|asked| settled() >= asked.dirtied_at)?;
        self.asked = None;
        self.leaving.push(Leaving { page, first_trim, imaged: false });
        Some(page)
    }

    /// Records that the content of `page`, a write `at` this place, is taken: it reflects every program below `watermark`.
    pub fn imaged(&mut self, page: u32, at: usize, watermark: u64) {
        for leaving in self.leaving.iter_mut().filter(|l| l.page == page) {
            leaving.imaged = true;
        }
        self.watermarks[page as usize].imaged = watermark;
        self.written[self.writes.reason(at) as usize] += 1;
    }

    /// Returns whether any of the pages of `page` was trimmed or lost at some time.
    pub fn is_trimmed(&self, page: u32) -> bool {
        self.trimmed[page as usize]
    }

    /// GC begins to read so many units of translation pages.
    pub fn begin_reading(&mut self, units: u32) {
        self.reading += units;
    }

    /// GC has read a unit of a translation page.
    pub fn end_reading(&mut self) {
        self.reading -= 1;
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

    /// Returns whether less than a superpage is requested and more will follow.
    pub fn gathers(&self, per_superpage: u32) -> bool {
        (self.reading > 0 && self.writes.can_wait(per_superpage)) || self.writes.gathers(per_superpage)
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
