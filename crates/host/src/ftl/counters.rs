//! Counters of the host FTL.

use pellucid_flash::{Cause, Completion, Figure, Opcode, Status};

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

/// Events, each of which a path of the layer counts.
impl HostCounters {
    /// Counts a command of the application that is answered.
    #[inline]
    pub(super) fn answered(&mut self, opcode: Opcode, status: Status, sectors: u32) {
        match (opcode, status) {
            (Opcode::Read, Status::Success) => self.read_sectors += u64::from(sectors),
            (Opcode::Write, Status::Success) => self.written_sectors += u64::from(sectors),
            _ => {}
        }
    }

    #[inline]
    pub(super) fn found_in_buffer(&mut self) {
        self.buffer_read_hits += 1;
    }

    #[inline]
    pub(super) fn programmed(&mut self, cause: Cause, sectors: u64) {
        self.programmed_sectors[cause as usize] += sectors;
    }

    #[inline]
    pub(super) fn sent_command(&mut self) {
        self.commands += 1;
    }

    pub(super) fn read_for_gc(&mut self, sectors: u64) {
        self.collected_reads += sectors;
    }

    pub(super) fn erased_line(&mut self) {
        self.erased_lines += 1;
    }

    /// Counts a write that the drive has completed.
    #[inline]
    pub(super) fn wrote(&mut self, completion: &Completion) {
        self.drive_writes += 1;
        self.drive_write_ns += (completion.completed - completion.submitted).0;
    }

    pub(super) fn write_failed(&mut self) {
        self.write_failures += 1;
    }

    pub(super) fn reset_failed(&mut self) {
        self.reset_failures += 1;
    }

    pub(super) fn read_again(&mut self) {
        self.read_retries += 1;
    }

    /// Counts a read, or a sector of GC, that stayed unreadable.
    #[inline]
    pub(super) fn lost(&mut self, is_lost: bool) {
        self.lost_reads += u64::from(is_lost);
    }
}

impl HostCounters {
    /// Adds the counters of another host FTL.
    pub fn add(&mut self, other: &HostCounters) {
        self.map(other, |own, other| own + other);
    }

    /// Returns what was counted after `before`.
    #[must_use]
    pub fn since(mut self, before: &HostCounters) -> HostCounters {
        self.map(before, |now, then| now - then);
        self
    }

    /// Puts the result of `f` on each counter and its counterpart into its place.
    fn map(&mut self, other: &HostCounters, f: impl Fn(u64, u64) -> u64) {
        let HostCounters {
            written_sectors,
            read_sectors,
            buffer_read_hits,
            programmed_sectors,
            commands,
            collected_reads,
            erased_lines,
            drive_writes,
            drive_write_ns,
            write_failures,
            reset_failures,
            read_retries,
            lost_reads,
        } = self;
        let own = [
            (written_sectors, other.written_sectors),
            (read_sectors, other.read_sectors),
            (buffer_read_hits, other.buffer_read_hits),
            (commands, other.commands),
            (collected_reads, other.collected_reads),
            (erased_lines, other.erased_lines),
            (drive_writes, other.drive_writes),
            (drive_write_ns, other.drive_write_ns),
            (write_failures, other.write_failures),
            (reset_failures, other.reset_failures),
            (read_retries, other.read_retries),
            (lost_reads, other.lost_reads),
        ];
        let programmed = programmed_sectors.iter_mut().zip(other.programmed_sectors);
        own.into_iter().chain(programmed).for_each(|(own, other)| *own = f(*own, other));
    }

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
                "Bytes that reads found in the write buffer.",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_what_was_counted_since() {
        let before = HostCounters { written_sectors: 3, lost_reads: 1, ..HostCounters::default() };
        let more = HostCounters {
            written_sectors: 4,
            programmed_sectors: std::array::from_fn(|at| at as u64),
            read_retries: 5,
            ..HostCounters::default()
        };
        let mut sum = before;
        sum.add(&more);
        assert_eq!((sum.written_sectors, sum.lost_reads, sum.read_retries), (7, 1, 5));
        assert_eq!(sum.since(&before), more);
    }
}
