//! Write-back: writes dirty pages to the drive, file by file, when there are too many or they are too old.

use super::requests::Purpose;
use super::{Files, RequestKind};
use crate::files::BLOCK_BYTES;
use crate::files::layout::Extent;
use std::collections::{BTreeSet, VecDeque};

/// Owner number that stands for metadata.
const METADATA: u32 = u32::MAX;

/// Pages that wait to be written back. Invariant: a file, or the metadata, is queued at most once.
#[derive(Clone, Debug)]
pub(super) struct WriteBack {
    /// Pages due because of their age.
    aged: VecDeque<u32>,
    /// Files in the order in which they became dirty, including [`METADATA`].
    order: VecDeque<u32>,
    /// By file: whether it is queued.
    listed: Vec<bool>,
    /// Waiting metadata blocks; and whether they are queued.
    metadata: BTreeSet<u32>,
    metadata_listed: bool,
    /// Writes in flight.
    writes: u32,
    /// Number of the last write in memory.
    version: u32,
}

impl WriteBack {
    /// Creates the lists for this many files.
    pub fn new(files: usize) -> WriteBack {
        WriteBack {
            aged: VecDeque::new(),
            order: VecDeque::new(),
            listed: vec![false; files],
            metadata: BTreeSet::new(),
            metadata_listed: false,
            writes: 0,
            version: 0,
        }
    }

    /// Queues a file, unless it is queued.
    pub fn add(&mut self, file: u32) {
        if !std::mem::replace(&mut self.listed[file as usize], true) {
            self.order.push_back(file);
        }
    }

    /// Adds a metadata block, and queues the metadata.
    pub fn add_metadata(&mut self, block: u32) {
        self.metadata.insert(block);
        if !std::mem::replace(&mut self.metadata_listed, true) {
            self.order.push_back(METADATA);
        }
    }

    /// Reports whether pages are due because of their age.
    pub fn has_aged(&self) -> bool {
        !self.aged.is_empty()
    }

    /// Sets the pages due because of their age.
    pub fn set_aged(&mut self, blocks: impl Iterator<Item = u32>) {
        self.aged.extend(blocks);
    }

    /// Returns the number of the next write in memory.
    fn next_version(&mut self) -> u32 {
        self.version += 1;
        self.version
    }

    /// Notes the start of a write of a run of blocks.
    fn begin_write(&mut self, run: Extent) {
        for block in run.block..run.block + run.count {
            self.metadata.remove(&block);
        }
        self.writes += 1;
    }

    /// Notes the end of a write.
    pub fn end_write(&mut self) {
        self.writes -= 1;
    }

    /// Removes the first in the queue, or moves it to the end.
    fn pass_on(&mut self, waits: bool) {
        let Some(owner) = self.order.pop_front() else { return };
        match owner {
            _ if waits => self.order.push_back(owner),
            METADATA => self.metadata_listed = false,
            file => self.listed[file as usize] = false,
        }
    }
}

/// Writes a page in memory.
pub(super) fn write_page(files: &mut Files, block: u32) {
    let version = files.write_back.next_version();
    files.cache.write(block, version, files.now);
    #[cfg(test)]
    files.newest.insert(block, version);
}

/// Writes dirty pages while too much memory is dirty, and pages that have been dirty too long.
pub(super) fn write_back(files: &mut Files) {
    let background = files.config.host.background_share * f64::from(files.cache.capacity());
    let mut looks = files.write_back.order.len();
    while files.write_back.writes < files.config.host.requests {
        while files.write_back.aged.front().is_some_and(|&block| !may_write(files, block)) {
            files.write_back.aged.pop_front();
        }
        let run = match files.write_back.aged.pop_front() {
            Some(block) => Some(Extent { block, count: u32::MAX }),
            None if f64::from(files.cache.unwritten()) > background => {
                let Some(&owner) = files.write_back.order.front() else { return };
                dirty_run(files, owner)
            }
            None => return,
        };
        match run {
            Some(run) => write_run(files, run),
            None if looks == 0 => return,
            None => {
                looks -= 1;
                pass_on(files);
            }
        }
    }
}

/// Returns the first writable block of a file or of metadata, with the following ones.
fn dirty_run(files: &Files, owner: u32) -> Option<Extent> {
    if owner == METADATA {
        let block = *files.write_back.metadata.iter().find(|&&block| may_write(files, block))?;
        return Some(Extent { block, count: u32::MAX });
    }
    files.layout.extents(owner).iter().find_map(|extent| {
        let end = extent.block + extent.count;
        let block = (extent.block..end).find(|&block| may_write(files, block))?;
        Some(Extent { block, count: end - block })
    })
}

/// Skips the first file in the queue, of which nothing can be written now: removes it, or moves it to the end while some of its pages are in flight.
fn pass_on(files: &mut Files) {
    let Some(&owner) = files.write_back.order.front() else { return };
    let is_dirty = |extent: &Extent| {
        (extent.block..extent.block + extent.count).any(|block| files.cache.is_dirty(block))
    };
    let waits = match owner {
        METADATA => !files.write_back.metadata.is_empty(),
        file => files.layout.extents(file).iter().any(is_dirty),
    };
    files.write_back.pass_on(waits);
}

/// Reports whether a page can be written now.
pub(super) fn may_write(files: &Files, block: u32) -> bool {
    files.cache.is_dirty(block) && !files.cache.is_writing(block) && !files.cache.is_reading(block)
}

/// Writes the first page of `run` and the dirty ones that directly follow it.
pub(super) fn write_run(files: &mut Files, run: Extent) {
    let first = run.block;
    let most = run.count.min((files.config.host.write_bytes / BLOCK_BYTES).max(1) as u32);
    let mut count = 0;
    while count < most && files.cache.has(first + count) && may_write(files, first + count) {
        files.cache.begin_write(first + count);
        count += 1;
    }
    let run = Extent { block: first, count };
    files.write_back.begin_write(run);
    files.request(Purpose::Page, RequestKind::Write, run);
}
