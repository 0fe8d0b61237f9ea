//! Power cuts for log-block translation: at every media operation of short histories on tiny drives, several in a row, with failures.

use crate::common;
use crate::common::log_drive::Drive;
use pellucid_flash::BlockId;
use pellucid_ftl::{Durability, FtlConfig, Map, MountSource, Start};

fn drive(map: Map, units: u32, seed: u64) -> Drive {
    let layout = common::layout(2, 12, 4, units);
    let sequential = u64::from(matches!(map, Map::Fast { .. }));
    // As full as allowed with two log blocks.
    let blocks = 2 * (12 - 2 - sequential - 2 - 2);
    let capacity_bytes = Some(blocks * u64::from(layout.units_per_block * layout.unit_bytes));
    let durability = Durability::Journal { checkpoint_every: 0 };
    let config = FtlConfig { map, capacity_bytes, durability, ..common::config() };
    Drive::new(&config, &layout, &[], seed)
}

const MAPS: [Map; 2] = [Map::Bast { log_blocks: 2 }, Map::Fast { log_blocks: 2 }];

fn command(drive: &mut Drive) {
    let pages = u64::from(drive.user_units());
    let per_block = drive.layout.units_per_block;
    let lpn = drive.rng.below(pages) as u32;
    match drive.rng.below(20) {
        0..12 => drive.write(lpn),
        12..15 => {
            let first = lpn / per_block * per_block;
            let count = drive.rng.below(u64::from(per_block)) as u32 + 1;
            (first..(first + count).min(pages as u32)).for_each(|lpn| drive.write(lpn));
        }
        15..18 => (lpn..(lpn + 3).min(pages as u32)).for_each(|lpn| drive.trim(lpn)),
        _ => drive.save_trims(),
    }
}

/// Cuts the power of a clone after every step, lets it work on for a while, and cuts the power again.
fn cut_everywhere(mut drive: Drive, commands: u32) -> u32 {
    let mut cuts = 0;
    for number in 0..commands {
        command(&mut drive);
        if number % 40 == 39 {
            drive.flush();
        }
        while drive.rng.below(3) > 0 && drive.step() {
            let mut other = drive.clone();
            other.checks = false;
            other.cut();
            for _ in 0..drive.rng.below(4) {
                for _ in 0..drive.rng.below(8) {
                    command(&mut other);
                    (0..3).for_each(|_| _ = other.step());
                }
                other.cut();
            }
            assert!(other.drain(), "there is no room after a cut");
            other.verify();
            other.map.check();
            cuts += 1;
        }
    }
    cuts
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_cut_at_every_operation_loses_nothing_flushed() {
    for map in MAPS {
        for (units, seed) in [(1, 1), (2, 2), (4, 3)] {
            let cuts = cut_everywhere(drive(map, units, seed), 800);
            assert!(cuts > 500, "{cuts} cuts");
        }
    }
}

/// Power is cut again and again, soon after each mount of the same drive.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn one_cut_after_the_other_leaves_room_to_work() {
    for map in MAPS {
        for seed in 10..14 {
            let mut drive = drive(map, 2, seed);
            for round in 0..300 {
                for _ in 0..drive.rng.below(30) {
                    command(&mut drive);
                    (0..3).for_each(|_| _ = drive.step());
                }
                if round % 10 == 9 {
                    drive.flush();
                }
                drive.cut();
            }
            assert!(drive.drain(), "there is no room");
            drive.verify();
        }
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn failures_and_cuts_together_lose_nothing_flushed() {
    for map in MAPS {
        for seed in 20..28 {
            let layout = common::layout(2, 40, 4, 2);
            let capacity_bytes = Some(30 * u64::from(layout.units_per_block * layout.unit_bytes));
            let durability = Durability::Journal { checkpoint_every: 0 };
            let config = FtlConfig { map, capacity_bytes, durability, ..common::config() };
            let mut drive = Drive::new(&config, &layout, &[], seed);
            (drive.program_fails, drive.erase_fails) = (120, 80);
            for round in 0..80 {
                for _ in 0..drive.rng.below(40) {
                    command(&mut drive);
                    (0..3).for_each(|_| _ = drive.step());
                }
                if drive.map.view().worn_out {
                    break;
                }
                if round % 5 == 4 {
                    drive.flush();
                }
                drive.cut();
            }
            let bad = (0..layout.blocks).filter(|&block| drive.nand.is_bad(BlockId(block))).count();
            assert!(bad > 2, "{bad} bad blocks");
        }
    }
}

/// Without a journal a cut empties the drive; media that were saved on purpose keep their content.
#[test]
fn a_volatile_drive_is_empty_after_a_cut() {
    for map in MAPS {
        let layout = common::layout(1, 12, 4, 2);
        let capacity_bytes = Some(6 * u64::from(layout.units_per_block * layout.unit_bytes));
        let config = FtlConfig { map, capacity_bytes, ..common::config() };
        let mut drive = Drive::new(&config, &layout, &[], 30);
        for lpn in (0..drive.user_units()).chain(3..20) {
            drive.write(lpn);
        }
        assert!(drive.drain());
        let (kept, report) = pellucid_ftl::LogBlock::start(&config, &layout, Start::Restore(&drive.nand))
            .expect("it fitted before");
        kept.check();
        assert_eq!(report.expect("a mount reports").mapped_units, u64::from(drive.user_units()));
        let (empty, report) = pellucid_ftl::LogBlock::start(&config, &layout, Start::Mount(&drive.nand))
            .expect("it fitted before");
        empty.check();
        assert_eq!(
            (report.expect("a mount reports").mapped_units, empty.peek(pellucid_flash::Lpn(0))),
            (0, pellucid_ftl::Located::Zero)
        );
    }
}

/// A page is trimmed while its next version is being programmed, and that program fails: a cut may bring back the version before, which
/// was flushed. Its block stays until the trim is on the media, so that nothing older comes back.
#[test]
fn a_trim_behind_a_failed_program_keeps_the_version_before() {
    for map in MAPS {
        for seed in 40..50 {
            let mut drive = drive(map, 1, seed);
            (0..4).for_each(|lpn| drive.write(lpn));
            drive.flush();
            drive.write(3);
            drive.flush();
            drive.write(3);
            drive.trim(3);
            drive.program_fails = 1;
            assert!(drive.step(), "the program is under way");
            drive.program_fails = 0;
            drive.cut();
            assert!(drive.drain());
        }
    }
}
