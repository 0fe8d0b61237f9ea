//! The buffer of a zoned namespace has room for as many stripes as its description says, however long a write is.

use pellucid_device::Device;
use pellucid_flash::{Lba, Status};
use pellucid_lab::conformance::Bench;

/// Sectors of a stripe, and of a zone.
const STRIPE: u32 = 8;
const ZONE: u32 = 128;

fn memory(drive: &Device) -> u64 {
    drive.memory_bytes().into_iter().filter(|(part, _)| *part == "namespaces").map(|(_, bytes)| bytes).sum()
}

/// Bytes by which the namespace grew in a write of a whole zone, in one piece or stripe by stripe, each awaited.
fn grown(at_once: u32) -> u64 {
    let zones = "[[drive.namespace]]\ninterface = \"zoned\"\ndies_per_zone = 2\nspare_blocks = 2\nactive_max = 2\nstage = 3\n";
    let mut bench = Bench::new(zones, &[]);
    let before = memory(&bench.drive);
    for first in (0..ZONE).step_by(at_once as usize) {
        let done = bench.write(Lba(first.into()), at_once, 1);
        assert_eq!(done.status, Status::Success);
    }
    let read = bench.read(Lba(0), ZONE);
    assert!(read.data == bench.pattern(Lba(0), ZONE, 1), "what was written");
    memory(&bench.drive) - before
}

#[test]
fn a_write_of_a_zone_takes_no_more_of_the_buffer_than_there_is() {
    // Three stripes; memory grows in powers of two.
    let most = 4 * u64::from(STRIPE) * 1024 + 2048;
    let (whole, by_stripes) = (grown(ZONE), grown(STRIPE));
    assert!(by_stripes <= whole && whole <= most, "{by_stripes} and {whole} bytes, at most {most}");
}
