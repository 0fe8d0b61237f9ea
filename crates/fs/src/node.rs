//! A node of the tree: 4 KiB, identical on the media and in memory.
//!
//! ```text
//!   0       4      6      7  8      10    12       14   16      24     32
//!   | crc32c | magic| level| - | count| heap | dead |  -  | file system |  -  | slots ─►  ... free ...  ◄─ cells |
//!   slot: u16, where its cell begins; slots are in the order of their keys
//!   cell: key (16), length of the value (2), value
//! ```
//! A leaf's values are entries; an inner node's are [`Child`]ren, each keyed by the lowest key that may be below it.

use crate::key::Key;
use crate::types::BLOCK_BYTES;

const MAGIC: u16 = 0x5046;
const HEADER: usize = 32;
const CELL: usize = 18;
/// Largest value of an entry, so that both halves of a split have space for one more.
pub(crate) const VALUE_BYTES_MAX: usize = 512;

/// Bytes of a block.
pub(crate) type Block = Box<[u8; BLOCK_BYTES]>;

/// A block of zeros.
pub(crate) fn zero_block() -> Block {
    match vec![0; BLOCK_BYTES].into_boxed_slice().try_into() {
        Ok(block) => block,
        Err(_) => unreachable!("the slice has the length of a block"),
    }
}

/// Location of a child node: a block of the drive and its checksum, or a frame of memory without a block yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    pub at: u64,
    pub crc: u32,
}

impl Child {
    pub const BYTES: usize = 12;
    const IN_MEMORY: u64 = 1 << 63;

    pub fn in_memory(frame: u32) -> Child {
        Child { at: Child::IN_MEMORY | u64::from(frame), crc: 0 }
    }

    /// The frame of a node without a block.
    pub fn frame(self) -> Option<u32> {
        (self.at & Child::IN_MEMORY != 0).then_some(self.at as u32)
    }

    pub fn encode(self) -> [u8; Child::BYTES] {
        let mut bytes = [0; Child::BYTES];
        bytes[..8].copy_from_slice(&self.at.to_le_bytes());
        bytes[8..].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Child {
        let mut at = [0; 8];
        at.copy_from_slice(&bytes[..8]);
        let mut crc = [0; 4];
        crc.copy_from_slice(&bytes[8..12]);
        Child { at: u64::from_le_bytes(at), crc: u32::from_le_bytes(crc) }
    }
}

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct Node(pub Block);

impl Node {
    pub fn new(level: u8) -> Node {
        let mut node = Node(zero_block());
        node.clear(level);
        node
    }

    fn clear(&mut self, level: u8) {
        self.0[..HEADER].fill(0);
        self.0[4..6].copy_from_slice(&MAGIC.to_le_bytes());
        self.0[6] = level;
        self.set_u16(10, BLOCK_BYTES);
    }

    #[inline]
    fn u16(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes([self.0[at], self.0[at + 1]]))
    }

    fn set_u16(&mut self, at: usize, value: usize) {
        self.0[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
    }

    #[inline]
    pub fn level(&self) -> u8 {
        self.0[6]
    }

    #[inline]
    pub fn count(&self) -> usize {
        self.u16(8)
    }

    fn heap(&self) -> usize {
        self.u16(10)
    }

    fn dead(&self) -> usize {
        self.u16(12)
    }

    #[inline]
    fn cell(&self, slot: usize) -> usize {
        self.u16(HEADER + 2 * slot)
    }

    #[inline]
    pub fn key(&self, slot: usize) -> Key {
        let at = self.cell(slot);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0[at..at + 16]);
        Key(u128::from_le_bytes(bytes))
    }

    #[inline]
    pub fn value(&self, slot: usize) -> &[u8] {
        let at = self.cell(slot);
        &self.0[at + CELL..at + CELL + self.u16(at + 16)]
    }

    fn value_mut(&mut self, slot: usize) -> &mut [u8] {
        let at = self.cell(slot);
        let length = self.u16(at + 16);
        &mut self.0[at + CELL..at + CELL + length]
    }

