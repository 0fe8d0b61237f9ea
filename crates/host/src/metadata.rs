//! The places of a file system's metadata on a device: which writes are the important ones.
//!
//! ```text
//!   device ─► partition table (MBR, GPT), or none ─► each file system ─► ext2, ext3, ext4: superblocks, group descriptors,
//!                                                  │                       bitmaps, inode tables, journal
//!                                                  └► FAT: everything before the data, and the root directory
//! ```
//! Directories and indirect blocks lie among the data, wherever the file system puts them, and are not found:
//! a journal covers their changes, but FAT has none. The layouts are those of the kernel's documentation
//! (ext4) and of Microsoft's specification of 2000 (FAT).
//!
//! Invariants: every range lies on the device; no number read from the device makes memory grow by more than
//! [`TABLE_BYTES_MAX`] and [`RANGES_MAX`].

use std::ops::Range;

/// Most bytes of group descriptors, which are enough for 128 TiB with the usual groups.
const TABLE_BYTES_MAX: u64 = 64 << 20;
/// Most blocks that a journal may have.
const JOURNAL_BLOCKS_MAX: u64 = 1 << 22;
/// Most ranges of one file system; a sound one has three for each group, and those of its journal.
const RANGES_MAX: usize = 1 << 20;
/// Bytes of a sector of a partition table.
const SECTOR: u64 = 512;

/// Error of a search for metadata.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// The device cannot be read.
    #[error("it cannot be read: {0}")]
    Read(String),
    /// The device has no file system that is known here.
    #[error("no known file system: {found}; allowed: ext2, ext3, ext4, FAT, alone or in partitions")]
    Unknown {
        /// Findings on the device.
        found: String,
    },
    /// A structure contradicts another one, or the device.
    #[error("{kind}: {what} is damaged, or of an unknown kind")]
    Damaged {
        /// Kind of the file system.
        kind: &'static str,
        /// Structure that is wrong.
        what: &'static str,
    },
}

/// Metadata of the file systems on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Kinds of the file systems, in order.
    pub kinds: Vec<&'static str>,
    /// Bytes of the device, in no order; ranges may overlap.
    pub ranges: Vec<Range<u64>>,
}

impl Metadata {
    /// Returns the number of bytes in any range.
    pub fn bytes(&self) -> u64 {
        let mut sorted = self.ranges.clone();
        sorted.sort_by_key(|range| range.start);
        let (mut bytes, mut end) = (0, 0);
        for range in sorted {
            bytes += range.end.saturating_sub(range.start.max(end));
            end = end.max(range.end);
        }
        bytes
    }
}

/// Finds the metadata on a device of `bytes`; `read` fills a buffer from a byte of the device on.
///
/// # Errors
/// Fails if the device cannot be read, or holds no file system that is known here.
pub fn find_metadata(
    bytes: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), String>,
) -> Result<Metadata, MetadataError> {
    let mut device = Volume { read: &mut read, first: 0, bytes, found: Metadata::default() };
    if device.file_system()? {
        return Ok(device.found);
    }
    let partitions = device.partitions()?;
    let mut all = Metadata::default();
    for Range { start, end } in &partitions {
        let mut volume =
            Volume { read: device.read, first: *start, bytes: end - start, found: Metadata::default() };
        if volume.file_system()? {
            all.kinds.append(&mut volume.found.kinds);
            all.ranges.append(&mut volume.found.ranges);
        }
        device.read = volume.read;
    }
    if all.kinds.is_empty() {
        let found = match partitions.len() {
            0 => "nothing that is recognised at its beginning".into(),
            count => format!("{count} partitions"),
        };
        return Err(MetadataError::Unknown { found });
    }
    // The table itself: the first MiB up to the first partition.
    all.ranges.push(0..partitions.iter().map(|partition| partition.start).min().unwrap_or(0));
    all.ranges.retain(|range| !range.is_empty());
    Ok(all)
}

/// Read function of a device.
type Read<'a> = dyn FnMut(u64, &mut [u8]) -> Result<(), String> + 'a;

