//! The types of the C interface, from which the header is made.

use pellucid_prism::{FlashAddress, SsdGeometry};

/// Version of this interface. It rises when a program that was compiled with an older header would not work any more; what is added
/// leaves it as it is.
pub const PRISM_API_VERSION: u32 = 1;

/// A flag of `prism_open`: the time of a modelled drive is that of the clock. Without it time is virtual: a call takes what the drive
/// takes in simulated time, and no longer in reality than it takes to compute that. Remote drives and files are in real time always.
pub const PRISM_REAL_TIME: u32 = 1;

/// A flag of `prism_open`: makes the state of a new flash monitor, whatever the drive holds. All applications on it are gone.
pub const PRISM_FORMAT: u32 = 2;

/// Bytes that an application can keep beside each sector at the raw level.
pub const PRISM_OOB_SIZE: u32 = 16;

/// How a call ended. `prism_error` has a sentence about the last one of this thread that did not end well.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrismStatus {
    /// Done.
    Ok = 0,
    /// An argument makes no sense: a null pointer, a length that is no multiple of what it must be, a call of another level.
    Invalid = 1,
    /// The address is not in the flash of this application. Nothing was sent to the drive.
    OutOfRange = 2,
    /// The rules of flash forbid it: pages out of order, a block that is not erased or not mapped, data that were not written.
    Order = 3,
    /// No block or LUN is free, or a quota is used up, or more blocks have to be given back first.
    NoSpace = 4,
    /// There is such an application, or level, or range already.
    Exists = 5,
    /// There is no such application, or nothing is under way.
    Missing = 6,
    /// The flash could not return the data.
    ReadError = 7,
    /// The flash could not write or erase.
    WriteError = 8,
    /// The drive takes no writes any more.
    ReadOnly = 9,
    /// The drive cannot be opened, or does not answer.
    Unreachable = 10,
    /// Something of it is still under way.
    Busy = 11,
    /// A mistake of this library. The drive is of no use any more.
    Internal = 12,
}

/// A page of an application's flash.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrismAddress {
    /// From 0.
    pub channel: u32,
    /// From 0 in its channel.
    pub lun: u32,
    /// From 0 in its LUN.
    pub block: u32,
    /// From 0 in its block.
    pub page: u32,
}

/// The layout of an application's flash, as every level shows it (`SSD_geometry` of the paper).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrismGeometry {
    /// Channels.
    pub channel_count: u32,
    /// LUNs of each channel.
    pub luns_each_channel: u32,
    /// Blocks of each LUN.
    pub blocks_each_lun: u32,
    /// Pages of each block. A page is the least that can be written.
    pub pages_each_block: u32,
    /// Bytes of a page.
    pub page_size: u32,
    /// Bytes of a sector, the least that can be read at the function and policy levels. A page is a number of them.
    pub sector_size: u32,
}

/// How space is mapped.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrismMapping {
    /// By pages.
    Page = 0,
    /// By blocks.
    Block = 1,
}

/// How the policy level chooses what it empties next.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrismGc {
    /// What costs the fewest copies.
    Greedy = 0,
    /// What was begun first.
    Fifo = 1,
    /// What was changed last the longest ago.
    Lru = 2,
    /// What is worth most by age and cost.
    CostBenefit = 3,
}

/// What a block was found to hold when the function level was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrismFound {
    /// The block.
    pub address: PrismAddress,
    /// The application's word of its first page (`prism_flash_write_marked`).
    pub mark: u32,
    /// Whether there is one: 0 where something else wrote the block, or it cannot be read.
    pub has_mark: u32,
    /// Pages written.
    pub pages: u32,
    /// Erases of the block.
    pub erases: u32,
}

/// What an application did since the drive was opened, and the state of its flash.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PrismStatistics {
    /// Reads.
    pub reads: u64,
    /// Their sectors.
    pub read_sectors: u64,
    /// Writes.
    pub writes: u64,
    /// Their sectors.
    pub written_sectors: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Addresses refused, because they are not the application's.
    pub refused: u64,
    /// Blocks that failed and were replaced.
    pub replaced_blocks: u64,
    /// Blocks that failed when no spare was left.
    pub lost_blocks: u64,
    /// LUNs that changed places with a less worn one.
    pub swapped_luns: u64,
    /// Erases of a block on average, since the monitor was made.
    pub average_erases: f64,
}

/// What `prism_submit` is asked to do.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrismOperation {
    /// As `Page_Read`: `address`, `data`, `length` bytes of whole pages.
    PageRead = 0,
    /// As `Page_Write`: the same.
    PageWrite = 1,
    /// As `Block_Erase`: `address`.
    BlockErase = 2,
    /// As `Flash_Read`: `address`, `data`, `length`, `offset`.
    FlashRead = 3,
    /// As `Flash_Write`: `address`, `data`, `length`, `mark`.
    FlashWrite = 4,
    /// As `FTL_Read`: `offset`, `data`, `length`.
    FtlRead = 5,
    /// As `FTL_Write`: the same.
    FtlWrite = 6,
    /// As `FTL_Trim`: `offset`, `length`.
    FtlTrim = 7,
    /// As `FTL_Flush`.
    FtlFlush = 8,
}

/// An operation that is not waited for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PrismRequest {
    /// The caller's own name for it; `prism_poll` gives it back.
    pub token: u64,
    /// A `prism_operation`.
    pub operation: u32,
    /// `FLASH_WRITE`: the application's own word, which stands beside the data.
    pub mark: u32,
    /// Where, at the raw and function levels.
    pub address: PrismAddress,
    /// `FLASH_READ`: bytes behind the beginning of the page, whole sectors. At the policy level: the first byte.
    pub offset: u64,
    /// Where the data come from, or go to. What is written is copied before `prism_submit` returns. What is read is put here by the
    /// `prism_poll` that tells of it, so the memory must be there until then.
    pub data: *mut core::ffi::c_void,
    /// Bytes of them.
    pub length: u64,
}

/// How an operation that was submitted ended.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PrismCompletion {
    /// The caller's own name for it.
    pub token: u64,
    /// When, in nanoseconds of the drive's time.
    pub at_ns: u64,
    /// How.
    pub status: PrismStatus,
}

impl From<PrismAddress> for FlashAddress {
    fn from(address: PrismAddress) -> FlashAddress {
        let PrismAddress { channel, lun, block, page } = address;
        FlashAddress { channel, lun, block, page }
    }
}

impl From<FlashAddress> for PrismAddress {
    fn from(address: FlashAddress) -> PrismAddress {
        let FlashAddress { channel, lun, block, page } = address;
        PrismAddress { channel, lun, block, page }
    }
}

impl PrismGeometry {
    pub(crate) fn new(geometry: &SsdGeometry, sector_size: u32) -> PrismGeometry {
        PrismGeometry {
            channel_count: geometry.channel_count,
            luns_each_channel: geometry.luns_each_channel,
            blocks_each_lun: geometry.blocks_each_lun,
            pages_each_block: geometry.pages_each_block,
            page_size: geometry.page_bytes,
            sector_size,
        }
    }
}
