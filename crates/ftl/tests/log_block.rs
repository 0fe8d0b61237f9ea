//! Log-block translation beside a plain model, under random commands: BAST and FAST, with and without failures.

use crate::common;
use crate::common::log_drive::Drive;
use pellucid_flash::{BlockId, DieId, Divisor, Layout, Ppa};
use pellucid_ftl::{
    Caller, Damage, Durability, FtlConfig, Located, LogBlock, Map, SetupError, WearLevelling,
};

const SCHEMES: [fn(u32) -> Map; 2] =
    [|log_blocks| Map::Bast { log_blocks }, |log_blocks| Map::Fast { log_blocks }];

fn config(map: Map, layout: &Layout, blocks_for_data: u32, durability: Durability) -> FtlConfig {
    let units = u64::from(blocks_for_data * layout.units_per_block);
    let capacity_bytes = Some(units * u64::from(layout.unit_bytes));
    FtlConfig { map, capacity_bytes, durability, ..common::config() }
}

const JOURNAL: Durability = Durability::Journal { checkpoint_every: 0 };

/// Random writes, runs of writes, trims and flushes.
fn exercise(drive: &mut Drive, commands: u32) {
    let pages = u64::from(drive.user_units());
    for command in 0..commands {
        match drive.rng.below(100) {
            0..60 => {
                // Mostly a few hot pages.
                let range = if drive.rng.below(3) > 0 { pages / 4 } else { pages };
                let lpn = drive.rng.below(range) as u32;
                drive.write(lpn);
            }
            60..75 => {
                let per_block = drive.layout.units_per_block;
                let first = drive.rng.below(pages) as u32;
                let first = if drive.rng.below(2) == 0 { first / per_block * per_block } else { first };
                let count = drive.rng.below(u64::from(per_block) * 2) as u32 + 1;
                for lpn in first..(first + count).min(drive.user_units()) {
                    drive.write(lpn);
                    drive.step();
                }
            }
            75..88 => {
                let first = drive.rng.below(pages) as u32;
                let count = drive.rng.below(6) as u32;
                (first..(first + count).min(drive.user_units())).for_each(|lpn| drive.trim(lpn));
            }
            88..98 => assert!(drive.rng.below(4) > 0 || drive.drain(), "there is no room"),
            _ => drive.flush(),
        }
        for _ in 0..drive.rng.below(4) {
            drive.step();
        }
        if command % 16 == 0 {
            drive.verify();
        }
    }
    assert!(drive.drain(), "there is no room");
    drive.verify();
}

#[test]
fn random_commands_agree_with_a_plain_map() {
    for scheme in SCHEMES {
        for (units, log_blocks, durability) in
            [(1, 1, JOURNAL), (1, 3, Durability::Volatile), (2, 2, JOURNAL), (4, 2, JOURNAL)]
        {
            let layout = common::layout(2, 14, 6, units);
            let config = config(scheme(log_blocks), &layout, 12, durability);
            let mut drive = Drive::new(&config, &layout, &[], 5);
            exercise(&mut drive, 1200);
            let merges = drive.map.view().counters.merges;
            assert!(merges.iter().all(|kind| kind.merges > 0), "{scheme:?}: {merges:?}");
            assert!(merges[0].copied_units == 0 && merges[2].erases > 0, "{merges:?}");
        }
    }
}

