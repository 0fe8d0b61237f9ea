//! File-system images in the manner of Impressions (Agrawal et al., "Generating Realistic Impressions for File-System Benchmarking",
//! FAST 2009), written to an FTL of nameless writes.
//!
//! | what | law | source |
//! |---|---|---|
//! | bytes of a file | lognormal, mu 9.48, sigma 2.46; 6 of 100,000 files Pareto, from 512 MB on, shape 0.91 | Impressions' defaults |
//! | files of a directory | geometric, mean 10.2 | mean: Impressions' default; its law is an inverse polynomial |
//! | inodes | 256 bytes, one for each 16 KiB; tables written when the file system is made | mke2fs |
//! | bitmaps | two blocks for each 32,768 blocks | ext3 |
//! | indirect blocks | 12 direct pointers, then 1,024 to a block | ext3 |
//! | directory entry | 8 bytes and a name of 12 | ext3; the name is assumed |
//!
//! The depth of the tree changes no count, so it is not modelled. Data are nameless; everything else has virtual addresses. There is no journal: the
//! paper does not give its size. Changed metadata are written once per [`COMMIT`] of data.

use pellucid_flash::{Lpn, Ppa, Rng};
use pellucid_ftl::{Content, Nameless, Taker};
use pellucid_workload::files::normal;
use std::collections::BTreeSet;

const BLOCK: u64 = 4096;
/// Data between two commits: 5 s, ext3's interval, at the board's 90 MB/s.
const COMMIT: u64 = 450_000_000 / BLOCK;
/// Share of the file system that files fill: ext3 keeps 5 % for the superuser, and its tables take some.
const USED: f64 = 0.90;
const FILES_OF_DIRECTORY: f64 = 10.2;
const INODES_OF_BLOCK: u64 = 16;
const ENTRIES_OF_BLOCK: u64 = BLOCK / 20;
const GROUP_BLOCKS: u64 = 32_768;
const POINTERS: u64 = 1024;
const DIRECT: u64 = 12;

/// Contents of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Image {
    pub files: u64,
    pub directories: u64,
    pub data_blocks: u64,
    pub virtual_blocks: u64,
}

/// Writes blocks to an FTL, one flash page at a time.
struct Writer<'a> {
    ftl: &'a mut Nameless,
    queue: Vec<Content>,
    page: usize,
}

impl Writer<'_> {
    fn write(&mut self, content: Content) {
        if content == Content::Nameless {
            assert!(self.ftl.promise(1), "the image fits");
        }
        self.queue.push(content);
        if self.queue.len() == self.page {
            self.end_page();
        }
    }

    fn end_page(&mut self) {
        if !self.queue.is_empty() {
            let page: Ppa = self.ftl.place(Taker::Nameless, |_| false).expect("the image fits");
            self.ftl.ended(page, &self.queue, true);
            self.queue.clear();
        }
    }
}

/// Draws the size of a file in bytes.
fn size(rng: &mut Rng) -> u64 {
    let bytes = match rng.chance(0.999_94) {
        true => (9.48 + 2.46 * normal(rng)).exp(),
        false => f64::from(512u32 << 20) / (1.0 - rng.unit_f64()).powf(1.0 / 0.91),
    };
    bytes as u64
}

/// Indirect blocks of a file of this many blocks: single, double and triple.
fn indirect(blocks: u64) -> u64 {
    let single = blocks.saturating_sub(DIRECT);
    let double = single.saturating_sub(POINTERS);
    let triple = double.saturating_sub(POINTERS * POINTERS);
    let roots = [single, double, triple].iter().filter(|&&left| left > 0).count() as u64;
    roots + double.div_ceil(POINTERS) + triple.div_ceil(POINTERS * POINTERS)
}

/// Creates a file system of `blocks` blocks and fills it.
pub(super) fn write(ftl: &mut Nameless, blocks: u64, seed: u64) -> Image {
    let mut rng = Rng::stream(seed, "image");
    let page = ftl.layout().units_per_superpage as usize;
    let mut writer = Writer { ftl, queue: Vec::new(), page };
    let tables = blocks / (16_384 / BLOCK) / INODES_OF_BLOCK;
    let bitmaps = 2 * blocks.div_ceil(GROUP_BLOCKS);
    let mut next_virtual = tables + bitmaps;
    (0..next_virtual).for_each(|block| writer.write(Content::Virtual(Lpn(block as u32))));
    let mut image = Image::default();
    let (mut dirty, mut committed, mut inode) = (BTreeSet::new(), 0, 0);
    let budget = (blocks as f64 * USED) as u64;
    // Virtual blocks count against the same budget.
    while image.data_blocks + next_virtual < budget {
        if image.files == 0 || rng.chance(1.0 / FILES_OF_DIRECTORY) {
            image.directories += 1;
            dirty.extend([next_virtual, (inode / INODES_OF_BLOCK).min(tables - 1)]);
            (next_virtual, inode) = (next_virtual + 1, inode + 1);
        }
        let left = budget - image.data_blocks - next_virtual;
        let data = size(&mut rng).div_ceil(BLOCK).min(left);
        image.files += 1;
        // A very large directory has further blocks; with a mean of ten files, hardly any directory is that large.
        debug_assert!(ENTRIES_OF_BLOCK > 10 * FILES_OF_DIRECTORY as u64);
        dirty.extend([next_virtual - 1, (inode / INODES_OF_BLOCK).min(tables - 1)]);
        inode += 1;
        let pointers = indirect(data);
        dirty.extend(next_virtual..next_virtual + pointers);
        next_virtual += pointers;
        for block in 0..data {
            writer.write(Content::Nameless);
            dirty.insert(tables + 2 * ((image.data_blocks + block) / GROUP_BLOCKS));
        }
        image.data_blocks += data;
        if image.data_blocks - committed >= COMMIT {
            committed = image.data_blocks;
            std::mem::take(&mut dirty)
                .into_iter()
                .for_each(|block| writer.write(Content::Virtual(Lpn(block as u32))));
            // A commit is a flush: the next block starts another page.
            writer.end_page();
        }
    }
    dirty.into_iter().for_each(|block| writer.write(Content::Virtual(Lpn(block as u32))));
    writer.end_page();
    image.virtual_blocks = next_virtual;
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_indirect_blocks_that_they_need() {
        let cases =
            [(0, 0), (12, 0), (13, 1), (12 + 1024, 1), (12 + 1025, 3), (12 + 2048, 3), (12 + 2049, 4)];
        for (blocks, expected) in cases {
            assert_eq!(indirect(blocks), expected, "{blocks} blocks");
        }
    }

    /// The law's mean is exp(9.48 + 2.46^2 / 2) = 270 kB, its median exp(9.48) = 13 kB.
    #[test]
    fn sizes_follow_their_law() {
        let mut rng = Rng::stream(1, "sizes");
        let mut sizes: Vec<u64> = (0..40_000).map(|_| size(&mut rng)).collect();
        sizes.sort_unstable();
        let (median, ninth) = (sizes[20_000] as f64, sizes[36_000] as f64);
        assert!((median / 13_095.0 - 1.0).abs() < 0.05, "median {median}");
        assert!((ninth / (9.48f64 + 2.46 * 1.2816).exp() - 1.0).abs() < 0.06, "ninth decile {ninth}");
    }
}
