//! The catalog: all metadata, as keys of the tree, with what has changed since the last commit.
//!
//! ```text
//!   put, delete ─► tree            what a mount finds, once a checkpoint has written its nodes
//!               ─► changed keys    the entries of the next commit
//!               ─► counts          blocks of files; extents that came and went, for those who book space and names
//! ```
//! Nothing here waits. A look-up whose nodes are missing reports them and changes nothing. Callers first load the paths of everything that they will
//! change (`touch`), and then change it: [`Catalog::put`] and [`Catalog::delete`] do not fail.
//!
//! Invariant: the count of blocks equals that of all extents of the tree. Each added or removed extent is booked once, in order.

use crate::batch::put_entry;
use crate::key::{Extent, Inode, Key, Kind};
use crate::node::{Block, Child};
use crate::picture::Picture;
use crate::stop::Stop;
use crate::tree::{Dirty, Miss, Place, Tree, Visit};
use crate::types::{Errno, Ino};
use std::collections::VecDeque;

/// Minimum number of changed keys before duplicates are removed.
const CHANGED_MOST: usize = 4096;

/// An added or removed extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Booking {
    pub ino: Ino,
    pub extent: Extent,
    /// True if it was added.
    pub lives: bool,
}

/// A run of uniform blocks of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    /// First block after the run.
    pub end: u64,
    /// True if the blocks have an extent.
    pub counted: bool,
    /// Address of the first block; 0: none, reads as zeros.
    pub address: u64,
}

/// All metadata.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    tree: Tree,
    /// Keys changed since the last commit, possibly with duplicates.
    changed: Vec<Key>,
    /// Length of `changed` at which duplicates are removed.
    changed_most: usize,
    /// True if something has changed since [`Catalog::take_news`].
    news: bool,
    /// Blocks in extents.
    allocated: u64,
    /// Number of the next file.
    new_ino: Ino,
    /// Added and removed extents that are not booked yet.
    bookings: VecDeque<Booking>,
    /// Buffer for the checksums of an extent.
    sums: Vec<u32>,
}

impl Catalog {
    /// The catalog of an empty file system.
    pub fn new(file_system: u64) -> Catalog {
        Catalog::of(Tree::new(file_system), 0, Ino(Ino::ROOT.0 + 1))
    }

    /// The catalog of a checkpoint.
    pub fn at(file_system: u64, picture: &Picture) -> Catalog {
        let tree = Tree::at(file_system, picture.root, picture.level, picture.node_count);
        Catalog::of(tree, picture.allocated, picture.new_ino)
    }

    fn of(tree: Tree, allocated: u64, new_ino: Ino) -> Catalog {
        Catalog {
            tree,
            changed: Vec::new(),
            changed_most: CHANGED_MOST,
            news: false,
            allocated,
            new_ino,
            bookings: VecDeque::new(),
            sums: Vec::new(),
        }
    }

    // ---- look-ups

    /// Finds the entry of a key.
    pub fn find(&mut self, key: Key) -> Result<Option<Place>, Stop> {
        Ok(self.tree.find(key)?)
    }

    /// Finds the first entry at or after a key.
    pub fn seek(&mut self, key: Key) -> Result<Option<(Key, Place)>, Stop> {
        Ok(self.tree.seek(key)?)
    }

    /// The value of an entry.
    pub fn value(&self, place: Place) -> &[u8] {
        self.tree.value(place)
    }

    /// Loads the paths to all keys from `low` to `high`.
    pub fn touch(&mut self, low: Key, high: Key) -> Result<(), Stop> {
        Ok(self.tree.touch(low, high)?)
    }

    /// Runs a look-up whose nodes were loaded before.
    pub fn present<T>(&mut self, look: impl FnOnce(&mut Catalog) -> Result<T, Stop>) -> T {
        match look(self) {
            Ok(found) => found,
            Err(why) => unreachable!("what is changed was touched before: {why:?}"),
        }
    }

    /// The inode of a file; an error if there is none.
    pub fn inode(&mut self, ino: Ino) -> Result<Inode, Stop> {
        match self.find(Key::inode(ino))? {
            Some(place) => Ok(Inode::decode(self.tree.value(place)).ok_or(Errno::Io)?),
            None => Err(Errno::NoEntry.into()),
        }
    }

