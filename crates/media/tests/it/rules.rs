//! The rules of flash, and the effects of operations.

use crate::common::*;
use pellucid_flash::{BlockId, Lpn, Ppa};
use pellucid_media::{
    Faults, Health, ListedFault, Media, MediaConfig, Outcome, ReadResult, RuleError, Spare, StoreKind,
};

/// Everything that an observer can see of the small drive.
fn look(media: &mut Media) -> Vec<String> {
    let mut seen = Vec::new();
    for block in 0..media.layout().blocks {
        let id = BlockId(block);
        seen.push(format!(
            "{:?}",
            (media.array().next_superpage(id), media.array().erase_count(id), media.array().health(id))
        ));
    }
    for unit in 0..media.layout().units {
        seen.push(format!("{:?} {:?}", media.array().spare(Ppa(unit)), read(media, Ppa(unit), 0)));
    }
    seen
}

/// Data, padding, a failure and a refusal, in memory and in a file.
#[test]
fn a_program_at_once_leaves_what_one_with_a_beginning_and_an_end_leaves() {
    let files = ["at-once", "in-steps"].map(TempPath::new);
    let in_files = files.each_ref().map(TempPath::config);
    for configs in [[small(), small()], in_files] {
        let fault = ListedFault::ProgramFail { die: 0, block: 1, superpage: 1, after_erases: 0 };
        let faults = || Faults { list: vec![fault.clone()], ..Faults::default() };
        let [mut once, mut steps] = configs.map(|config| open(&MediaConfig { faults: faults(), ..config }));
        for superpage in 0..3 {
            let lpns = [Lpn(10 * superpage), Lpn::NONE, Lpn(10 * superpage + 2)];
            let data = lpns.map(|lpn| images(&steps, 2, lpn.0));
            let (at, sequence) = (first(&steps, 1, superpage), 5 + u64::from(superpage));
            steps.program_begin(at, sequence).unwrap();
            for (unit, (&lpn, images)) in
                (at.0..).zip(lpns.iter().zip(&data)).filter(|(_, (l, _))| **l != Lpn::NONE)
            {
                steps.put_unit(Ppa(unit), lpn, images);
            }
            let outcome = once.program(at, sequence, &lpns, &data.concat());
            assert_eq!(outcome, Ok(steps.program_end(at)));
            assert_eq!(outcome == Ok(Outcome::Failed), superpage == 1);
        }
        let before = look(&mut steps);
        assert_eq!(look(&mut once), before);
        let refused = once.program(first(&steps, 1, 0), 9, &[], &[]);
        assert_eq!(refused, Err(RuleError::NotErased { die: 0, block: 1, superpage: 0 }));
        assert_eq!(look(&mut once), before);
    }
}

#[test]
fn every_broken_rule_is_named_and_changes_nothing() {
    let mut media = stamps();
    program(&mut media, 1, 0, 10, 5);
    media.retire(BlockId(2));
    media.program_begin(first(&media, 3, 0), 6).unwrap();
    media.erase_begin(BlockId(9)).unwrap();
    let at = |block, superpage| first(&stamps(), block, superpage);
    let before = look(&mut media);
    let wrong: [(Ppa, u64, RuleError); 9] = [
        (at(1, 0), 7, RuleError::NotErased { die: 0, block: 1, superpage: 0 }),
        (at(1, 3), 7, RuleError::OutOfOrder { die: 0, block: 1, superpage: 3, unit: 0, next_superpage: 1 }),
        (
            Ppa(at(1, 1).0 + 2),
            7,
            RuleError::OutOfOrder { die: 0, block: 1, superpage: 1, unit: 2, next_superpage: 1 },
        ),
        (at(8, 1), 7, RuleError::OutOfOrder { die: 1, block: 0, superpage: 1, unit: 0, next_superpage: 0 }),
        (at(2, 0), 7, RuleError::BadBlock { die: 0, block: 2, health: Health::GrownBad }),
        (at(3, 0), 7, RuleError::Busy { die: 0, block: 3 }),
        (at(9, 0), 7, RuleError::Busy { die: 1, block: 1 }),
        (at(1, 1), 4, RuleError::Sequence { die: 0, block: 1, superpage: 1, sequence: 4, first: 5 }),
        (
            at(1, 1),
            5 + u64::from(u32::MAX),
            RuleError::Sequence { die: 0, block: 1, superpage: 1, sequence: 4_294_967_300, first: 5 },
        ),
    ];
    for (ppa, sequence, error) in wrong {
        assert_eq!(media.program_begin(ppa, sequence), Err(error));
        let place = match error {
            RuleError::OutOfOrder { die, block, .. } | RuleError::NotErased { die, block, .. } => {
                (die, block)
            }
            RuleError::BadBlock { die, block, .. } | RuleError::Busy { die, block } => (die, block),
            RuleError::Sequence { die, block, .. } => (die, block),
        };
        let text = error.to_string();
        assert!(text.contains(&format!("die {} block {}", place.0, place.1)), "{text}");
    }
    for (block, error) in [
        (2, RuleError::BadBlock { die: 0, block: 2, health: Health::GrownBad }),
        (3, RuleError::Busy { die: 0, block: 3 }),
        (9, RuleError::Busy { die: 1, block: 1 }),
    ] {
        assert_eq!(media.erase_begin(BlockId(block)), Err(error));
    }
    assert_eq!(look(&mut media), before);
    // The largest sequence that the spare area can hold is accepted.
    assert_eq!(program(&mut media, 1, 1, 20, 5 + u64::from(u32::MAX) - 1), Outcome::Ok);
    let spare = media.array().spare(at(1, 1)).unwrap();
    assert_eq!(spare, Spare { lpn: Lpn(20), sequence: 5 + u64::from(u32::MAX) - 1 });
}

