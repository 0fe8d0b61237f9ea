//! Keys and values of the tree.
//!
//! | object | kind | offset | value |
//! |---|---|---|---|
//! | inode | `Inode` | 0 | [`Inode`] |
//! | inode | `Xattr` | hash of the name, piece | name and a piece of the value |
//! | inode | `Target` | piece | a piece of a symbolic link's target |
//! | directory | `Entry` | hash of the name, slot | [`Entry`] |
//! | inode | `Extent` | its **last** file block | [`Extent`] |
//! | 0 | `Orphan` | inode | empty: blocks beyond the end of the file are still to be freed |
//!
//! Extents are keyed by their last block, so the extent that covers a block is the first one at or after it.

use crate::types::{BLOCK_BYTES, FileKind, Ino, Time};

/// Position of an entry in the tree: object, kind, offset, compared in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub u128);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Inode = 0,
    Xattr = 1,
    Target = 2,
    Entry = 3,
    Extent = 4,
    Orphan = 5,
    /// Not an entry of the tree but a record of the log: a block of a file has another name (`names/mod.rs`).
    Moved = 6,
}

impl Kind {
    const ALL: [Kind; 7] =
        [Kind::Inode, Kind::Xattr, Kind::Target, Kind::Entry, Kind::Extent, Kind::Orphan, Kind::Moved];
}

pub(crate) const OFFSET_BITS: u32 = 60;
/// Largest offset.
pub(crate) const OFFSET_MAX: u64 = (1 << OFFSET_BITS) - 1;

impl Key {
    pub const MIN: Key = Key(0);

    pub const fn new(object: u64, kind: Kind, offset: u64) -> Key {
        debug_assert!(offset <= OFFSET_MAX);
        Key((object as u128) << 64 | (kind as u128) << OFFSET_BITS | offset as u128)
    }

    pub const fn inode(ino: Ino) -> Key {
        Key::new(ino.0, Kind::Inode, 0)
    }

    pub const fn extent(ino: Ino, last: u64) -> Key {
        Key::new(ino.0, Kind::Extent, last)
    }

    pub const fn orphan(ino: Ino) -> Key {
        Key::new(0, Kind::Orphan, ino.0)
    }

    pub const fn object(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// Kind of the key; `None`: unknown, so the key is damaged.
    pub fn kind(self) -> Option<Kind> {
        Kind::ALL.get((self.0 as u64 >> OFFSET_BITS) as usize).copied()
    }

    pub const fn offset(self) -> u64 {
        self.0 as u64 & OFFSET_MAX
    }

    /// Returns whether `other` has the same object and kind.
    pub const fn is_beside(self, other: Key) -> bool {
        self.0 >> OFFSET_BITS == other.0 >> OFFSET_BITS
    }
}

/// Reader of consecutive little-endian fields.
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|b| b[0])
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.bytes(2).map(|b| u16::from_le_bytes([b[0], b[1]]))
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.bytes(4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.bytes(8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes)
    }

    pub fn u128(&mut self) -> Option<u128> {
        self.bytes(16).and_then(|b| b.try_into().ok()).map(u128::from_le_bytes)
    }
}

/// Entry of a file in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    pub kind: FileKind,
    /// Permission bits, with set-user-id, set-group-id and sticky.
    pub mode: u16,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    /// Bytes of a file or a target; number of entries of a directory.
    pub size: u64,
    /// Blocks owned: on the media, promised by fallocate, or still in memory.
    pub blocks: u64,
    /// Parent of a directory.
    pub parent: Ino,
    pub accessed: Time,
    pub modified: Time,
    pub changed: Time,
    pub created: Time,
}

impl Inode {
    pub const BYTES: usize = 80;

