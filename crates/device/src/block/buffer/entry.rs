//! Entry of the data buffer: its queries and all its state changes.
//!
//! ```text
//!            begin_fill ─► Filling ─► end_fill
//!  Resting ─┤                                 ├─► Resting
//!            pack ─► Packed ─► program ─► Programming ─► rest
//! ```
//! Its place in the table and in the order of use is its buffer's to change.

use super::{Admitted, Content, Entry, Phase, Sectors, Users, Waiters};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Lpn, Ppa, SimTime};

// ---- what it tells

impl Entry {
    /// Its sectors.
    #[inline]
    pub fn sectors(&self) -> &Sectors {
        &self.sectors
    }

    /// Host DMAs.
    #[inline]
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Host DMAs, to be counted.
    #[inline]
    pub fn users_mut(&mut self) -> &mut Users {
        &mut self.users
    }

    /// Slices that wait for it.
    #[inline]
    pub fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// Slices that wait for it, to be changed.
    #[inline]
    pub fn waiters_mut(&mut self) -> &mut Waiters {
        &mut self.waiters
    }

    /// State of its page in a cache.
    #[inline]
    pub fn admitted(&self) -> &Admitted {
        &self.admitted
    }

    /// State of its page in a cache, to be changed.
    #[inline]
    pub fn admitted_mut(&mut self) -> &mut Admitted {
        &mut self.admitted
    }

    /// The page.
    #[inline]
    pub fn lpn(&self) -> Lpn {
        self.lpn
    }

    /// When the newest write of it was submitted.
    #[inline]
    pub fn written_at(&self) -> SimTime {
        self.written_at
    }

    /// Placement handle of the newest write.
    #[inline]
    pub fn handle(&self) -> u16 {
        self.handle
    }

    /// Writes of the drive that had arrived when it was packed.
    #[inline]
    pub fn packed_at(&self) -> u64 {
        self.packed_at
    }

    /// State on the flash side.
    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Kind of its content.
    #[inline]
    pub fn content(&self) -> Content {
        self.content
    }

    /// Where the unit is that the sense of another entry brings.
    #[inline]
    pub fn source(&self) -> Ppa {
        self.source
    }

    /// First in, first out: the earlier entry of the page whose program it follows.
    #[inline]
    pub fn follows(&self) -> u32 {
        self.follows
    }

    /// Returns whether it must go to the media as soon as it can.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Returns whether it must go to the media, and lacks sectors of the old content for that. `full`: all sectors of a unit.
    #[inline]
    pub fn awaits_the_rest(&self, full: u64) -> bool {
        self.wanted && !self.sectors.has(full)
    }

    /// Returns whether its program has failed before.
    #[inline]
    pub fn is_again(&self) -> bool {
        self.again
    }

    /// Returns whether requests for its page find it.
    #[inline]
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// Returns whether the flush in progress waits for it.
    #[inline]
    pub fn is_flushing(&self) -> bool {
        self.flushing
    }

    /// Returns whether its data are not needed: trimmed while packed.
    #[inline]
    pub fn is_dropped(&self) -> bool {
        self.dropped
    }

    /// Returns whether the entry cannot go to the media now: its data are changing, or it is on its way already.
    #[inline]
    pub fn is_occupied(&self) -> bool {
        self.users.any_writes() || self.mapping || self.phase != Phase::Resting
    }

    /// Returns whether a flash read brings the missing sectors.
    #[inline]
    pub fn is_filling(&self) -> bool {
        matches!(self.phase, Phase::Filling { .. })
    }

    /// Returns whether a command waits until the sectors of `mask` are on the media. A write must not join them then: writes that never
    /// pause would keep them from the media.
    #[inline]
    pub fn is_awaited(&self, mask: u64) -> bool {
        self.sectors.dirty() & mask != 0
            && self.phase != Phase::Programming
            && (self.flushing || !self.waiters.for_program().is_empty())
    }
}

// ---- the flash side

impl Entry {
    /// A flash read brings the missing sectors; `completing`: for a program.
    #[inline]
    pub fn begin_fill(&mut self, completing: bool) {
        self.phase = Phase::Filling { completing };
        self.content = if self.content == Content::Hollow { Content::Data } else { self.content };
    }

    /// The fill has ended; says whether it was for a program.
    #[inline]
    pub fn end_fill(&mut self) -> bool {
        std::mem::replace(&mut self.phase, Phase::Resting) == (Phase::Filling { completing: true })
    }

    /// It waits for the address of its page, or no longer.
    #[inline]
    pub fn await_address(&mut self, waits: bool) {
        self.mapping = waits;
    }

    /// It must go to the media as soon as it can.
    #[inline]
    pub fn want(&mut self) {
        self.wanted = true;
    }

    /// It waits for a superpage; `arrived` writes of the drive have.
    #[inline]
    pub fn pack(&mut self, arrived: u64) {
        assert!(self.content != Content::OnMedia, "data that are not here are packed");
        assert!(self.phase == Phase::Resting, "an entry is packed while {:?}", self.phase);
        (self.phase, self.packed_at) = (Phase::Packed, arrived);
    }

    /// Its program is planned.
    #[inline]
    pub fn program(&mut self) {
        assert!(self.phase == Phase::Packed, "an entry is programmed while {:?}", self.phase);
        self.phase = Phase::Programming;
    }

    /// It waits for no superpage, or its program has ended.
    #[inline]
    pub fn rest(&mut self) {
        self.phase = Phase::Resting;
    }

    /// Its data are on the media.
    #[inline]
    pub fn programmed(&mut self) {
        self.sectors.clean();
        (self.wanted, self.again) = (false, false);
    }

