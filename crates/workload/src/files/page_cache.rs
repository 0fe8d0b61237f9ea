//! The host's page cache: the blocks in memory, and the dirty ones among them.
//!
//! Least recently used clean pages are evicted. A page being read or written stays.
//! Invariants: `dirty` names exactly the dirty pages; a page is in the list of all pages once; only clean pages are dropped.

use pellucid_flash::SimTime;
use std::collections::BTreeSet;

const NONE: u32 = u32::MAX;
/// Blocks per part of the index.
const PART: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Page {
    block: u32,
    newer: u32,
    older: u32,
    dirtied: SimTime,
    /// Number of the host's write that the page holds.
    version: u32,
    dirty: bool,
    reading: bool,
    writing: bool,
}

/// Pages by block.
#[derive(Clone, Debug)]
pub struct PageCache {
    pages: Vec<Page>,
    vacant: Vec<u32>,
    index: Vec<Option<Box<[u32; PART]>>>,
    newest: u32,
    oldest: u32,
    dirty: BTreeSet<u32>,
    writing: u32,
    capacity: u32,
}

impl PageCache {
    /// A cache of `pages` pages for a drive of `blocks` blocks.
    pub fn new(pages: u32, blocks: u32) -> PageCache {
        PageCache {
            pages: Vec::new(),
            vacant: Vec::new(),
            index: vec![None; (blocks as usize).div_ceil(PART)],
            newest: NONE,
            oldest: NONE,
            dirty: BTreeSet::new(),
            writing: 0,
            capacity: pages.max(1),
        }
    }

    /// Maximum number of pages.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Number of pages in memory.
    pub fn pages(&self) -> u32 {
        (self.pages.len() - self.vacant.len()) as u32
    }

    /// Number of pages newer than the drive's: dirty, or being written.
    pub fn unwritten(&self) -> u32 {
        self.dirty.len() as u32 + self.writing
    }

    /// Dirty pages, by block.
    pub fn dirty(&self) -> &BTreeSet<u32> {
        &self.dirty
    }

    fn slot(&self, block: u32) -> Option<u32> {
        let part = self.index.get(block as usize / PART)?.as_deref()?;
        Some(part[block as usize % PART]).filter(|&slot| slot != NONE)
    }

    fn set_slot(&mut self, block: u32, slot: u32) {
        let part = &mut self.index[block as usize / PART];
        part.get_or_insert_with(|| Box::new([NONE; PART]))[block as usize % PART] = slot;
    }

    fn page(&self, block: u32) -> Option<&Page> {
        self.slot(block).map(|slot| &self.pages[slot as usize])
    }

    fn page_mut(&mut self, block: u32) -> Option<&mut Page> {
        self.slot(block).map(|slot| &mut self.pages[slot as usize])
    }

    /// Reports whether a block is in memory, or being read.
    pub fn has(&self, block: u32) -> bool {
        self.slot(block).is_some()
    }

    /// Reports whether a block is being read from the drive.
    pub fn is_reading(&self, block: u32) -> bool {
        self.page(block).is_some_and(|page| page.reading)
    }

    /// Reports whether a block is being written to the drive.
    pub fn is_writing(&self, block: u32) -> bool {
        self.page(block).is_some_and(|page| page.writing)
    }

    /// Reports whether a block is newer than the drive's.
    pub fn is_dirty(&self, block: u32) -> bool {
        self.page(block).is_some_and(|page| page.dirty)
    }

    /// Time at which a dirty block became dirty.
    pub fn dirtied(&self, block: u32) -> Option<SimTime> {
        self.page(block).filter(|page| page.dirty).map(|page| page.dirtied)
    }

    /// Number of the write that a page holds.
    pub fn version(&self, block: u32) -> Option<u32> {
        self.page(block).map(|page| page.version)
    }

