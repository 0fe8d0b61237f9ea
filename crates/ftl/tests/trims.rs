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
    assert!(!writes.add_trimmed(&mut map), "a program that was planned before the trim is under way");
    assert_eq!(writes.count(), 0);
    map.program_ended(before.id, true);
    assert!(writes.add_trimmed(&mut map), "what was planned after the trim is no reason to wait");
    let SegmentPlan::Program(_, batch) = writes.plan(&mut map, STRIPE) else { panic!("there is room") };
    assert_eq!(batch.iter().map(|&(segment, _)| segment).collect::<Vec<_>>(), [0, 1, 2]);
}
