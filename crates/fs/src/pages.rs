//! Data of files in memory, by file and block.
//!
//! A page is clean (on the media, or on its way there) or dirty. Clean pages that no write needs are dropped when memory is short.

use crate::block::{SharedBlock, shared_zeros};
use crate::types::{BLOCK_BYTES, Ino};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub ino: Ino,
    pub block: u64,
    /// `None`: the frame is vacant.
    data: Option<SharedBlock>,
    /// Checksum of the data, if known.
    sum: Option<u32>,
    pub dirty: bool,
    /// True if the cleaner made it dirty: its data are old.
    pub moved: bool,
    /// True if it is dirty and has no extent yet.
    delayed: bool,
    /// True if the page is in the list of dirty pages.
    listed: bool,
    used: bool,
    /// Batch that writes it.
    written_by: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    index: BTreeMap<(Ino, u64), u32>,
    frames: Vec<Page>,
    vacant: Vec<u32>,
    listed: Vec<u32>,
    dirty: usize,
    delayed: u64,
    hand: usize,
    /// For each block of the write in preparation: true if it has no extent yet.
    fresh: Vec<bool>,
}

impl Pages {
    pub fn resident(&self) -> usize {
        self.index.len()
    }

    pub fn dirty(&self) -> usize {
        self.dirty
    }

    /// Number of dirty pages without an extent.
    pub fn delayed(&self) -> u64 {
        self.delayed
    }

    /// Finds the page of a block.
    #[inline]
    pub fn find(&mut self, ino: Ino, block: u64) -> Option<u32> {
        let at = *self.index.get(&(ino, block))?;
        self.frames[at as usize].used = true;
        Some(at)
    }

    pub fn has(&self, ino: Ino, block: u64) -> bool {
        self.index.contains_key(&(ino, block))
    }

    /// Finds the first dirty page at or after a block.
    pub fn next_dirty(&self, ino: Ino, block: u64) -> Option<u64> {
        let mut pages = self.index.range((ino, block)..=(ino, u64::MAX));
        pages.find(|(_, at)| self.frames[**at as usize].dirty).map(|(key, _)| key.1)
    }

    /// Number of dirty pages of a file without an extent.
    pub fn delayed_of(&self, ino: Ino) -> u64 {
        let pages = self.index.range((ino, 0)..=(ino, u64::MAX));
        pages.filter(|(_, at)| self.frames[**at as usize].delayed).count() as u64
    }

    pub fn page(&self, at: u32) -> &Page {
        &self.frames[at as usize]
    }

    /// Shares the data with a reader.
    pub fn shared(&self, at: u32) -> SharedBlock {
        match &self.frames[at as usize].data {
            Some(data) => Arc::clone(data),
            None => unreachable!("a page that is found has data"),
        }
    }

    /// Shares the data with a write, with their checksum.
    pub fn with_sum(&mut self, at: u32) -> (SharedBlock, u32) {
        let page = &mut self.frames[at as usize];
        let Some(data) = &page.data else { unreachable!("a page that is found has data") };
        let sum = *page.sum.get_or_insert_with(|| crc32c::crc32c(&data[..]));
        (Arc::clone(data), sum)
    }

    /// The data for changing; call [`Pages::make_dirty`] first.
    pub fn data_mut(&mut self, at: u32) -> &mut [u8; BLOCK_BYTES] {
        let page = &mut self.frames[at as usize];
        page.sum = None;
        match &mut page.data {
            Some(data) => Arc::make_mut(data),
            None => unreachable!("a page that is found has data"),
        }
    }

    /// Sets the page of a block to other data; creates it if necessary.
    pub fn replace(&mut self, ino: Ino, block: u64, (data, sum): (SharedBlock, u32)) -> u32 {
        match self.find(ino, block) {
            Some(at) => {
                let page = &mut self.frames[at as usize];
                (page.data, page.sum) = (Some(data), Some(sum));
                at
            }
            None => self.insert(ino, block, Some((data, Some(sum)))),
        }
    }

    /// Creates a clean page of zeros or of data read, with its checksum if known.
    pub fn insert(&mut self, ino: Ino, block: u64, data: Option<(SharedBlock, Option<u32>)>) -> u32 {
        let (data, sum) = data.unwrap_or_else(|| (shared_zeros(), None));
        let listed = self.vacant.last().is_some_and(|&at| self.frames[at as usize].listed);
        let page = Page {
            ino,
            block,
            data: Some(data),
            sum,
            dirty: false,
            moved: false,
            delayed: false,
            listed,
            used: true,
            written_by: 0,
        };
        let at = match self.vacant.pop() {
            Some(at) => {
                self.frames[at as usize] = page;
                at
            }
            None => {
                self.frames.push(page);
                (self.frames.len() - 1) as u32
            }
        };
        self.index.insert((ino, block), at);
        at
    }

