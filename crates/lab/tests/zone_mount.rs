//! A mount takes time in proportion to what the zones hold.

use pellucid_flash::{Command, Drive, Lba, Opcode, Status};
use pellucid_lab::conformance::Bench;
use std::time::{Duration, Instant};

/// The least time that a mount took of a drive with one full zone of so many stripes.
fn mount_time(stripes: u64) -> Duration {
    let zones =
        "[[drive.namespace]]\ninterface = \"zoned\"\ndies_per_zone = 4\nspare_blocks = 2\nactive_max = 4\n";
    let pages = format!("drive.media.pages={}", stripes / 4);
    let mut bench = Bench::new(zones, &[&pages, "drive.media.store=\"none\""]);
    let sectors = bench.zones().capacity_sectors;
    assert_eq!(sectors, stripes * 8, "a stripe has 8 sectors");
    for at in (0..sectors).step_by(64) {
        let data = vec![0; 64 * Drive::image_bytes(&bench.drive)];
        assert_eq!(bench.run(Command::new(0, Opcode::Write, Lba(at), 64, data)).status, Status::Success);
    }
    let mount = |_| {
        let mut drive = bench.drive.clone();
        let began = Instant::now();
        drive.power_cut().expect("a mount");
        began.elapsed()
    };
    (0..5).map(mount).min().expect("mounts")
}

#[test]
fn a_mount_takes_no_more_than_its_share_of_time_for_a_long_zone() {
    let (short, long) = (mount_time(1 << 9), mount_time(1 << 14));
    // 32 times the stripes; their square would be 1024 times as long.
    assert!(long < short * 128, "{short:?} for 512 stripes, {long:?} for 16,384");
}
