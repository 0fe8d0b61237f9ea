//! Records of the monitor's state: the one in flight, the durable one, and the changes that wait for one.
//!
//! ```text
//!   changed ─► begin: both rings write it ─► ring_done, ring_done ─► safe, or dead ─► due: commits that waited for it
//! ```
//! Invariants: one record is written at a time; numbers ascend; a commit is due when the record with its change is safe, or when no record can be
//! written any more.

use super::ring::{self, Ring, Want};
use pellucid_flash::ChunkGeometry;
use std::collections::{BTreeMap, VecDeque};

/// Approximate number of sectors of one write of a record.
const WRITE_SECTORS: u32 = 64;

/// Effect of a durable record.
#[derive(Clone, Debug)]
pub(super) enum Commit {
    /// Maps a block of an application to another chunk.
    Place { app: u16, block: u32, chunk: u32 },
    /// Ends this command.
    Answer(u32),
    /// Moves the blocks that the leveller has copied.
    Moved,
}

/// A record being written.
#[derive(Clone, Debug)]
struct Saving {
    number: u64,
    bytes: Vec<u8>,
    pages: u32,
    /// Rings that are not done.
    left: u32,
    ok: bool,
}

/// The records of the state.
#[derive(Clone, Debug)]
pub(super) struct Records {
    chunks: [Vec<u32>; 2],
    rings: Vec<Ring>,
    /// Size of a page in sectors and bytes.
    page_sectors: u32,
    page_bytes: usize,
    /// Pages after each record that make it readable.
    pages_behind: u32,
    /// Numbers of the next record, and of the newest safe one.
    next: u64,
    safe: u64,
    saving: Option<Saving>,
    dirty: bool,
    /// True if no record can be written any more.
    dead: bool,
    /// Erases that no record counts yet.
    unsaved_erases: u32,
    /// Pages of records by chunk, if the drive stores stamps instead of data and could not return them.
    kept: BTreeMap<(u32, u32), Vec<u8>>,
    commits: VecDeque<(u64, Commit)>,
}

impl Records {
    /// Creates the records of this drive; [`Records::resume`] follows.
    pub fn new(drive: &ChunkGeometry) -> Records {
        Records {
            chunks: ring::chunks(drive),
            rings: Vec::new(),
            page_sectors: drive.write_min_sectors,
            page_bytes: drive.write_min_sectors as usize * drive.sector_bytes as usize,
            pages_behind: drive.cached_sectors.div_ceil(drive.write_min_sectors),
            next: 1,
            safe: 0,
            saving: None,
            dirty: false,
            dead: false,
            unsaved_erases: 0,
            kept: BTreeMap::new(),
            commits: VecDeque::new(),
        }
    }

    /// Continues after the record before `next`, in these rings.
    pub fn resume(&mut self, next: u64, rings: Vec<Ring>) {
        (self.next, self.rings) = (next, rings);
    }

    /// Drops everything in flight after a power cut.
    pub fn forget(&mut self) {
        (self.saving, self.dirty, self.dead) = (None, false, false);
        self.commits.clear();
    }

    /// The chunks of each ring.
    pub fn chunks(&self) -> &[Vec<u32>; 2] {
        &self.chunks
    }

    /// Reports whether a chunk of the drive is for records.
    pub fn keeps(&self, chunk: u32) -> bool {
        self.chunks.iter().any(|ring| ring.contains(&chunk))
    }

    /// Number of pages for this many bytes.
    pub fn pages_of(&self, bytes: usize) -> u32 {
        bytes.div_ceil(self.page_bytes) as u32
    }

    /// Pages of a record of the given size, including the following pages that make it readable.
    pub fn record_pages(&self, bytes: usize) -> u32 {
        self.pages_of(bytes) + self.pages_behind
    }

    /// Returns whether records can no longer be written.
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// Returns whether the record of this number is on the media.
    pub fn is_safe(&self, number: u64) -> bool {
        self.safe >= number
    }

    /// Notes a change of the state; returns the number of the record that will contain it.
    pub fn changed(&mut self) -> u64 {
        self.dirty = true;
        self.next
    }

    /// Notes a change of the state, with a commit that follows when the change is on the media, or at once if it never will be.
    pub fn changed_then(&mut self, commit: Commit) {
        let number = self.changed();
        self.commits.push_back((number, commit));
    }

    /// Takes the waiters of records that are durable, or never will be.
    pub fn next_due(&mut self) -> Option<Commit> {
        let due = self.commits.front().is_some_and(|&(number, _)| self.is_safe(number) || self.dead);
        due.then(|| self.commits.pop_front()).flatten().map(|(_, commit)| commit)
    }

    /// Returns whether anything waits for a record.
    pub fn has_commits(&self) -> bool {
        !self.commits.is_empty()
    }

    /// Counts an erase; after `most` uncounted ones, the state is written.
    pub fn count_erase(&mut self, most: u32) {
        self.unsaved_erases += 1;
        if self.unsaved_erases >= most {
            self.changed();
        }
    }

    /// Number of the record to be written now.
    pub fn wanted(&self) -> Option<u64> {
        (self.dirty && self.saving.is_none() && !self.dead).then_some(self.next)
    }

    /// Starts the wanted record. Returns what each ring needs.
    pub fn begin(&mut self, bytes: Vec<u8>) -> Vec<Want> {
        assert!(self.saving.is_none(), "one record is on its way");
        let (number, pages) = (self.next, self.record_pages(bytes.len()));
        (self.dirty, self.unsaved_erases) = (false, 0);
        self.next += 1;
        self.saving = Some(Saving { number, bytes, pages, left: self.rings.len() as u32, ok: false });
        self.rings.iter_mut().map(|ring| ring.begin(pages)).collect()
    }

    /// Pages of one write of the record from page `from` on: how many, and their bytes.
    pub fn pages(&self, from: u32) -> (u32, Vec<u8>) {
        let saving = self.saving.as_ref().expect("a record on its way");
        let pages = (WRITE_SECTORS / self.page_sectors).max(1).min(saving.pages - from);
        let length = pages as usize * self.page_bytes;
        let first = (from as usize * self.page_bytes).min(saving.bytes.len());
        let mut data = saving.bytes[first..(first + length).min(saving.bytes.len())].to_vec();
        data.resize(length, 0);
        (pages, data)
    }

    /// Keeps pages of a chunk for a drive that does not keep data.
    pub fn keep_pages(&mut self, chunk: u32, page: u32, data: &[u8]) {
        for (at, content) in (page..).zip(data.chunks_exact(self.page_bytes)) {
            self.kept.insert((chunk, at), content.to_vec());
        }
    }

    /// A page that the drive does not keep.
    pub fn kept_page(&self, chunk: u32, page: u32) -> Vec<u8> {
        self.kept.get(&(chunk, page)).cloned().unwrap_or_default()
    }

    /// Handles the end of a reset in a ring.
    pub fn reset_ended(&mut self, ring: usize, ok: bool) -> Want {
        self.rings[ring].reset_ended(ok)
    }

    /// Handles the end of a write of pages in a ring.
    pub fn write_ended(&mut self, ring: usize, pages: u32, ok: bool) -> Want {
        self.rings[ring].write_ended(pages, ok)
    }

    /// Notes that a ring has the record, or never will.
    pub fn ring_done(&mut self, ok: bool) {
        let saving = self.saving.as_mut().expect("a record on its way");
        saving.ok |= ok;
        saving.left -= 1;
        if saving.left > 0 {
            return;
        }
        match saving.ok {
            true => self.safe = saving.number,
            false => self.dead = true,
        }
        self.saving = None;
    }
}
