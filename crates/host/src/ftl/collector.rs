//! Collector: the sectors that GC is reading, which have places in the ring reserved.

/// Reads of GC under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collector {
    /// Number of sectors being read.
    reading: u32,
    /// GC found no victim at the last attempt, and is to search again.
    unfinished: bool,
    /// Reads of sectors that the drive still holds back.
    deferred: Vec<u32>,
}

impl Collector {
    /// Returns the number of sectors being read.
    #[inline]
    pub fn reading(&self) -> u32 {
        self.reading
    }

    /// Reserves places for sectors that are going to be read.
    #[inline]
    pub fn reserve(&mut self, sectors: usize) {
        self.reading += sectors as u32;
    }

    /// Releases the places of sectors that were read.
    #[inline]
    pub fn arrived(&mut self, sectors: usize) {
        let sectors = sectors as u32;
        assert!(sectors <= self.reading, "more sectors arrive than GC has read");
        self.reading -= sectors;
    }

    /// Sets whether GC found no victim at the last attempt.
    #[inline]
    pub fn set_unfinished(&mut self, unfinished: bool) {
        self.unfinished = unfinished;
    }

    #[inline]
    pub fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Defers a read.
    pub fn defer(&mut self, read: u32) {
        self.deferred.push(read);
    }

    /// Removes and returns the deferred reads.
    pub fn take_deferred(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.deferred)
    }
}
