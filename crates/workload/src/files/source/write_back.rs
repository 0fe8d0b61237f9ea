//! Write-back: dirty pages that are too many or too old go to the drive, file by file.

use super::{Files, METADATA, Purpose, RequestKind};
use crate::files::BLOCK_BYTES;
use crate::files::layout::Extent;

impl Files {
    pub(super) fn write_page(&mut self, block: u32) {
        self.version += 1;
        self.cache.write(block, self.version, self.now);
        #[cfg(test)]
        self.newest.insert(block, self.version);
    }

    /// Writes dirty pages while too much memory is dirty, and those that are old.
    pub(super) fn write_back(&mut self) {
        let background = self.config.host.background_share * f64::from(self.cache.capacity());
        let mut looks = self.order.len();
        while self.writes < self.config.host.requests {
            while self.aged.front().is_some_and(|&block| !self.may_write(block)) {
                self.aged.pop_front();
            }
            let run = match self.aged.pop_front() {
                Some(block) => Some(Extent { block, count: u32::MAX }),
                None if f64::from(self.cache.unwritten()) > background => {
                    let Some(&owner) = self.order.front() else { return };
                    self.dirty_run(owner)
                }
                None => return,
            };
            match run {
                Some(run) => self.write_run(run),
                None if looks == 0 => return,
                None => {
                    looks -= 1;
                    self.pass_on();
                }
            }
        }
    }

    /// The first block of a file, or of metadata, that can be written, and those of it behind that.
    fn dirty_run(&self, owner: u32) -> Option<Extent> {
        if owner == METADATA {
            let block = *self.metadata.iter().find(|&&block| self.may_write(block))?;
            return Some(Extent { block, count: u32::MAX });
        }
        self.layout.extents(owner).iter().find_map(|extent| {
            let end = extent.block + extent.count;
            let block = (extent.block..end).find(|&block| self.may_write(block))?;
            Some(Extent { block, count: end - block })
        })
    }

    /// Passes over the first file in the order, of which nothing can be written now: it leaves, or waits behind the others for pages that
    /// are on their way.
    fn pass_on(&mut self) {
        let Some(owner) = self.order.pop_front() else { return };
        let is_dirty = |extent: &Extent| {
            (extent.block..extent.block + extent.count).any(|block| self.cache.is_dirty(block))
        };
        let waits = match owner {
            METADATA => !self.metadata.is_empty(),
            file => self.layout.extents(file).iter().any(is_dirty),
        };
        match owner {
            _ if waits => self.order.push_back(owner),
            METADATA => self.metadata_listed = false,
            file => self.files[file as usize].listed = false,
        }
    }

    pub(super) fn may_write(&self, block: u32) -> bool {
        self.cache.is_dirty(block) && !self.cache.is_writing(block) && !self.cache.is_reading(block)
    }

    /// Writes the first page of `run` and the dirty ones of it behind that without a gap.
    pub(super) fn write_run(&mut self, run: Extent) {
        let first = run.block;
        let most = run.count.min((self.config.host.write_bytes / BLOCK_BYTES).max(1) as u32);
        let mut count = 0;
        while count < most && self.cache.has(first + count) && self.may_write(first + count) {
            self.cache.begin_write(first + count);
            self.metadata.remove(&(first + count));
            count += 1;
        }
        self.writes += 1;
        self.request(Purpose::Page, RequestKind::Write, Extent { block: first, count });
    }
}
