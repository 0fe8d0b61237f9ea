//! Types of the C interface, from which the header is generated.

use pellucid_prism::{FlashAddress, SsdGeometry};

/// Version of this interface. It rises with changes that break programs compiled with an older header;
/// additions leave it as it is.
pub const PRISM_API_VERSION: u32 = 1;

/// Flag of `prism_open`: a modelled drive runs in real time. Without it time is virtual: a call takes the
/// drive's simulated time, and in reality only the time to compute it. Remote drives and files always run in
/// real time.
pub const PRISM_REAL_TIME: u32 = 1;

/// Flag of `prism_open`: creates a new flash monitor, and discards all applications on the drive.
pub const PRISM_FORMAT: u32 = 2;

/// Bytes beside each sector that an application can store at the raw level.
pub const PRISM_OOB_SIZE: u32 = 16;

/// Status of a call. `prism_error` returns a sentence about this thread's last failed call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrismStatus {
    /// The call succeeded.
    Ok = 0,
    /// An argument is invalid: a null pointer, a wrong length, or a call of another level.
    Invalid = 1,
    /// The address is outside the application's flash. Nothing was sent to the drive.
    OutOfRange = 2,
    /// The rules of flash forbid the call: pages out of order, a block that is not erased or not mapped, or
    /// data that were not written.
    Order = 3,
    /// No block or LUN is free, a quota is exhausted, or more blocks have to be given back first.
    NoSpace = 4,
    /// The application, level or range already exists.
    Exists = 5,
    /// The application does not exist, or nothing is under way.
    Missing = 6,
    /// The flash could not return the data.
    ReadError = 7,
    /// The flash could not write or erase.
    WriteError = 8,
    /// The drive is read-only: it has stopped taking writes.
    ReadOnly = 9,
    /// The drive cannot be opened, or does not answer.
    Unreachable = 10,
    /// Operations of the level, range or application are still under way.
    Busy = 11,
    /// Internal error of this library. The drive is no longer usable.
    Internal = 12,
}

/// Address of a page in an application's flash.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrismAddress {
    /// Channel, from 0.
    pub channel: u32,
    /// LUN of the channel, from 0.
    pub lun: u32,
    /// Block of the LUN, from 0.
    pub block: u32,
    /// Page of the block, from 0.
    pub page: u32,
}

/// Layout of an application's flash, as every level returns it (`SSD_geometry` of the paper).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrismGeometry {
    /// Number of channels.
    pub channel_count: u32,
    /// LUNs in each channel.
    pub luns_each_channel: u32,
    /// Blocks in each LUN.
    pub blocks_each_lun: u32,
    /// Pages in each block. A page is the smallest unit of writing.
    pub pages_each_block: u32,
    /// Bytes in a page.
    pub page_size: u32,
    /// Bytes in a sector, the smallest unit of reading at the function and policy levels. A page holds a
    /// whole number of sectors.
    pub sector_size: u32,
}

/// Granularity of a mapping.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrismMapping {
    /// Mapping by pages.
    Page = 0,
    /// Mapping by blocks.
    Block = 1,
}

/// Garbage collection policy of the policy level: its choice of the next block to empty.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrismGc {
    /// Block with the fewest valid pages to copy.
    Greedy = 0,
    /// Block that was opened first.
    Fifo = 1,
    /// Block whose last change is the longest ago.
    Lru = 2,
    /// Block with the best ratio of age to cost.
    CostBenefit = 3,
}

/// Content of a block that held data when the function level was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrismFound {
    /// Address of the block.
    pub address: PrismAddress,
    /// The application's word in the block's first page (`prism_flash_write_marked`).
    pub mark: u32,
    /// Validity of `mark`: 1 if it is valid; 0 if something else wrote the block, or its first page is
    /// unreadable.
    pub has_mark: u32,
    /// Number of pages written.
    pub pages: u32,
    /// Number of erases of the block.
    pub erases: u32,
}

/// Statistics of an application since the drive was opened, and the state of its flash.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PrismStatistics {
    /// Number of reads.
    pub reads: u64,
    /// Number of sectors read.
    pub read_sectors: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of sectors written.
    pub written_sectors: u64,
    /// Number of blocks erased.
    pub erases: u64,
    /// Number of addresses refused because they are outside the application's flash.
    pub refused: u64,
    /// Number of blocks that failed and were replaced.
    pub replaced_blocks: u64,
    /// Number of blocks that failed when no spare was left.
    pub lost_blocks: u64,
    /// Number of LUNs that were swapped with a less worn one.
    pub swapped_luns: u64,
    /// Average number of erases of a block since the monitor was created.
    pub average_erases: f64,
}

/// Operation of a request to `prism_submit`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrismOperation {
    /// Operation of `Page_Read`; uses `address`, `data`, and `length` in bytes of whole pages.
    PageRead = 0,
    /// Operation of `Page_Write`; uses `address`, `data`, and `length` in bytes of whole pages.
    PageWrite = 1,
    /// Operation of `Block_Erase`; uses `address`.
    BlockErase = 2,
    /// Operation of `Flash_Read`; uses `address`, `data`, `length` and `offset`.
    FlashRead = 3,
    /// Operation of `Flash_Write`; uses `address`, `data`, `length` and `mark`.
    FlashWrite = 4,
    /// Operation of `FTL_Read`; uses `offset`, `data` and `length`.
    FtlRead = 5,
    /// Operation of `FTL_Write`; uses `offset`, `data` and `length`.
    FtlWrite = 6,
    /// Operation of `FTL_Trim`; uses `offset` and `length`.
    FtlTrim = 7,
    /// Operation of `FTL_Flush`.
    FtlFlush = 8,
}

/// Asynchronous operation, for `prism_submit`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PrismRequest {
    /// The caller's identifier of the request; `prism_poll` returns it.
    pub token: u64,
    /// Operation to run, a `prism_operation`.
    pub operation: u32,
    /// The application's own word beside the data, for `FLASH_WRITE`.
    pub mark: u32,
    /// Address of the page or block, at the raw and function levels.
    pub address: PrismAddress,
    /// For `FLASH_READ`, the offset from the beginning of the page, in bytes of whole sectors. At the policy
    /// level, the first byte.
    pub offset: u64,
    /// Source or destination of the data. `prism_submit` copies data to write before it returns. The
    /// `prism_poll` that returns the completion stores data read here, so the memory must exist until then.
    pub data: *mut core::ffi::c_void,
    /// Length of the data in bytes.
    pub length: u64,
}

/// Completion of a submitted operation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PrismCompletion {
    /// The caller's identifier of the request.
    pub token: u64,
    /// Time of completion, in nanoseconds of the drive's time.
    pub at_ns: u64,
    /// Status of the operation.
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
