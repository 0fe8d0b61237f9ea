//! Needs of a mount on the media, and its report.

use pellucid_flash::{BlockId, Layout, Lpn, Ppa};

/// Media access that a mount needs; the caller of translation implements it.
pub trait MountSource {
    /// Logical page and what [`Plan::sequence`](crate::Plan::sequence) gave in the spare area of a unit; `None` if it is erased or unreadable.
    fn spare(&self, ppa: Ppa) -> Option<(Lpn, u64)>;
    /// Superpages used (programmed, torn or failed) since the block's last erase; all of them if it must be erased first.
    fn used_superpages(&self, block: BlockId) -> u32;
    /// Sequence number of the block's first superpage, even if the block is unreadable; 0: unknown.
    fn begun(&self, _block: BlockId) -> u64 {
        0
    }
    /// Erases so far.
    fn erases(&self, block: BlockId) -> u32;
    /// Returns whether the block is retired.
    fn is_bad(&self, block: BlockId) -> bool;
    /// All blocks that are retired.
    fn bad_blocks(&self, layout: &Layout) -> Vec<BlockId> {
        (0..layout.blocks).map(BlockId).filter(|&block| self.is_bad(block)).collect()
    }
    /// All bytes of a unit that holds a translation page; `None` if unreadable.
    fn map_page(&self, ppa: Ppa) -> Option<Vec<u8>>;
}

/// Result of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountReport {
    /// Spare areas read to find each block's range.
    pub header_reads: u64,
    /// Translation pages read.
    pub map_page_reads: u64,
    /// Spare areas replayed, or lists of full blocks that stand for theirs.
    pub replay_reads: u64,
    /// The most reads that one die had to do; dies work in parallel.
    pub busiest_die_reads: u64,
    /// Pages found.
    pub mapped_units: u64,
    /// Pages lost with translation pages that cannot be read.
    pub lost_units: u64,
    /// Pages that held data before a power cut, on a drive that keeps none ([`Durability::Volatile`](crate::Durability::Volatile)).
    pub forgotten_units: u64,
    /// Pages whose newest acknowledged data only a volatile buffer held at a power cut: what they held before is back.
    pub undone_units: u64,
}

/// Age, in sequence numbers, beyond which a block is not written on: the numbers of its superpages count from its first, in 32 bits, and
/// as many again may be given until it is full.
pub(crate) const BLOCK_SEQUENCES: u64 = 1 << 31;
