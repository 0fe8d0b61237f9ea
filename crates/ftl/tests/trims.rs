//! Translation pages with trims: the times at which they may be written.

use crate::common;
use pellucid_flash::Lpn;
use pellucid_ftl::{Durability, FtlConfig, Operation, PageMap, Plan, Stream};

const SUPERPAGE: u32 = 4;

fn map() -> PageMap {
    let durability = Durability::Journal { checkpoint_every: 1 << 40 };
    let config = FtlConfig { durability, ..common::config() };
    PageMap::new(&config, &common::layout(1, 32, 64, SUPERPAGE), &[]).expect("room enough")
}

/// Pages of three translation pages of 4,096 bytes, 16 of which are no entries.
const PAGES: [Lpn; 3] = [Lpn(0), Lpn(1020), Lpn(2040)];

fn plan(map: &mut PageMap) -> Plan {
    map.place(Stream::Host, None, &PAGES).expect("an empty drive")
}

#[test]
fn translation_pages_wait_for_programs_before_their_trims_alone_and_leave_together() {
    let mut map = map();
    let before = plan(&mut map);
    PAGES.into_iter().for_each(|page| map.trim(page));
    let _after = plan(&mut map);
    let point = map.flush_point();
    assert!(!map.flush_to(point));
    let early = common::next_map_program(&mut map);
    assert_eq!(early, None, "a program that was planned before the trim is under way");
    map.ended(Operation::Program(before.id), true);
    assert!(!map.flush_to(point));
    let (program, units) =
        common::next_map_program(&mut map).expect("what came after the trim is no reason to wait");
    let pages =
        common::metadata(&map, program.id, units).into_iter().map(|(mark, _)| mark.0 - map.user_units());
    assert_eq!(pages.collect::<Vec<_>>(), [0, 1, 2]);
    map.ended(Operation::Program(program.id), true);
    assert!(map.flush_to(point));
}

/// A page is programmed and trimmed again and again, always with a program under way: the first trims reach the media all the same.
#[test]
fn trims_that_go_on_do_not_keep_a_translation_page_from_the_media() {
    let mut map = map();
    let mut before = plan(&mut map);
    map.trim(PAGES[0]);
    let point = map.flush_point();
    let rounds = (0..50).find(|_| {
        map.flush_to(point);
        while let Some((program, _)) = common::next_map_program(&mut map) {
            map.ended(Operation::Program(program.id), true);
        }
        let after = plan(&mut map);
        map.trim(PAGES[0]);
        map.ended(Operation::Program(std::mem::replace(&mut before, after).id), true);
        map.flush_to(point)
    });
    assert!(rounds.is_some_and(|rounds| rounds < 4), "{rounds:?}");
    let last = map.flush_point();
    assert!(!map.flush_to(last), "the last trim is not there yet");
    map.check();
}

/// A failed program of translation pages is planned again by itself.
#[test]
fn a_translation_page_whose_program_fails_is_written_again() {
    let mut map = map();
    map.trim(PAGES[0]);
    let data = plan(&mut map);
    map.ended(Operation::Program(data.id), true);
    PAGES.into_iter().for_each(|page| map.trim(page));
    let point = map.flush_point();
    for ok in [false, false, true] {
        assert!(!map.flush_to(point));
        let (program, units) = common::next_map_program(&mut map).expect("wanted");
        assert_eq!(units, 3);
        map.ended(Operation::Program(program.id), ok);
        map.check();
    }
    assert!(map.flush_to(point));
    assert_eq!(common::next_map_program(&mut map), None);
}
