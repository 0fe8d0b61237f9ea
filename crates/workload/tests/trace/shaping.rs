//! Fitting to a drive.

use pellucid_workload::trace::Action::{Read, Trim, Write};
use pellucid_workload::trace::{Action, AddressPolicy, Format, ReadOptions, Record, ShapeStats, Shaping};

use super::{named, reader, record};

const MIB: u64 = 1 << 20;

/// Shapes a trace of `(action, offset, length)` requests, 1 us apart, of streams 0 and 1 in turn. The first is on
/// line 2.
fn shape(requests: &[(Action, u64, u64)], shaping: Shaping) -> (Result<Vec<Record>, String>, ShapeStats) {
    let mut trace = String::from("fio version 3 iolog\n");
    for (i, (action, offset, length)) in requests.iter().enumerate() {
        let action = format!("{action:?}").to_lowercase();
        trace += &format!("{i} stream.{} {action} {offset} {length}\n", i % 2);
    }
    let mut shaped = reader(trace, &named(Format::FioV3)).unwrap().shaped(shaping).unwrap();
    let mut all = Vec::new();
    while let Some(next) = shaped.next() {
        match next {
            Ok(record) => all.push(record),
            Err(error) => {
                assert!(shaped.next().is_none(), "the first error ends the iteration");
                return (Err(error.to_string()), shaped.stats());
            }
        }
    }
    (Ok(all), shaped.stats())
}

fn with(addresses: AddressPolicy, capacity_bytes: u64) -> Shaping {
    Shaping { addresses, ..Shaping::new(capacity_bytes, 4096) }
}

fn extents(records: &[Record]) -> Vec<(u64, u64)> {
    records.iter().map(|record| (record.offset_bytes, record.length_bytes)).collect()
}

#[test]
fn requests_are_widened_to_sectors_and_empty_ones_dropped() {
    let requests = [(Write, 512, 512), (Read, 4096, 8192), (Read, 4095, 2), (Write, 512, 0)];
    let (all, stats) = shape(&requests, Shaping::new(MIB, 4096));
    assert_eq!(
        all.unwrap(),
        [record(0, Write, 0, 4096, 0), record(1_000, Read, 4096, 8192, 1), record(2_000, Read, 0, 8192, 0)]
    );
    assert_eq!(stats, ShapeStats { taken: 4, widened: 2, empty: 1, ..ShapeStats::default() });
}

#[test]
fn refuse_names_line_and_capacity() {
    let requests = [(Write, MIB - 4096, 4096), (Read, MIB - 4096, 4097)];
    let (error, stats) = shape(&requests, with(AddressPolicy::Refuse, MIB + 1));
    assert_eq!(
        error.unwrap_err(),
        "t: line 3: the request (offset 1044480 B, length 4097 B) ends beyond the drive's 1048577 B; \
         allowed: a larger drive, or folded or compacted addresses"
    );
    assert_eq!(stats.taken, 2);
}

#[test]
fn fold_wraps_splits_and_clips() {
    let drive = 10 * 4096;
    let requests = [
        (Write, 12 * 4096, 4096),
        (Write, 8 * 4096, 4 * 4096),
        (Trim, 3 * 4096, 100 * 4096),
        (Read, 0, drive),
    ];
    let (all, stats) = shape(&requests, with(AddressPolicy::Fold, drive + 4095));
    let expected = [(2, 1), (8, 2), (0, 2), (3, 7), (0, 3), (0, 10)].map(|(at, n)| (at * 4096, n * 4096));
    assert_eq!(extents(&all.unwrap()), expected);
    assert_eq!(stats, ShapeStats { taken: 4, moved: 3, split: 2, clipped: 1, ..ShapeStats::default() });
}

#[test]
fn only_requests_above_a_gibibyte_are_split() {
    let gib = 1 << 30;
    let requests = [(Write, 4096, gib), (Trim, 0, 2 * gib + 4096), (Read, 0, 64 * MIB)];
    let (all, stats) = shape(&requests, with(AddressPolicy::Fold, 4 * gib));
    let expected = [(4096, gib), (0, gib), (gib, gib), (2 * gib, 4096), (0, 64 * MIB)];
    assert_eq!(extents(&all.unwrap()), expected);
    assert_eq!(stats, ShapeStats { taken: 3, split: 1, ..ShapeStats::default() });
}

