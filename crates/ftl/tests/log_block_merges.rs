//! Merges of log-block translation against the algorithms worked out by hand: number of merges by kind, of copies, and of erases.
//!
//! One die; a block has 8 units in superpages of one unit unless said otherwise. Writes are carried out one after the other.

use crate::common;
use crate::common::log_drive::Drive;
use pellucid_ftl::{Durability, FtlConfig, Map, MergeCounters, MergeKind};

const UNITS: u32 = 8;

/// `blocks` logical blocks, all of them written in order: each is one switch merge, and no block is left to erase.
fn filled(map: Map, blocks: u32, units_per_superpage: u32) -> Drive {
    let layout = common::layout(1, blocks + 12, UNITS / units_per_superpage, units_per_superpage);
    let capacity_bytes = Some(u64::from(blocks * UNITS * layout.unit_bytes));
    let config = FtlConfig { map, capacity_bytes, durability: Durability::Volatile, ..common::config() };
    let mut drive = Drive::new(&config, &layout, &[], 1);
    write(&mut drive, 0..blocks * UNITS);
    let switched = MergeCounters { merges: u64::from(blocks), ..MergeCounters::default() };
    assert_eq!(
        drive.map.view().counters.merges,
        [switched, MergeCounters::default(), MergeCounters::default()]
    );
    assert_eq!(drive.nand.erases, 0);
    drive.map.set_counters(Default::default());
    drive.nand.programs = 0;
    drive
}

/// Writes pages one by one, each on the media before the next one comes.
fn write(drive: &mut Drive, lpns: impl IntoIterator<Item = u32>) {
    for lpn in lpns {
        drive.write(lpn);
        if drive.layout.units_per_superpage == 1 {
            assert!(drive.drain(), "there is no room");
        }
    }
    assert!(drive.drain(), "there is no room");
    drive.map.check();
    drive.verify();
}

fn merged(drive: &Drive, kind: MergeKind) -> MergeCounters {
    drive.map.view().counters.merges[kind as usize]
}

const MAPS: [Map; 2] = [Map::Bast { log_blocks: 2 }, Map::Fast { log_blocks: 2 }];

/// The whole drive is overwritten in order, twice: a switch merge and an erase for each logical block, and no copy. So only the host's
/// data are programmed, with superpages of one unit and of four.
#[test]
fn sequential_overwrites_end_in_switch_merges() {
    for map in MAPS {
        for units_per_superpage in [1, 4] {
            let mut drive = filled(map, 6, units_per_superpage);
            for _ in 0..2 {
                write(&mut drive, 0..6 * UNITS);
            }
            let switched = MergeCounters { merges: 12, erases: 12, ..MergeCounters::default() };
            assert_eq!(merged(&drive, MergeKind::Switch), switched, "{map:?}");
            assert_eq!(merged(&drive, MergeKind::Partial).merges + merged(&drive, MergeKind::Full).merges, 0);
            let superpages = u64::from(12 * UNITS / units_per_superpage);
            assert_eq!((drive.nand.programs, drive.nand.erases), (superpages, 12));
        }
    }
}

/// Three units of each of 5 logical blocks are written in order from its beginning, with one log block of each kind. When the next logical
/// block comes the log block of the one before is merged: 8 - 3 = 5 units are copied behind, and the old data block is erased. The last
/// one waits.
#[test]
fn sequential_writes_that_stop_midway_end_in_partial_merges() {
    for map in [Map::Bast { log_blocks: 1 }, Map::Fast { log_blocks: 1 }] {
        let mut drive = filled(map, 5, 1);
        write(&mut drive, (0..5).flat_map(|block| block * UNITS..block * UNITS + 3));
        let partial = MergeCounters { merges: 4, copied_units: 4 * 5, padded_units: 0, erases: 4 };
        assert_eq!(merged(&drive, MergeKind::Partial), partial, "{map:?}");
        assert_eq!(merged(&drive, MergeKind::Switch).merges + merged(&drive, MergeKind::Full).merges, 0);
        assert_eq!((drive.nand.programs, drive.nand.erases), (5 * 3 + 4 * 5, 4));
    }
}

/// BAST thrashes: with k = 3 log blocks and n = 4 logical blocks that are written round robin, one unit each time, every write but the
/// first k finds that its logical block has no log block. The log block written longest ago holds one unit by then. Its unit is not the
/// first of the block, so it is not at its place: a full merge, which copies 8 units and erases 2 blocks. 20 writes are 17 full merges.
#[test]
fn bast_merges_at_every_write_when_log_blocks_are_too_few() {
    let mut drive = filled(Map::Bast { log_blocks: 3 }, 4, 1);
    write(&mut drive, (0..20).map(|number| number % 4 * UNITS + 5));
    let full = MergeCounters { merges: 17, copied_units: 17 * 8, padded_units: 0, erases: 17 * 2 };
    assert_eq!(merged(&drive, MergeKind::Full), full);
    assert_eq!(merged(&drive, MergeKind::Switch).merges + merged(&drive, MergeKind::Partial).merges, 0);
    assert_eq!((drive.nand.programs, drive.nand.erases), (20 + 17 * 8, 17 * 2));
}

