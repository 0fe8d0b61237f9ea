//! Placement of files: a file system with block groups, modelled on ext4.
//!
//! ```text
//!  group:  block bitmap | inode bitmap | inode table | data ...        (the group in the middle: the journal before its data)
//! ```
//! A directory is in the group of its parent while that group has fewer than [`DIRECTORIES_PER_GROUP`] (the Orlov allocator: all
//! directories of a file set have one top directory), and the inode of a file is in the group of its directory. New data follow the last
//! block of the file if blocks are free there. Otherwise they go to the first group, starting with the directory's, that [meets a
//! criterion](Criterion), in its first run that is long enough. So a file set is dense, an aged group is avoided while others can take a
//! file in one piece, and freed blocks are reused once the transaction that freed them is durable.
//!
//! Invariants: no block belongs to two files, to a file and to metadata, or to none while its bit is set and it was not freed since the last
//! [`Layout::reuse`]; a group knows the number of its free blocks, and of their runs.

use super::BLOCK_BYTES;
use std::ops::Range;

/// Blocks of a group: as many as one bitmap block describes.
const GROUP_BLOCKS: u32 = (BLOCK_BYTES * 8) as u32;
/// Inodes of 256 bytes in a block.
const INODES_PER_BLOCK: u32 = 16;
/// Directory entries of about 64 bytes in a block.
const ENTRIES_PER_BLOCK: u32 = 64;
/// Maximum number of directories in a group: a sixteenth of its inodes, with one inode per 16 KiB.
const DIRECTORIES_PER_GROUP: u32 = GROUP_BLOCKS / 4 / 16;
/// Largest journal: 64 MiB, half of a group, so that directories fit beside it.
const JOURNAL_BLOCKS: u32 = 16_384;

/// Contiguous blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First block.
    pub block: u32,
    /// Number of blocks.
    pub count: u32,
}

/// The files do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file system is full")]
pub struct LayoutError;

#[derive(Clone, Debug)]
struct Group {
    blocks: Range<u32>,
    free: u32,
    /// Number of maximal runs of free blocks.
    runs: u32,
    /// Lower bound of the free blocks.
    low: u32,
}

/// Criterion for a group that may give a file blocks. An allocation searches all groups by the first criterion, then by the next.
///
/// As `ext4_mb_good_group` (`fs/ext4/mballoc.c`, Linux 2.6.33) with `cr` = 1, 2 and 3. Omitted: `cr` = 0, which looks a power of two up in the buddy
/// bitmaps, and rounding sizes up to powers of two beforehand.
#[derive(Clone, Copy, Debug)]
enum Criterion {
    /// The mean run of free blocks is at least as long as the request.
    MeanRun,
    /// The group has at least as many free blocks as requested.
    Free,
    /// The group has a free block.
    Any,
}

impl Criterion {
    const ALL: [Criterion; 3] = [Criterion::MeanRun, Criterion::Free, Criterion::Any];

    fn is_met(self, group: &Group, count: u32) -> bool {
        match self {
            Criterion::MeanRun => group.runs > 0 && group.free / group.runs >= count,
            Criterion::Free => group.free >= count,
            Criterion::Any => group.free > 0,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct File {
    directory: u32,
    /// Number of its inode in its group.
    inode: u32,
    extents: Vec<Extent>,
}

#[derive(Clone, Debug)]
struct Directory {
    group: u32,
    first_file: u32,
    blocks: Extent,
}

/// A file system.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Bitmap of blocks in use.
    used: Vec<u64>,
    groups: Vec<Group>,
    inode_blocks: u32,
    directories: Vec<Directory>,
    files: Vec<File>,
    journal: Extent,
    /// Freed extents that must not be reused yet.
    freed: Vec<Extent>,
}

impl Layout {
    /// A file system of `blocks` blocks, with directories for `files` files, `width` in each. The files have no blocks yet.
    pub fn new(blocks: u32, files: u32, width: u32) -> Result<Layout, LayoutError> {
        let count = blocks / GROUP_BLOCKS + u32::from(blocks % GROUP_BLOCKS >= 64);
        if count == 0 {
            return Err(LayoutError);
        }
        let directories = files.div_ceil(width).max(1);
        let dense = directories.div_ceil(count).max(DIRECTORIES_PER_GROUP).min(directories);
        let per_group = dense * width.min(files);
        let inode_blocks = per_group.div_ceil(INODES_PER_BLOCK).max(1);
        let group = |at: u32| {
            let blocks = at * GROUP_BLOCKS..blocks.min(at.saturating_add(1).saturating_mul(GROUP_BLOCKS));
            Group { free: blocks.len() as u32, runs: 1, low: blocks.start, blocks }
        };
        let mut layout = Layout {
            used: vec![0; blocks.div_ceil(64) as usize],
            groups: (0..count).map(group).collect(),
            inode_blocks,
            directories: Vec::new(),
            files: Vec::new(),
            journal: Extent { block: 0, count: 0 },
            freed: Vec::new(),
        };
        for at in 0..count {
            let start = layout.groups[at as usize].blocks.start;
            layout.take(Extent { block: start, count: 2 + inode_blocks })?;
        }
        let journal = JOURNAL_BLOCKS.min(blocks / 64).max(8);
        layout.journal = layout.search(count / 2, journal).ok_or(LayoutError)?;
        if layout.journal.count < 8 {
            return Err(LayoutError);
        }
        layout.take(layout.journal)?;
        let mut inodes = vec![0; count as usize];
        for at in 0..directories {
            let group = at / dense;
            let first_file = at * width;
            let own = width.min(files - first_file);
            let blocks = layout.search(group, own.div_ceil(ENTRIES_PER_BLOCK)).ok_or(LayoutError)?;
            layout.take(blocks)?;
            layout.directories.push(Directory { group, first_file, blocks });
            for _ in 0..own {
                let inode = inodes[group as usize];
                inodes[group as usize] += 1;
                layout.files.push(File { directory: at, inode, extents: Vec::new() });
            }
        }
        Ok(layout)
    }

    /// Blocks of the journal.
    pub fn journal(&self) -> Extent {
        self.journal
    }

    /// Blocks available to files.
    pub fn free_blocks(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.free)).sum()
    }

