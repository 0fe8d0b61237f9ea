//! A mount takes time in proportion to what the zones hold.

use pellucid_flash::{Command, Drive, Lba, Opcode, Status};
use pellucid_testing::conformance::Bench;
use std::time::Duration;

/// A drive with one full zone of this many superpages.
fn filled(superpages: u64) -> Bench {
    let zones =
        "[[drive.namespace]]\ninterface = \"zoned\"\ndies_per_zone = 4\nspare_blocks = 2\nactive_max = 4\n";
    let pages = format!("drive.media.pages={}", superpages / 4);
    let mut bench = Bench::new(zones, &[&pages, "drive.media.store=\"none\""]);
    let sectors = bench.zones().capacity_sectors;
    assert_eq!(sectors, superpages * 8, "a superpage has 8 sectors");
    for at in (0..sectors).step_by(64) {
        let data = vec![0; 64 * Drive::image_bytes(&bench.drive)];
        assert_eq!(bench.run(Command::new(0, Opcode::Write, Lba(at), 64, data)).status, Status::Success);
    }
    bench
}

/// Time that this thread has taken of a processor; what else the machine does is not in it.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn mount_time(bench: &Bench) -> Duration {
    let mut drive = bench.drive.clone();
    let began = processor_time();
    drive.power_cut().expect("a mount");
    processor_time() - began
}

#[test]
fn a_mount_takes_no_more_than_its_share_of_time_for_a_long_zone() {
    let (short, long) = (filled(1 << 9), filled(1 << 14));
    let turns: Vec<_> = (0..9).map(|_| (mount_time(&short), mount_time(&long))).collect();
    let (short, long) = (turns.iter().map(|t| t.0).min().unwrap(), turns.iter().map(|t| t.1).min().unwrap());
    // 32 times the superpages; their square would be 1024 times as long.
    assert!(long < short * 200, "{short:?} for 512 superpages, {long:?} for 16,384");
}
