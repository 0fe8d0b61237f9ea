//! Map segments: the part of the map that is written to the media, so that TRIM survives a power cut and mounting need
//! not read every page.
//!
//! The map is cut into segments of one mapping unit each. A segment is data like any other: it has a logical page number
//! above the host's (`user_units + index`), is programmed, mapped, collected. Its content is
//!
//! ```text
//! offset 0   8 bytes  watermark: every program with a lower sequence number is reflected in the entries
//!        8   8 bytes  index of the segment (a check)
//!       16   4 bytes each: physical address + 1 of the page's newest copy that had been programmed; 0: none; 2^32 - 1: lost
//! ```
//! The spare area names `user_units + index`, and as many pages above that as there are segments if the segment knows of no trim since the
//! drive was made: should it become unreadable, all its pages can be found without it.
//!
//! Segments are rewritten round-robin (the checkpoint) and, for trimmed pages, before a flush ends.

use crate::Durability;
use crate::page_map::{PageMap, Settled};
use pellucid_flash::{Lpn, Ppa};
use std::collections::VecDeque;

/// Bytes before a segment's entries.
pub(crate) const HEADER_BYTES: u32 = 16;

/// Which segments have to be written.
#[derive(Clone, Debug)]
pub(crate) struct Segments {
    count: u32,
    batch: u32,
    every: u64,
    next: u32,
    due: u64,
    /// Segments with pages that were trimmed, or lost, at some time.
    trimmed: Vec<bool>,
    /// Sequence number at the last trim that is not on the media yet; 0: none.
    dirtied_at: Vec<u64>,
    /// Of these, those that nobody has asked for yet, in the order of their first trims.
    dirty: VecDeque<u32>,
    /// Trims so far. Each has a number, from 1.
    trims: u64,
    /// The first trim in each dirty segment.
    first_trim: Vec<u64>,
    /// The segment that is to be written next, and waits for programs.
    asked: Option<Asked>,
    /// Segments that were dirty and are on their way to the media.
    leaving: Vec<Leaving>,
}

/// A segment that somebody wants written, with its trims of that moment. Those that come while it waits are for its next write, so
/// that a stream of them does not keep it waiting.
#[derive(Clone, Copy, Debug)]
struct Asked {
    segment: u32,
    first_trim: u64,
    /// Sequence number at its last trim.
    dirtied_at: u64,
}

/// A segment between [`PageMap::next_flush_segment`] and the end of its program.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    segment: u32,
    first_trim: u64,
    /// Its content has been taken: the next program of the segment that ends well carries the trims.
    imaged: bool,
}

/// What a caller that persists segments does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentWork {
    /// Nothing.
    None,
    /// Wait until more programs have ended.
    Wait,
    /// Program this segment now: content from [`PageMap::segment_image`], logical page [`PageMap::segment_lpn`].
    Write(u32),
}

impl Segments {
    /// Segments of a drive of `stripes` stripes; `batch` of them fit into one.
    pub fn new(count: u32, durability: Durability, stripes: u64, batch: u32) -> Segments {
        let batch = batch.min(count);
        let every = match durability {
            Durability::Journal { checkpoint_every } => {
                let round = if checkpoint_every == 0 { stripes / 4 } else { checkpoint_every };
                (round * u64::from(batch) / u64::from(count.max(1))).max(1)
            }
            Durability::Volatile => u64::MAX,
        };
        Segments {
            count,
            batch,
            every,
            next: 0,
            due: every,
            trimmed: vec![false; count as usize],
            dirtied_at: vec![0; count as usize],
            dirty: VecDeque::new(),
            trims: 0,
            first_trim: vec![0; count as usize],
            asked: None,
            leaving: Vec::new(),
        }
    }

    /// Number of the last trim.
    pub fn last_trim(&self) -> u64 {
        self.trims
    }

    /// All trims with a lower number are on the media.
    pub fn saved_before(&self) -> u64 {
        let dirty = self.dirty.front().map(|&s| self.first_trim[s as usize]);
        let asked = self.asked.map(|asked| asked.first_trim);
        let leaving = self.leaving.iter().map(|l| l.first_trim);
        leaving.chain(dirty).chain(asked).min().unwrap_or(u64::MAX)
    }

    /// A program of `segment` has ended well.
    pub fn saved(&mut self, segment: u32) {
        self.leaving.retain(|l| l.segment != segment || !l.imaged);
    }

    /// The segment to be written next; of those with trims the one that has them longest.
    fn ask(&mut self) -> Option<Asked> {
        if self.asked.is_none() {
            self.asked = self.dirty.pop_front().map(|segment| Asked {
                segment,
                first_trim: self.first_trim[segment as usize],
                dirtied_at: std::mem::take(&mut self.dirtied_at[segment as usize]),
            });
        }
        self.asked
    }