#[test]
fn a_full_block_must_be_erased() {
    let mut media = stamps();
    for superpage in 0..4 {
        program(&mut media, 0, superpage, 3 * superpage, 1);
    }
    assert_eq!(media.array().next_superpage(BlockId(0)), 4);
    let again = media.program_begin(first(&media, 0, 3), 2);
    assert_eq!(again, Err(RuleError::NotErased { die: 0, block: 0, superpage: 3 }));
    assert_eq!(erase(&mut media, 0), Outcome::Ok);
    assert_eq!((media.array().next_superpage(BlockId(0)), media.array().erase_count(BlockId(0))), (0, 1));
    for unit in 0..12 {
        assert_eq!(media.array().spare(Ppa(unit)), None);
        assert_eq!(read(&mut media, Ppa(unit), 0), (ReadResult::Erased, 0));
    }
    program(&mut media, 0, 0, 90, 2);
    assert_eq!(read(&mut media, Ppa(1), 0), (GOOD, 91));
}

#[test]
fn units_not_given_are_padding_even_where_old_data_lay() {
    for store in [StoreKind::None, StoreKind::Ram] {
        let mut media = open(&MediaConfig { store, ..small() });
        program(&mut media, 0, 0, 10, 1);
        erase(&mut media, 0);
        media.program_begin(Ppa(0), 2).unwrap();
        let data = images(&media, 2, 77);
        media.put_unit(Ppa(1), Lpn(77), &data);
        assert_eq!(media.program_end(Ppa(0)), Outcome::Ok);
        for (unit, lpn, stamp) in [(0, Lpn::NONE, 0), (1, Lpn(77), 77), (2, Lpn::NONE, 0)] {
            assert_eq!(media.array().spare(Ppa(unit)), Some(Spare { lpn, sequence: 2 }));
            assert_eq!(read(&mut media, Ppa(unit), 0), (GOOD, stamp));
        }
    }
}

#[test]
fn sectors_are_read_one_by_one() {
    let mut media = open(&small());
    media.program_begin(Ppa(0), 1).unwrap();
    let data: Vec<u8> = (0..1024u32).map(|i| (i / 3) as u8).collect();
    media.put_unit(Ppa(0), Lpn(0), &data);
    media.program_end(Ppa(0));
    let mut out = vec![9; 512];
    assert_eq!(media.read(Ppa(0), 1, &mut out, 0), GOOD);
    assert_eq!(out, data[512..]);
    assert_eq!(media.read(Ppa(0), 0, &mut [], 0), GOOD);
    assert_eq!(media.read(Ppa(3), 0, &mut out, 0), ReadResult::Erased);
    assert_eq!(out, [0; 512]);
}

#[test]
fn copyback_takes_content_and_logical_page() {
    let mut media = open(&small());
    program(&mut media, 0, 0, 10, 1);
    // Within the block, and into another one.
    for (block, superpage) in [(0, 1), (4, 0)] {
        let at = first(&media, block, superpage);
        media.program_begin(at, 8).unwrap();
        media.copy_unit(Ppa(2), at);
        media.copy_unit(Ppa(0), Ppa(at.0 + 1));
        media.copy_unit(Ppa(11), Ppa(at.0 + 2));
        assert_eq!(media.program_end(at), Outcome::Ok);
        assert_eq!(media.array().spare(at), Some(Spare { lpn: Lpn(12), sequence: 8 }));
        assert_eq!(read(&mut media, at, 0), (GOOD, 12));
        assert_eq!(read(&mut media, Ppa(at.0 + 1), 0), (GOOD, 10));
        assert_eq!(media.array().spare(Ppa(at.0 + 2)), Some(Spare { lpn: Lpn::NONE, sequence: 8 }));
    }
}

