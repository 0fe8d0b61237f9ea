//! What the host's translation counts.

use pellucid_flash::Cause;

/// Counters since the start. Sectors are the drive's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Sectors that the application wrote and that were accepted.
    pub written_sectors: u64,
    /// Sectors that the application read.
    pub read_sectors: u64,
    /// Of these, sectors that the write buffer had.
    pub buffer_read_hits: u64,
    /// Sectors written to the drive, by cause; `Journal` counts starts and ends of lines and map segments.
    pub programmed_sectors: [u64; Cause::COUNT],
    /// Commands sent to the drive.
    pub commands: u64,
    /// Sectors read for collection.
    pub collected_reads: u64,
    /// Lines erased.
    pub erased_lines: u64,
    /// Writes that the drive has ended.
    pub drive_writes: u64,
    /// Their time with the drive, in all.
    pub drive_write_ns: u64,
    /// Writes that the drive failed.
    pub write_failures: u64,
    /// Resets that the drive failed.
    pub reset_failures: u64,
    /// Reads sent again.
    pub read_retries: u64,
    /// Sectors that could not be read after every retry.
    pub lost_reads: u64,
}
