//! The data buffer: entries of one mapping unit, found by logical page.
//!
//! ```text
//!   vacant ──► busy (DMA, fill, packed, programming) ◄──► idle (clean or dirty; in LRU order) ──► vacant
//! ```
//! An entry is *listed* while it is the one that a request for its logical page must use. While its program runs, a new
//! write to the page gets a new entry (a copy), and the old one is *unlisted* until its program ends. So data
//! handed to a program never change.
//!
//! Invariants: a listed entry is found under its logical page and no other; an entry is in the LRU list if and only if it
//! is idle; `dirty` is a subset of `valid`, or the entry is wanted and will be filled first; writes hold at most as many entries
//! as are theirs.
//!
//! An entry is *held by a write* from the moment at which a write takes it until it is clean and idle, or vacant. So the entries
//! reserved for reads need no fixed places: they are the entries not held by writes.

mod entry;
mod parts;

pub(crate) use parts::{Admitted, Sectors, Users, Waiters};

use crate::config::DataBuffer;
use pellucid_flash::slab::NIL;
use pellucid_flash::{Lpn, Ppa, SimTime};

/// State of an entry on the flash side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing.
    Resting,
    /// A flash read brings the missing sectors; `completing`: for a program.
    Filling { completing: bool },
    /// It waits for a superpage.
    Packed,
    /// Its program is planned and has not ended.
    Programming,
}

/// Content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Data of its page; `valid` says which sectors.
    Data,
    /// The last fill left none, because no read could see them.
    Hollow,
    /// All sectors of the page count as present but are only on the media: the fill delivered them directly to the waiting hosts. So
    /// data that are not requested again are never copied.
    OnMedia,
    /// Zeros that no command wrote: its page has no place on the media, and will get none from here.
    Unmapped,
}

/// One mapping unit's worth of buffer.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    lpn: Lpn,
    sectors: Sectors,
    /// When the newest write of it was submitted.
    written_at: SimTime,
    users: Users,
    /// Writes of the drive that had arrived when it was packed.
    packed_at: u64,
    phase: Phase,
    content: Content,
    /// It must go to the media as soon as it can.
    wanted: bool,
    /// Its program has failed before.
    again: bool,
    /// It waits for the address of its page.
    mapping: bool,
    /// Found by its logical page.
    listed: bool,
    /// The flush in progress waits for it.
    flushing: bool,
    /// Trimmed while packed: its data are not needed.
    dropped: bool,
    admitted: Admitted,
    /// First in, first out: the earlier entry of the page whose program this entry follows without copying any of its data.
    follows: u32,
    /// Placement handle of the newest write.
    handle: u16,
    /// Next entry filled by the same sense, and the position of its unit.
    beside: u32,
    source: Ppa,
    waiters: Waiters,
    /// No page has it.
    vacant: bool,
    /// Held by a write.
    written: bool,
    in_lru: bool,
    /// When it became idle, counted in such moments.
    used: u64,
    previous: u32,
    next: u32,
}

/// A listed entry in the table, with its page: a look-up that finds another one need not look at its entry.
#[derive(Clone, Copy, Debug)]
struct Listed {
    lpn: Lpn,
    at: u32,
}

const UNLISTED: Listed = Listed { lpn: Lpn::NONE, at: NIL };

/// Idle entries in order of use. Clean and dirty entries have separate lists, so the oldest of either is found at once.
#[derive(Clone, Copy, Debug)]
struct Lru {
    newest: u32,
    oldest: u32,
}

const VACANT: Entry = Entry {
    lpn: Lpn::NONE,
    sectors: Sectors::NONE,
    written_at: SimTime::ZERO,
    users: Users::NONE,
    packed_at: 0,
    phase: Phase::Resting,
    content: Content::Data,
    wanted: false,
    again: false,
    mapping: false,
    listed: false,
    flushing: false,
    dropped: false,
    admitted: Admitted::NONE,
    follows: NIL,
    handle: 0,
    beside: NIL,
    source: Ppa::NONE,
    waiters: Waiters::NONE,
    vacant: true,
    written: false,
    in_lru: false,
    used: 0,
    previous: NIL,
    next: NIL,
};

/// All entries of a drive, with their content.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    entries: Vec<Entry>,
    images: Vec<u8>,
    image_bytes: usize,
    unit_images: usize,
    vacant: Vec<u32>,
    table: Vec<Listed>,
    mask: u32,
    /// Clean, dirty.
    lru: [Lru; 2],
    uses: u64,
    dirty_idle: u32,
    /// Entries that writes hold, and how many they may.
    written: u32,
    write_limit: u32,
}