    /// Extents of a file in the order of its bytes.
    pub fn extents(&self, file: u32) -> &[Extent] {
        &self.files[file as usize].extents
    }

    /// Number of blocks of a file.
    pub fn blocks_of(&self, file: u32) -> u32 {
        self.extents(file).iter().map(|extent| extent.count).sum()
    }

    /// Inode table block with the inode of a file.
    pub fn inode_block(&self, file: u32) -> u32 {
        let File { directory, inode, .. } = self.files[file as usize];
        let group = &self.groups[self.directories[directory as usize].group as usize];
        group.blocks.start + 2 + (inode / INODES_PER_BLOCK).min(self.inode_blocks - 1)
    }

    /// Inode bitmap block of a file.
    pub fn inode_bitmap(&self, file: u32) -> u32 {
        let directory = self.files[file as usize].directory;
        self.groups[self.directories[directory as usize].group as usize].blocks.start + 1
    }

    /// Directory block with the entry of a file.
    pub fn entry_block(&self, file: u32) -> u32 {
        let directory = &self.directories[self.files[file as usize].directory as usize];
        let at = (file - directory.first_file) / ENTRIES_PER_BLOCK;
        directory.blocks.block + at.min(directory.blocks.count - 1)
    }

    /// Bitmap block of a block.
    pub fn block_bitmap(&self, block: u32) -> u32 {
        self.groups[self.group_of(block)].blocks.start
    }

    /// Adds `count` blocks to a file; appends the new extents to `new`. Changes nothing if they do not fit.
    pub fn grow(&mut self, file: u32, count: u32, new: &mut Vec<Extent>) -> Result<(), LayoutError> {
        new.clear();
        if u64::from(count) > self.free_blocks() {
            return Err(LayoutError);
        }
        let mut left = count;
        while left > 0 {
            let found = self.find(file, left).ok_or(LayoutError)?;
            self.take(found)?;
            left -= found.count;
            match new.last_mut() {
                Some(last) if last.block + last.count == found.block => last.count += found.count,
                _ => new.push(found),
            }
            let extents = &mut self.files[file as usize].extents;
            match extents.last_mut() {
                Some(last) if last.block + last.count == found.block => last.count += found.count,
                _ => extents.push(found),
            }
        }
        Ok(())
    }

    /// Moves all blocks of a file to `freed`. They are not reused before [`Layout::reuse`].
    pub fn free(&mut self, file: u32, freed: &mut Vec<Extent>) {
        freed.clear();
        freed.append(&mut self.files[file as usize].extents);
        self.freed.extend_from_slice(freed);
    }

    /// Number of freed extents.
    pub fn freed(&self) -> usize {
        self.freed.len()
    }

    /// Makes the first `count` freed extents reusable.
    pub fn reuse(&mut self, count: usize) {
        for extent in self.freed.drain(..count).collect::<Vec<_>>() {
            for block in extent.block..extent.block + extent.count {
                assert!(self.is_used(block), "block {block} is freed twice");
                self.used[block as usize / 64] &= !(1 << (block % 64));
            }
            // An extent does not cross groups: each search ends with its group.
            let (at, beside) = (self.group_of(extent.block), self.free_beside(extent));
            let group = &mut self.groups[at];
            group.free += extent.count;
            group.runs = group.runs + 1 - beside;
            group.low = group.low.min(extent.block);
        }
    }

