//! Counters of the host FTL.

use pellucid_flash::{Cause, Figure};

/// Counters since the start. Sectors are those of the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Sectors of accepted writes of the application.
    pub written_sectors: u64,
    /// Sectors that the application read.
    pub read_sectors: u64,
    /// Sectors read by the application from the write buffer.
    pub buffer_read_hits: u64,
    /// Sectors written to the drive, by cause; `Journal` counts starts and ends of lines, and translation
    /// pages.
    pub programmed_sectors: [u64; Cause::COUNT],
    /// Commands sent to the drive.
    pub commands: u64,
    /// Sectors read for GC.
    pub collected_reads: u64,
    /// Lines erased.
    pub erased_lines: u64,
    /// Writes that the drive completed.
    pub drive_writes: u64,
    /// Total time of these writes with the drive.
    pub drive_write_ns: u64,
    /// Writes that failed on the drive.
    pub write_failures: u64,
    /// Resets that failed on the drive.
    pub reset_failures: u64,
    /// Reads that were retried.
    pub read_retries: u64,
    /// Sectors that stayed unreadable after every retry.
    pub lost_reads: u64,
}

/// Capacity and resources of a host FTL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostHoldings {
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Number of offered sectors.
    pub capacity_sectors: u64,
    /// Lines that can be opened.
    pub free_lines: u32,
    /// Lines that are in service, not retired.
    pub lines: u32,
    /// Bytes of host memory.
    pub memory_bytes: u64,
}

impl HostCounters {
    /// Returns the counters and `holds` as named figures.
    pub fn figures(&self, holds: &HostHoldings) -> Vec<Figure> {
        let bytes = |sectors: u64| sectors * u64::from(holds.sector_bytes);
        let single = [
            Figure::bytes("capacity_bytes", "Bytes that a host FTL offers.", bytes(holds.capacity_sectors))
                .gauge(),
            Figure::bytes("read_bytes", "Bytes that applications read.", bytes(self.read_sectors)),
            Figure::bytes("written_bytes", "Bytes that applications wrote.", bytes(self.written_sectors)),
            Figure::bytes(
                "buffer_read_bytes",
                "Bytes of reads that the write buffer had.",
                bytes(self.buffer_read_hits),
            ),
            Figure::count("commands", "Commands sent to the drive.", self.commands),
            Figure::count("erased_lines", "Lines erased.", self.erased_lines),
            Figure::count("free_lines", "Lines that can be opened.", holds.free_lines.into()).gauge(),
            Figure::count("lines", "Lines that are not retired.", holds.lines.into()).gauge(),
            Figure::count("write_failures", "Writes that the drive failed.", self.write_failures),
            Figure::count("lost_sectors", "Sectors that could not be read.", self.lost_reads),
            Figure::bytes("memory_bytes", "Bytes of host memory for map and buffer.", holds.memory_bytes)
                .gauge(),
        ];
        let help = "Bytes that a host FTL wrote to the drive, by cause.";
        let programmed = |cause: Cause| {
            Figure::bytes("programmed_bytes", help, bytes(self.programmed_sectors[cause as usize])).of(cause)
        };
        single.into_iter().chain(Cause::ALL.map(programmed)).collect()
    }
}
