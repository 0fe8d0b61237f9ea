//! For any bytes, reading and shaping end without a panic and keep their promises.

use pellucid_flash::SimTime;
use pellucid_workload::trace::{Action, AddressPolicy, BlockEvent, Format, ReadOptions, Record, Shaping};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{reader, records};

fn options() -> impl Strategy<Value = ReadOptions> {
    let formats: Vec<_> = Format::ALL.iter().copied().map(Some).chain([None]).collect();
    let events = vec![None, Some(BlockEvent::Queue), Some(BlockEvent::Issue), Some(BlockEvent::Complete)];
    (select(formats), select(events), select(vec![1, 512, u64::MAX])).prop_map(
        |(format, block_event, spc_lba_bytes)| ReadOptions {
            format,
            block_event,
            spc_lba_bytes,
            ..Default::default()
        },
    )
}

fn policies() -> impl Strategy<Value = AddressPolicy> {
    select(vec![AddressPolicy::Refuse, AddressPolicy::Fold, AddressPolicy::Compact])
}

/// Bytes that resemble the formats: words and numbers of all of them, between their separators.
fn near_traces() -> impl Strategy<Value = Vec<u8>> {
    let words = select(vec![
        "fio version 2 iolog\n",
        "fio version 3 iolog\n",
        "Read",
        "Write",
        "R",
        "W",
        "Q",
        "D",
        "C",
        "FWS",
        "8,0",
        "+",
        "[x]",
        "(",
        "add",
        "read",
        "write",
        "trim",
        "sync",
        "wait",
        "stream.1",
        "0.5",
        "CPU0 (",
        "Total (",
        "531e779d5b4d8b4c2f3b1a0a9c8d7e6f",
        "\x07tae",
        "\u{1f}\u{8b}",
    ]);
    let word = prop_oneof![
        3 => words.prop_map(str::to_owned),
        3 => (0u64..10).prop_map(|number| number.to_string()),
        1 => any::<u64>().prop_map(|number| number.to_string()),
    ];
    let separator = select(vec![",", " ", "\t", ", ", "\n", "\r\n"]);
    vec((word, separator), 0..60).prop_map(|words| {
        words.into_iter().map(|(word, separator)| word + separator).collect::<String>().into_bytes()
    })
}

/// Reads and shapes everything, checking what the types promise.
fn exercise(content: &[u8], options: &ReadOptions, shaping: Shaping) -> Result<(), TestCaseError> {
    if let Ok(reader) = reader(content, options) {
        let mut latest = SimTime::ZERO;
        for record in reader.map_while(Result::ok) {
            prop_assert!(record.at >= latest);
            prop_assert!(record.offset_bytes.checked_add(record.length_bytes).is_some());
            latest = record.at;
        }
    }
    if let Ok(reader) = reader(content, options) {
        let (capacity_bytes, sector_bytes) = (shaping.capacity_bytes, u64::from(shaping.sector_bytes));
        let shaped = reader.shaped(shaping).map_err(|error| TestCaseError::fail(error.to_string()))?;
        for record in shaped.map_while(Result::ok).filter(|record| record.action != Action::Flush) {
            prop_assert!(record.length_bytes > 0);
            prop_assert!(record.offset_bytes % sector_bytes == 0 && record.length_bytes % sector_bytes == 0);
            prop_assert!(record.offset_bytes + record.length_bytes <= capacity_bytes);
        }
    }
    Ok(())
}

fn shaping() -> impl Strategy<Value = Shaping> {
    (policies(), 1u64 << 20..1 << 24, select(vec![512, 4096, 65_536])).prop_map(
        |(addresses, capacity_bytes, sector_bytes)| Shaping {
            addresses,
            ..Shaping::new(capacity_bytes, sector_bytes)
        },
    )
}