    /// Returns the first slot whose key is at or after `key`, and whether it equals `key`.
    #[inline]
    pub fn search(&self, key: Key) -> (usize, bool) {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = (low + high) / 2;
            match self.key(middle).cmp(&key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return (middle, true),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        (low, false)
    }

    /// The slot of an inner node whose subtree covers `key`.
    #[inline]
    pub fn slot_for(&self, key: Key) -> usize {
        match self.search(key) {
            (slot, true) => slot,
            (slot, false) => slot.saturating_sub(1),
        }
    }

    pub fn child(&self, slot: usize) -> Child {
        Child::decode(self.value(slot))
    }

    pub fn set_child(&mut self, slot: usize, child: Child) {
        self.value_mut(slot).copy_from_slice(&child.encode());
    }

    /// Bytes of cells and slots.
    pub fn used(&self) -> usize {
        BLOCK_BYTES - self.heap() - self.dead() + 2 * self.count()
    }

    fn free(&self) -> usize {
        BLOCK_BYTES - HEADER - self.used()
    }

    pub fn has_space_for(&self, value_bytes: usize) -> bool {
        self.free() >= CELL + 2 + value_bytes
    }

    /// Inserts at a slot; there must be space.
    pub fn insert(&mut self, slot: usize, key: Key, value: &[u8]) {
        let bytes = CELL + value.len();
        let count = self.count();
        if self.heap() < HEADER + 2 * (count + 1) + bytes {
            self.compact();
        }
        let at = self.heap() - bytes;
        self.0[at..at + 16].copy_from_slice(&key.0.to_le_bytes());
        self.set_u16(at + 16, value.len());
        self.0[at + CELL..at + bytes].copy_from_slice(value);
        let slots = HEADER + 2 * slot;
        self.0.copy_within(slots..HEADER + 2 * count, slots + 2);
        self.set_u16(slots, at);
        self.set_u16(8, count + 1);
        self.set_u16(10, at);
    }

    pub fn remove(&mut self, slot: usize) {
        let (count, at) = (self.count(), self.cell(slot));
        let bytes = CELL + self.u16(at + 16);
        let slots = HEADER + 2 * slot;
        self.0.copy_within(slots + 2..HEADER + 2 * count, slots);
        self.set_u16(8, count - 1);
        self.set_u16(12, self.dead() + bytes);
    }

    /// Replaces a value by one of the same length; false if the length differs.
    pub fn overwrite(&mut self, slot: usize, value: &[u8]) -> bool {
        let old = self.value_mut(slot);
        let same = old.len() == value.len();
        if same {
            old.copy_from_slice(value);
        }
        same
    }

    fn compact(&mut self) {
        let old = self.clone();
        self.clear(old.level());
        self.append_all(&old, 0);
    }

    /// Appends the entries of another node from a slot on.
    pub fn append_all(&mut self, other: &Node, from: usize) {
        for slot in from..other.count() {
            let count = self.count();
            self.insert(count, other.key(slot), other.value(slot));
        }
    }

    /// Splits the node into two of about equal size; returns the upper one.
    pub fn split(&mut self) -> Node {
        let half = self.used() / 2;
        let (mut at, mut bytes) = (0, 0);
        while at + 1 < self.count() && (bytes < half || at == 0) {
            bytes += CELL + 2 + self.value(at).len();
            at += 1;
        }
        self.split_at(at)
    }

    /// Splits the node at a slot; returns the upper part.
    pub fn split_at(&mut self, at: usize) -> Node {
        let old = self.clone();
        let mut upper = Node::new(old.level());
        upper.append_all(&old, at);
        self.clear(old.level());
        for slot in 0..at {
            self.insert(slot, old.key(slot), old.value(slot));
        }
        upper
    }

    /// Prepares it for the media, and returns its checksum.
    pub fn seal(&mut self, file_system: u64) -> u32 {
        self.0[16..24].copy_from_slice(&file_system.to_le_bytes());
        let crc = crc32c::crc32c(&self.0[4..]);
        self.0[..4].copy_from_slice(&crc.to_le_bytes());
        crc
    }

    /// Returns a node read from the media, if it is the requested one and none of its references points outside
    /// of it.
    pub fn open(block: Block, file_system: u64, crc: u32, level: u8) -> Option<Node> {
        let node = Node(block);
        let stored = u32::from_le_bytes([node.0[0], node.0[1], node.0[2], node.0[3]]);
        let own = u64::from_le_bytes(node.0[16..24].try_into().ok()?);
        let right = stored == crc
            && crc32c::crc32c(&node.0[4..]) == crc
            && node.u16(4) == usize::from(MAGIC)
            && own == file_system
            && node.level() == level;
        (right && node.is_sound()).then_some(node)
    }

    /// Returns whether slots and cells are at valid positions, in order.
    pub fn is_sound(&self) -> bool {
        let count = self.count();
        let slots_end = HEADER + 2 * count;
        if slots_end > self.heap() || self.heap() > BLOCK_BYTES {
            return false;
        }
        let cells_fit = (0..count).all(|slot| {
            let at = self.cell(slot);
            at >= self.heap()
                && at + CELL <= BLOCK_BYTES
                && at + CELL + self.u16(at + 16) <= BLOCK_BYTES
                && (self.level() == 0 || self.u16(at + 16) == Child::BYTES)
        });
        cells_fit && (1..count).all(|slot| self.key(slot - 1) < self.key(slot))
    }
}