/// With as many log blocks as logical blocks a log block is merged only when it is full: of 5 x 8 + 1 writes to one logical block, none
/// at its place, each after a full 8 begins with a full merge.
#[test]
fn bast_merges_a_log_block_when_it_is_full() {
    let mut drive = filled(Map::Bast { log_blocks: 4 }, 4, 1);
    write(&mut drive, (0..5 * 8 + 1).map(|number| (number * 3 + 1) % 8));
    let full = MergeCounters { merges: 5, copied_units: 5 * 8, padded_units: 0, erases: 5 * 2 };
    assert_eq!(merged(&drive, MergeKind::Full), full);
    assert_eq!((drive.nand.programs, drive.nand.erases), (41 + 40, 10));
}

/// FAST: random log blocks of m = 8 units, k = 2 of them. 8 units of 8 different logical blocks fill the first one, then the second. The
/// 17th write merges the first one away: a full merge for each of the 8 logical blocks in it. Each takes the newest copies of its units
/// from the second log block too (the same 8 logical blocks are there), so that this holds nothing any more: when the third one is full it
/// is erased without a merge. So 3 x 8 + 1 writes cost 8 full merges of 8 copies, 8 + 1 erases then, and one more.
#[test]
fn fast_merges_every_logical_block_of_the_oldest_log_block() {
    let mut drive = filled(Map::Fast { log_blocks: 2 }, 8, 1);
    let round = |round: u32| (0..8).map(move |block| block * UNITS + round);
    write(&mut drive, round(1).chain(round(2)));
    assert_eq!((drive.nand.programs, drive.nand.erases), (16, 0));
    write(&mut drive, [3]);
    let full = MergeCounters { merges: 8, copied_units: 8 * 8, padded_units: 0, erases: 8 + 1 };
    assert_eq!(merged(&drive, MergeKind::Full), full);
    assert_eq!((drive.nand.programs, drive.nand.erases), (16 + 64 + 1, 9));
    write(&mut drive, (1..8).map(|block| block * UNITS + 3).chain([4]));
    assert_eq!(merged(&drive, MergeKind::Full), MergeCounters { erases: 8 + 1 + 1, ..full });
    assert_eq!((drive.nand.programs, drive.nand.erases), (16 + 64 + 9, 10));
}

/// FAST, where the log blocks hold different logical blocks: each victim costs as many full merges as there are logical blocks in it.
/// 16 logical blocks in turns of 8: every round of 8 writes from the third on merges a log block with 8 logical blocks away, none of
/// which is in the other one.
#[test]
fn fast_merges_as_many_blocks_as_the_victim_holds() {
    let mut drive = filled(Map::Fast { log_blocks: 2 }, 16, 1);
    let round = |round: u32| (0..8).map(move |at| (round % 2 * 8 + at) * UNITS + 1 + round / 2);
    for number in 0..6 {
        write(&mut drive, round(number));
        let victims = u64::from(number.saturating_sub(1));
        let full = MergeCounters {
            merges: 8 * victims,
            copied_units: 64 * victims,
            padded_units: 0,
            erases: 9 * victims,
        };
        assert_eq!(merged(&drive, MergeKind::Full), full, "round {number}");
        assert_eq!(drive.nand.programs, u64::from(8 * (number + 1)) + 64 * victims);
    }
}

/// FAST: a write of the first unit of a logical block opens the sequential log block, and ends the one before. Its 7 other units are copied
/// behind (partial merge), as Lee et al. describe for random writes that happen to hit a beginning.
#[test]
fn fast_begins_a_sequential_log_block_with_every_first_unit() {
    let mut drive = filled(Map::Fast { log_blocks: 2 }, 8, 1);
    write(&mut drive, [0, 3 * UNITS, 5 * UNITS]);
    let partial = MergeCounters { merges: 2, copied_units: 14, padded_units: 0, erases: 2 };
    assert_eq!(merged(&drive, MergeKind::Partial), partial);
    assert_eq!(drive.map.view().counters.merges.iter().map(|kind| kind.merges).sum::<u64>(), 2);
}

/// Only pages 1, 2, 3 and 6 of a logical block hold anything. A full merge programs superpages 0 to 6, of which 0, 4 and 5 are padding; the
/// last one is not programmed.
#[test]
fn units_without_a_copy_become_padding() {
    for map in [Map::Bast { log_blocks: 1 }, Map::Fast { log_blocks: 1 }] {
        let mut drive = filled(map, 2, 1);
        (0..UNITS).for_each(|lpn| drive.trim(lpn));
        write(&mut drive, [6, 2, 3, 1, 6, 6, 2, 3, 6]);
        let full = MergeCounters { merges: 1, copied_units: 4, padded_units: 3, erases: 2 };
        assert_eq!(merged(&drive, MergeKind::Full), full, "{map:?}");
        assert_eq!(drive.nand.programs, 9 + 7);
    }
}