    /// Number of a block's group.
    fn group_of(&self, block: u32) -> usize {
        (block / GROUP_BLOCKS).min(self.groups.len() as u32 - 1) as usize
    }

    /// How many of the two blocks beside an extent are in its group and free.
    fn free_beside(&self, Extent { block, count }: Extent) -> u32 {
        let group = &self.groups[self.group_of(block)].blocks;
        let before = block > group.start && !self.is_used(block - 1);
        let behind = block + count < group.end && !self.is_used(block + count);
        u32::from(before) + u32::from(behind)
    }

    fn is_used(&self, block: u32) -> bool {
        self.used[block as usize / 64] >> (block % 64) & 1 == 1
    }

    fn take(&mut self, extent: Extent) -> Result<(), LayoutError> {
        let at = self.group_of(extent.block);
        if extent.block + extent.count > self.groups[at].blocks.end {
            return Err(LayoutError);
        }
        for block in extent.block..extent.block + extent.count {
            assert!(!self.is_used(block), "block {block} is given twice");
            self.used[block as usize / 64] |= 1 << (block % 64);
        }
        let beside = self.free_beside(extent);
        let group = &mut self.groups[at];
        group.free -= extent.count;
        group.runs = group.runs + beside - 1;
        if group.low == extent.block {
            group.low += extent.count;
        }
        Ok(())
    }

    /// Finds up to `count` free blocks for a file.
    fn find(&self, file: u32, count: u32) -> Option<Extent> {
        let File { directory, ref extents, .. } = self.files[file as usize];
        if let Some(last) = extents.last() {
            let behind = last.block + last.count;
            let group = &self.groups[self.group_of(last.block)];
            if behind < group.blocks.end && !self.is_used(behind) {
                return Some(self.run(behind, count, group.blocks.end));
            }
        }
        let first = self.directories[directory as usize].group;
        let groups = self.groups.len() as u32;
        let from_own = || (0..groups).map(|step| (first + step) % groups);
        let is_good = |by: Criterion, &group: &u32| by.is_met(&self.groups[group as usize], count);
        let good = Criterion::ALL.into_iter().find_map(|by| from_own().find(|group| is_good(by, group)))?;
        self.search(good, count)
    }

    /// Finds free blocks of a group: the first run of `count`, else the longest.
    fn search(&self, group: u32, count: u32) -> Option<Extent> {
        let Group { blocks, free, low, .. } = &self.groups[group as usize];
        if *free == 0 {
            return None;
        }
        let mut best: Option<Extent> = None;
        let mut at = *low;
        while at < blocks.end {
            if self.is_used(at) {
                at = self.next_free(at, blocks.end);
                continue;
            }
            let run = self.run(at, count, blocks.end);
            if run.count == count {
                return Some(run);
            }
            if best.is_none_or(|best| best.count < run.count) {
                best = Some(run);
            }
            at = run.block + run.count;
        }
        best
    }

    /// The first free block at or after `at`, or `end`.
    fn next_free(&self, mut at: u32, end: u32) -> u32 {
        while at < end {
            let word = !self.used[at as usize / 64] >> (at % 64);
            if word != 0 {
                return (at + word.trailing_zeros()).min(end);
            }
            at = (at / 64 + 1) * 64;
        }
        end
    }

    /// The run of free blocks from `at` on, at most `count` and before `end`.
    fn run(&self, at: u32, count: u32, end: u32) -> Extent {
        let most = count.min(end - at);
        let free = (0..most).find(|&step| self.is_used(at + step)).unwrap_or(most);
        Extent { block: at, count: free }
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one is broken.
    pub fn check(&self) {
        let mut owned = vec![0u64; self.used.len()];
        let mut own = |extent: &Extent| {
            for block in extent.block..extent.block + extent.count {
                assert!(owned[block as usize / 64] >> (block % 64) & 1 == 0, "block {block} has two owners");
                owned[block as usize / 64] |= 1 << (block % 64);
            }
        };
        for group in &self.groups {
            own(&Extent { block: group.blocks.start, count: 2 + self.inode_blocks });
        }
        own(&self.journal);
        self.directories.iter().for_each(|directory| own(&directory.blocks));
        self.files.iter().flat_map(|file| &file.extents).chain(&self.freed).for_each(own);
        assert_eq!(owned, self.used, "blocks in use and their owners");
        for Group { blocks, runs, .. } in &self.groups {
            let begins = |&at: &u32| !self.is_used(at) && (at == blocks.start || self.is_used(at - 1));
            assert_eq!(
                *runs,
                blocks.clone().filter(begins).count() as u32,
                "runs of free blocks of {blocks:?}"
            );
        }
        let used: u64 = self.used.iter().map(|word| u64::from(word.count_ones())).sum();
        let all: u64 = self.groups.iter().map(|group| group.blocks.len() as u64).sum();
        assert_eq!(self.free_blocks(), all - used, "free blocks");
    }
}