/// As few blocks as allowed, some of them bad from the start, in one die more than in the other.
#[test]
fn the_least_blocks_that_are_allowed_suffice() {
    for scheme in SCHEMES {
        let layout = common::layout(2, 16, 4, 2);
        let bad = [BlockId(3), BlockId(7), BlockId(17)];
        let sequential = u32::from(matches!(scheme(1), Map::Fast { .. }));
        // 14 good blocks in the die that has fewest: 2 log blocks, 2 for merges, 2 of metadata.
        let data = 2 * (14 - 2 - sequential - 2 - 2);
        let config = |data| config(scheme(2), &layout, data, JOURNAL);
        let mut drive = Drive::new(&config(data), &layout, &bad, 6);
        exercise(&mut drive, 1500);
        let refused = LogBlock::new(&config(data + 2), &layout, &bad).expect_err("too little");
        let SetupError::TooFewBlocks { die: 0, good_blocks: 14, log_blocks_max: 1, user_units_max, .. } =
            refused
        else {
            panic!("{refused}")
        };
        assert_eq!(user_units_max, u64::from(data * layout.units_per_block));
        let sentence = refused.to_string();
        assert!(
            sentence.contains("at most 1 log blocks") && sentence.contains("14 good blocks"),
            "{sentence}"
        );
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn failed_programs_and_erases_lose_nothing() {
    for scheme in SCHEMES {
        for seed in 0..6 {
            let layout = common::layout(2, 40, 6, 2);
            let config = config(scheme(3), &layout, 20, JOURNAL);
            let mut drive = Drive::new(&config, &layout, &[], seed);
            (drive.program_fails, drive.erase_fails) = (150, 60);
            for _ in 0..20 {
                exercise(&mut drive, 60);
                if drive.map.bad_blocks() > 20 {
                    break;
                }
            }
            assert!(
                !drive.map.view().worn_out && drive.map.bad_blocks() > 2,
                "{} bad",
                drive.map.bad_blocks()
            );
            assert_eq!(u64::from(drive.map.bad_blocks()), drive.map.view().counters.grown_bad);
        }
    }
}

/// Programs fail until the drive says that it is worn out; everything on it can still be read.
#[test]
fn a_worn_out_drive_says_so_and_can_be_read() {
    for scheme in SCHEMES {
        for seed in 0..8 {
            let layout = common::layout(1, 16, 4, 1);
            let config = config(scheme(2), &layout, 8, JOURNAL);
            let mut drive = Drive::new(&config, &layout, &[], seed);
            drive.program_fails = 25;
            for _ in 0..4000 {
                if drive.map.view().worn_out {
                    break;
                }
                let lpn = drive.rng.below(u64::from(drive.user_units())) as u32;
                drive.write(lpn);
                (0..3).for_each(|_| _ = drive.step());
            }
            assert!(drive.map.view().worn_out, "it never wears out");
            while drive.step() {}
            drive.verify();
            drive.map.check();
        }
    }
}

#[test]
fn damaged_blocks_are_emptied_and_what_cannot_be_read_is_lost() {
    for scheme in SCHEMES {
        let layout = common::layout(2, 24, 4, 2);
        let config = config(scheme(2), &layout, 12, JOURNAL);
        let mut drive = Drive::new(&config, &layout, &[], 9);
        (0..drive.user_units()).for_each(|lpn| drive.write(lpn));
        exercise(&mut drive, 50);
        for round in 0..8 {
            drive.flush();
            let lpn = drive.rng.below(u64::from(drive.user_units())) as u32;
            drive.write(lpn);
            assert!(drive.drain());
            let Located::At(ppa) = drive.map.peek(pellucid_flash::Lpn(lpn)) else { panic!("page {lpn}") };
            let block = layout.block_of(ppa);
            if round % 2 == 0 {
                let before = drive.map.erases(block);
                drive.map.damage(Damage::Weak(block));
                drive.pump();
                assert!(drive.drain());
                let open = drive.map.takes_data(block) && drive.map.erases(block) == before;
                let moved = drive.map.peek(pellucid_flash::Lpn(lpn)) != Located::At(ppa);
                assert!(moved || open, "page {lpn} has not moved");
            } else {
                drive.nand.unreadable.insert(ppa);
                assert!(drive.map.damage(Damage::Unreadable(block)), "the first time");
                assert!(!drive.map.damage(Damage::Unreadable(block)), "the second time");
                drive.pump();
                assert!(drive.drain());
                assert_eq!(drive.map.peek(pellucid_flash::Lpn(lpn)), Located::Lost);
                drive.cut();
                if drive.rng.below(2) == 0 {
                    drive.write(lpn);
                }
            }
            exercise(&mut drive, 20);
        }
        assert!(drive.map.bad_blocks() >= 4, "{} bad blocks", drive.map.bad_blocks());
    }
}

/// A dead die makes the drive read-only; the other die can be read as before.
#[test]
fn a_dead_die_takes_nothing_more() {
    for scheme in SCHEMES {
        let layout = common::layout(2, 16, 4, 2);
        let mut drive = Drive::new(&config(scheme(2), &layout, 12, JOURNAL), &layout, &[], 10);
        exercise(&mut drive, 200);
        assert!(!drive.map.view().worn_out);
        drive.map.damage(Damage::Dead(DieId(1)));
        drive.map.damage(Damage::Dead(DieId(1)));
        assert!(drive.map.view().worn_out);
        drive.map.check();
        let stream = drive.map.stream(pellucid_flash::Lpn(layout.units_per_block));
        let lpns = [pellucid_flash::Lpn(layout.units_per_block)];
        assert_eq!(drive.map.place(stream, &lpns), None, "a page of the dead die");
        assert!(!drive.map.wants_gc(DieId(1)));
        drive.verify();
    }
}

/// Blocks with cold data wear too.
#[test]
fn static_wear_levelling_moves_cold_data() {
    for scheme in SCHEMES {
        let layout = common::layout(1, 16, 4, 1);
        let spread = |static_gap| {
            let wear = WearLevelling { dynamic: true, static_gap };
            let config = FtlConfig { wear, ..config(scheme(2), &layout, 10, Durability::Volatile) };
            let mut drive = Drive::new(&config, &layout, &[], 11);
            (0..drive.user_units()).for_each(|lpn| drive.write(lpn));
            assert!(drive.drain());
            for _ in 0..3000 {
                let lpn = drive.rng.below(8) as u32;
                drive.write(lpn);
                drive.step();
            }
            assert!(drive.drain());
            drive.verify();
            let erases = (0..16).map(|block| drive.map.erases(BlockId(block)));
            erases.clone().max().unwrap_or(0) - erases.min().unwrap_or(0)
        };
        let (without, with) = (spread(None), spread(Some(8)));
        assert!(with <= 16 && without > 3 * with, "{with} with levelling, {without} without");
    }
}

/// Copies that are no longer needed are reported once each: when all pages are trimmed, as many as were written.
#[test]
fn outdated_copies_are_named() {
    for scheme in SCHEMES {
        let layout = common::layout(1, 16, 4, 2);
        let mut drive = Drive::new(&config(scheme(2), &layout, 8, Durability::Volatile), &layout, &[], 12);
        drive.map.serve(Caller { sense: Divisor::new(1), takes_outdated: true });
        exercise(&mut drive, 400);
        let live: Vec<Ppa> = (0..drive.user_units())
            .filter_map(|lpn| match drive.map.peek(pellucid_flash::Lpn(lpn)) {
                Located::At(ppa) => Some(ppa),
                _ => None,
            })
            .collect();
        let outdated: Vec<Ppa> =
            drive.map.take_outdated().into_iter().flatten().map(|outdated| outdated.0).collect();
        assert!(!outdated.is_empty() && drive.map.take_outdated().into_iter().flatten().count() == 0);
        (0..drive.user_units()).for_each(|lpn| drive.trim(lpn));
        let trimmed: Vec<Ppa> =
            drive.map.take_outdated().into_iter().flatten().map(|outdated| outdated.0).collect();
        assert_eq!(trimmed, live);
    }
}