#[test]
fn copyback_of_unreadable_data_never_becomes_good() {
    let mut media = stamps();
    media.program_begin(Ppa(0), 1).unwrap();
    media.power_cut();
    let at = first(&media, 1, 0);
    media.program_begin(at, 2).unwrap();
    media.copy_unit(Ppa(0), at);
    assert_eq!(media.program_end(at), Outcome::Failed);
    assert_eq!(read(&mut media, at, 0), (ReadResult::Uncorrectable, 0));
    assert_eq!(program(&mut media, 1, 1, 30, 3), Outcome::Ok);
}

#[test]
fn a_power_cut_tears_the_begun_superpage_only() {
    let mut media = stamps();
    program(&mut media, 0, 0, 10, 1);
    media.program_begin(first(&media, 0, 1), 2).unwrap();
    let data = images(&media, 2, 5);
    media.put_unit(Ppa(3), Lpn(5), &data);
    assert_eq!(read(&mut media, Ppa(3), 0), (ReadResult::Uncorrectable, 0), "in operation");
    assert_eq!(media.array().spare(Ppa(3)), None);
    media.power_cut();
    assert_eq!(media.array().next_superpage(BlockId(0)), 2);
    assert_eq!(read(&mut media, Ppa(0), 0), (GOOD, 10));
    assert_eq!(media.array().spare(Ppa(3)), None);
    assert_eq!(read(&mut media, Ppa(3), 0), (ReadResult::Uncorrectable, 0));
    let again = media.program_begin(first(&media, 0, 1), 3);
    assert_eq!(again, Err(RuleError::NotErased { die: 0, block: 0, superpage: 1 }));
    assert_eq!(program(&mut media, 0, 2, 20, 3), Outcome::Ok);
    assert_eq!(read(&mut media, Ppa(6), 0), (GOOD, 20));
    // After an erase no trace of the torn superpage is left.
    erase(&mut media, 0);
    for superpage in 0..4 {
        program(&mut media, 0, superpage, 40, 4);
    }
    assert_eq!(read(&mut media, Ppa(3), 0), (GOOD, 40));
}

#[test]
fn a_half_erased_block_must_be_erased_again() {
    let mut media = stamps();
    program(&mut media, 0, 0, 10, 1);
    media.erase_begin(BlockId(0)).unwrap();
    assert_eq!(read(&mut media, Ppa(0), 0).0, ReadResult::Uncorrectable, "in operation");
    media.power_cut();
    assert_eq!((media.array().next_superpage(BlockId(0)), media.array().erase_count(BlockId(0))), (4, 0));
    for unit in 0..12 {
        assert_eq!(media.array().spare(Ppa(unit)), None);
        assert_eq!(read(&mut media, Ppa(unit), 0), (ReadResult::Uncorrectable, 0));
    }
    let refused = media.program_begin(Ppa(0), 2);
    assert_eq!(refused, Err(RuleError::NotErased { die: 0, block: 0, superpage: 0 }));
    assert_eq!(erase(&mut media, 0), Outcome::Ok);
    assert_eq!(program(&mut media, 0, 0, 20, 2), Outcome::Ok);
    assert_eq!(read(&mut media, Ppa(0), 0), (GOOD, 20));
}

#[test]
fn a_retired_block_keeps_its_data_and_takes_no_more() {
    let mut media = stamps();
    program(&mut media, 0, 0, 10, 1);
    media.retire(BlockId(0));
    assert_eq!(media.array().health(BlockId(0)), Health::GrownBad);
    assert_eq!(read(&mut media, Ppa(0), 0), (GOOD, 10));
    let bad = RuleError::BadBlock { die: 0, block: 0, health: Health::GrownBad };
    assert_eq!(media.program_begin(Ppa(3), 2), Err(bad));
    assert_eq!(media.erase_begin(BlockId(0)), Err(bad));
}

#[test]
#[should_panic(expected = "no program has begun")]
fn a_unit_without_a_begun_program_is_a_bug() {
    let mut media = stamps();
    let data = images(&media, 2, 5);
    media.put_unit(Ppa(0), Lpn(0), &data);
}

#[test]
#[should_panic(expected = "sectors beyond the unit")]
fn a_read_beyond_the_unit_is_a_bug() {
    stamps().read(Ppa(0), 1, &mut [0; 8], 0);
}
