//! Space: what an operation may take, and when it has to wait.

use super::types::{Errno, StatFs, Step, Time};
use super::{Fs, Stop};

/// Blocks of data for which one node is kept back: extents of one block each need so many nodes.
const BLOCKS_A_NODE: u64 = 64;

/// Names and files that fit into a node, at least.
const ENTRIES_A_NODE: u64 = 8;

impl Fs {
    /// Blocks that are taken: by data, by data that are still in memory, by nodes.
    fn used(&self) -> u64 {
        self.allocated + self.pages.delayed() + self.tree.node_count
    }

    /// Nodes that a tree of this size may gain by splits while a file system is full.
    fn slack(&self) -> u64 {
        self.log.layout.usable() / 256 + 4
    }

    /// Space and memory for so many more blocks, and for so many more entries of the tree.
    pub(super) fn room_for(&mut self, blocks: u64, entries: u64) -> Result<(), Stop> {
        let wanted = blocks.saturating_add(entries / ENTRIES_A_NODE);
        if self.used().saturating_add(wanted) + self.slack() > self.log.layout.usable() {
            // What is being freed will be free soon.
            let frees = self.reaping.iter().any(|ino| !self.held.contains_key(ino));
            return Err(if frees || !self.cutting.is_empty() { Stop::Room } else { Errno::NoSpace.into() });
        }
        self.room_to_free()
    }

    /// Space for new blocks, and memory for pages that become dirty.
    pub(super) fn room_for_write(&mut self, new: u64, pages: u64) -> Result<(), Stop> {
        if new > 0 {
            self.room_for(new, 0)?;
        }
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
        if self.tree.dirty() > most / 4 {
            self.want_checkpoint();
            return Err(Stop::Room);
        }
        let asked = pages + self.log.layout.for_cleaner();
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
        let nodes = self.tree.dirty() as u64 + self.nodes_of_pages(data);
        let entries = (self.changed.len() as u64 + data) / 12 + 1;
        let blocks = data + nodes + entries;
        // A header for each batch; each is filled up to a page.
        blocks + (2 + page - 1) * (blocks.div_ceil(each - 1) + 1)
    }

    /// Nodes that writing so many pages makes dirty: seldom more than these, as neighbours share a leaf.
    pub(super) fn nodes_of_pages(&self, pages: u64) -> u64 {
        (pages + u64::from(pages > 0) * 4).min(self.tree.node_count + pages / 16 + 4)
    }

    /// Space of the file system. What is promised here the cleaner can make.
    pub fn statfs(&mut self, now: Time) -> Result<Step<StatFs>, Errno> {
        self.begin(now);
        let usable = self.log.layout.usable();
        let free = usable.saturating_sub(self.used() + self.slack());
        let free = free.saturating_sub(free / BLOCKS_A_NODE + 2);
        let files = self.new_ino.0;
        let result = Ok(StatFs {
            blocks: usable - self.slack(),
            blocks_free: free,
            files: files + free * ENTRIES_A_NODE,
            files_free: free * ENTRIES_A_NODE,
            id: self.file_system,
        });
        self.end(result)
    }
}
