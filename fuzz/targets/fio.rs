//! Any text is read as a fio job file; what its jobs ask for lies on the drive.

use pellucid_workload::{Generator, parse_fio};

const CAPACITY_BYTES: u64 = 1 << 24;
const SECTOR_BYTES: u32 = 512;

/// One input.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(file) = parse_fio(text, "fuzz", 0) else { return };
    for job in file.jobs.iter().take(4) {
        let Ok(generator) = Generator::new(job, CAPACITY_BYTES, SECTOR_BYTES) else { continue };
        for io in generator.take(64) {
            assert!(io.lba.0 + u64::from(io.sectors) <= CAPACITY_BYTES / u64::from(SECTOR_BYTES));
        }
    }
}
