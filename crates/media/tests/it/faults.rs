//! Wear and faults, by list and by seed; forks.

use crate::common::*;
use pellucid_flash::{BlockId, Ppa};
use pellucid_media::{
    Health, ListedFault, Media, MediaConfig, MediaError, Outcome, ReadResult, RuleError, StoreKind,
};

fn with_list(list: Vec<ListedFault>) -> MediaConfig {
    let mut config = MediaConfig { store: StoreKind::None, ..small() };
    config.faults.list = list;
    config
}

#[test]
fn a_block_ends_with_its_endurance() {
    let mut media = open(&MediaConfig { endurance: Some(3), ..small() });
    for cycle in 0..3 {
        assert_eq!(program(&mut media, 0, 0, cycle, 1), Outcome::Ok, "cycle {cycle}");
        assert_eq!(erase(&mut media, 0), Outcome::Ok, "cycle {cycle}");
    }
    assert_eq!(program(&mut media, 0, 0, 9, 1), Outcome::Failed);
    assert_eq!(read(&mut media, Ppa(0), 0), (ReadResult::Uncorrectable, 0));
    assert_eq!(media.array().health(BlockId(0)), Health::Good, "the caller retires it");
    assert_eq!(erase(&mut media, 0), Outcome::Failed);
    assert_eq!(
        (media.array().health(BlockId(0)), media.array().erase_count(BlockId(0))),
        (Health::GrownBad, 3)
    );
    assert_eq!(program(&mut media, 1, 0, 9, 1), Outcome::Ok, "others live on");
}

#[test]
fn a_listed_factory_bad_block_is_bad_and_unreadable() {
    let mut media = open(&with_list(vec![ListedFault::FactoryBad { die: 1, block: 2 }]));
    let bad: Vec<u32> = (0..16).filter(|&b| media.array().health(BlockId(b)) == Health::FactoryBad).collect();
    assert_eq!(bad, [10]);
    let at = first(&media, 10, 0);
    let error = RuleError::BadBlock { die: 1, block: 2, health: Health::FactoryBad };
    assert_eq!(media.program_begin(at, 1), Err(error));
    assert_eq!(media.erase_begin(BlockId(10)), Err(error));
    assert_eq!((media.array().spare(at), read(&mut media, at, 0)), (None, (ReadResult::Uncorrectable, 0)));
    media.retire(BlockId(10));
    assert_eq!(media.array().health(BlockId(10)), Health::FactoryBad);
}

#[test]
fn a_listed_program_fails_once_the_block_is_old_enough() {
    let fault = ListedFault::ProgramFail { die: 0, block: 1, superpage: 1, after_erases: 2 };
    let mut media = open(&with_list(vec![fault]));
    for erases in 0..4 {
        assert_eq!(program(&mut media, 1, 0, 0, 1), Outcome::Ok);
        let expected = if erases < 2 { Outcome::Ok } else { Outcome::Failed };
        assert_eq!(program(&mut media, 1, 1, 3, 1), expected, "{erases} erases");
        assert_eq!(program(&mut media, 1, 2, 6, 1), Outcome::Ok);
        let failed = first(&media, 1, 1);
        assert_eq!(media.array().spare(failed).is_none(), erases >= 2);
        assert_eq!(read(&mut media, first(&stamps(), 1, 2), 0), (GOOD, 6));
        assert_eq!(erase(&mut media, 1), Outcome::Ok);
    }
}

#[test]
fn a_listed_erase_fails_from_its_number_on() {
    let mut media = open(&with_list(vec![ListedFault::EraseFail { die: 0, block: 1, after_erases: 3 }]));
    program(&mut media, 1, 0, 0, 1);
    assert_eq!([erase(&mut media, 1), erase(&mut media, 1)], [Outcome::Ok; 2]);
    program(&mut media, 1, 0, 0, 1);
    assert_eq!(erase(&mut media, 1), Outcome::Failed);
    assert_eq!(
        (media.array().health(BlockId(1)), media.array().erase_count(BlockId(1))),
        (Health::GrownBad, 2)
    );
    let at = first(&media, 1, 0);
    assert_eq!(read(&mut media, at, 0), (ReadResult::Uncorrectable, 0));
}

#[test]
fn a_listed_read_fails_for_its_attempts() {
    let mut media = open(&with_list(vec![
        ListedFault::ReadFail { die: 0, block: 0, superpage: 0, attempts: 2 },
        ListedFault::ReadFail { die: 0, block: 0, superpage: 1, attempts: u32::MAX },
    ]));
    assert_eq!(read(&mut media, Ppa(0), 0).0, ReadResult::Erased);
    program(&mut media, 0, 0, 10, 1);
    program(&mut media, 0, 1, 20, 1);
    let attempts = [0, 1, 2, 3].map(|a| read(&mut media, Ppa(1), a));
    let bad = (ReadResult::Uncorrectable, 0);
    assert_eq!(attempts, [bad, bad, (GOOD, 11), (GOOD, 11)]);
    assert_eq!([0, 99, u32::MAX].map(|a| read(&mut media, Ppa(3), a)), [bad; 3]);
    assert!(media.array().spare(Ppa(3)).is_some());
}

