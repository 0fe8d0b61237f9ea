//! Extents: the blocks of a file.

use super::Fs;
use super::key::{Inode, Key, Kind};
use super::orphans::Freeing;
use super::stop::Stop;
use super::types::{BLOCK_BYTES, Errno, Ino};

/// Extents that one step of freeing takes away.
pub(super) const FREED_MAX: usize = 256;

/// Blocks that this many bytes take.
pub(super) fn blocks_of(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES as u64)
}

impl Fs {
    /// Finishes the freeing of blocks behind the end of a file before these blocks are used anew.
    pub(super) fn finish_cut(&mut self, ino: Ino) -> Result<(), Stop> {
        while self.orphans.is_cut(ino) {
            self.cut_behind_end(ino)?;
        }
        Ok(())
    }

    /// Takes a step of freeing blocks behind the end of a file.
    fn cut_behind_end(&mut self, ino: Ino) -> Result<(), Stop> {
        let inode = self.catalog.inode(ino)?;
        if self.free_from(ino, blocks_of(inode.size))? {
            if inode.links > 0 {
                self.catalog.find(Key::orphan(ino))?;
                self.catalog.delete(Key::orphan(ino));
            }
            self.orphans.cut_ended(ino);
        }
        Ok(())
    }

    /// Frees some extents from a block on; true: there are no more.
    fn free_from(&mut self, ino: Ino, from: u64) -> Result<bool, Stop> {
        for _ in 0..FREED_MAX {
            let Some((_, extent, _)) = self.catalog.extent_at(ino, from)? else {
                return Ok(true);
            };
            let to = extent.last() + 1;
            self.catalog.touch_cut(ino, from, to)?;
            let mut inode = self.catalog.inode(ino)?;
            self.room_to_free()?;
            let freed = self.catalog.cut(ino, from, to);
            inode.blocks -= freed;
            self.catalog.put_inode(ino, &inode);
        }
        Ok(false)
    }

    /// A step of removing a file that has no name and is not held; true: it is gone.
    fn remove_file(&mut self, ino: Ino) -> Result<bool, Stop> {
        self.room_to_free()?;
        if let Some(place) = self.catalog.find(Key::inode(ino))? {
            let mut inode = Inode::decode(self.catalog.value(place)).ok_or(Errno::Io)?;
            let dropped = self.drop_pages(ino, 0, u64::MAX);
            // A step that waits for space must not write anything itself: it would use up what the cleaner frees for it.
            if dropped > 0 {
                inode.blocks -= dropped;
                self.catalog.put_inode(ino, &inode);
            }
        }
        if !self.free_from(ino, 0)? {
            return Ok(false);
        }
        let first = Key::new(ino.0, Kind::Inode, 0);
        for _ in 0..FREED_MAX {
            match self.catalog.seek(Key(first.0 + 1))? {
                Some((key, _)) if key.object() == ino.0 => {
                    self.room_to_free()?;
                    self.catalog.delete(key);
                }
                _ => {
                    self.catalog.find(Key::orphan(ino))?;
                    if self.catalog.find(first)?.is_some() {
                        self.room_to_free()?;
                        self.catalog.delete(first);
                    }
                    self.catalog.find(Key::orphan(ino))?;
                    self.catalog.delete(Key::orphan(ino));
                    self.orphans.gone(ino);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// A step of the background's freeing; false: there is nothing to free.
    pub(super) fn reap(&mut self) -> Result<bool, Stop> {
        match self.orphans.next() {
            Some(Freeing::File(ino)) => _ = self.remove_file(ino)?,
            Some(Freeing::Blocks(ino)) => self.cut_behind_end(ino)?,
            None => return Ok(false),
        }
        self.changes += 1;
        self.progress = true;
        Ok(true)
    }

    /// Frees what can be freed at once.
    pub(super) fn reap_now(&mut self) {
        for _ in 0..4 {
            if !matches!(self.reap(), Ok(true)) {
                return;
            }
        }
    }
}
