//! Parts of an entry, each with a rule of its own.

use crate::front::commands::Slice;
use pellucid_flash::slab::{List, Slab};

/// Sectors of an entry, one bit each. Invariant: dirty ones are valid, unless the entry took them over and will be filled before it goes to
/// the media.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sectors {
    valid: u64,
    dirty: u64,
    blank: u64,
}

impl Sectors {
    pub const NONE: Sectors = Sectors { valid: 0, dirty: 0, blank: 0 };

    /// Sectors whose content is here.
    #[inline]
    pub fn valid(&self) -> u64 {
        self.valid
    }

    /// Sectors newer than on the media.
    #[inline]
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Sectors filled with zeros, because the page has no place on the media.
    #[inline]
    pub fn blank(&self) -> u64 {
        self.blank
    }

    /// Returns whether the sectors of `mask` are present.
    #[inline]
    pub fn has(&self, mask: u64) -> bool {
        self.valid & mask == mask
    }

    /// A write has brought those of `mask`.
    #[inline]
    pub fn write(&mut self, mask: u64) {
        self.valid |= mask;
        self.dirty |= mask;
        self.blank &= !mask;
    }

    /// Adds those of `mask`, as they are on the media or in another entry.
    #[inline]
    pub fn fill(&mut self, mask: u64) {
        self.valid |= mask;
    }

    /// Makes those of `full` that are missing zeros.
    pub fn fill_blank(&mut self, full: u64) {
        self.blank = full & !self.valid;
        self.valid = full;
    }

    /// Sets the entry's sectors to those of another entry.
    pub fn copy(&mut self, of: Sectors) {
        self.valid = of.valid;
    }

    /// Everything that is here is new.
    pub fn rewrite(&mut self) {
        self.dirty = self.valid;
    }

    /// Takes over new ones of another entry of the page.
    pub fn take_over(&mut self, dirty: u64) {
        self.dirty |= dirty;
    }

    /// Marks all sectors as clean, and returns the previously dirty ones.
    #[inline]
    pub fn clean(&mut self) -> u64 {
        std::mem::take(&mut self.dirty)
    }

    /// Nothing is here.
    pub fn lose(&mut self) {
        (self.valid, self.dirty) = (0, 0);
    }
}

/// Host DMAs of an entry, in progress or scheduled. Invariant: readers are users.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Users {
    all: u32,
    /// Users for which the content does not change while it is programmed.
    readers: u32,
}

impl Users {
    pub const NONE: Users = Users { all: 0, readers: 0 };

    /// Returns whether there is one.
    #[inline]
    pub fn any(&self) -> bool {
        self.all > 0
    }

    /// Returns whether one of them changes the content.
    #[inline]
    pub fn any_writes(&self) -> bool {
        self.all > self.readers
    }

    /// One more.
    #[inline]
    pub fn hold(&mut self) {
        self.all += 1;
    }

    /// One less.
    #[inline]
    pub fn let_go(&mut self) {
        assert!(self.all > self.readers, "an entry without users but {} readers is let go", self.readers);
        self.all -= 1;
    }

    /// One more, which only reads.
    #[inline]
    pub fn hold_for_read(&mut self) {
        (self.all, self.readers) = (self.all + 1, self.readers + 1);
    }

    /// One reads no more, and is to be [let go](Users::let_go).
    #[inline]
    pub fn end_read(&mut self) {
        self.readers -= 1;
    }
}

/// Slices that wait for an entry, in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiters {
    fill: List,
    program: List,
}

impl Waiters {
    pub const NONE: Waiters = Waiters { fill: List::EMPTY, program: List::EMPTY };

    /// Slices that wait for the fill.
    #[inline]
    pub fn for_fill(&self) -> List {
        self.fill
    }

    /// Slices that are acknowledged when the entry is programmed.
    #[inline]
    pub fn for_program(&self) -> List {
        self.program
    }

    /// A slice waits for the fill.
    #[inline]
    pub fn await_fill(&mut self, slices: &mut Slab<Slice>, slice: u32) {
        self.fill.push_back(slices, slice);
    }

    /// Slices that wait for the fill wait no longer.
    #[inline]
    pub fn take_for_fill(&mut self) -> List {
        self.fill.take()
    }

    /// A slice waits until the entry is programmed.
    #[inline]
    pub fn await_program(&mut self, slices: &mut Slab<Slice>, slice: u32) {
        self.program.push_back(slices, slice);
    }

    /// Slices that wait for the program wait no longer.
    #[inline]
    pub fn take_for_program(&mut self) -> List {
        self.program.take()
    }
}

/// State of an entry's page in a cache: it is admitted once for each entry that holds newer data of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pinned: bool,
    dirty: bool,
}

impl Admitted {
    pub const NONE: Admitted = Admitted { pinned: false, dirty: false };

    /// Returns whether the page keeps its slot of the table for the entry.
    pub fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// The page keeps its slot for the entry; `true`: it did so before.
    #[inline]
    pub fn pin(&mut self) -> bool {
        std::mem::replace(&mut self.pinned, true)
    }

    /// The page keeps its slot for the entry no longer; `false`: it did not.
    #[inline]
    pub fn unpin(&mut self) -> bool {
        std::mem::take(&mut self.pinned)
    }

    /// Returns whether the newest data are dirty. An eviction while the entry is programmed does not change this: a power cut brings the old state
    /// back.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    #[inline]
    pub fn set_dirty(&mut self, dirty: bool) {
        self.dirty = dirty;
    }
}
