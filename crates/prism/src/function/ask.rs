//! Calls of the level, their answers, and its counters.

use super::Levelled;
use crate::{FlashAddress, LevelError};
use pellucid_flash::{SimTime, Status, Tag};

/// Kind of block that [`Function::address_mapper`] hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mapping {
    /// A page.
    Page,
    /// A block.
    Block,
}

/// An allocated block or page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocated {
    /// The block, or the page.
    pub address: FlashAddress,
    /// Blocks of the channel that can still be mapped.
    pub free_blocks: u32,
}

/// A call of the function level that needs the flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionAsk {
    /// The caller's tag; returned with the answer.
    pub tag: Tag,
    /// Call.
    pub call: FunctionCall,
}

/// A call that needs the flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionCall {
    /// `Flash_Read`: reads `sectors` sectors of one block.
    Read {
        /// The page.
        address: FlashAddress,
        /// Start offset in sectors from the beginning of that page; may reach into later pages.
        sector: u32,
        /// Number of sectors.
        sectors: u32,
        /// A buffer; it is returned filled, and its previous contents are lost.
        data: Vec<u8>,
    },
    /// `Flash_Write`: writes the next whole pages of one block.
    Write {
        /// The first page.
        address: FlashAddress,
        /// The application's own word. It is stored with every sector, moves with the data, and is listed at a start.
        mark: u32,
        /// Sector images of the pages; they are returned.
        data: Vec<u8>,
    },
    /// `Wear_Leveler`: swaps the data of the most worn and the least worn of the full blocks.
    LevelWear,
}

impl FunctionCall {
    /// The buffer of the call.
    pub(super) fn into_data(self) -> Vec<u8> {
        match self {
            FunctionCall::Read { data, .. } | FunctionCall::Write { data, .. } => data,
            FunctionCall::LevelWear => Vec::new(),
        }
    }
}

/// Result of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum FunctionOutcome {
    /// Done.
    Done,
    /// Wear levelling has ended.
    Levelled(Levelled),
    /// The flash failed.
    Failed(Status),
    /// The call was refused; nothing was sent.
    Refused(LevelError),
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionAnswer {
    /// The caller's tag of the call.
    pub tag: Tag,
    /// Time of the end.
    pub at: SimTime,
    /// Result.
    pub outcome: FunctionOutcome,
    /// The buffer of a read or a write.
    pub data: Vec<u8>,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionCounters {
    /// Sectors that the application read.
    pub read_sectors: u64,
    /// Sectors that the application wrote.
    pub written_sectors: u64,
    /// Writes that failed.
    pub write_failures: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks retired.
    pub retired: u64,
    /// Sectors written by wear levelling.
    pub levelled_sectors: u64,
    /// Swaps made by wear levelling.
    pub swaps: u64,
}