    /// Makes a page dirty. `moved`: by the cleaner.
    pub fn make_dirty(&mut self, at: u32, moved: bool) {
        let page = &mut self.frames[at as usize];
        page.moved = moved && (page.moved || !page.dirty);
        if !page.dirty {
            page.dirty = true;
            self.dirty += 1;
        }
        if !page.listed {
            page.listed = true;
            self.listed.push(at);
        }
    }

    /// Starts to prepare a write.
    pub fn begin_write(&mut self) {
        self.fresh.clear();
    }

    /// Notes whether the next block of the write has no extent yet.
    pub fn add_fresh(&mut self, fresh: bool) {
        self.fresh.push(fresh);
    }

    /// Reports whether a block of the write has no extent yet.
    pub fn is_fresh(&self, index: u64) -> bool {
        self.fresh[index as usize]
    }

    /// Notes that a dirty page has no extent.
    pub fn make_delayed(&mut self, at: u32) {
        let page = &mut self.frames[at as usize];
        if !std::mem::replace(&mut page.delayed, true) {
            self.delayed += 1;
        }
    }

    /// Notes that a dirty page is being written by a batch.
    pub fn settle(&mut self, at: u32, written_by: u64) {
        let page = &mut self.frames[at as usize];
        self.dirty -= usize::from(std::mem::take(&mut page.dirty));
        self.delayed -= u64::from(std::mem::take(&mut page.delayed));
        page.moved = false;
        page.written_by = written_by;
    }

    /// Dirty pages: new data first, then GC copies, each ordered by file and block.
    pub fn dirty_list(&self) -> Vec<u32> {
        let mut list: Vec<u32> =
            self.listed.iter().copied().filter(|&at| self.frames[at as usize].dirty).collect();
        list.sort_unstable_by_key(|&at| {
            let page = &self.frames[at as usize];
            (page.moved, page.ino, page.block)
        });
        list
    }

    /// Clears the list of dirty pages, after all of them were settled.
    pub fn clear_list(&mut self) {
        for at in self.listed.drain(..) {
            self.frames[at as usize].listed = false;
        }
        assert_eq!(self.dirty, 0, "every dirty page was settled");
    }

    fn vacate(&mut self, at: u32) -> bool {
        let page = &mut self.frames[at as usize];
        page.data = None;
        let delayed = std::mem::take(&mut page.delayed);
        self.dirty -= usize::from(std::mem::take(&mut page.dirty));
        self.delayed -= u64::from(delayed);
        self.vacant.push(at);
        delayed
    }

    /// Drops the pages of blocks `from..to` of a file. Returns how many had no extent.
    pub fn drop_range(&mut self, ino: Ino, from: u64, to: u64) -> u64 {
        let mut delayed = 0;
        while let Some((&key, &at)) = self.index.range((ino, from)..(ino, to)).next() {
            self.index.remove(&key);
            delayed += u64::from(self.vacate(at));
        }
        delayed
    }

    /// Drops the least recently used clean pages until `resident` is reached. Pages of batches from `unwritten` on stay.
    pub fn trim(&mut self, resident: usize, unwritten: u64) {
        let mut looks = 2 * self.frames.len();
        while self.index.len() > resident && looks > 0 {
            looks -= 1;
            self.hand = (self.hand + 1) % self.frames.len();
            let page = &mut self.frames[self.hand];
            if page.data.is_none() || page.dirty || page.written_by >= unwritten {
                continue;
            }
            if !std::mem::take(&mut page.used) {
                let key = (page.ino, page.block);
                self.index.remove(&key);
                self.vacate(self.hand as u32);
            }
        }
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        let held = self.frames.iter().filter(|p| p.data.is_some());
        assert_eq!(held.clone().count(), self.index.len());
        assert_eq!(held.clone().filter(|p| p.dirty).count(), self.dirty);
        assert_eq!(held.filter(|p| p.delayed).count() as u64, self.delayed);
        for (key, &at) in &self.index {
            let page = &self.frames[at as usize];
            assert_eq!((page.ino, page.block), *key);
            assert!(page.dirty || !page.delayed, "only a dirty page is delayed");
            assert!(!page.dirty || page.listed, "a dirty page is listed");
        }
    }
}