    /// Finds the first extent that ends at or after a block.
    pub fn extent_at(&mut self, ino: Ino, block: u64) -> Result<Option<(Key, Extent, Place)>, Stop> {
        let from = Key::extent(ino, block);
        match self.seek(from)? {
            Some((key, place)) if key.is_beside(from) => {
                let extent = Extent::decode(key, self.tree.value(place)).ok_or(Errno::Io)?;
                Ok(Some((key, extent, place)))
            }
            _ => Ok(None),
        }
    }

    /// Finds the run that begins with a block.
    pub fn run_at(&mut self, ino: Ino, block: u64) -> Result<Run, Stop> {
        Ok(match self.extent_at(ino, block)? {
            Some((_, extent, _)) if extent.first <= block => {
                Run { end: extent.last() + 1, counted: true, address: extent.address_of(block) }
            }
            Some((_, extent, _)) => Run { end: extent.first, counted: false, address: 0 },
            None => Run { end: u64::MAX, counted: false, address: 0 },
        })
    }

    /// Checksums of blocks of one extent.
    pub fn sums_of(&mut self, ino: Ino, block: u64, blocks: u64) -> Result<Vec<Option<u32>>, Stop> {
        let Some((_, extent, place)) = self.extent_at(ino, block)? else {
            return Ok(Vec::new());
        };
        let value = self.tree.value(place);
        Ok((block..block + blocks).map(|b| crate::key::sum_of(value, b - extent.first)).collect())
    }

    // ---- changes

    /// Sets an inode whose path was loaded.
    pub fn put_inode(&mut self, ino: Ino, inode: &Inode) {
        self.put(Key::inode(ino), &inode.encode());
    }

    /// Sets a key whose path was loaded.
    pub fn put(&mut self, key: Key, value: &[u8]) {
        self.uncount(key);
        if let Some(Kind::Extent) = key.kind()
            && let Some(extent) = Extent::decode(key, value)
        {
            self.allocated += extent.count;
            self.bookings.push_back(Booking { ino: Ino(key.object()), extent, lives: true });
        }
        if let Err(miss) = self.tree.put(key, value) {
            unreachable!("what is changed was touched before: {miss:?}");
        }
        self.note(key);
    }

    /// Deletes a key whose path was loaded.
    pub fn delete(&mut self, key: Key) {
        self.uncount(key);
        if let Err(miss) = self.tree.remove(key) {
            unreachable!("what is changed was touched before: {miss:?}");
        }
        self.note(key);
    }

    /// Removes a replaced or deleted extent from the counts.
    fn uncount(&mut self, key: Key) {
        if key.kind() != Some(Kind::Extent) {
            return;
        }
        let Some(place) = self.present(|catalog| catalog.find(key)) else { return };
        let Some(extent) = Extent::decode(key, self.tree.value(place)) else { return };
        self.allocated -= extent.count;
        self.bookings.push_back(Booking { ino: Ino(key.object()), extent, lives: false });
    }

    /// Records that a key has changed.
    fn note(&mut self, key: Key) {
        if self.changed.last() == Some(&key) {
            return;
        }
        self.changed.push(key);
        if self.changed.len() > self.changed_most {
            self.changed.sort_unstable();
            self.changed.dedup();
            self.changed_most = (2 * self.changed.len()).max(CHANGED_MOST);
        }
        self.news = true;
    }

    /// Loads the nodes that [`Catalog::cut`] of the same blocks changes.
    pub fn touch_cut(&mut self, ino: Ino, from: u64, to: u64) -> Result<(), Stop> {
        self.touch(Key::extent(ino, from.saturating_sub(1)), Key::extent(ino, to))?;
        self.seek(Key::extent(ino, to.saturating_sub(1)))?;
        // The entries after the range are examined once the range is empty.
        self.seek(Key::extent(ino, to))?;
        Ok(())
    }

    /// Removes blocks `from..to` from the extents, and returns how many had one. Their paths must be loaded.
    pub fn cut(&mut self, ino: Ino, from: u64, to: u64) -> u64 {
        let mut freed = 0;
        loop {
            let found = self.present(|catalog| catalog.extent_at(ino, from));
            let Some((key, extent, place)) = found.filter(|(_, extent, _)| extent.first < to) else {
                break;
            };
            let mut sums = std::mem::take(&mut self.sums);
            sums.clear();
            let value = self.tree.value(place);
            sums.extend((0..extent.count).map_while(|n| crate::key::sum_of(value, n)));
            // The remaining entries are put before anything is deleted, so that no leaf on the path is freed meanwhile.
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
            // Entries after `to` are unchanged.
            if last + 1 >= to {
                break;
            }
        }
        freed
    }