impl Buffer {
    /// Entries of `sectors` sector images of `image_bytes` each.
    pub fn new(config: &DataBuffer, sectors: u32, image_bytes: usize) -> Buffer {
        let count = config.entries + config.read_entries;
        let slots = (2 * count).next_power_of_two().max(16);
        Buffer {
            entries: vec![VACANT; count as usize],
            images: vec![0; count as usize * sectors as usize * image_bytes],
            image_bytes,
            unit_images: sectors as usize * image_bytes,
            vacant: (0..count).rev().collect(),
            table: vec![UNLISTED; slots as usize],
            mask: slots - 1,
            lru: [Lru { newest: NIL, oldest: NIL }; 2],
            uses: 0,
            dirty_idle: 0,
            written: 0,
            write_limit: config.entries,
        }
    }

    #[inline]
    fn slot(&self, lpn: Lpn) -> u32 {
        lpn.0.wrapping_mul(0x9e37_79b1) >> 8 & self.mask
    }

    /// Prefetches the place in the table at which a look-up of `lpn` begins.
    #[inline]
    pub fn prefetch(&self, lpn: Lpn) {
        prefetch_index::prefetch_index(&self.table, self.slot(lpn) as usize);
    }

    /// The entry that requests for `lpn` must use.
    #[inline]
    pub fn find(&self, lpn: Lpn) -> Option<u32> {
        let mut slot = self.slot(lpn);
        loop {
            let listed = self.table[slot as usize];
            if listed.at == NIL {
                return None;
            }
            if listed.lpn == lpn {
                return Some(listed.at);
            }
            slot = (slot + 1) & self.mask;
        }
    }

    /// Returns the first page from `from` on with sectors newer than on the media, and the number of entries examined.
    pub fn next_dirty(&self, from: Lpn) -> (Option<Lpn>, u64) {
        let dirty = self.entries.iter().filter(|entry| entry.listed && entry.sectors.dirty() != 0);
        let lpns = dirty.map(|entry| entry.lpn).filter(|&lpn| lpn >= from);
        (lpns.min(), self.entries.len() as u64)
    }

    /// Takes a vacant entry for `lpn` and lists it.
    #[inline]
    pub fn take(&mut self, lpn: Lpn) -> Option<u32> {
        let at = self.vacant.pop()?;
        let entry = &mut self.entries[at as usize];
        (entry.lpn, entry.sectors) = (lpn, Sectors::NONE);
        (entry.content, entry.follows, entry.vacant) = (Content::Data, NIL, false);
        self.list(at);
        Some(at)
    }

    /// Requests for the entry's page find it from now on. No other entry of the page may be listed.
    #[inline]
    pub fn list(&mut self, at: u32) {
        let entry = &mut self.entries[at as usize];
        entry.listed = true;
        let lpn = entry.lpn;
        let mut slot = self.slot(lpn);
        while self.table[slot as usize].at != NIL {
            slot = (slot + 1) & self.mask;
        }
        self.table[slot as usize] = Listed { lpn, at };
    }

    /// Requests for the entry's page no longer find it.
    #[inline]
    pub fn unlist(&mut self, at: u32) {
        if !self.entries[at as usize].listed {
            return;
        }
        self.entries[at as usize].listed = false;
        let mut hole = self.slot(self.entries[at as usize].lpn);
        while self.table[hole as usize].at != at {
            hole = (hole + 1) & self.mask;
        }
        // Close the gap, so that no probe sequence is cut.
        let mut slot = (hole + 1) & self.mask;
        while self.table[slot as usize].at != NIL {
            let home = self.slot(self.table[slot as usize].lpn);
            if (slot.wrapping_sub(home) & self.mask) >= (slot.wrapping_sub(hole) & self.mask) {
                self.table[hole as usize] = self.table[slot as usize];
                hole = slot;
            }
            slot = (slot + 1) & self.mask;
        }
        self.table[hole as usize] = UNLISTED;
    }

    /// Returns whether a write must wait before it takes another entry.
    #[inline]
    pub fn writes_are_full(&self) -> bool {
        self.written >= self.write_limit
    }

    /// Returns whether a write may take the entry `at`, which is listed.
    #[inline]
    pub fn takes_write(&self, at: u32) -> bool {
        self.entries[at as usize].written || !self.writes_are_full()
    }

    /// Returns whether a write holds the entry.
    #[inline]
    pub fn is_of_write(&self, at: u32) -> bool {
        self.entries[at as usize].written
    }

    /// A write takes the entry.
    #[inline]
    pub fn hold_for_write(&mut self, at: u32) {
        let held = std::mem::replace(&mut self.entries[at as usize].written, true);
        self.written += u32::from(!held);
    }

