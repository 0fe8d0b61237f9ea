//! Segments with trimmed pages: when they may be written.

mod common;

use pellucid_flash::Lpn;
use pellucid_ftl::{Durability, FtlConfig, PageMap, Plan, SegmentPlan, SegmentWrites, Stream};

const STRIPE: u32 = 4;

fn map() -> PageMap {
    let durability = Durability::Journal { checkpoint_every: 1 << 40 };
    let config = FtlConfig { durability, ..common::config() };
    PageMap::new(&config, &common::layout(1, 32, 64, STRIPE), &[]).expect("room enough")
}

/// Pages of three segments of 4,096 bytes, 16 of which are no entries.
const PAGES: [Lpn; 3] = [Lpn(0), Lpn(1020), Lpn(2040)];

fn plan(map: &mut PageMap) -> Plan {
    map.plan_program(Stream::Host, None, &PAGES).expect("an empty drive")
}

#[test]
fn segments_of_one_trim_wait_for_programs_before_it_alone_and_leave_together() {
    let mut map = map();
    let mut writes = SegmentWrites::default();
    let before = plan(&mut map);
    PAGES.into_iter().for_each(|page| map.trim(page));
    let _after = plan(&mut map);
    writes.add_trimmed(&mut map);
    assert_eq!(writes.count(), 0, "a program that was planned before the trim is under way");
    map.program_ended(before.id, true);
    writes.add_trimmed(&mut map);
    assert_eq!(writes.count(), 3, "what was planned after the trim is no reason to wait");
    let SegmentPlan::Program(_, batch) = writes.plan(&mut map, STRIPE) else { panic!("there is room") };
    assert_eq!(batch.iter().map(|&(segment, _)| segment).collect::<Vec<_>>(), [0, 1, 2]);
}

/// A page of a segment is programmed and trimmed again and again, always with a program under way: what was trimmed at first comes to the
/// media all the same.
#[test]
fn trims_that_go_on_do_not_keep_a_segment_from_the_media() {
    let mut map = map();
    let mut writes = SegmentWrites::default();
    let mut before = plan(&mut map);
    map.trim(PAGES[0]);
    let trims = map.trims();
    let rounds = (0..50).find(|_| {
        writes.add_trimmed(&mut map);
        while let SegmentPlan::Program(plan, batch) = writes.plan(&mut map, STRIPE) {
            map.program_ended(plan.id, true);
            batch.iter().for_each(|&(segment, _)| writes.ended(segment, true));
        }
        let after = plan(&mut map);
        map.trim(PAGES[0]);
        map.program_ended(std::mem::replace(&mut before, after).id, true);
        map.has_saved(trims)
    });
    assert!(rounds.is_some_and(|rounds| rounds < 4), "{rounds:?}");
    assert!(!map.has_saved(map.trims()), "the last trim is not there yet");
    map.check();
}