    fn unlink(&mut self, slot: u32) {
        let Page { newer, older, .. } = self.pages[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.pages[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.pages[older as usize].newer = newer,
        }
    }

    fn link(&mut self, slot: u32) {
        let before = std::mem::replace(&mut self.newest, slot);
        let page = &mut self.pages[slot as usize];
        (page.newer, page.older) = (NONE, before);
        match before {
            NONE => self.oldest = slot,
            before => self.pages[before as usize].newer = slot,
        }
    }

    /// Marks a block as recently used.
    pub fn touch(&mut self, block: u32) {
        if let Some(slot) = self.slot(block)
            && self.newest != slot
        {
            self.unlink(slot);
            self.link(slot);
        }
    }

    /// Adds a page for a block that has none, after making room.
    fn insert(&mut self, block: u32) -> u32 {
        if self.pages() >= self.capacity {
            self.drop_oldest();
        }
        let page = Page {
            block,
            newer: NONE,
            older: NONE,
            dirtied: SimTime::ZERO,
            version: 0,
            dirty: false,
            reading: false,
            writing: false,
        };
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.pages[slot as usize] = page;
                slot
            }
            None => {
                self.pages.push(page);
                self.pages.len() as u32 - 1
            }
        };
        self.set_slot(block, slot);
        self.link(slot);
        slot
    }

    /// Drops the least recently used clean page. If there is none among the oldest pages, the cache grows.
    fn drop_oldest(&mut self) {
        let mut at = self.oldest;
        for _ in 0..1024 {
            let Some(&Page { block, newer, dirty, reading, writing, .. }) = self.pages.get(at as usize)
            else {
                return;
            };
            if !dirty && !reading && !writing {
                return self.forget(block);
            }
            // Pages that cannot be dropped are checked again after all others.
            self.unlink(at);
            self.link(at);
            at = if newer == NONE { self.oldest } else { newer };
        }
    }

    /// Notes the start of a block's read.
    pub fn begin_read(&mut self, block: u32) {
        let slot = self.insert(block);
        self.pages[slot as usize].reading = true;
    }

    /// Notes the end of a block's read.
    pub fn end_read(&mut self, block: u32) {
        if let Some(page) = self.page_mut(block) {
            page.reading = false;
        }
    }

    /// Writes a block in memory, as the host's write `version`.
    pub fn write(&mut self, block: u32, version: u32, now: SimTime) {
        let slot = self.slot(block).unwrap_or_else(|| self.insert(block));
        self.touch(block);
        let page = &mut self.pages[slot as usize];
        page.version = version;
        if !page.dirty {
            (page.dirty, page.dirtied) = (true, now);
            self.dirty.insert(block);
        }
    }

    /// Notes the start of a dirty block's write, with its present content.
    pub fn begin_write(&mut self, block: u32) {
        self.dirty.remove(&block);
        if let Some(page) = self.page_mut(block) {
            (page.dirty, page.writing) = (false, true);
            self.writing += 1;
        }
    }

    /// Notes the end of a block's write.
    pub fn end_write(&mut self, block: u32) {
        if let Some(page) = self.page_mut(block)
            && page.writing
        {
            page.writing = false;
            self.writing -= 1;
        }
    }

    /// Drops the content of a block.
    pub fn forget(&mut self, block: u32) {
        let Some(slot) = self.slot(block) else { return };
        if self.pages[slot as usize].writing {
            self.writing -= 1;
        }
        self.dirty.remove(&block);
        self.unlink(slot);
        self.vacant.push(slot);
        self.set_slot(block, NONE);
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is broken.
    pub fn check(&self) {
        let (mut count, mut at, mut writing) = (0, self.newest, 0);
        while at != NONE {
            let page = &self.pages[at as usize];
            assert_eq!(self.slot(page.block), Some(at), "the page of block {}", page.block);
            assert_eq!(page.dirty, self.dirty.contains(&page.block), "block {}", page.block);
            writing += u32::from(page.writing);
            count += 1;
            at = page.older;
        }
        assert_eq!((count, writing), (self.pages(), self.writing), "pages, and those being written");
        assert!(self.dirty.iter().all(|&block| self.has(block)), "dirty blocks are in memory");
    }
}
