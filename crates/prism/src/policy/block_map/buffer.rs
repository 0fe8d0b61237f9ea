//! Buffer of a logical block: the tail of the written data, too short for a flash write.
//!
//! Invariants: its sectors are contiguous, starting at `from`; an unacknowledged change is at its end, so the buffer is not empty then.

use super::requests::Part;

/// Buffer of a logical block. `image` is the number of bytes of a sector's image, in all methods.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    /// Images of the sectors starting at `from` that are not on the flash.
    images: Vec<u8>,
    from: u32,
    /// The unacknowledged change whose data are at the end.
    taken: Option<Part>,
}

impl Buffer {
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// Its first sector.
    pub fn from(&self) -> u32 {
        self.from
    }

    /// Number of sectors.
    pub fn held(&self, image: usize) -> u32 {
        (self.images.len() / image.max(1)) as u32
    }

    /// The sector after its last one.
    pub fn end(&self, image: usize) -> u32 {
        self.from + self.held(image)
    }

    /// Images of `sectors` starting at `sector`, which it must hold.
    pub fn images(&self, sector: u32, sectors: u32, image: usize) -> &[u8] {
        let from = (sector - self.from) as usize * image;
        &self.images[from..from + sectors as usize * image]
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.images.capacity()
    }

    /// Appends a change with its images; `None`: zeros.
    pub fn take_in(&mut self, part: Part, images: Option<&[u8]>, image: usize) {
        assert!(self.is_empty() || self.end(image) == part.first, "a change continues the buffer");
        if self.is_empty() {
            self.from = part.first;
        }
        match images {
            Some(images) => self.images.extend_from_slice(images),
            None => self.put_zeros_behind(part.sectors, image),
        }
        self.taken = Some(part);
    }

    /// Prepends images.
    pub fn put_before(&mut self, images: &[u8], image: usize) {
        self.images.splice(..0, images.iter().copied());
        self.from -= (images.len() / image) as u32;
    }

    /// Appends images.
    pub fn put_behind(&mut self, images: &[u8]) {
        self.images.extend_from_slice(images);
    }

    /// Appends sectors of zeros.
    pub fn put_zeros_behind(&mut self, sectors: u32, image: usize) {
        self.images.resize(self.images.len() + sectors as usize * image, 0);
    }

    /// Drops its first sectors, which are on the flash.
    pub fn written(&mut self, sectors: u32, image: usize) {
        self.images.drain(..sectors as usize * image);
        self.from += sectors;
    }

    /// Takes the last change, which can be acknowledged.
    pub fn take_taken(&mut self) -> Option<Part> {
        self.taken.take()
    }

    /// Drops its content if nothing of it was acknowledged; returns the change.
    pub fn drop_all(&mut self, image: usize) -> Option<Part> {
        let held = self.held(image);
        let part = self.taken.take_if(|part| part.sectors == held)?;
        self.images.clear();
        Some(part)
    }

    /// Drops the data of the unacknowledged change, and returns it.
    pub fn drop_taken(&mut self, image: usize) -> Option<Part> {
        let part = self.taken.take()?;
        let left = self.images.len().saturating_sub(part.sectors as usize * image);
        self.images.truncate(left);
        Some(part)
    }

    /// Panics if an unacknowledged change has no data; `number`: of the logical block.
    pub fn check(&self, number: usize) {
        assert!(self.taken.is_none() || !self.images.is_empty(), "block {number}");
    }
}