    #[inline]
    fn let_go(&mut self, at: u32) {
        let held = std::mem::take(&mut self.entries[at as usize].written);
        self.written -= u32::from(held);
    }

    /// Gives the entry back.
    #[inline]
    pub fn vacate(&mut self, at: u32) {
        self.unlist(at);
        self.busy(at);
        self.let_go(at);
        let entry = &mut self.entries[at as usize];
        debug_assert!(!entry.users.any() && entry.phase == Phase::Resting);
        debug_assert!(
            !entry.flushing && !entry.admitted.is_pinned() && entry.sectors.dirty() == 0,
            "vacating {entry:?}"
        );
        (entry.wanted, entry.dropped, entry.flushing, entry.again) = (false, false, false, false);
        assert!(!std::mem::replace(&mut entry.vacant, true), "entry {at} vacated twice");
        self.vacant.push(at);
    }

    /// One more entry: for reads, when all others hold data that can no longer be written.
    pub fn grow(&mut self) {
        self.vacant.push(self.entries.len() as u32);
        self.entries.push(VACANT);
        self.images.resize(self.entries.len() * self.unit_images, 0);
        // The table has twice as many slots as there were entries; it stays sparse enough.
        debug_assert!(self.entries.len() < self.table.len());
    }

    /// Returns whether an entry is vacant.
    pub fn has_vacant(&self) -> bool {
        !self.vacant.is_empty()
    }

    /// The entry is used: out of the LRU list.
    #[inline]
    pub fn busy(&mut self, at: u32) {
        let Entry { in_lru, previous, next, sectors, .. } = self.entries[at as usize];
        if !in_lru {
            return;
        }
        let is_dirty = sectors.dirty() != 0;
        self.dirty_idle -= u32::from(is_dirty);
        self.entries[at as usize].in_lru = false;
        let lru = &mut self.lru[usize::from(is_dirty)];
        match previous {
            NIL => lru.newest = next,
            p => self.entries[p as usize].next = next,
        }
        match next {
            NIL => {
                lru.oldest = previous;
                // The next one to be given away.
                prefetch_index::prefetch_index(&self.entries, previous as usize);
            }
            n => self.entries[n as usize].previous = previous,
        }
    }

    /// The entry is idle: the most recently used of the LRU list.
    #[inline]
    pub fn idle(&mut self, at: u32) {
        self.busy(at);
        if self.entries[at as usize].sectors.dirty() == 0 {
            self.let_go(at);
        }
        self.uses += 1;
        let entry = &mut self.entries[at as usize];
        let lru = &mut self.lru[usize::from(entry.sectors.dirty() != 0)];
        (entry.in_lru, entry.used, entry.previous, entry.next) = (true, self.uses, NIL, lru.newest);
        self.dirty_idle += u32::from(entry.sectors.dirty() != 0);
        match std::mem::replace(&mut lru.newest, at) {
            NIL => lru.oldest = at,
            n => self.entries[n as usize].previous = at,
        }
    }

    /// The least recently used idle entry.
    #[inline]
    pub fn oldest(&self) -> Option<u32> {
        match (self.oldest_clean(), self.oldest_dirty()) {
            (Some(clean), Some(dirty)) => {
                let first = self.entries[clean as usize].used < self.entries[dirty as usize].used;
                Some(if first { clean } else { dirty })
            }
            (clean, dirty) => clean.or(dirty),
        }
    }

    /// The least recently used idle entry that is dirty.
    #[inline]
    pub fn oldest_dirty(&self) -> Option<u32> {
        let at = self.lru[1].oldest;
        (at != NIL).then_some(at)
    }

    /// The least recently used idle entry that is clean.
    #[inline]
    pub fn oldest_clean(&self) -> Option<u32> {
        let at = self.lru[0].oldest;
        (at != NIL).then_some(at)
    }

    /// Idle entries that hold newer data than the media.
    pub fn dirty_idle(&self) -> u32 {
        self.dirty_idle
    }

    /// How many entries writes may hold.
    pub fn write_limit(&self) -> u32 {
        self.write_limit
    }

    /// All entries.
    pub fn count(&self) -> u32 {
        self.entries.len() as u32
    }

    /// The content of sectors `first..first + sectors`.
    #[inline]
    pub fn images(&self, at: u32, first: u32, sectors: u32) -> &[u8] {
        let start = at as usize * self.unit_images + first as usize * self.image_bytes;
        &self.images[start..start + sectors as usize * self.image_bytes]
    }

    /// The content of sectors `first..first + sectors`, to be written.
    #[inline]
    pub fn images_mut(&mut self, at: u32, first: u32, sectors: u32) -> &mut [u8] {
        let start = at as usize * self.unit_images + first as usize * self.image_bytes;
        &mut self.images[start..start + sectors as usize * self.image_bytes]
    }

