//! Failing flash below zones, and its traces after a power cut.

use super::*;

pub(super) fn program_failure() {
    let mut bench = Bench::new(
        ZONED,
        &[
            "drive.buffer.write=\"write-back\"",
            "drive.media.faults.list=[{kind=\"program-fail\",die=0,block=0,superpage=2},{kind=\"program-fail\",die=0,block=1,superpage=1}]",
        ],
    );
    assert_eq!(write(&mut bench, zone(0), 128).status, Status::Success);
    assert_eq!(flush_all(&mut bench), Status::Success);
    for _ in 0..2 {
        assert_eq!(state(&mut bench, 0), ZoneState::Full);
        expect_data(&mut bench, zone(0), 128);
        bench.power_cut();
    }
    assert_eq!(bench.drive.counters().program_failures, 2);
    assert_eq!(act(&mut bench, 0, ZoneAction::Reset), Status::Success);
    bench.power_cut();
    assert_eq!(state(&mut bench, 0), ZoneState::Empty, "what bad blocks held does not come back");
}

/// A drive whose zone 0 finds no good block any more after its first superpages. More has no place than the log can keep.
pub(super) fn starved_zone() -> Bench {
    let fail = |block: u32| {
        let superpage = u32::from(block == 0);
        format!("{{kind=\"program-fail\",die=0,block={block},superpage={superpage}}}")
    };
    let list: Vec<String> = (0..6).map(fail).collect();
    let mut bench = Bench::new(
        ZONED,
        &["drive.buffer.write=\"write-through\"", &format!("drive.media.faults.list=[{}]", list.join(","))],
    );
    let status = write(&mut bench, zone(0), 128).status;
    assert_eq!(status, Status::WriteFault);
    bench
}

pub(super) fn read_only() {
    let mut bench = starved_zone();
    assert_eq!(state(&mut bench, 0), ZoneState::ReadOnly);
    expect_data(&mut bench, zone(0), SUPERPAGE);
    assert_eq!(write(&mut bench, at(0, 8), 1).status, Status::ZoneReadOnly);
    assert_eq!(act(&mut bench, 0, ZoneAction::Offline), Status::Success);
    assert_eq!(bench.read(zone(0), 1).status, Status::ZoneOffline);
    assert_eq!(write(&mut bench, zone(0), 1).status, Status::ZoneOffline);
}

pub(super) fn states_stay() {
    let mut bench = starved_zone();
    assert_eq!(bench.changed_zones(), [zone(0)], "a changed zone is told of");
    for _ in 0..2 {
        bench.power_cut();
        assert_eq!(state(&mut bench, 0), ZoneState::ReadOnly);
        expect_data(&mut bench, zone(0), SUPERPAGE);
        assert_eq!(write(&mut bench, at(0, 24), 1).status, Status::ZoneReadOnly);
    }
    assert_eq!(act(&mut bench, 0, ZoneAction::Reset), Status::ZoneInvalidTransition);
    assert_eq!(act(&mut bench, 0, ZoneAction::Offline), Status::Success);
    for _ in 0..2 {
        bench.power_cut();
        assert_eq!(state(&mut bench, 0), ZoneState::Offline);
        assert_eq!(bench.read(zone(0), 1).status, Status::ZoneOffline);
    }
    // Others go on, and their entries of the log do not push that out.
    for round in 0..40 {
        assert_eq!(bench.write(zone(1), 3, round).status, Status::Success);
        assert_eq!(flush_all(&mut bench), Status::Success);
        assert_eq!(act(&mut bench, 1, ZoneAction::Reset), Status::Success);
    }
    bench.power_cut();
    assert_eq!([0, 1].map(|n| state(&mut bench, n)), [ZoneState::Offline, ZoneState::Empty]);
}

pub(super) fn open_zones_close() {
    let mut bench = Bench::new(ZONED, &[]);
    write(&mut bench, zone(0), 3);
    act(&mut bench, 1, ZoneAction::Open);
    write(&mut bench, zone(1), 9);
    act(&mut bench, 2, ZoneAction::Open);
    act(&mut bench, 3, ZoneAction::Open);
    act(&mut bench, 3, ZoneAction::Close);
    act(&mut bench, 4, ZoneAction::Finish);
    flush_all(&mut bench);
    bench.power_cut();
    let states = [0, 1, 2, 3, 4].map(|n| state(&mut bench, n));
    use ZoneState::{Closed, Empty, Full};
    assert_eq!(states, [Closed, Closed, Empty, Empty, Full]);
    assert!(bench.changed_zones().is_empty(), "that is no news");
}

/// Each block of die 0 takes one superpage, so that the seventh of its column, superpage 12, finds none; a part of it was flushed before, the
/// rest after.
pub(super) fn failed_zone_keeps() {
    let fail = |block| format!("{{kind=\"program-fail\",die=0,block={block},superpage=1}}");
    let list: Vec<String> = (0..6).map(fail).collect();
    let faults = format!("drive.media.faults.list=[{}]", list.join(","));
    let mut bench = Bench::new(ZONED, &["drive.buffer.write=\"write-back\"", &faults]);
    assert_eq!(write(&mut bench, zone(0), 100).status, Status::Success);
    assert_eq!(flush_all(&mut bench), Status::Success);
    assert_eq!(write(&mut bench, at(0, 100), 4).status, Status::Success);
    while bench.step() {}
    assert_eq!(state(&mut bench, 0), ZoneState::ReadOnly);
    expect_data(&mut bench, zone(0), 104);
    assert_eq!(flush_all(&mut bench), Status::Success);
    for _ in 0..2 {
        bench.power_cut();
        assert_eq!(state(&mut bench, 0), ZoneState::ReadOnly);
        expect_data(&mut bench, zone(0), 104);
    }
}

pub(super) fn lost_sector() {
    let mut bench =
        Bench::new(ZONED, &["drive.media.faults.list=[{kind=\"read-fail\",die=0,block=0,superpage=0}]"]);
    write(&mut bench, zone(0), 32);
    flush_all(&mut bench);
    assert!(!info(&mut bench, 0).reset_recommended);
    assert_eq!(bench.read(zone(0), 1).status, Status::UnrecoveredRead);
    expect_data(&mut bench, at(0, 8), 8);
    assert!(info(&mut bench, 0).reset_recommended);
    assert_eq!(bench.changed_zones(), [zone(0)]);
    assert_eq!(bench.read(zone(0), 1).status, Status::UnrecoveredRead);
    assert!(bench.changed_zones().is_empty(), "it was told");
    // The block goes with the reset, and another one takes its place.
    assert_eq!(act(&mut bench, 0, ZoneAction::Reset), Status::Success);
    assert_eq!((info(&mut bench, 0).reset_recommended, bench.drive.bad_blocks()), (false, (0, 1)));
    write(&mut bench, zone(0), 32);
    flush_all(&mut bench);
    expect_data(&mut bench, zone(0), 32);
}