    #[inline]
    pub fn dirty(&mut self, segment: u32, sequence: u64) {
        self.trims += 1;
        if self.count > 0 {
            if self.dirtied_at[segment as usize] == 0 {
                self.dirty.push_back(segment);
                self.first_trim[segment as usize] = self.trims;
            }
            self.dirtied_at[segment as usize] = sequence;
            self.trimmed[segment as usize] = true;
        }
    }

    /// Mount only: its newest copy on the media knows of trims.
    pub fn set_trimmed(&mut self, segment: u32) {
        self.trimmed[segment as usize] = true;
    }
}

impl PageMap {
    /// Segments of the map; none with [`Durability::Volatile`].
    pub fn segments(&self) -> u32 {
        self.segments.count
    }

    /// The logical page of a segment.
    pub fn segment_lpn(&self, segment: u32) -> Lpn {
        Lpn(self.user_units + segment)
    }

    /// What the spare area of a segment names.
    pub fn segment_mark(&self, segment: u32) -> Lpn {
        let trimmed = self.segments.trimmed[segment as usize];
        Lpn(self.segment_lpn(segment).0 + if trimmed { 0 } else { self.segments.count })
    }

    /// The logical page that a spare area means with what it names.
    #[inline]
    pub fn page_of_mark(&self, mark: Lpn) -> Lpn {
        let untrimmed = self.map_length()..self.map_length() + self.segments.count;
        if untrimmed.contains(&mark.0) { Lpn(mark.0 - self.segments.count) } else { mark }
    }

    /// The logical page of the segment that lies at `ppa`, if one does.
    pub fn segment_at(&self, ppa: Ppa) -> Option<Lpn> {
        (self.user_units..self.map_length()).map(Lpn).find(|&lpn| self.lookup(lpn) == ppa)
    }

    /// Whether a rolling checkpoint write is due. O(1).
    #[inline]
    pub fn checkpoint_due(&self) -> bool {
        self.sequence >= self.segments.due
    }

    /// The next segment that a flush must write. A segment with trimmed pages waits until the programs planned before the
    /// trim have ended, so that none of them can be found above its watermark.
    pub fn next_flush_segment(&mut self) -> SegmentWork {
        let Some(Asked { segment, first_trim, dirtied_at }) = self.segments.ask() else {
            return SegmentWork::None;
        };
        if self.oldest_active_program() < dirtied_at {
            return SegmentWork::Wait;
        }
        self.segments.asked = None;
        self.segments.leaving.push(Leaving { segment, first_trim, imaged: false });
        SegmentWork::Write(segment)
    }

    /// Trims so far.
    pub fn trims(&self) -> u64 {
        self.segments.last_trim()
    }

    /// Whether the first `trims` trims are on the media.
    pub fn has_saved(&self, trims: u64) -> bool {
        self.segments.saved_before() > trims
    }

    /// The next segments of the rolling checkpoint, a stripe of them; call when [`PageMap::checkpoint_due`].
    pub fn next_checkpoint_segments(&mut self) -> impl Iterator<Item = u32> + use<> {
        let (first, count) = (self.segments.next, self.segments.count);
        self.segments.next = (first + self.segments.batch) % count;
        self.segments.due = self.sequence + self.segments.every;
        // One that holds unflushed trims is left to the flush.
        let clean: Vec<u32> = (0..self.segments.batch)
            .map(|i| (first + i) % count)
            .filter(|&s| self.segments.dirtied_at[s as usize] == 0)
            .collect();
        clean.into_iter()
    }

    /// The content of a segment, `unit_bytes` long, at the moment of `settled`.
    pub fn segment_image(&mut self, settled: &Settled, segment: u32, out: &mut Vec<u8>) {
        for leaving in self.segments.leaving.iter_mut().filter(|l| l.segment == segment) {
            leaving.imaged = true;
        }
        out.clear();
        out.extend_from_slice(&settled.watermark.to_le_bytes());
        out.extend_from_slice(&u64::from(segment).to_le_bytes());
        let first = segment * self.entries_per_segment;
        for lpn in first..(first + self.entries_per_segment).min(self.user_units) {
            let entry = self.settled_copy(settled, Lpn(lpn)).0.wrapping_add(1);
            out.extend_from_slice(&entry.to_le_bytes());
        }
        out.resize(self.layout.unit_bytes as usize, 0);
    }
}

/// A segment read back: watermark and entries. `None`: it is not the segment it should be.
pub(crate) fn parse_segment(bytes: &[u8], segment: u32) -> Option<(u64, Vec<u32>)> {
    let watermark = u64::from_le_bytes(bytes.get(0..8)?.try_into().ok()?);
    let index = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    let entries = bytes[HEADER_BYTES as usize..]
        .chunks_exact(4)
        .map(|e| u32::from_le_bytes(e.try_into().expect("chunk of 4")))
        .collect();
    (index == u64::from(segment)).then_some((watermark, entries))
}