    /// Copies the content of one entry to another, which then has the same sectors.
    pub fn copy(&mut self, from: u32, to: u32) {
        debug_assert!(self.entries[from as usize].content != Content::OnMedia, "a copy of what is not here");
        let sectors = self.entries[from as usize].sectors;
        self.entries[to as usize].sectors.copy(sectors);
        let from = from as usize * self.unit_images;
        self.images.copy_within(from..from + self.unit_images, to as usize * self.unit_images);
    }

    /// The sense that fills `head` also fills `entry`, whose unit lies at `source`.
    pub fn fill_beside(&mut self, head: u32, entry: u32, source: Ppa) {
        let beside = std::mem::replace(&mut self.entries[head as usize].beside, entry);
        let entry = &mut self.entries[entry as usize];
        (entry.beside, entry.source) = (beside, source);
    }

    /// The flush in progress that waits for `from` waits for `to` instead, if it does not do so already.
    pub fn pass_flush(&mut self, from: u32, to: u32) {
        if self.entries[from as usize].flushing && !self.entries[to as usize].flushing {
            self.entries[from as usize].flushing = false;
            self.entries[to as usize].flushing = true;
        }
    }

    /// Copies these sectors from one entry to another, which has them then.
    pub fn copy_sectors(&mut self, from: u32, to: u32, sectors: u64) {
        for sector in (0..64).filter(|sector| sectors >> sector & 1 != 0) {
            let [from, to] = [from, to].map(|at| at as usize * self.unit_images + sector * self.image_bytes);
            self.images.copy_within(from..from + self.image_bytes, to);
        }
        self.entries[to as usize].sectors.fill(sectors);
    }

    pub fn memory_bytes(&self) -> u64 {
        (self.entries.len() * size_of::<Entry>() + self.images.len() + self.table.len() * size_of::<Listed>())
            as u64
    }

    /// Returns the number of pages with acknowledged data that are not on the media.
    pub fn unsaved(&self) -> u64 {
        let is_unsaved = |entry: &&Entry| {
            let written = entry.sectors.dirty() != 0 || entry.phase == Phase::Programming;
            let acknowledged = entry.waiters.for_program().is_empty() && !entry.users.any_writes();
            !entry.vacant && entry.listed && !entry.dropped && written && acknowledged
        };
        self.entries.iter().filter(is_unsaved).count() as u64
    }

    /// Walks the table and the LRU list and panics where they disagree with the entries.
    pub fn check(&self) {
        for (at, entry) in self.entries.iter().enumerate() {
            let newer = entry.sectors.dirty() != 0 || entry.phase != Phase::Resting;
            assert!(
                entry.content != Content::OnMedia || !newer,
                "entry {at}: its data are not here: {entry:?}"
            );
            let covered = entry.sectors.dirty() & !entry.sectors.valid() == 0 || entry.wanted;
            assert!(covered, "entry {at}: dirty sectors that are not valid");
            if entry.listed {
                assert_eq!(self.find(entry.lpn), Some(at as u32), "entry {at}: not found by its page");
            }
        }
        for entry in &self.entries {
            assert!(entry.written || entry.sectors.dirty() == 0, "dirty, and no write holds it: {entry:?}");
        }
        assert_eq!(
            self.written as usize,
            self.entries.iter().filter(|e| e.written).count(),
            "held by writes"
        );
        let listed = self.entries.iter().filter(|e| e.listed).count();
        assert_eq!(listed, self.table.iter().filter(|listed| listed.at != NIL).count(), "listed entries");
        let mut count = 0;
        for (dirty, lru) in [false, true].into_iter().zip(&self.lru) {
            let (mut at, mut later) = (lru.newest, u64::MAX);
            while at != NIL {
                let entry = &self.entries[at as usize];
                assert!(entry.in_lru && !entry.users.any() && entry.phase == Phase::Resting);
                assert!(
                    (entry.sectors.dirty() != 0) == dirty && entry.used < later,
                    "entry {at}: place in its list"
                );
                later = entry.used;
                count += 1;
                at = entry.next;
            }
        }
        assert_eq!(count, self.entries.iter().filter(|e| e.in_lru).count(), "idle entries");
    }
}

impl std::ops::Index<u32> for Buffer {
    type Output = Entry;
    #[inline]
    fn index(&self, at: u32) -> &Entry {
        &self.entries[at as usize]
    }
}

impl std::ops::IndexMut<u32> for Buffer {
    /// `dirty` of an idle entry must not be changed through this: take it out of the LRU list first.
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut Entry {
        &mut self.entries[at as usize]
    }
}