/// A part of a device that may hold a file system.
struct Volume<'a, 'b> {
    read: &'a mut Read<'b>,
    /// First byte on the device.
    first: u64,
    bytes: u64,
    found: Metadata,
}

impl Volume<'_, '_> {
    /// Looks for a file system; returns false if there is none that is known.
    fn file_system(&mut self) -> Result<bool, MetadataError> {
        if self.bytes < 4096 {
            return Ok(false);
        }
        let head = self.at(0, 4096)?;
        if number16(&head, 1024 + 56) == Ext::MAGIC {
            self.ext(&head[1024..2048])?;
        } else if let Some(fat) = Fat::parse(&head) {
            self.fat(fat)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn at(&mut self, from: u64, bytes: u64) -> Result<Vec<u8>, MetadataError> {
        let mut data = vec![0; bytes as usize];
        (self.read)(self.first + from, &mut data).map_err(MetadataError::Read)?;
        Ok(data)
    }

    /// Adds bytes of the volume; `None` if they are not on it, or there are too many ranges to be sound.
    fn add(&mut self, from: u64, bytes: u64) -> Option<()> {
        let is_sound = self.found.ranges.len() < RANGES_MAX;
        let end = from.checked_add(bytes).filter(|&end| is_sound && end <= self.bytes)?;
        self.found.ranges.push(self.first + from..self.first + end);
        Some(())
    }

    /// Partitions of a GPT, or else of an MBR.
    fn partitions(&mut self) -> Result<Vec<Range<u64>>, MetadataError> {
        let head = if self.bytes >= 2 * SECTOR { self.at(0, 2 * SECTOR)? } else { return Ok(Vec::new()) };
        let all = match &head[512..520] == b"EFI PART" {
            true => {
                let (table, entries, entry) =
                    (number64(&head, 512 + 72), number32(&head, 512 + 80), number32(&head, 512 + 84));
                let bytes = u64::from(entries) * u64::from(entry);
                let is_sound = (128..=4096).contains(&entry) && bytes <= 1 << 20;
                let from = table.checked_mul(SECTOR).filter(|from| is_sound && from + bytes <= self.bytes);
                let from =
                    from.ok_or(MetadataError::Damaged { kind: "GPT", what: "the table of partitions" })?;
                let table = self.at(from, bytes)?;
                let entries = table.chunks_exact(entry as usize).filter(|entry| entry[..16] != [0; 16]);
                entries.map(|entry| (number64(entry, 32), number64(entry, 40).saturating_add(1))).collect()
            }
            false if number16(&head, 510) == 0xAA55 => {
                let entries = head[446..510].chunks_exact(16).filter(|entry| entry[4] != 0);
                let range = |entry: &[u8]| {
                    let first = u64::from(number32(entry, 8));
                    (first, first + u64::from(number32(entry, 12)))
                };
                entries.map(range).collect()
            }
            false => Vec::new(),
        };
        let on_device = |(first, end): (u64, u64)| {
            let range = first.checked_mul(SECTOR)?..end.checked_mul(SECTOR)?;
            (!range.is_empty() && range.end <= self.bytes).then_some(range)
        };
        let all: Vec<(u64, u64)> = all;
        Ok(all.into_iter().filter_map(on_device).collect())
    }

    fn ext(&mut self, superblock: &[u8]) -> Result<(), MetadataError> {
        let ext = Ext::parse(superblock, self.bytes)?;
        let damaged = |what| MetadataError::Damaged { kind: ext.kind, what };
        self.found.kinds.push(ext.kind);
        let descriptors = ext.descriptors(self)?;
        self.add(0, (ext.first_block + 1) * ext.block_bytes).ok_or(damaged("the superblock"))?;
        let table_bytes = (ext.inodes_per_group * ext.inode_bytes).next_multiple_of(ext.block_bytes);
        for group in 0..ext.groups {
            let descriptor = &descriptors[(group * ext.descriptor_bytes) as usize..];
            for (low, high, bytes) in
                [(0, 32, ext.block_bytes), (4, 36, ext.block_bytes), (8, 40, table_bytes)]
            {
                let block = ext.block_number(descriptor, low, high);
                let from = block.checked_mul(ext.block_bytes);
                from.and_then(|from| self.add(from, bytes)).ok_or(damaged("a group descriptor"))?;
            }
            let copies = ext.copies(group);
            if copies > 0 {
                let from = ext.first_of(group) * ext.block_bytes;
                // The last group may be shorter than its copies would be.
                let bytes = (copies * ext.block_bytes).min(self.bytes.saturating_sub(from));
                self.add(from, bytes).ok_or(damaged("a copy of the superblock"))?;
            }
        }
        if ext.journal > 0 {
            let group = (ext.journal - 1) / ext.inodes_per_group;
            if group >= ext.groups {
                return Err(damaged("the number of the journal"));
            }
            let descriptor = &descriptors[(group * ext.descriptor_bytes) as usize..];
            let table = ext.block_number(descriptor, 8, 40) * ext.block_bytes;
            let inode = self.at(table + (ext.journal - 1) % ext.inodes_per_group * ext.inode_bytes, 128)?;
            self.journal(&ext, &inode).ok_or(damaged("the journal's list of blocks"))??;
        }
        Ok(())
    }

    /// Adds the blocks of the journal, and those that list them; `None` if the list is not sound.
    fn journal(&mut self, ext: &Ext, inode: &[u8]) -> Option<Result<(), MetadataError>> {
        const EXTENTS: u32 = 0x8_0000;
        let blocks = u64::from(number32(inode, 4)).div_ceil(ext.block_bytes);
        if blocks > JOURNAL_BLOCKS_MAX {
            return None;
        }
        if number32(inode, 32) & EXTENTS != 0 {
            return self.extents(ext, &inode[40..100], 5);
        }
        let direct = inode[40..88].as_chunks::<4>().0.iter().map(|block| u32::from_le_bytes(*block));
        for block in direct.take(blocks as usize) {
            self.add(u64::from(block) * ext.block_bytes, ext.block_bytes)?;
        }
        let mut left = blocks.saturating_sub(12);
        for (at, depth) in [(88, 1), (92, 2), (96, 3)] {
            if left > 0
                && let Err(error) = self.indirect(ext, number32(inode, at), depth, &mut left)?
            {
                return Some(Err(error));
            }
        }
        Some(Ok(()))
    }

    /// Adds the blocks below an indirect block of ext2 and ext3, and the block itself.
    fn indirect(
        &mut self,
        ext: &Ext,
        block: u32,
        depth: u32,
        left: &mut u64,
    ) -> Option<Result<(), MetadataError>> {
        let from = u64::from(block) * ext.block_bytes;
        self.add(from, ext.block_bytes)?;
        let list = match self.at(from, ext.block_bytes) {
            Ok(list) => list,
            Err(error) => return Some(Err(error)),
        };
        for block in list.as_chunks::<4>().0.iter().map(|block| u32::from_le_bytes(*block)) {
            if *left == 0 {
                break;
            }
            if depth > 1 {
                if let Err(error) = self.indirect(ext, block, depth - 1, left)? {
                    return Some(Err(error));
                }
            } else {
                self.add(u64::from(block) * ext.block_bytes, ext.block_bytes)?;
                *left -= 1;
            }
        }
        Some(Ok(()))
    }

    /// Adds the blocks below a node of a tree of extents, at most `depth` levels above its leaves.
    fn extents(&mut self, ext: &Ext, node: &[u8], depth: u16) -> Option<Result<(), MetadataError>> {
        const MAGIC: u16 = 0xF30A;
        let (entries, levels) = (usize::from(number16(node, 2)), number16(node, 6));
        if number16(node, 0) != MAGIC || levels > depth || 12 + entries * 12 > node.len() {
            return None;
        }
        for entry in node[12..].chunks_exact(12).take(entries) {
            if levels == 0 {
                // A longer extent is not written yet.
                let blocks = u64::from(number16(entry, 4)) & 0x7FFF;
                let blocks = if blocks == 0 { 0x8000 } else { blocks };
                let first = u64::from(number16(entry, 6)) << 32 | u64::from(number32(entry, 8));
                self.add(first * ext.block_bytes, blocks * ext.block_bytes)?;
                continue;
            }
            let below = u64::from(number16(entry, 8)) << 32 | u64::from(number32(entry, 4));
            self.add(below * ext.block_bytes, ext.block_bytes)?;
            let node = match self.at(below * ext.block_bytes, ext.block_bytes) {
                Ok(node) => node,
                Err(error) => return Some(Err(error)),
            };
            if let Err(error) = self.extents(ext, &node, levels - 1)? {
                return Some(Err(error));
            }
        }
        Some(Ok(()))
    }

    fn fat(&mut self, fat: Fat) -> Result<(), MetadataError> {
        let damaged = |what| MetadataError::Damaged { kind: "FAT", what };
        self.found.kinds.push("FAT");
        self.add(0, fat.data).ok_or(damaged("the boot sector"))?;
        let Some(mut cluster) = fat.root else { return Ok(()) };
        // A chain cannot have more clusters than the table has entries.
        for _ in 0..fat.entries {
            if !(2..0x0FFF_FFF8).contains(&cluster) {
                return Ok(());
            }
            let from = fat.data + u64::from(cluster - 2) * fat.cluster_bytes;
            self.add(from, fat.cluster_bytes).ok_or(damaged("the root directory"))?;
            let entry = fat.table + u64::from(cluster) * 4;
            cluster = number32(&self.at(entry, 4)?, 0) & 0x0FFF_FFFF;
        }
        Err(damaged("the root directory"))
    }
}

/// Layout of an ext2, ext3 or ext4.
struct Ext {
    kind: &'static str,
    block_bytes: u64,
    /// Block of the superblock.
    first_block: u64,
    blocks_per_group: u64,
    groups: u64,
    inodes_per_group: u64,
    inode_bytes: u64,
    descriptor_bytes: u64,
    /// Blocks that are kept behind the descriptors for more of them.
    reserved: u64,
    /// First block of descriptors that lies in its own groups (meta_bg); `u64::MAX`: none does.
    first_meta: u64,
    /// All groups have a copy of the superblock; else some, by number.
    copies_everywhere: bool,
    /// The two groups with a copy (sparse_super2).
    two_copies: Option<[u64; 2]>,
    /// Inode of the journal; 0: there is none.
    journal: u64,
    wide: bool,
}

impl Ext {
    const MAGIC: u16 = 0xEF53;

    fn parse(superblock: &[u8], bytes: u64) -> Result<Ext, MetadataError> {
        const JOURNAL: u32 = 0x4;
        const SPARSE_2: u32 = 0x200;
        const JOURNAL_DEVICE: u32 = 0x8;
        const META_GROUPS: u32 = 0x10;
        const EXTENTS: u32 = 0x40;
        const WIDE: u32 = 0x80;
        const SPARSE: u32 = 0x1;
        let long = |at| u64::from(number32(superblock, at));
        let (compatible, incompatible) = (number32(superblock, 92), number32(superblock, 96));
        let kind = match (compatible & JOURNAL != 0, incompatible & EXTENTS != 0) {
            (_, true) => "ext4",
            (true, false) => "ext3",
            (false, false) => "ext2",
        };
        let wide = incompatible & WIDE != 0;
        let revised = number32(superblock, 76) > 0;
        let blocks = long(4) | if wide { long(336) << 32 } else { 0 };
        let block_bytes = 1024u64 << number32(superblock, 24).min(16);
        let (first_block, blocks_per_group) = (long(20), long(32));
        let inode_bytes = if revised { u64::from(number16(superblock, 88)) } else { 128 };
        let groups = blocks.saturating_sub(first_block).div_ceil(blocks_per_group.max(1));
        let descriptor_bytes = if wide { u64::from(number16(superblock, 254)) } else { 32 };
        let is_sound = block_bytes <= 1 << 16
            && (1..=block_bytes * 8).contains(&blocks_per_group)
            && first_block <= 1
            && blocks.checked_mul(block_bytes).is_some_and(|needed| needed <= bytes)
            && (128..=block_bytes).contains(&inode_bytes)
            && (1..=block_bytes * 8).contains(&long(40))
            && (if wide { 64 } else { 32 }..=1024).contains(&descriptor_bytes)
            && (groups * descriptor_bytes <= TABLE_BYTES_MAX)
            && incompatible & JOURNAL_DEVICE == 0;
        if !is_sound {
            return Err(MetadataError::Damaged { kind, what: "the superblock" });
        }
        Ok(Ext {
            kind,
            block_bytes,
            first_block,
            blocks_per_group,
            groups,
            inodes_per_group: long(40),
            inode_bytes,
            descriptor_bytes,
            reserved: u64::from(number16(superblock, 206)),
            first_meta: if incompatible & META_GROUPS != 0 { long(260) } else { u64::MAX },
            copies_everywhere: number32(superblock, 100) & SPARSE == 0,
            two_copies: (compatible & SPARSE_2 != 0).then(|| [long(588), long(592)]),
            journal: if compatible & JOURNAL != 0 { long(224) } else { 0 },
            wide,
        })
    }

    fn first_of(&self, group: u64) -> u64 {
        self.first_block + group * self.blocks_per_group
    }

    /// Reports whether a group has a copy of the superblock.
    fn has_copy(&self, group: u64) -> bool {
        let is_power = |base: u64| {
            let mut power = base;
            while power < group {
                power *= base;
            }
            power == group
        };
        match self.two_copies {
            _ if group == 0 => true,
            Some(two) => two.contains(&group),
            None => self.copies_everywhere || group == 1 || [3, 5, 7].into_iter().any(is_power),
        }
    }

    /// Blocks of descriptors.
    fn descriptor_blocks(&self) -> u64 {
        (self.groups * self.descriptor_bytes).div_ceil(self.block_bytes)
    }

    /// Blocks at the beginning of a group that hold copies of superblock and descriptors.
    fn copies(&self, group: u64) -> u64 {
        let superblock = u64::from(self.has_copy(group));
        let of_group = group * self.descriptor_bytes / self.block_bytes;
        if of_group >= self.first_meta {
            // Its own block of descriptors lies in its first, second and last group.
            let per_block = self.block_bytes / self.descriptor_bytes;
            let at = group % per_block;
            return superblock + u64::from(at <= 1 || at == per_block - 1);
        }
        let old = self.descriptor_blocks().min(self.first_meta);
        if superblock == 0 { 0 } else { 1 + old + self.reserved }
    }

    /// Reads all group descriptors.
    fn descriptors(&self, volume: &mut Volume<'_, '_>) -> Result<Vec<u8>, MetadataError> {
        let per_block = self.block_bytes / self.descriptor_bytes;
        let mut all = Vec::new();
        for block in 0..self.descriptor_blocks() {
            let at = match block < self.first_meta {
                true => self.first_block + 1 + block,
                false => self.first_of(block * per_block) + u64::from(self.has_copy(block * per_block)),
            };
            if (at + 1) * self.block_bytes > volume.bytes {
                return Err(MetadataError::Damaged { kind: self.kind, what: "the superblock" });
            }
            all.extend(volume.at(at * self.block_bytes, self.block_bytes)?);
        }
        Ok(all)
    }

    fn block_number(&self, descriptor: &[u8], low: usize, high: usize) -> u64 {
        let high = if self.wide { u64::from(number32(descriptor, high)) << 32 } else { 0 };
        high | u64::from(number32(descriptor, low))
    }
}

/// Layout of a FAT file system.
struct Fat {
    /// First byte of the table.
    table: u64,
    /// Entries of the table.
    entries: u64,
    /// First byte behind tables and root directory.
    data: u64,
    cluster_bytes: u64,
    /// First cluster of the root directory, if it is a chain (FAT32).
    root: Option<u32>,
}

impl Fat {
    /// Parses a boot sector; `None` if it is none.
    fn parse(head: &[u8]) -> Option<Fat> {
        let sector = u64::from(number16(head, 11));
        let (per_cluster, tables) = (u64::from(head[13]), u64::from(head[16]));
        let (reserved, roots) = (u64::from(number16(head, 14)), u64::from(number16(head, 17)));
        let narrow = u64::from(number16(head, 22));
        let is_32 = narrow == 0;
        let sectors = if is_32 { u64::from(number32(head, 36)) } else { narrow };
        let is_sound = number16(head, 510) == 0xAA55
            && matches!(head[0], 0xEB | 0xE9)
            && matches!(sector, 512 | 1024 | 2048 | 4096)
            && per_cluster.is_power_of_two()
            && (1..=2).contains(&tables)
            && reserved > 0
            && sectors > 0
            && is_32 == (roots == 0);
        is_sound.then(|| Fat {
            table: reserved * sector,
            entries: sectors * sector / 4,
            data: (reserved + tables * sectors + (roots * 32).div_ceil(sector)) * sector,
            cluster_bytes: per_cluster * sector,
            root: is_32.then(|| number32(head, 44)),
        })
    }
}

fn number16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn number32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn number64(bytes: &[u8], at: usize) -> u64 {
    u64::from(number32(bytes, at)) | u64::from(number32(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;

    const BYTES: u64 = 64 << 10;

    fn find(image: &[u8]) -> Result<Metadata, MetadataError> {
        let read = |from: u64, data: &mut [u8]| {
            let part = usize::try_from(from).ok().and_then(|from| image.get(from..)?.get(..data.len()));
            data.copy_from_slice(part.ok_or("behind the end")?);
            Ok(())
        };
        let found = find_metadata(image.len() as u64, read)?;
        assert!(found.ranges.iter().all(|range| !range.is_empty() && range.end <= image.len() as u64));
        Ok(found)
    }

    fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
        image[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// An ext3 of 64 blocks of 1 KiB in one group, with 16 inodes, and a journal of 14 blocks from block 20 on,
    /// of which an indirect block lists the last two.
    fn ext3() -> Vec<u8> {
        let mut image = vec![0; BYTES as usize];
        let mut long = |at, value: u32| put(&mut image, at, &value.to_le_bytes());
        [(0, 16), (4, 64), (20, 1), (32, 8192), (40, 16), (76, 1), (92, 4), (100, 1), (224, 8)]
            .into_iter()
            .for_each(|(at, value)| long(1024 + at, value));
        [(0, 3), (4, 4), (8, 5)].into_iter().for_each(|(at, value)| long(2048 + at, value));
        let journal = 5 * 1024 + 7 * 128;
        long(journal + 4, 14 * 1024);
        (0..12).for_each(|at| long(journal + 40 + 4 * at, 20 + at as u32));
        long(journal + 88, 40);
        long(40 * 1024, 32);
        long(40 * 1024 + 4, 33);
        put(&mut image, 1024 + 56, &Ext::MAGIC.to_le_bytes());
        put(&mut image, 1024 + 88, &128u16.to_le_bytes());
        image
    }

    fn blocks(found: &Metadata) -> Vec<u64> {
        let mut all: Vec<u64> =
            found.ranges.iter().flat_map(|range| range.start / 1024..range.end / 1024).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn everything_but_data_and_directories_is_found() {
        let found = find(&ext3()).expect("an ext3");
        assert_eq!(found.kinds, ["ext3"]);
        // Superblock and descriptors, two bitmaps, two blocks of inodes, the journal and its indirect block.
        let expected: Vec<u64> = (0..7).chain(20..34).chain([40]).collect();
        assert_eq!(blocks(&found), expected);
        assert_eq!(found.bytes(), 22 * 1024);
    }

    #[test]
    fn file_systems_are_found_in_partitions() {
        let mut image = vec![0; 2 * BYTES as usize];
        put(&mut image, BYTES as usize, &ext3());
        let mut entry = [0; 16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&128u32.to_le_bytes());
        entry[12..].copy_from_slice(&128u32.to_le_bytes());
        put(&mut image, 446, &entry);
        put(&mut image, 510, &[0x55, 0xAA]);
        let found = find(&image).expect("an ext3 in a partition");
        assert_eq!(blocks(&found).last(), Some(&(64 + 40)));
        assert!(found.ranges.contains(&(0..BYTES)), "the table of partitions");
        image[BYTES as usize + 1024 + 56] = 0;
        let why = find(&image).expect_err("nothing in it").to_string();
        assert!(why.contains("1 partitions") && why.contains("FAT"), "{why}");
    }

    #[test]
    fn a_chain_that_is_the_root_directory_of_a_fat_is_followed() {
        let mut image = vec![0; BYTES as usize];
        put(&mut image, 0, &[0xEB, 0, 0x90]);
        put(&mut image, 11, &512u16.to_le_bytes());
        (image[13], image[16]) = (2, 1);
        put(&mut image, 14, &2u16.to_le_bytes());
        put(&mut image, 36, &1u32.to_le_bytes());
        put(&mut image, 44, &2u32.to_le_bytes());
        put(&mut image, 510, &[0x55, 0xAA]);
        for (cluster, next) in [(2, 5u32), (5, 0x0FFF_FFF8)] {
            put(&mut image, 1024 + 4 * cluster, &next.to_le_bytes());
        }
        let found = find(&image).expect("a FAT32");
        assert_eq!(found.ranges, [0..1536, 1536..2560, 4608..5632]);
        put(&mut image, 1024 + 4 * 5, &2u32.to_le_bytes());
        let why = find(&image).expect_err("a chain without an end").to_string();
        assert!(why.starts_with("FAT: the root directory"), "{why}");
    }

    /// Unreadable blocks are reported if they are needed, and have no effect otherwise.
    #[test]
    fn a_block_that_cannot_be_read_is_told() {
        let image = ext3();
        let whole = find(&image).expect("an ext3");
        let mut told = Vec::new();
        for block in 0..BYTES / 1024 {
            let read = |from: u64, data: &mut [u8]| {
                if (from..from + data.len() as u64).contains(&(block * 1024)) {
                    return Err("unreadable".to_string());
                }
                data.copy_from_slice(&image[from as usize..][..data.len()]);
                Ok(())
            };
            match find_metadata(BYTES, read) {
                Err(error) => {
                    assert_eq!(error, MetadataError::Read("unreadable".into()));
                    told.push(block);
                }
                Ok(found) => assert_eq!(found, whole),
            }
        }
        // The beginning with superblock and descriptors, and the list of the journal's blocks; its inode is read
        // from the middle of a block.
        assert_eq!(told, [0, 1, 2, 3, 40]);
    }

    /// Damage leads to an error or to ranges on the device, never further.
    #[test]
    fn damage_is_no_danger() {
        let (mut found, mut refused) = (0, 0);
        for seed in 0..20_000 {
            let mut rng = Rng::new(seed);
            let mut image = ext3();
            for _ in 0..1 + rng.below(8) {
                let at =
                    [0, 1024, 2048, 5 * 1024 + 7 * 128, 40 * 1024][rng.below(5) as usize] + rng.below(256);
                image[at as usize] = rng.below(256) as u8;
            }
            if seed % 16 == 0 {
                (0..4096).for_each(|at| image[at] = rng.below(256) as u8);
                put(&mut image, 1024 + 56, &Ext::MAGIC.to_le_bytes());
            }
            match find(&image) {
                Ok(_) => found += 1,
                Err(_) => refused += 1,
            }
        }
        assert!(found > 2_000 && refused > 2_000, "{found} found, {refused} refused");
    }
}
