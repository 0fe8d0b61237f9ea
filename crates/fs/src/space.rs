//! Space: how much an operation may take, and when it has to wait.
//!
//! Space is promised when data are accepted, so `ENOSPC` comes then or never. A sixteenth of the segments, ten at least, is reserved for the
//! cleaner and for checkpoints; `statfs` does not count it. Operations that free space reserve none.

use super::Fs;
use super::backend::NamesShape;
use super::stop::Stop;
use super::types::{Errno, StatFs, Step, Time};

/// Blocks of data for which one node is kept back: extents of one block each need this many nodes.
const BLOCKS_A_NODE: u64 = 64;

/// Names and files that fit into a node, at least.
const ENTRIES_A_NODE: u64 = 8;

/// Blocks with names of their own whose extents fit into a node that is half full.
const BLOCKS_A_NAMED_NODE: u64 = 32;

/// Names that are kept for overwriting, at least.
const NAMES_KEPT: u64 = 64;

impl Fs {
    /// Blocks that are taken: by data, by data that are still in memory, by nodes.
    fn used(&self) -> u64 {
        self.catalog.allocated() + self.pages.delayed() + self.catalog.node_count()
    }

    /// Blocks that files may have where these have names: a sixteenth is kept for what overwrites them, and as many as the metadata of
    /// single blocks fit into the log.
    fn names_most(&self, shape: NamesShape) -> u64 {
        let kept = (shape.capacity / 16).max(NAMES_KEPT);
        let nodes = self.log.layout.usable().saturating_sub(self.slack()) / 4 * 3;
        shape.capacity.saturating_sub(kept).min(nodes * BLOCKS_A_NAMED_NODE)
    }

    fn names_free(&self, shape: NamesShape) -> u64 {
        self.names_most(shape).saturating_sub(self.catalog.allocated() + self.pages.delayed())
    }

    /// Nodes for which there is space where data have names.
    fn nodes_free(&self) -> u64 {
        self.log.layout.usable().saturating_sub(self.catalog.node_count() + self.slack())
    }

    /// Nodes that a tree of this size may gain by splits while a file system is full.
    fn slack(&self) -> u64 {
        self.log.layout.usable() / 256 + 4
    }

    /// Space and memory for this many more blocks, and for this many more entries of the tree.
    pub(super) fn room_for(&mut self, blocks: u64, entries: u64) -> Result<(), Stop> {
        let wanted = blocks.saturating_add(entries / ENTRIES_A_NODE);
        let is_full = match self.log.layout.backend.names() {
            Some(shape) => {
                self.names_free(shape) < blocks || self.nodes_free() < wanted.div_ceil(BLOCKS_A_NAMED_NODE)
            }
            None => self.used().saturating_add(wanted) + self.slack() > self.log.layout.usable(),
        };
        if is_full {
            // What is being freed will be free soon.
            return Err(if self.orphans.next().is_some() { Stop::Room } else { Errno::NoSpace.into() });
        }
        self.room_to_free()
    }

    /// Space for new blocks, and memory for pages that become dirty.
    pub(super) fn room_for_write(&mut self, new: u64, pages: u64) -> Result<(), Stop> {
        if new > 0 {
            self.room_for(new, 0)?;
        }
        self.room_for_names(pages)?;
        self.room_in_log(pages)
    }

    /// Memory and log for a change that takes no space.
    pub(super) fn room_to_free(&mut self) -> Result<(), Stop> {
        self.room_in_log(0)
    }

    fn room_in_log(&mut self, pages: u64) -> Result<(), Stop> {
        let most = self.options.frames();
        if self.pages.dirty() as u64 + pages > (most / 4) as u64 && self.pages.dirty() > 0 {
            self.commits.want_now();
            return Err(Stop::Room);
        }
        if self.commits.bytes_under_way > self.options.memory_bytes / 4 {
            return Err(Stop::Room);
        }
        if self.catalog.dirty() > most / 4 {
            self.want_checkpoint();
            return Err(Stop::Room);
        }
        // Of names the data are no blocks of the log.
        let in_log = if self.has_names() { 0 } else { pages };
        let asked = in_log + self.log.layout.for_cleaner();
        if self.log.room() < self.need() + asked {
            self.cleaner.ask(asked);
            // A checkpoint writes nodes, so one comes when the cleaner has freed what it can until then.
            if self.log.unused() >= self.low_water() {
                self.want_checkpoint();
            }
            return Err(Stop::Room);
        }
        self.cleaner.ask(0);
        Ok(())
    }

    /// Blocks that a checkpoint made now would write, at most: data with their headers, entries, nodes.
    pub(super) fn need(&self) -> u64 {
        let data = self.pages.dirty() as u64;
        let each = u64::from(self.log.layout.batch_blocks());
        let page = u64::from(self.log.layout.padded(1));
        // A page dirties a leaf of its file, with the nodes above it, when it gets its address.
        let nodes = self.catalog.dirty() as u64 + self.nodes_of_pages(data);
        let entries = ((self.catalog.changed() + self.nameless.cuts.len()) as u64 + data) / 6 + 2;
        let in_log = if self.has_names() { 0 } else { data };
        let blocks = in_log + nodes + entries;
        // Two headers for each batch, and up to three blocks at the end of a segment that are too few for one; each is filled up to a page.
        blocks + (5 + page - 1) * (blocks.div_ceil(each - 2) + 1)
    }

    /// Nodes that writing so many pages makes dirty: seldom more than these, as neighbours share a leaf.
    pub(super) fn nodes_of_pages(&self, pages: u64) -> u64 {
        (pages + u64::from(pages > 0) * 4).min(self.catalog.node_count() + pages / 16 + 4)
    }

    /// Space of the file system. What is promised here the cleaner can make.
    pub fn statfs(&mut self, now: Time) -> Result<Step<StatFs>, Errno> {
        self.begin(now);
        let usable = self.log.layout.usable();
        let (blocks, free) = match self.log.layout.backend.names() {
            Some(shape) => {
                let nodes = self.nodes_free().saturating_sub(2) * BLOCKS_A_NAMED_NODE;
                (self.names_most(shape), self.names_free(shape).min(nodes))
            }
            None => {
                let free = usable.saturating_sub(self.used() + self.slack());
                (usable - self.slack(), free.saturating_sub(free / BLOCKS_A_NODE + 2))
            }
        };
        let files = self.new_ino.0;
        let result = Ok(StatFs {
            blocks,
            blocks_free: free,
            files: files + free * ENTRIES_A_NODE,
            files_free: free * ENTRIES_A_NODE,
            id: self.file_system,
        });
        self.end(result)
    }
}
