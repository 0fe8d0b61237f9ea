//! The tree: a copy-on-write B-tree that keeps only needed nodes in memory.
//!
//! ```text
//!   clean node    lies at an address; a frame may hold it; may be forgotten
//!   dirty node    has no address: its parent, dirty too, names its frame; stays until a checkpoint gives it one
//! ```
//! Nothing here waits. A call that needs a node outside of memory returns [`Miss`] before anything has changed. [`Tree::touch`] loads the nodes on
//! the path of a change: callers touch everything that they will change, then change it.

use crate::key::Key;
use crate::node::{Block, Child, Node};
use crate::table::Table;

/// A node is missing in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Miss {
    pub child: Child,
    pub level: u8,
}

/// Position of an entry, valid until the tree changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    frame: u32,
    slot: usize,
}

#[derive(Clone, Debug)]
struct Frame {
    node: Option<Node>,
    /// Its location, or [`Child::in_memory`].
    child: Child,
    used: bool,
    /// The batch that writes it; it stays in memory until that batch is on the media.
    written_by: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: Child,
    level: u8,
    frames: Vec<Frame>,
    vacant: Vec<u32>,
    by_address: Table,
    dirty: usize,
    hand: usize,
    file_system: u64,
    /// Number of nodes of the tree, in memory or not.
    node_count: u64,
    /// Addresses of copies that the tree no longer needs.
    freed: Vec<u64>,
    /// A path, from the root down: frames and slots.
    path: Vec<(u32, usize)>,
}

impl Tree {
    /// An empty tree.
    pub fn new(file_system: u64) -> Tree {
        let mut tree = Tree::at(file_system, Child { at: 0, crc: 0 }, 0, 1);
        let frame = tree.add(Node::new(0));
        tree.root = Child::in_memory(frame);
        tree
    }

    /// The tree with this root.
    pub fn at(file_system: u64, root: Child, level: u8, node_count: u64) -> Tree {
        Tree {
            root,
            level,
            frames: Vec::new(),
            vacant: Vec::new(),
            by_address: Table::default(),
            dirty: 0,
            hand: 0,
            file_system,
            node_count,
            freed: Vec::new(),
            path: Vec::new(),
        }
    }

    pub fn root(&self) -> (Child, u8) {
        (self.root, self.level)
    }

    /// Number of nodes of the tree, in memory or not.
    pub fn node_count(&self) -> u64 {
        self.node_count
    }

    /// An address of a copy that the tree no longer needs.
    pub fn next_freed(&mut self) -> Option<u64> {
        self.freed.pop()
    }

    /// Number of nodes without an address.
    pub fn dirty(&self) -> usize {
        self.dirty
    }

    /// Number of nodes in memory.
    pub fn resident(&self) -> usize {
        self.frames.len() - self.vacant.len()
    }

    fn place_frame(&mut self, frame: Frame) -> u32 {
        match self.vacant.pop() {
            Some(at) => {
                self.frames[at as usize] = frame;
                at
            }
            None => {
                self.frames.push(frame);
                (self.frames.len() - 1) as u32
            }
        }
    }

    /// Adds a dirty node.
    fn add(&mut self, node: Node) -> u32 {
        self.dirty += 1;
        let frame = Frame { node: Some(node), child: Child { at: 0, crc: 0 }, used: true, written_by: 0 };
        let at = self.place_frame(frame);
        self.frames[at as usize].child = Child::in_memory(at);
        at
    }

    #[inline]
    fn node(&self, frame: u32) -> &Node {
        match &self.frames[frame as usize].node {
            Some(node) => node,
            None => unreachable!("a frame that is named holds a node"),
        }
    }

    #[inline]
    fn node_mut(&mut self, frame: u32) -> &mut Node {
        match &mut self.frames[frame as usize].node {
            Some(node) => node,
            None => unreachable!("a frame that is named holds a node"),
        }
    }

    #[inline]
    fn resolve(&mut self, child: Child, level: u8) -> Result<u32, Miss> {
        let frame = match child.frame() {
            Some(frame) => frame,
            None => self.by_address.get(child.at).ok_or(Miss { child, level })?,
        };
        self.frames[frame as usize].used = true;
        Ok(frame)
    }

    /// Finds the leaf of `key`, and the first key of the leaf after it.
    fn leaf(&mut self, key: Key) -> Result<(u32, Option<Key>), Miss> {
        let mut bound = None;
        let mut frame = self.resolve(self.root, self.level)?;
        for level in (0..self.level).rev() {
            let node = self.node(frame);
            let slot = node.slot_for(key);
            if slot + 1 < node.count() {
                bound = Some(node.key(slot + 1));
            }
            frame = self.resolve(node.child(slot), level)?;
        }
        Ok((frame, bound))
    }