#[test]
fn seeded_faults_strike_at_their_rate_and_repeat() {
    let mut config = MediaConfig { store: StoreKind::None, ..small() };
    (config.geometry.blocks, config.geometry.channels) = (512, 8);
    config.faults.factory_bad = 0.05;
    config.faults.program_fail = 0.1;
    config.faults.erase_fail = 0.2;
    config.faults.read_fail = 0.3;
    let run = |config: &MediaConfig| {
        let mut media = open(config);
        let mut counts = [0u32; 4];
        let mut order = Vec::new();
        for block in 0..media.layout().blocks {
            if media.array().health(BlockId(block)) == Health::FactoryBad {
                counts[0] += 1;
                continue;
            }
            let programmed = program(&mut media, block, 0, 1, 1);
            counts[1] += u32::from(programmed == Outcome::Failed);
            if programmed == Outcome::Ok {
                let at = first(&media, block, 0);
                counts[3] += u32::from(read(&mut media, at, 0).0 == ReadResult::Uncorrectable);
            }
            let erased = erase(&mut media, block);
            counts[2] += u32::from(erased == Outcome::Failed);
            order.push((programmed, erased));
        }
        (counts, order)
    };
    let (counts, order) = run(&config);
    for (count, expected) in counts.into_iter().zip([205, 389, 778, 1051]) {
        assert!(count.abs_diff(expected) < expected / 5, "{count}, expected about {expected}");
    }
    assert_eq!(run(&config).1, order);
    // One kind of fault does not affect the others.
    config.faults.read_fail = 0.0;
    assert_eq!(run(&config).1, order);
    config.seed = 2;
    assert_ne!(run(&config).1, order);
}

#[test]
fn a_read_may_succeed_when_tried_again() {
    let mut config = MediaConfig { store: StoreKind::None, ..small() };
    config.faults.read_fail = 0.5;
    let mut media = open(&config);
    program(&mut media, 0, 0, 10, 1);
    let good = (0..1_000).filter(|&a| read(&mut media, Ppa(0), a) == (GOOD, 10)).count();
    assert!((400..600).contains(&good), "{good}");
}

#[test]
fn faults_outside_the_media_are_refused() {
    for (fault, key) in [
        (ListedFault::FactoryBad { die: 2, block: 0 }, "faults.list.die"),
        (ListedFault::EraseFail { die: 0, block: 8, after_erases: 0 }, "faults.list.block"),
        (ListedFault::ReadFail { die: 0, block: 0, superpage: 4, attempts: 1 }, "faults.list.superpage"),
    ] {
        match Media::new(&with_list(vec![fault])) {
            Err(MediaError::Config { key: found, .. }) => assert_eq!(found, key),
            other => panic!("{other:?}"),
        }
    }
    let mut config = small();
    config.faults.read_fail = 1.5;
    let text = Media::new(&config).unwrap_err().to_string();
    assert_eq!(text, "faults.read_fail = 1.5: allowed: a probability from 0 to 1");
}

#[test]
fn a_fork_has_the_same_past_and_the_same_future_and_shares_nothing() {
    let mut config = small();
    config.faults.program_fail = 0.3;
    config.timing.op_spread = 0.3;
    let mut media = open(&config);
    for superpage in 0..3 {
        program(&mut media, 0, superpage, 10 * superpage, 1);
    }
    let mut fork = media.clone();
    let future = |media: &mut Media| {
        let mut seen = Vec::new();
        for block in 1..16 {
            for superpage in 0..4 {
                seen.push((program(media, block, superpage, 7, 1), media.program_ns(Ppa(0))));
            }
        }
        seen
    };
    let seen = future(&mut media);
    erase(&mut media, 0);
    assert_eq!(future(&mut fork), seen);
    for superpage in 0..3 {
        let at = first(&fork, 0, superpage);
        if fork.array().spare(at).is_some() {
            assert_eq!(read(&mut fork, at, 0), (GOOD, 10 * superpage));
        }
        assert_eq!(read(&mut media, at, 0), (ReadResult::Erased, 0));
    }
}

#[test]
fn an_untouched_drive_costs_little_and_a_used_one_pays_per_block() {
    let mut config = MediaConfig { store: StoreKind::None, ..small() };
    // 4 TiB: 16 KiB pages and units, 4 KiB sectors.
    config.geometry = pellucid_flash::Geometry {
        channels: 16,
        ways: 8,
        dies: 1,
        planes: 1,
        blocks: 8192,
        pages: 256,
        page_bytes: 16_384,
        spare_bytes: 1024,
        sector_bytes: 4096,
        unit_bytes: 16_384,
        multi_plane: false,
        one_shot_pages: 1,
    };
    let mut media = open(&config);
    assert_eq!(media.layout().media_bytes(), 4 << 40);
    let empty = media.store().memory_bytes();
    assert!(empty < 32 << 20, "{empty}");
    program(&mut media, 12_345, 0, 0, 1);
    let per_block = media.store().memory_bytes() - empty;
    let full = empty + per_block * u64::from(media.layout().blocks);
    assert!(full < 7 << 30, "{full} bytes when full");
}
