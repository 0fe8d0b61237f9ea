//! Reads: the sectors that a command to the drive reads, and for whom.

use pellucid_flash::Ppa;
use pellucid_ftl::Move;

/// User of a read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Purpose {
    /// Command of the application.
    Request(u32),
    #[default]
    Gc,
}

/// Read with the drive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Read {
    purpose: Purpose,
    /// Address of each sector, and its index in the command.
    sectors: Vec<(Ppa, u32)>,
    /// GC copies of the sectors, with their causes.
    copies: Vec<Move>,
    attempts: u32,
    /// The buffer is the command's own.
    whole: bool,
}

impl Read {
    /// Begins a read for a command of the application.
    #[inline]
    pub fn begin(&mut self, request: u32) {
        self.purpose = Purpose::Request(request);
        self.sectors.clear();
        (self.attempts, self.whole) = (0, false);
    }

    /// Begins a read for GC, of the sectors that were gathered as copies; returns their number.
    pub fn begin_copies(&mut self) -> u64 {
        assert!(!self.copies.is_empty(), "a read of GC reads nothing");
        self.purpose = Purpose::Gc;
        (self.attempts, self.whole) = (0, false);
        self.sectors.clear();
        self.sectors.extend(self.copies.iter().zip(0..).map(|(moved, i)| (moved.from, i)));
        self.sectors.len() as u64
    }

    #[inline]
    pub fn add(&mut self, sector: Ppa, index: u32) {
        self.sectors.push((sector, index));
    }

    /// Notes that the read is a whole command of `sectors` sectors, if it is; returns whether.
    #[inline]
    pub fn is_all_of(&mut self, sectors: u32) -> bool {
        self.whole = self.sectors.len() == sectors as usize;
        self.whole
    }

    #[inline]
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    #[inline]
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    #[inline]
    pub fn is_gc(&self) -> bool {
        matches!(self.purpose, Purpose::Gc)
    }

    #[inline]
    pub fn sectors(&self) -> &[(Ppa, u32)] {
        &self.sectors
    }

    /// Counts a failed attempt; returns `false` if there were already `most`.
    pub fn tries_again(&mut self, most: u32) -> bool {
        let again = self.attempts < most;
        self.attempts += u32::from(again);
        again
    }

    #[inline]
    pub fn copies(&self) -> &[Move] {
        &self.copies
    }

    #[inline]
    pub fn take_copies(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.copies)
    }

    /// Sets the copies, or brings their list back for reuse.
    #[inline]
    pub fn put_copies(&mut self, copies: Vec<Move>) {
        self.copies = copies;
    }
}