    /// Finds the entry of `key`.
    pub fn find(&mut self, key: Key) -> Result<Option<Place>, Miss> {
        let (frame, _) = self.leaf(key)?;
        let (slot, found) = self.node(frame).search(key);
        Ok(found.then_some(Place { frame, slot }))
    }

    /// Finds the first entry at or after `key`.
    pub fn seek(&mut self, mut key: Key) -> Result<Option<(Key, Place)>, Miss> {
        loop {
            let (frame, bound) = self.leaf(key)?;
            let (slot, _) = self.node(frame).search(key);
            if slot < self.node(frame).count() {
                return Ok(Some((self.node(frame).key(slot), Place { frame, slot })));
            }
            match bound {
                Some(next) => key = next,
                None => return Ok(None),
            }
        }
    }

    pub fn value(&self, place: Place) -> &[u8] {
        self.node(place.frame).value(place.slot)
    }

    /// Loads the paths to all leaves with keys from `low` to `high`.
    pub fn touch(&mut self, mut low: Key, high: Key) -> Result<(), Miss> {
        loop {
            match self.leaf(low)?.1 {
                Some(next) if next <= high => low = next,
                _ => return Ok(()),
            }
        }
    }

    /// Descends to `key` down to `level`, into `path`.
    fn descend(&mut self, key: Key, level: u8) -> Result<u32, Miss> {
        self.path.clear();
        let mut frame = self.resolve(self.root, self.level)?;
        for below in (level..self.level).rev() {
            let node = self.node(frame);
            let slot = node.slot_for(key);
            let child = node.child(slot);
            self.path.push((frame, slot));
            frame = self.resolve(child, below)?;
        }
        Ok(frame)
    }

    fn make_dirty(&mut self, frame: u32) -> bool {
        let old = self.frames[frame as usize].child;
        if old.frame().is_some() {
            return false;
        }
        self.by_address.remove(old.at);
        self.freed.push(old.at);
        self.frames[frame as usize].child = Child::in_memory(frame);
        self.dirty += 1;
        true
    }

    /// Makes the nodes of `path`, and `frame` below it, dirty.
    fn dirty_path(&mut self, frame: u32) {
        let mut below = frame;
        let mut changed = self.make_dirty(below);
        for at in (0..self.path.len()).rev() {
            if !changed {
                return;
            }
            let (parent, slot) = self.path[at];
            changed = self.make_dirty(parent);
            self.node_mut(parent).set_child(slot, Child::in_memory(below));
            below = parent;
        }
        if changed {
            self.root = Child::in_memory(below);
        }
    }

    /// Sets the value of a key.
    pub fn put(&mut self, key: Key, value: &[u8]) -> Result<(), Miss> {
        let leaf = self.descend(key, 0)?;
        self.dirty_path(leaf);
        let (slot, found) = self.node(leaf).search(key);
        if found {
            if self.node_mut(leaf).overwrite(slot, value) {
                return Ok(());
            }
            self.node_mut(leaf).remove(slot);
        }
        self.insert(leaf, slot, key, value);
        Ok(())
    }

    /// Inserts into a dirty node at the end of the path, and splits full nodes.
    fn insert(&mut self, frame: u32, slot: usize, key: Key, value: &[u8]) {
        if self.node(frame).has_space_for(value.len()) {
            return self.node_mut(frame).insert(slot, key, value);
        }
        // Ascending insertions leave full nodes behind.
        let count = self.node(frame).count();
        let appends = slot == count && self.is_last();
        let upper = match appends {
            true => Node::new(self.node(frame).level()),
            false => self.node_mut(frame).split(),
        };
        let level = upper.level();
        let lower_count = self.node(frame).count();
        let upper = self.add(upper);
        self.node_count += 1;
        let to_lower = slot <= lower_count
            && !appends
            && (slot < lower_count || self.node(frame).has_space_for(value.len()));
        match to_lower {
            true => self.insert_into_half(frame, slot, key, value),
            false => self.insert_into_half(upper, slot - lower_count, key, value),
        }
        let separator = self.node(upper).key(0);
        let child = Child::in_memory(upper).encode();
        match self.path.pop() {
            Some((parent, slot)) => self.insert(parent, slot + 1, separator, &child),
            None => {
                let mut root = Node::new(level + 1);
                root.insert(0, Key::MIN, &Child::in_memory(frame).encode());
                root.insert(1, separator, &child);
                self.node_count += 1;
                self.level = level + 1;
                let root = self.add(root);
                self.root = Child::in_memory(root);
            }
        }
    }

