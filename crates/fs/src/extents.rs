//! Extents: the blocks of a file.

use super::key::{Extent, Inode, Key, Kind};
use super::tree::Place;
use super::types::{BLOCK_BYTES, Errno, Ino};
use super::{Fs, Stop};

/// Extents that one step of freeing takes away.
pub(super) const FREED_MAX: usize = 256;

/// Blocks that so many bytes take.
pub(super) fn blocks_of(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES as u64)
}

/// A run of blocks of a file that are alike.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    /// The first block behind it.
    pub end: u64,
    /// The page has an extent.
    pub counted: bool,
    /// Where its first block lies; 0: nowhere, it reads as zeros.
    pub address: u64,
}

impl Fs {
    /// The first extent that ends at or behind a block.
    pub(super) fn extent_at(&mut self, ino: Ino, block: u64) -> Result<Option<(Key, Extent, Place)>, Stop> {
        let from = Key::extent(ino, block);
        match self.seek(from)? {
            Some((key, place)) if key.is_beside(from) => {
                let extent = Extent::decode(key, self.tree.value(place)).ok_or(Errno::Io)?;
                Ok(Some((key, extent, place)))
            }
            _ => Ok(None),
        }
    }

    /// The run that begins with a block.
    pub(super) fn run_at(&mut self, ino: Ino, block: u64) -> Result<Run, Stop> {
        Ok(match self.extent_at(ino, block)? {
            Some((_, extent, _)) if extent.first <= block => {
                Run { end: extent.last() + 1, counted: true, address: extent.address_of(block) }
            }
            Some((_, extent, _)) => Run { end: extent.first, counted: false, address: 0 },
            None => Run { end: u64::MAX, counted: false, address: 0 },
        })
    }

    /// Brings what [`Fs::cut`] of the same blocks changes.
    pub(super) fn touch_cut(&mut self, ino: Ino, from: u64, to: u64) -> Result<(), Stop> {
        self.touch(Key::extent(ino, from.saturating_sub(1)), Key::extent(ino, to))?;
        self.seek(Key::extent(ino, to.saturating_sub(1)))?;
        // What stands behind the range is looked at once nothing is left of it.
        self.seek(Key::extent(ino, to))?;
        Ok(())
    }

    /// Takes blocks `from..to` out of the extents; gives how many these counted. They were touched.
    pub(super) fn cut(&mut self, ino: Ino, from: u64, to: u64) -> u64 {
        let mut freed = 0;
        loop {
            let found = self.present(|fs| fs.extent_at(ino, from));
            let Some((key, extent, place)) = found.filter(|(_, extent, _)| extent.first < to) else {
                break;
            };
            let mut sums = std::mem::take(&mut self.sums);
            sums.clear();
            let value = self.tree.value(place);
            sums.extend((0..extent.count).map_while(|n| super::key::sum_of(value, n)));
            // What is left is put before anything is deleted, so that no leaf on the path is given up in between.
            if extent.first < from {
                let left = Extent { count: from - extent.first, ..extent };
                self.put_extent(ino, left, sums.get(..left.count as usize).unwrap_or_default());
            }
            let last = extent.last();
            if last >= to {
                let right = Extent { first: to, count: last - to + 1, address: extent.address_of(to) };
                self.put_extent(ino, right, sums.get((to - extent.first) as usize..).unwrap_or_default());
            } else {
                self.delete(key);
            }
            self.sums = sums;
            freed += (last + 1).min(to) - extent.first.max(from);
            // What is behind `to` was not touched.
            if last + 1 >= to {
                break;
            }
        }
        freed
    }

    pub(super) fn put_extent(&mut self, ino: Ino, extent: Extent, sums: &[u32]) {
        let mut buffer = [0; 272];
        self.put(Key::extent(ino, extent.last()), extent.encode(sums, &mut buffer));
    }

    /// Finishes the freeing of blocks behind the end of a file before these blocks are used anew.
    pub(super) fn finish_cut(&mut self, ino: Ino) -> Result<(), Stop> {
        while self.cutting.contains(&ino) {
            self.cut_behind_end(ino)?;
        }
        Ok(())
    }

    /// Takes a step of freeing blocks behind the end of a file.
    fn cut_behind_end(&mut self, ino: Ino) -> Result<(), Stop> {
        let inode = self.inode(ino)?;
        if self.free_from(ino, blocks_of(inode.size))? {
            if inode.links > 0 {
                self.find(Key::orphan(ino))?;
                self.delete(Key::orphan(ino));
            }
            self.cutting.remove(&ino);
        }
        Ok(())
    }

    /// Frees some extents from a block on; true: there are no more.
    fn free_from(&mut self, ino: Ino, from: u64) -> Result<bool, Stop> {
        for _ in 0..FREED_MAX {
            let Some((_, extent, _)) = self.extent_at(ino, from)? else {
                return Ok(true);
            };
            let to = extent.last() + 1;
            self.touch_cut(ino, from, to)?;
            let mut inode = self.inode(ino)?;
            self.room_to_free()?;
            let freed = self.cut(ino, from, to);
            inode.blocks -= freed;
            self.put_inode(ino, &inode);
        }
        Ok(false)
    }

    /// A step of removing a file that has no name and is not held; true: it is gone.
    fn remove_file(&mut self, ino: Ino) -> Result<bool, Stop> {
        self.room_to_free()?;
        if let Some(place) = self.find(Key::inode(ino))? {
            let mut inode = Inode::decode(self.tree.value(place)).ok_or(Errno::Io)?;
            let dropped = self.drop_pages(ino, 0, u64::MAX);
            // A step that waits for space must not write anything itself: it would use up what the cleaner frees for it.
            if dropped > 0 {
                inode.blocks -= dropped;
                self.put_inode(ino, &inode);
            }
        }
        if !self.free_from(ino, 0)? {
            return Ok(false);
        }
        let first = Key::new(ino.0, Kind::Inode, 0);
        for _ in 0..FREED_MAX {
            match self.seek(Key(first.0 + 1))? {
                Some((key, _)) if key.object() == ino.0 => {
                    self.room_to_free()?;
                    self.delete(key);
                }
                _ => {
                    self.find(Key::orphan(ino))?;
                    if self.find(first)?.is_some() {
                        self.room_to_free()?;
                        self.delete(first);
                    }
                    self.find(Key::orphan(ino))?;
                    self.delete(Key::orphan(ino));
                    self.reaping.remove(&ino);
                    self.cutting.remove(&ino);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// A step of the background's freeing; false: there is nothing to free.
    pub(super) fn reap(&mut self) -> Result<bool, Stop> {
        let removable = self.reaping.iter().find(|ino| !self.held.contains_key(ino)).copied();
        if let Some(ino) = removable {
            self.remove_file(ino)?;
        } else if let Some(&ino) = self.cutting.first() {
            self.cut_behind_end(ino)?;
        } else {
            return Ok(false);
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
