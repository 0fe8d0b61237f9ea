//! Configuration of a zoned namespace, and the spare blocks that follow from it.

use std::ops::Range;

/// A zoned namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneConfig {
    /// Blocks of every die.
    pub blocks: Range<u32>,
    /// Blocks of every die outside the zones: they replace bad ones and hold the staging log.
    pub spare_blocks: u32,
    /// Dies over which a zone is spread: a divisor of all dies.
    pub dies_per_zone: u32,
    /// Open zones that are allowed; 0: any number.
    pub open_max: u32,
    /// Active zones that are allowed; 0: any number.
    pub active_max: u32,
    /// Longest append, in sectors.
    pub append_max_sectors: u32,
    /// Superpages that the drive's buffer holds for partly written ones and for those on their way to the media.
    pub stage_superpages: u32,
    /// The buffer survives a power cut, which writes it to the staging log. Otherwise a flush writes unprogrammed data to that log.
    pub protected: bool,
}

impl ZoneConfig {
    /// Smallest append limit that can be reported to hosts: 2 pages of 4 KiB, as 1 page stands for no limit (ZASL, ZNS 4.1.5.2).
    pub const APPEND_MAX_BYTES_LEAST: u64 = 8192;

    /// Free blocks to keep for a protected buffer: one more than its superpages fill, for a failed program, for superpages that stay
    /// because their zone has no block (at most half a log block of them), or for other log entries meanwhile.
    pub fn reserve(&self, superpages_per_block: u32) -> u32 {
        if self.protected { self.stage_superpages.div_ceil(superpages_per_block) + 1 } else { 0 }
    }

    /// Spare blocks of all dies together that this needs: the log has one, and for a while the one before it.
    pub fn spare_least(&self, superpages_per_block: u32) -> u32 {
        if self.protected { self.reserve(superpages_per_block) + 2 } else { 1 }
    }
}