    /// Inserts into a half of a split. Both halves have space for the largest value, which is at most a quarter of a node.
    fn insert_into_half(&mut self, frame: u32, slot: usize, key: Key, value: &[u8]) {
        assert!(self.node(frame).has_space_for(value.len()), "a half has space");
        self.node_mut(frame).insert(slot, key, value);
    }

    /// Returns whether the path leads along the right edge of the tree.
    fn is_last(&self) -> bool {
        self.path.iter().all(|&(frame, slot)| slot + 1 == self.node(frame).count())
    }

    /// Removes a key; false: it was absent.
    pub fn remove(&mut self, key: Key) -> Result<bool, Miss> {
        let leaf = self.descend(key, 0)?;
        let (slot, found) = self.node(leaf).search(key);
        if !found {
            return Ok(false);
        }
        self.dirty_path(leaf);
        self.node_mut(leaf).remove(slot);
        self.shrink(leaf);
        Ok(true)
    }

    /// Merges a nearly empty node with its neighbour if that is in memory, so that every path in memory stays there.
    fn shrink(&mut self, frame: u32) {
        let Some((parent, slot)) = self.path.pop() else {
            return self.lower_root();
        };
        let used = self.node(frame).used();
        if used > crate::types::BLOCK_BYTES / 4 {
            return self.lower_root_of(parent);
        }
        let level = self.node(frame).level();
        let right = slot + 1 < self.node(parent).count();
        let other_slot = if right { slot + 1 } else { slot.wrapping_sub(1) };
        if other_slot == usize::MAX {
            return self.lower_root_of(parent);
        }
        let Ok(other) = self.resolve(self.node(parent).child(other_slot), level) else {
            return;
        };
        if self.node(other).used() + used > crate::types::BLOCK_BYTES * 3 / 4 {
            return;
        }
        if self.make_dirty(other) {
            self.node_mut(parent).set_child(other_slot, Child::in_memory(other));
        }
        let (low, high, high_slot) = if right { (frame, other, slot + 1) } else { (other, frame, slot) };
        let Some(mut upper) = self.frames[high as usize].node.take() else { return };
        if level > 0 {
            // A parent refers to an inner node by its lowest key.
            let key = self.node(parent).key(high_slot);
            let child = upper.child(0).encode();
            upper.remove(0);
            upper.insert(0, key, &child);
        }
        self.node_mut(low).append_all(&upper, 0);
        self.frames[high as usize].node = Some(upper);
        self.drop_frame(high);
        self.node_count -= 1;
        self.node_mut(parent).remove(high_slot);
        self.shrink(parent);
    }

    fn lower_root_of(&mut self, parent: u32) {
        if self.path.is_empty() && self.node(parent).count() == 1 {
            self.lower_root();
        }
    }

    /// Removes a root with a single child.
    fn lower_root(&mut self) {
        while self.level > 0 {
            let Some(frame) = self.root.frame() else { return };
            if self.node(frame).count() > 1 {
                return;
            }
            self.root = self.node(frame).child(0);
            self.level -= 1;
            self.drop_frame(frame);
            self.node_count -= 1;
        }
    }

    /// Drops a dirty node.
    fn drop_frame(&mut self, frame: u32) {
        debug_assert!(self.frames[frame as usize].child.frame().is_some());
        self.dirty -= 1;
        self.vacate(frame);
    }

    fn vacate(&mut self, frame: u32) {
        self.frames[frame as usize].node = None;
        self.vacant.push(frame);
    }

    /// Accepts a node read from the media; false: it is not the requested one.
    pub fn arrived(&mut self, miss: Miss, block: Block) -> bool {
        if self.by_address.get(miss.child.at).is_some() {
            return true;
        }
        let Some(node) = Node::open(block, self.file_system, miss.child.crc, miss.level) else {
            return false;
        };
        let frame = Frame { node: Some(node), child: miss.child, used: true, written_by: 0 };
        let at = self.place_frame(frame);
        self.by_address.insert(miss.child.at, at);
        true
    }

    /// Makes a node dirty: the one that begins with `key` at `level`, if it is at `address`.
    pub fn move_node(&mut self, key: Key, level: u8, address: u64) -> Result<(), Miss> {
        if level > self.level {
            return Ok(());
        }
        let frame = self.descend(key, level)?;
        if self.frames[frame as usize].child.at == address {
            self.dirty_path(frame);
        }
        Ok(())
    }