/// Requests inside a small address space, where policies meet every border.
fn requests() -> impl Strategy<Value = Vec<Record>> {
    let actions = select(vec![Action::Read, Action::Write, Action::Trim, Action::Flush]);
    let request = (0u64..5_000, actions, 0u64..1 << 26, 0u64..1 << 23, 0u32..4);
    vec(request, 0..40).prop_map(|requests| {
        let mut at = SimTime::ZERO;
        let mut all: Vec<Record> = Vec::new();
        for (gap_us, action, offset_bytes, length_bytes, stream) in requests {
            let flush = action == Action::Flush;
            let (offset_bytes, length_bytes) = if flush { (0, 0) } else { (offset_bytes, length_bytes) };
            if !all.is_empty() {
                at.0 += gap_us * 1_000;
            }
            all.push(Record { at, action, offset_bytes, length_bytes, stream });
        }
        all
    })
}

/// The requests as a log of fio: version 2 waits between lines, version 3 gives their times.
fn fio(format: Format, records: &[Record]) -> Vec<u8> {
    let timed = format == Format::FioV3;
    let line = |at_us: u64, rest: String| if timed { format!("{at_us} {rest}\n") } else { rest + "\n" };
    let mut log = format!("fio version {} iolog\n", if timed { 3 } else { 2 });
    for stream in records.iter().map(|record| record.stream).collect::<std::collections::BTreeSet<_>>() {
        log += &line(0, format!("stream.{stream} add"));
        log += &line(0, format!("stream.{stream} open"));
    }
    let mut waited_us = 0;
    for Record { at, action, offset_bytes, length_bytes, stream } in records {
        let at_us = at.0 / 1_000;
        if !timed && at_us > waited_us {
            log += &format!("stream.{stream} wait {} 0\n", at_us - waited_us);
            waited_us = at_us;
        }
        let action = match action {
            Action::Read => "read",
            Action::Write => "write",
            Action::Trim => "trim",
            Action::Flush => "sync",
        };
        log += &line(at_us, format!("stream.{stream} {action} {offset_bytes} {length_bytes}"));
    }
    log.into_bytes()
}

proptest! {
    #[test]
    fn arbitrary_bytes(content in vec(any::<u8>(), 0..600), options in options(), shaping in shaping()) {
        exercise(&content, &options, shaping)?;
    }

    #[test]
    fn bytes_near_the_formats(content in near_traces(), options in options(), shaping in shaping()) {
        exercise(&content, &options, shaping)?;
    }

    #[test]
    fn bytes_behind_a_magic_number(
        magic in select(vec![&b"\x1f\x8b\x08\0"[..], b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18", b"\x07tae", b"eat\x07"]),
        content in vec(any::<u8>(), 0..600), options in options(), shaping in shaping(),
    ) {
        exercise(&[magic, &content].concat(), &options, shaping)?;
    }

    #[test]
    fn logs_of_fio_are_read_as_they_were_written(all in requests()) {
        for format in [Format::FioV2, Format::FioV3] {
            prop_assert_eq!(&records(format, fio(format, &all)), &all);
        }
    }

    /// Compacting is one-to-one: two sectors of the trace never share one of the drive, and a sector never moves.
    #[test]
    fn compacting_is_one_to_one(all in requests()) {
        let shaping = Shaping { addresses: AddressPolicy::Compact, ..Shaping::new(1 << 27, 4096) };
        let options = ReadOptions::default();
        let shaped = reader(fio(Format::FioV3, &all), &options).unwrap().shaped(shaping).unwrap();
        let drive = sectors(shaped.map(Result::unwrap).filter(|record| record.action != Action::Trim));
        let trace = sectors(all.into_iter().filter(|record| record.action != Action::Trim));
        prop_assert_eq!(trace.len(), drive.len());
        let there: std::collections::BTreeMap<_, _> = trace.iter().zip(&drive).collect();
        let back: std::collections::BTreeMap<_, _> = drive.iter().zip(&trace).collect();
        for (from, to) in trace.iter().zip(&drive) {
            prop_assert_eq!((there[from], back[to]), (to, from));
        }
    }
}

/// Every sector of 4 KiB that the records touch, in order.
fn sectors(records: impl Iterator<Item = Record>) -> Vec<u64> {
    let touched = records.filter(|record| record.length_bytes > 0).flat_map(|record| {
        record.offset_bytes / 4096..(record.offset_bytes + record.length_bytes).div_ceil(4096)
    });
    touched.collect()
}
