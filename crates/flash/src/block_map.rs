//! All blocks of a drive at one moment, as an observer sees them, and what the drive had done by then.

use crate::BlockView;

/// The blocks of a drive at one moment. Counters count since the drive was made, or since they were last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockMap {
    /// Channels.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Blocks of each die.
    pub blocks_per_die: u32,
    /// Mapping units of a block.
    pub units_per_block: u32,
    /// Victim blocks chosen.
    pub victims: u64,
    /// Valid mapping units copied by GC and its kin.
    pub copied_units: u64,
    /// Bytes of successful host writes.
    pub host_written_bytes: u64,
    /// Bytes programmed, for all causes.
    pub programmed_bytes: u64,
    /// Erased blocks that are free.
    pub free_blocks: u32,
    /// Every block: those of die 0 first.
    pub blocks: Vec<BlockView>,
}