    /// Drops the least recently used clean nodes until `resident` is reached. Nodes of batches from `unwritten` on stay.
    pub fn trim(&mut self, resident: usize, unwritten: u64) {
        let mut looks = 2 * self.frames.len();
        while self.resident() > resident && looks > 0 {
            looks -= 1;
            self.hand = (self.hand + 1) % self.frames.len();
            let frame = &mut self.frames[self.hand];
            if frame.node.is_none() || frame.child.frame().is_some() || frame.written_by >= unwritten {
                continue;
            }
            if !std::mem::take(&mut frame.used) {
                self.by_address.remove(self.frames[self.hand].child.at);
                self.vacate(self.hand as u32);
            }
        }
    }

    /// Dirty nodes with their parents, children before parents.
    pub fn dirty_nodes(&self) -> Vec<Dirty> {
        let mut list = Vec::with_capacity(self.dirty);
        if let Some(root) = self.root.frame() {
            self.gather(root, Key::MIN, None, &mut list);
        }
        debug_assert_eq!(list.len(), self.dirty);
        list
    }

    fn gather(&self, frame: u32, low: Key, parent: Option<(u32, usize)>, list: &mut Vec<Dirty>) {
        let node = self.node(frame);
        if node.level() > 0 {
            for slot in 0..node.count() {
                if let Some(child) = node.child(slot).frame() {
                    let low = if slot == 0 { low } else { node.key(slot) };
                    self.gather(child, low, Some((frame, slot)), list);
                }
            }
        }
        list.push(Dirty { frame, low, level: node.level(), parent });
    }

    /// Gives a dirty node an address, after its dirty children; returns its block.
    pub fn settle(&mut self, dirty: Dirty, address: u64, written_by: u64) -> &Block {
        let file_system = self.file_system;
        let crc = self.node_mut(dirty.frame).seal(file_system);
        let child = Child { at: address, crc };
        match dirty.parent {
            Some((parent, slot)) => self.node_mut(parent).set_child(slot, child),
            None => self.root = child,
        }
        let frame = &mut self.frames[dirty.frame as usize];
        (frame.child, frame.written_by) = (child, written_by);
        self.by_address.insert(address, dirty.frame);
        self.dirty -= 1;
        &self.node(dirty.frame).0
    }

    /// Visits the inner node of a level whose range covers `key`, for a walk of the whole tree: its location, and the first key of the next node.
    pub fn visit(&mut self, key: Key, level: u8) -> Result<Visit, Miss> {
        let frame = self.descend(key, level)?;
        let bound = self.path.iter().rev().find_map(|&(parent, slot)| {
            let node = self.node(parent);
            (slot + 1 < node.count()).then(|| node.key(slot + 1))
        });
        Ok(Visit { child: self.frames[frame as usize].child, next: bound })
    }

    /// Checks the nodes in memory, and panics if an invariant is broken.
    pub fn check(&self) {
        let mut dirty = 0;
        if let Some(root) = self.root.frame() {
            self.check_node(root, Key::MIN, None, self.level, &mut dirty);
        }
        assert_eq!(dirty, self.dirty, "dirty nodes are those that are connected");
        let clean = self.frames.iter().filter(|f| f.node.is_some() && f.child.frame().is_none()).count();
        assert_eq!(clean, self.by_address.len(), "clean nodes are found by their address");
    }

    fn check_node(&self, frame: u32, low: Key, high: Option<Key>, level: u8, dirty: &mut usize) {
        let node = self.node(frame);
        *dirty += 1;
        assert_eq!(node.level(), level);
        assert!(node.is_sound(), "cells are in their place");
        assert!(node.count() > 0 || level == 0, "an inner node has children");
        for slot in 0..node.count() {
            let key = node.key(slot);
            assert!((key >= low || (level > 0 && slot == 0)) && high.is_none_or(|high| key < high));
            if level > 0 {
                let above = if slot + 1 < node.count() { Some(node.key(slot + 1)) } else { high };
                if let Some(child) = node.child(slot).frame() {
                    self.check_node(child, if slot == 0 { low } else { key }, above, level - 1, dirty);
                }
            }
        }
    }
}

/// A dirty node, its parent and the slot that names it there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dirty {
    frame: u32,
    /// Lowest key that its subtree may have.
    pub low: Key,
    pub level: u8,
    parent: Option<(u32, usize)>,
}

/// A node on a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    pub child: Child,
    /// First key of the next node.
    pub next: Option<Key>,
}