    pub fn encode(&self) -> [u8; Inode::BYTES] {
        let mut bytes = [0; Inode::BYTES];
        bytes[0] = self.kind as u8;
        bytes[2..4].copy_from_slice(&self.mode.to_le_bytes());
        for (at, field) in [(4, self.links), (8, self.uid), (12, self.gid), (16, self.rdev)] {
            bytes[at..at + 4].copy_from_slice(&field.to_le_bytes());
        }
        let times = [self.accessed, self.modified, self.changed, self.created].map(|t| t.0 as u64);
        let words = [self.size, self.blocks, self.parent.0, times[0], times[1], times[2], times[3]];
        for (n, word) in words.iter().enumerate() {
            let at = 24 + 8 * n;
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Inode> {
        if bytes.len() != Inode::BYTES {
            return None;
        }
        let mut f = Fields(bytes);
        let kind = FileKind::of(f.u8()?)?;
        f.u8()?;
        let mode = f.u16()?;
        let (links, uid, gid, rdev) = (f.u32()?, f.u32()?, f.u32()?, f.u32()?);
        f.u32()?;
        let (size, blocks, parent) = (f.u64()?, f.u64()?, Ino(f.u64()?));
        let mut time = || f.u64().map(|t| Time(t as i64));
        let (accessed, modified, changed, created) = (time()?, time()?, time()?, time()?);
        Some(Inode {
            kind,
            mode,
            links,
            uid,
            gid,
            rdev,
            size,
            blocks,
            parent,
            accessed,
            modified,
            changed,
            created,
        })
    }
}

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub ino: Ino,
    pub kind: FileKind,
    pub name: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Encodes the value into `buffer`.
    pub fn encode<'b>(&self, buffer: &'b mut [u8; 264]) -> &'b [u8] {
        buffer[..8].copy_from_slice(&self.ino.0.to_le_bytes());
        buffer[8] = self.kind as u8;
        buffer[9..9 + self.name.len()].copy_from_slice(self.name);
        &buffer[..9 + self.name.len()]
    }

    pub fn decode(bytes: &'a [u8]) -> Option<Entry<'a>> {
        let mut f = Fields(bytes);
        Some(Entry { ino: Ino(f.u64()?), kind: FileKind::of(f.u8()?)?, name: f.0 })
    }
}

/// Address of a run of blocks of a file, followed by its checksums, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub first: u64,
    pub count: u64,
    /// Block on the drive; 0: promised by fallocate, reads as zeros.
    pub address: u64,
}

/// Maximum blocks of an extent with an address, so that its checksums fit into the tree.
pub(crate) const EXTENT_BLOCKS_MAX: u64 = 64;

impl Extent {
    pub const BYTES: usize = 16;

    pub fn last(&self) -> u64 {
        self.first + self.count - 1
    }

    /// Address of one of its blocks; 0: none.
    pub fn address_of(&self, block: u64) -> u64 {
        if self.address == 0 { 0 } else { self.address + (block - self.first) }
    }

    pub fn encode<'b>(&self, sums: &[u32], buffer: &'b mut [u8; 272]) -> &'b [u8] {
        buffer[..8].copy_from_slice(&self.count.to_le_bytes());
        buffer[8..16].copy_from_slice(&self.address.to_le_bytes());
        for (sum, place) in sums.iter().zip(buffer[16..].chunks_exact_mut(4)) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
        &buffer[..16 + 4 * sums.len()]
    }

    pub fn decode(key: Key, bytes: &[u8]) -> Option<Extent> {
        let mut f = Fields(bytes);
        let (count, address) = (f.u64()?, f.u64()?);
        let first = (key.offset() + 1).checked_sub(count)?;
        let sums = f.0.len() / 4;
        let sums_fit = f.0.is_empty() || (sums as u64 == count && f.0.len() % 4 == 0);
        let fits = count > 0 && (address == 0 || count <= EXTENT_BLOCKS_MAX) && sums_fit;
        fits.then_some(Extent { first, count, address })
    }
}

/// Number of blocks for this many bytes.
pub(crate) fn blocks_of(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES as u64)
}

/// Checksum of block `index` of an extent's value, if it has one.
pub(crate) fn sum_of(value: &[u8], index: u64) -> Option<u32> {
    let at = Extent::BYTES + 4 * index as usize;
    value.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes)
}