    /// Sets an extent whose path was loaded.
    pub fn put_extent(&mut self, ino: Ino, extent: Extent, sums: &[u32]) {
        let mut buffer = [0; 272];
        self.put(Key::extent(ino, extent.last()), extent.encode(sums, &mut buffer));
    }

    /// Number of the next file.
    pub fn new_ino(&self) -> Ino {
        self.new_ino
    }

    /// Sets the inode of a new file, whose path was loaded, under [`Catalog::new_ino`].
    pub fn put_new_inode(&mut self, inode: &Inode) {
        let ino = self.new_ino;
        self.new_ino = Ino(ino.0 + 1);
        self.put_inode(ino, inode);
    }

    /// Notes a file found by a mount, so that its number is not reused.
    pub fn found_ino(&mut self, ino: Ino) {
        self.new_ino = self.new_ino.max(Ino(ino.0 + 1));
    }

    // ---- what changed

    /// Number of blocks in extents.
    pub fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Number of changed keys, including duplicates.
    pub fn changed(&self) -> usize {
        self.changed.len()
    }

    /// Adds keys whose present content belongs into the next commit.
    pub fn add_changed(&mut self, keys: Vec<Key>) {
        self.changed.extend(keys);
    }

    /// Takes the changed keys, without duplicates and in order, with their present values: the entries of a commit.
    pub fn take_changed(&mut self) -> Vec<u8> {
        let mut entries = Vec::new();
        let mut keys = std::mem::take(&mut self.changed);
        keys.sort_unstable();
        keys.dedup();
        for &key in &keys {
            let place = self.present(|catalog| catalog.find(key));
            put_entry(&mut entries, key, place.map(|place| self.value(place)));
        }
        keys.clear();
        self.changed = keys;
        self.news = false;
        entries
    }

    /// Clears the list of changes after a mount has applied them from the log, which contains them.
    pub fn forget_changed(&mut self) {
        self.changed.clear();
    }

    /// Returns whether a key has changed since the last call.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// The next added or removed extent, in order.
    pub fn next_booking(&mut self) -> Option<Booking> {
        self.bookings.pop_front()
    }

    // ---- nodes of the tree

    /// The address of a node copy that is no longer needed.
    pub fn next_freed(&mut self) -> Option<u64> {
        self.tree.next_freed()
    }

    /// Root of the tree, and its level.
    pub fn root(&self) -> (Child, u8) {
        self.tree.root()
    }

    /// Number of nodes of the tree, in memory or not.
    pub fn node_count(&self) -> u64 {
        self.tree.node_count()
    }

    /// Number of nodes without an address.
    pub fn dirty(&self) -> usize {
        self.tree.dirty()
    }

    /// Number of nodes in memory.
    pub fn resident(&self) -> usize {
        self.tree.resident()
    }

    /// Accepts a node read from the media; false: it is not the requested one.
    pub fn arrived(&mut self, miss: Miss, block: Block) -> bool {
        self.tree.arrived(miss, block)
    }

    /// Makes a node dirty: the one that begins with `key` at `level`, if it is at `address`.
    pub fn move_node(&mut self, key: Key, level: u8, address: u64) -> Result<(), Stop> {
        Ok(self.tree.move_node(key, level, address)?)
    }

    /// Dirty nodes, children before their parents.
    pub fn dirty_nodes(&self) -> Vec<Dirty> {
        self.tree.dirty_nodes()
    }

    /// Gives a dirty node an address in the batch that writes it.
    pub fn settle(&mut self, dirty: Dirty, address: u64, written_by: u64) -> &Block {
        self.tree.settle(dirty, address, written_by)
    }

    /// A node on a walk of the whole tree.
    pub fn visit(&mut self, key: Key, level: u8) -> Result<Visit, Miss> {
        self.tree.visit(key, level)
    }

    /// Drops clean nodes until `resident` is reached; those of batches from `unwritten` on stay.
    pub fn trim(&mut self, resident: usize, unwritten: u64) {
        self.tree.trim(resident, unwritten);
    }

    /// Checks the invariants of the state in memory, and panics if one is broken.
    pub fn check(&self) {
        self.tree.check();
    }
}
