//! Features that the store adds to flash: an image of one drive, a save area, limits of memory and disk, and their notices.

use super::{Content, Media};
use crate::error::StoreError;
use crate::store::{Extent, Remains, StoreNotice};
use pellucid_flash::Ppa;

impl Media {
    /// Binds the media to a drive: numbers, with their names, that must not change while the media are kept, because the stored data mean
    /// something else to a drive with other numbers. 0: not given.
    ///
    /// # Errors
    /// When the image in a file store belongs to a drive with other numbers, or when they cannot be written. The image is unchanged.
    pub fn claim(&mut self, words: [(&'static str, u64); 3]) -> Result<(), StoreError> {
        self.store.claim(words)
    }

    /// Removes a file that was just made for media that cannot be used; a file that existed before stays.
    pub fn discard(&mut self) {
        self.store.discard();
    }

    /// Length of the save area: bytes that a drive keeps beside its flash, as a drive with capacitors keeps its buffer. They are
    /// initially zero. With a file store they survive the end of the process, however it ends; copies of media have their own.
    pub fn save_bytes(&self) -> usize {
        self.shape.save_bytes
    }

    /// Bytes of the save area from `at` on.
    ///
    /// # Panics
    /// When they reach beyond it.
    pub fn save_read(&self, at: usize, out: &mut [u8]) {
        self.store.save_read(at, out);
    }

    /// Writes bytes to the save area. After this returns, they survive a kill of the process.
    ///
    /// # Errors
    /// When the file cannot take them, as with a full disk; the bytes at this place are then undefined.
    ///
    /// # Panics
    /// When they reach beyond the area.
    pub fn save_write(&mut self, at: usize, bytes: &[u8]) -> Result<(), StoreError> {
        self.store.save_write(at, bytes)
    }

    /// Returns whether the store takes more data: its file accepts writes, or its memory has not reached its bound. Otherwise hosts
    /// should be refused writes; those under way are still completed.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.store.has_room()
    }

    /// Returns whether the file fails to take written data. Its content is then as a power cut at that moment would have left it, and no
    /// later change may be promised to a host.
    #[inline]
    pub fn holds_back(&self) -> bool {
        self.store.holds_back()
    }

    /// Retries writes that the file refused.
    pub fn try_again(&mut self) {
        self.store.try_again();
    }

    /// Fulfils a flush; with [`crate::SyncTo::Machine`] waits for the disk.
    ///
    /// # Errors
    /// When the file does not take the written data.
    pub fn promise(&mut self) -> Result<(), StoreError> {
        self.store.flushed()
    }

    /// Takes the next notice of the store.
    pub fn store_notice(&mut self) -> Option<StoreNotice> {
        self.store.notice()
    }

    /// Memory and disk space that the store may come to use.
    pub fn extent(&self) -> Extent {
        self.store.extent()
    }

    /// Reads that found damaged data in the store.
    pub fn damaged_reads(&self) -> u64 {
        self.damaged_reads
    }

    /// Returns whether the last read failed because the store lost the data: the flash itself is as good as before.
    pub fn was_damaged(&self) -> bool {
        self.damaged
    }

    /// Returns whether [`Media::forget`] saves memory.
    pub fn forgets(&self) -> bool {
        self.store.forgets() && !self.sees_patterns
    }

    /// Discards the data of a unit that are no longer needed, although its block is not erased yet: `remains` says why, and what a read
    /// finds from then on. The spare area stays.
    #[inline]
    pub fn forget(&mut self, ppa: Ppa, remains: Remains) {
        let at = self.place(ppa);
        if self.content(at) == Content::Programmed && self.forgets() {
            self.store.forget(at.block, at.index, remains);
        }
    }

    /// With a file store, writes everything to the disk.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.store.sync()
    }
}