    /// Its program has failed.
    pub fn try_again(&mut self) {
        self.again = true;
    }

    /// It can no longer be written. If it was trimmed, or replaced by a newer one, no read will find its data.
    pub fn give_up(&mut self) {
        (self.phase, self.wanted) = (Phase::Resting, false);
        if !self.listed {
            self.sectors.clean();
        }
    }

    /// The flush in progress waits for it from now on; `false`: it holds nothing new, or one waits already.
    pub fn begin_flush(&mut self) -> bool {
        let begins = self.sectors.dirty() != 0 && !self.dropped && !self.flushing;
        self.flushing |= begins;
        begins
    }

    /// The flush in progress waits for it no longer; `false`: none did.
    #[inline]
    pub fn end_flush(&mut self) -> bool {
        std::mem::take(&mut self.flushing)
    }

    /// Takes the entry out of its sense and returns the next entry filled by the same sense.
    #[inline]
    pub fn take_beside(&mut self) -> u32 {
        std::mem::replace(&mut self.beside, NIL)
    }
}

// ---- content

impl Entry {
    /// A write has brought the sectors of `mask`.
    #[inline]
    pub fn store(&mut self, mask: u64, submitted: SimTime, handle: u16) {
        self.sectors.write(mask);
        self.written_at = self.written_at.max(submitted);
        (self.content, self.handle) = (Content::Data, handle);
    }

    /// All sectors are here.
    #[inline]
    pub fn fill(&mut self, full: u64) {
        self.sectors.fill(full);
    }

    /// Records that the fill delivered data only to hosts, not to the entry. `full`: mask of all sectors, which count
    /// as present; 0: none do.
    #[inline]
    pub fn fill_past(&mut self, full: u64) {
        self.content = if full == 0 { Content::Hollow } else { Content::OnMedia };
        self.sectors.fill(full);
    }

    /// The data that lay on the media alone are here now. `is_good`: if not, they count as here no longer, and a fill must bring them.
    pub fn bring(&mut self, is_good: bool) {
        assert!(self.content == Content::OnMedia && self.sectors.dirty() == 0, "brought, but here: {self:?}");
        self.content = Content::Data;
        if !is_good {
            self.sectors.lose();
        }
    }

    /// Missing sectors are zeros. With sectors that were written, the page is on its way to a place.
    pub fn fill_blank(&mut self, full: u64) {
        self.content = if self.sectors.valid() == 0 { Content::Unmapped } else { Content::Data };
        self.sectors.fill_blank(full);
    }

    /// Everything that is here is written anew, and must go to the media.
    pub fn rewrite(&mut self) {
        self.sectors.rewrite();
        (self.wanted, self.content) = (true, Content::Data);
    }

    /// The page was trimmed.
    pub fn unmap(&mut self) {
        self.sectors.clean();
        (self.wanted, self.content) = (false, Content::Unmapped);
    }

    /// The page has left the cache.
    pub fn evict(&mut self) {
        self.sectors.lose();
        (self.wanted, self.content) = (false, Content::Data);
    }

    /// Its new sectors cannot be stored.
    pub fn lose(&mut self) {
        self.sectors.lose();
        self.wanted = false;
    }

    /// Its data, which wait for a superpage, are not needed.
    pub fn drop_data(&mut self) {
        assert!(self.phase == Phase::Packed, "data are dropped while {:?}", self.phase);
        self.dropped = true;
    }

    /// Another entry of the page takes its new sectors over; gives them.
    pub fn take_dirty(&mut self) -> u64 {
        self.sectors.clean()
    }

    /// Sectors of an older entry of the page are new here.
    pub fn take_over(&mut self, dirty: u64, written_at: SimTime) {
        self.sectors.take_over(dirty);
        self.written_at = self.written_at.max(written_at);
    }

    /// First in, first out: the program of this entry follows that of `old`, from which it copies
    /// nothing.
    pub fn follow(&mut self, old: u32) {
        self.follows = old;
    }
}

#[cfg(test)]
mod tests {
    use super::super::VACANT;
    use super::*;

    /// Sectors that a fill made up are blank until a write brings them; those that were written are not.
    #[test]
    fn blank_sectors_are_those_that_no_write_brought() {
        let mut entry = VACANT;
        entry.store(0b0001, SimTime::ZERO, 0);
        entry.fill_blank(0b1111);
        let sectors = entry.sectors();
        assert_eq!((sectors.valid(), sectors.blank(), entry.content()), (0b1111, 0b1110, Content::Data));
        entry.store(0b0110, SimTime::ZERO, 0);
        assert_eq!((entry.sectors().dirty(), entry.sectors().blank()), (0b0111, 0b1000));
        let mut unwritten = VACANT;
        unwritten.fill_blank(0b1111);
        assert_eq!(unwritten.content(), Content::Unmapped);
    }

    /// A flush counts an entry once, and one without new data not at all.
    #[test]
    fn a_flush_waits_once_for_an_entry() {
        let mut entry = VACANT;
        assert!(!entry.begin_flush());
        entry.store(1, SimTime::ZERO, 0);
        assert!(entry.begin_flush() && !entry.begin_flush());
        assert!(entry.end_flush() && !entry.end_flush());
    }

    #[test]
    #[should_panic = "an entry is packed while Packed"]
    fn an_entry_is_packed_once() {
        let mut entry = VACANT;
        entry.pack(0);
        entry.pack(0);
    }

    #[test]
    #[should_panic = "an entry without users but 1 readers is let go"]
    fn a_reader_ends_before_it_lets_go() {
        let mut entry = VACANT;
        entry.users_mut().hold_for_read();
        entry.users_mut().let_go();
    }
}