#[test]
fn compact_places_extents_in_order_of_first_touch() {
    let requests = [
        (Write, 700 * MIB + 8192, 4096),
        (Write, 699 * MIB, 2 * MIB), // its second half lies at 0, its first half after it
        (Read, 701 * MIB, 4096),
        (Read, 700 * MIB + MIB - 4096, 8192), // split, as 701 is not behind 700 any more
        (Write, 702 * MIB, 8192),
        (Read, 701 * MIB + 4096, 2 * MIB - 4096), // 701 and 702 are neighbours
    ];
    let (all, stats) = shape(&requests, with(AddressPolicy::Compact, 4 * MIB));
    assert_eq!(
        extents(&all.unwrap()),
        [
            (8192, 4096),
            (MIB, MIB),
            (0, MIB),
            (2 * MIB, 4096),
            (MIB - 4096, 4096),
            (2 * MIB, 4096),
            (3 * MIB, 8192),
            (2 * MIB + 4096, 2 * MIB - 4096),
        ]
    );
    assert_eq!(stats, ShapeStats { taken: 6, moved: 6, split: 2, ..ShapeStats::default() });
}

#[test]
fn compact_refuses_what_does_not_fit() {
    let requests = [(Write, 9 * MIB, 4096), (Write, 5 * MIB, 4096), (Write, 9 * MIB, 4096), (Read, 0, 4096)];
    let expected = "the extents of 1048576 B that the trace touches exceed the drive's 3145727 B; \
                    allowed: a larger drive, fewer records, or folded addresses";
    let (error, stats) = shape(&requests, with(AddressPolicy::Compact, 3 * MIB - 1));
    assert_eq!(error.unwrap_err(), format!("t: line 5: {expected}"));
    assert_eq!(stats.taken, 4);
    let (error, _) = shape(&[(Write, 0, 1 << 44)], with(AddressPolicy::Compact, 3 * MIB - 1));
    assert_eq!(error.unwrap_err(), format!("t: line 2: {expected}"));
}

#[test]
fn compact_trims_only_what_was_touched() {
    let requests = [(Trim, 0, 9 * MIB), (Write, 5 * MIB, 4096), (Write, 2 * MIB, 4096), (Trim, MIB, 1 << 44)];
    let (all, stats) = shape(&requests, with(AddressPolicy::Compact, 2 * MIB));
    assert_eq!(extents(&all.unwrap()), [(0, 4096), (MIB, 4096), (MIB, MIB), (0, MIB)]);
    assert_eq!(stats.trims_cut, 2);
}

#[test]
fn time_limit_and_stream() {
    let requests = [(Read, 0, 4096); 7];
    let times = |shaping: Shaping| -> Vec<u64> {
        shape(&requests, shaping).0.unwrap().iter().map(|record| record.at.0).collect()
    };
    let plain = Shaping::new(MIB, 512);
    assert_eq!(times(Shaping { time_scale: 0.5, limit: Some(3), ..plain.clone() }), [0, 500, 1_000]);
    assert_eq!(times(Shaping { time_scale: 0.0, limit: Some(2), ..plain.clone() }), [0, 0]);
    let late = shape(&requests, Shaping { time_scale: 1e30, ..plain.clone() }).0.unwrap_err();
    assert!(late.starts_with("t: line 3: the time 1000 ns x 1"), "{late}");
    assert_eq!(times(Shaping { stream: Some(1), limit: Some(2), ..plain.clone() }), [1_000, 3_000]);
    let (_, stats) = shape(&requests, Shaping { stream: Some(1), ..plain });
    assert_eq!((stats.taken, stats.other_streams), (3, 4));
}

#[test]
fn unusable_settings_are_refused() {
    let refused = |shaping: Shaping| {
        let reader = reader("1 0 0 8 0\n", &ReadOptions::default()).unwrap();
        reader.shaped(shaping).err().expect("refused").to_string()
    };
    let plain = Shaping::new(MIB, 512);
    assert_eq!(
        refused(Shaping { time_scale: -1.0, ..plain.clone() }),
        "t: time_scale is -1; allowed: a finite number from 0"
    );
    assert_eq!(
        refused(Shaping { sector_bytes: 520, ..plain.clone() }),
        "t: sector_bytes is 520; allowed: a power of two from 512 to 65536"
    );
    assert_eq!(
        refused(Shaping { capacity_bytes: 511, ..plain.clone() }),
        "t: capacity_bytes is 511; allowed: at least one sector"
    );
    assert_eq!(
        refused(Shaping { capacity_bytes: MIB - 1, addresses: AddressPolicy::Compact, ..plain }),
        "t: capacity_bytes is 1048575; allowed: at least 1048576 to compact into"
    );
}
