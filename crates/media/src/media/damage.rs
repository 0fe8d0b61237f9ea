//! Reads that found damaged data in the store.

/// Reads that found damaged data in the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Damage {
    reads: u64,
    /// The last read did.
    last: bool,
}

impl Damage {
    /// A read begins.
    #[inline]
    pub(super) fn begin_read(&mut self) {
        self.last = false;
    }

    /// The read has found damaged data.
    pub(super) fn found(&mut self) {
        self.reads += 1;
        self.last = true;
    }

    /// Reads that found damaged data.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Returns whether the last read failed because the store lost the data: the flash itself is as good as before.
    pub fn is_of_last_read(&self) -> bool {
        self.last
    }
}
